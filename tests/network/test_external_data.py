"""Weights stored beside the model are read from the model's own folder, and from nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vhagar import InvalidInput, Problem, local, verify
from vhagar.errors import InvalidNetwork
from vhagar.network import Affine, read_onnx
from vhagar.network.onnx_reader import require_one_file

WEIGHT = np.arange(24, dtype=np.float32).reshape(8, 3) / 7


def external_model(build: type, in_node: bool = False, **entries: str) -> Any:
    """A model whose weight is in another file; `entries` say where."""
    builder = build((8,)).add("Gemm", WEIGHT, np.zeros(3))
    model = builder.model()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    if in_node:
        node = helper.make_node("Constant", [], [tensor.name], value=tensor)
        del model.graph.initializer[0]
        model.graph.node.insert(0, node)
    return model


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Data in the model's folder, below it, and outside of it."""
    inside = tmp_path / "models"
    (inside / "below").mkdir(parents=True)
    for place in (inside, inside / "below", tmp_path):
        (place / "weights.bin").write_bytes(WEIGHT.tobytes())
    (inside / "padded.bin").write_bytes(b"head" + WEIGHT.tobytes() + b"tail")
    (inside / "link_out.bin").symlink_to(tmp_path / "weights.bin")
    (inside / "link_in.bin").symlink_to(inside / "weights.bin")
    (inside / "folder_out").symlink_to(tmp_path)
    (inside / "circle").symlink_to(inside / "circle")
    return inside


def save(model: Any, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("in_node", [False, True], ids=["initialiser", "Constant"])
@pytest.mark.parametrize(
    "entries",
    [
        {"location": "weights.bin"},
        {"location": "below/weights.bin"},
        {"location": "below/../weights.bin"},
        {"location": "padded.bin", "offset": "4", "length": "96"},
    ],
    ids=str,
)
def test_data_in_the_folder_is_read(
    build: type, folders: Path, entries: dict[str, str], in_node: bool, onnxruntime_scores: Callable
) -> None:
    network = read_onnx(save(external_model(build, in_node, **entries), folders))
    (layer,) = network.layers
    assert isinstance(layer, Affine)
    assert (layer.weight == WEIGHT.T).all()
    # The bytes that the network keeps stand alone.
    assert onnxruntime_scores(network.model, np.ones((1, 8))) == pytest.approx(
        WEIGHT.sum(axis=0)[None], rel=1e-5
    )


@pytest.mark.parametrize("in_node", [False, True], ids=["initialiser", "Constant"])
@pytest.mark.parametrize(
    "location",
    [
        "../weights.bin",
        "below/../../weights.bin",
        "{outside}/weights.bin",
        "{inside}/weights.bin",
        "link_out.bin",
        "folder_out/weights.bin",
        "circle",
        ".",
        "",
        "weights\0.bin",
    ],
)
def test_data_outside_the_folder_is_refused(
    build: type, folders: Path, location: str, in_node: bool
) -> None:
    location = location.format(outside=folders.parent, inside=folders)
    path = save(external_model(build, in_node, location=location), folders)
    with pytest.raises(InvalidNetwork, match="outside the model's folder"):
        read_onnx(path)


def test_no_location_is_outside_as_well(build: type, folders: Path) -> None:
    with pytest.raises(InvalidNetwork, match="outside the model's folder"):
        read_onnx(save(external_model(build, offset="0"), folders))


@pytest.mark.parametrize(
    "entries",
    [
        {"location": "lost.bin"},
        {"location": "below"},
        {"location": "weights.bin", "length": "50"},
        {"location": "weights.bin", "offset": "5000"},
        {"location": "weights.bin", "offset": "-5"},
        {"location": "weights.bin", "length": "many"},
    ],
    ids=str,
)
def test_data_that_does_not_fit_is_refused(
    build: type, folders: Path, entries: dict[str, str]
) -> None:
    with pytest.raises(InvalidNetwork, match=r"cannot be|no whole number"):
        read_onnx(save(external_model(build, **entries), folders))


def test_a_model_reached_through_a_link_still_finds_its_data(build: type, folders: Path) -> None:
    path = save(external_model(build, location="weights.bin"), folders)
    link = folders.parent / "linked.onnx"
    link.symlink_to(path)
    assert read_onnx(link).classes == 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("location", "other.bin"), "two entries"),
        (("offset", " 16"), "no whole number"),
        (("offset", "1_6"), "no whole number"),
        (("length", "-1"), "no whole number"),
        (("prepacked_0", "gemm|0|96|1"), "of another kind"),
        (("basepath", "/tmp"), "of another kind"),
    ],
)
def test_entries_that_can_be_read_in_two_ways_are_refused(
    build: type, tmp_path: Path, more: tuple[str, str], words: str
) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    model = external_model(build, location="weights.bin")
    model.graph.initializer[0].external_data.add(key=more[0], value=more[1])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InvalidNetwork, match=words):
        read_onnx(tmp_path / "model.onnx")


def test_no_certificate_about_a_model_in_two_files(
    folders: Path, build: type, tmp_path: Path
) -> None:
    """Its hash would say nothing about the weights."""
    path = save(external_model(build, location="weights.bin"), folders)
    network = read_onnx(path)
    certificate = tmp_path / "proof.cert"
    problem = Problem(network, perturbation="linf(0.01)", source=0)
    with pytest.raises(InvalidInput, match=r"save it as one file.*external_data=False"):
        verify(problem, timeout=5, workers=0, certificate=certificate)
    image = np.ones(8)
    with pytest.raises(InvalidInput, match="save it as one file"):
        local(network, image=image, perturbation="linf(0.01)", certificate=certificate)
    assert not certificate.exists()
    with pytest.raises(InvalidInput) as refused:
        require_one_file(network)
    # What the message says to do, from any folder.
    advice = re.search(r"onnx\.save\(onnx\.load\((.*)\), 'one\.onnx'\)", str(refused.value))
    assert advice is not None
    onnx.save(onnx.load(ast.literal_eval(advice[1])), folders / "one.onnx")
    require_one_file(read_onnx(folders / "one.onnx"))


def test_a_model_that_was_damaged_meanwhile(build: type, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    path = save(external_model(build, location="weights.bin"), tmp_path)
    network = read_onnx(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InvalidNetwork, match="cannot be parsed"):
        require_one_file(network)
