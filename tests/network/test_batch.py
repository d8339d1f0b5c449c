"""Models without a batch dimension, with a fixed batch, and with sizes that are left open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from vhagar import InvalidInput, InvalidNetwork, Problem, UnsupportedOperator, VhagarError, verify
from vhagar.network import read_onnx
from vhagar_check import check
from vhagar_check.errors import Rejected
from vhagar_check.exact import Exact
from vhagar_check.model import read_model

RNG = np.random.default_rng(8)
WIDE, NARROW = RNG.normal(size=(12, 5)), RNG.normal(size=(5, 3))


def with_input(builder: Any, shape: list[Any], output: list[Any] | None = None) -> Any:
    model = builder.model()
    kind = TensorProto.FLOAT
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("image", kind, shape))
    name = model.graph.output[0].name
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(name, kind, output))
    return model


def runtime(path: Path, x: np.ndarray) -> np.ndarray:
    """The file's own output for an input of the file's own shape."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"image": x.astype(np.float32)})
    return found.astype(np.float64)


def checker(path: Path, x: np.ndarray, sizes: tuple[int, ...] = ()) -> np.ndarray:
    scores = read_model(path.read_bytes(), sizes=sizes).exact_scores(Exact.of(x.reshape(-1)))
    return np.array([float(score) for score in scores.fractions()])


def by_vectors(b: Any) -> Any:
    return b.add("MatMul", WIDE).add("Add", np.ones(5)).add("Relu").add("MatMul", NARROW)


def from_the_left(b: Any) -> Any:
    b.add("MatMul", WIDE.T, first=True).add("Sub", np.ones(1), first=True).add("LeakyRelu")
    return b.add("MatMul", NARROW.T, first=True).add("Softmax", axis=0)


def soon_with_a_batch(b: Any) -> Any:
    b.add("Sub", np.full(12, 0.5)).add("Unsqueeze", np.array([0]))
    return b.add("Gemm", WIDE).add("Relu").add("Gemm", NARROW)


def as_an_image(b: Any) -> Any:
    b.add("Reshape", [1, 3, 2, 2]).add("Conv", RNG.normal(size=(4, 3, 2, 2))).add("Relu")
    return b.add("Flatten").add("Gemm", RNG.normal(size=(4, 3)))


def flattened(b: Any) -> Any:
    return b.add("Reshape", [-1]).add("Clip", np.array(0.2), np.array(0.7)).add("MatMul", WIDE)


@pytest.mark.parametrize(
    "make", [by_vectors, from_the_left, soon_with_a_batch, as_an_image, flattened]
)
def test_inputs_without_a_batch(build: type, save: Callable, make: Callable) -> None:
    path = save(with_input(make(build((12,))), [12]))
    network = read_onnx(path)
    assert network.input_shape == (12,)
    for x in RNG.random((5, 12)).astype(np.float32).astype(float):
        theirs, ours = runtime(path, x).reshape(-1), network.forward(x)[0]
        if not network.notes:
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        assert ours.argmax() == theirs.argmax()
        np.testing.assert_allclose(checker(path, x), ours, atol=1e-9)


def test_a_vector_is_verified_with_a_certificate(
    build: type, save: Callable, tmp_path: Path
) -> None:
    path, proof = save(with_input(by_vectors(build((12,))), [12])), tmp_path / "proof.cert"
    problem = Problem(read_onnx(path), perturbation="linf(0.05)", source=0)
    result = verify(problem, workers=1, timeout=20, certificate=proof)
    verdict = check(proof, model=path)
    assert (verdict.lower, verdict.upper) == (result.lower, result.upper)


@pytest.mark.parametrize(
    "make",
    [
        lambda b: b.add("Gemm", WIDE),
        lambda b: b.add("Add", np.ones((12, 1))),
        lambda b: b.add("Slice", [0], [5], [0]),
        lambda b: b.add("Reshape", [3, 4]),
        lambda b: b.add("Unsqueeze", np.array([1])).add("MatMul", np.ones((1, 3))),
    ],
)
def test_other_uses_of_a_vector_are_refused(build: type, save: Callable, make: Callable) -> None:
    path = save(with_input(make(build((12,))), [12]))
    with pytest.raises(InvalidNetwork):
        read_onnx(path)


def plain(b: Any) -> Any:
    return b.add("Flatten").add("Gemm", WIDE, np.ones(5)).add("Relu").add("Gemm", NARROW)


