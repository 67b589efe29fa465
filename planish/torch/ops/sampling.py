"""Images at other places: resizing with antialiasing, and sampling on a grid of three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from planish.frontend.autodiff.reverse import vjp
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.resize import interpolate
from planish.ptir.library.sampling import grid_sample
from planish.torch.registry import Lowering, lowering
from planish.torch.site import FxSite


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


_MODES, _PADDINGS = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")


@lowering("aten.grid_sampler_3d")
def grid_sampler(
    at: FxSite, x: V, grid: V, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> V:
    return grid_sample(x, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)


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
        results = at.graph.emit_many(inst.op, [values[x] for x in inst.operands], inst.attrs)
        values.update(zip(inst.results, results, strict=True))
    return [values[result] for result in function.results[1:]]


@lowering("aten.grid_sampler_2d_backward", "aten.grid_sampler_3d_backward")
def grid_sampler_backward(
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
        return grid_sampler(inner, picture, places, interpolation_mode, padding_mode, align_corners)

    of_x, of_grid = pulled_back(at, forward, [x, grid], gradient)
    return of_x, of_grid


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
