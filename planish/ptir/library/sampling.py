"""Looking at places between elements: (N, C, …) at places that are computed, by the nearest element or a weighted sum of those around.

Places are given by one tensor (N, …) for each spatial axis, in elements from 0 on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce

from planish import dtypes
from planish.errors import ShapeError
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.common import gather, spread

Bring = Callable[[GraphValue, int], GraphValue]
"""Brings places into an axis of a size."""
_CUBIC = -0.75
"""The parameter of Keys' kernel that PyTorch and ONNX use."""


def unnormalised(place: GraphValue, size: int, align_corners: bool) -> GraphValue:
    """From -1 … 1 to the elements of an axis: the ends are the middles of its outer elements, or their borders."""
    if align_corners:
        return place.add(1.0).mul((size - 1) / 2)
    return place.add(1.0).mul(float(size)).sub(1.0).mul(0.5)


def reflected(place: GraphValue, size: int, align_corners: bool) -> GraphValue:
    """Mirrored at the ends of an axis until it lies between them."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span <= 0:
        return place.mul(0.0)
    far = place.sub(low).abs()
    turns = far.div(span).floor()
    rest = far.sub(turns.mul(span))
    return turns.floor_mod(2.0).eq(0.0).select(rest.add(low), rest.neg().add(span + low))


def bordered(place: GraphValue, size: int) -> GraphValue:
    """Brought to the ends of an axis, beyond which there is no slope."""
    inner = place.gt(0.0).and_(place.lt(size - 1.0))
    return inner.select(
        place, place.gt(0.0).select(place.graph.full(place.dims, size - 1.0, place.dtype), 0.0)
    )


def _mirrored(place: GraphValue, size: int, align_corners: bool) -> GraphValue:
    return bordered(reflected(place, size, align_corners), size)


def _taps(place: GraphValue, mode: str) -> list[tuple[GraphValue, GraphValue | None]]:
    """The elements that a place looks at along an axis, with their weights."""
    if mode == "nearest":
        return [(place.round(), None)]
    first = place.floor()
    t = place.sub(first)
    back = t.neg().add(1.0)
    if mode == "linear":
        return [(first, back), (first.add(1.0), t)]
    a = _CUBIC
    near = [d.mul(a + 2).sub(a + 3).mul(d).mul(d).add(1.0) for d in (t, back)]
    far = [d.mul(a).sub(5 * a).mul(d).add(8 * a).mul(d).sub(4 * a) for d in (t.add(1.0), back.add(1.0))]
    return [(first.sub(1.0), far[0]), (first, near[0]), (first.add(1.0), near[1]), (first.add(2.0), far[1])]


def sampled(x: GraphValue, places: Sequence[GraphValue], mode: str, bring: Bring | None = None) -> GraphValue:
    """(N, …, C) of (N, C, …); `bring` says where else to look for what lies outside, and without it there are zeros."""
    sizes = x.dims[2:]
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) != len(sizes) or not known:
        raise ShapeError(f"the spatial sizes of {x.type} must be known", op="gather")
    dims = places[0].dims
    # channels last: the elements of a place lie side by side, there and on the way back
    flat = x.reshape((*x.dims[:2], math.prod(known))).transpose((0, 2, 1))
    row = x.graph.iota(dims, 0, dtypes.int64)
    parts: list[GraphValue] = []
    for chosen in itertools.product(*[_taps(place, mode) for place in places]):
        index, inside = x.graph.full(dims, 0, dtypes.int64), x.graph.full(dims, True, dtypes.bool_)
        for (place, _), size in zip(chosen, known, strict=True):
            at = place if bring is None else bring(place, size)
            fits = at.ge(0.0).and_(at.le(size - 1.0))  # what is no number lies outside
            index = index.mul(size).add(fits.select(at, 0.0).cast(dtypes.int64))
            inside = inside.and_(fits)
        part = gather(flat, [row, index], [0, 1])
        weights = [weight for _, weight in chosen if weight is not None]
        if weights:
            factor = reduce(GraphValue.mul, weights).expand_dims(len(dims))
            part = part.mul(spread(factor, part.dims))
        parts.append(spread(inside.expand_dims(len(dims)), part.dims).select(part, 0))
    return reduce(GraphValue.add, parts)


def grid_sample(
    x: GraphValue,
    grid: GraphValue,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> GraphValue:
    """PyTorch's `grid_sample`: (N, C, …) at places (N, …, axes) from -1 to 1, the last axis first.

    Modes: nearest, linear, cubic. Outside there are zeros, the border or what is reflected at it.
    """
    sizes = [size if isinstance(size, int) else 0 for size in x.dims[2:]]
    places = [
        unnormalised(grid[..., len(sizes) - 1 - axis], size, align_corners) for axis, size in enumerate(sizes)
    ]
    bring: Bring | None = None
    if padding != "zeros":
        bring = bordered if padding == "border" else partial(_mirrored, align_corners=align_corners)
        if mode != "cubic":
            places, bring = [bring(at, size) for at, size in zip(places, sizes, strict=True)], None
    samples = sampled(x, places, mode, bring)
    return samples.transpose((0, samples.rank - 1, *range(1, samples.rank - 1)))
