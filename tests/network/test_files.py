"""Files that are no ONNX models are recognised, and half-precision models are read exactly."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto
from torch import nn

from vhagar import InvalidInput, InvalidNetwork, Problem, verify
from vhagar.network import read_onnx
from vhagar_check import check
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

MODULE = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).eval()


def saved(write: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def safetensors() -> bytes:
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(head).to_bytes(8, "little") + head + bytes(4)


def exported() -> bytes:
    program = torch.export.export(MODULE, (torch.zeros(1, 4),))
    return saved(lambda file: torch.export.save(program, file))


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "gzip": (lambda: gzip.compress(b"model"), "gunzip --keep"),
    "a web page": (lambda: b"<!DOCTYPE html><title>404</title>", "download the model again"),
    "a Git LFS pointer": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "git lfs pull",
    ),
    "a program": (exported, r"vhagar\.from_torch\(torch\.export\.load\(path\)\)"),
    "TorchScript": (
        lambda: saved(
            lambda file: torch.jit.save(torch.jit.trace(MODULE, torch.zeros(1, 4)), file)
        ),
        "TorchScript.*torch.onnx.export",
    ),
    "a state dict": (
        lambda: saved(lambda file: torch.save(MODULE.state_dict(), file)),
        r"vhagar\.load_weights",
    ),
    "a module": (lambda: saved(lambda file: torch.save(MODULE, file)), "can run code"),
    "an old state dict": (
        lambda: saved(
            lambda file: torch.save(MODULE.state_dict(), file, _use_new_zipfile_serialization=False)
        ),
        r"vhagar\.load_weights",
    ),
    "a pickle": (lambda: pickle.dumps({"a": 1}), "can run code"),
    "safetensors": (safetensors, "safetensors"),
    "Keras": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(40), "tf2onnx"),
    "TensorFlow Lite": (lambda: b"\x1c\x00\x00\x00TFL3" + bytes(40), "--tflite"),
    "an array": (lambda: saved(lambda file: np.save(file, np.zeros(3))), "NumPy"),
    "arrays": (lambda: saved(lambda file: np.savez(file, x=np.zeros(3))), "NumPy arrays"),
    "a zip archive": (lambda: b"PK\x03\x04" + bytes(40), "zip"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_other_files_are_recognised(save: Callable, name: str) -> None:
    make, answer = FILES[name]
    path = save(make())
    with pytest.raises(InvalidNetwork, match=answer) as caught:
        read_onnx(path)
    assert "is not an ONNX model" in str(caught.value)


def test_external_weights_name_their_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "model.onnx.data").write_bytes(np.ones(9, np.float32).tobytes())
    with pytest.raises(InvalidNetwork, match=r"the weights of .*model\.onnx: give that file"):
        read_onnx(tmp_path / "model.onnx.data")


def test_a_folder_of_tensorflow_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InvalidInput, match="tf2onnx"):
        read_onnx(tmp_path)


def in_half_precision(build: type, kind: int, raw: bool, mixed: bool) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(4)
    b = build((4,))
    weights = [rng.normal(size=shape) for shape in ((4, 5), (5,), (5, 3))]
    names = [b.constant(weight) for weight in weights]
    if mixed:
        b.add("Cast", to=kind)
    b.add("Gemm", *names[:2]).add("Relu").add("MatMul", names[2])
    if mixed:
        b.add("Cast", to=TensorProto.FLOAT)
    model = b.model()
    stored = []
    for tensor, weight in zip(model.graph.initializer, weights, strict=True):
        rounded, bits = _halved(weight, kind)
        stored.append(rounded)
        half = TensorProto(name=tensor.name, dims=weight.shape, data_type=kind)
        if raw:
            half.raw_data = bits.astype("<u2").tobytes()
        else:
            half.int32_data.extend(bits.reshape(-1).tolist())
        tensor.CopyFrom(half)
    if not mixed:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = kind
    return model, stored


def _halved(weight: np.ndarray, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of half precision, and their bits."""
    if kind == TensorProto.FLOAT16:
        half = weight.astype(np.float16)
        return half.astype(float), half.view(np.uint16)
    bits = weight.astype(np.float32).view(np.uint32) >> 16
    return (bits << 16).astype(np.uint32).view(np.float32).astype(float), bits.astype(np.uint16)


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_half_precision_weights_are_taken_exactly(
    build: type, save: Callable, onnxruntime_scores: Callable, kind: int, raw: bool, mixed: bool
) -> None:
    model, (first, bias, last) = in_half_precision(build, kind, raw, mixed)
    path = save(model)
    network = read_onnx(path)
    assert any("half-precision" in note for note in network.notes)
    x = np.random.default_rng(9).random((6, 4))
    expected = np.maximum(x @ first + bias, 0) @ last
    np.testing.assert_allclose(network.forward(x), expected, rtol=1e-13)
    np.testing.assert_allclose(onnxruntime_scores(network.model, x), expected, rtol=1e-4, atol=1e-5)
    checker = read_model(path.read_bytes())
    for row, wanted in zip(x, expected, strict=True):
        scores = [float(score) for score in checker.exact_scores(Exact.of(row)).fractions()]
        np.testing.assert_allclose(scores, wanted, rtol=1e-12)


def test_half_precision_is_verified_with_a_certificate(
    build: type, save: Callable, tmp_path: Path
) -> None:
    path = save(in_half_precision(build, TensorProto.FLOAT16, True, False)[0])
    proof = tmp_path / "proof.cert"
    problem = Problem(read_onnx(path), perturbation="linf(0.05)", source=0)
    result = verify(problem, workers=1, timeout=20, certificate=proof)
    verdict = check(proof, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)
    assert result.lower > 0


def test_constants_are_not_rounded_to_half_precision(build: type, save: Callable) -> None:
    b = build((4,))
    half = b.follow(b.constant(np.ones((4, 3)))).add("Cast", to=TensorProto.FLOAT16).last
    path = save(b.follow("image").add("Cast", to=TensorProto.FLOAT16).add("MatMul", half))
    with pytest.raises(InvalidNetwork, match="type 10"):
        read_onnx(path)
    with pytest.raises(Rejected, match="type"):
        read_model(path.read_bytes())


def test_numbers_beyond_16_bits_are_refused(build: type, save: Callable) -> None:
    model = build((2,)).add("MatMul", np.ones((2, 2))).model()
    tensor = TensorProto(name=model.graph.initializer[0].name, dims=[2, 2], data_type=10)
    tensor.int32_data.extend([0, 1, 2, 2**16])
    model.graph.initializer[0].CopyFrom(tensor)
    with pytest.raises(Rejected, match="16 bits"):
        read_model(save(model).read_bytes())
