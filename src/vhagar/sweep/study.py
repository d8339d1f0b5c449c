"""The questions of a study: the product of networks, perturbations, sources and targets."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from vhagar.errors import CONTROL, InvalidInput, VhagarError
from vhagar.network import Network, read_onnx
from vhagar.network.fingerprint import fingerprint
from vhagar.perturbation import Domain, parse
from vhagar.problem import Problem, class_number, domain_of
from vhagar.result.numbers import counted
from vhagar.sweep.grid import Grid, grid_of, is_number
from vhagar.sweep.question import Question

Labels = tuple[int | str, ...] | Literal["all"]
Targets = tuple[int | str, ...] | Literal["each", "any"]
# The fields that say how networks take an image and give their scores.
CONVENTIONS = ("layout", "image_shape", "mean", "std", "output", "threshold", "argmin")


@dataclass(frozen=True)
class Study:
    """Networks x perturbations x sources x targets, and how long to work on them.

    `targets` is `"each"` for one problem per pair of classes, `"any"` for one problem per source
    with all its targets, or a list of classes (one problem for each of them). `confidence` adds the
    maximal confidence of each source class. `timeout` is for each problem and `total` for all of
    them together, in seconds. `dataset` is a file of inputs; at the end, a sweep counts how many of
    them are proven robust. `domain` is the file of the domain that all questions are about, if not
    all inputs; `input_range` is 0 to 1 unless given there or here. `layout` (one for all networks,
    or one for each), `image_shape`, `mean` and `std` say how the networks take an image, and
    `output`, `threshold` and `argmin` how their output becomes scores, as for `read_onnx`.
    """

    networks: tuple[str, ...]
    perturbations: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    sources: Labels = "all"
    targets: Targets = "each"
    clip: bool = True
    input_range: tuple[float, float] | None = None
    confidence: bool = False
    timeout: float | None = None
    total: float | None = None
    dataset: str | None = None
    name: str = ""
    layout: str | tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    output: str | None = None
    threshold: float | None = None
    argmin: bool = False
    domain: str | None = None

    def __post_init__(self) -> None:
        if not self.networks:
            raise InvalidInput("a study needs at least one network")
        if not self.perturbations and not self.grids and not self.confidence:
            raise InvalidInput("a study needs a perturbation or a grid (or confidence = true)")
        for name in ("timeout", "total"):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and value > 0):  # nor NaN
                raise InvalidInput(f"{name} must be a number of seconds above 0, not {value!r}")
        if isinstance(self.layout, tuple) and len(self.layout) != len(self.networks):
            raise InvalidInput(
                f"there are {counted(len(self.layout), 'layout')}, but "
                f"{counted(len(self.networks), 'network')}; "
                "give one layout for all networks, or one for each"
            )
        named = dict(zip(self.networks, self.layouts, strict=True))
        for path, layout in zip(self.networks, self.layouts, strict=True):
            if layout != named[path]:  # a store knows a network by its file
                raise InvalidInput(f"{path} is given two layouts: {layout} and {named[path]}")

    @property
    def layouts(self) -> tuple[str | None, ...]:
        """The layout of each network."""
        if isinstance(self.layout, tuple):
            return self.layout
        return (self.layout,) * len(self.networks)

    def conventions_of(self, path: str) -> dict[str, Any]:
        """How a network takes an image and gives its scores, as keyword arguments of `read_onnx`.

        Only what is not the default.
        """
        layout = dict(zip(self.networks, self.layouts, strict=True))[path]
        given = {name: getattr(self, name) for name in CONVENTIONS} | {"layout": layout}
        return {name: own for name, own in given.items() if own is not None and own is not False}

    def domain_for(self, network: Network) -> Domain:
        """The domain of the questions about a network."""
        return domain_of(network, self.domain, self.input_range)

    def plain(self) -> dict[str, Any]:
        """Convert the study to JSON's own types; `from_plain` reads them."""
        return asdict(self)

    @classmethod
    def from_plain(cls, values: Mapping[str, Any], folder: Path | None = None) -> Study:
        """Read a study from TOML or JSON values; relative paths are relative to `folder`."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            choices = ", ".join(sorted(known))
            raise InvalidInput(f"unknown key {unknown[0]!r}; valid keys: {choices}")
        given = dict(values)
        given["networks"] = tuple(_placed(path, folder) for path in _texts(given, "networks"))
        given["perturbations"] = _texts(given, "perturbations")
        for file in ("dataset", "domain"):
            if given.get(file) is not None:
                (name,) = _texts({file: [given[file]]}, file)
                given[file] = _placed(name, folder)
        given["grids"] = tuple(map(grid_of, _listed(given.get("grids", ()), "grids", "grids")))
        given["sources"] = _labels(given.get("sources", "all"), "sources", ("all",))
        given["targets"] = _labels(given.get("targets", "each"), "targets", ("each", "any"))
        given["input_range"] = _ends(given.get("input_range"))
        for name, kind in (("clip", bool), ("confidence", bool), ("argmin", bool), ("name", str)):
            if not isinstance(given.get(name, kind()), kind):
                raise InvalidInput(f"{name} cannot be {given[name]!r}")
        if isinstance(given.get("layout"), list | tuple):
            given["layout"] = _texts(given, "layout")
        for name, kinds in (("layout", str | tuple | None), ("output", str | None)):
            if not isinstance(given.get(name), kinds):
                raise InvalidInput(f"{name} cannot be {given[name]!r}")
        if not (given.get("threshold") is None or is_number(given["threshold"])):
            raise InvalidInput(f"threshold must be a number, not {given['threshold']!r}")
        for name in ("image_shape", "mean", "std"):
            given[name] = _numbers(given.get(name), name)
        return cls(**given)


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file; model files are relative to its folder."""
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"no study at {path}; check the path") from None
    except (OSError, ValueError, RecursionError) as error:  # TOML's errors are ValueErrors
        raise InvalidInput(f"{path} is not a readable TOML file: {error}") from None
    try:
        study = Study.from_plain(values, path.parent)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    return study if study.name else replace(study, name=path.stem)


