"""ONNX files to networks.

The model is first given the form that `GraphReader` translates: single precision, one output with
the scores, an input of fixed size with a batch dimension, and the input convention in front. The
reader never runs the model.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vhagar.errors import InvalidInput, InvalidNetwork, UnsupportedOperator, in_one_line
from vhagar.network.conventions import Numbers, convention, require_layout
from vhagar.network.foreign_files import described_folder, foreign
from vhagar.network.graph_reader import GraphReader
from vhagar.network.layers import Shape
from vhagar.network.network import ModelFile, Network
from vhagar.network.onnx_ambiguity import check_model
from vhagar.network.onnx_batch import with_batch
from vhagar.network.onnx_half import NOTE, halves_of, in_single_precision
from vhagar.network.onnx_messages import plain_model
from vhagar.network.onnx_operators import SUPPORTED_OPERATORS, TRANSLATORS
from vhagar.network.onnx_operators.constants import FOLDED
from vhagar.network.onnx_operators.reasons import unsupported
from vhagar.network.onnx_scores import choose_output, is_share, with_scores
from vhagar.network.onnx_tensors import load_external_tensors
from vhagar.network.onnx_usage import tensors_of
from vhagar.network.scores import Scores, negated


def read_onnx(
    path: str | os.PathLike[str],
    *,
    layout: str | None = None,
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    output: str | None = None,
    threshold: float | None = None,
    argmin: bool = False,
) -> Network:
    """Read a classifier of piecewise-linear operators from an ONNX file.

    The first options are the model's input convention (`vhagar.network.conventions`): `layout` is
    "chw" (default) or "hwc" if its channels are last; a shape such as (32, 32, 3) needs one of
    them. `image_shape` is `(channels, rows, columns)` or
    `(rows, columns)` if its input is flat, and `mean` and `std` normalise the input if the model
    does not. `output` names the output that holds the scores if there are several, and `threshold`
    is that of a model with one score: class 1 is an output above it (default: a score above 0).
    With `argmin` the class is that of the smallest output, as for ACAS Xu: its scores are negated.
    """
    path = Path(path)
    content = model_content(path)
    model = parse_model(content, path)
    name = in_one_line(path.stem.encode(errors="backslashreplace").decode())  # it may be no UTF-8
    front = layout, image_shape, mean, std
    network = read_model(model, name, *front, output=output, threshold=threshold, argmin=argmin)
    return replace(network, file=ModelFile(path, hashlib.sha256(content).hexdigest()))


def require_one_file(network: Network) -> None:
    """Refuse a network whose file keeps weights in another one, which no certificate is about."""
    if network.file is None or not network.file.path.is_file():
        return
    path = network.file.path
    content = model_content(path)
    if b"location" not in content:  # which every reference to another file has
        return
    import onnx

    tensors = tensors_of(_parsed(content, path).graph)  # the file may have changed meanwhile
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors):
        raise InvalidInput(
            f"a certificate is about one file, but {path} keeps weights in another; save it as "
            f"one file, in Python with onnx.save(onnx.load({str(path)!r}), 'one.onnx'), or export "
            "it so: torch.onnx.export(..., external_data=False)"
        )


def model_content(path: Path) -> bytes:
    """The bytes of a model file."""
    if not path.is_file():
        known = described_folder(path)
        raise InvalidInput(known or f"no model file at {path}; check the path")
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error}") from error


def parse_model(content: bytes, path: Path) -> Any:
    """Parse a file's bytes into a model, and load external data from the file's folder.

    It is a ModelProto, or a `Message` with the same fields.
    """
    if not content:
        raise InvalidNetwork(f"{path} is empty; export the model again")
    kind = foreign(content)
    if kind is not None:
        raise InvalidNetwork(f"{path} is not an ONNX model. It is {kind}")
    plain = plain_model(content)
    if plain is not None:
        check_model(plain)
        return plain
    from vhagar.network.onnx_fields import check_fields

    model = _parsed(content, path)
    check_fields(content)
    check_model(model)
    load_external_tensors(model, path)
    return model


def _parsed(content: bytes, path: Path) -> Any:
    import onnx

    try:
        return onnx.load_model_from_string(content)
    except Exception as error:  # protobuf has its own exceptions for damaged files
        if path.suffix == ".data" and path.with_suffix("").is_file():
            raise InvalidNetwork(
                f"{path} holds the weights of {path.with_suffix('')}: give that file instead"
            ) from error
        raise InvalidNetwork(
            f"{path} is not an ONNX model, or it is damaged: its content cannot be parsed; export "
            "the model again, with torch.onnx.export for example"
        ) from error


def read_model(
    model: Any,
    name: str,
    layout: str | None = "chw",
    image_shape: Sequence[int] | None = None,
    mean: Numbers | None = None,
    std: Numbers | None = None,
    *,
    output: str | None = None,
    threshold: float | None = None,
    argmin: bool = False,
) -> Network:
    """Read a model in memory, as `read_onnx` does; a layout of None is asked for if it matters."""
    # An overflow here is found when layers check that their numbers are finite.
    with np.errstate(all="ignore"):
        whole = in_single_precision(model)
        notes = [] if whole is model else [NOTE]
        halves = frozenset() if whole is model else halves_of(model)
        reader, chosen = _one_at_a_time(whole, output, image_shape, layout or "chw", halves)
        model, (input_name, shape) = reader.model, reader.input()
        if layout is None:
            require_layout(shape, image_shape)
        front = convention(shape, layout or "chw", image_shape, mean, std)
        if not front.is_plain:
            from vhagar.network.onnx_front import with_front

            reader = GraphReader(with_front(model, input_name, front), reader.halves)
        layers, limit = reader.read(threshold)
    if limit is None and chosen not in (None, output) and is_share(whole, chosen):
        raise InvalidNetwork(
            f"the output joins 1 - p and p for the shares {chosen!r}, of which there are several; "
            "choose the scores with --output NAME"
        )
    if argmin and limit is not None:
        raise InvalidInput("--argmin needs several scores, but the model has one: leave it out")
    layers = negated(layers) if argmin else layers
    own = Scores(chosen, limit, argmin)
    return Network(
        layers,
        front.input_shape,
        name,
        with_scores(model, reader.dropped, limit, argmin),
        convention=None if front.is_plain else front,
        scores=None if own == Scores() else own,
        notes=(*notes, *reader.notes),
    )


def _one_at_a_time(
    whole: Any,
    output: str | None,
    image_shape: Sequence[int] | None,
    layout: str,
    halves: frozenset[str],
) -> tuple[GraphReader, str | None]:
    """A reader of the model for one input at a time, and the output that holds the scores."""
    model = whole
    try:
        model, chosen = choose_output(whole, output)
        model = with_batch(model, image_shape, layout)
        reader = GraphReader(model, halves)
        reader.input()
    except InvalidNetwork:
        # What cannot be verified anyway is the more important thing to say.
        refusals = unsupported(model, {*TRANSLATORS, *FOLDED})
        if refusals:
            raise UnsupportedOperator(refusals, SUPPORTED_OPERATORS) from None
        raise
    return reader, chosen


def model_shape(model: Any) -> Shape:
    """The shape of the model's input, as far as it can be read."""
    try:
        return GraphReader(model).input()[1]
    except InvalidNetwork:
        return ()
