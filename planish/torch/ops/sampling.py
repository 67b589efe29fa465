"""Images at other places: resizing with antialiasing, and sampling on a grid of three axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from planish import dtypes
from planish.frontend.autodiff.reverse import vjp
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.ptir.library.resize import interpolate
from planish.torch.registry import Lowering, lowering
from planish.torch.site import FxSite, cast, sizes


def _antialiased(
    mode: str,
    at: FxSite,
    x: V,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> V:
    if scales_h is not None or scales_w is not None:
        raise at.refuse("with factors of its own")
    return interpolate(x, output_size, None, mode, align_corners, antialias=True)


lowering("aten._upsample_bilinear2d_aa.default")(partial(_antialiased, "bilinear"))
lowering("aten._upsample_bicubic2d_aa.default")(partial(_antialiased, "bicubic"))


def _unnormalised(place: V, size: int, align_corners: bool) -> V:
    """From -1 … 1 to places along an axis."""
    if align_corners:
        return place.add(1.0).mul((size - 1) / 2)
    return place.add(1.0).mul(size / 2).sub(0.5)


def _reflected(place: V, size: int, align_corners: bool) -> V:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return place.mul(0.0)
    away = place.sub(low).abs()
    turns = away.div(span).floor()
    rest = away.sub(turns.mul(span))
    odd = turns.sub(turns.div(2.0).floor().mul(2.0)).eq(1.0)
    return odd.select(rest.neg().add(high), rest.add(low))


@lowering("aten.grid_sampler_3d")
def grid_sampler_3d(
    at: FxSite, x: V, grid: V, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> V:
    """Linear (0) or nearest (1), with zeros (0), the border (1) or a mirror (2) outside."""
    space = sizes(at, x)[2:]
    places: list[V] = []
    for number, size in enumerate(reversed(space)):
        place = _unnormalised(grid[..., number], size, align_corners)
        if padding_mode == 2:
            place = _reflected(place, size, align_corners)
        if padding_mode:
            place = place.max(0.0).min(size - 1.0)
        places.insert(0, place)
    dims = places[0].dims
    row = at.graph.iota(dims, 0, dtypes.int64)
    total: V | None = None
    corners = [(0, 0, 0)] if interpolation_mode == 1 else itertools.product((0, 1), repeat=3)
    for corner in corners:
        inside = at.full(dims, True, dtypes.bool_)
        weight = at.full(dims, 1.0, x.dtype)
        index = [row]
        for place, size, side in zip(places, space, corner, strict=True):
            if interpolation_mode == 1:
                near = place.round()
            else:
                near = place.floor().add(float(side))
                weight = weight.mul(place.sub(near).abs().neg().add(1.0))
            inside = inside.and_(near.ge(0.0)).and_(near.le(size - 1.0))
            index.append(cast(near, dtypes.int64).max(0).min(size - 1))
        picked = x.transpose([0, 2, 3, 4, 1]).gather(index, [0, 1, 2, 3])
        factor = inside.select(weight, at.full(dims, 0.0, x.dtype))
        part = picked.mul(spread(factor.expand_dims(4), picked.dims))
        part = spread(inside.expand_dims(4), part.dims).select(part, at.full(part.dims, 0.0, x.dtype))
        total = part if total is None else total.add(part)
    return x if total is None else total.transpose([0, 4, 1, 2, 3])


# --- derivatives ------------------------------------------------------------------------------------------


def pulled_back(at: FxSite, forward: Callable[..., V], inputs: Sequence[V], cotangent: V) -> list[V]:
    """The gradient of each input, of what a lowering writes: by planish's own derivative of it."""
    graph = Graph("forward")
    own = [graph.input(f"x{n}", x.type) for n, x in enumerate(inputs)]
    function = vjp(graph.build(forward(FxSite(graph, at.node), *own)))
    values = dict(zip(function.params, [*inputs, cotangent], strict=True))
    for inst in function:
        if inst.regions:
            raise at.refuse(f"its derivative has a {inst.op.name}")
        made = at.graph.emit_many(inst.op, [values[x] for x in inst.operands], inst.attrs)
        values.update(zip(inst.results, made, strict=True))
    return [values[result] for result in function.results[1:]]


@lowering("aten.grid_sampler_3d_backward")
def grid_sampler_3d_backward(
    at: FxSite,
    gradient: V,
    x: V,
    grid: V,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[V, V]:
    if interpolation_mode > 1:
        raise at.refuse("of cubic interpolation")

    def forward(inner: FxSite, picture: V, places: V) -> V:
        return grid_sampler_3d(inner, picture, places, interpolation_mode, padding_mode, align_corners)

    of_x, of_grid = pulled_back(at, forward, [x, grid], gradient)
    return of_x, of_grid


@lowering("aten.grid_sampler_2d_backward")
def grid_sampler_2d_backward(at: FxSite, gradient: V, x: V, grid: V, *how: Any, **named: Any) -> tuple[V, V]:
    """As a space of one layer, looked at in its middle."""
    deep = grid.expand_dims(1)
    deep = deep.concat([at.full((*deep.dims[:-1], 1), 0.0, grid.dtype)], 4)
    flat = gradient.expand_dims(2), x.expand_dims(2), deep
    of_x, of_grid = grid_sampler_3d_backward(at, *flat, *how, **named)
    return of_x.squeeze([2]), of_grid[..., :2].squeeze([1])


def _antialiased_backward(
    forward: Lowering,
    at: FxSite,
    gradient: V,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> V:
    picture = at.full(tuple(input_size), 0.0, gradient.dtype)  # it is linear: any will do
    return pulled_back(
        at,
        lambda inner, x: forward(inner, x, output_size, align_corners, scales_h, scales_w),
        [picture],
        gradient,
    )[0]


for _mode in ("bilinear", "bicubic"):
    lowering(f"aten._upsample_{_mode}2d_aa_backward.default")(
        partial(_antialiased_backward, partial(_antialiased, _mode))
    )
