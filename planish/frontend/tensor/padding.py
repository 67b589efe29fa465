"""Padding: more elements around a tensor, in all modes of NumPy's.

`constant`, `edge`, `reflect`, `symmetric` and `wrap` are one composition of PTIR's library. Constants of their own for each side,
ramps, statistics and odd mirror images are made side by side, along one axis after the other.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.composite import composite
from planish.frontend.tensor.creation import iota
from planish.frontend.tensor.elementwise import floor, round
from planish.frontend.tensor.manipulation import concat, section
from planish.frontend.tensor.operands import broadcast, cast_to, constant, default_float, tensor
from planish.frontend.tensor.quantiles import median
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.statistics import max, mean, min
from planish.ptir.library import shaping

Pairs = list[tuple[Any, Any]]
_STATISTICS: Final[dict[str, Callable[..., Tensor]]] = {
    "maximum": max, "mean": mean, "median": median, "minimum": min,
}  # fmt: skip
_MODES: Final = (*shaping.PAD_MODES, "empty", "linear_ramp", *_STATISTICS)


@remembered
def pad(
    x: Tensor,
    pad_width: int | Sequence[int] | Sequence[Sequence[int]],
    /,
    mode: str = "constant",
    *,
    constant_values: Scalar | Sequence[Any] = 0,
    end_values: Scalar | Sequence[Any] = 0,
    stat_length: int | Sequence[Any] | None = None,
    reflect_type: str = "even",
) -> Tensor:
    """More elements around: `constant`, or made from the edge by `edge`, `reflect`, `symmetric`, `wrap`, `linear_ramp`, `mean` and others.

    `pad_width` is one number for all sides, one pair for all axes, a pair per axis, or a dict of axes; so are the options of modes.
    """
    given = tensor("pad", x)
    if isinstance(pad_width, dict):
        wide = {axis % given.ndim: width for axis, width in pad_width.items()}
        pad_width = [(n, n) if isinstance(n := wide.get(at, 0), int) else n for at in range(given.ndim)]
    widths = _sides("widths", pad_width, given)
    low, high = (tuple([operator.index(pair[side]) for pair in widths]) for side in (0, 1))
    if mode not in _MODES:
        raise ShapeError.of("pad", f"there is no mode {mode!r}", f"one of {', '.join(_MODES)}")
    if mode == "empty" or (mode == "constant" and not isinstance(constant_values, tuple | list | np.ndarray)):
        value = 0 if mode == "empty" else constant_values
        return composite(shaping.pad, given, low=low, high=high, mode="constant", value=cast("Scalar", value))
    if mode in shaping.PAD_MODES and mode != "constant" and reflect_type == "even":
        return composite(shaping.pad, given, low=low, high=high, mode=mode, value=0)
    if reflect_type not in ("even", "odd"):
        raise ShapeError.of("pad", f"there is no reflect_type {reflect_type!r}", "even or odd")
    options = constant_values if mode == "constant" else end_values
    if mode in _STATISTICS:
        options = cast("Any", stat_length)
    of_sides = _sides("values", options, given)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            given = _padded(given, axis, (before, after), mode, of_sides[axis])
    return given


def _sides(what: str, given: Any, x: Tensor) -> Pairs:
    """A number for all sides, a pair for all axes, or a pair per axis: as a pair per axis."""
    if given is None or not isinstance(given, tuple | list | np.ndarray):
        return [(given, given)] * x.ndim
    rows = [tuple(row) if isinstance(row, tuple | list | np.ndarray) else row for row in given]
    if len(rows) == 2 and not any(isinstance(row, tuple) for row in rows):
        return [(rows[0], rows[1])] * x.ndim
    pairs = [row * 2 if isinstance(row, tuple) and len(row) == 1 else row for row in rows]
    if len(pairs) == 1 and isinstance(pairs[0], int | float):
        return [(pairs[0], pairs[0])] * x.ndim
    pairs = pairs * x.ndim if len(pairs) == 1 else pairs
    if len(pairs) != x.ndim or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ShapeError.of(
            "pad", f"{what} {given} do not go with shape {x.shape}", "give a (before, after) pair per axis"
        )
    return cast("Pairs", pairs)


def _padded(x: Tensor, axis: int, widths: tuple[int, int], mode: str, options: tuple[Any, Any]) -> Tensor:
    """One axis with elements before and after it."""
    size = x.shape[axis]
    if size == 0:
        raise ShapeError.of("pad", f"axis {axis} of shape {x.shape} is empty", "use mode='constant'")
    if mode in ("reflect", "symmetric"):
        return _odd_mirror(x, axis, widths, mode)
    before, after = (
        _side(x, axis, width, mode, option, is_first)
        for width, option, is_first in zip(widths, options, (True, False), strict=True)
    )
    return concat([part for part in (before, x, after) if part is not None], axis=axis)


def _side(x: Tensor, axis: int, width: int, mode: str, option: Any, is_first: bool) -> Tensor | None:
    """The elements of one side."""
    if not width:
        return None
    size = x.shape[axis]
    shape = tuple([width if at == axis else n for at, n in enumerate(x.shape)])
    if mode == "constant":
        return constant(option, x.dtype, shape)
    if mode == "linear_ramp":
        edge = section(x, axis, 0, 1) if is_first else section(x, axis, size - 1, size)
        steps = iota(shape, axis)
        wide, outer = (
            (dtypes.complex128, complex(option)) if x.dtype.is_complex else (dtypes.float64, float(option))
        )
        inwards = cast_to(steps if is_first else width - 1 - steps, wide)
        ramp = inwards * ((cast_to(edge, wide) - outer) / float(width)) + outer
        return cast_to(floor(ramp) if x.dtype.is_int else ramp, x.dtype)
    count = size if option is None else builtins.min(operator.index(option), size)
    part = section(x, axis, 0, count) if is_first else section(x, axis, size - count, size)
    statistic = _STATISTICS[mode](
        part if mode in ("maximum", "minimum") else default_float(part), axis=axis, keepdims=True
    )
    return broadcast(cast_to(round(statistic) if x.dtype.is_int else statistic, x.dtype), shape)


def _odd_mirror(x: Tensor, axis: int, widths: tuple[int, int], mode: str) -> Tensor:
    """Twice the edge less the mirror image, as often as it takes."""
    size = x.shape[axis]
    before, after = widths
    reach = size if mode == "symmetric" else size - 1
    if reach == 0:  # one element: its own mirror image
        return composite(
            shaping.pad, x, low=_only(x, axis, before), high=_only(x, axis, after), mode="edge", value=0
        )
    while before or after:
        here = (builtins.min(before, reach), builtins.min(after, reach))
        wide = composite(
            shaping.pad, x, low=_only(x, axis, here[0]), high=_only(x, axis, here[1]), mode=mode, value=0
        )
        size = x.shape[axis]
        ends = [section(x, axis, 0, 1), section(x, axis, size - 1, size)]
        first = section(wide, axis, 0, here[0])
        last = section(wide, axis, here[0] + size, here[0] + size + here[1])
        x = concat([2 * ends[0] - first, x, 2 * ends[1] - last], axis=axis)
        before, after = before - here[0], after - here[1]
        reach = x.shape[axis] if mode == "symmetric" else x.shape[axis] - 1
    return x


def _only(x: Tensor, axis: int, width: int) -> tuple[int, ...]:
    return tuple([width if at == axis else 0 for at in range(x.ndim)])


__all__ = ["pad"]
