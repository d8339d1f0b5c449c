"""Inputs from files, in the network's range, or an error that says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vhagar.array_types import Array
from vhagar.dataset import (
    attack_starts,
    nearest,
    read_dataset,
    read_image,
    read_test_set,
    read_training_set,
)
from vhagar.errors import InvalidInput
from vhagar.options import Options
from vhagar.perturbation import Domain

GREY = Domain((1, 4, 5), 0.0, 1.0)
COLOUR = Domain((3, 4, 5), -1.0, 1.0)


def test_an_archive_of_bytes_is_scaled(tmp_path: Path) -> None:
    images = np.arange(40, dtype=np.uint8).reshape(2, 4, 5)
    np.savez(tmp_path / "data.npz", images=images, labels=np.array([1, 2]))
    inputs = read_dataset(tmp_path / "data.npz", GREY)
    np.testing.assert_array_equal(inputs, images.reshape(2, 20) / 255.0)


def test_bytes_end_at_the_ends_of_the_range(tmp_path: Path) -> None:
    """0.1 + 0.7 is above 0.8 in float64, and nothing outside the range may come of a byte."""
    domain = Domain((1, 1, 2), 0.1, 0.8)
    np.savez(tmp_path / "data.npz", images=np.array([[[0, 255]]], dtype=np.uint8))
    np.testing.assert_array_equal(read_dataset(tmp_path / "data.npz", domain), [[0.1, 0.8]])


def test_for_a_test_set_nothing_else_is_read(tmp_path: Path) -> None:
    """A training set is six times as large. This one could not even be read."""
    inputs = np.linspace(0, 1, 40).reshape(2, 20)
    unreadable = np.array([[None] * 20, [None] * 20], dtype=object)
    np.savez(tmp_path / "both.npz", x_train=unreadable, x_test=inputs, y_test=np.array([3, 4]))
    found, labels = read_test_set(tmp_path / "both.npz", GREY)
    np.testing.assert_array_equal(found, inputs)
    assert labels is not None
    assert labels.tolist() == [3, 4]
    with pytest.raises(InvalidInput, match=r"both\.npz"):
        read_dataset(tmp_path / "both.npz", GREY)


def test_the_training_set_is_one_part_of_two(tmp_path: Path) -> None:
    first, second = np.linspace(0, 1, 60).reshape(3, 20), np.zeros((2, 20))
    labels = {"y_train": np.array([5, 6, 7]), "y_test": np.array([3, 4])}
    np.savez(tmp_path / "both.npz", x_train=first, x_test=second, **labels)
    found, own = read_training_set(tmp_path / "both.npz", GREY)
    np.testing.assert_array_equal(found, first)
    assert own is not None
    assert own.tolist() == [5, 6, 7]
    np.savez(tmp_path / "one.npz", inputs=second, labels=np.array([3, 4]))
    assert len(read_training_set(tmp_path / "one.npz", GREY)[0]) == 2


def test_attacks_start_from_a_few_inputs_of_a_large_data_set(tmp_path: Path) -> None:
    """To rank 70,000 inputs takes an attack fifteen seconds, which it may not have."""
    inputs = np.linspace(0, 1, 4_001).repeat(20).reshape(-1, 20)
    np.savez(tmp_path / "large.npz", inputs)
    found = attack_starts(Options(dataset=tmp_path / "large.npz"), GREY)
    assert found is not None
    assert 1_000 <= len(found) <= 2_000
    assert found[0, 0] == 0.0
    assert found[-1, 0] >= 0.99
    np.savez(tmp_path / "small.npz", inputs[:7])
    few = attack_starts(Options(dataset=tmp_path / "small.npz"), GREY)
    np.testing.assert_array_equal(few, inputs[:7])
    assert attack_starts(Options(), GREY) is None


def test_an_archive_of_numbers_is_taken_as_it_is(tmp_path: Path) -> None:
    images = np.linspace(-1, 1, 60).reshape(1, 3, 4, 5)
    np.savez(tmp_path / "data.npz", images)
    np.testing.assert_array_equal(read_dataset(tmp_path / "data.npz", COLOUR)[0], images.ravel())


def test_a_folder_of_images_has_channels_first(tmp_path: Path) -> None:
    pixels = np.zeros((4, 5, 3), dtype=np.uint8)
    pixels[1, 2] = (255, 0, 51)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    (tmp_path / "notes.txt").write_text("no image")
    (image,) = read_dataset(tmp_path, COLOUR).reshape(-1, 3, 4, 5)
    np.testing.assert_allclose(image[:, 1, 2], [1.0, -1.0, -0.6])
    assert image.sum() == pytest.approx(-60 + 2.0 + 0.4)


def _several(path: Path) -> None:
    np.savez(path, one=np.zeros((2, 20)), two=np.zeros((3, 20)))


def _too_large(path: Path) -> None:
    np.savez(path, images=np.full((1, 20), 1.5))


def _not_a_number(path: Path) -> None:
    images = np.zeros((3, 20))
    images[2, 7] = np.nan
    np.savez(path, images=images)


def _texts(path: Path) -> None:
    np.savez(path, images=np.full((3, 20), "dark"))


def _nothing(path: Path) -> None:
    path.write_bytes(b"nothing")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (_several, "should hold one array of inputs"),
        (_too_large, "outside the input range"),
        (_not_a_number, "input 2 of .* holds NaN"),
        (_texts, "are of type <U4, not numbers"),
        (_nothing, "cannot read .*: it is no file of numpy arrays"),
    ],
)
def test_wrong_archives(write: object, message: str, tmp_path: Path) -> None:
    assert callable(write)
    write(tmp_path / "data.npz")
    with pytest.raises(InvalidInput, match=message):
        read_dataset(tmp_path / "data.npz", GREY)


@pytest.mark.parametrize("name", ["y", "labels", "y_test"])
@pytest.mark.parametrize(
    "labels", [np.arange(3, dtype=np.uint8), np.arange(3.0), np.arange(3).reshape(3, 1)]
)
def test_labels_may_be_a_column_or_floats(tmp_path: Path, name: str, labels: np.ndarray) -> None:
    arrays = {"x": np.zeros((3, 20)), "ids": np.arange(3), name: labels}
    np.savez(tmp_path / "data.npz", **arrays)
    found = read_test_set(tmp_path / "data.npz", GREY)[1]
    assert found is not None
    assert (found.dtype, found.tolist()) == (np.int64, [0, 1, 2])


@pytest.mark.parametrize(
    "labels", [np.arange(2), np.arange(4), np.eye(3), np.array([0.5, 1, 2]), np.full(3, np.nan)]
)
def test_labels_that_cannot_be_are_not_passed_over(tmp_path: Path, labels: np.ndarray) -> None:
    np.savez(tmp_path / "data.npz", x=np.zeros((3, 20)), y=labels)
    with pytest.raises(InvalidInput, match=r"y in .* should hold the labels of 3 inputs"):
        read_test_set(tmp_path / "data.npz", GREY)


def test_wrong_places(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no images"):
        read_dataset(tmp_path, GREY)
    with pytest.raises(InvalidInput, match=r"no data at .*nowhere\.npz"):
        read_dataset(tmp_path / "nowhere.npz", GREY)
    (tmp_path / "data.txt").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match=r"neither a folder.* nor an \.npz or \.csv file"):
        read_dataset(tmp_path / "data.txt", GREY)
    Image.fromarray(np.zeros((7, 7), dtype=np.uint8)).save(tmp_path / "a.png")
    with pytest.raises(InvalidInput, match="does not fit"):
        read_dataset(tmp_path, GREY)


def test_images_with_their_channels_last_are_turned(tmp_path: Path) -> None:
    path, domain = tmp_path / "images.npz", Domain((3, 2, 4))
    first = np.random.default_rng(0).random((5, 3, 2, 4))
    np.savez(path, inputs=first.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(read_dataset(path, domain), first.reshape(5, -1))
    # Where both readings are possible the shape is the network's.
    square = np.random.default_rng(0).random((5, 3, 3, 3))
    np.savez(path, inputs=square)
    np.testing.assert_array_equal(read_dataset(path, Domain((3, 3, 3))), square.reshape(5, -1))


@pytest.mark.parametrize("beyond", [1e-9, 1e-7])
def test_values_that_rounding_left_outside_are_clipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, beyond: float
) -> None:
    images = np.full((2, 20), 0.5)
    images[0, 3], images[1, 4] = 1 + beyond, -beyond
    np.savez(tmp_path / "data.npz", images=images)
    inputs = read_dataset(tmp_path / "data.npz", GREY)
    np.testing.assert_array_equal(inputs, np.clip(images, 0, 1))
    assert "are clipped" in caplog.text


@pytest.mark.parametrize("wrong", [1.00001, -np.inf])
def test_values_outside_are_not_clipped(tmp_path: Path, wrong: float) -> None:
    images = np.full((2, 20), 0.5)
    images[1, 2] = wrong
    np.savez(tmp_path / "data.npz", images=images)
    with pytest.raises(InvalidInput, match="outside the input range"):
        read_dataset(tmp_path / "data.npz", GREY)


def test_the_nearest_input_of_a_data_set() -> None:
    domain = Domain((1, 1, 3), [0.0, 0.0, 0.5], [1.0, 0.1, 0.5], range=(0.0, 1.0))
    data = np.array([[0.2, 0.0, 0.5], [0.9, 0.1, 0.5], [0.6, 0.05, 0.5]])
    x = np.array([[0.3, 0.1, 0.5], [0.9, 0.1, 0.5]])
    first, second = nearest(x, data, domain, np.array([7, 8, 9]))
    # The second entry counts as much as the first, although its range is a tenth of it.
    assert (first.row, first.label) == (2, 9)
    assert first.distance == pytest.approx(np.sqrt((0.3**2 + 0.5**2) / 3))
    assert (second.row, second.distance) == (1, 0.0)
    np.testing.assert_array_equal(second.x, data[1])
    assert nearest(x[:1], data[:1], domain)[0].label is None


PATIENTS = Domain(
    (3,),
    (0.0, 0.0, 0.0),
    (99.0, 1.0, 120.0),
    range=(0.0, 200.0),
    features=("age", "smoker", "weight"),
    classes=("ill", "well"),
)


def _table(folder: Path, text: str) -> Path:
    path = folder / "patients.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("label", ["class", "label", "outcome"])
def test_columns_of_a_table_are_found_by_the_names_of_features(tmp_path: Path, label: str) -> None:
    text = f"weight,{label},age,smoker\n70.5,well,34,False\n82,ill,51,True\n"
    inputs, labels = read_test_set(_table(tmp_path, text), PATIENTS)
    assert inputs.tolist() == [[34, 0, 70.5], [51, 1, 82]]
    assert labels is not None
    assert labels.tolist() == [1, 0]
    assert read_dataset(tmp_path / "patients.csv", PATIENTS).tolist() == inputs.tolist()
    assert read_image(tmp_path / "patients.csv", PATIENTS, 1).tolist() == [51, 1, 82]


def test_without_names_the_columns_of_a_table_are_the_entries(tmp_path: Path) -> None:
    plain = Domain((2,), 0.0, 9.0)
    inputs, labels = read_test_set(_table(tmp_path, "a,target,b\n1,2.0,3\n4,0,5\n"), plain)
    assert inputs.tolist() == [[1, 3], [4, 5]]
    assert labels is not None
    assert labels.tolist() == [2, 0]
    assert read_test_set(_table(tmp_path, "a,b\n1,2\n"), plain)[1] is None
    with pytest.raises(InvalidInput, match=r"3 columns of features \(a, b, c\), .* have 2 entries"):
        read_dataset(_table(tmp_path, "a,b,c\n1,2,3\n"), plain)


def test_names_of_classes_that_nobody_has_told_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _table(tmp_path, "a,b,class\n1,2,well\n")
    inputs, labels = read_test_set(path, Domain((2,), 0.0, 9.0))
    assert inputs.tolist() == [[1, 2]]
    assert labels is None
    assert "the labels are not used" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,smoker\n1,0\n", "it has no column weight\\. Rename"),
        ("age,smoker,weight,ward\n1,0,2,3\n", "the domain has no feature ward\\. Rename"),
        ("age,smokes,mass\n1,0,2\n", "no column smoker, weight; .* no feature smokes, mass"),
        ("age,smoker,weight,class\n1,0,2,dead\n", "line 2 of .* the class 'dead'.* ill, well"),
        ("age,smoker,weight\n1,0,?\n", "line 2 of .* has no value in the column weight"),
        ("age,smoker,weight\n1,0,999\n", "values outside the input range"),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_test_set(_table(tmp_path, text), PATIENTS)


def test_an_index_counts_in_the_test_set(tmp_path: Path) -> None:
    """As the places that coverage names do."""
    domain = Domain((1, 1, 2))
    train, test = np.full((3, 1, 1, 2), 0.25), np.array([[0.5, 0.75]]).reshape(1, 1, 1, 2)
    np.savez(tmp_path / "both.npz", x_train=train, x_test=test, y_train=[0, 0, 0], y_test=[1])
    assert read_image(tmp_path / "both.npz", domain, 0).tolist() == [0.5, 0.75]
    with pytest.raises(InvalidInput, match="1 inputs"):
        read_image(tmp_path / "both.npz", domain, 1)


@pytest.mark.parametrize("labels", [np.eye(3), np.array([0.5, 1.5, 2.5]), np.arange(2)])
def test_one_input_needs_no_labels(tmp_path: Path, labels: Array) -> None:
    """One-hot or real targets, or too few of them, are no reason to refuse an input."""
    inputs = np.linspace(0, 1, 60).reshape(3, 20)
    np.savez(tmp_path / "data.npz", x=inputs, y=labels)
    np.testing.assert_array_equal(read_image(tmp_path / "data.npz", GREY, 1), inputs[1])
    with pytest.raises(InvalidInput, match="should hold the labels"):
        read_test_set(tmp_path / "data.npz", GREY)
