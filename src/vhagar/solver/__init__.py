"""Linear and mixed-integer models as plain arrays, and the programs that solve them.

`simplex.py` keeps one LP in HiGHS and solves it again at every node, from the last basis;
`highs_lp.py` translates between the two. `backends/` passes a whole MIP to one of several solvers.
"""
