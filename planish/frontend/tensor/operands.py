"""What functions are given, made into what PTIR takes: one dtype, one shape, axes counted from the front.

PTIR neither promotes nor broadcasts; this is where both happen, and where mistakes get their message: the function, the
shapes and dtypes, the user's line, and a remedy.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.dtypes.types import TWO_MEANINGS
from planish.errors import DTypeError, Location, PlanishError, ShapeError
from planish.frontend.devices import placed
from planish.frontend.expression import LazyValue
from planish.frontend.session import tensor_type
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Axis, Scalar, Tensor
from planish.frontend.tensor.weak import WeakTensor
from planish.ptir import ops
from planish.ptir.dim_numbers import use_numbers
from planish.ptir.library.shaping import broadcast_dims
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, DimLike

Operand: TypeAlias = Tensor | Scalar | Array
Shape: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = DimLike | Sequence[DimLike]
DTypeLike: TypeAlias = DType | str | type | np.dtype[np.generic]
E = TypeVar("E", bound=PlanishError)

_NUMBERS: Final = (bool, int, float, complex)
_WIDEST: Final = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}
"""Numbers among themselves are computed as Python would."""


class IndexOutOfRange(ShapeError, IndexError):
    """An axis that is not there, or an index that names no element."""


def as_number(op: str, name: str, value: Any) -> Any:
    """An argument that has to be a number."""
    if isinstance(value, bool) or not isinstance(value, Real | Tensor):
        raise DTypeError.of(op, f"{name} is {value!r}, and has to be a number")
    return value


def as_flag(op: str, name: str, value: Any) -> bool:
    """An argument that has to be a truth value: a dtype or a tensor in its place is a mistake, not a yes."""
    if value.__class__ is bool or (isinstance(value, int | np.bool_) and value in (0, 1)):
        return bool(value)
    if value is None:
        return False
    raise DTypeError.of(
        op, f"{name} is {value!r}, and has to be True or False", f"name what it is: dtype=…, {name}=…"
    )


def as_count(op: str, name: str, value: int) -> int:
    """An argument that says how many there are."""
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0:
        raise DTypeError.of(op, f"{name} is {value!r}, and has to be an integer of at least 0")
    return count


# --- values -----------------------------------------------------------------------------------------------


def constant(value: Scalar, dtype: DType, shape: Sequence[DimLike] = ()) -> Tensor:
    """One number everywhere."""
    static = all(isinstance(size, int) for size in shape)
    try:
        literal = Literal.full(dtype, cast("Shape", tuple(shape)) if static else (), value)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    scalar = Tensor.apply(ops.constant, attrs=ConstantAttrs(literal))
    return scalar if static else broadcast(scalar, shape)


def from_data(array: Array, device: str | None = None) -> Tensor:
    """A tensor of an array that nobody else writes to."""
    array.flags.writeable = False
    type = tensor_type(dtypes.from_numpy(array.dtype), array.shape)
    return Tensor(LazyValue.of(type, placed(array, device), device=device))


def view(x: Tensor, array: Array) -> Tensor:
    """A tensor of a part of the memory of another one, which never changes."""
    result = from_data(array, x._device)
    x._value.shared = result._value.shared = True
    return result


def operand(name: str, x: object) -> Tensor | Scalar:
    """A tensor or a Python number; arrays of NumPy are taken as tensors."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray | np.generic) and not isinstance(x, float | complex):
        return from_data(np.array(x, None if x.dtype.isnative else x.dtype.newbyteorder("="), order="C"))
    if isinstance(x, _NUMBERS):
        return x
    if isinstance(x, Dim):
        return size_as_number(x)
    if isinstance(x, list | tuple) or hasattr(x, "__dlpack__") or hasattr(x, "__array__"):
        from planish.frontend.tensor.transfer import asarray  # which stands on this module

        return asarray(cast("Array", x))
    raise DTypeError.of(
        name,
        f"an operand must be a Tensor, an array or a number, not {type(x).__name__}",
        "planish.asarray converts what holds numbers",
    )


