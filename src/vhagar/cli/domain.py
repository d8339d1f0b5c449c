"""The command `vhagar domain`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vhagar.cli import groups, types
from vhagar.errors import InvalidInput, documentation

if TYPE_CHECKING:
    from vhagar.fitting import Fit
    from vhagar.perturbation import Domain

HELP = "make or show a domain: the inputs that a question is about"

DESCRIPTION = f"""\
A domain says which inputs a question is about. `fit` makes one from data, and `show` tells in words
and in a picture what is in one. What such a file says: see {documentation("domains")}.
"""

EPILOG = """\
examples:
  vhagar domain fit mnist.npz --class 2 --cover 0.95 -o twos.toml --plot twos.png
  vhagar domain fit mnist.npz --class 2 --components 30 --cover 0.95 -o twos.toml
  vhagar domain fit mnist.npz --class 2 --coordinates 30 --likely --cover 0.95 -o twos.toml
  vhagar domain fit --like seven.png --radius 0.2 -o seven.toml
  vhagar domain fit --features patients.csv -o patients.toml
  vhagar domain show patients.toml --plot patients.png
"""

_FIT = """\
Write the domain of an image and a radius, or of the inputs of a data set: a range for every entry
(or, with --components, a zonotope) such that the stated share of the held-out half is inside.
"""

_SHOW = """\
Say what is in a domain, and draw it: the ends and the middle of images, bars for features.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text, description, add in (
        ("fit", "make a domain from data", _FIT, _add_fit),
        ("show", "a domain in words and as a picture", _SHOW, _add_show),
    ):
        add(commands.add_parser(name, help=text, description=description, epilog=EPILOG))


def _add_shared(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--image-shape",
        type=types.sizes,
        metavar="C,H,W",
        help="shape of an input, where the data or the file does not tell",
    )
    groups.add_input_range(parser, domain=False)
    add("--plot", type=Path, metavar="FILE", help="draw the domain (.png, .pdf or .svg)")


def _add_fit(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=fit)
    add = parser.add_argument
    add(
        "data",
        type=Path,
        nargs="?",
        metavar="DATA",
        help="inputs: an .npz file, a folder of images, or a .csv table",
    )
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="TOML file to write")
    add("--features", type=Path, metavar="FILE.csv", help="a table with a header, instead of DATA")
    add(
        "--label",
        metavar="COLUMN",
        help="the table's column of classes (default: one called class, label or target)",
    )
    add(
        "--cover",
        type=types.number,
        default=0.99,
        metavar="P",
        help="share of the held-out half that must be inside (default: %(default)s)",
    )
    add(
        "--box",
        action="store_true",
        help="of a table, keep ranges and names only: no whole numbers and one-hot groups",
    )
    _add_conditions(parser)
    add(
        "--class",
        dest="label_number",
        type=types.label,
        metavar="C",
        help="only inputs of this class, by the labels of the data (of a table also by name)",
    )
    add("--like", type=Path, metavar="IMAGE", help="a box around this input, instead of DATA")
    groups.add_index(parser)
    add("--radius", type=types.quotient, metavar="R", help="half the width of that box")
    add("--name", metavar="TEXT", help="name of the domain (default: the file's name)")
    _add_shared(parser)


def _add_conditions(parser: argparse.ArgumentParser) -> None:
    """Add the options that relate pixels to each other, beside their ranges."""
    add = parser.add_argument
    add("--components", type=types.whole, metavar="K", help="a zonotope of K principal components")
    add(
        "--coordinates",
        type=types.whole,
        default=0,
        metavar="K",
        help="also ranges for the coordinates along K principal components, as linear rows",
    )
    add(
        "--likely",
        action="store_true",
        help="leave out inputs in which more is unusual than in those of the data: a linear row",
    )


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=show)
    parser.add_argument("domain", type=Path, metavar="FILE", help="domain (TOML file)")
    _add_shared(parser)


