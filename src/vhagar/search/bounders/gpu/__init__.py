"""Thousands of nodes at once, by primal-dual steps in torch on a GPU (or a CPU).

Float32 searches here, float64 decides: what counts of the multipliers that come out is only what
the twin dual formula makes of them (`formula`). What survives goes to the exact linear programs.
"""
