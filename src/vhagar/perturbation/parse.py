"""Parse the textual form of perturbations, such as `occlusion([12,16],14,5)`."""

from __future__ import annotations

import re
from typing import Any

from vhagar.errors import InvalidInput
from vhagar.perturbation.base import Perturbation
from vhagar.perturbation.brightness import Brightness
from vhagar.perturbation.composition import compose
from vhagar.perturbation.contrast import Contrast
from vhagar.perturbation.features import Features
from vhagar.perturbation.linf import Linf
from vhagar.perturbation.occlusion import Occlusion
from vhagar.perturbation.patch import Patch
from vhagar.perturbation.rotation import Rotation
from vhagar.perturbation.translation import Translation

# Every perturbation, with the form that help texts and errors show. A new one adds one line here.
PERTURBATIONS: dict[type[Perturbation], str] = {
    Linf: "linf(e)",
    Brightness: "brightness([lo,hi])",
    Contrast: "contrast([lo,hi])",
    Occlusion: "occlusion(i,j,w)",
    Patch: "patch([0,e],i,j,w)",
    Translation: "translation(tx,ty)",
    Rotation: "rotation(theta)",
    Features: "features([f,g],e)",
}

_PLAIN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
# A number, or a quotient of two, such as 8/255.
_NUMBER = rf"[-+]?{_PLAIN}(?:\s*/\s*{_PLAIN})?"
_ARGUMENT = re.compile(rf"\s*(?:({_NUMBER})|\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\])\s*(?:,|$)")
# Several names or numbers, for perturbations of features.
_LIST = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:,|$)")
# A plus sign between two calls, unlike one within a number.
_BETWEEN = re.compile(r"(?<=\))\s*\+")
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)


def parse(text: str) -> Perturbation:
    """Parse `name(argument,...)`, or two of these joined by `+`; the first is applied first.

    An argument is a number, such as 0.1 or 8/255, or an interval `[low,high]`.
    """
    parts = _BETWEEN.split(text)
    if len(parts) == 2:
        return compose(_parse_one(parts[0], text), _parse_one(parts[1], text))
    return _parse_one(text, text)


def _parse_one(part: str, text: str) -> Perturbation:
    call = _CALL.fullmatch(part)
    kinds = {kind.name: kind for kind in PERTURBATIONS}
    if call is None or call[1].lower() not in kinds:
        forms = ", ".join(PERTURBATIONS.values())
        if ".py:" in text:
            raise InvalidInput(
                f"{text!r} names a perturbation in a file, which a study cannot use; use it in "
                "Python or with a command about a single problem"
            )
        raise InvalidInput(
            f"{text!r} is not a perturbation; write one of: {forms}; or two of them, such as "
            "occlusion(i,j,w)+linf(e)"
        )
    kind = kinds[call[1].lower()]
    arguments = _arguments(call[2], text, kind is Features)
    try:
        return kind(*arguments)
    except TypeError as error:
        raise InvalidInput(
            f"{text!r} has {len(arguments)} argument(s); write {PERTURBATIONS[kind]}"
        ) from error


def _arguments(inside: str, text: str, lists: bool) -> list[Any]:
    arguments: list[Any] = []
    position = 0
    if inside.strip().endswith(","):
        raise InvalidInput(f"{text!r} has a comma after its last argument")
    while position < len(inside):
        several = None
        match = _ARGUMENT.match(inside, position)
        if match is None and lists:
            match = several = _LIST.match(inside, position)
        if match is None:
            form = (
                "write features in brackets and then one radius, or one for each in brackets, such "
                "as features([age,dose],[2,0.1])"
                if lists
                else "an argument is a number or an interval such as [0,0.1]; to give each "
                "feature its own radius, write features([0,1,2],[0.1,0.2,5])"
            )
            raise InvalidInput(f"cannot read {inside[position:].strip()!r} in {text!r}; {form}")
        if several is not None:
            arguments.append([_item(item.strip()) for item in several[1].split(",")])
        else:
            single, low, high = match.groups()
            arguments.append(number(single) if single else (number(low), number(high)))
        position = match.end()
    return arguments


def _item(text: str) -> float | str:
    return number(text) if re.fullmatch(_NUMBER, text) else text


def number(text: str) -> float:
    """Parse a number, or a quotient of two, rounded to float64."""
    above, _, below = text.partition("/")
    divisor = float(below) if below else 1.0
    if not divisor:
        raise InvalidInput(f"{text!r} divides by zero")
    return float(above) / divisor
