"""Train one of the bundled example networks and export it to ONNX.

The images come from an ``.npz`` file with the arrays ``x_train``, ``y_train``, ``x_test`` and
``y_test``: uint8 images, channels first, and integer labels. For example::

    python examples/train.py mnist_conv1 --data mnist.npz --out examples
    python examples/train.py mnist_3x10 --data mnist.npz --out examples --images 10

The second form also writes ``mnist_images.npz``, with ten test images of every class.
The networks read pixels in [0, 1] and return raw scores: there is no normalisation layer and no
softmax, so that what is verified is exactly what was trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from interval_training import certified_share, worst_scores
from recipes import RECIPES, PgdAttack, Recipe, Shape
from torch import Tensor, nn
from torch.nn import functional

import vhagar
from vhagar.network import AbstractLayer, Affine, Convolution, Network, Relu, onnx_bytes


@dataclass(frozen=True)
class Images:
    """A split of a dataset: pixels in [0, 1] and labels."""

    pixels: Tensor
    labels: Tensor


def load_split(data: Path, split: str, input_shape: Shape) -> Images:
    """Read the ``train`` or ``test`` split and scale its pixels to [0, 1]."""
    with np.load(data) as arrays:
        pixels, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
    if pixels.dtype != np.uint8 or pixels.shape[1:] != input_shape:
        raise SystemExit(
            f"{data}: x_{split} holds {pixels.dtype} images of shape {pixels.shape[1:]}; "
            f"this network needs uint8 images of shape {input_shape}"
        )
    scaled = torch.from_numpy(pixels.astype(np.float32) / 255)
    return Images(scaled, torch.from_numpy(labels.astype(np.int64)))


def augment(pixels: Tensor, recipe: Recipe) -> Tensor:
    """Mirror half of the images and shift the batch, as far as the recipe asks for it."""
    if recipe.flips:
        mirrored = torch.rand(len(pixels)) < 0.5
        pixels = torch.where(mirrored[:, None, None, None], pixels.flip(-1), pixels)
    if recipe.largest_shift:
        # One shift for the whole batch is cheap, and over many batches every image sees them all.
        reach = recipe.largest_shift
        down, right = torch.randint(0, 2 * reach + 1, (2,)).tolist()
        height, width = pixels.shape[-2:]
        padded = functional.pad(pixels, (reach,) * 4, mode="replicate")
        pixels = padded[:, :, down : down + height, right : right + width]
    return pixels


def perturb(model: nn.Module, pixels: Tensor, labels: Tensor, attack: PgdAttack) -> Tensor:
    """Images in the attack's ball, and in [0, 1], on which the loss is locally large."""
    lowest = (pixels - attack.radius).clamp(min=0)
    highest = (pixels + attack.radius).clamp(max=1)
    current = lowest + torch.rand_like(pixels) * (highest - lowest)
    for _ in range(attack.steps):
        current.requires_grad_(True)
        loss = functional.cross_entropy(model(current), labels)
        (gradient,) = torch.autograd.grad(loss, current)
        moved = current.detach() + attack.step_size * gradient.sign()
        current = torch.minimum(torch.maximum(moved, lowest), highest)
    return current


def train(recipe: Recipe, images: Images) -> nn.Module:
    """Train with AdamW under a one-cycle schedule; the recipe's seed fixes the outcome."""
    torch.manual_seed(recipe.seed)
    torch.use_deterministic_algorithms(True)
    model = recipe.build(recipe.input_shape)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    batches_per_epoch = -(-len(images.labels) // recipe.batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.learning_rate, total_steps=recipe.epochs * batches_per_epoch
    )
    for epoch in range(recipe.epochs):
        total_loss = 0.0
        order = torch.randperm(len(images.labels))
        for part, chosen in enumerate(torch.split(order, recipe.batch_size)):
            pixels, labels = augment(images.pixels[chosen], recipe), images.labels[chosen]
            if recipe.attack is not None:
                model.eval()
                pixels = perturb(model, pixels, labels, recipe.attack)
            model.train()
            loss = functional.cross_entropy(model(pixels), labels)
            if recipe.certified_radius:
                progress = (epoch + part / batches_per_epoch) / recipe.epochs
                loss = certified_loss(model, pixels, labels, recipe, loss, progress)
            loss = loss + recipe.sparsity * absolute_weights(model)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            schedule.step()
            total_loss += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}/{recipe.epochs}: loss {total_loss / len(images.labels):.4f}")
    return model.eval()


def certified_loss(
    model: nn.Module, pixels: Tensor, labels: Tensor, recipe: Recipe, plain: Tensor, progress: float
) -> Tensor:
    """Mix the plain loss with that of the worst scores, in balls that grow for half of the time."""
    grown = min(2 * progress, 1.0)
    worst = worst_scores(model, pixels, labels, grown * recipe.certified_radius)
    share = grown / 2
    return (1 - share) * plain + share * functional.cross_entropy(worst, labels)


def absolute_weights(model: nn.Module) -> Tensor:
    """The sum of the weights' absolute values; biases and normalisations do not count."""
    sums = [values.abs().sum() for values in model.parameters() if values.ndim > 1]
    return torch.stack(sums).sum()


