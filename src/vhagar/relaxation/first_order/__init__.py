"""The twin dual by first-order steps: many starts at once, in numpy or in torch, on CPU or GPU.

Everything here proposes only. What it finds are multipliers; the bounds that count are computed
from them in float64 with outward rounding (`vhagar.relaxation.twin_dual`).
"""