@dataclass(frozen=True, eq=False)
class Model:
    """A network of the study, its file, and the fingerprint of what it computes."""

    path: str
    network: Network
    fingerprint: str


def require_storable(name: str | Path) -> None:
    """Refuse a name that a store cannot hold."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"the name of {name} is not valid UTF-8, as which a store holds it; rename it"
        ) from None
    if CONTROL.search(str(name)):
        raise InvalidInput(f"the name {str(name)!r} has control characters; rename it")


def load_models(study: Study) -> list[Model]:
    """Read the networks of a study from their files; equal networks count once."""
    models: dict[str, Model] = {}
    for model in read_models(study):
        models.setdefault(model.fingerprint, model)
    return list(models.values())


def read_models(study: Study) -> Iterator[Model]:
    """Read the networks of a study, one for each file."""
    require_storable(study.name)
    for path in study.networks:
        require_storable(path)
        try:
            network = read_onnx(path, **study.conventions_of(path))
        except VhagarError as error:  # which of the networks?
            if str(path) not in str(error):
                error.args = (f"{path}: {error}",)
            raise
        yield Model(path, network, fingerprint(network))


def questions(study: Study, models: Sequence[Model]) -> list[Question]:
    """List all questions of a study, each once, in the order of the study's description."""
    found: dict[str, Question] = {}
    for model in models:
        for problem in _problems(study, model.network):
            question = Question.of(problem, model.fingerprint)
            found.setdefault(question.key, question)
    return list(found.values())


def _problems(study: Study, network: Network) -> Iterator[Problem]:
    classes = range(network.classes)
    domain = study.domain_for(network)
    sources: Iterable[int] = classes
    if study.sources != "all":
        sources = [class_number(network, domain, label, "source") for label in study.sources]
    perturbations = [parse(text) for text in study.perturbations]
    for grid in study.grids:
        perturbations += grid.perturbations(domain)
    for source in sources if study.confidence else ():
        yield Problem(network, perturbation=None, source=source, domain=domain)
    for perturbation in perturbations:
        for source in sources:
            for targets in _targets(study, network, domain, source):
                yield Problem(
                    network,
                    perturbation=perturbation,
                    source=source,
                    targets=targets,
                    clip=study.clip,
                    domain=domain,
                )


def _targets(study: Study, network: Network, domain: Domain, source: int) -> Iterator[int | None]:
    """Yield the target of each of a source's problems; None stands for all targets at once."""
    if study.targets == "any":
        yield None
    elif study.targets == "each":
        yield from (label for label in range(network.classes) if label != source)
    else:
        targets = (class_number(network, domain, label, "target") for label in study.targets)
        yield from (label for label in targets if label != source)


def _texts(values: Mapping[str, Any], name: str) -> tuple[str, ...]:
    given = _listed(values.get(name, ()), name, "strings")
    if not all(isinstance(text, str) for text in given):
        raise InvalidInput(f"{name} must be a list of strings, not {given!r}")
    return tuple(given)


def _listed(given: Any, name: str, what: str) -> Sequence[Any]:
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{name} must be a list of {what}, not {given!r}")
    return given


def _numbers(given: Any, name: str) -> tuple[Any, ...] | None:
    if given is None:
        return None
    values = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not values or not all(map(is_number, values)):
        raise InvalidInput(f"{name} must be numbers, such as [0.5, 0.5, 0.5], not {given!r}")
    return values


def _ends(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    if not (isinstance(given, Sequence) and len(given) == 2 and all(map(is_number, given))):
        raise InvalidInput(f"input_range must be two numbers, such as [0, 1], not {given!r}")
    return float(given[0]), float(given[1])


def _labels(given: Any, name: str, words: tuple[str, ...]) -> Any:
    if given in words:
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return (given,)
    if isinstance(given, list | tuple) and given and all(type(k) in (int, str) for k in given):
        return tuple(dict.fromkeys(given))
    choices = " or ".join(f'"{word}"' for word in words)
    raise InvalidInput(f"{name} must be {choices}, or a list of classes, not {given!r}")


def _placed(path: str, folder: Path | None) -> str:
    """Return an absolute path, so that the study can be resumed from any folder."""
    return str((folder or Path()).joinpath(path).absolute())
