"""Networks: readers from model files to a list of plain layers, evaluated in float64."""

from vhagar.network.convolution import Convolution
from vhagar.network.layers import AbstractLayer, AbstractLinear, Affine, Relu, SparseAffine
from vhagar.network.network import Network, confidence
from vhagar.network.onnx_operators import SUPPORTED_OPERATORS
from vhagar.network.onnx_reader import read_onnx
from vhagar.network.onnx_writer import onnx_bytes, save_model, write_onnx

__all__ = [
    "SUPPORTED_OPERATORS",
    "AbstractLayer",
    "AbstractLinear",
    "Affine",
    "Convolution",
    "Network",
    "Relu",
    "SparseAffine",
    "confidence",
    "onnx_bytes",
    "read_onnx",
    "save_model",
    "write_onnx",
]
