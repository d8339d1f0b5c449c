"""The twin dual by first-order steps: many starts at once, in numpy or in torch, on CPU or GPU.

This package only proposes multipliers. The bounds that count are computed from them in float64 with
outward rounding (`vhagar.relaxation.twin_dual`).
"""
