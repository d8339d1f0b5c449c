"""Faults to plant: a few characters of the source each, which someone could write in good faith.

`at` has the numbers of the exact oracle's cases that show the fault; `test` names a test that fails
with it, for faults that no interval shows: the engines do not believe solvers, so a solver's trap
that is walked into costs time or a witness, not soundness.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    module: str
    changes: tuple[tuple[str, str], ...]
    at: tuple[int, ...] = (40, 232, 196)
    engine: str = "bab"
    test: str | None = None


def _one(module: str, old: str, new: str, *at: int, engine: str = "bab") -> Fault:
    return Fault(module, ((old, new),), at or (40, 232, 196), engine)


def _tested(module: str, old: str, new: str, test: str) -> Fault:
    return Fault(module, ((old, new),), test=test)


_TWIN = "vhagar.relaxation.twin_dual"
_CORNERS = "vhagar.relaxation.corners"
_HEXAGON = "vhagar.relaxation.hexagon"
_INTERVAL = "vhagar.relaxation.interval"
_BOUND = "vhagar.relaxation.lp.node_bound"
_REGION_MODEL = "vhagar.relaxation.lp.region_model"
_SOLVER = "vhagar.search.node_solver"
_KEEPER = "vhagar.result.interval_keeper"
_WITNESS = "vhagar.result.witness"
_HIGHS = "vhagar.solver.backends.highs"
_TARGET = "vhagar.search.mip.target"
_ENCODING = "vhagar.search.mip.encoding"
_TRAPS = "tests/solver/test_highs_traps.py"

RELAXATION = {
    "a bound tightened too far": _one(
        _HEXAGON,
        "return Hexagons(low, high, low_p, high_p, gap_low, gap_high, ratio, self.linear)",
        "return Hexagons(low, 0.9 * high + 0.1 * low, low_p, high_p, gap_low, gap_high, ratio)",
    ),
    "a gap between the copies tightened too far": _one(
        _HEXAGON,
        "gap_high = np.where(equal, 0.0, np.minimum(gap_high,",
        "gap_high = np.where(equal, 0.0, 0.9 * np.minimum(gap_high,",
    ),
    "rounding inward": Fault(
        _HEXAGON,
        (
            (
                "    return np.nextafter(values, -np.inf)",
                "    return values + 1e-5 * abs(values)",
            ),
            ("    return np.nextafter(values, np.inf)", "    return values - 1e-5 * abs(values)"),
        ),
        (73, 236),
    ),
    "a corner forgotten": Fault(
        _CORNERS,
        (
            ("in enumerate(corners):", "in list(enumerate(corners))[1:13]:"),
            ("amax(value, axis=0)", "amax(value[1:13], axis=0)"),
        ),
        test="tests/relaxation/test_corners.py::test_no_pair_of_a_hexagon_exceeds_the_offset",
    ),
    "the copies swapped": _one(
        _CORNERS,
        "z, z_p = hexagons.after(s), hexagons.after(t)",
        "z, z_p = hexagons.after(t), hexagons.after(s)",
    ),
    "the sign of a multiplier flipped": Fault(
        _CORNERS,
        (
            ("value -= q * self.t[:, None]", "value += q * self.t[:, None]"),
            ("add_product(value, q, t, spare, -1)", "add_product(value, q, t, spare)"),
        ),
    ),
    "an offset not paid": _one(
        _TWIN, "state.constant + offsets.sum(axis=1)", "state.constant + 0 * offsets.sum(axis=1)"
    ),
    "the multipliers of one rule with the offset of another": _tested(
        "vhagar.relaxation.quick_multipliers",
        "return p, q, r",
        "return *_multipliers(_rules(seen.hexagons, a, b)[0], a, b), r",
        "tests/relaxation/test_one_dual.py::test_the_quick_choice_is_the_same_everywhere",
    ),
    "a bias forgotten": _one(_TWIN, "constant + (p + q) @ bias", "constant + p @ bias"),
    "float32 for speed": _one(
        _TWIN,
        "p, q = layer.pull(p), layer.pull(q)",
        "p, q = (np.float64(np.float32(layer.pull(part))) for part in (p, q))",
        1,
        136,
        13,
        73,
    ),
    "the rounding errors not added": _one(
        _TWIN,
        "np.nextafter(total + 2.0 * state.error + 8 * HALF_ULP * scale, np.inf)",
        "total - 1e-8 * scale",
        0,
    ),
    "NaN as a bound": _one(
        "vhagar.relaxation.starts",
        "return np.where(np.isnan(proven), np.inf, proven)",
        "return np.nan_to_num(proven * np.nan)",
    ),
    "treated as active where it only nearly is": _one(
        _HEXAGON,
        "(self.lower >= 0) & (self.lower_p >= 0)",
        "(self.upper > 0) & (self.lower_p >= 0)",
        44,
    ),
    "treated as inactive where it only nearly is": _one(
        _HEXAGON,
        "(self.upper <= 0) & (self.upper_p <= 0)",
        "(self.upper <= -0.3 * self.lower) & (self.upper_p <= -0.3 * self.lower_p)",
        40,
        232,
        196,
        44,
        236,
    ),
    "treated as equal where only ordered": _one(
        _HEXAGON,
        "(self.gap_lower == 0) & (self.gap_upper == 0)",
        "(self.gap_lower == 0)",
        196,
    ),
    "the order of the copies reversed": _one(
        "vhagar.relaxation.interval_hexagons",
        "rises, falls = (positive.times(moves)",
        "falls, rises = (positive.times(moves)",
        196,
    ),
    "intervals without the negative weights": _one(
        _INTERVAL,
        "weights = layer.absolute.times(",
        "weights = layer.mapped(lambda weight: np.maximum(weight, 0)).times(",
    ),
    "the confidence of another class as the first bound": _one(
        "vhagar.verify",
        "Bounds.over(problem.domain), problem.source)",
        "Bounds.over(problem.domain), (problem.source + 1) % 3)",
        232,
    ),
    "refined by the value that the steps estimated": _one(
        "vhagar.relaxation.refinement",
        "found[:, neurons] = bounds.bound(layer,",
        "found[:, neurons] = 0.7 * bounds.bound(layer,",
        40,
    ),
}
_DEFINITE = "vhagar.relaxation.positive_definite"
_DEFINITE_TEST = "tests/relaxation/test_positive_definite.py"
DEFINITENESS = {
    "a factorisation without the shift": _tested(
        _DEFINITE,
        "    removed = np.full(len(matrix), _shift(diagonal))",
        "    removed = np.zeros(len(matrix))",
        f"{_DEFINITE_TEST}::test_the_shift_exceeds_the_error_of_the_factorisation",
    ),
    "a shift for one operation": _tested(
        _DEFINITE,
        "operations = (size + _EXTRA_OPERATIONS) * HALF_ULP",
        "operations = 0.1 * HALF_ULP",
        f"{_DEFINITE_TEST}::test_the_shift_exceeds_the_error_of_the_factorisation",
    ),
    "the radius of a matrix forgotten": _tested(
        _DEFINITE,
        "    if deviation.ndim:",
        "    if deviation.ndim > 2:",
        f"{_DEFINITE_TEST}::test_an_entrywise_radius_covers_every_matrix_in_it",
    ),
}
_SPECTRAL = "vhagar.relaxation.spectral"
_SPECTRAL_TESTS = "tests/relaxation/spectral/test_spectral_bound.py"
SPECTRAL = {
    "a slope that deviates by less than a half": _tested(
        f"{_SPECTRAL}.expansion",
        "picking = _picking(slopes[j]) * 0.5",
        "picking = _picking(slopes[j]) * 0.25",
        f"{_SPECTRAL_TESTS}::test_on_a_single_path_the_bound_is_attained",
    ),
    "slopes that are taken for 0": _tested(
        f"{_SPECTRAL}.slopes",
        " & _clearly_off(second[k])",
        "",
        f"{_SPECTRAL_TESTS}::test_what_is_known_of_slopes_and_changes_holds",
    ),
    "a norm without a proof": _tested(
        f"{_SPECTRAL}.norms",
        "        if _is_below(gram, square, radius):",
        "        if square >= 0:",
        "tests/relaxation/spectral/test_norms.py::test_a_proposal_that_is_too_small_is_not_believed",
    ),
    "a layer's way round forgotten": _tested(
        f"{_SPECTRAL}.bound",
        "for j in range(1, layers + 1) for i in range(j)]",
        "for j in range(1, layers + 1) for i in range(min(j, 1))]",
        f"{_SPECTRAL_TESTS}::test_on_a_single_path_the_bound_is_attained",
    ),
    "a checker that does not look at what is left of a factorisation": _tested(
        "vhagar_check.definite",
        "    return all(bool((part >= least * (1 + share) + TINY).all()) for part in left)",
        "    return all(bool(np.isfinite(part).all()) for part in left)",
        "tests/check/test_definite.py::test_a_wrong_factor_is_not_believed",
    ),
    "a checker that believes norms": _tested(
        "vhagar_check.spectral_prover",
        "        if square >= size:",
        "        if square >= 0.0:",
        "tests/check/test_spectral.py::test_forgeries_are_refused",
    ),
    "a checker that forgets underflow in a norm": _tested(
        "vhagar_check.spectral_prover",
        " + self._push(0 * right[None], i, j, True, UNDERFLOW) + UNDERFLOW",
        " + UNDERFLOW",
        "tests/check/test_spectral_prover.py::test_underflow_in_a_norm_is_counted",
    ),
    "a norm that forgets underflow": _tested(
        f"{_SPECTRAL}.norms",
        "        rounding += length(left * block.chain.lost()) * length(1 / right)",
        "        rounding += 0.0",
        "tests/relaxation/spectral/test_norms.py::test_underflow_in_a_chain_is_counted",
    ),
    "a checker that believes states of neurons": _tested(
        "vhagar_check.quadratic",
        "            if doubtful.any() and not self._is_exact(",
        "            if doubtful.all() and not self._is_exact(",
        "tests/check/test_quadratic.py::test_states_that_are_not_proved_are_refused",
    ),
    "a checker that counts with what is infinite": _tested(
        "vhagar_check.exact",
        "        if not np.isfinite(values).all():",
        "        if np.isnan(values).all():",
        "tests/check/test_numbers.py::test_what_is_not_finite_has_no_exact_value",
    ),
    "a checker that takes nearly off for off": _tested(
        "vhagar_check.quadratic",
        "                if value is None or value > 0:",
        "                if value is None or value > 1e-12:",
        "tests/check/test_quadratic.py::test_a_state_that_is_wrong_by_less_than_rounding_is_refused",
    ),
    "a checker that ties changes to darker inputs than there are": _tested(
        "vhagar_check.entering",
        "for end in (piece.domain.low, piece.domain.high))",
        "for end in (piece.domain.low, 0.9 * piece.domain.high))",
        "tests/check/test_quadratic.py::test_forgeries_of_ties_are_refused",
    ),
    "a checker that takes what is black for a linear function": _tested(
        "vhagar_check.moved",
        "        if black.any() and self.domain.low != 0:",
        "        if black.all() and self.domain.low != 0:",
        "tests/check/test_quadratic.py::test_nothing_is_linear_where_black_is_not_zero",
    ),
    "a checker that mixes slopes with signs": _tested(
        "vhagar_check.tree",
        '            if (record["kind"] == _SLOPE) != self.roots[node].slopes:',
        '            if (record["kind"] == _SLOPE) > self.roots[node].slopes:',
        "tests/check/test_quadratic.py::test_forgeries_are_refused",
    ),
    "a checker that forgets the box's share of the matrix": _tested(
        "vhagar_check.quadratic",
        "np.diag(slopes) - coupling - coupling.T - crossed)",
        "np.diag(slopes) - coupling - coupling.T)",
        "tests/check/test_quadratic.py::test_forgeries_are_refused",
    ),
    "a checker that believes slopes": _tested(
        "vhagar_check.spectral",
        "(layer == STILL)[~(off | ~differs)].any()",
        "(layer == STILL)[:0].any()",
        "tests/check/test_spectral.py::test_forgeries_are_refused",
    ),
}
_WINDOWS = "vhagar.relaxation.windows"
_WINDOW_TESTS = "tests/relaxation/windows/test_window_bound.py"
_WINDOW_PROOF_TESTS = "tests/check/test_window_proofs.py"
WINDOWS = {
    "corners that forget where the clip begins": _tested(
        f"{_WINDOWS}.boxes",
        "    turn = np.where(free | clipped, low, end - e)",
        "    turn = np.where(free | clipped, low, high)",
        f"{_WINDOW_TESTS}::test_boxes_bound_the_points_in_them",
    ),
    "a pixel's end that moves with the shift": _tested(
        f"{_WINDOWS}.boxes",
        "    low = np.where(mixed, np.minimum(low, begins), low)",
        "    low = np.where(mixed, np.maximum(low, begins), low)",
        f"{_WINDOW_TESTS}::test_boxes_bound_the_points_in_them",
    ),
    "lines that are steeper than the ReLU": _tested(
        f"{_WINDOWS}.boxes",
        "    return np.minimum(slope, 1.0) * values, both[:, 0]",
        "    return np.minimum(2 * slope, 1.5) * values, both[:, 0]",
        f"{_WINDOW_TESTS}::test_boxes_bound_the_points_in_them",
    ),
    "what multipliers leave of pixels forgotten": _tested(
        f"{_WINDOWS}.bound",
        "        return max(total + rest + _ROUNDING",
        "        return max(total + _ROUNDING",
        f"{_WINDOW_TESTS}::test_any_multipliers_bound_every_pair",
    ),
    "a checker that lets windows leave a tree too early": _tested(
        "vhagar_check.window_boxes",
        "                found[leaving] = np.maximum(found[leaving], own[done])",
        "                found[leaving] = own[done]",
        f"{_WINDOW_PROOF_TESTS}::test_corners_bound_the_points_of_a_box",
    ),
    "a checker that takes windows for convex": _tested(
        "vhagar_check.window_boxes",
        "    first = np.maximum(s, 0) - _below(t)",
        "    first = np.maximum(s, 0) - np.maximum(t, 0)",
        f"{_WINDOW_PROOF_TESTS}::test_corners_bound_the_points_of_a_box",
    ),
    "a checker that forgets what a normalisation takes off": _tested(
        "vhagar_check.first_stage",
        "            (value,) = layer.forward(layer.kernel, value[None]) + layer.bias",
        "            (value,) = layer.forward(layer.kernel, value[None])",
        "tests/check/test_first_stage.py::test_weights_and_biases_are_those_of_all_layers",
    ),
    "a checker that believes float64 where weights cancel": _tested(
        "vhagar_check.window_proofs",
        "        found[at] = exactly[which, units[at]]",
        "        found[at] = True",
        "tests/check/test_window_regions.py::test_weights_that_cancel_are_seen",
    ),
    "a checker that takes products that underflow for 0": _tested(
        "vhagar_check.first_stage",
        "            ways = layer.forward(passes, ways.astype(np.float64)) > 0",
        "            ways = size != 0",
        "tests/check/test_first_stage.py::test_ways_through_products_that_underflow_are_seen",
    ),
}
_BOXES = "vhagar.relaxation.input_boxes"
_BOXES_TESTS = "tests/relaxation/test_input_boxes.py"
BOXES = {
    "the function below taken for the one above": _tested(
        _BOXES,
        "        stacked = np.concatenate([self.above, self.below]).reshape(2 * entering, -1)",
        "        stacked = np.concatenate([self.above, self.above]).reshape(2 * entering, -1)",
        f"{_BOXES_TESTS}::test_functions_are_above_the_leads",
    ),
    "a chord that is too low": _tested(
        _BOXES,
        "np.maximum(np.maximum(-slope * low, (1 - slope) * high), 0.0)",
        "np.maximum(np.minimum(-slope * low, 0.9 * (1 - slope) * high), 0.0)",
        f"{_BOXES_TESTS}::test_functions_are_above_the_leads",
    ),
    "rounding of a stage forgotten": _tested(
        _BOXES,
        "        above[:, -1] += layer.bias[:, None] + error",
        "        above[:, -1] += layer.bias[:, None]",
        f"{_BOXES_TESTS}::test_functions_are_above_the_leads",
    ),
    "images that stay in the box": _tested(
        "vhagar.search.input_search",
        "    return Boxes(low, np.minimum(boxes.upper + limit + room, most))",
        "    return Boxes(low, np.minimum(boxes.upper + room, most))",
        "tests/search/test_input_search.py::test_the_bound_holds",
    ),
    "a target that may lose to one class": _tested(
        "vhagar.search.input_search",
        "        never = (ranges(behind)[1] < 0).any(axis=0)",
        "        never = (ranges(behind)[0] < 0).any(axis=0)",
        "tests/search/test_input_search.py::test_the_bound_holds",
    ),
    "boxes that are being halved forgotten": _tested(
        "vhagar.search.input_search",
        "self._closed, self._halving)",
        "self._closed)",
        "tests/search/test_input_search.py::test_an_interrupted_step_loses_no_box",
    ),
    "a checker that does not look whether boxes are left": _tested(
        "vhagar_check.box_proofs",
        "        if waiting:",
        "        if not waiting:",
        "tests/check/test_box_proofs.py::test_leaves_cover_the_inputs_whatever_the_tree",
    ),
    "a checker with half the radius of a feature": _tested(
        "vhagar_check.perturbations",
        "    return BoxAffine(domain, same, directions, np.zeros(size), -limits, limits)",
        "    return BoxAffine(domain, same, directions, np.zeros(size), -limits / 2, limits / 2)",
        "tests/check/test_features.py::test_supports_and_images_are_those_of_the_definition",
    ),
    "a checker that moves the first features instead of those named": _tested(
        "vhagar_check.perturbations",
        "    where = np.array(entries, dtype=np.int64), np.arange(count)",
        "    where = np.arange(count), np.arange(count)",
        "tests/check/test_features.py::test_supports_and_images_are_those_of_the_definition",
    ),
    "a checker that sees maps of the lower ends alone": _tested(
        "vhagar_check.affine",
        "        least, most = self.matrix.extremes(*self.domain.inputs)",
        "        least, most = self.matrix.extremes(self.domain.inputs[0], self.domain.inputs[0])",
        "tests/check/test_features.py::test_supports_and_images_are_those_of_the_definition",
    ),
    "a checker that lets images stay": _tested(
        "vhagar_check.box_proofs",
        "        low = np.maximum(boxes.low - limit - room, domain.low)",
        "        low = np.maximum(boxes.low - room, domain.low)",
        "tests/check/test_box_proofs.py::test_images_are_as_far_as_they_can_be",
    ),
    "a checker with a chord that is too low": _tested(
        "vhagar_check.linear_bounds",
        "    offset = np.maximum(-slope * low, (1 - slope) * high)",
        "    offset = 0.9 * np.maximum(-slope * low, (1 - slope) * high)",
        "tests/check/test_box_proofs.py::test_the_chord_holds_at_its_ends",
    ),
    "a checker that takes one target's boxes for another's": _tested(
        "vhagar_check.evaluation",
        "        if not root.boxes or root.target != region.target:",
        "        if not root.boxes:",
        "tests/check/test_box_proofs.py::test_forgeries_are_refused",
    ),
}
PERTURBATIONS = {
    "clipped treated as unclipped": _one(
        "vhagar.perturbation.scalar",
        "        if self.clips or self.product:\n            value",
        "        if self.product:\n            value",
        201,
    ),
    "a clipped contrast treated as unclipped": _one(
        "vhagar.perturbation.scalar",
        "return self.clip and not (self.product and self.span[1] <= 1)",
        "return self.clip and not self.product",
        3,
    ),
    "only one end of the parameter range": _one(
        "vhagar.perturbation.scalar",
        "return tuple(dict.fromkeys(self.span))",
        "return self.span[:1]",
        201,
    ),
    "the parameters of a map forgotten": _tested(
        "vhagar.perturbation.affine",
        "return Support(value + (pull * parameters).sum(axis=1), x, parameters)",
        "return Support(value + 0 * (pull * parameters).sum(axis=1), x, parameters)",
        "tests/check/test_maps.py::test_supports_agree",
    ),
    "a clip of a map forgotten": _tested(
        "vhagar.reduction.clipping",
        "ceiling = np.where(self.above, self.upper, self.upper + width)",
        "ceiling = np.where(self.above, self.upper + width, self.upper + width)",
        "tests/reduction/test_clipping.py",
    ),
    "a witness whose image is not clipped": _tested(
        _WITNESS,
        "(*(self._clip(side[0]) for side in piece.enclosure(x, parameters)))",
        "(*(side[0] for side in piece.enclosure(x, parameters)))",
        "tests/reduction/test_contract.py::test_witnesses_come_back",
    ),
    "a factor that comes back as its inverse": _tested(
        "vhagar.reduction.contrast",
        "self.given[piece_index].project(1.0 / parameters)",
        "self.given[piece_index].project(parameters)",
        "tests/reduction/test_contract.py::test_points_come_back",
    ),
    "black pixels that linf leaves black": _tested(
        "vhagar.perturbation.linf_ball",
        "becomes = np.where((b > 0) & self.mask, top, low)",
        "becomes = np.where((b > 0) & self.mask, low, low)",
        "tests/perturbation/test_affine.py::test_a_black_pixel_may_rise_under_linf",
    ),
    "a piece dropped": _one(
        "vhagar.perturbation.brightness",
        "if low < 0 < high else [(low, high)]",
        "[:1] if low < 0 < high else [(low, high)]",
        249,
        145,
        297,
    ),
    "pixels counted from 0": _one(
        "vhagar.perturbation.squares",
        "mask[:, row - 1 : row - 1 + width,",
        "mask[:, row : row + width,",
        196,
    ),
    "a vertex of the linf ball forgotten": Fault(
        "vhagar.perturbation.linf_ball",
        (
            (
                "xs = np.array([low, high, above, low, high, below])",
                "xs = np.array([low, high, above, low])",
            ),
            (
                "ps = np.array([low, high, low, above, below, high])",
                "ps = np.array([low, high, low, above])",
            ),
        ),
        (232,),
    ),
    "a move in the wrong direction": _one(
        "vhagar.perturbation.translation",
        "return tuple(_moved(domain, down, right)",
        "return tuple(_moved(domain, -down, right)",
        14,
    ),
    "half of the factors of a contrast": _one(
        "vhagar.reduction.contrast",
        "h = np.where(b[:, -1:] > 0, self.h_range[1], self.h_range[0])",
        "h = np.where(b[:, -1:] > 0, self.h_range[0], self.h_range[0])",
        195,
        43,
        75,
    ),
    "a bias that contrast does not scale": _one(
        "vhagar.reduction.contrast",
        "blocks = [[layer.matrix, sparse.csr_array(layer.flat_bias[:, None])]]",
        "blocks = [[layer.matrix, sparse.csr_array(0.5 * layer.flat_bias[:, None])]]",
        195,
        43,
        75,
    ),
    "a checker that takes factors of a contrast for their inverses": _tested(
        "vhagar_check.homogeneous",
        "least, most = (1 / Fraction(end) for end in piece.span[::-1])",
        "least, most = (Fraction(end) for end in piece.span)",
        "tests/check/test_homogeneous.py::test_scales_are_rounded_outward",
    ),
    "a gap between two parts of a range": _one(
        "vhagar.perturbation.scalar",
        "replace(self, span=(middle, high))",
        "replace(self, span=(middle + 0.4 * (high - middle), high))",
        3,
    ),
}
SEARCH = {
    "a lost node": _one(
        "vhagar.search.frontier",
        "for node in explored.open:",
        "for node in explored.open[1:]:",
        3,
    ),
    "a lost child": _one(
        _SOLVER,
        "return [child for child in children if not",
        "return [child for child in children[1:] if not",
    ),
    "the sides of a decision exchanged": _one(
        "vhagar.relaxation.lp.decisions",
        "mask[values < 0 if decision.positive else values > 0, decision.neuron] = -np.inf",
        "mask[values > 0 if decision.positive else values < 0, decision.neuron] = -np.inf",
    ),
    "closed with the incumbent for a bound": _one(
        _SOLVER,
        "upper = min(node.upper, self.incumbent.ceiling)",
        "upper = self.incumbent.lower",
    ),
    "pruned too early": Fault(
        _SOLVER,
        (
            (
                "        if self.incumbent.settles(node.upper):",
                "        if self.incumbent.lower >= node.upper / 2:",
            ),
            (
                "upper = min(node.upper, self.incumbent.ceiling)",
                "upper = self.incumbent.lower",
            ),
        ),
    ),
    "the ceiling of half the searches": _one(
        "vhagar.search.ceiling",
        "self.upper = min(self.upper, self.frontier.uppers([None])[None])",
        "self.upper = 0.5 * min(self.upper, self.frontier.uppers([None])[None])",
        1,
    ),
    "infeasible believed": _tested(
        _REGION_MODEL,
        "            if ray is None:\n                return Evaluation(known, answer)",
        "            if ray is None:\n                return Evaluation(-np.inf, answer)",
        "tests/search/test_lying_simplex.py::test_lies_cost_no_soundness",
    ),
    "a false contradiction": _one(
        _BOUND,
        "if self._evaluate(signed, nothing, allowed) < 0:",
        "if self._evaluate(signed, nothing, allowed) < 1e9:",
        232,
    ),
    "the weights of the source do not sum to 1": _one(
        _BOUND,
        "return duals / total if LEAST_TOTAL < total < MOST_TOTAL else None",
        "return duals * 0.9 / total if LEAST_TOTAL < total < MOST_TOTAL else None",
    ),
    "negative weights of the target": _one(
        _BOUND,
        "mu = np.maximum(-duals[:, model.target_rows], 0.0)",
        "mu = -np.maximum(-duals[:, model.target_rows], 0.0)",
    ),
    "a batch that cuts off the wrong corners": _tested(
        _CORNERS,
        "bits = 1 * (s < 0) + 2 * (s > 0)",
        "bits = 2 * (s < 0) + 1 * (s > 0)",
        "tests/search/bounders/test_gpu.py",
    ),
    "a batch with the proofs of other nodes": _tested(
        "vhagar.search.bounders.gpu.bounder",
        "numbers = partial(multipliers.of, row)",
        "numbers = partial(multipliers.of, row - 1)",
        "tests/search/test_certified_search.py::test_the_same_nodes_and_the_same_interval",
    ),
    "a root bound that its multipliers do not prove": _tested(
        "vhagar.relaxation.first_order.root",
        "RootBound(float(upper) if",
        "RootBound(0.9 * float(upper) if",
        "tests/relaxation/first_order/test_dual.py"
        "::test_a_root_bound_states_what_it_was_computed_from",
    ),
    "a refined window said to see other neurons": _tested(
        "vhagar.relaxation.first_order.tiles",
        "seen.append(view.index[undecided & there])",
        "seen.append(np.roll(np.flatnonzero(stated.undecided[k]), 1))",
        "tests/search/bounders/test_first_order.py::test_what_first_order_steps_find_is_proved",
    ),
    "a checker that looks at too small a window": _tested(
        "vhagar_check.crops",
        "last = (end - 1) * layer.stride[axis] - layer.padding[axis] + span",
        "last = (end - 1) * layer.stride[axis] - layer.padding[axis] + span - layer.dilation[axis]",
        "tests/check/test_crops.py",
    ),
    "nodes forgotten that a worker keeps": _tested(
        "vhagar.search.frontier",
        "lent.held, lent.unreported = held, []",
        "lent.held, lent.unreported = dict.fromkeys(held, 0.0), []",
        "tests/search/test_frontier.py",
    ),
    "a checkpoint without the nodes that workers have": _tested(
        "vhagar.search.frontier",
        "found = [*chain(self._open.in_memory(), *taken, *lent)]",
        "found = [*chain(self._open.in_memory(), *lent)]",
        "tests/search/test_frontier.py::test_what_is_kept_is_all_there_is",
    ),
    "a checkpoint without the nodes on disk": _tested(
        "vhagar.search.frontier",
        "return chain(self.in_memory, *self.on_disk)",
        "return iter(self.in_memory)",
        "tests/search/test_spill.py",
    ),
    "closed parts that are half of their parents": _tested(
        "vhagar.search.cover",
        "if merged is None:",
        "if merged is None and not part[1]:",
        "tests/search/checkpoint/test_cover.py",
    ),
    "a checkpoint whose nodes need not cover": _tested(
        "vhagar.search.checkpoint.checkpoint",
        "if not covers(roots_of(run, kind), chain(opened, closed)):",
        "if not opened:",
        "tests/search/checkpoint/test_forgeries.py",
    ),
    "a resumed search that forgets what was closed": _tested(
        "vhagar.search.frontier",
        "        for node in closed:\n            self._close(node)",
        "        for node in ():\n            self._close(node)",
        "tests/search/test_frontier.py::test_what_is_kept_is_all_there_is",
    ),
    "nodes on disk forgotten by the bound": _tested(
        "vhagar.search.open_heaps",
        "uppers[target] = max(uppers.get(target, 0.0), spill.upper)",
        "uppers[target] = max(uppers.get(target, 0.0), 0.0 * spill.upper)",
        "tests/search/test_spill.py",
    ),
    "a worse proof in place of a better one": _tested(
        "vhagar.search.proofs.tree",
        "if before == _NONE or proven.upper <= self._proofs.upper(before):",
        "if before == _NONE or proven.upper >= self._proofs.upper(before):",
        "tests/search/proofs/test_tree.py::test_of_two_branchings_the_better_one_is_written",
    ),
    "a target forgotten": _one(
        "vhagar.search.node",
        "for target in targets\n",
        "for target in list(targets)[:1]\n",
        232,
        248,
        46,
    ),
    "a piece forgotten": _one(
        "vhagar.search.node",
        "for k in range(len(problem.pieces))",
        "for k in range(len(problem.pieces[:1]))",
        236,
        46,
    ),
}
RESULT = {
    "a witness without the check": Fault(
        _WITNESS,
        (
            ("        if not (inside and (found.proven > 0 or tie)):", "        if not inside:"),
            (
                'objection or self._objection(x_p, target, found, "the target", tie)',
                "objection",
            ),
        ),
    ),
    "a witness whose pair is not looked at": Fault(
        _WITNESS,
        (
            ("        x_p = piece.apply(x, parameters)", "        x_p = 1.0 - x"),
            ("        if not piece.contains(x, x_p, parameters).all():", "        if False:"),
            (
                "(*(self._clip(side[0]) for side in piece.enclosure(x, parameters)))",
                "(x_p[0], x_p[0])",
            ),
        ),
    ),
    "a witness with the confidence that was estimated": _one(
        _WITNESS,
        "        return min(self.low, self.plain)",
        "        return 1.001 * min(self.low, self.plain)",
    ),
    "a bound of one target for all": _one(
        _KEEPER,
        "        self._uppers[target][kind] = value\n",
        "        for each in self._uppers:\n            self._uppers[each][kind] = value\n",
        232,
        248,
        46,
    ),
    "a certificate that claims more than was found": _one(
        "vhagar.result.statements",
        '"upper": interval.target_upper(target)',
        '"upper": interval.target_lower(target)',
    ),
    "a certificate with the decisions of the sibling": _one(
        "vhagar.search.proofs.tree",
        "fields = (NodeKind.DECISION, decision.copy, positive, 0, *place, 0.0)",
        "fields = (NodeKind.DECISION, 1 - decision.copy, positive, 0, *place, 0.0)",
    ),
    "a certificate with the proof of another node": _one(
        "vhagar.search.proofs.tree",
        "            self._best[node] = proof\n",
        "            self._best[node] = max(proof - 1, 0)\n",
    ),
}
MIP = {
    "the solver's tolerances not added": Fault(
        "vhagar.solver.backends.base",
        (("        return TOLERANCE * ranges * unit", "        return -1e-6 * unit"),),
        (18, 14, 40, 196),
        "mip",
    ),
    "big-M too small": _one(
        "vhagar.dependency.relus",
        "(on, -high)]",
        "(on, -0.5 * high)]",
        engine="mip",
    ),
    "the target's rows for another class": _one(
        _ENCODING,
        "margins = _differences(network.classes, target)",
        "margins = _differences(network.classes, problem.source)",
        engine="mip",
    ),
    "the mip's intervals for half of the inputs": _one(
        "vhagar.search.mip.preparation",
        "self.first = self.second = CopyBounds(self._network, box)",
        "self.first = self.second = CopyBounds(self._network, Bounds(box.lower, 0.5 * box.upper))",
        engine="mip",
    ),
    "a piece of the mip's forgotten": _one(
        _TARGET,
        "pieces = list(enumerate(problem.pieces))",
        "pieces = list(enumerate(problem.pieces))[:1]",
        236,
        46,
        engine="mip",
    ),
}
TRAPS = {
    "trap: mip_dual_bound of a pure LP": _tested(
        _HIGHS,
        "        if is_mip:\n            bound",
        "        if True:\n            bound",
        f"{_TRAPS}::test_the_bound_of_a_pure_lp_is_its_optimum_not_zero",
    ),
    "trap: the bound of an infeasible model": Fault(
        "vhagar.solver.backends.base",
        (
            ("if status in (SolveStatus.OPTIMAL, SolveStatus.STOPPED):", "if True:"),
            (
                "abs(scaled_bound) >= 1e20:\n            return math.inf",
                "abs(scaled_bound) >= 1e20:\n            return -math.inf",
            ),
        ),
        test=f"{_TRAPS}::test_an_infeasible_model_has_a_status_and_no_bound",
    ),
    "trap: infeasible is only a word": _tested(
        _TARGET,
        "            solved = self._check_infeasibility(turn)",
        "            self._bounded(current, turn.cutoff, turn.cutoff)",
        "tests/search/mip/test_lying_solver.py::test_the_word_infeasible_is_not_believed",
    ),
    "trap: objective_bound": _tested(
        _HIGHS,
        '    "mip_rel_gap": 0.0,',
        '    "mip_rel_gap": 0.0,\n    "objective_bound": 0.0,',
        f"{_TRAPS}::test_objective_bound_is_left_alone",
    ),
    "trap: silence switches callbacks off": _tested(
        _HIGHS,
        '    "output_flag": True,',
        '    "output_flag": False,',
        f"{_TRAPS}::test_objective_bound_is_left_alone",
    ),
    "trap: a refused call changes nothing": _tested(
        _HIGHS,
        '    if status.name != "kOk":',
        '    if status.name == "never":',
        f"{_TRAPS}::test_a_refused_call_is_a_failure_not_a_no_op",
    ),
    "trap: a repeated index changes nothing": Fault(
        "vhagar.solver.simplex",
        (
            (
                "np.array(sorted(wanted ^ self._off), dtype=np.int32)",
                "np.array(sorted(wanted ^ self._off) * 2, dtype=np.int32)",
            ),
            ('        if status.name == "kError":', '        if status.name == "never":'),
        ),
    ),
    "trap: a start before the objective is lost": _tested(
        _HIGHS,
        "        solver.setSolution(start)  # its status does not matter",
        "        pass",
        "tests/solver/test_backends.py::test_a_partial_start_is_taken_up[highs]",
    ),
}
# Planted by other hands, and seen by no test at first.
OVERLOOKED = {
    "a proof lost when lazy rows come back": _tested(
        _REGION_MODEL,
        "evaluation = replace(again, proof=again.proof or evaluation.proof)",
        "evaluation = again",
        "tests/relaxation/lp/test_lazy_rows.py::test_a_bound_keeps_its_proof_when_rows_come_back",
    ),
    "no rounding allowed for biases": _tested(
        _TWIN,
        "            error = error + unit(count + 4, p) * (spread @ abs(bias))\n",
        "",
        "tests/relaxation/test_twin_dual.py::test_the_allowance_covers_biases_that_cancel",
    ),
    "NaN as 0 in first-order refinement": _tested(
        "vhagar.relaxation.layerwise",
        "np.where(np.isnan(found), np.inf, found)",
        "np.where(np.isnan(found), 0.0, found)",
        "tests/relaxation/test_layerwise.py::test_nan_changes_nothing",
    ),
    "a column of delta that ends too early": _tested(
        "vhagar.relaxation.lp.lambda_model",
        "self.model.add_columns(-3.0 * score_size, 3.0 * score_size)",
        "self.model.add_columns(-2.0 * score_size, 2.0 * score_size)",
        "tests/relaxation/lp/test_lambda_model.py"
        "::test_the_largest_confidence_is_inside_deltas_column",
    ),
    "the vertex of a weight's parabola missed": _tested(
        "vhagar.perturbation.rotation_weights",
        "vertex = middles - np.where(",
        "vertex = middles - 0 * np.where(",
        "tests/perturbation/test_rotation_range.py::test_the_vertex_of_a_parabola_counts",
    ),
    "the vertex missed on large images": _tested(
        "vhagar.perturbation.rotation_weights",
        "vertex = middles - np.where(",
        "vertex = middles - 0 * np.where(",
        "tests/perturbation/test_rotation_range.py::test_an_arc_of_a_large_image_holds_the_weights",
    ),
    "big-M of a contrast that takes black for 0": _tested(
        "vhagar.perturbation.scalar_rows",
        "return self.span[1] * self.domain.width - self.domain.width",
        "return self.span[1] * self.domain.upper - self.domain.upper",
        "tests/perturbation/test_rows_of_other_ranges.py"
        "::test_a_clipped_contrast_admits_every_pixel_and_factor",
    ),
    "a clipped pixel that takes black for 0": _tested(
        "vhagar.perturbation.scalar_rows",
        "model.add_rows([(x_p, 1.0), (clipped, low - high)], low, np.inf)",
        "model.add_rows([(x_p, 1.0), (clipped, -high)], low, np.inf)",
        "tests/perturbation/test_rows_of_other_ranges.py"
        "::test_a_clipped_contrast_admits_every_pixel_and_factor",
    ),
    "a black pixel of a moved ball that takes black for 0": _tested(
        "vhagar.perturbation.linf_ball",
        "return min(self.domain.lower + step, self.domain.upper)",
        "return min(step, self.domain.upper)",
        "tests/perturbation/test_rows_of_other_ranges.py"
        "::test_a_black_pixel_of_a_moved_ball_rises_by_the_limit",
    ),
    "a black pixel of a moved ball that stays black": _tested(
        "vhagar.perturbation.linf_ball",
        "black = np.where(self.mask, top, low)",
        "black = np.where(self.mask, low, low)",
        "tests/perturbation/test_rows_of_other_ranges.py"
        "::test_the_models_of_a_moved_ball_let_black_pixels_rise",
    ),
    "VNN-LIB: the ends of a negative direction": _tested(
        "vhagar.export.vnnlib",
        "low, high = (number(end) for end in sorted(ends.tolist()))",
        "low, high = (number(end) for end in ends.tolist())",
        "tests/export/test_export.py::test_a_parameter_that_darkens_has_its_ends_in_order",
    ),
    "VNN-LIB: the ends of a negative direction that pixels share": Fault(
        "vhagar.export.vnnlib",
        (
            ("{change} {number(ends.min())})", "{change} {number(ends[0])})"),
            ("{change} {number(ends.max())})", "{change} {number(ends[1])})"),
        ),
        test="tests/export/test_export.py::test_a_parameter_that_darkens_has_its_ends_in_order",
    ),
    "a refuted problem that stays closed": _tested(
        "vhagar.sweep.bounds_store",
        "UPDATE problems SET status = 'open' WHERE id = ?",
        "UPDATE problems SET status = status WHERE id = ?",
        "tests/sweep/test_store.py::test_a_problem_whose_bound_is_refuted_is_open_again",
    ),
    "witnesses of an earlier message dropped": _tested(
        "vhagar.sweep.scheduler",
        "{**before.witnesses, **now.witnesses}",
        "now.witnesses",
        "tests/sweep/test_runner.py::test_witnesses_of_an_earlier_message_are_not_forgotten",
    ),
}
_ONE = "vhagar_check.one_image"
_ONE_TESTS = "tests/check/test_one_image.py::"

ONE_IMAGE = {
    "the checker: the bend of a clip forgotten": _tested(
        _ONE,
        "bends.append(limit - first - share * (last - first))",
        "bends.append(_ZERO * share)",
        _ONE_TESTS + "test_a_box_holds_all_versions_of_its_parameters",
    ),
    "the checker: pixels that may be clipped taken for linear": _tested(
        _ONE,
        "(made.clip and not (black <= least and most <= white))",
        "(made.clip and not (black <= least or most <= white))",
        _ONE_TESTS + "test_a_box_holds_all_versions_of_its_parameters",
    ),
    "the checker: half of a box": _tested(
        _ONE,
        "(low if upper else high)[parameter] = at",
        "(high if upper else low)[parameter] = at",
        _ONE_TESTS + "test_boxes_split_inside_their_range_only",
    ),
    "the checker: any box of parameters": _tested(
        _ONE,
        "a <= b <= c <= d for",
        "b <= c for",
        _ONE_TESTS + "test_regions_of_other_parameters_are_refused",
    ),
    "the checker: a witness of another image": _tested(
        "vhagar_check.witnesses",
        "or x.tolist() != statement.image.tolist():",
        "or x.shape != statement.image.shape:",
        _ONE_TESTS + "test_a_witness_is_of_the_image",
    ),
    "the checker: claims about an image that are not proved": _tested(
        "vhagar_check.verdict",
        "_require_claims(statement, statement.upper_bounds(values, math.inf))",
        "statement.upper_bounds(values, math.inf)",
        _ONE_TESTS + "test_forgeries_are_refused",
    ),
    "the checker: an image of another class": _tested(
        "vhagar_check.verdict",
        "if not image_confidence(statement) > 0:",
        "if not image_confidence(statement) > -math.inf:",
        _ONE_TESTS + "test_a_witness_is_of_the_image",
    ),
}

_COMPACT = "vhagar.local.compact"
_BRANCHING = "vhagar.local.branching"
_SEEN = "tests/local/test_compact.py::"
_FACTS = "tests/local/test_quadratic.py::"
_JUST_CLOSED = "tests/local/test_branching.py::test_a_search_that_just_closes_has_proved_every_leaf"

LOCAL = {
    "one image: an end of a range forgotten": _tested(
        _COMPACT,
        "np.maximum(np.maximum(at_low, at_high), 0.0)",
        "np.maximum(at_low, 0.0)",
        _SEEN + "test_the_offset_is_the_largest_over_the_range",
    ),
    "one image: a decided sign on the wrong side": _tested(
        _COMPACT,
        "at_low = np.where(signs > 0, 0.0, at_low)",
        "at_low = np.where(signs < 0, 0.0, at_low)",
        _SEEN + "test_the_offset_is_the_largest_over_the_range",
    ),
    "one image: a neuron eliminated that may switch": _tested(
        "vhagar.local.elimination",
        "np.where(lower >= 0, 1, 2)",
        "np.where(lower >= -0.1 * upper, 1, 2)",
        _SEEN + "test_ranges_hold_and_eliminated_neurons_keep_their_sign",
    ),
    "one image: rounding forgotten": Fault(
        _COMPACT,
        (("1.01 * (room + error)", "0 * room"),),
        test=_SEEN + "test_rounding_is_added",
    ),
    "one image: the bend of a clip forgotten": _tested(
        "vhagar.local.versions",
        "room = (most - least) / 2 + 8",
        "room = 8",
        _SEEN + "test_versions_are_in_their_set",
    ),
    "one image: a box as good as its better half": _tested(
        "vhagar.local.box",
        "below = np.max([",
        "below = np.min([",
        _SEEN + "test_a_box_is_only_as_good_as_the_worse_of_its_halves",
    ),
    "one image: a decided range cut on the wrong side": _tested(
        "vhagar.local.elimination",
        "(lower if sign > 0 else upper)[neuron] = 0.0",
        "(lower if sign < 0 else upper)[neuron] = 0.0",
        _SEEN + "test_ranges_hold_for_versions_that_obey_decisions",
    ),
    "one image: ranges tightened too far": _tested(
        "vhagar.local.tightening",
        "sign * np.fmin(before, best)",
        "sign * np.fmin(before, 0.8 * best)",
        _SEEN + "test_ranges_hold_and_eliminated_neurons_keep_their_sign",
    ),
    "one image: the chord of a neuron too low": _tested(
        "vhagar.local.quadratic",
        "chord = np.where(wide, upper / ",
        "chord = np.where(wide, 0.5 * upper / ",
        _FACTS + "test_whatever_is_proved_holds_for_all_versions",
    ),
    "one image: a fact about a neuron's range too strong": _tested(
        "vhagar.local.quadratic_proof",
        "right = right + range_ * facts.upper\n    right = right + curve * (facts.bias",
        "right = right + curve * (facts.bias",
        _FACTS + "test_whatever_is_proved_holds_for_all_versions",
    ),
    "one image: rounding forgotten in quadratic facts": _tested(
        "vhagar.local.quadratic_proof",
        "relative = 8 * terms",
        "relative = 0 * terms",
        _FACTS + "test_radii_hold_the_exact_sums",
    ),
    "one image: errors of rows forgotten in quadratic facts": _tested(
        "vhagar.local.quadratic_proof",
        "return float(by_rows + above @ facts.upper * 8 * HALF_ULP + lead.error)",
        "return 0.0",
        _FACTS + "test_errors_of_rows_are_added",
    ),
    "one image: a node closed by float32": _tested(
        _BRANCHING,
        "proven = self.prove(rows, p, signs)",
        "proven = values[seem]",
        _SEEN + "test_a_node_is_closed_only_by_what_float64_proves",
    ),
    "one image: a node just below 0 in float32 neither open nor proven": Fault(
        _BRANCHING,
        (
            ("np.flatnonzero(values < 0)", "np.flatnonzero(values < self._enough)"),
            ("np.flatnonzero(~self._are_proven(numbers))", "np.flatnonzero(~(values < 0))"),
            ("done = self._unproven == 0", "done = np.ones(len(self.uppers), dtype=np.bool_)"),
        ),
        test=_JUST_CLOSED,
    ),
    "one image: a parent closed by one of its children": Fault(
        _BRANCHING,
        (
            ("np.add.at(self._unproven, chosen.nodes.rows, 1)", "pass"),
            ("        done[self._open.nodes.rows] = False\n", ""),
        ),
        test=_JUST_CLOSED,
    ),
}

_IMAGE_FACTS = "vhagar_check.image_facts"
_IMAGE_FACTS_TESTS = "tests/check/test_image_facts.py::"

IMAGE_FACTS: dict[str, Fault] = {
    "facts about one image: the checker believes statuses": _tested(
        _IMAGE_FACTS,
        "slip = slip + abs(a) @ self._strays[k - 1]",
        "slip = slip + 0 * abs(a) @ self._strays[k - 1]",
        _IMAGE_FACTS_TESTS + "test_units_that_are_not_what_their_status_says",
    ),
    "facts about one image: the checker takes chords without their offset": _tested(
        _IMAGE_FACTS,
        " + given.above @ ranges.offset",
        "",
        _IMAGE_FACTS_TESTS + "test_a_bound_is_what_the_multipliers_are_worth",
    ),
    "facts about one image: the checker forgets moves without a multiplier": _tested(
        _IMAGE_FACTS,
        "self.slip + idle)",
        "self.slip)",
        _IMAGE_FACTS_TESTS + "test_moves_without_a_multiplier_are_slips",
    ),
    "facts about one image: the checker takes negative multipliers": _tested(
        _IMAGE_FACTS,
        "if not np.isfinite(vector).all() or (vector < 0).any():",
        "if not np.isfinite(vector).all():",
        _IMAGE_FACTS_TESTS + "test_multipliers_that_are_negative_or_no_numbers_are_refused",
    ),
    "facts about one image: the checker forgets rounding in the matrix": _tested(
        _IMAGE_FACTS,
        "share = gamma(4",
        "share = 0 * gamma(4",
        _IMAGE_FACTS_TESTS + "test_errors_hold_the_exact_numbers",
    ),
    "facts about one image: the checker lets them count below decisions of a region": _tested(
        "vhagar_check.evaluation",
        "if scope is not None and len(facts):",
        "if scope is None and len(facts):",
        "tests/check/test_facts_certificates.py::test_forgeries_are_refused",
    ),
    "facts about one image: they are certified as of another target": _tested(
        "vhagar.local.certificate",
        "numbers = proof.facts[place].numbers(",
        "numbers = proof.facts[max(proof.facts)].numbers(",
        "tests/check/test_facts_certificates.py::test_each_target_has_its_own_facts",
    ),
}

_DIFFERENCES = "vhagar.relaxation.differences"
_DIFFERENCE_TESTS = "tests/relaxation/test_differences.py"
# The first bounds of root nodes.
FIRST_BOUNDS: dict[str, Fault] = {
    "differences that lose their sign at a neuron": _tested(
        _DIFFERENCES,
        "np.maximum(np.minimum(h.gap_lower, 0.0),",
        "np.maximum(h.gap_lower,",
        f"{_DIFFERENCE_TESTS}::test_hexagons_hold_every_pair",
    ),
    "a neuron that is on stops a difference": _tested(
        _DIFFERENCES,
        "np.where(h.on, entering.upper,",
        "np.where(h.on, 0.0,",
        f"{_DIFFERENCE_TESTS}::test_hexagons_hold_every_pair",
    ),
    "pixels that rise are taken for pixels that stay": _tested(
        _DIFFERENCES,
        "np.where(rises, high, np.minimum(high, 0.0))",
        "np.where(falls, high, np.minimum(high, 0.0))",
        f"{_DIFFERENCE_TESTS}::test_pixels_differ_by_no_more",
    ),
    "gaps of multiples bounded as differences": _tested(
        _DIFFERENCES,
        "change = pixel_differences(piece) if piece.ratio == 1.0 else None",
        "change = pixel_differences(piece)",
        f"{_DIFFERENCE_TESTS}::test_hexagons_hold_every_pair",
    ),
}
_QUADRATIC = "vhagar.relaxation.quadratic"
_PAIRS_BOUNDED = "tests/relaxation/quadratic/test_quadratic_bound.py"
QUADRATIC = {
    "a slope of 1 that counts as 0": _tested(
        f"{_QUADRATIC}.differences",
        "ones = np.flatnonzero([slope is True for slope in chosen])",
        "ones = np.flatnonzero([slope is False for slope in chosen])",
        f"{_PAIRS_BOUNDED}::test_a_node_bounds_all_of_its_slopes",
    ),
    "units that are always on dropped from differences": _tested(
        f"{_QUADRATIC}.differences",
        "current = np.where(hexagons.on[:, None], current, 0.0)",
        "current = np.where(hexagons.on[:, None], 0.0, 0.0)",
        f"{_PAIRS_BOUNDED}::test_the_differences_are_linear_in_the_unknowns",
    ),
    "a change tied to the input as if nothing came from elsewhere": _tested(
        f"{_QUADRATIC}.differences",
        "np.eye(piece.domain.size) - formula.map.matrix.toarray()",
        "np.eye(piece.domain.size) - 0.5 * formula.map.matrix.toarray()",
        f"{_PAIRS_BOUNDED}::test_a_tie_tells_a_shift_from_any_change_of_all_pixels",
    ),
    "one amount for all pixels wherever there is a formula": _tested(
        f"{_QUADRATIC}.differences",
        "return small and formula is not None and formula.changes_alike",
        "return small and formula is not None",
        f"{_PAIRS_BOUNDED}::test_the_differences_are_linear_in_the_unknowns",
    ),
    "a quadratic bound below its proof": _tested(
        f"{_QUADRATIC}.proven",
        "beta = found.value + share * size",
        "beta = 0.99 * found.value - share * size",
        f"{_PAIRS_BOUNDED}::test_on_a_single_path_the_bound_is_attained",
    ),
    "the box of the input's change forgotten in the constant": _tested(
        f"{_QUADRATIC}.proven",
        "(lead**2 / (4 * box)).sum() + box @ known.radius**2)",
        "(lead**2 / (4 * box)).sum())",
        f"{_PAIRS_BOUNDED}::test_nothing_below_the_value_is_proved",
    ),
    "negative multipliers taken": _tested(
        f"{_QUADRATIC}.proven",
        "return bool(((numbers > _SMALLEST) & (numbers < _LARGEST)).all())",
        "return bool((numbers < _LARGEST).all())",
        f"{_PAIRS_BOUNDED}::test_forged_multipliers_prove_nothing",
    ),
}
_CHOICES = "tests/check/test_choices.py::test_no_other_choice_is_read"
READERS = {
    "a checker that sees a choice meet where it jumps": _tested(
        "vhagar_check.choices",
        "    if not limit.any():\n        slopes",
        "    if limit.size:\n        slopes",
        f"{_CHOICES}[a jump beside the limit]",
    ),
    "a checker that drops a sigmoid inside a choice": _tested(
        "vhagar_check.choices",
        "[reader.taken(node, k) for k in (1, 2)]",
        "[reader.given(node, k) for k in (1, 2)]",
        f"{_CHOICES}[Sigmoid above]",
    ),
    "a reader that sees a choice meet where it jumps": _tested(
        "vhagar.network.onnx_operators.comparisons",
        "    if not limit.any():\n        slopes",
        "    if limit.size:\n        slopes",
        "tests/network/test_refusals.py::test_unsupported_operators_are_named"
        "[a jump beside the limit]",
    ),
    "a threshold on the wrong side": _tested(
        "vhagar.network.scores",
        "last.flat_bias[0] - threshold",
        "last.flat_bias[0] + threshold",
        "tests/network/test_scores.py::test_one_score_divides_two_classes",
    ),
    "a checker that believes in a Scaler which the file redefines": _tested(
        "vhagar_check.graph",
        "if any(item.text(10) in _PREFIXES for",
        'if any(item.text(10) in ("", "ai.onnx") for',
        "tests/check/test_graph_refusals.py::test_graphs_that_contradict_themselves",
    ),
    "a checker that takes features from the wrong end": _tested(
        "vhagar_check.feature_operators",
        "return [positions[:, index.ravel()]]",
        "return [positions[:, -index.ravel()]]",
        "tests/check/test_feature_operators.py::test_features_are_chosen_in_the_order_of_the_index",
    ),
    "a checker that adds the offset of a scaler": _tested(
        "vhagar_check.feature_operators",
        "Scale(one, one, -offset)",
        "Scale(one, one, offset)",
        "tests/check/test_feature_operators.py::test_a_scaler_beside_names_of_classes_is_read",
    ),
    "a scaler that shifts after it scales": _tested(
        "vhagar.network.onnx_operators.elementwise",
        "scale, -offset * scale)",
        "scale, -offset)",
        "tests/network/test_corpus.py::test_scores_are_those_of_onnxruntime[standardised_features]",
    ),
    "the shares of several scores taken for those of one": _tested(
        "vhagar.network.onnx_reader",
        "and is_share(whole, chosen):",
        "and is_share(whole, output):",
        "tests/network/test_scores.py::test_only_the_shares_of_one_score_are_that_score",
    ),
    "a checker with a threshold on the wrong side": _tested(
        "vhagar_check.scores",
        "np.array([0.0, -self.threshold])",
        "np.array([0.0, self.threshold])",
        "tests/network/test_scores.py::test_one_score_divides_two_classes",
    ),
    "a checker that assumes a threshold": _tested(
        "vhagar_check.scores",
        "            if network.classes < 2:",
        "            if network.classes < 1:",
        "tests/network/test_scores.py::test_the_checker_wants_the_threshold_stated",
    ),
    "a checker that lets the inputs of a batch meet": _tested(
        "vhagar_check.batches",
        "    if not wires or node.kind in _APART:",
        "    if wires or node.kind in _APART:",
        "tests/network/test_batch.py::test_batches_whose_inputs_are_mixed_are_refused",
    ),
    "a constant of a batch's size reshaped like one": _tested(
        "vhagar.network.onnx_batch",
        "        if not data.intersection(node.input):\n            continue\n        data.update",
        "        data.update",
        "tests/network/test_batch.py::test_a_fixed_batch_is_one_input_after_another",
    ),
    "a ceiling that is a floor in a resize": _tested(
        "vhagar_check.selections",
        '"ceil": lambda n, d: -(-n // d),',
        '"ceil": lambda n, d: n // d,',
        "tests/check/test_corpus.py::test_scores_of_the_corpus_are_the_runtimes[enlarged]",
    ),
    "half-precision numbers cut off": _tested(
        "vhagar_check.protobuf",
        '(bits.astype("<u4") << 16)',
        '(bits.astype("<u4") << 15)',
        "tests/network/test_files.py::test_half_precision_weights_are_taken_exactly",
    ),
}
_VECTORS = "tests/check/test_vectors.py"
CHECKER = {
    "a checker that takes parts which leave out the middle for a cover": _tested(
        "vhagar_check.tree",
        'for name in ("parent", "kind", "copy", "layer", "neuron", "at")',
        'for name in ("parent", "kind", "copy", "layer", "neuron")',
        _VECTORS,
    ),
    "a checker that counts a missing tree as a bound of 0": _tested(
        "vhagar_check.statement",
        "min(by_root.get(Root(target, number, *kind), math.inf) for kind in _KINDS)",
        "min(by_root.get(Root(target, number, *kind), 0.0) for kind in _KINDS)",
        _VECTORS,
    ),
    "a checker that takes 0 for a contradiction": _tested(
        "vhagar_check.proofs",
        "return float(-np.inf) if value < 0 else float(np.inf)",
        "return float(-np.inf) if value <= 0 else float(np.inf)",
        _VECTORS,
    ),
    "a checker that lets only dead neurons fall": _tested(
        "vhagar_check.neuron_bounds",
        "(found.gap_high > 0) & ~found.off, (found.gap_low < 0) & ~found.off",
        "(found.gap_high > 0) & ~found.off, (found.gap_low < 0) & found.off",
        "tests/check/test_graph_bounds.py",
    ),
    "a checker that forgets skip connections behind a clip": _tested(
        "vhagar_check.clipping",
        "return Network((*stages, *network.stages[1:]), network.input_shape, linear)",
        "return Network((*stages, *network.stages[1:]), network.input_shape)",
        "tests/check/test_clipping.py",
    ),
    "a checker that takes a neuron for off that is on in one copy": _tested(
        "vhagar_check.hexagon",
        "found = np.asarray((self.high <= 0) & (self.high_p <= 0))",
        "found = np.asarray((self.high <= 0) | (self.high_p <= 0))",
        "tests/check/test_hexagon.py",
    ),
    # Each of the two allowances covers much of the other's part.
    "a checker that forgets the rounding of coefficients": Fault(
        "vhagar_check.formula",
        (
            (
                "size = (abs(a) + abs(b) + abs(p) + abs(q)) @ corners.magnitude",
                "size = 0.0 * (abs(a) @ corners.magnitude)",
            ),
            (
                "error = error + gamma(2 * layer.terms + 8) * (spread @ size)",
                "error = error + 0.0 * (spread @ size)",
            ),
        ),
        test="tests/check/test_rounding.py",
    ),
    "a checker that lets a coefficient underflow": _tested(
        "vhagar_check.pieces",
        "lost = UNDERFLOW * (terms * self.domain.size * self.magnitude + size)",
        "lost = UNDERFLOW * size",
        "tests/check/test_underflow.py",
    ),
    "a checker that forgets how weights bend between two angles": _tested(
        "vhagar_check.turn_ranges",
        "error = _between(u, v, np.diff(way, axis=1), radius[:, None]) + 2 * SNAP",
        "error = 0 * _between(u, v, np.diff(way, axis=1), radius[:, None]) + 2 * SNAP",
        "tests/check/test_arcs.py",
    ),
    "a checker that forgets that pixels turn black on the way": _tested(
        "vhagar_check.arcs",
        "low = np.where(joined, low, np.minimum(low, 0.0))",
        "low = np.where(joined, low, low)",
        "tests/check/test_arcs.py",
    ),
    "a checker that reads the first of two claims": _tested(
        "vhagar_check.container",
        "if len(found) != len(pairs):",
        "if len(found) > len(pairs):",
        _VECTORS,
    ),
    "a tie that rationals round away": _tested(
        "vhagar_check.rational",
        "below = nearest not in (np.inf, -np.inf) and Fraction(nearest) < value",
        "below = nearest not in (np.inf, -np.inf) and Fraction(nearest) <= value",
        "tests/check/test_ties.py",
    ),
    "a support that underflows": _tested(
        "vhagar.perturbation.affine",
        "slack: Array = 2.0**-51 * terms * reach + UNDERFLOW * terms * sizes",
        "slack: Array = 2.0**-51 * terms * reach + UNDERFLOW",
        "tests/check/test_underflow.py",
    ),
}
GUARD = {
    "a guard from a proof about another normalisation": _tested(
        "vhagar.guard.bounds",
        'same = own == {name: head["model"].get(name) for name in own}',
        "same = True",
        "tests/guard/test_check.py",
    ),
    "a guard that forgets a target": _tested(
        "vhagar.guard.base",
        "others = [target for target in classes if target != source]",
        "others = [target for target in classes if (source, target) in best] or [source]",
        "tests/guard/test_guard.py",
    ),
    "a guard that takes one class's bound for all": _tested(
        "vhagar.guard.onnx_file",
        '("Gather", ["guard_thresholds", "class"], ["guard_bound"], {"axis": 0}),',
        '("Gather", ["guard_thresholds", "guard_first"], ["guard_bound"], {"axis": 0}),',
        "tests/guard/test_guard.py",
    ),
    "a guard that does not look at the range": _tested(
        "vhagar.guard.onnx_file",
        '("And", ["guard_above", "guard_inside"], ["robust"], {})',
        '("Or", ["guard_above", "guard_above"], ["robust"], {})',
        "tests/guard/test_guard.py",
    ),
    "a guard without room for rounding": _tested(
        "vhagar.guard.base",
        "total = uppers + self._roundings(precision)",
        "total = uppers + 0 * self._roundings(precision)",
        "tests/guard/test_guard.py",
    ),
    "a guard that does not look at the domain": _tested(
        "vhagar.guard.base",
        "found[np.ix_(rows, own)] &= domain.contains(x[rows])[:, None]",
        "found[np.ix_(rows, own)] &= True",
        "tests/guard/test_membership.py",
    ),
    "a guard's file that does not look at the domain": _tested(
        "vhagar.guard.onnx_file",
        "columns = [verdicts[each.domain] for each in guard.protections]",
        "columns = [in_range for each in guard.protections]",
        "tests/guard/test_membership.py",
    ),
    "a guard's row without room for rounding": _tested(
        "vhagar.guard.membership",
        "room = sizes * 2.0**-51 * (np.diff(rows.matrix.indptr) + 8) + _LOST",
        "room = sizes * 0.0",
        "tests/guard/test_membership.py",
    ),
    "a guard's row whose rounded sum counts as exact": _tested(
        "vhagar.guard.membership",
        "found = int(np.frexp(size * (1 + 2.0**-40))[1]) - _DIGITS - least",
        "found = int(np.frexp(size * (1 + 2.0**-40))[1]) - 2 * _DIGITS - least",
        "tests/guard/test_membership.py",
    ),
    "a guard's check that takes any domain": _tested(
        "vhagar.guard.check",
        "and verdict.domain == (None if bound.domain is None else bound.domain.fingerprint)",
        "and True",
        "tests/guard/test_domains.py",
    ),
    "float32 rounded as float64 is": _tested(
        "vhagar.relaxation.rounding",
        "roundings = (layer.fan_in + 3) * precision.half_ulp",
        "roundings = (layer.fan_in + 3) * HALF_ULP",
        "tests/relaxation/test_rounding.py",
    ),
    "a guard that believes a solver": _tested(
        "vhagar.guard.bounds",
        "if interval.kind in PROVEN and math.isfinite(interval.upper)",
        "if math.isfinite(interval.upper)",
        "tests/guard/test_guard.py",
    ),
    "a guard's check that does not compare bounds": _tested(
        "vhagar.guard.check",
        'verdict.uppers.get(target, float("inf")) <= upper',
        'verdict.uppers.get(target, float("inf")) <= upper + 1.0',
        "tests/guard/test_check.py",
    ),
    "a comparison of the wrong ends": _tested(
        "vhagar.report.compare",
        "if self.first_ends[1] < self.second_ends[0]:",
        "if self.first_ends[0] < self.second_ends[0]:",
        "tests/report/test_two_models.py",
    ),
    "a requirement that a witness meets": _tested(
        "vhagar.result.requirement",
        "return judgement(facts.upper <= self.limit, facts.lower > self.limit)",
        "return judgement(facts.lower <= self.limit, facts.lower > self.limit)",
        "tests/cli/test_gate.py",
    ),
    "a data set of which one share is compared": _tested(
        "vhagar.report.two_models",
        "most = counts.inputs - counts.attackable",
        "most = counts.robust",
        "tests/report/test_two_models.py",
    ),
    "a guard's check that does not look at the graph": _tested(
        "vhagar.guard.check",
        "return _graph(first) == _graph(second)",
        "return _graph(first)[1] == _graph(second)[1]",
        "tests/guard/test_check.py",
    ),
}
_TIGHTENING = "tests/relaxation/lp/test_optimality_tightening.py"
_TIGHTENINGS = "tests/check/test_tightenings.py"

TIGHTENINGS = {
    "a tightening for more confidence than is asked for": _tested(
        _BOUND,
        "spared = level * classes.alpha.sum(axis=1)",
        "spared = 1.5 * level * classes.alpha.sum(axis=1)",
        _TIGHTENING,
    ),
    "a tightening that forgets what it bounds": _tested(
        _TWIN,
        "if added is not None and added.layer == k - 1:",
        "if added is not None and added.layer == k:",
        _TIGHTENING,
    ),
    "a subtree's bound that is also about pairs below the level": _tested(
        _REGION_MODEL,
        "upper=max(found.upper, self.bounds.level)",
        "upper=min(found.upper, known)",
        f"{_TIGHTENING}::test_a_node_is_bounded_by_the_level_at_least",
    ),
    "a checker that proves what is below the level": _tested(
        "vhagar_check.evaluation",
        "found = np.maximum(found, scope.level)",
        "found = np.maximum(found, 0.0)",
        _TIGHTENINGS,
    ),
    "a checker that ties changes where only some pairs count": _tested(
        "vhagar_check.evaluation",
        "if scope is not None and by_facts.any():",
        "if scope is not None and (kinds == QUADRATIC).any():",
        _TIGHTENINGS,
    ),
    "a checker that takes a tightening for another target's": _tested(
        "vhagar_check.regions",
        "self.target in (None, target)",
        "target is not None",
        _TIGHTENINGS,
    ),
    "a checker that cuts a decided range on the wrong side": _tested(
        "vhagar_check.regions",
        "cut[0 if positive else 1, neuron] = 0.0",
        "cut[1 if positive else 0, neuron] = 0.0",
        "tests/check/test_one_image.py::test_the_bounds_of_a_region_with_decisions_hold_where_they_are_obeyed",
    ),
    "a checker that forgets which nodes a region's decisions are for": _tested(
        "vhagar_check.regions",
        'scope = _decided(bounds, about["decisions"]) if "decisions" in about else None',
        'scope = _decided(bounds, about["decisions"]) and None if "decisions" in about else None',
        "tests/check/test_one_image.py::test_forged_decisions_are_refused",
    ),
    "a checker that takes one side of a decision for the other": _tested(
        "vhagar_check.regions",
        "node.signs.get(place, {}).get(copy) == sign",
        "node.signs.get(place, {}).get(copy) is not None",
        _TIGHTENINGS,
    ),
}

_OF_DOMAINS = "tests/perturbation/domain/test_domain.py"
_CHECKED_DOMAINS = "tests/check/test_domain.py"
_OF_CONDITIONS = "tests/perturbation/domain/test_constrained_domain.py"
_CHECKED_CONDITIONS = "tests/check/test_conditions.py"
_CHECKED_TREE = "tests/check/test_tree.py"
_LEFT_OUT = "test_splits_that_leave_inputs_out_are_refused"
_FORGED_SPLITS = "test_forged_splits_by_entries_are_refused"
_PARTS = (
    "tests/perturbation/domain/test_parts.py::test_no_input_is_lost_and_the_checker_narrows_no_less"
)
_POINTS = "test_points_of_a_domain_do_not_exceed_its_support[0]"
_CHECKED_POINTS = "test_points_of_a_domain_do_not_exceed_the_support_of_its_conditions[0]"
_CHANGED = "test_altered_conditions_are_refused"
_CLIPPED_CONDITIONS = "test_conditions_count_where_images_are_clipped"
_CROSSING = "test_the_maximum_over_a_span_may_lie_inside_of_it"
_HOLDS = "test_no_pair_in_the_box_exceeds_the_support[ends0-"
_CHECKED_HOLDS = "test_supports_hold_all_pairs_and_are_no_larger_than_the_search_s[ends0-"
_ALTERED = "test_an_altered_domain_is_refused"
DOMAINS = {
    "a domain's lower ends forgotten": _tested(
        "vhagar.perturbation.domain.domain",
        "return np.where(a > 0, self.high, self.low)",
        "return np.where(a > 0, self.high, self.high)",
        f"{_OF_DOMAINS}::{_HOLDS}occlusion(2,2,2)-True]",
    ),
    "a share for the domain, and the image forgotten": _tested(
        "vhagar.perturbation.support_over_domain",
        "rest = self._rest_support(a - s, b)",
        "rest = self._rest_support(a - s, 0 * b)",
        f"{_OF_DOMAINS}::{_HOLDS}linf(0.3)-True]",
    ),
    "contributions taken for convex that are not": _tested(
        "vhagar.perturbation.clipped_box",
        "apart = self.crossed & ",
        "apart = ~self.crossed & ",
        f"{_OF_DOMAINS}::{_CROSSING}",
    ),
    "checker: contributions taken for convex that are not": _tested(
        "vhagar_check.box_supports",
        "apart = np.where(b > 0, self.apart_above, self.apart_below)",
        "apart = np.where(b > 0, self.apart_below, self.apart_above)",
        f"{_CHECKED_DOMAINS}::{_CROSSING}",
    ),
    "checker: the wrong end of a box": _tested(
        "vhagar_check.box_supports",
        "np.maximum(s * low, s * high).sum(axis=1)",
        "np.minimum(s * low, s * high).sum(axis=1)",
        f"{_CHECKED_DOMAINS}::{_CHECKED_HOLDS}occlusion(2,2,2)-True]",
    ),
    "checker: clipped contrast taken for convex": _tested(
        "vhagar_check.box_supports",
        "apart = np.full(len(low), clip)",
        "apart = np.full(len(low), False)",
        f"{_CHECKED_DOMAINS}::{_CHECKED_HOLDS}contrast([1,2])-True]",
    ),
    "checker: a witness above the domain": _tested(
        "vhagar_check.pieces",
        "all(Fraction(least) <= v <= Fraction(most) for v, least, most in ends)",
        "all(Fraction(least) <= v for v, least, most in ends)",
        f"{_CHECKED_DOMAINS}::{_ALTERED}[_narrower-is not in the domain]",
    ),
    "checker: an empty domain": _tested(
        "vhagar_check.statement",
        "if not (low <= high).all():",
        "if not (low <= high).any():",
        f"{_CHECKED_DOMAINS}::{_ALTERED}[_empty-the domain is empty]",
    ),
    "multipliers of rows that are counted once and paid for twice": _tested(
        "vhagar.perturbation.domain.support",
        "rest = s - pulled",
        "rest = s - 2 * pulled",
        f"{_OF_CONDITIONS}::{_POINTS}",
    ),
    "the wrong end of a row": _tested(
        "vhagar.perturbation.domain.support",
        "value = np.maximum(y * least, y * most).sum(axis=1)",
        "value = np.minimum(y * least, y * most).sum(axis=1)",
        f"{_OF_CONDITIONS}::{_POINTS}",
    ),
    "a zonotope without its residual": _tested(
        "vhagar.perturbation.domain.support",
        "along @ zonotope.ranges + abs(s) @ zonotope.residual",
        "along @ zonotope.ranges",
        f"{_OF_CONDITIONS}::test_points_of_a_zonotope_do_not_exceed_its_support",
    ),
    "a share of the zonotope that is taken off twice": _tested(
        "vhagar.perturbation.domain.support",
        "rest = s - share",
        "rest = s - 2 * share",
        "tests/perturbation/domain/test_zonotope.py::test_a_box_and_a_zonotope_bound_together[False]",
    ),
    "conditions that take twice where images are clipped": _tested(
        "vhagar.perturbation.decided_support",
        "_decided(piece, corners, a - s, b, allowed)",
        "_decided(piece, corners, a - 2 * s, b, allowed)",
        f"{_OF_CONDITIONS}::{_CLIPPED_CONDITIONS}[0-brightness([0.1,0.4])]",
    ),
    "rows that are not asked for membership": _tested(
        "vhagar.perturbation.domain.linear_rows",
        "(value - room >= self.low) & (value + room <= self.high)",
        "(value - room >= self.low) | (value + room <= self.high)",
        f"{_OF_CONDITIONS}::test_membership_is_exact",
    ),
    "checker: the wrong end of a row": _tested(
        "vhagar_check.conditions",
        "total += np.maximum(y[:, k] * low, y[:, k] * high)",
        "total += np.minimum(y[:, k] * low, y[:, k] * high)",
        f"{_CHECKED_CONDITIONS}::{_CHECKED_POINTS}",
    ),
    "checker: rows that cost nothing in the box": _tested(
        "vhagar_check.conditions",
        "rest[:, row.entries] -= y[:, [k]] * row.weights",
        "rest[:, row.entries] -= 2 * y[:, [k]] * row.weights",
        f"{_CHECKED_CONDITIONS}::{_CHECKED_POINTS}",
    ),
    "checker: a witness that is not whole": _tested(
        "vhagar_check.conditions",
        "all(x[k].denominator == 1 for k in self.whole)",
        "all(x[k].denominator for k in self.whole)",
        f"{_CHECKED_CONDITIONS}::test_only_what_satisfies_a_condition_belongs_to_it",
    ),
    "checker: a split of any entry": _tested(
        "vhagar_check.tree",
        'if not np.isin(splits["neuron"], whole).all():',
        "if len(splits) and not whole:",
        f"{_CHECKED_TREE}::{_LEFT_OUT}[records0-need not be a whole number]",
    ),
    "checker: a split between whole numbers": _tested(
        "vhagar_check.tree",
        "(np.isfinite(at) & (at == np.rint(at))",
        "(np.isfinite(at) & (at != np.nan)",
        f"{_CHECKED_CONDITIONS}::{_FORGED_SPLITS}[_between-value that is not a whole number]",
    ),
    "checker: a proof for another part of the domain": _tested(
        "vhagar_check.evaluation",
        "if decided.entries != region.entries:",
        "if decided.entries.keys() != region.entries.keys():",
        f"{_CHECKED_CONDITIONS}::{_FORGED_SPLITS}[_elsewhere-another part of the domain]",
    ),
    "checker: every part of the domain is empty": _tested(
        "vhagar_check.regions",
        "return Region(number, bounds, status, scope, entries, part is None)",
        "return Region(number, bounds, status, scope, entries, bool(entries))",
        f"{_CHECKED_CONDITIONS}::{_FORGED_SPLITS}[_as_empty-is not proved]",
    ),
    "checker: rows that narrow a whole number too far": _tested(
        "vhagar_check.whole_numbers",
        "limit = (slack + own) / (sign * w)",
        "limit = slack / (sign * w)",
        f"{_PARTS}[1]",
    ),
    "checker: a limit of a large whole number that is rounded inward": _tested(
        "vhagar_check.whole_numbers",
        "end if inside else math.nextafter(end, direction)",
        "end",
        "tests/check/test_whole_numbers.py",
    ),
    "rows that narrow a whole number too far": _tested(
        "vhagar.perturbation.domain.parts",
        "limit = (slack + float(own)) / weight",
        "limit = slack / weight",
        f"{_PARTS}[1]",
    ),
    "a split that loses a whole number": _tested(
        "vhagar.search.entry_splits",
        "(max(low, split.at + 1.0), high) if above",
        "(max(low, split.at + 2.0), high) if above",
        "tests/search/test_entry_splits.py::test_a_path_narrows_entries_to_ranges",
    ),
    "checker: a witness beyond a row": _tested(
        "vhagar_check.conditions",
        "return above and (self.high == np.inf or value <= Fraction(self.high))",
        "return above",
        f"{_CHECKED_CONDITIONS}::{_CHANGED}[_narrower_row-is not in the domain]",
    ),
    "checker: a zonotope whose products underflow": _tested(
        "vhagar_check.zonotope",
        "reach = reach + UNDERFLOW * terms",
        "reach = reach + 0 * terms",
        "tests/check/test_extremes.py::test_a_zonotope_that_is_smaller_than_any_number",
    ),
    "checker: an input range wider than any number": _tested(
        "vhagar_check.statement",
        "not 0 < high - low < math.inf",
        "not 0 < high - low",
        "tests/check/test_extremes.py::test_a_clip_in_the_widest_ranges",
    ),
    "a bound that its certificate does not prove": _tested(
        "vhagar.search.proofs.review",
        "run.interval.raise_upper(target, min(value, stated + more))",
        "run.interval.raise_upper(target, min(value, stated))",
        "tests/search/proofs/test_review.py::test_a_bound_that_is_not_proved_is_raised",
    ),
    "checker: a share of the zonotope that is taken off twice": _tested(
        "vhagar_check.zonotope",
        "rest = s - share",
        "rest = s - 2 * share",
        "tests/check/test_condition_bounds.py::test_a_shared_bound_is_rounded_up[box]",
    ),
    "checker: conditions that take twice where images are clipped": _tested(
        "vhagar_check.pixelwise",
        "        s = conditions.pulled(box, a + b)\n        left = a - s",
        "        s = conditions.pulled(box, a + b)\n        left = a - 2 * s",
        "tests/check/test_pixelwise.py::test_rows_count_where_images_are_clipped[brightness-span0]",
    ),
    "checker: any coordinates in a zonotope": _tested(
        "vhagar_check.zonotope",
        "inside = inside and abs(value - centre) <= Fraction(float(self.residual[k]))",
        "inside = inside and value <= centre + Fraction(float(self.residual[k]))",
        f"{_CHECKED_CONDITIONS}::test_only_what_satisfies_a_condition_belongs_to_it",
    ),
}

_CUTS = "tests/check/test_cuts.py"
_CONE_SEARCH = "tests/relaxation/lp/test_cone_search.py"
_CONES, _CONE_TESTS = "vhagar_check.cone_proofs", "tests/check/test_cone_proofs.py"

CUTS = {
    "a checker whose cuts cost nothing": _tested(
        "vhagar_check.cuts",
        "constant = constant + price",
        "constant = constant + 0.0 * price",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that takes a cut off twice": _tested(
        "vhagar_check.cuts",
        "b[:, cut.units] -= weight[:, None] * cut.b",
        "b[:, cut.units] -= 2 * weight[:, None] * cut.b",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that forgets the rounding of cuts": _tested(
        "vhagar_check.cuts",
        "error = error + gamma(2 * len(used) + 4) * (size @ magnitude + paid)",
        "error = error + 0.0 * (size @ magnitude + paid)",
        f"{_CUTS}::test_the_rounding_of_cuts_is_paid_for",
    ),
    "a checker that lets the weights of cuts underflow": _tested(
        "vhagar_check.cuts",
        "error = error + 2 * UNDERFLOW * (len(used) + 1) * magnitude.sum()",
        "error = error + 0.0 * magnitude.sum()",
        f"{_CUTS}::test_what_cuts_lose_to_underflow_is_paid_for",
    ),
    "a checker that weighs cuts negatively": _tested(
        "vhagar_check.proofs",
        "for part in (alpha, mu, rho))",
        "for part in (alpha, mu))",
        f"{_CUTS}::test_weights_of_cuts_must_be_finite_and_not_negative",
    ),
    "a checker whose exact cuts are free": _tested(
        "vhagar_check.cuts",
        "price += weight * Fraction(cut.limit)",
        "price += 0 * weight",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that takes the pixels of cuts off the wrong way": _tested(
        "vhagar_check.cuts",
        "a[:, cut.pixels] -= weight[:, None] * cut.c",
        "a[:, cut.pixels] += weight[:, None] * cut.c",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that forgets the rounding of cuts at the inputs": _tested(
        "vhagar_check.cuts",
        "error = error + gamma(2 * len(used) + terms + 4) * (size * magnitude)",
        "error = error + 0 * size",
        f"{_CUTS}::test_what_is_rounded_at_the_inputs_is_paid_for",
    ),
    "a checker whose exact cuts forget their pixels": _tested(
        "vhagar_check.cuts",
        "left[pixel] -= weight * Fraction(own)",
        "left[pixel] -= 0 * Fraction(own)",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that limits cuts without their pixels": _tested(
        _CONES,
        "c[cut.pixels], d[cut.perturbed] = cut.c, cut.d",
        "d[cut.perturbed] = cut.d",
        f"{_CONE_TESTS}::test_a_limit_holds_for_all_pairs",
    ),
    "a checker that limits cuts without their perturbed pixels": _tested(
        _CONES,
        "c[cut.pixels], d[cut.perturbed] = cut.c, cut.d",
        "c[cut.pixels] = cut.c",
        f"{_CONE_TESTS}::test_a_limit_holds_for_all_pairs",
    ),
    "a checker that takes perturbed pixels for pixels": _tested(
        "vhagar_check.cuts",
        "b[:, cut.perturbed] -= weight[:, None] * cut.d",
        "a[:, cut.perturbed] -= weight[:, None] * cut.d",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker whose exact cuts forget their perturbed pixels": _tested(
        "vhagar_check.cuts",
        "right[pixel] -= weight * Fraction(own)",
        "right[pixel] -= 0 * Fraction(own)",
        f"{_CUTS}::test_weights_of_cuts_count_as_the_formula_says",
    ),
    "a checker that takes the smallest leaf of a cut": _tested(
        _CONES,
        "limit = max(limit, *np.where(np.isnan(values), np.inf, values).tolist())",
        "limit = max(limit, min(np.where(np.isnan(values), np.inf, values).tolist()))",
        f"{_CONE_TESTS}::test_a_known_maximum_is_found",
    ),
    "a checker that takes off exact cuts of all layers at once": _tested(
        "vhagar_check.cuts",
        "if cut.layer == layer and own]",
        "if own]",
        f"{_CUTS}::test_the_rounding_of_cuts_is_paid_for",
    ),
    "a checker that leaves out the first leaf of a cut": _tested(
        _CONES,
        "for begin in range(0, len(leaves), _BATCH):",
        "for begin in range(1, len(leaves), _BATCH):",
        f"{_CONE_TESTS}::test_every_leaf_counts",
    ),
    "a checker that takes half a cut's tree": _tested(
        _CONES,
        'raise Rejected("the tree of a cut lacks a leaf")',
        "pass",
        f"{_CONE_TESTS}::test_forged_cuts_are_refused[a leaf missing]",
    ),
    "a checker that decides the sign that a leaf does not have": _tested(
        _CONES,
        "for sign in (1, -1)]",
        "for sign in (-1, 1)]",
        f"{_CONE_TESTS}::test_a_known_maximum_is_found",
    ),
    "a checker that cuts off other neurons' corners": _tested(
        _CONES,
        "found.signs[layer, place] = signs",
        "found.signs[layer, place - 1] = signs",
        f"{_CONE_TESTS}::test_a_limit_holds_for_all_pairs",
    ),
    "a cut that its smallest leaf limits": _tested(
        "vhagar.relaxation.lp.cone",
        "[leaf.path for leaf in leaves]).max())",
        "[leaf.path for leaf in leaves]).min())",
        f"{_CONE_SEARCH}::test_cuts_hold_for_every_pair",
    ),
    "a cut whose leaves have the other sign": _tested(
        "vhagar.relaxation.lp.cone",
        "(1 if positive else 2)",
        "(2 if positive else 1)",
        f"{_CONE_SEARCH}::test_a_cut_is_nearly_the_maximum_and_below_the_relaxation",
    ),
    "cuts that cost nothing": _tested(
        "vhagar.relaxation.cone_cuts",
        "constant = constant + self.weights[:, k] * cut.limit",
        "constant = constant + 0.0 * self.weights[:, k]",
        f"{_CONE_SEARCH}::test_weights_are_added_outward",
    ),
    "cuts whose pixels are forgotten": _tested(
        "vhagar.relaxation.cone_cuts",
        "a[:, cut.pixels] -= factor * cut.c",
        "a[:, cut.pixels] -= 0.0 * factor",
        f"{_CONE_SEARCH}::test_weights_are_added_outward",
    ),
    "a cut that is limited without its pixels": _tested(
        "vhagar.relaxation.lp.cone",
        "return plus_inputs(state, objective.c, d, size)",
        "return plus_inputs(state, 0 * objective.c, d, size)",
        f"{_CONE_SEARCH}::test_cuts_hold_for_every_pair",
    ),
    "a cut that is limited without its perturbed pixels": _tested(
        "vhagar.relaxation.lp.cone",
        "return plus_inputs(state, objective.c, d, size)",
        "return plus_inputs(state, objective.c, 0 * d, size)",
        f"{_CONE_SEARCH}::test_cuts_hold_for_every_pair",
    ),
    "cuts whose perturbed pixels are forgotten": _tested(
        "vhagar.relaxation.cone_cuts",
        "b[:, cut.perturbed] -= factor * cut.d",
        "b[:, cut.perturbed] -= 0.0 * factor",
        f"{_CONE_SEARCH}::test_weights_are_added_outward",
    ),
    "cuts whose rounding is forgotten": _tested(
        "vhagar.relaxation.cone_cuts",
        "error = error + unit(terms, a) * (weight @ size + paid)",
        "error = error + 0.0 * paid",
        f"{_CONE_SEARCH}::test_weights_are_added_outward",
    ),
    "a certificate that gives a cut's weight to another cut": _tested(
        "vhagar.search.proofs.store",
        "chosen = [*own[:behind], *(own[behind + cut] for cut in cuts)]",
        "chosen = own[: behind + len(cuts)]",
        "tests/search/test_cut_certificates.py::test_what_is_reported_of_cuts_is_kept_in_order",
    ),
    "a certificate that forgets the weights of cuts": _tested(
        "vhagar.search.proofs.store",
        "weights = [known[cut] if cut < len(known) else 0.0 for cut in cuts]",
        "weights = [0.0 for cut in cuts]",
        "tests/search/test_cut_certificates.py::test_what_is_reported_of_cuts_is_kept_in_order",
    ),
}

FAULTS: dict[str, Fault] = {
    **CUTS,
    **TIGHTENINGS,
    **CHECKER,
    **GUARD,
    **LOCAL,
    **IMAGE_FACTS,
    **ONE_IMAGE,
    **READERS,
    **RELAXATION,
    **FIRST_BOUNDS,
    **DEFINITENESS,
    **SPECTRAL,
    **WINDOWS,
    **BOXES,
    **DOMAINS,
    **QUADRATIC,
    **PERTURBATIONS,
    **SEARCH,
    **RESULT,
    **MIP,
    **TRAPS,
    **OVERLOOKED,
}