def fit(arguments: argparse.Namespace) -> int:
    """Make a domain, write it, and say what it holds."""
    from vhagar.fitting.words import coverage_lines, domain_lines
    from vhagar.perturbation.domain.writer import write_domain
    from vhagar.runtime.output_files import check_writable

    given = (arguments.data, arguments.features, arguments.like)
    chosen = [path for path in given if path is not None]
    if len(chosen) != 1:
        raise InvalidInput("give one of DATA, --features FILE.csv and --like IMAGE")
    if arguments.output.suffix not in ("", ".toml"):
        raise InvalidInput(
            f"a domain is a .toml file, not {arguments.output.suffix}; its arrays go into an .npz "
            "file beside it"
        )
    check_writable(arguments.output)  # a folder without a name has no place beside it
    for path in (arguments.output, arguments.output.with_suffix(".npz"), arguments.plot):
        if path is not None:
            check_writable(path, chosen[0])
    found = _fitted(arguments, chosen[0])
    written = write_domain(found.domain, arguments.output)
    print("\n".join([*domain_lines(found.domain), *coverage_lines(found)]))
    _draw(found.domain, arguments.plot)
    print(f"wrote {' and '.join(map(str, written))}")
    return 0


def _fitted(arguments: argparse.Namespace, data: Path) -> Fit:
    from vhagar.dataset import read_image
    from vhagar.fitting import Fit, box_around, fit_box, fit_components
    from vhagar.fitting.sources import data_shape, read_inputs
    from vhagar.perturbation import Domain

    name = arguments.name or arguments.output.stem
    if arguments.features is not None or data.suffix == ".csv":
        return _fitted_table(arguments, data, name)
    span = arguments.input_range or (0.0, 1.0)
    whole = Domain(arguments.image_shape or data_shape(data, arguments.index), *span)
    if arguments.like is not None:
        if arguments.radius is None:
            raise InvalidInput("--like needs --radius, such as --radius 0.1")
        x = read_image(data, whole, arguments.index)
        return Fit(box_around(x, arguments.radius, whole, name))
    inputs, labels = read_inputs(data, whole, arguments.label_number)
    if arguments.components is None:
        cover, likely = arguments.cover, arguments.likely
        return fit_box(inputs, whole, cover, labels, name, None, likely, arguments.coordinates)
    if arguments.coordinates:
        raise InvalidInput("give one of --components and --coordinates")
    components, cover = arguments.components, arguments.cover
    return fit_components(inputs, whole, components, cover, labels, name, arguments.likely)


def _fitted_table(arguments: argparse.Namespace, path: Path, name: str) -> Fit:
    from vhagar.fitting import fit_box, read_table
    from vhagar.fitting.sources import of_class, table_range
    from vhagar.perturbation import Domain

    if arguments.components is not None:
        raise InvalidInput("--components is for images: features have ranges of their own")
    if arguments.likely or arguments.coordinates:
        raise InvalidInput(
            "--likely and --coordinates are for images, whose entries share one range"
        )
    table = read_table(path, arguments.label)
    label = arguments.label_number
    values, labels = of_class(table.values, table.labels, label, path, table.classes)
    span = arguments.input_range or table_range(table.values)
    least, most = float(values.min()), float(values.max())
    if least < span[0] or most > span[1]:
        raise InvalidInput(
            f"the values of {path} range from {least:g} to {most:g}, beyond the input range "
            f"{span[0]:g},{span[1]:g}; leave --input-range out for one that holds them"
        )
    whole = Domain((len(table.features),), *span)
    conditions: dict[str, Any] = {"features": table.features, "classes": table.classes}
    if not arguments.box:
        conditions |= {"integer": table.integer, "one_hot": table.one_hot}
    return fit_box(values, whole, arguments.cover, labels, name, conditions)


def show(arguments: argparse.Namespace) -> int:
    """Print a domain with its fingerprint, by which certificates name it, and draw it."""
    from vhagar.fitting.sources import domain_shape
    from vhagar.fitting.words import domain_lines
    from vhagar.perturbation.domain.emptiness import require_inputs
    from vhagar.perturbation.domain.file import read_domain

    shape = arguments.image_shape or domain_shape(arguments.domain)
    domain = read_domain(arguments.domain, shape, arguments.input_range)
    require_inputs(domain)
    known = [] if domain.whole else [f"its numbers have SHA-256 {domain.fingerprint}"]
    print("\n".join([*domain_lines(domain), *known]))
    _draw(domain, arguments.plot)
    return 0


def _draw(domain: Domain, path: Path | None) -> None:
    if path is None:
        return
    from vhagar.fitting.picture import draw_domain

    draw_domain(domain, path)
    print(f"wrote {path}")
