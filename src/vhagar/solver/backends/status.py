"""One table that maps every solver's statuses to ours."""

from __future__ import annotations

from enum import Enum


class SolveStatus(Enum):
    """The outcome of a solve."""

    OPTIMAL = "solved to optimality"
    INFEASIBLE = "no feasible point"
    STOPPED = "stopped early"
    FAILED = "failed; nothing is known"


def _table(**words: str) -> dict[str, SolveStatus]:
    """The statuses of a solver by the words for them, which are separated by blanks."""
    return {
        word: SolveStatus[status.upper()] for status, own in words.items() for word in own.split()
    }


# Every status of a solver, by the name that its package uses. An unknown status is a failure. None
# of our models is unbounded, so a solver that says so has failed as well.
STATUSES: dict[str, dict[str, SolveStatus]] = {
    "highs": _table(
        optimal="kOptimal",
        infeasible="kInfeasible",
        stopped="kTimeLimit kInterrupt kHighsInterrupt kIterationLimit kSolutionLimit kMemoryLimit",
        # The first is never asked for, and known to be wrong.
        failed="kObjectiveBound kObjectiveTarget kUnbounded kUnboundedOrInfeasible kLoadError "
        "kModelEmpty kModelError kNotset kPostsolveError kPresolveError kSolveError kUnknown",
    ),
    "scip": _table(
        # The second is asked for where there are products, of which it only approaches the optimum.
        optimal="optimal gaplimit",
        infeasible="infeasible",
        stopped="timelimit userinterrupt terminate nodelimit totalnodelimit stallnodelimit "
        "memlimit primallimit duallimit sollimit bestsollimit restartlimit",
        failed="unbounded inforunbd unknown",
    ),
    "gurobi": _table(
        optimal="OPTIMAL",
        infeasible="INFEASIBLE",
        stopped="TIME_LIMIT INTERRUPTED ITERATION_LIMIT NODE_LIMIT SOLUTION_LIMIT WORK_LIMIT "
        "MEM_LIMIT USER_OBJ_LIMIT",
        # No cutoff is ever given.
        failed="CUTOFF INF_OR_UNBD INPROGRESS LOADED LOCALLY_INFEASIBLE LOCALLY_OPTIMAL NUMERIC "
        "SUBOPTIMAL UNBOUNDED",
    ),
}
