"""When cone cuts are looked for: where they are likely to gain more than branching would."""

from __future__ import annotations

import math

from vhagar.relaxation.lp.cone_separation import MOST_LPS
from vhagar.relaxation.lp.region_model import Evaluation, RegionModel
from vhagar.search.incumbent import Incumbent

# The most work in cones, relative to that of the nodes' LPs.
_SHARE = 1.0
# What a node takes beside its LP, in simplex iterations times entries: 5 ms, where a core does 8e8
# in a second. Without it, small LPs would leave cuts hardly any time.
# Measured: PERFORMANCE.md, "what a node takes beside its LP".
_BESIDE = 4e6
# Shares of the gap that each cut must cut off, and all cuts of a node together at the least.
_WORTH, _TOGETHER = 0.01, 0.1
# The same where nothing is attacked and little is left to gain: the share of the work, the two
# shares of the gap, and the LPs in the search of one cone.
# Measured: PERFORMANCE.md, "cuts of single copies".
_SHARE_LATE, _WORTH_LATE, _TOGETHER_LATE, _MOST_LPS_LATE = 4.0, 0.003, 0.02, 1000
# Share of what its cost would gain by branching that a round of cuts must gain at its node, if all
# nodes are of its region: the others gain by it, too.
# Measured: PERFORMANCE.md, "cone cuts earlier".
_HERE = 0.3
# Cuts in one LP, relative to its rows.
_MOST = 1.0
# Units and pixels of all cuts of a region together: a checker takes 2**22.
_MOST_TERMS = 2**21
# What cuts gain of what they might, by what is known of the outputs, before that was observed.
_REALISED = 0.5
# Weight of the newest observation in a mean.
_NEWEST = 0.1


class ConeCutting:
    """Decides at which nodes cuts are looked for.

    To lower a bound by k times what one decision gains takes some `2^k` nodes. A round of cuts that
    gains as much is worth that many, and more, because later nodes of the region have the cuts,
    too. So cuts are looked for where they are likely to gain enough for what they cost.

    It is `alone` with the first copy where nothing is attacked.
    """

    def __init__(self, wanted: bool, alone: bool = False) -> None:
        self._wanted, self._alone = wanted, alone
        self._node_work, self._nodes, self._rounds = 0.0, 0, 0
        self._nodes_of: dict[int, int] = {}  # by the numbers of their regions' lists of cuts
        self._decision_gain = 0.0
        self._realised = _REALISED

    def count(self, work: float, region_model: RegionModel) -> None:
        """Count the work of a node's LP."""
        self._node_work += work + _BESIDE
        self._nodes += 1
        number = region_model.formula.cuts.number
        self._nodes_of[number] = self._nodes_of.get(number, 0) + 1

    def learn(self, parent: float, upper: float) -> None:
        """Observe what a decision gained."""
        if math.isfinite(parent - upper):
            self._decision_gain += _NEWEST * (max(parent - upper, 0.0) - self._decision_gain)

    def is_due(
        self,
        evaluation: Evaluation,
        region_model: RegionModel,
        incumbent: Incumbent,
        late: bool = False,
    ) -> bool:
        """Whether there may be cuts, and time for them."""
        if not self._wanted or not evaluation.complete:
            return False
        if incumbent.settles(evaluation.upper):
            return False
        if not self.has_room(region_model):
            return False
        separator, share = region_model.separator, _SHARE_LATE if late else _SHARE
        return bool(separator.layers) and separator.work <= share * self._node_work

    def is_late(self, upper: float, incumbent: Incumbent) -> bool:
        """Whether cuts are the best that there is, whatever decisions gain.

        `upper` is a node's bound before its LP, one of the largest.
        """
        return self._alone and incumbent.is_near(upper)

    @staticmethod
    def has_room(region_model: RegionModel) -> bool:
        """Whether the LP of a region takes more cuts."""
        cuts = region_model.formula.cuts.cuts
        if sum(cut.terms for cut in cuts) > _MOST_TERMS:
            return False
        return len(cuts) <= _MOST * region_model.model.model.row_count

    def least(
        self, upper: float, region_model: RegionModel, incumbent: Incumbent, late: bool = False
    ) -> tuple[float, float, int]:
        """By how much a solution must violate a cut, and all cuts together; LPs for each."""
        gap = max(upper - incumbent.lower, 0.0)
        if late:
            return _WORTH_LATE * gap, _TOGETHER_LATE * gap, _MOST_LPS_LATE
        return _WORTH * gap, self._enough(gap, region_model), MOST_LPS

    def _enough(self, gap: float, region_model: RegionModel) -> float:
        """What cuts must cut off to be worth as many nodes as they cost."""
        separator = region_model.separator
        cost = separator.work / self._rounds if self._rounds else separator.expected_work
        nodes = max(cost * self._nodes / max(self._node_work, 1.0), 2.0)
        by_branching = self._decision_gain * math.log2(nodes)
        served = self._nodes_of.get(region_model.formula.cuts.number, 0) / max(self._nodes, 1)
        here = 1 - (1 - _HERE) * served
        return max(_TOGETHER * gap, here * by_branching / self._realised)

    def observe(self, before: float, after: float, possible: float) -> None:
        """Observe what a round of cuts gained of what was possible."""
        self._rounds += 1
        if possible > 0 and math.isfinite(before - after):
            share = min(max((before - after) / possible, 0.05), 1.0)
            self._realised += 2 * _NEWEST * (share - self._realised)
