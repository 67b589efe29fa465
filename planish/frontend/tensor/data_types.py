"""Data type functions: what dtypes are, what they hold, and what becomes of two that meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planish import dtypes
from planish.dtypes import DType, Kind
from planish.errors import DTypeError, Location
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.operands import DTypeLike, as_dtype, cast_to, tensor
from planish.frontend.tensor.transfer import to_device
from planish.frontend.tensor.weak import WeakTensor
from planish.records import dataclass

KindName = str | DType
_KINDS: Final[dict[str, Callable[[DType], bool]]] = {
    "bool": lambda dtype: dtype.is_bool,
    "signed integer": lambda dtype: dtype.is_int and dtype.is_signed,
    "unsigned integer": lambda dtype: dtype.kind is Kind.UINT,
    "integral": lambda dtype: dtype.is_int,
    "real floating": lambda dtype: dtype.is_float,
    "complex floating": lambda dtype: dtype.is_complex,
    "numeric": lambda dtype: dtype.is_int or dtype.is_float or dtype.is_complex,
}


@dataclass(frozen=True, slots=True)
class _Limits:
    """What the numbers of a dtype lie between."""

    dtype: DType
    bits: int
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class FInfo(_Limits):
    """Limits of a float dtype, or of the parts of a complex one."""

    eps: float
    """The distance from 1 to the next number."""
    smallest_normal: float


@dataclass(frozen=True, slots=True)
class IInfo(_Limits):
    """Limits of an integer dtype."""

    min: int
    max: int


def _dtype_of(given: DTypeLike | Tensor) -> DType:
    return given.dtype if isinstance(given, Tensor) else as_dtype(given)


def astype(x: Tensor, dtype: DTypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The elements converted: floats toward zero and into the range of integers, integers wrap."""
    given, wanted = x if isinstance(x, WeakTensor) else tensor("astype", x), as_dtype(dtype)
    if given.dtype.is_complex and not (wanted.is_complex or wanted.is_bool):
        raise DTypeError.of(
            "astype",
            f"{given.dtype.name} cannot become {wanted.name}",
            "say which part is meant: planish.real(x) or planish.imag(x)",
        )
    result = cast_to(given, wanted)
    if result is given:
        result = given.snapshot() if copy or not isinstance(x, Tensor) else x
    return result if device is None else to_device(result, device)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool:
    """Whether promotion can lead from one dtype to the other."""
    source, target = _dtype_of(from_), as_dtype(to)
    try:
        return dtypes.promote(source, target) is target
    except DTypeError:
        return False


def finfo(type: DTypeLike | Tensor, /) -> FInfo:
    """The limits of a float or complex dtype."""
    dtype = _dtype_of(type)
    if not (dtype.is_float or dtype.is_complex):
        raise DTypeError.of("finfo", f"{dtype.name} is not a float dtype", "iinfo is for integers")
    form = dtypes.float_format(dtype)
    part = dtypes.parse(f"f{dtype.bits // 2}") if dtype.is_complex else dtype
    return FInfo(part, part.bits, -form.largest, form.largest, form.eps, form.smallest_normal)


def iinfo(type: DTypeLike | Tensor, /) -> IInfo:
    """The limits of an integer dtype."""
    dtype = _dtype_of(type)
    if not dtype.is_int or dtype.min is None or dtype.max is None:
        raise DTypeError.of("iinfo", f"{dtype.name} is not an integer dtype", "finfo is for floats")
    return IInfo(dtype, dtype.bits, int(dtype.min), int(dtype.max))


def isdtype(dtype: DTypeLike, kind: KindName | tuple[KindName, ...]) -> bool:
    """Whether a dtype is of a kind, or of one of several."""
    given = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(given, one) for one in kind)
    if isinstance(kind, str):
        test = _KINDS.get(kind)
        if test is None:
            raise DTypeError.of("isdtype", f"there is no kind {kind!r}", f"one of {', '.join(_KINDS)}")
        return test(given)
    return given is as_dtype(kind)


def result_type(*arrays_and_dtypes: Tensor | DTypeLike | Scalar) -> DType:
    """The dtype that values of several are computed in; Python numbers take what they meet."""
    given: list[DType | Scalar] = []
    for one in arrays_and_dtypes:
        if isinstance(one, Tensor):
            given.append(one.dtype)
        elif isinstance(one, bool | int | float | complex):
            given.append(one)
        else:
            given.append(as_dtype(one))
    try:
        return dtypes.result_type(*given) if given else dtypes.promote()
    except DTypeError as error:
        error.location = error.location or Location.caller()
        raise


__all__ = [
    "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip
