"""Checks that test files make: each is a bool of the program that ought to be True."""

from __future__ import annotations

from typing import Any

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import Dense


def _all(x: V) -> V:
    return x.reduce_and() if x.rank else x


def _equal(x: V, y: V) -> V:
    """The same, NaNs too."""
    if not x.dtype.is_float and not x.dtype.is_complex:
        return x.eq(y)
    return x.eq(y).or_(x.is_nan().and_(y.is_nan()))


def close(x: V, y: V, tolerance: float) -> V:
    """|x - y| ≤ tolerance, infinities and NaNs the same."""
    if x.dtype.is_complex:
        return close(x.real(), y.real(), tolerance).and_(close(x.imag(), y.imag(), tolerance))
    if not x.dtype.is_float:
        return x.eq(y)
    wide = [cast(v, dtypes.float64) for v in (x, y)]
    # scaled by the magnitude where that is above 1
    bound = wide[1].abs().max(1.0).mul(tolerance)
    return _equal(x, y).or_(wide[0].sub(wide[1]).abs().le(bound))


def checked(at: Site, ok: V) -> None:
    """Remember what is to be True."""
    at.importer.checks.append((at.op, _all(ok)))


def _tolerance(x: V, told: Any) -> float:
    """What is told, else 10⁻⁴, or four steps of a narrow dtype."""
    if told is not None:
        return float(told)
    part = x.dtype if x.dtype.is_float else dtypes.float32
    return max(1e-4, 4 * 2.0 ** (1 - dtypes.float_format(part).precision))


@lowering("check.expect_eq")
def expect_eq(at: Site, x: V, y: V) -> list[V]:
    checked(at, _equal(x, y))
    return []


@lowering("check.expect_eq_const")
def expect_eq_const(at: Site, x: V, *, value: Dense) -> list[V]:
    checked(at, _equal(x, _constant(at, x, value)))
    return []


@lowering("check.expect_almost_eq", "check.expect_close")
def expect_almost_eq(
    at: Site, x: V, y: V, *, tolerance: Any = None, max_ulp_difference: Any = None
) -> list[V]:
    checked(at, close(x, y, _tolerance(x, tolerance)))
    return []


@lowering("check.expect_almost_eq_const")
def expect_almost_eq_const(at: Site, x: V, *, value: Dense, tolerance: Any = None) -> list[V]:
    checked(at, close(x, _constant(at, x, value), _tolerance(x, tolerance)))
    return []


@lowering("interpreter.probe")
def probe(at: Site, x: V, *, probe_id: str = "") -> V:
    """A place to look at: nothing is done there."""
    return x


def _constant(at: Site, x: V, value: Dense) -> V:
    return spread(at.graph.constant(value.full(), x.dtype), x.dims)