def size_as_number(size: Dim) -> Tensor:
    """A size that has only a name, as the Python number it will be."""
    if size.lo < 0:  # a difference of sizes: what it is above its least
        return size_as_number(cast("Dim", size - size.lo)) + size.lo
    line = Tensor.apply(ops.iota, attrs=ops.IotaAttrs(dtypes.int64, (size,), 0))
    counted = Tensor.apply(ops.dimension_size, line, attrs=ops.DimensionSizeAttrs(0))
    return WeakTensor.of(cast_to(counted, dtypes.int64), int)


use_numbers(size_as_number)


def tensor(name: str, x: object) -> Tensor:
    """A tensor; Python numbers take the default dtypes."""
    given = operand(name, x)
    if isinstance(given, WeakTensor):
        return cast_to(given, dtypes.result_type(given._weak))
    return given if isinstance(given, Tensor) else constant(given, dtypes.result_type(given))


def as_dtype(dtype: DTypeLike) -> DType:
    """A dtype, also by name or code, or as NumPy or torch calls it."""
    if isinstance(dtype, DType):
        return dtype
    try:
        return _by_text(dtype) if isinstance(dtype, str) else dtypes.from_numpy(dtype)
    except PlanishError as error:
        error.location = error.location or Location.caller()
        raise
    except TypeError:
        if type(dtype).__module__ == "torch":
            return as_dtype(str(dtype).removeprefix("torch."))
        given: object = dtype
        is_size = isinstance(given, int)
        remedy = (
            "several sizes are one tuple: (2, 3)"
            if is_size
            else "use one of planish's, such as planish.float32"
        )
        raise DTypeError.at_caller(f"{dtype!r} is not a dtype", remedy) from None


def _by_text(text: str) -> DType:
    """A dtype by name, or by one of NumPy's codes: `f4` is float32. Four of these mean something else in planish's own texts."""
    if text in TWO_MEANINGS:
        bits, size = text[1:], int(text[1:]) * 8
        kind = "int" if text[0] == "i" else "uint"
        raise DTypeError(
            f"{text!r} has two meanings: {kind}{size} to NumPy, which counts bytes, and {kind}{bits} in planish's texts",
            remedy=f"write {kind}{size} or {kind}{bits}",
        )
    try:
        return dtypes.parse(text)
    except DTypeError:
        try:
            return dtypes.from_numpy(np.dtype(text))
        except (TypeError, DTypeError):
            pass
        raise


def cast_to(x: Tensor, dtype: DType) -> Tensor:
    """The elements converted; the tensor itself if there is nothing to do. What was weak has a dtype from now on."""
    if x.dtype is dtype:
        return Tensor(x._value) if isinstance(x, WeakTensor) else x
    return Tensor.apply(ops.cast, x, attrs=ops.CastAttrs(dtype))


def default_float(x: Tensor) -> Tensor:
    """Integers and bools as numbers of the default float dtype."""
    return cast_to(x, dtypes.DEFAULT_FLOAT) if x.dtype.is_int or x.dtype.is_bool else x


def _promoting(x: Tensor | Scalar) -> DType | Scalar:
    """What promotion asks of an operand: its dtype, or the kind of a number."""
    if isinstance(x, WeakTensor):
        return x._weak
    return x.dtype if isinstance(x, Tensor) else x


def promoted(name: str, *given: object) -> list[Tensor]:
    """Operands in one dtype; Python numbers take the others'."""
    known = [operand(name, x) for x in given]
    try:
        dtype = dtypes.result_type(*[_promoting(x) for x in known])
        if all(isinstance(x, WeakTensor) or not isinstance(x, Tensor) for x in known):
            dtype = _WIDEST.get(dtype, dtype) if any(isinstance(x, WeakTensor) for x in known) else dtype
    except DTypeError as error:
        shown = " and ".join(x.dtype.name if isinstance(x, Tensor) else repr(x) for x in known)
        raise DTypeError.of(name, f"{shown} have no common dtype", error.remedy) from None
    return [cast_to(x, dtype) if isinstance(x, Tensor) else constant(x, dtype) for x in known]


def together(name: str, *given: object) -> list[Tensor]:
    """Operands in one dtype and one shape."""
    return broadcast_all(name, promoted(name, *given))


# --- shapes -----------------------------------------------------------------------------------------------


def broadcast(x: Tensor, shape: Sequence[DimLike]) -> Tensor:
    """Axes of size 1 (and missing ones in front) repeated; the tensor itself if there is nothing to do."""
    sizes = tuple(shape)
    if x.shape == sizes:
        return x
    return Tensor.apply(ops.broadcast_to, x, attrs=ops.BroadcastToAttrs(sizes))


