"""One table that maps every solver's statuses to ours."""

from __future__ import annotations

from enum import Enum


class SolveStatus(Enum):
    """The outcome of a solve."""

    OPTIMAL = "solved to optimality"
    INFEASIBLE = "no feasible point"
    STOPPED = "stopped early"
    FAILED = "failed; nothing is known"


_OPTIMAL, _INFEASIBLE = SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE
_STOPPED, _FAILED = SolveStatus.STOPPED, SolveStatus.FAILED

# Every status of a solver, by the name that its package uses. An unknown status is a failure. None
# of our models is unbounded, so a solver that says so has failed as well.
STATUSES: dict[str, dict[str, SolveStatus]] = {
    "highs": {
        "kOptimal": _OPTIMAL,
        "kInfeasible": _INFEASIBLE,
        "kTimeLimit": _STOPPED,
        "kInterrupt": _STOPPED,
        "kHighsInterrupt": _STOPPED,
        "kIterationLimit": _STOPPED,
        "kSolutionLimit": _STOPPED,
        "kMemoryLimit": _STOPPED,
        "kObjectiveBound": _FAILED,  # never asked for, and known to be wrong
        "kObjectiveTarget": _FAILED,
        "kUnbounded": _FAILED,
        "kUnboundedOrInfeasible": _FAILED,
        "kLoadError": _FAILED,
        "kModelEmpty": _FAILED,
        "kModelError": _FAILED,
        "kNotset": _FAILED,
        "kPostsolveError": _FAILED,
        "kPresolveError": _FAILED,
        "kSolveError": _FAILED,
        "kUnknown": _FAILED,
    },
    "scip": {
        "optimal": _OPTIMAL,
        "gaplimit": _OPTIMAL,  # asked for where there are products, which it only approaches
        "infeasible": _INFEASIBLE,
        "timelimit": _STOPPED,
        "userinterrupt": _STOPPED,
        "terminate": _STOPPED,
        "nodelimit": _STOPPED,
        "totalnodelimit": _STOPPED,
        "stallnodelimit": _STOPPED,
        "memlimit": _STOPPED,
        "primallimit": _STOPPED,
        "duallimit": _STOPPED,
        "sollimit": _STOPPED,
        "bestsollimit": _STOPPED,
        "restartlimit": _STOPPED,
        "unbounded": _FAILED,
        "inforunbd": _FAILED,
        "unknown": _FAILED,
    },
    "gurobi": {
        "OPTIMAL": _OPTIMAL,
        "INFEASIBLE": _INFEASIBLE,
        "TIME_LIMIT": _STOPPED,
        "INTERRUPTED": _STOPPED,
        "ITERATION_LIMIT": _STOPPED,
        "NODE_LIMIT": _STOPPED,
        "SOLUTION_LIMIT": _STOPPED,
        "WORK_LIMIT": _STOPPED,
        "MEM_LIMIT": _STOPPED,
        "USER_OBJ_LIMIT": _STOPPED,
        "CUTOFF": _FAILED,  # no cutoff is ever given
        "INF_OR_UNBD": _FAILED,
        "INPROGRESS": _FAILED,
        "LOADED": _FAILED,
        "LOCALLY_INFEASIBLE": _FAILED,
        "LOCALLY_OPTIMAL": _FAILED,
        "NUMERIC": _FAILED,
        "SUBOPTIMAL": _FAILED,
        "UNBOUNDED": _FAILED,
    },
}
