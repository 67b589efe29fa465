"""Sampling images at given places: `grid_sample`, and the places of an affine map, `affine_grid`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from operator import mul

from planish.dtypes import int64
from planish.errors import ShapeError
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating, same_dtype

_CUBIC = -0.75
"""The parameter of Keys' kernel that PyTorch uses."""


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """Where the elements of (N, C, …) of a size lie under affine maps (N, 2, 3) or (N, 3, 4): (N, …, 2 or 3), from -1 to 1."""
    space = len(size) - 2
    floating("affine_grid", theta)
    if space not in (2, 3) or theta.shape != (size[0], space, space + 1):
        raise ShapeError.of("affine_grid", f"maps {theta.shape} do not fit the size {tuple(size)}", "(N, 2, 3) for (N, C, H, W), (N, 3, 4) for (N, C, D, H, W)"
        )  # fmt: skip
    spatial = tuple(size[2:])
    parts: list[Tensor] = []
    for axis in reversed(range(space)):
        count = spatial[axis]
        if align_corners:
            line = (
                fn.linspace(-1.0, 1.0, count, dtype=theta.dtype)
                if count > 1
                else fn.zeros((1,), dtype=theta.dtype)
            )
        else:
            line = (fn.arange(count).astype(theta.dtype) * 2.0 + (1.0 - count)) / float(count)
        shape = [1] * space
        shape[axis] = count
        parts.append(fn.broadcast_to(line.reshape(tuple(shape)), spatial))
    parts.append(fn.ones(spatial, dtype=theta.dtype))
    base = fn.stack(parts, axis=-1).reshape((-1, space + 1))
    return fn.matmul(base, fn.matrix_transpose(theta)).reshape((size[0], *spatial, space))


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """(N, C, H, W) at places (N, H', W', 2) from -1 to 1, x before y: (N, C, H', W'); with a third axis alike.

    Modes: nearest, bilinear, and bicubic of two axes. Outside there are zeros, the border or what is reflected at it.
    """
    op = "grid_sample"
    same_dtype(op, floating(op, x), grid)
    space = x.ndim - 2
    if space not in (2, 3) or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != space:
        raise ShapeError.of(op, f"the input is {x.shape}, the grid {grid.shape}", "(N, C, H, W) and (N, H', W', 2), or one axis more each"
        )  # fmt: skip
    for what, given, known in (
        ("mode", mode, ("nearest", "bilinear", "bicubic")[: 5 - space]),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if given not in known:
            raise ShapeError.of(op, f"there is no {what} {given!r}", f"one of {', '.join(known)}")
    sizes = x.shape[2:]
    places = [
        _unnormalized(grid[..., space - 1 - axis], sizes[axis], align_corners).reshape((x.shape[0], -1))
        for axis in range(space)
    ]
    if mode != "bicubic" and padding_mode != "zeros":
        places = [
            _inside(at, size, padding_mode, align_corners) for at, size in zip(places, sizes, strict=True)
        ]
    # channels last: the elements of a place lie side by side, there and on the way back
    flat = fn.permute_dims(x.reshape((*x.shape[:2], -1)), (0, 2, 1))
    taps = [_taps(at, mode) for at in places]
    total: Tensor | None = None
    for chosen in itertools.product(*taps):
        at = [place for place, _ in chosen]
        if mode == "bicubic" and padding_mode != "zeros":
            at = [
                _inside(one, size, padding_mode, align_corners) for one, size in zip(at, sizes, strict=True)
            ]
        part = _gathered(flat, at, sizes)
        weights = [weight for _, weight in chosen if weight is not None]
        if weights:
            part = part * fn.expand_dims(reduce(mul, weights), axis=2)
        total = part if total is None else total + part
    found = flat if total is None else total
    return fn.permute_dims(found, (0, 2, 1)).reshape((*x.shape[:2], *grid.shape[1:-1]))


def _unnormalized(at: Tensor, size: int, align_corners: bool) -> Tensor:
    """From -1 … 1 to the elements of an axis."""
    return (at + 1.0) * ((size - 1) / 2.0) if align_corners else ((at + 1.0) * float(size) - 1.0) * 0.5


def _inside(at: Tensor, size: int, padding_mode: str, align_corners: bool) -> Tensor:
    """Places brought into an axis: at its ends, or reflected there. Beyond the ends there is no slope."""
    if padding_mode == "reflection":
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        if span == 0:
            return at * 0.0
        far = fn.abs(at - low)
        turns = fn.floor(far / span)
        rest = far - turns * span
        at = fn.where(turns % 2.0 == 0.0, rest + low, span - rest + low)
    inner = (at > 0.0) & (at < size - 1.0)
    return fn.where(inner, at, fn.where(at > 0.0, size - 1.0, 0.0).astype(at.dtype))


def _taps(at: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
    """The elements that a place looks at along an axis, with their weights."""
    if mode == "nearest":
        return [(fn.round(at), None)]
    first = fn.floor(at)
    t = at - first
    if mode == "bilinear":
        return [(first, 1.0 - t), (first + 1.0, t)]
    a = _CUBIC
    near = [((a + 2.0) * d - (a + 3.0)) * d * d + 1.0 for d in (t, 1.0 - t)]
    far = [((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a for d in (t + 1.0, 2.0 - t)]
    return [(first - 1.0, far[0]), (first, near[0]), (first + 1.0, near[1]), (first + 2.0, far[1])]


def _gathered(flat: Tensor, at: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """(N, places, C): the elements at whole places, zeros outside."""
    inside: Tensor | None = None
    index = fn.zeros(at[0].shape, dtype=int64)
    for axis, (place, size) in enumerate(zip(at, sizes, strict=True)):
        fits = (place >= 0.0) & (place <= size - 1.0)
        inside = fits if inside is None else inside & fits
        # a place that is no number is outside
        whole = fn.where(fits, place, 0.0).astype(int64)
        index = index + whole * math.prod(sizes[axis + 1 :])
    found = flat[fn.arange(flat.shape[0])[:, None], index]
    return found if inside is None else fn.where(fn.expand_dims(inside, axis=2), found, 0.0)


__all__ = ["affine_grid", "grid_sample"]
