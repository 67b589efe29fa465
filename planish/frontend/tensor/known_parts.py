"""Elements of data that is there: read and replaced without an op.

`x[3]`, `x[1:]` and `x[mask]` of data are data at once. `x[3] = 1` writes into the memory of the tensor where nobody else can look
at it, else into a copy that is its own from then on: a loop that fills a tensor costs as much per element as there is to
write, not the whole tensor. Whatever else an index may be (and every mistake) is left to `indexing`.
"""

from __future__ import annotations

from types import EllipsisType
from typing import Any, Final, cast

import numpy as np

from planish.errors import PlanishError
from planish.frontend.expression import LazyValue
from planish.frontend.session import current_scope, tensor_type
from planish.frontend.storage import Array, overwritable
from planish.frontend.tensor.array import Index, Tensor

_REGULAR: Final = frozenset({int, slice, EllipsisType, type(None)})
_NUMBERS: Final = frozenset({bool, int, float, complex})
_INTEGERS: Final = {np.dtype(f"{kind}{size}"): np.dtype(f"u{size}") for size in (4, 8) for kind in "iu"}
_APART: Final = 4096
"""Bytes up to which a part is copied: then neither keeps the other's memory, nor from being written to."""
_MASKED: Final = 1 << 16
"""Elements up to which a mask is applied here; more are worth a kernel."""
_MISTAKES: Final = (IndexError, TypeError, ValueError)
_new: Final = object.__new__


def is_regular(key: Index) -> bool:
    """Whether an index is made of integers, slices, `...` and None."""
    kind = key.__class__
    if kind is tuple:
        return _REGULAR.issuperset(map(type, cast("tuple[object, ...]", key)))
    return kind in _REGULAR


def part_of(x: Tensor, key: Index) -> Tensor | None:
    """x[key], of data and a regular index; None if it is neither."""
    value = x._value
    known = value.storage
    if known.__class__ is not np.ndarray or value.type.quant is not None:
        return None
    array = cast("Array", known)
    try:
        part = array[key, ...] if key.__class__ is int else array[cast("Any", key)]
    except _MISTAKES:
        return None
    if part.__class__ is not np.ndarray:
        part = np.asarray(part)
    shared = False
    if part.nbytes <= _APART or not part.flags.c_contiguous:
        part = part.copy()
    else:
        shared = value.shared = True
    return _tensor(value, part, shared)


def masked(x: Tensor, mask: Tensor) -> Tensor | None:
    """x[mask], of data that is not large."""
    value = x._value
    known = value.storage
    if known.__class__ is not np.ndarray or current_scope() is not None or mask.ndim == 0:
        return None
    array = cast("Array", known)
    if array.size > _MASKED or value.type.quant is not None or mask._value.device != value.device:
        return None
    try:
        return _tensor(value, array[mask._elements("x[…]")], False)
    except _MISTAKES:
        return None


def _tensor(like: LazyValue, array: Array, shared: bool) -> Tensor:
    value = LazyValue()
    value.type = tensor_type(like.type.dtype, array.shape)
    value.storage = array
    value.node = None
    value.device = like.device
    value.shared = shared
    result = _new(Tensor)
    result._value = value
    result._scope = current_scope()
    return result


def are_inside(index: Tensor, size: object) -> bool:
    """Whether an index array is known, and names positions of an axis counted from its front."""
    known = index._value.storage
    if known.__class__ is not np.ndarray or not isinstance(size, int):
        return False
    array = cast("Array", known)
    unsigned = _INTEGERS.get(array.dtype)
    if unsigned is None or not array.size:
        return False
    # a negative position is a great one without its sign
    return bool(np.maximum.reduce(array.view(unsigned), axis=None) < size)


def assigned(x: Tensor, key: Index, value: object) -> LazyValue | None:
    """What x is after x[key] = value, where that is written at once; None where it is an expression, or a mistake."""
    old = x._value
    storage = old.storage
    if storage.__class__ is not np.ndarray or old.type.quant is not None or current_scope() is not None:
        return None
    if not is_regular(key):
        return None
    target = cast("Array", storage)
    kind = value.__class__
    item: Any
    if kind in _NUMBERS:
        try:
            item = old.type.dtype.const(cast("float", value))
        except PlanishError:
            return None
    else:
        item = value._value.storage if isinstance(value, Tensor) else value
        if item.__class__ is not np.ndarray or item.dtype != target.dtype:
            return None
        if isinstance(value, Tensor) and value._value.device not in (None, old.device):
            return None
    if old.shared or not overwritable(target):
        target = target.copy()
    try:
        target[cast("Any", key)] = item
    except _MISTAKES:
        return None
    new = LazyValue()
    new.type = old.type
    new.storage = target
    new.node = None
    new.device = old.device
    new.shared = False
    return new
