"""Tensor: a lazy array. Operations build a graph; work happens when elements are asked for.

A tensor is data, or a result of an op on other tensors with the type PTIR infers for it (so mistakes in shapes and dtypes are
raised where they are made), or a parameter of a function that is being traced. Asking for elements (`numpy()`, `item()`,
printing, `bool()` …) computes everything below as one compiled function.

A tensor object is two things. It is a *version*: elements that never change, which expressions are made of. And it is a
*name* that a program holds, which stands for a version: itself, until `x[i] = v` makes a new one and lets the name stand for
that (`latest`); no program ever holds that other object. So what was computed from `x` before keeps its meaning. Functions
ask names for their version when they are called; expressions, bodies and transforms hold versions and never ask again.
"""

# ruff: noqa: PYI034
# x += y is a new tensor.

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, Location, ShapeError
from planish.frontend import devices
from planish.frontend.expression import GIVEN_AWAY, Node, Scope, current_scope, interned
from planish.frontend.storage import Array, Storage, fetched, host
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.types import TensorType, product

if TYPE_CHECKING:
    from types import EllipsisType

    from planish.frontend.tensor.indexing import At

Scalar: TypeAlias = bool | int | float | complex
Nested: TypeAlias = "list[Nested] | Scalar"
IndexItem: TypeAlias = "int | slice | EllipsisType | bool | Tensor | Array | list[Any] | None"
Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"
Axis: TypeAlias = int | tuple[int, ...] | None


