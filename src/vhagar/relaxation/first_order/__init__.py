"""The twin dual by first-order steps in torch: many starts at once, on a CPU or a GPU.

Everything here is float32 and proposes only. What it finds are multipliers; the bounds that count
are computed from them in float64 with outward rounding (`vhagar.relaxation.twin_dual`).
"""