def broadcast_all(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """All in their common shape."""
    first = tensors[0].shape
    for other in tensors:
        if other.shape != first:
            break
    else:
        return list(tensors)
    shape = common_shape(name, [x.shape for x in tensors])
    return [broadcast(x, shape) for x in tensors]


def common_shape(name: str, shapes: Sequence[Shape]) -> Shape:
    """What shapes broadcast to."""
    try:
        return cast("Shape", broadcast_dims(*shapes))
    except ShapeError:
        shown = " and ".join(map(str, shapes))
        raise ShapeError.of(
            name,
            f"shapes {shown} do not broadcast together",
            "sizes of an axis must be equal, or one of them 1",
        ) from None


def size_of(x: Tensor, axis: int, dtype: DType) -> Tensor | int:
    """The size of an axis: a number, or a tensor where it has only a name."""
    size = x._type.dims[axis]
    if isinstance(size, int):
        return size
    return cast_to(Tensor.apply(ops.dimension_size, x, attrs=ops.DimensionSizeAttrs(axis)), dtype)


def reshaped(x: Tensor, shape: Sequence[DimLike]) -> Tensor:
    """The same elements under another shape; the tensor itself if there is nothing to do."""
    sizes = tuple(shape)
    if x.shape == sizes:
        return x
    known = x._known
    if known is not None:
        return view(x, known.reshape(cast("Shape", sizes)))
    return Tensor.apply(ops.reshape, x, attrs=ops.ReshapeAttrs(sizes))


def permuted(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Axes reordered; the tensor itself if there is nothing to do."""
    order = tuple(perm)
    return (
        x
        if order == tuple(range(x.ndim))
        else Tensor.apply(ops.transpose, x, attrs=ops.TransposeAttrs(order))
    )


def as_shape(name: str, shape: Sizes) -> Shape:
    """Sizes given as one or several integers."""
    given = [shape] if isinstance(shape, int | Dim | np.integer) else list(shape)
    sizes: list[int] = []
    for size in given:
        if isinstance(size, Dim):
            sizes.append(cast("int", size))  # read as one by all but those who look
            continue
        try:
            number = operator.index(size)
        except TypeError:
            raise DTypeError.of(name, f"a size must be an integer, not {size!r}") from None
        if number < 0:
            raise ShapeError.of(name, f"shape {tuple(given)} has a negative size")
        sizes.append(number)
    return tuple(sizes)


def axis_of(name: str, axis: int, ndim: int, shape: Shape | None = None) -> int:
    """An axis counted from the front."""
    try:
        number = operator.index(axis)
    except TypeError:
        given: object = axis
        what, remedy = repr(axis), None
        if isinstance(given, Tensor | np.ndarray):
            what, remedy = (
                f"an array of shape {given.shape}",
                f"several tensors are given as a list: {name}([x, y])",
            )
        raise DTypeError.of(name, f"an axis must be an integer, not {what}", remedy) from None
    if not -ndim <= number < ndim:
        where = f"of {ndim}" if shape is None else f"in shape {shape}"
        valid = f"valid axes: {-ndim} to {ndim - 1}" if ndim else "it has no axes"
        raise IndexOutOfRange.of(name, f"no axis {number} {where}", valid)
    return number % ndim


def line_of(name: str, x: Tensor, axis: int | None) -> tuple[Tensor, int]:
    """A tensor and one of its axes; without one, all elements in a line."""
    return (reshaped(x, (x.size,)), 0) if axis is None else (x, axis_of(name, axis, x.ndim, x.shape))


def axes_of(name: str, axis: Axis | Sequence[int], x: Tensor) -> tuple[int, ...]:
    """Axes counted from the front, in ascending order; all for None."""
    if axis is None:
        return tuple(range(x.ndim))
    given = tuple(axis) if isinstance(axis, tuple | list) else (cast("int", axis),)
    axes = [axis_of(name, one, x.ndim, x.shape) for one in given]
    if len(set(axes)) != len(axes):
        raise ShapeError.of(name, f"axes {given} name an axis of shape {x.shape} twice")
    return tuple(sorted(axes))
