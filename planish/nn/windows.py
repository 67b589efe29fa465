"""Windows by themselves: `unfold` and its transpose `fold`, maxima with their places, and putting them back (unpooling)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish.dtypes import float32
from planish.errors import DTypeError, ShapeError
from planish.frontend import library
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.transforms import vjp
from planish.nn.arguments import Sizes, batched, floating, per_axis, unbatched
from planish.nn.spatial import (
    adaptive_sizes,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fitting,
    per_space,
    pooling_windows,
)


def _counts(
    op: str, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], gaps: Sequence[int]
) -> tuple[int, ...]:
    """How many windows fit along each axis."""
    spans = [gap * (size - 1) + 1 for size, gap in zip(window, gaps, strict=True)]
    if any(span > size for span, size in zip(spans, sizes, strict=True)):
        raise ShapeError.of(op, f"a window of {tuple(spans)} does not fit sizes {tuple(sizes)}")
    return tuple((size - span) // step + 1 for size, span, step in zip(sizes, spans, strides, strict=True))


# --- unfold and fold --------------------------------------------------------------------------------------


def unfold(
    x: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """(N, C, …) as (N, C · elements of a window, windows): the columns of which a convolution is a product."""
    op = "unfold"
    space = _space(op, x, kernel_size)
    x, alone = batched(op, x, space)
    window, gaps = (
        per_axis(op, n, v, space) for n, v in (("kernel_size", kernel_size), ("dilation", dilation))
    )
    steps, ends = per_axis(op, "stride", stride, space), per_axis(op, "padding", padding, space, least=0)
    x = fn.pad(x, [(0, 0), (0, 0), *[(end, end) for end in ends]]) if any(ends) else x
    counts = _counts(op, x.shape[2:], window, steps, gaps)
    for at, (count, size, step, gap) in enumerate(zip(counts, window, steps, gaps, strict=True)):
        line, axis = np.arange(count) * step + np.arange(size)[:, None] * gap, 2 + 2 * at
        x = fn.take(x, fn.asarray(line.reshape(-1)), axis=axis)
        x = x.reshape((*x.shape[:axis], *line.shape, *x.shape[axis + 1 :]))
    # (N, C, elements and windows of each axis): elements first
    order = (0, 1, *range(2, 2 + 2 * space, 2), *range(3, 2 + 2 * space, 2))
    permuted = fn.permute_dims(x, order)
    return unbatched(permuted.reshape((x.shape[0], -1, math.prod(counts))), alone)


def _space(op: str, x: Tensor, kernel_size: Sizes) -> int:
    """How many axes windows have: as many as sizes; for one size, the input has no axis but (N, C, H, W) or fewer."""
    floating(op, x)
    return len(kernel_size) if not isinstance(kernel_size, int) else 2


def fold(
    x: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """The transpose of `unfold`: columns are added where their windows lie in (N, C, …) of the given sizes."""
    op = "fold"
    space = _space(op, x, kernel_size)
    sizes = per_axis(op, "output_size", output_size, space)
    window = per_axis(op, "kernel_size", kernel_size, space)
    alone = x.ndim == 2
    columns = fn.expand_dims(x, axis=0) if alone else x
    if columns.ndim != 3 or columns.shape[1] % math.prod(window):
        raise ShapeError.of(op, f"{x.shape} are no columns of windows {window}", "(N, C · elements of a window, windows)"
        )  # fmt: skip
    image = fn.zeros((columns.shape[0], columns.shape[1] // math.prod(window), *sizes), dtype=x.dtype)
    columns_there, pull = vjp(lambda image: unfold(image, window, dilation, padding, stride), image)
    if columns_there.shape != columns.shape:
        raise ShapeError.of(op, f"there are {columns_there.shape[2]} windows in sizes {sizes}, and {columns.shape[2]} columns"
        )  # fmt: skip
    (folded,) = pull(columns)
    return unbatched(folded, alone)


# --- maxima with their places -----------------------------------------------------------------------------


def max_pool(
    space: int,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The largest of each window over `space` axes, and where it was in the flattened axes of (N, C, …)."""
    op = f"max_pool{space}d_with_indices"
    x, alone = batched(op, x, space, integers=True)
    window, steps, ends, gaps = pooling_windows(op, space, kernel_size, stride, padding, dilation)
    places = library.max_pool_places(x, window, steps, ends, gaps, ceil_mode)
    return _chosen(x, fitting(op, places, x, window), alone)


def _chosen(x: Tensor, places: Tensor, alone: bool) -> tuple[Tensor, Tensor]:
    """The elements at places of the flattened axes, and the places."""
    flat = places.reshape((*x.shape[:2], -1))
    values = fn.take_along_axis(x.reshape((*x.shape[:2], -1)), flat, axis=2)
    return unbatched(values.reshape(places.shape), alone), unbatched(places, alone)


def _adaptive_max_pool(
    space: int, x: Tensor, output_size: int | Sequence[int | None]
) -> tuple[Tensor, Tensor]:
    op = f"adaptive_max_pool{space}d_with_indices"
    x, alone = batched(op, x, space, integers=True)
    return _chosen(x, library.adaptive_max_pool(x, adaptive_sizes(op, x, space, output_size))[1], alone)


def _max_unpool(
    space: int,
    x: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    op = f"max_unpool{space}d"
    if indices.shape != x.shape or not indices.dtype.is_int:
        raise DTypeError.of(op, f"the input is {x.shape}, the indices {indices.dtype.name}{list(indices.shape)}", "as max_pool gives both"
        )  # fmt: skip
    x, alone = batched(op, x, space)
    window, steps, ends, _ = pooling_windows(op, space, kernel_size, stride, padding, 1)
    usual = [
        (n - 1) * step - low - high + k
        for n, step, (low, high), k in zip(x.shape[2:], steps, ends, window, strict=True)
    ]
    sizes = usual if output_size is None else list(output_size)[-space:]
    flat = fn.zeros((*x.shape[:2], math.prod(sizes)), dtype=x.dtype)
    unpooled = fn.scatter(flat, indices.reshape((*x.shape[:2], -1)), x.reshape((*x.shape[:2], -1)), axis=2)
    return unbatched(unpooled.reshape((*x.shape[:2], *sizes)), alone)


max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = per_space(
    max_pool, "The largest of each window of {x}, and where it was in the flattened axes.", "_with_indices"
)
(adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices) = (
    per_space(_adaptive_max_pool, "{x} to given sizes by maxima, and where they were.", "_with_indices")
)
max_unpool1d, max_unpool2d, max_unpool3d = per_space(
    _max_unpool, "The maxima of `max_pool{n}d_with_indices` back at their places in {x}, zeros elsewhere."
)


def _lp_pool(
    space: int,
    x: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """With PyTorch's signs: odd powers of negative numbers count against."""
    wide = x.astype(float32) if x.dtype.is_float and x.dtype.bits < 32 else x
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[space - 1]
    count = math.prod(per_axis(f"lp_pool{space}d", "kernel_size", kernel_size, space))
    total = pool(fn.pow(wide, norm_type), kernel_size, stride, 0, ceil_mode) * float(count)
    root = fn.pow(fn.where(total > 0, total, 1.0), 1.0 / norm_type)
    return fn.where(total > 0, root, 0.0).astype(x.dtype)


lp_pool1d, lp_pool2d, lp_pool3d = per_space(
    _lp_pool, "(Σ xᵖ) to the power 1/p of each window of {x}; 0 where the sum is not positive."
)


__all__ = [
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices", "fold", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "unfold",
]  # fmt: skip
