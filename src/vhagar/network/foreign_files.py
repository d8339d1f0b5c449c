"""Recognises files that are not ONNX models, and says what to do with them.

Only their first bytes and the names in their archives are looked at: nothing is unpacked or run.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

_TO_ONNX = "export the model with torch.onnx.export"
_PT2 = (
    "a program of torch.export (.pt2); loading one can run code from the file. If you trust it: "
    "vhagar convert FILE -o model.onnx --trust, or vhagar.from_torch(torch.export.load(path))"
)
_TORCHSCRIPT = (
    "a TorchScript archive; load it with torch.jit.load in the code that you trust, and "
    f"{_TO_ONNX}, or pass the original module to vhagar.from_torch"
)
_PICKLE = (
    "a file of torch.save or another pickle, and reading a pickle can run code from it. If it "
    "holds weights (a state_dict), fill your module with vhagar.load_weights(module, path) and "
    "pass it to vhagar.from_torch(module, input_shape=...). If it holds a whole module, load it in "
    f"code of your own, and {_TO_ONNX} or pass it to vhagar.from_torch"
)
_KERAS = (
    "a Keras model; convert it with tf2onnx: python -m tf2onnx.convert --keras FILE "
    "--output model.onnx"
)
_PAGE = "a web page, such as one that says why a download failed; download the model again"
_KINDS = (
    (b"\x1f\x8b", "compressed with gzip; unpack it first: gunzip --keep FILE"),
    (b"BZh", "compressed with bzip2; unpack it first: bunzip2 --keep FILE"),
    (b"\xfd7zXZ\x00", "compressed with xz; unpack it first: unxz --keep FILE"),
    (
        b"version https://git-lfs",
        "a Git LFS pointer, not the model itself; fetch the model with: git lfs pull",
    ),
    (b"<!DOCTYPE", _PAGE),
    (b"<!doctype", _PAGE),
    (b"<html", _PAGE),
    (b"\x89HDF\r\n", _KERAS),
    (b"\x80\x02", _PICKLE),
    (b"\x80\x03", _PICKLE),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"\x93NUMPY", "an array of NumPy, not a model"),
)


def is_program(content: bytes) -> bool:
    """Whether a file is a program of torch.export."""
    return foreign(content) == _PT2


def foreign(content: bytes) -> str | None:
    """Say what a file is that is no ONNX model; None if it may be one."""
    for start, kind in _KINDS:
        if content.startswith(start):
            return kind
    if content.startswith(b"PK\x03\x04"):
        return _archive(content)
    if content[4:8] == b"TFL3":
        return "a TensorFlow Lite model; convert it with: python -m tf2onnx.convert --tflite FILE"
    if content[8:10] == b'{"' and len(content) >= 8 + int.from_bytes(content[:8], "little"):
        return (
            "a safetensors file, which holds weights without a network; fill a PyTorch module with "
            "vhagar.load_weights(module, path), and pass it to vhagar.from_torch"
        )
    return None


def _archive(content: bytes) -> str:
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except zipfile.BadZipFile:
        return "a damaged zip archive"
    inside = [name.split("/", 1)[-1] for name in names]
    program = "archive_format" in inside or any("exported_program" in name for name in names)
    script = "constants.pkl" in inside and any(name.startswith("code/") for name in inside)
    kinds = (
        (program, _PT2),
        (script, _TORCHSCRIPT),
        ("data.pkl" in inside, _PICKLE),
        ("model.weights.h5" in names, _KERAS),
        (all(name.endswith(".npy") for name in names), "an archive of NumPy arrays, not a model"),
    )
    return next((kind for found, kind in kinds if found), "a zip archive; unpack it first")


def described_folder(path: Path) -> str | None:
    """Say what a folder is that was given instead of a model; None if it is none."""
    if (path / "saved_model.pb").is_file():
        return (
            f"{path} is a TensorFlow SavedModel; convert it with: python -m tf2onnx.convert "
            "--saved-model FOLDER"
        )
    if path.is_dir():
        return f"{path} is a folder; give the path of a model file in it"
    return None