def torch_accuracy(model: nn.Module, images: Images) -> float:
    """The share of the images that the trained model classifies as labelled."""
    with torch.no_grad():
        predicted = model(images.pixels).argmax(dim=1)
    return float((predicted == images.labels).double().mean())


def onnx_accuracy(path: Path, images: Images) -> float:
    """The share of the images that the exported file, run by onnxruntime, classifies so."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {session.get_inputs()[0].name: images.pixels.numpy()})
    return float(np.mean(scores.argmax(axis=1) == images.labels.numpy()))


def to_onnx(model: nn.Module, input_shape: Shape, name: str) -> bytes:
    """The trained model as an ONNX file."""
    if isinstance(model, nn.Sequential):
        return onnx_bytes(to_network(model, input_shape, name))
    found = vhagar.from_torch(model, input_shape=input_shape, name=name).model
    assert found is not None  # it was made from one
    return for_batches(found)


def for_batches(model: bytes) -> bytes:
    """A model of one image, for any number of images, with the names that the others have."""
    made = onnx.load_from_string(model)
    graph, shapes = made.graph, {n.input[1] for n in made.graph.node if n.op_type == "Reshape"}
    for tensor in graph.initializer:
        if tensor.name in shapes:
            sizes = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([-1, *sizes[1:]]), tensor.name))
    names = {graph.input[0].name: "image", graph.output[0].name: "scores"}
    for value in (graph.input[0], graph.output[0]):
        value.name = names[value.name]
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    for node in graph.node:
        for ends in (node.input, node.output):
            ends[:] = [names.get(end, end) for end in ends]
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def to_network(model: nn.Sequential, input_shape: Shape, name: str) -> Network:
    """The same function in the verifier's own terms."""
    layers: list[AbstractLayer] = []
    shape = input_shape
    for module in model:
        if isinstance(module, nn.Flatten):
            continue  # the layers of a Network keep shapes beside flat values
        if isinstance(module, nn.ReLU):
            layers.append(Relu(shape))
        elif isinstance(module, nn.Linear):
            weight, bias = parameters_of(module)
            layers.append(Affine(weight, bias, in_shape=shape, out_shape=bias.shape))
        elif isinstance(module, nn.Conv2d):
            weight, bias = parameters_of(module)
            stride = (module.stride[0], module.stride[1])
            layers.append(Convolution(weight, bias, in_shape=shape, stride=stride))
        else:
            raise TypeError(f"no conversion for {type(module).__name__}")
        shape = layers[-1].out_shape
    return Network(tuple(layers), input_shape=input_shape, name=name)


def parameters_of(module: nn.Module) -> tuple[npt.NDArray[np.float64], ...]:
    """A module's weight and bias."""
    return tuple(values.detach().double().numpy() for values in module.parameters())


def write_sample_images(data: Path, path: Path, per_class: int) -> None:
    """Keep the first test images of every class, in the order of the classes."""
    with np.load(data) as arrays:
        pixels, labels = arrays["x_test"], arrays["y_test"]
    kept = np.concatenate(
        [np.flatnonzero(labels == label)[:per_class] for label in np.unique(labels)]
    )
    np.savez_compressed(path, x=pixels[kept], y=labels[kept])


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train an example network, export it to ONNX.")
    parser.add_argument("network", choices=sorted(RECIPES))
    parser.add_argument("--data", type=Path, required=True, help="npz file with the images")
    parser.add_argument("--out", type=Path, default=Path("examples"), help="folder to write to")
    parser.add_argument("--epochs", type=int, help="train for this many epochs instead")
    parser.add_argument(
        "--images", type=int, default=0, metavar="N", help="also write N test images per class"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, export, and check that the exported file classifies as the trained model does."""
    options = parse_arguments(arguments)
    recipe = RECIPES[options.network]
    if options.epochs is not None:
        recipe = replace(recipe, epochs=options.epochs)
    # The order of floating-point sums depends on the number of threads: one, for repeatable runs.
    torch.set_num_threads(1)

    model = train(recipe, load_split(options.data, "train", recipe.input_shape))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"{options.network}.onnx"
    path.write_bytes(to_onnx(model, recipe.input_shape, options.network))

    test = load_split(options.data, "test", recipe.input_shape)
    trained, exported = torch_accuracy(model, test), onnx_accuracy(path, test)
    print(f"{path}: test accuracy {exported:.2%}")
    if exported != trained:
        raise SystemExit(f"the exported accuracy differs from the trained one, {trained:.2%}")
    if recipe.attack is not None:
        attacked = Images(perturb(model, test.pixels, test.labels, recipe.attack), test.labels)
        robust = torch_accuracy(model, attacked)
        print(f"test accuracy under PGD of radius {recipe.attack.radius}: {robust:.2%}")
    if recipe.certified_radius:
        share = certified_share(model, test.pixels, test.labels, recipe.certified_radius)
        print(f"certified accuracy at radius {recipe.certified_radius}: {share:.2%}")
    if options.images:
        samples = options.out / f"{recipe.dataset}_images.npz"
        write_sample_images(options.data, samples, options.images)


if __name__ == "__main__":
    main()
