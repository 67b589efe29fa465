"""Tensor literals: the data of a constant, as an immutable value.

Two literals are equal when they have the same dtype, shape and *bits*: `-0.0` differs from `0.0`, and a
NaN equals the same NaN. Data whose elements are all alike is kept as one element (a *splat*) whatever its
shape, so that a million ones cost as much as a single one; every constructor finds that form, so equal
contents have one representation.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.ptir.types import TensorType

Array: TypeAlias = NDArray[Any]
Scalar: TypeAlias = bool | int | float | complex


class Literal:
    """Read-only tensor data with value semantics."""

    __slots__ = ("_data", "_hash", "_item", "dtype", "shape", "splat")

    dtype: DType
    shape: tuple[int, ...]
    splat: bool
    """Whether `data` is the one element that all positions hold."""

    def __init__(self, array: Array, *, dtype: DType | None = None) -> None:
        """Take over `array`; it is copied only if someone else could still write to it."""
        self.dtype = dtypes.from_numpy(array.dtype) if dtype is None else dtype
        self.shape = array.shape
        if array.dtype != self.dtype.numpy:
            raise DTypeError(f"a {self.dtype.name} literal cannot hold an array of {array.dtype}")
        self.splat = _is_uniform(array)
        if self.splat:
            data = array.reshape(-1)[:1].reshape(()).copy()
        elif array.flags.writeable or array.base is not None or not array.flags.c_contiguous:
            data = np.array(array, order="C", copy=True)
        else:
            data = array
        data.flags.writeable = False
        self._data: Array | None = data
        self._hash: int | None = None
        self._item: Scalar | None = None

    @staticmethod
    def full(dtype: DType, shape: tuple[int, ...], value: Scalar) -> Literal:
        """Every element is `value`, which must be representable (floats are rounded)."""
        literal = Literal(np.array(dtype.const(value), dtype=dtype.numpy), dtype=dtype)
        return literal if not shape else literal.with_shape(shape)

    @staticmethod
    def of_item(dtype: DType, shape: tuple[int, ...], item: Scalar) -> Literal:
        """Like `full` for a value known to be exact in `dtype`: no checks and no array until one is needed."""
        if 0 in shape:
            return Literal(np.empty(shape, dtype.numpy), dtype=dtype)
        literal = Literal.__new__(Literal)
        literal.dtype = dtype
        literal.shape = shape
        literal.splat = True
        literal._data = None
        literal._hash = None
        literal._item = item
        return literal

    def with_shape(self, shape: tuple[int, ...]) -> Literal:
        """The same data under another shape; a splat may also change its size."""
        if 0 in shape:
            return Literal(np.empty(shape, self.dtype.numpy), dtype=self.dtype)
        if not self.splat and math.prod(shape) != self.data.size:
            raise ShapeError(f"{self.data.size} elements cannot take shape {shape}")
        literal = Literal.__new__(Literal)
        literal.dtype = self.dtype
        literal.shape = shape
        literal.splat = self.splat
        literal._data = self._data if self._data is None or self.splat else self._data.reshape(shape)
        literal._hash = None
        literal._item = self._item
        return literal

    @property
    def data(self) -> Array:
        """The elements, read-only; zero-dimensional for a splat."""
        if self._data is None:
            self._data = np.array(self._item, dtype=self.dtype.numpy)
            self._data.flags.writeable = False
        return self._data

    @property
    def type(self) -> TensorType:
        return TensorType(self.dtype, self.shape)

    @property
    def size(self) -> int:
        """The number of elements meant (not the number stored)."""
        total = 1
        for dim in self.shape:
            total *= dim
        return total

    @property
    def nbytes(self) -> int:
        """The bytes this literal really holds."""
        return self.data.nbytes

    def array(self) -> Array:
        """All elements, read-only, without copying: a splat comes as a view with zero strides."""
        return np.broadcast_to(self.data, self.shape) if self.splat else self.data

    @property
    def item(self) -> Scalar | None:
        """The Python value of a splat's element; None where elements differ."""
        item = self._item
        if item is not None:
            return item
        if self.splat:
            value = self.data.item()
            # ml_dtypes scalars answer item() with themselves or with a float, depending on the type.
            kind = self.dtype
            self._item = (
                value
                if isinstance(value, (bool, int, float, complex))
                else int(value)
                if kind.is_int
                else float(value)
            )
        return self._item

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if (
            not isinstance(other, Literal)
            or self.dtype is not other.dtype
            or self.shape != other.shape
            or self.splat is not other.splat
        ):
            return False
        if self.splat:
            # Integers and bools have one bit pattern per value; floats do not (NaN, signed zero).
            if self.dtype.is_int or self.dtype.is_bool:
                return self.item == other.item
            return self.data.tobytes() == other.data.tobytes()
        return hash(self) == hash(other) and bool(np.array_equal(_bits(self.data), _bits(other.data)))

    def __hash__(self) -> int:
        if self._hash is None:
            by_item = self.splat and (self.dtype.is_int or self.dtype.is_bool)
            self._hash = hash((self.dtype, self.shape, self.item if by_item else self.data.tobytes()))
        return self._hash

    def __repr__(self) -> str:
        body = f"splat {self.item!r}" if self.splat else np.array2string(self.data, threshold=8)
        return f"Literal({self.type}, {body})"

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _rebuild, (self.dtype, self.shape, self.data, self.splat)


def _rebuild(dtype: DType, shape: tuple[int, ...], data: Array, splat: bool) -> Literal:
    literal = Literal(data, dtype=dtype)
    return literal.with_shape(shape) if splat else literal


def _bits(array: Array) -> NDArray[np.uint8]:
    return np.frombuffer(array, dtype=np.uint8) if array.size else np.empty(0, np.uint8)


_PROBE: Final = 16


def _is_uniform(array: Array) -> bool:
    """Whether all elements have the same bits; nearly always answered by a few of them."""
    size = array.size
    if size <= 1:
        return size == 1
    flat = array.reshape(-1)
    first = flat[:1].tobytes()
    if flat[-1:].tobytes() != first or flat[size // 2 : size // 2 + 1].tobytes() != first:
        return False
    raw = np.ascontiguousarray(flat).view(np.uint8).reshape(size, -1)
    return bool((raw[:_PROBE] == raw[0]).all()) and bool((raw == raw[0]).all())
