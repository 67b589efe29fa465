"""Utility functions: truth of all, truth of any, differences of neighbours."""

from __future__ import annotations

from planish import dtypes
from planish.errors import ShapeError
from planish.frontend.tensor.array import Axis, Tensor
from planish.frontend.tensor.elementwise import (
    equal,
    isclose,
    isnan,
    logical_and,
    logical_or,
    not_equal,
    subtract,
)
from planish.frontend.tensor.manipulation import concat, section
from planish.frontend.tensor.operands import Operand, axes_of, axis_of, broadcast, constant, tensor
from planish.frontend.tensor.pointwise import numeric, truth
from planish.frontend.tensor.recipes import remembered
from planish.frontend.tensor.statistics import counting, reduce
from planish.ptir import ops


@remembered
def all(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False, where: Tensor | None = None) -> Tensor:
    """Whether all elements are true; so it is of none."""
    given = counting("all", truth("all", tensor("all", x)), where, True)
    return reduce(ops.reduce_and, given, axes_of("all", axis, given), keepdims)


@remembered
def any(x: Tensor, /, axis: Axis = None, *, keepdims: bool = False, where: Tensor | None = None) -> Tensor:
    """Whether any element is true."""
    given = counting("any", truth("any", tensor("any", x)), where, False)
    return reduce(ops.reduce_or, given, axes_of("any", axis, given), keepdims)


@remembered
def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along an axis, `n` times."""
    given = tensor("diff", x)
    if n < 0:
        raise ShapeError.of("diff", f"cannot take differences {n} times")
    place = axis_of("diff", axis, given.ndim, given.shape)
    single = [1 if at == place else size for at, size in enumerate(given.shape)]
    ends = [None if one is None else tensor("diff", one) for one in (prepend, append)]
    before, after = (broadcast(end, single) if end is not None and end.ndim == 0 else end for end in ends)
    parts = [part for part in (before, given, after) if part is not None]
    line = concat(parts, axis=place) if len(parts) > 1 else given.snapshot()
    for _ in range(n):
        size = line.shape[place]
        if size == 0:
            break
        later, sooner = section(line, place, 1, size), section(line, place, 0, size - 1)
        line = not_equal(later, sooner) if line.dtype.is_bool else subtract(numeric("diff", later), sooner)
    return line


def allclose(
    x1: Operand, x2: Operand, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether all elements are close to each other, as `isclose` says."""
    return all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


def array_equal(x1: Tensor, x2: Tensor, /, equal_nan: bool = False) -> Tensor:
    """Whether shapes and elements are the same; NaN is like NaN with `equal_nan`."""
    left, right = tensor("array_equal", x1), tensor("array_equal", x2)
    if left.shape != right.shape:
        return constant(False, dtypes.bool_)
    same = equal(left, right)
    return all(logical_or(same, logical_and(isnan(left), isnan(right))) if equal_nan else same)


__all__ = [
    "all", "allclose", "any", "array_equal", "diff",
]  # fmt: skip