def hard_coded(b: Any) -> Any:
    b.add("Reshape", [4, 3, 2, 2]).add("Conv", RNG.normal(size=(4, 3, 2, 2))).add("Relu")
    return b.add("Reshape", [4, -1]).add("MatMul", RNG.normal(size=(4, 3))).add("Add", np.ones(3))


def weights_of_the_batch_size(b: Any) -> Any:
    """A constant that happens to be reshaped to as many rows as there are inputs."""
    weight = b.follow(b.constant(RNG.normal(size=(6, 2)))).add("Reshape", [4, 3]).last
    b.follow("image").add("Reshape", [-1, 12]).add("MatMul", RNG.normal(size=(12, 4))).add("Relu")
    return b.add("MatMul", weight)


def of_a_shape_put_together(b: Any) -> Any:
    """As exporters write it: a number as a list, cast, joined with another, and passed on."""
    first = b.follow(b.constant(4, as_node=True)).add("Unsqueeze", [0]).add("Cast", to=6).last
    rest = b.follow(b.constant(np.array([-1], np.int32))).add("Identity").last
    shape = b.follow(first).add("Concat", rest, axis=0).add("Cast", to=7).last
    return plain(b.follow("image").add("Reshape", shape))


def of_a_shape_with_the_rest_first(b: Any) -> Any:
    shape = b.follow(b.constant([-1])).add("Concat", np.array([12]), axis=0).last
    return plain(b.follow("image").add("Reshape", shape))


@pytest.mark.parametrize(
    "make",
    [
        plain,
        hard_coded,
        weights_of_the_batch_size,
        of_a_shape_put_together,
        of_a_shape_with_the_rest_first,
    ],
)
def test_a_fixed_batch_is_one_input_after_another(
    build: type, save: Callable, make: Callable
) -> None:
    path = save(with_input(make(build((3, 2, 2))), [4, 3, 2, 2], [4, 3]))
    network = read_onnx(path)
    assert network.input_shape == (3, 2, 2)
    x = RNG.random((4, 3, 2, 2)).astype(np.float32).astype(float)
    np.testing.assert_allclose(network.forward(x), runtime(path, x), rtol=1e-5, atol=1e-5)
    for image in x:
        np.testing.assert_allclose(checker(path, image), network.forward(image)[0], atol=1e-9)


def less_their_mean(b: Any, shape: str) -> Any:
    """Subtract the mean of all that a Reshape puts into one row."""
    plain(b).add("Reshape", shape).add("ReduceMean", axes=[1], keepdims=1)
    return b.add("Sub", b.nodes[-3].output[0], first=True)


def of_computed_shape(b: Any) -> Any:
    """Join the inputs by a shape that nodes compute."""
    one, rest = (b.constant(np.array([size])) for size in (1, -1))
    shape = b.follow(one).add("Concat", rest, axis=0).last
    return less_their_mean(b.follow("image"), shape)


def by_pairs(b: Any) -> Any:
    """Join two inputs each by a shape that nodes compute, and mix them."""
    shape = b.follow(b.constant([-1])).add("Concat", np.array([6]), axis=0).last
    plain(b.follow("image")).add("Reshape", shape)
    return b.add("Gemm", RNG.normal(size=(6, 6))).add("Reshape", [4, 3])


@pytest.mark.parametrize(
    "make",
    [
        by_pairs,
        lambda b: less_their_mean(b, b.constant_node(value_ints=[1, -1])),
        of_computed_shape,
        lambda b: plain(
            b.add("Resize", np.zeros(0), np.zeros(0), np.array([1, 3, 2, 2]), mode="nearest")
        ),
        lambda b: plain(b).add("Sub", np.ones((4, 3))),
        lambda b: plain(b).add("ReduceMean", axes=[0], keepdims=1),
        lambda b: plain(b).add("Reshape", [1, 12]).add("Gemm", RNG.normal(size=(12, 3))),
        lambda b: plain(b).add("Slice", [0], [1], [0]).add("Add", b.nodes[-2].output[0]),
        lambda b: plain(b).add("Add", np.ones((1, 1, 3))).add("Reshape", [4, 3]),
        lambda b: plain(b).add("Transpose").add("Reshape", [4, 3]),
        lambda b: (
            b.add("Shape").add("Cast", to=1).add("Gather", np.array(0))
            .add("Mul", plain(b.follow("image")).last)
        ),
    ],
)  # fmt: skip
def test_batches_whose_inputs_are_mixed_are_refused(
    build: type, save: Callable, make: Callable
) -> None:
    path = save(with_input(make(build((3, 2, 2))), [4, 3, 2, 2], [4, 3]))
    with pytest.raises(VhagarError):
        read_onnx(path)
    with pytest.raises(Rejected):
        read_model(path.read_bytes())