class Tensor:
    """An array whose elements are computed when they are asked for."""

    __slots__ = (
        "__weakref__",
        "_device",
        "_index",
        "_latest",
        "_node",
        "_scope",
        "_storage",
        "_type",
        "_used",
    )
    __hash__ = None  # type: ignore[assignment] # == is elementwise
    __array_ufunc__ = None
    """NumPy leaves `array + tensor` to us."""

    def __init__(
        self,
        type: TensorType,
        *,
        storage: Storage | None = None,
        node: Node | None = None,
        index: int = 0,
        scope: Scope | None = None,
        device: str | None = None,
    ) -> None:
        self._type = interned(type)
        self._storage = storage
        self._node = node
        self._index = index
        self._scope = current_scope() if scope is None else scope
        """The trace that the name was made in."""
        self._device = device
        """None: wherever it is needed."""
        self._latest: Tensor | None = None
        """The version that the name stands for, if it is not this one. It is nobody's name."""
        self._used = False
        """Whether an op was applied to it, which may still need its data."""

    @staticmethod
    def parameter(type: TensorType, scope: Scope) -> Tensor:
        """A tensor without data, of a function that is being traced, which is given a name for it."""
        return Tensor(type, scope=scope)

    @staticmethod
    def apply(op: OpDef, *inputs: Tensor, attrs: Attrs = NO_ATTRS) -> Tensor:
        """An op with one result on tensors of exactly the types it takes."""
        return applied(op, inputs, attrs)

    # --- what it is ---

    @property
    def scope(self) -> Scope | None:
        """The trace that the version belongs to; data belongs to none."""
        if self._storage is not None:
            return None
        return self._scope if self._node is None else self._node.scope

    @property
    def latest(self) -> Tensor:
        """The version that the name stands for, after assignments to its elements."""
        found = self if self._latest is None else self._latest
        if found._scope is GIVEN_AWAY:
            raise GraphError(
                f"a tensor {self.dtype.name}{list(self.shape)} was donated: its memory holds a result now",
                location=Location.caller(),
                remedy="use the result in its place, donate a copy, or leave it out of donate_argnums",
            )
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return cast("tuple[int, ...]", self._type.dims)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._type.dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        return cast("int", product(self._type.dims))

    @property
    def nbytes(self) -> int:
        """The bytes its elements take."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where it lives."""
        return self.latest._device or devices.default_device()

    @property
    def T(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(
                f"T: shape {self.shape} is not a matrix",
                op="T",
                location=Location.caller(),
                remedy="mT exchanges the last two axes of a stack of matrices, permute_dims reorders any",
            )
        return functions.permute_dims(self, (1, 0))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The last two axes exchanged."""
        return functions.matrix_transpose(self)

    @property
    def real(self) -> Tensor:
        """The real parts."""
        return functions.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts."""
        return functions.imag(self)

    @property
    def at(self) -> At:
        """Updates without assignment: `x.at[index].set(v)`, `.add(v)`, `.max(v)` … are new tensors."""
        return functions.At(self)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        return functions.array_namespace(api_version)

    # --- elements ---

    def realize(self) -> Tensor:
        """Compute the elements now; the same tensor."""
        evaluate([self.latest])
        return self

    def _data(self, what: str | None = None) -> Array:
        """The elements, read-only, shared. `what` asks for them, for messages."""
        latest = self if self._latest is None else self.latest
        if latest._storage is None:
            evaluate((latest,), what)
        # Only here do arrays get out. What was computed is made read-only when somebody looks at it.
        return fetched(cast("Storage", latest._storage))

    @property
    def _known(self) -> Array | None:
        """The elements where they are in the host's memory already: what is known of a program before it runs."""
        return host(self.latest._storage)

    def numpy(self) -> Array:
        """The elements, in an array of their own."""
        return self._data("numpy").copy()

    def item(self) -> Scalar:
        """The only element, as a Python number."""
        if self.size != 1:
            raise ShapeError(
                f"item: shape {self.shape} has {self.size} elements, not one",
                op="item",
                location=Location.caller(),
                remedy="pick one with x[…], or take all with tolist()",
            )
        return functions.python_number(self._data("item").reshape(()), self.dtype)

    def tolist(self) -> Nested:
        """The elements as nested lists of Python numbers."""
        return functions.python_list(self._data("tolist"), self.dtype)

    def _scalar(self, what: str, allowed: bool) -> Scalar:
        if self.ndim != 0:
            raise DTypeError(
                f"{what}() of a tensor of shape {self.shape}: only one without axes is a number",
                op=what,
                location=Location.caller(),
                remedy="use any() or all() for a truth value, item() for the only element",
            )
        if not allowed:
            raise DTypeError(
                f"{what}() of a tensor of dtype {self.dtype.name}",
                op=what,
                location=Location.caller(),
                remedy="convert it with astype, or take real(x)",
            )
        return functions.python_number(self._data(what), self.dtype)

    def __bool__(self) -> bool:
        return bool(self._scalar("bool", True))

    def __int__(self) -> int:
        return int(cast("float", self._scalar("int", not self.dtype.is_complex)))

    def __float__(self) -> float:
        return float(cast("float", self._scalar("float", not self.dtype.is_complex)))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex", True))

    def __index__(self) -> int:
        return operator.index(cast("int", self._scalar("index", self.dtype.is_int)))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise DTypeError("len() of a tensor without axes", location=Location.caller())
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise DTypeError("a tensor without axes cannot be iterated over", location=Location.caller())
        return iter(functions.unstack(self))

    def __contains__(self, value: Tensor | Scalar) -> bool:
        return bool(functions.any(functions.equal(self, value)))

    def __repr__(self) -> str:
        return functions.represent(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else format(repr(self), spec)

    # --- exchange ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """For NumPy: without copying it is a read-only view."""
        array = self._data("numpy")
        if dtype is None or np.dtype(dtype) == array.dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"{self.dtype.name} cannot become {np.dtype(dtype).name} without a copy")
        return array.astype(dtype)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        return functions.to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return functions.DLPACK_CPU

    def to_device(self, device: str, /, *, stream: int | None = None) -> Tensor:
        """The same elements on another device."""
        return functions.to_device(self, device, stream)

    def __reduce__(self) -> tuple[Any, ...]:
        return functions.rebuilt, (self.numpy(), self.latest._device)

    def _call_scalar(self, name: str, *others: Tensor) -> Tensor:
        """A scalar function: what its record calls."""
        made: Tensor = getattr(functions, name)(self, *others)
        return made

    def snapshot(self) -> Tensor:
        """The same elements under a name of their own, made here: assigning to one leaves the other alone."""
        return self.latest._named()

    def _named(self) -> Tensor:
        """Another name for this version, whatever its own name stands for by now."""
        made = Tensor(
            self._type, storage=self._storage, node=self._node, index=self._index, device=self._device
        )
        if self._storage is None and self._node is None:
            made._latest = self  # a parameter is known by its identity, and nobody's name
        return made

    def __copy__(self) -> Tensor:
        return self.snapshot()

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.snapshot()

    # --- indexing ---

    def __getitem__(self, key: Index, /) -> Tensor:
        return functions.getitem(self, key)

    def __setitem__(self, key: Index, value: Tensor | Scalar | Array, /) -> None:
        self._become("x[…] = …", functions.setitem(self, key, value))

    def _become(self, what: str, new: Tensor) -> None:
        """From now on this name stands for another version."""
        now = current_scope()
        if now is not None and self._scope is not now:
            raise GraphError(
                f"{what}: a tensor from outside is assigned to while {now.what} traces the function",
                location=Location.caller(),
                remedy="use x.at[…].set(v) and return the result",
            )
        version = new.latest
        is_parameter = version._storage is None and version._node is None
        # what was assigned may be somebody's name
        self._latest = version if is_parameter else version._named()

    # --- operators ---

    def __pos__(self, /) -> Tensor:
        return functions.positive(self)

    def __neg__(self, /) -> Tensor:
        return functions.negative(self)

    def __abs__(self, /) -> Tensor:
        return functions.abs(self)

    def __invert__(self, /) -> Tensor:
        return functions.bitwise_invert(self)

    def __round__(self, digits: int | None = None) -> Tensor:
        return functions.round(self, 0 if digits is None else digits)

    def __add__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.add(self, other)

    def __radd__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.add(other, self)

    def __iadd__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "+=", functions.add(self, other))

    def __sub__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.subtract(self, other)

    def __rsub__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.subtract(other, self)

    def __isub__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "-=", functions.subtract(self, other))

    def __mul__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.multiply(self, other)

    def __rmul__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.multiply(other, self)

    def __imul__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "*=", functions.multiply(self, other))

    def __truediv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.divide(self, other)

    def __rtruediv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.divide(other, self)

    def __itruediv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "/=", functions.divide(self, other))

    def __floordiv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.floor_divide(other, self)

    def __ifloordiv__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "//=", functions.floor_divide(self, other))

    def __mod__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.remainder(self, other)

    def __rmod__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.remainder(other, self)

    def __imod__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "%=", functions.remainder(self, other))

    def __pow__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.pow(self, other)

    def __rpow__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.pow(other, self)

    def __ipow__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "**=", functions.pow(self, other))

    def __and__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_and(self, other)

    def __rand__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_and(other, self)

    def __iand__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "&=", functions.bitwise_and(self, other))

    def __or__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_or(self, other)

    def __ror__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_or(other, self)

    def __ior__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "|=", functions.bitwise_or(self, other))

    def __xor__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_xor(self, other)

    def __rxor__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_xor(other, self)

    def __ixor__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "^=", functions.bitwise_xor(self, other))

    def __lshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_left_shift(other, self)

    def __ilshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, "<<=", functions.bitwise_left_shift(self, other))

    def __rshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.bitwise_right_shift(other, self)

    def __irshift__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return _kept(self, ">>=", functions.bitwise_right_shift(self, other))

    def __matmul__(self, other: Tensor | Array, /) -> Tensor:
        return functions.matmul(self, other)

    def __rmatmul__(self, other: Tensor | Array, /) -> Tensor:
        return functions.matmul(other, self)

    def __imatmul__(self, other: Tensor | Array, /) -> Tensor:
        return _kept(self, "@=", functions.matmul(self, other))

    def __lt__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.less(self, other)

    def __le__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.less_equal(self, other)

    def __gt__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.greater(self, other)

    def __ge__(self, other: Tensor | Scalar | Array, /) -> Tensor:
        return functions.greater_equal(self, other)

    def __eq__(self, other: object, /) -> Tensor:  # type: ignore[override] # elementwise
        return functions.equal(self, cast("Tensor", other))

    def __ne__(self, other: object, /) -> Tensor:  # type: ignore[override] # elementwise
        return functions.not_equal(self, cast("Tensor", other))

    # --- methods people know from elsewhere ---

    def astype(self, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
        """The elements converted."""
        return functions.astype(self, dtype, copy=copy, device=device)

    def reshape(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Other axes, the same row-major order; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return functions.reshape(self, cast("tuple[int, ...]", tuple(sizes)))

    def flatten(self) -> Tensor:
        """One axis."""
        return functions.reshape(self, (-1,))

    def transpose(self, *axes: int) -> Tensor:
        """Axes in another order; reversed when none is given."""
        return functions.permute_dims(self, axes or tuple(range(self.ndim))[::-1])

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Without axes of size 1."""
        return functions.squeeze(self, axis)

    def clip(self, min: Tensor | Scalar | None = None, max: Tensor | Scalar | None = None) -> Tensor:
        """Elements moved into a range."""
        return functions.clip(self, min, max)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The sum over axes."""
        return functions.sum(self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The product over axes."""
        return functions.prod(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The mean over axes."""
        return functions.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The variance over axes."""
        return functions.var(self, axis=axis, correction=correction, keepdims=keepdims)

    def std(self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """The standard deviation over axes."""
        return functions.std(self, axis=axis, correction=correction, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The greatest over axes."""
        return functions.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The smallest over axes."""
        return functions.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Where the greatest is."""
        return functions.argmax(self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Where the smallest is."""
        return functions.argmin(self, axis=axis, keepdims=keepdims)

    def all(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Whether all elements are true."""
        return functions.all(self, axis=axis, keepdims=keepdims)

    def any(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Whether any element is true."""
        return functions.any(self, axis=axis, keepdims=keepdims)


def _kept(x: Tensor, what: str, result: Tensor) -> Tensor:
    """What `x op= y` gives: a result of the shape and dtype of x."""
    if result._type == x._type:
        return result
    raise DTypeError(
        f"{what} would turn {x.dtype.name}{list(x.shape)} into {result.dtype.name}{list(result.shape)}",
        location=Location.caller(),
        remedy="write x = x op y for a result of another dtype or shape",
    )


from planish.frontend.realize import evaluate  # noqa: E402
from planish.frontend.tensor import functions  # noqa: E402 - methods and functions need each other
from planish.frontend.tensor.application import applied  # noqa: E402

# The operators that programs use most are the functions themselves: one call less.
for _operator, _name in {
    "__add__": "add",
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__truediv__": "divide",
    "__pow__": "pow",
    "__matmul__": "matmul",
    "__neg__": "negative",
    "__lt__": "less",
    "__gt__": "greater",
}.items():
    setattr(Tensor, _operator, getattr(functions, _name))
