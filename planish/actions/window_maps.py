"""Windows of a parameter that a copy engine can fetch: pixels that were joined to one axis, each read some steps aside, zeros around the image.

What the engine is told is a tensor of channels, then the places that windows slide along, then images, and a frame of corners in it
over which pixels run: row by row, image by image, some `steps` at a time. A copy brings so many of them from one pixel on, each from
`offsets` aside: the tap of a window. What is outside of the tensor is zeros, which is what padding is.

How it is found. Both axes are cut at all numbers that they are divided by: *digits*. In terms of these an index is a sum. A gate says of a sum
below what and from what on it is inside: that is a dim, its pixels the digit of the joined axis in it. What no gate looks at may be
counted along any dim, as long as it comes to the same place in memory.

Before → after::

    a[where(0 < p//56%56 + t//192 <= 56 and …, p*64 + t//192*3584 + t%192 - 3648, nowhere)]
        dims (64, 56, 56, 64), strides (1, 64, 3584, 200704), corners (-1, -1) to (-1, -1), a box of 64 x 128
        at (0, p%56 - 1, p//56%56 - 1, p//3136), t//64%3 and t//192 aside
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import gcd
from typing import Final, NamedTuple, cast

from planish.records import dataclass
from planish.uop.nest import next_root, size_of
from planish.uop.node import UOp
from planish.uop.ops import Box, Ops
from planish.uop.reached import joined_by
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.affine import Affine, affine

_ALIGNED: Final = 16
"""Bytes that everything starts at multiples of."""
_CORNERS: Final = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
"""How far a corner may be from that of the tensor, by the number of dims that windows slide along; offsets may be twice as much."""
_MOST_STEPS: Final = 8
_MOST_DIGITS: Final = 8
"""Of pixels; what a tensor map has dims for is less."""


class _Digits(NamedTuple):
    """An axis as digits, the fastest first: a range for each, and what it counts."""

    axis: UOp
    ranges: tuple[UOp, ...]
    counts: tuple[int, ...]

    def longer(self, digit: UOp) -> _Digits:
        """With one digit more, which is 0."""
        return _Digits(
            self.axis, (*self.ranges, digit), (*self.counts, self.counts[-1] * size_of(self.ranges[-1]))
        )

    def whole(self) -> UOp:
        total = self.axis.table.const(0)
        for digit, count in zip(self.ranges, self.counts, strict=True):
            total = total + digit * count
        return total

    def at(self, place: UOp) -> dict[UOp, UOp]:
        """What the digits are at a place of the axis; the last may be beyond its end."""
        digits = {
            digit: place // count % size_of(digit)
            for digit, count in zip(self.ranges, self.counts, strict=True)
        }
        return digits | {self.ranges[-1]: place // self.counts[-1]}


def _cuts(nodes: Iterable[UOp], axis: UOp) -> Iterator[int]:
    """The numbers that an axis is divided by."""
    for node in nodes:
        if node.op in {Ops.FLOORDIV, Ops.FLOORMOD} and node.src[1].op is Ops.CONST:
            inside, number = node.src[0], cast("int", node.src[1].arg)
            if inside is axis:
                yield number
            elif len(inside.src) == 2 and inside.src[0] is axis and inside.src[1].op is Ops.CONST:
                yield number * cast("int", inside.src[1].arg) if inside.op is Ops.FLOORDIV else number


def _digits(nodes: Iterable[UOp], axis: UOp, size: int, least: int, root: int) -> _Digits | None:
    """An axis cut wherever it is divided, in digits of which the first counts `least`."""
    cuts = [1, *sorted({least, *(cut for cut in _cuts(nodes, axis) if least < cut < size)} - {1}), size]
    if any(cut % before for before, cut in pairwise(cuts)):
        return None
    ranges = [axis.table.range(cut // before, root + n) for n, (before, cut) in enumerate(pairwise(cuts))]
    return _Digits(axis, tuple(ranges), tuple(cuts[:-1]))


@dataclass(slots=True)
class _Dim:
    """A dim in the making: how far its neighbours are apart, where a read is along it, and what bounds it."""

    pitch: int
    place: Affine
    digit: UOp | None = None
    """Of pixels; None along channels."""
    size: int = 0
    """If a gate says so."""

    @property
    def step(self) -> int:
        """From pixel to pixel."""
        return 1 if self.digit is None else self.place.terms[self.digit]

    @property
    def reach(self) -> int:
        """How far its last pixel is from its first, in memory."""
        return 0 if self.digit is None else self.pitch * self.step * self.digit.vmax

    @property
    def beside(self) -> Affine:
        """Where a read is along it, but for the pixel and the constant."""
        return Affine({term: f for term, f in self.place.terms.items() if term is not self.digit}, 0)

    def take(self, term: UOp, factor: int) -> None:
        """Count what moves an index by a factor along this dim."""
        finer = gcd(self.pitch, factor)
        self.place = self.place.scaled(self.pitch // finer).plus(Affine({term: factor // finer}, 0))
        self.pitch = finer


class _Gates(NamedTuple):
    """What a gate says of sums, without their constants: the least and the greatest that are inside."""

    low: dict[frozenset[tuple[UOp, int]], int]
    high: dict[frozenset[tuple[UOp, int]], int]

    @property
    def sums(self) -> Iterable[frozenset[tuple[UOp, int]]]:
        return dict.fromkeys((*self.low, *self.high))


def conditions_of(index: UOp) -> tuple[UOp, list[UOp]]:
    """An index as it is where it is somewhere, and all that has to hold for that."""
    conditions: list[UOp] = []
    while index.op is Ops.WHERE and index.src[2].op is Ops.INVALID:
        conditions += joined_by(Ops.AND, index.src[0])
        index = index.src[1]
    return index, conditions


def _gates(conditions: Iterable[UOp], digits: Mapping[UOp, UOp]) -> _Gates | None:
    gates = _Gates({}, {})
    for gate in conditions:
        if gate.op is not Ops.CMPLT or all(side.op is not Ops.CONST for side in gate.src):
            return None
        below = gate.src[1].op is Ops.CONST
        number = cast("int", gate.src[below].arg)
        terms = affine(simplify(substitute(gate.src[not below], dict(digits))))
        if terms is None:
            return None
        key = frozenset(terms.terms.items())
        if below:
            limit = number - 1 - terms.constant
            gates.high[key] = min(limit, gates.high.get(key, limit))
        else:
            limit = number + 1 - terms.constant
            gates.low[key] = max(limit, gates.low.get(key, limit))
    return gates


def windows(value: UOp, first: UOp, second: UOp, at: Mapping[UOp, UOp], copied: UOp, box: Box) -> UOp | None:
    """What is copied of a read, as an element of windows whose pixels are the second axis, and channels and taps the first; None if it is none."""
    index, conditions = conditions_of(value.src[1])
    nodes = value.toposort()
    size, run = size_of(second), box.sizes[0] * box.panels
    for gate in conditions:
        if gate.op is Ops.CMPLT and gate.src[0] is second and gate.src[1].op is Ops.CONST:
            size = min(size, cast("int", gate.src[1].arg))
    if not size or not size_of(first) or size_of(first) % run:
        return None
    root = next_root(nodes)
    pixels = _digits(nodes, second, size, 1, root)
    terms = _digits(nodes, first, size_of(first), run, root + _MOST_DIGITS)
    if pixels is None or terms is None or len(pixels.ranges) >= _MOST_DIGITS:
        return None
    exchange = {first: terms.whole(), second: pixels.whole()}
    conditions = [g for g in conditions if g.src[0] is not second]
    sum_, gates = affine(simplify(substitute(index, exchange))), _gates(conditions, exchange)
    if sum_ is None or gates is None:
        return None
    digits = {*pixels.ranges, *terms.ranges}
    if any(term not in digits and not digits.isdisjoint(term.ranges) for term in sum_.terms):
        return None
    # where windows slide along the slowest digit, too, all is one image
    for counted in (pixels, pixels.longer(second.table.range(1, root + 2 * _MOST_DIGITS))):
        dims = _dims(sum_, gates, counted, terms, run) if len(counted.ranges) - 1 in _CORNERS else None
        if dims is None or not _is_aligned(dims, value.dtype.itemsize):
            continue
        if size < size_of(second) and (dims[-1].beside.terms or dims[-1].place.constant):
            continue  # beyond the last image is another, and not nothing
        fetch = _fetch(value, copied, box, dims, {**counted.at(at[second]), **terms.at(at[first])})
        if fetch is not None:
            return fetch
    return None


def _is_aligned(dims: list[_Dim], itemsize: int) -> bool:
    unit = _ALIGNED // gcd(_ALIGNED, itemsize)
    return all(dim.pitch % unit == 0 and dim.step >= 1 for dim in dims[1:]) and dims[-1].step == 1


def _dims(index: Affine, gates: _Gates, pixels: _Digits, terms: _Digits, run: int) -> list[_Dim] | None:
    """Channels, what windows slide along, and images; None if an index is no sum of places along them."""
    slid: dict[UOp, _Dim] = {}
    for key in gates.sums:
        inside = dict(key)
        mine = [digit for digit in pixels.ranges[:-1] if digit in inside]
        others = [digit for digit in (pixels.ranges[-1], terms.ranges[0]) if digit in inside]
        if len(mine) != 1 or others or mine[0] in slid or inside[mine[0]] < 1:
            return None
        least, most = Affine(inside, 0).interval()
        low, high = gates.low.get(key, least), gates.high.get(key, most)
        pitch, odd = divmod(index.terms.get(mine[0], 0), inside[mine[0]])
        if odd or high < low:
            return None
        slid[mine[0]] = _Dim(pitch, Affine(inside, -low), mine[0], high - low + 1)
        index = index.plus(slid[mine[0]].place, -pitch)
    for digit in pixels.ranges:
        if digit not in slid:
            beyond = 2 * sum(dim.reach + dim.pitch for dim in slid.values())
            pitch = index.terms.get(digit, 0) if digit.vmax else beyond
            slid[digit] = _Dim(pitch, Affine({digit: 1}, 0), digit)
            index = index.plus(Affine({digit: index.terms.get(digit, 0)}, 0), -1)
    dims = [slid[digit] for digit in pixels.ranges]
    nearest = min(dim.pitch for dim in dims)
    if nearest < 1 or index.terms.get(terms.ranges[0]) != 1 or index.constant < 0:
        return None
    channels = _Dim(1, Affine({terms.ranges[0]: 1}, 0))
    extent = run
    for digit in terms.ranges[1:]:
        if index.terms.get(digit) == extent and extent * size_of(digit) <= nearest:
            channels.take(digit, extent)
            extent *= size_of(digit)
    return _counted(index.plus(channels.place, -1), channels, dims, extent)


def _counted(index: Affine, channels: _Dim, dims: list[_Dim], extent: int) -> list[_Dim] | None:
    """The dims, with what is left of an index counted along those that no gate bounds."""
    free = sorted((dim for dim in dims if not dim.size), key=lambda dim: -dim.pitch)
    for term, factor in index.terms.items():
        taken = next((dim for dim in free if gcd(dim.pitch, factor) > _below(dim, dims, extent)), channels)
        if taken is channels and factor < 1:
            return None
        taken.take(term, factor)
    left = index.constant
    for dim in (*free, channels):
        dim.place = dim.place.plus(Affine({}, left // dim.pitch))
        left %= dim.pitch
    return [channels, *dims]


def _below(dim: _Dim, dims: Iterable[_Dim], extent: int) -> int:
    """How far the pixels of finer dims are apart at most."""
    return max((other.reach for other in dims if other.pitch < dim.pitch), default=extent - 1)


def _fetch(value: UOp, copied: UOp, box: Box, dims: list[_Dim], digits: Mapping[UOp, UOp]) -> UOp | None:
    channels, *slid, images = dims
    most = _CORNERS[len(slid)]
    sizes, lower, upper, offsets, places = [], [], [], [], []
    for dim in dims:
        low, high = dim.place.interval()
        if not dim.size and low < 0:
            return None
        sizes.append(dim.size or high + 1)
        if dim is channels or dim is images:
            places.append(dim.place)
            continue
        beside = dim.beside
        least, greatest = beside.interval()
        corner = dim.place.constant + least
        lower.append(corner)
        upper.append(corner + dim.step * cast("UOp", dim.digit).vmax + 1 - sizes[-1])
        if greatest - least >= 2 * most or dim.step > _MOST_STEPS:
            return None
        if any(not -most <= each < most for each in (lower[-1], upper[-1])):
            return None
        places.append(Affine({cast("UOp", dim.digit): dim.step}, corner))
        offsets.append(Affine(beside.terms, -least))
    zero = value.table.const(0)
    like = {**digits, next(iter(channels.place.terms)): zero}
    coordinates = [simplify(substitute(each.build(zero), like)) for each in (*places, *offsets)]
    whole = box._replace(
        slot=cast("int", value.src[0].arg),
        dims=tuple(sizes),
        strides=tuple(dim.pitch for dim in dims),
        lower=tuple(lower),
        upper=tuple(upper),
        steps=tuple(dim.step for dim in slid),
    )
    return value.table.make(Ops.FETCH, copied.dtype, (copied, *coordinates), whole)
