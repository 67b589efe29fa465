"""Conversions: a round trip collapses only where it keeps the value, by dtype or by bounds.

A conversion goes by the value, with one exception to mind: a float beyond an integer's range saturates where an
integer wraps, so `int -> float -> int` is not `int -> int` unless the value fits.
"""

from __future__ import annotations

from typing import Final, cast

from planish.dtypes import DType, value_preserving
from planish.uop.matcher import Matcher, rule
from planish.uop.node import UOp
from planish.uop.ops import COMPARISONS, CONSTANTS, Ops
from planish.uop.pattern import BOOL, FLOAT, INTEGERS, INTEGRAL, node, where
from planish.uop.symbolic.letters import c, known, p, x, y


def holds(dtype: DType, x: UOp) -> bool:
    """Whether every value that x can take is exactly a value of the dtype."""
    if value_preserving(x.dtype, dtype):
        return True
    if not x.dtype.is_integral:
        return False
    low, high = x._interval()
    scalar = dtype.scalar
    if scalar.is_index:
        return True
    if scalar.is_int:
        return scalar.wrap(low) == low and scalar.wrap(high) == high
    if scalar.is_float:
        # All integers up to 2**precision are exact, and the ends say whether the interval stays below.
        limit = exact_integers(scalar)
        return -limit <= low and high <= limit
    return False


def exact_integers(dtype: DType) -> int:
    """2**n such that every integer of magnitude up to it is a value of the float type."""
    limit = 1
    while (
        limit < 1 << 64
        and dtype.const(2 * limit - 1) == 2 * limit - 1
        and dtype.const(2 * limit) == 2 * limit
    ):
        limit *= 2
    return limit


def _convert(x: UOp, dtype: DType) -> UOp:
    return x if x.dtype is dtype else x.table.make(Ops.CAST, dtype, (x,))


def _through_wider(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(cast(x, wider), T), the middle type y holding all that x can be."""
    outer, middle = root.dtype.scalar, y.dtype.scalar
    if middle.is_complex and not outer.is_complex and not outer.is_bool:
        return None
    if not holds(y.dtype, x):
        return None
    if middle.is_float and outer.is_int and not x.dtype.is_float and not holds(root.dtype, x):
        return None
    return _convert(x, root.dtype)


def _through_narrower(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """Of integers that only get narrower, the last one decides: wrapping twice is wrapping once."""
    outer, middle = root.dtype, y.dtype
    if not (x.dtype.is_integral and middle.is_int and outer.is_int and outer.bits <= middle.bits):
        return None
    return _convert(x, outer)


def _as_cast(root: UOp, x: UOp) -> UOp | None:
    """Integers of one width differ in sign only, which is what a wrapping conversion changes."""
    same = x.dtype.is_int and root.dtype.is_int and x.dtype.bits == root.dtype.bits
    return _convert(x, root.dtype) if same and x.dtype.lanes == root.dtype.lanes else None


def _compare_inside(root: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(x) ? cast(y), both from one type and unchanged by the conversion: compare before it."""
    target = root.src[0].dtype
    if x.dtype is not y.dtype or not (holds(target, x) and holds(target, y)):
        return None
    return root.replace(src=(x, y))


def _constant_inside(x: UOp, c: UOp, target: DType) -> UOp | None:
    """The constant in the type of x, if x is unchanged by the conversion to `target` and has such a value."""
    value = c.arg
    if not holds(target, x) or isinstance(value, complex):
        return None
    if isinstance(value, float) and not (value.is_integer() or x.dtype.is_float):
        return None
    number = cast("int", value) if x.dtype.is_float else int(cast("int", value))
    scalar = x.dtype.scalar
    if (scalar.is_int and scalar.wrap(number) != number) or (scalar.is_bool and number not in {0, 1}):
        return None
    if scalar.is_float and scalar.const(number) != number:
        return None
    return x.const_like(number)


def _compare_with_constant(root: UOp, x: UOp, c: UOp) -> UOp | None:
    inside = _constant_inside(x, c, root.src[0].dtype)
    return None if inside is None else root.replace(src=(x, inside))


def _compare_constant_with(root: UOp, x: UOp, c: UOp) -> UOp | None:
    inside = _constant_inside(x, c, root.src[1].dtype)
    return None if inside is None else root.replace(src=(inside, x))


def _into_select(root: UOp, p: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(p ? x : y), if one branch is a constant: that one converts now."""
    if Ops.INVALID in (x.op, y.op) or not (x.op in CONSTANTS and y.op in CONSTANTS):
        return None
    return p.where(_convert(x, root.dtype), _convert(y, root.dtype))


def _out_of_select(root: UOp, p: UOp, x: UOp, y: UOp) -> UOp | None:
    """p ? cast(x) : cast(y), from one type: one conversion instead of two."""
    return _convert(p.where(x, y), root.dtype) if x.dtype is y.dtype else None


casts: Final = Matcher(
    "casts",
    [
        rule(node(Ops.CAST, x), x, when=lambda root, x: x.dtype is root.dtype, says="cast(x: T, T) -> x"),
        rule(
            node(Ops.CAST, node(Ops.CAST, x, name="y")), _through_wider,
            says="cast(cast(x, wider), T) -> cast(x, T)",
        ),
        rule(
            node(Ops.CAST, node(Ops.CAST, x, name="y")), _through_narrower, on=INTEGERS,
            says="cast(cast(x, narrow), narrower) -> cast(x, narrower)",
        ),
        rule(
            node(Ops.CAST, x), x.ne(0), when=lambda x: x.dtype.kind in INTEGRAL | FLOAT, on=BOOL,
            says="bool(x) -> x != 0",
        ),
        rule(
            node(Ops.CAST, node(Ops.TRUNC, x)), lambda root, x: _convert(x, root.dtype), on=INTEGERS,
            says="int(trunc(x)) -> int(x)",
        ),
        # -- comparisons ------------------------------------------------------------------------------------------
        rule(
            node(COMPARISONS, node(Ops.CAST, x), node(Ops.CAST, y)), _compare_inside,
            says="cast(x) ? cast(y) -> x ? y, values kept",
        ),
        rule(
            node(COMPARISONS, node(Ops.CAST, x), c), _compare_with_constant,
            says="cast(x) ? c -> x ? c, values kept",
        ),
        rule(
            node((Ops.CMPLT, Ops.CMPLE), c, node(Ops.CAST, x)), _compare_constant_with,
            says="c ? cast(x) -> c ? x, values kept",
        ),
        # -- selects ----------------------------------------------------------------------------------------------
        rule(
            node(Ops.CAST, where(p, known("x"), known("y"))), _into_select,
            says="cast(where(p, a, b)) -> where(p, cast(a), cast(b))",
        ),
        rule(
            where(p, node(Ops.CAST, x), node(Ops.CAST, y)), _out_of_select,
            says="where(p, cast(x), cast(y)) -> cast(where(p, x, y))",
        ),
        # -- bits -------------------------------------------------------------------------------------------------
        rule(node(Ops.BITCAST, x), x, when=lambda root, x: x.dtype is root.dtype, says="bitcast(x: T, T) -> x"),
        rule(
            node(Ops.BITCAST, node(Ops.BITCAST, x)), lambda root, x: root.replace(src=(x,)),
            says="bitcast(bitcast(x)) -> bitcast(x)",
        ),
        rule(node(Ops.BITCAST, x), _as_cast, on=INTEGERS, says="bitcast(int) -> cast(int), of one width"),
    ],
)  # fmt: skip
