"""Promotion: the type that values of several are computed in, and whether one type holds all values of another."""

from __future__ import annotations

from functools import lru_cache
from typing import NoReturn

from planish.dtypes.constants import float_format
from planish.dtypes.kinds import Kind, Scalar
from planish.dtypes.types import (
    COMPLEXES,
    DEFAULT_COMPLEX,
    DEFAULT_FLOAT,
    DEFAULT_INT,
    FLOATS,
    SIGNED,
    UNSIGNED,
    DType,
    bool_,
)
from planish.errors import DTypeError


def promote(*dtypes: DType, strict: bool = False) -> DType:
    """The narrowest type that values of all `dtypes` are computed in; the order of arguments never matters.

    With `strict` only the combinations the Array API standard defines are accepted. Otherwise bool goes with
    every number, and an integer with a float takes that float. uint64 with a signed integer is always an error.
    """
    return _promote(dtypes, strict)


@lru_cache(maxsize=1024)
def _promote(dtypes: tuple[DType, ...], strict: bool) -> DType:
    if not dtypes:
        raise DTypeError("nothing to promote", remedy="give at least one dtype")
    first = dtypes[0]
    if all(dtype is first for dtype in dtypes):
        return first
    if any(dtype.lanes != first.lanes for dtype in dtypes):
        _cannot_promote(dtypes, "give both the same number of lanes")
    if first.lanes > 1 and not first.is_pointer:
        return promote(*(dtype.scalar for dtype in dtypes), strict=strict).vec(first.lanes)
    if any(dtype.kind in (Kind.VOID, Kind.INDEX) for dtype in dtypes):
        _cannot_promote(dtypes, "void, pointers and index go only with themselves: cast explicitly")
    inexact = [dtype for dtype in dtypes if dtype.is_float or dtype.is_complex]
    bools = [dtype for dtype in dtypes if dtype.is_bool]
    if strict and (len(bools) > 0 or 0 < len(inexact) < len(dtypes)):
        _cannot_promote(dtypes, "the Array API standard leaves mixed kinds undefined: cast explicitly")
    if inexact:
        return _join_floats(inexact)
    return _join_integers(dtypes)


def _join_floats(dtypes: list[DType]) -> DType:
    # Over the whole set, not pair by pair: two float8 formats have two least upper bounds (float16 and
    # bfloat16), so a fold over pairs would depend on the order.
    formats = [float_format(dtype) for dtype in dtypes]
    family = COMPLEXES if any(dtype.is_complex for dtype in dtypes) else FLOATS
    return next(t for t in family if all(float_format(t).contains(each) for each in formats))


def _join_integers(dtypes: tuple[DType, ...]) -> DType:
    signed = any(dtype.is_signed for dtype in dtypes)
    for candidate in SIGNED if signed else UNSIGNED:
        if all(value_preserving(dtype, candidate) for dtype in dtypes):
            return candidate
    return _cannot_promote(dtypes, "no integer type holds both: cast explicitly, e.g. to int64 or float64")


def _cannot_promote(dtypes: tuple[DType, ...], remedy: str) -> NoReturn:
    names = " with ".join(dict.fromkeys(dtype.short for dtype in dtypes))
    raise DTypeError(f"cannot promote {names}", remedy=remedy)


def result_type(*args: DType | Scalar) -> DType:
    """The promoted type where Python numbers are weak: they take the type of what they meet.

    A number of a higher kind than every typed operand lifts it: an int with bools gives int64, a float with
    integers float32, a complex with real floats the complex type of that precision.
    """
    typed = [arg for arg in args if isinstance(arg, DType)]
    weak = [arg for arg in args if not isinstance(arg, DType)]
    if not weak:
        return promote(*typed)
    rank = max(map(_weak_rank, weak))
    default = _WEAK_DEFAULT[rank]
    if not typed:
        return default
    strong = promote(*typed)
    scalar = strong.scalar
    if scalar.is_index and rank <= 1:
        return strong
    strong_rank = _KIND_RANK.get(scalar.kind)
    if strong_rank is None:
        _cannot_promote(
            (strong, default), "void, pointers and index go only with themselves: cast explicitly"
        )
    if rank <= strong_rank:
        return strong
    if scalar.is_float:
        return _join_floats([scalar, default]).vec(strong.lanes)
    return default.vec(strong.lanes)


def _weak_rank(arg: Scalar) -> int:
    for rank, python in enumerate((bool, int, float, complex)):
        if isinstance(arg, python):
            return rank
    raise DTypeError(f"result_type takes dtypes and Python numbers, not {arg!r}")


_WEAK_DEFAULT: tuple[DType, ...] = (bool_, DEFAULT_INT, DEFAULT_FLOAT, DEFAULT_COMPLEX)
_KIND_RANK: dict[Kind, int] = {Kind.BOOL: 0, Kind.INT: 1, Kind.UINT: 1, Kind.FLOAT: 2, Kind.COMPLEX: 3}


def value_preserving(src: DType, dst: DType) -> bool:
    """Every value of `src` is exactly a value of `dst`, signed zeros and infinities included, NaN as NaN."""
    if src is dst:
        return True
    if src.lanes != dst.lanes or src.kind is Kind.VOID or dst.kind is Kind.VOID:
        return False
    if dst.is_index:
        return src.is_int or src.is_bool
    if src.min is not None and src.max is not None and not src.is_float:
        if dst.is_int and dst.min is not None and dst.max is not None:
            return dst.min <= src.min and src.max <= dst.max
        if dst._format is not None:
            # Both ends survive rounding iff everything between does: the positive end is 2**k - 1.
            return dst._format.round(src.min) == src.min and dst._format.round(src.max) == src.max
        return False
    if src.is_float and (dst.is_float or dst.is_complex):
        return float_format(dst).contains(float_format(src))
    return src.is_complex and dst.is_complex and float_format(dst).contains(float_format(src))