def test_a_fixed_first_dimension_without_a_batch_behind_it(build: type, save: Callable) -> None:
    path = save(with_input(plain(build((3, 2, 2))), [4, 3, 2, 2], None))
    with pytest.raises(InvalidNetwork, match="if the output has the same"):
        read_onnx(path)
    with pytest.raises(Rejected, match="output does not have"):
        read_model(path.read_bytes())


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (["n", 3, "h", "w"], {"image_shape": (3, 2, 2)}),
        (["n", "c", "h", "w"], {"image_shape": (3, 2, 2)}),
        ([1, "h", "w", 3], {"image_shape": (3, 2, 2), "layout": "hwc"}),
        (["n", "features"], {"image_shape": (3, 2, 2)}),
    ],
)
def test_open_sizes_are_filled_in(
    build: type, save: Callable, tmp_path: Path, shape: list[Any], options: dict[str, Any]
) -> None:
    b = build((3, 2, 2))
    path = save(with_input(plain(b), shape))
    with pytest.raises(InvalidNetwork, match="--image-shape"):
        read_onnx(path)
    network = read_onnx(path, **options)
    assert network.input_shape == (3, 2, 2)
    x = RNG.random((3, 2, 2)).astype(np.float32).astype(float)
    taken = x.transpose(1, 2, 0) if "layout" in options else x
    taken = taken.reshape(-1) if len(shape) == 2 else taken
    theirs = runtime(path, taken[None])
    np.testing.assert_allclose(network.forward(x), theirs, rtol=1e-5, atol=1e-5)
    found = checker(path, taken, taken.shape)
    np.testing.assert_allclose(found, network.forward(x)[0], atol=1e-9)
    with pytest.raises(Rejected, match="no fixed shape"):
        read_model(path.read_bytes())
    proof = tmp_path / "proof.cert"
    problem = Problem(network, perturbation="linf(0.01)", source=0)
    verify(problem, workers=1, timeout=3, certificate=proof)
    assert check(proof, model=path).input_shape == (3, 2, 2)


def test_sizes_that_do_not_fit_are_not_filled_in(build: type, save: Callable) -> None:
    path = save(with_input(plain(build((3, 2, 2))), ["n", 4, "h", "w"]))
    with pytest.raises(InvalidInput, match=r"4 x \? x \? .* of 3 x 2 x 2 .* does not fit"):
        read_onnx(path, image_shape=(3, 2, 2))


def test_the_size_of_a_fixed_batch_is_not_told(build: type, save: Callable) -> None:
    b = build((12,)).add("Shape").add("Reshape", "image", first=True).add("Gemm", WIDE)
    path = save(with_input(b, [4, 12], [4, 5]))
    with pytest.raises(UnsupportedOperator, match="batch size"):
        read_onnx(path)
    with pytest.raises(Rejected, match="alike"):
        read_model(path.read_bytes())


@pytest.mark.parametrize("number", range(2, 7))
def test_no_constant_takes_the_name_of_another(build: type, save: Callable, number: int) -> None:
    """The reader adds constants for shapes; a model may have one of such a name."""
    b = build((12,))
    b.add("Reshape", [4, 12]).add("Reshape", [4, 12]).add("MatMul", WIDE)
    b.tensors[-1].name = b.nodes[-1].input[1] = f"vhagar_batch_{number}"
    b.add("Relu").add("MatMul", NARROW)
    path = save(with_input(b, [4, 12], [4, 3]))
    x = RNG.random((4, 12)).astype(np.float32).astype(float)
    np.testing.assert_allclose(read_onnx(path).forward(x), runtime(path, x), rtol=1e-5, atol=1e-5)


def test_names_that_are_no_text_are_in_no_constants_way(build: type, save: Callable) -> None:
    b = build((12,)).add("Reshape", [4, 12]).add("MatMul", WIDE)
    b.nodes[-1].output[0] = "hidden"
    b.last = "hidden"
    path = save(with_input(b.add("Relu").add("MatMul", NARROW), [4, 12], [4, 3]))
    path.write_bytes(path.read_bytes().replace(b"hidden", b"h\xff\xfeden"))
    with suppress(VhagarError):  # a refusal is as good, as long as it is said in words
        assert read_onnx(path).classes == 3
