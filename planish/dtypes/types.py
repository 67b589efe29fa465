"""The types themselves: scalars, vectors and pointers, each one object; and how they are found by text and by NumPy type."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable
from typing import Final, NoReturn
from weakref import WeakValueDictionary

import ml_dtypes
import numpy as np

from planish.dtypes.constants import CONSTANTS, NUMBERS
from planish.dtypes.float_formats import (
    BFLOAT16,
    BINARY16,
    BINARY32,
    BINARY64,
    E4M3FN,
    E5M2,
    TENSOR32,
    FloatFormat,
)
from planish.dtypes.kinds import AddrSpace, Kind, Scalar
from planish.errors import DTypeError, did_you_mean

TWO_MEANINGS: Final = frozenset({"i4", "i8", "u4", "u8"})
"""Codes of NumPy, which counts bytes, that name other types where bits are counted: in the texts of planish."""


class DType:
    """An element type. Take them from this module's names, `vec`, `ptr` or `parse`; never construct one."""

    # fmt: off
    __slots__ = (
        "_const", "_format", "_numpy", "bits", "is_bool", "is_complex", "is_float", "is_index", "is_int", "is_integral", "is_pointer",
        "is_signed", "is_unsigned", "itemsize", "kind", "lanes", "max", "min", "name", "scalar", "short",
    )
    # fmt: on

    name: str
    short: str
    kind: Kind
    bits: int
    itemsize: int
    lanes: int
    scalar: DType
    is_float: bool
    is_int: bool
    is_signed: bool
    is_unsigned: bool
    is_bool: bool
    is_complex: bool
    is_index: bool
    is_integral: bool
    is_pointer: bool
    # The least and greatest value. Floats: ±inf, or the largest finite value of a format without infinity,
    # so that `const(t.min) == t.min` and both serve as identities of max and min.
    min: int | float | None
    max: int | float | None
    _const: Callable[[DType, object], Scalar]
    _format: FloatFormat | None
    _numpy: np.dtype[np.generic] | None

    def __init__(
        self,
        name: str,
        short: str,
        kind: Kind,
        bits: int,
        itemsize: int,
        *,
        float_format: FloatFormat | None = None,
        numpy: np.dtype[np.generic] | None = None,
        pointer: bool = False,
        scalar: DType | None = None,
        lanes: int = 1,
    ) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "short", short)
        put(self, "kind", kind)
        put(self, "bits", bits)
        put(self, "itemsize", itemsize)
        put(self, "lanes", lanes)
        put(self, "scalar", self if scalar is None else scalar)
        put(self, "is_float", kind is Kind.FLOAT)
        put(self, "is_int", kind is Kind.INT or kind is Kind.UINT)
        put(self, "is_signed", kind is Kind.INT)
        put(self, "is_unsigned", kind is Kind.UINT)
        put(self, "is_bool", kind is Kind.BOOL)
        put(self, "is_complex", kind is Kind.COMPLEX)
        put(self, "is_index", kind is Kind.INDEX)
        put(self, "is_integral", kind in (Kind.INT, Kind.UINT, Kind.INDEX))
        put(self, "is_pointer", pointer)
        low, high = _bounds(kind, bits, float_format)
        put(self, "min", low)
        put(self, "max", high)
        put(self, "_const", CONSTANTS[kind])
        put(self, "_format", float_format)
        put(self, "_numpy", numpy)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"dtype {self.short} is immutable; attribute {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"dtype {self.short} is immutable; attribute {name!r} cannot be deleted")

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        if self.is_pointer or self.lanes > 1:
            return f"dtypes.parse({self.short!r})"
        return "dtypes.bool_" if self.is_bool else f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return parse, (self.short,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> DType:
        return self

    def __eq__(self, other: object) -> bool:
        """There is one object of each dtype; a name, or NumPy's dtype, is equal to the one it means."""
        if self is other:
            return True
        if isinstance(other, str):
            return other == self.name or (other == self._code and other not in TWO_MEANINGS)
        if type(other).__module__ == "torch":
            return str(other) == f"torch.{self.name}"
        if isinstance(other, np.dtype) or (isinstance(other, type) and issubclass(other, np.generic)):
            return self._numpy is not None and self._numpy == other
        return NotImplemented

    __hash__ = object.__hash__

    @property
    def _code(self) -> str | None:
        """NumPy's code: `f4` is float32."""
        return None if self._numpy is None else self._numpy.str[1:]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """What NumPy asks an object for in `np.dtype(x)` and `np.zeros(3, dtype=x)`."""
        return self.numpy

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of one lane (from ml_dtypes where NumPy has none)."""
        if self._numpy is None:
            raise DTypeError(
                f"dtype {self.short} has no NumPy counterpart",
                remedy="arrays hold bool, integer, float or complex elements",
            )
        return self._numpy

    def vec(self, n: int) -> DType:
        """The vector of `n` lanes of this scalar; `vec(1)` is the scalar itself."""
        if type(n) is not int or n < 1:
            raise DTypeError(f"cannot make {n!r} lanes of {self.short}", remedy="use a positive integer")
        if n == 1:
            return self
        known = _VECTORS.get((self, n))
        return known if known is not None else _VECTORS.setdefault((self, n), self._make_vec(n))

    def _make_vec(self, n: int) -> DType:
        self._check_can_be_vector()
        return DType(
            f"{self.name}x{n}",
            f"{self.short}x{n}",
            self.kind,
            self.bits,
            self.itemsize,
            float_format=self._format,
            numpy=self._numpy,
            scalar=self,
            lanes=n,
        )

    def _check_can_be_vector(self) -> None:
        if self.lanes > 1:
            raise DTypeError(
                f"dtype {self.short} already has {self.lanes} lanes", remedy="use .scalar.vec(n)"
            )
        if self.kind is Kind.VOID and not self.is_pointer:
            raise DTypeError("void has no vectors")

    def ptr(self, size: int, space: AddrSpace = AddrSpace.GLOBAL) -> PtrDType:
        """The pointer to `size` elements of this type in an address space; -1 is an unknown size."""
        if type(size) is not int or size < -1:
            raise DTypeError(
                f"cannot point to {size!r} elements of {self.short}",
                remedy="use a size >= 0, or -1 for unknown",
            )
        key = (self, size, space)
        known = _POINTERS.get(key)
        if known is None:
            pointer = PtrDType(self, size, space)
            with _POINTERS_LOCK:
                known = _POINTERS.setdefault(key, pointer)
        return known

    def const(self, value: Scalar | np.generic) -> Scalar:
        """The canonical constant of this type for `value`: a bool, int, float or complex it holds exactly.

        Floats are rounded to the format (ties to even; overflow to inf, float8_e4m3fn to NaN). Everything
        else must fit exactly, or it is a DTypeError. NumPy scalars are taken by their value. A vector's
        constant is that of its lanes.
        """
        return self._const(self, value)

    def wrap(self, value: int) -> int:
        """`value` reduced modulo 2**bits into the type's range; index values are unbounded and stay."""
        if self.is_signed:
            half = 1 << (self.bits - 1)
            return ((value + half) & ((1 << self.bits) - 1)) - half
        if self.is_unsigned:
            return value & ((1 << self.bits) - 1)
        if self.is_index:
            return value
        if self.is_bool:
            return value & 1 == 1
        raise DTypeError(f"dtype {self.short} does not wrap", remedy="only integers, bool and index do")


class PtrDType(DType):
    """A pointer to elements of `base`; printed `*f32[100]`, `*local f32[16]`, `*reg f32[4]`, `*f32[?]`."""

    __slots__ = ("__weakref__", "base", "size", "space")

    base: DType
    size: int
    space: AddrSpace

    def __init__(
        self, base: DType, size: int, space: AddrSpace, *, scalar: PtrDType | None = None, lanes: int = 1
    ) -> None:
        if base.is_pointer or base.kind in (Kind.VOID, Kind.INDEX):
            raise DTypeError(f"cannot point to {base.short}", remedy="only types that live in memory can be")
        put = object.__setattr__
        put(self, "base", base)
        put(self, "size", size)
        put(self, "space", space)
        where = "" if space is AddrSpace.GLOBAL else f"{space.value} "
        tail = f"[{'?' if size < 0 else size}]" + (f"x{lanes}" if lanes > 1 else "")
        super().__init__(
            f"*{where}{base.name}{tail}",
            f"*{where}{base.short}{tail}",
            Kind.VOID,
            bits=64,
            itemsize=8,
            pointer=True,
            scalar=scalar,
            lanes=lanes,
        )

    def _make_vec(self, n: int) -> DType:
        self._check_can_be_vector()
        return PtrDType(self.base, self.size, self.space, scalar=self, lanes=n)


def _bounds(
    kind: Kind, bits: int, float_format: FloatFormat | None
) -> tuple[int | float | None, int | float | None]:
    if kind is Kind.BOOL:
        return 0, 1
    if kind is Kind.UINT:
        return 0, (1 << bits) - 1
    if kind is Kind.INT:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if kind is Kind.FLOAT and float_format is not None:
        high = math.inf if float_format.has_infinity else float_format.largest
        return -high, high
    return None, None


_VECTORS: dict[tuple[DType, int], DType] = {}
# A process may see any number of sizes: a pointer type lives while somebody has it.
_POINTERS: WeakValueDictionary[tuple[DType, int, AddrSpace], PtrDType] = WeakValueDictionary()
_POINTERS_LOCK: Final = threading.Lock()


def _number(
    short: str, kind: Kind, bits: int, numpy: type[np.generic], float_format: FloatFormat | None = None
) -> DType:
    given = np.dtype(numpy)
    return DType(given.name, short, kind, bits, given.itemsize, float_format=float_format, numpy=given)


void = DType("void", "void", Kind.VOID, 0, 0)
index = DType("index", "index", Kind.INDEX, 0, 0)
bool_ = _number("bool", Kind.BOOL, 1, np.bool_)
int4 = _number("i4", Kind.INT, 4, ml_dtypes.int4)
int8 = _number("i8", Kind.INT, 8, np.int8)
int16 = _number("i16", Kind.INT, 16, np.int16)
int32 = _number("i32", Kind.INT, 32, np.int32)
int64 = _number("i64", Kind.INT, 64, np.int64)
uint4 = _number("u4", Kind.UINT, 4, ml_dtypes.uint4)
uint8 = _number("u8", Kind.UINT, 8, np.uint8)
uint16 = _number("u16", Kind.UINT, 16, np.uint16)
uint32 = _number("u32", Kind.UINT, 32, np.uint32)
uint64 = _number("u64", Kind.UINT, 64, np.uint64)
float8_e4m3fn = _number("f8e4m3fn", Kind.FLOAT, 8, ml_dtypes.float8_e4m3fn, E4M3FN)
float8_e5m2 = _number("f8e5m2", Kind.FLOAT, 8, ml_dtypes.float8_e5m2, E5M2)
float16 = _number("f16", Kind.FLOAT, 16, np.float16, BINARY16)
bfloat16 = _number("bf16", Kind.FLOAT, 16, ml_dtypes.bfloat16, BFLOAT16)
float32 = _number("f32", Kind.FLOAT, 32, np.float32, BINARY32)
float64 = _number("f64", Kind.FLOAT, 64, np.float64, BINARY64)
complex64 = _number("c64", Kind.COMPLEX, 64, np.complex64, BINARY32)
complex128 = _number("c128", Kind.COMPLEX, 128, np.complex128, BINARY64)

# The range of float32 with the mantissa of float16, in four bytes as float32 has them: what tensor cores multiply. Values are only
# rounded to it, moved and contracted, so it is none of the types that numbers are promoted to; NumPy holds it as float32.
tfloat32 = DType("tfloat32", "tf32", Kind.FLOAT, 19, 4, float_format=TENSOR32, numpy=np.dtype(np.float32))

SIGNED: tuple[DType, ...] = (int4, int8, int16, int32, int64)
UNSIGNED: tuple[DType, ...] = (uint4, uint8, uint16, uint32, uint64)
# Narrow to wide; float16 stands before bfloat16 because it is the one that holds both float8 formats'
# values with room to spare in the mantissa.
FLOATS: tuple[DType, ...] = (float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64)
COMPLEXES: tuple[DType, ...] = (complex64, complex128)
ALL: tuple[DType, ...] = (void, index, bool_, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEXES)

# The types of Python numbers that meet no typed operand.
DEFAULT_INT = int64
DEFAULT_FLOAT = float32
DEFAULT_COMPLEX = complex64

_BY_NAME: dict[str, DType] = {text: dtype for dtype in (*ALL, tfloat32) for text in (dtype.name, dtype.short)}
_BY_NUMPY: dict[np.dtype[np.generic], DType] = {
    t.numpy: t for t in ALL if t.kind not in (Kind.VOID, Kind.INDEX)
}
NUMBERS.update({numpy: t.kind for numpy, t in _BY_NUMPY.items()})
# No memory has more elements, no vector more lanes, than so many digits can say.
_POINTER_FORM = re.compile(
    r"\*(?:(global|local|reg)\s+)?(\w+)\[(\d{1,40}|\?)\](?:x([1-9]\d{0,17}))?", re.ASCII
)
_LANES_FORM = re.compile(r"(\w+?)x([1-9]\d{0,17})", re.ASCII)


def parse(text: str) -> DType:
    """The type printed as `text`: a name or short name, `f32x4` for lanes, `*local f32[16]` for pointers."""
    known = _BY_NAME.get(text)
    if known is not None:
        return known
    if not isinstance(text, str):
        raise DTypeError(
            f"a dtype is parsed from text, not from {text!r}", remedy="use from_numpy for NumPy types"
        )
    pointer = _POINTER_FORM.fullmatch(text.strip())
    if pointer is not None:
        space, base, size, lanes = pointer.groups()
        to = parse(base).ptr(-1 if size == "?" else int(size), AddrSpace(space or "global"))
        return to.vec(int(lanes or 1))
    form = _LANES_FORM.fullmatch(text.strip())
    name, lanes = form.groups() if form is not None else (text.strip(), "1")
    known = _BY_NAME.get(name)
    if known is None:
        close = did_you_mean(name, _BY_NAME)
        hint = "" if close is None else f"did you mean {close!r}? "
        shorts = ", ".join(dtype.short for dtype in ALL)
        raise DTypeError(
            f"unknown dtype {text!r}",
            remedy=f"{hint}valid: {shorts}, or their long names, with lanes as in f32x4 or as a pointer as in *f32[16]",
        )
    return known.vec(int(lanes))


def from_numpy(numpy: np.dtype[np.generic] | type) -> DType:
    """The type of a NumPy (or ml_dtypes) dtype or scalar class; Python's number types as NumPy reads them."""
    given: np.dtype[np.generic] = np.dtype(numpy)
    known = _BY_NUMPY.get(given)
    if known is not None:
        return known
    if _BY_NUMPY.get(given.newbyteorder("=")) is not None:
        raise DTypeError(
            f"NumPy dtype {given.str} has foreign byte order",
            remedy='convert the array with array.astype(array.dtype.newbyteorder("="))',
        )
    raise DTypeError(
        f"NumPy dtype {given.name} has no planish counterpart",
        remedy=f"convert the array to one of {', '.join(t.name for t in _BY_NUMPY.values())}",
    )
