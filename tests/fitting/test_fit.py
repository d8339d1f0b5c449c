"""Domains from data hold the stated share of the held-out half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vhagar import Domain
from vhagar.dataset import as_float32
from vhagar.errors import InvalidInput
from vhagar.fitting import box_around, fit_box, fit_components
from vhagar.fitting.data_rows import unlikely_weights
from vhagar.fitting.picture import bar_labels, draw_domain, is_image, panels, samples
from vhagar.fitting.sources import data_shape
from vhagar.fitting.words import coverage_lines, domain_lines
from vhagar.perturbation.domain.linear_rows import linear_rows

WHOLE = Domain((1, 3, 4))


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    inputs = np.clip(rng.normal(0.4, 0.1, (80, 12)), 0, 1)
    inputs[:, 5] = 0.25
    return inputs, rng.integers(0, 2, 80)


@pytest.mark.parametrize("cover", [0.5, 0.9, 1.0])
def test_a_box_covers_what_is_asked_and_little_more(
    data: tuple[np.ndarray, np.ndarray], cover: float
) -> None:
    inputs, labels = data
    found = fit_box(inputs, WHOLE, cover, labels, "box")
    inside, held = found.covered
    assert held == 40
    assert cover * held <= inside <= cover * held + 1
    assert found.classes is not None
    assert sum(own for own, _ in found.classes.values()) == inside
    assert sum(count for _, count in found.classes.values()) == held
    assert found.domain.low[5] == found.domain.high[5] == 0.25
    # Nowhere beyond all inputs, but for the next float32 number outward.
    assert (found.domain.low >= (1 - 1e-6) * inputs.min(axis=0)).all()
    assert (found.domain.high <= (1 + 1e-6) * inputs.max(axis=0)).all()
    assert coverage_lines(found)[0].startswith(f"{inside} of 40 held-out inputs")


@pytest.mark.parametrize("components", [None, 3])
def test_what_is_inside_is_inside_as_float32_too(
    data: tuple[np.ndarray, np.ndarray], components: int | None
) -> None:
    """Runtimes take float32: an input at an end of its range must not fall out by rounding."""
    inputs, _ = data
    if components is None:
        found = fit_box(inputs, WHOLE, 1.0)
    else:
        found = fit_components(inputs, WHOLE, components, 1.0)
    assert found.covered == (40, 40)
    rounded = as_float32(inputs, WHOLE)
    assert found.domain.contains(rounded).sum() >= 40
    if components is None:
        inside = found.domain.contains(inputs)
        assert found.domain.contains(rounded)[inside].all()


def test_a_smaller_share_is_a_smaller_box(data: tuple[np.ndarray, np.ndarray]) -> None:
    small, large = (fit_box(data[0], WHOLE, cover).domain for cover in (0.5, 0.95))
    assert (small.low >= large.low).all()
    assert (small.high <= large.high).all()
    assert (small.high - small.low).sum() < (large.high - large.low).sum()


def test_whole_numbers_and_groups_keep_their_ends() -> None:
    rng = np.random.default_rng(4)
    hot = np.eye(2)[rng.integers(0, 2, 50)]
    inputs = np.hstack([rng.integers(3, 90, (50, 1)), hot, rng.random((50, 1))])
    conditions = {
        "integer": (0,),
        "one_hot": ((1, 2),),
        "features": ("age", "man", "woman", "share"),
        "classes": ("ill", "well"),
    }
    whole = Domain((4,), -100, 200)
    domain = fit_box(inputs, whole, 0.8, name="p", conditions=conditions).domain
    assert domain.low[0] == int(domain.low[0])
    assert domain.high[0] == int(domain.high[0])
    assert domain.low[1:3].tolist() == [0, 0]
    lines = domain_lines(domain)
    assert any("age" in line and "integer" in line for line in lines)
    assert any("woman" in line and "one-hot 1" in line for line in lines)
    assert "classes: ill, well" in lines
    # The mean of ranges in different units says nothing.
    assert not any("of the input range" in line for line in lines)


def test_a_zonotope_covers_what_is_asked(data: tuple[np.ndarray, np.ndarray]) -> None:
    inputs, labels = data
    found = fit_components(inputs, WHOLE, 3, 0.9, labels, "z")
    inside, held = found.covered
    assert inside >= 0.9 * held
    assert found.domain.zonotope is not None
    assert found.domain.zonotope.count == 3
    assert any("a zonotope of 3 components" in line for line in domain_lines(found.domain))
    assert len(panels(found.domain)) == 3 + 4 + 3


@pytest.mark.parametrize("components", [None, 3])
@pytest.mark.parametrize("cover", [0.5, 0.9, 1.0])
def test_likely_inputs_are_covered_and_unlikely_ones_are_not(
    data: tuple[np.ndarray, np.ndarray], components: int | None, cover: float
) -> None:
    inputs, labels = data
    if components is None:
        found = fit_box(inputs, WHOLE, cover, labels, likely=True)
    else:
        found = fit_components(inputs, WHOLE, components, cover, labels, likely=True)
    inside, held = found.covered
    assert cover * held <= inside <= cover * held + 1
    domain = found.domain
    assert domain.rows is not None
    assert domain.rows.count == 1
    # All that is unusual at once: every entry at its less likely end.
    weights = domain.rows.matrix.toarray()[0]
    odd = np.where(weights > 0, domain.high, domain.low)[None]
    assert domain.box.contains(odd).all()
    assert not domain.contains(odd).any()
    assert "1 linear row" in domain_lines(domain)


def test_an_entry_at_its_usual_end_makes_an_input_likelier() -> None:
    known = np.array([[0.0, 10.0, 5.0], [0.0, 10.0, 5.0], [0.0, 10.0, 5.0], [10.0, 10.0, 5.0]])
    weights = unlikely_weights(known, Domain((3,), 0, 10))
    assert weights[0] > 0 > weights[1]
    assert weights[2] == 0
    assert abs(weights[1]) > weights[0]


def test_a_box_around_an_input() -> None:
    x = np.linspace(0, 1, 12)
    found = box_around(x, 0.25, WHOLE, "like")
    assert found.contains(x[None]).all()
    assert found.low[0] == 0
    assert found.high[0] == 0.25
    each = box_around(x, np.full(12, 0.5), WHOLE)
    assert (each.high[:6] == x[:6] + 0.5).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda inputs: fit_box(inputs, WHOLE, 0.0),
        lambda inputs: fit_box(inputs, WHOLE, 1.5),
        lambda inputs: fit_box(inputs[:3], WHOLE),
        lambda inputs: fit_components(inputs, WHOLE, 0),
        lambda inputs: fit_components(inputs, WHOLE, 13),
        lambda inputs: box_around(inputs[0], -0.1, WHOLE),
    ],
)
def test_what_makes_no_sense_is_refused(data: tuple[np.ndarray, np.ndarray], wrong) -> None:
    with pytest.raises(InvalidInput):
        wrong(data[0])


def test_samples_lie_in_the_domain(data: tuple[np.ndarray, np.ndarray], tmp_path) -> None:
    domain = fit_box(data[0], WHOLE, 0.9).domain
    assert domain.contains(samples(domain)).all()
    assert is_image(domain)
    assert not is_image(Domain((4,)))
    for drawn in (domain, Domain((4,), [0, 1, 2, 3], [1, 1, 5, 7], range=(0.0, 9.0))):
        draw_domain(drawn, tmp_path / "d.png")
        assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


def test_a_zonotope_reaches_no_farther_than_the_data(data: tuple[np.ndarray, np.ndarray]) -> None:
    """One entry that is bright in one input of the held-out half widens no other."""
    for row in range(8):
        inputs = data[0].copy()
        inputs[row, 5] = 0.95
        zonotope = fit_components(inputs, WHOLE, 2, cover=1.0).domain.zonotope
        own = (inputs - zonotope.mean) @ zonotope.components.T
        rest = inputs - zonotope.mean - own @ zonotope.components
        most = np.maximum(abs(rest).max(axis=0), 0.01)
        assert (zonotope.residual <= (1 + 1e-5) * most).all()
        assert (zonotope.ranges <= (1 + 1e-5) * np.maximum(abs(own).max(axis=0), 0.01)).all()


def test_bars_say_what_a_feature_is() -> None:
    groups = {"integer": [0], "one_hot": [[1, 2]], "fixed": {3: 4.0}, "range": (0.0, 9.0)}
    domain = Domain((4,), 0.0, [7.0, 1.0, 1.0, 9.0], **groups)
    kinds = ["0 to 7, integer", "0 to 1, one-hot 1", "0 to 1, one-hot 1", "4"]
    assert bar_labels(domain) == kinds


def test_one_is_not_several() -> None:
    row = linear_rows({0: 1.0}, 12, at_most=0.5)
    lines = domain_lines(Domain((1, 3, 4), rows=[row], fixed={0: 0.25}))
    assert lines[-2:] == ["1 entry has one value", "1 linear row"]


@pytest.mark.parametrize(
    ("shape", "expected"), [((4,), (4,)), ((3, 4), (1, 3, 4)), ((1, 3, 4),) * 2]
)
def test_the_shape_of_one_stored_input(
    shape: tuple[int, ...], expected: tuple[int, ...], tmp_path: Path
) -> None:
    np.save(tmp_path / "one.npy", np.zeros(shape))
    assert data_shape(tmp_path / "one.npy") == expected
    np.save(tmp_path / "many.npy", np.zeros((7, *shape)))
    assert data_shape(tmp_path / "many.npy", 2) == expected
    np.savez(tmp_path / "many.npz", x=np.zeros((7, *shape)), y=np.zeros(7))
    assert data_shape(tmp_path / "many.npz") == expected
