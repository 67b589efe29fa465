"""Sampling images at given places: `grid_sample`, and the places of an affine map, `affine_grid`."""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import ShapeError
from planish.frontend import library
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating, same_dtype


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
    return library.grid_sample(x, grid, mode.removeprefix("bi"), padding_mode, align_corners)


__all__ = ["affine_grid", "grid_sample"]
