"""Parse the text of perturbations, and build the pieces that each of them consists of."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
from numpy.typing import NDArray

from vhagar_check.affine import BoxAffine, ShiftedLinfBall
from vhagar_check.errors import Rejected
from vhagar_check.maps import Recorded
from vhagar_check.moved import Moved, Turned, TurnedBetween, identity, radius, turned
from vhagar_check.pieces import Domain, Mask, Piece, Span
from vhagar_check.pixelwise import brightness_piece, contrast_piece, linf_ball
from vhagar_check.sparse import Sparse

# The verifier writes no longer text, and reading one could take forever.
_LONGEST_TEXT = 1_000
# Lists of features may be longer.
_LONGEST_LIST = 100_000
# Most pixels of all pieces together, each of which costs a few numbers, and what each piece counts
# in addition: as much as a small image.
_MOST_PIXELS, _PIECE = 2**25, 100
# The largest factor of contrast, and the inverse of the smallest.
_LARGEST_FACTOR = 1e6
# Least radius by which ranges of angles are cut into pieces, and about the most pieces.
_LEAST_RADIUS, _MOST_TURNS = 10.0, 180

# Perturbations whose first argument limits a change: `e` stands for `[0,e]`.
_LIMITED = ("linf", "patch")
# ASCII only: other programs may read the digits of other scripts differently.
_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_ARGUMENT = re.compile(rf"(?:({_NUMBER})|\[({_NUMBER}),({_NUMBER})\])(?:,(?!$)|$)")


def pieces(
    text: str | None, domain: Domain, clip: bool, recorded: Recorded | None = None
) -> list[Piece]:
    """Build the pieces of a perturbation, in the order of the format.

    `recorded` are the certificate's own maps, which a text may name by their hash.
    """
    if text is None:
        return [identity(domain)]
    of_features = text.startswith("features(")
    if len(text) > (_LONGEST_LIST if of_features else _LONGEST_TEXT):
        raise Rejected("the text of the perturbation is too long")
    named = re.fullmatch(r"affine\(([0-9a-f]{64})\)", text)
    if (named is not None) != (recorded is not None):
        raise Rejected("the certificate records maps that its perturbation does not name, or none")
    if named is not None and recorded is not None:
        if named[1] != recorded.sha256:
            raise Rejected("the recorded maps are not those that the perturbation names")
        return list(recorded.pieces)
    if of_features:
        return [_features(text, domain)]
    first, plus, second = text.partition(")+")
    if plus:
        return composed(_pieces(first + ")", domain, clip), second, domain, clip)
    return _pieces(text, domain, clip)


def _pieces(text: str, domain: Domain, clip: bool) -> list[Piece]:
    name, ranges = _call(text)
    maker = _MAKERS.get((name, len(ranges)))
    if maker is None:
        raise Rejected(f"{text!r} is not a perturbation that this checker knows")
    return maker(domain, clip, ranges)


def composed(first: list[Piece], text: str, domain: Domain, clip: bool) -> list[Piece]:
    """Compose brightness or linf with pieces that move pixels."""
    name, ranges = _call(text)
    if name not in ("linf", "brightness") or len(ranges) != 1:
        raise Rejected(f"{text!r} cannot be composed with another perturbation")
    _pieces(text, domain, clip)  # refuses an invalid range
    if name == "linf" and all(isinstance(piece, Moved) for piece in first):
        limit = ranges[0][1]
        return [_ball_around(domain, p.source, limit) for p in first if isinstance(p, Moved)]
    if name == "linf" and not clip:
        raise Rejected("linf keeps within the input range, so it is clipped to it")
    return [_on_top(piece, name, ranges[0], domain) for piece in first]


def _ball_around(domain: Domain, source: NDArray[np.int64], limit: float) -> Piece:
    """`linf` around moved pixels, or `linf` itself where they all stay in place."""
    if (source == np.arange(domain.size)).all():
        return linf_ball(domain, limit, np.ones(domain.size, dtype=np.bool_))
    return ShiftedLinfBall(domain, source, limit)


def _on_top(piece: Piece, name: str, span: Span, domain: Domain) -> Piece:
    size = domain.size
    if isinstance(piece, Moved):
        matrix, black, error = Sparse.picking(piece.source), np.asarray(piece.source < 0), 0.0
    elif isinstance(piece, Turned):
        # The true weights are irrational; these err by at most `error`.
        matrix, black = Sparse.of(piece.weights), np.asarray(~piece.weights.any(axis=1))
        error = 2.0**-50
    else:
        raise Rejected("only what moves pixels can be composed with another perturbation")
    offset = np.where(black, domain.low, 0.0)
    if name == "brightness":
        directions, ends = Sparse.of(np.ones((size, 1))), span
        lower, upper = (np.array([end]) for end in ends)
    else:
        directions = Sparse.picking(np.arange(size))
        lower, upper = (np.full(size, sign * span[1]) for sign in (-1.0, 1.0))
    first = piece if error else None
    return BoxAffine(domain, matrix, directions, offset, lower, upper, error, first)


def _call(text: str) -> tuple[str, list[Span]]:
    """Read the name and the ranges of one perturbation."""
    call = re.fullmatch(r"([a-z]+)\((.*)\)", text)
    if call is None:
        raise Rejected(f"{text!r} is not a perturbation")
    ranges: list[Span] = []
    place = 0
    while place < len(call[2]):
        match = _ARGUMENT.match(call[2], place)
        if match is None:
            raise Rejected(f"cannot read {call[2][place:]!r} in {text!r}")
        single = ("0" if call[1] in _LIMITED and not ranges else match[1], match[1])
        ends = single if match[1] else (match[2], match[3])
        ranges.append((float(ends[0]), float(ends[1])))
        place = match.end()
    if any(not (math.isfinite(low) and low <= high < math.inf) for low, high in ranges):
        raise Rejected(f"{text!r} has an empty or infinite range")
    return call[1], ranges


def _whole(domain: Domain, ranges: list[Span]) -> list[range]:
    """Check that ranges are of whole numbers, without too many combinations."""
    if any(end != int(end) for span in ranges for end in span):
        raise Rejected("a place or a width is not a whole number")
    found = [range(int(low), int(high) + 1) for low, high in ranges]
    counts = [int(high) + 1 - int(low) for low, high in ranges]
    if (domain.size + _PIECE) * math.prod(counts) > _MOST_PIXELS:
        raise Rejected("the perturbation has too many pieces")
    return found


def _features(text: str, domain: Domain) -> Piece:
    """Read entries that change by up to a radius each: `features([0,3],[0.5,2])`."""
    call = re.fullmatch(r"features\(\[([0-9,]+)\],\[([-+0-9.eE,]+)\]\)", text)
    if call is None:
        raise Rejected(f"{text[:80]!r} is not a perturbation that this checker knows")
    given, radii = call[1].split(","), call[2].split(",")
    if not all(map(str.isdecimal, given)) or not all(re.fullmatch(_NUMBER, r) for r in radii):
        raise Rejected(f"cannot read {text[:80]!r}")
    entries, limits = [int(entry) for entry in given], np.array([float(r) for r in radii])
    if sorted(set(entries)) != entries or len(entries) != len(limits):
        raise Rejected("features are not in ascending order, or have not one radius each")
    if entries[-1] >= domain.size:
        raise Rejected("a feature of the perturbation is none of the input")
    if not ((limits > 0) & (limits <= domain.high - domain.low)).all():
        raise Rejected("a radius is no positive number, or more than the input range")
    size, count = domain.size, len(entries)
    where = np.array(entries, dtype=np.int64), np.arange(count)
    directions = Sparse((size, count), *where, np.ones(count))
    same = Sparse.picking(np.arange(size))
    return BoxAffine(domain, same, directions, np.zeros(size), -limits, limits)


def _linf(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    return [linf_ball(domain, _limit(domain, ranges[0]), np.ones(domain.size, dtype=np.bool_))]


def _limit(domain: Domain, span: Span) -> float:
    """The limit `e` of a range `[0,e]`."""
    low, high = span
    if high <= 0 or low != 0:
        raise Rejected("the limit of a change is no positive number, nor an interval from 0")
    if high > domain.high - domain.low:
        raise Rejected("the limit of a change is more than the input range")
    return high


def _square(domain: Domain, row: int, column: int, width: int) -> Mask:
    _, rows, columns = domain.image
    if min(row, column, width) < 1 or row + width - 1 > rows or column + width - 1 > columns:
        raise Rejected("a square of the perturbation leaves the image")
    mask = np.zeros(domain.image, dtype=np.bool_)
    mask[:, row - 1 : row - 1 + width, column - 1 : column - 1 + width] = True
    return mask.reshape(-1)


def _patch(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    limit = _limit(domain, ranges[0])
    rows, columns, widths = _whole(domain, ranges[1:])
    if widths[0] < 1:
        raise Rejected("a square of the perturbation has no width")
    # A pixel of a patch may keep its value, so the widest square contains the others.
    return [
        linf_ball(domain, limit, _square(domain, i, j, widths[-1]))
        for i, j in itertools.product(rows, columns)
    ]


def _occlusion(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    numbers = np.arange(domain.size)
    return [
        Moved(domain, np.where(_square(domain, i, j, w), -1, numbers))
        for i, j, w in itertools.product(*_whole(domain, ranges))
    ]


def _translation(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    channels, height, width = domain.image
    (up, down), (left, right) = ranges
    if max(-up, down) > height or max(-left, right) > width:
        raise Rejected("a translation by more than the image")
    numbers = np.arange(domain.size).reshape(channels, height, width)
    found: list[Piece] = []
    for t, u in itertools.product(*_whole(domain, ranges)):
        rows, columns = np.arange(height) - t, np.arange(width) - u
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
        taken = numbers[:, rows.clip(0, height - 1)][:, :, columns.clip(0, width - 1)]
        found.append(Moved(domain, np.where(inside, taken, -1).reshape(-1)))
    return found


def _brightness(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    ((low, high),) = ranges
    if max(-low, high) > domain.high - domain.low:
        raise Rejected("the brightness changes by more than the input range")
    spans = [(low, 0.0), (0.0, high)] if low < 0 < high else [(low, high)]
    return [brightness_piece(domain, span, clip) for span in spans]


def _contrast(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    ((low, high),) = ranges
    if not 1 / _LARGEST_FACTOR <= low <= high <= _LARGEST_FACTOR:
        raise Rejected("the contrast is not above 0, or beyond any use")
    spans = [(low, 1.0), (1.0, high)] if low < 1 < high else [(low, high)]
    return [contrast_piece(domain, span, clip) for span in spans]


def _rotation(domain: Domain, clip: bool, ranges: list[Span]) -> list[Piece]:
    ((low, high),) = ranges
    if max(-low, high) > 360:
        raise Rejected("the angle of a rotation is beyond a full turn")
    if low == high:
        return [turned(domain, low)]
    # Cut so that the outermost pixel moves by about a pixel, and at quarter turns.
    step = math.degrees(1 / max(radius(domain), _LEAST_RADIUS))
    step = max(step, (high - low) / _MOST_TURNS)
    cuts = [low]
    for end in (*(90.0 * k for k in range(-3, 4) if low < 90 * k < high), high):
        count = max(1, math.ceil((end - cuts[-1]) / step))
        cuts += np.linspace(cuts[-1], end, count + 1).tolist()[1:]
    return [TurnedBetween(domain, span) for span in itertools.pairwise(cuts)]


_MAKERS = {
    ("linf", 1): _linf,
    ("patch", 4): _patch,
    ("occlusion", 3): _occlusion,
    ("translation", 2): _translation,
    ("brightness", 1): _brightness,
    ("contrast", 1): _contrast,
    ("rotation", 1): _rotation,
}
