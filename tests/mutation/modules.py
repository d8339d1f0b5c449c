"""Which modules are mutated, which tests must notice, and which mutants are known to survive."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.json")
# The tests that answer for each module: its mirror and, where the mirror only holds a part, those
# next to it.
_KEPT = {
    "vhagar.network.onnx_session": ["tests/result/test_witness.py"],
    "vhagar.result.interval_keeper": ["tests/result/test_interval_keeper.py"],
    "vhagar.result.witness": ["tests/result/test_witness.py"],
    "vhagar.relaxation.twin_dual": [
        "tests/relaxation/test_twin_dual.py",
        "tests/relaxation/test_added_coefficients.py",
        "tests/relaxation/test_one_dual.py",
    ],
    "vhagar.relaxation.pair_hulls": ["tests/relaxation/test_pair_hulls.py"],
    "vhagar.relaxation.windows.bound": ["tests/relaxation/windows/test_window_totals.py"],
    "vhagar.relaxation.windows.boxes": ["tests/relaxation/windows/test_window_trees.py"],
    "vhagar.relaxation.windows.halving": ["tests/relaxation/windows/test_window_trees.py"],
    "vhagar.relaxation.windows.kinds": ["tests/relaxation/windows/test_window_kinds.py"],
    "vhagar.relaxation.windows.multipliers": [
        "tests/relaxation/windows/test_window_multipliers.py"
    ],
    "vhagar.search.proofs.store": ["tests/search/proofs/test_proof_store.py"],
    "vhagar.search.proofs.tree": ["tests/search/proofs/test_proof_tree.py"],
    "vhagar.sweep.question_store": ["tests/sweep/test_store.py", "tests/sweep/test_domain.py"],
    "vhagar.sweep.store": [
        "tests/sweep/test_store.py",
        "tests/sweep/test_cover.py",
        "tests/sweep/test_domain.py",
    ],
}
# The checker's modules: those of its tests that answer for each, which take seconds. All of them
# answer for a module that is not here.
_OF_CHECKER = {
    "affine": "affine moved",
    "arithmetic": "arithmetic graph",
    "arcs": "arcs",
    "batches": "batches",
    "box_proofs": "box_proofs",
    "box_supports": "box_supports",
    "choices": "choices",
    "cli": "cli",
    "clipping": "clipping bookkeeping",
    "conditions": "condition_bounds extremes allowances",
    "container": "container",
    "crops": "crops",
    "definite": "definite allowances",
    "entering": "entering",
    "errors": "errors",
    "cone_proofs": "cone_proofs",
    "convention": "convention",
    "cuts": "cuts allowances",
    "evaluation": "evaluation evaluated_proofs window_proofs",
    "exact": "numbers",
    "feature_operators": "feature_operators",
    "first_stage": "allowances window_regions",
    "folding": "folding graph deciding_constants",
    "formula": "upper formula cuts",
    "graph": "model_files nodes deciding_constants",
    "hexagon": "hexagon allowances",
    "homogeneous": "bias_input",
    "image_facts": "image_facts",
    "intervals": "intervals allowances",
    "joined": "joined",
    "linear_bounds": "linear_bounds allowances",
    "layers": "layers",
    "lowering": "lowering",
    "maps": "recorded_maps",
    "model": "aliases graph",
    "moved": "moved",
    "neuron_bounds": "neuron_bounds",
    "one_image": "image_versions",
    "perturbations": "perturbation_texts pieces",
    "pieces": "piece",
    "pixelwise": "pixelwise allowances",
    "proofs": "proofs tightenings cuts",
    "protobuf": "model_files",
    "quadratic": "quadratic_matrix quadratic_states",
    "rational": "rational proofs cuts",
    "reading": "reading deciding_constants",
    "regions": "regions refinements",
    "roundings": "folding deciding_constants",
    "schema": "model_files fields",
    "selections": "selections graph folding batches deciding_constants",
    "scores": "scores",
    "sparse": "sparse",
    "spectral": "spectral_region",
    "spectral_prover": "spectral_prover",
    "statement": "statement",
    "tightenings": "tightenings",
    "tree": "tree bookkeeping box_proofs",
    "turn_ranges": "turn_ranges arcs",
    "turning": "turning numbers moved",
    "units": "units graph",
    "verdict": "claims",
    "whole_numbers": "whole_numbers",
    "window_boxes": "window_boxes window_memory",
    "window_proofs": "window_regions",
    "window_prover": "window_prover",
    "windows": "windows graph",
    "witnesses": "witnesses",
    "zonotope": "condition_bounds extremes allowances",
}

# Measured in full: all survivors are known, and a sample is taken in every run of everything.
MEASURED = (
    "vhagar.network.onnx_session",
    "vhagar.relaxation.pair_hulls",
    "vhagar.relaxation.twin_dual",
    "vhagar.relaxation.windows.bound",
    "vhagar.relaxation.windows.boxes",
    "vhagar.relaxation.windows.halving",
    "vhagar.relaxation.windows.kinds",
    "vhagar.relaxation.windows.multipliers",
    "vhagar.result.interval_keeper",
    "vhagar.result.witness",
    "vhagar.search.proofs.store",
    "vhagar.search.proofs.tree",
    "vhagar.sweep.question_store",
    "vhagar.sweep.store",
    "vhagar_check.affine",
    "vhagar_check.arcs",
    "vhagar_check.arithmetic",
    "vhagar_check.batches",
    "vhagar_check.box_proofs",
    "vhagar_check.box_supports",
    "vhagar_check.choices",
    "vhagar_check.cli",
    "vhagar_check.clipping",
    "vhagar_check.conditions",
    "vhagar_check.cone_proofs",
    "vhagar_check.container",
    "vhagar_check.convention",
    "vhagar_check.crops",
    "vhagar_check.cuts",
    "vhagar_check.definite",
    "vhagar_check.entering",
    "vhagar_check.errors",
    "vhagar_check.evaluation",
    "vhagar_check.exact",
    "vhagar_check.feature_operators",
    "vhagar_check.first_stage",
    "vhagar_check.folding",
    "vhagar_check.formula",
    "vhagar_check.graph",
    "vhagar_check.hexagon",
    "vhagar_check.homogeneous",
    "vhagar_check.image_facts",
    "vhagar_check.intervals",
    "vhagar_check.joined",
    "vhagar_check.layers",
    "vhagar_check.linear_bounds",
    "vhagar_check.lowering",
    "vhagar_check.maps",
    "vhagar_check.model",
    "vhagar_check.moved",
    "vhagar_check.neuron_bounds",
    "vhagar_check.one_image",
    "vhagar_check.perturbations",
    "vhagar_check.pieces",
    "vhagar_check.pixelwise",
    "vhagar_check.proofs",
    "vhagar_check.protobuf",
    "vhagar_check.quadratic",
    "vhagar_check.rational",
    "vhagar_check.reading",
    "vhagar_check.regions",
    "vhagar_check.roundings",
    "vhagar_check.schema",
    "vhagar_check.scores",
    "vhagar_check.selections",
    "vhagar_check.sparse",
    "vhagar_check.spectral",
    "vhagar_check.spectral_prover",
    "vhagar_check.statement",
    "vhagar_check.tightenings",
    "vhagar_check.tree",
    "vhagar_check.turn_ranges",
    "vhagar_check.turning",
    "vhagar_check.units",
    "vhagar_check.verdict",
    "vhagar_check.whole_numbers",
    "vhagar_check.window_boxes",
    "vhagar_check.window_proofs",
    "vhagar_check.window_prover",
    "vhagar_check.windows",
    "vhagar_check.witnesses",
    "vhagar_check.zonotope",
)


def modules() -> dict[str, list[str]]:
    """Every module that is mutated, with its tests."""
    checker = sorted((ROOT / "src" / "vhagar_check").glob("*.py"))
    names = [path.stem for path in checker if not path.stem.startswith("__")]
    return {**_KEPT, **{f"vhagar_check.{name}": _tests_of(name) for name in names}}


def _tests_of(name: str) -> list[str]:
    if name not in _OF_CHECKER:
        return ["tests/check"]
    return [f"tests/check/test_{each}.py" for each in _OF_CHECKER[name].split()]


def source_of(module: str) -> Path:
    """The file that is imported, which need not lie here: the package may have been installed."""
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def known_survivors() -> dict[str, str]:
    """The mutants that no test notices, each with the reason why it may live."""
    found: dict[str, str] = json.loads(SURVIVORS.read_text())
    return found
