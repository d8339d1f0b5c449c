"""The network in torch: batches of inputs, differentiable, on a CPU or a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vhagar.errors import VhagarError
from vhagar.network import AbstractLayer, AbstractLinear, Convolution, Network, Relu, SparseAffine
from vhagar.runtime.devices import Tensor, require_torch, sparse_tensor

# Most entries of a sparse layer that is made dense, because dense products are faster.
_LARGEST_DENSE = 2**20

# The least width of a rounded ReLU: where the values of a layer do not differ at all.
_LEAST_WIDTH = 1e-30

_Step = Callable[[Tensor], Tensor]


class TorchNetwork:
    """Scores and pre-activations of flat batches `(batch, size)`."""

    def __init__(self, network: Network, device: Any, double: bool = False) -> None:
        self._torch = require_torch()
        self.device = device
        self._dtype = self._torch.float64 if double else self._torch.float32
        self._steps = [(isinstance(layer, Relu), self._step(layer)) for layer in network.layers]
        # 1 for units that are a ReLU's, 0 for linear ones, layer by layer.
        self._curved = [self._is_curved(layer) for layer in network.layers]

    def tensor(self, values: Any) -> Tensor:
        """A tensor on the network's device, in its precision."""
        return self._torch.tensor(values, dtype=self._dtype, device=self.device)

    def scores(self, x: Tensor) -> Tensor:
        """The class scores `(batch, classes)`."""
        for _, step in self._steps:
            x = step(x)
        return x

    def leaky_scores(self, x: Tensor, leak: float) -> Tensor:
        """The scores if ReLUs let a share of what is negative through.

        Where many neurons are off, the scores hardly depend on the input, and have no gradient to
        follow; these do.
        """
        for is_relu, step in self._steps:
            after = step(x)
            x = after + leak * (x - after) if is_relu else after
        return x

    def smooth_scores(self, x: Tensor, widths: Tensor) -> Tensor:
        """The scores if ReLUs are rounded off (softplus), row by row as far as `widths` `(rows, 1)`
        says, relative to the spread of their layer's values. A width of 0 leaves them as they are.

        Two copies in the same linear region have the same gradients: which regions lie near, and
        how the scores change there, is seen only from smooth functions.
        """
        torch = self._torch
        for (is_relu, step), curved in zip(self._steps, self._curved, strict=True):
            after = step(x)
            if is_relu:
                width = (widths * x.detach().std(unbiased=False)).clamp_min(_LEAST_WIDTH)
                after = after + curved * (width * torch.log1p(torch.exp(-x.abs() / width)))
            x = after
        return x

    def _is_curved(self, layer: AbstractLayer) -> Tensor:
        linear = layer.linear if isinstance(layer, Relu) else None
        return self.tensor(1.0 if linear is None else ~linear)

    def _step(self, layer: AbstractLayer) -> _Step:
        if isinstance(layer, Relu):
            return self._relu(layer)
        if isinstance(layer, Convolution):
            return self._convolution(layer)
        if isinstance(layer, SparseAffine) and layer.in_size * layer.out_size > _LARGEST_DENSE:
            entries = sparse_tensor(layer.weight, self._dtype, self.device)
            shift = self.tensor(layer.flat_bias)
            return lambda x: self._torch.sparse.mm(entries, x.T).T + shift
        if isinstance(layer, AbstractLinear):
            matrix = self.tensor(layer.matrix.toarray())
            bias = self.tensor(layer.flat_bias)
            return lambda x: self._torch.addmm(bias, x, matrix.T)
        raise VhagarError(f"the attack cannot evaluate a {type(layer).__name__} layer")

    def _relu(self, layer: Relu) -> _Step:
        if layer.linear is None:
            return self._torch.relu  # type: ignore[no-any-return]
        linear = self._torch.tensor(layer.linear, device=self.device)
        return lambda x: self._torch.where(linear, x, x.relu())

    def _convolution(self, layer: Convolution) -> _Step:
        functional = self._torch.nn.functional
        weight, bias = self.tensor(layer.weight), self.tensor(layer.flat_bias)
        top, left, bottom, right = layer.padding

        def step(x: Tensor) -> Tensor:
            images = functional.pad(x.reshape(-1, *layer.in_shape), (left, right, top, bottom))
            found = functional.conv2d(
                images,
                weight,
                stride=layer.stride,
                dilation=layer.dilation,
                groups=layer.groups,
            )
            return found.reshape(len(x), layer.out_size) + bias

        return step


def torch_confidence(scores: Tensor, label: Any) -> Tensor:
    """Each row's confidence in its own label: `score[label] - max(other scores)`."""
    torch = require_torch()
    chosen = label[:, None]
    others = scores.masked_fill(
        torch.zeros_like(scores, dtype=torch.bool).scatter_(1, chosen, True), -torch.inf
    )
    return scores.gather(1, chosen)[:, 0] - others.amax(dim=1)
