"""Tensor: a lazy array. Operations build a graph; work happens when elements are asked for.

A tensor is a *name* that a program holds for a value (`planish.frontend.expression`): data, a result of an op on other values
with the type PTIR infers for it (so mistakes in shapes and dtypes are raised where they are made), or a parameter of a function
that is being traced. Asking for elements (`numpy()`, `item()`, printing, `bool()` …) computes everything below as one compiled
function. `x[i] = v` makes a new value and lets the name stand for that; what was computed from `x` before is made of values,
and keeps its meaning.

Methods and operators are functions of the API, which are written for tensors and come later: `bind` connects them.
"""

# x += y is a new tensor.

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from weakref import ref

import numpy as np

from planish.dtypes import DType
from planish.errors import DTypeError, GraphError, ShapeError
from planish.frontend.devices import default_device
from planish.frontend.expression import LazyValue, TraceScope
from planish.frontend.session import SESSION, current_scope
from planish.frontend.storage import Array, Storage, fetched, host
from planish.frontend.tensor.methods import ArrayMethods
from planish.frontend.tensor.operators import BinaryOperator, UnaryOperator, operators
from planish.ptir.types import TensorType, product
from planish.tracebacks import short_tracebacks, shorten

if TYPE_CHECKING:
    from types import EllipsisType

    from planish.frontend.tensor import functions  # noqa: TC004 - `bind` hands it over
    from planish.frontend.tensor.indexing import IndexedUpdate
    from planish.frontend.tensor.operands import DTypeLike
    from planish.ptir.ops.definition import Attrs, OpDef

Scalar: TypeAlias = bool | int | float | complex
Nested: TypeAlias = "list[Nested] | Scalar"
IndexItem: TypeAlias = "int | slice | EllipsisType | bool | Tensor | Array | list[Any] | None"
Index: TypeAlias = "IndexItem | tuple[IndexItem, ...]"
Axis: TypeAlias = int | tuple[int, ...] | None


class Tensor(ArrayMethods):
    """An array whose elements are computed when they are asked for."""

    __slots__ = ("__weakref__", "_scope", "_value")
    __hash__ = None  # type: ignore[assignment] # == is elementwise

    def __init__(self, value: LazyValue | Array | Nested) -> None:
        if not isinstance(value, LazyValue):  # who writes Tensor([1, 2]), as other libraries have it
            value = functions.asarray(value)._value
        self._value: LazyValue = value
        self._scope = current_scope()
        """The trace that the name was made in."""

    if TYPE_CHECKING:

        @staticmethod
        def apply(op: OpDef, *inputs: Tensor, attrs: Attrs = ...) -> Tensor:
            """An op with one result on tensors of exactly the types it takes."""

    # --- what it is ---

    @property
    def _type(self) -> TensorType:
        return self._value.type

    @property
    def _device(self) -> str | None:
        """None: wherever it is needed."""
        return self._value.device

    @property
    def _storage(self) -> Storage | None:
        return self._value.storage

    @property
    def scope(self) -> TraceScope | None:
        """The trace that its elements belong to; data belongs to none."""
        return self._value.scope

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return cast("tuple[int, ...]", self._value.type.dims)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._value.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._value.type.dims)

    @property
    def size(self) -> int:
        """The number of elements."""
        return cast("int", product(self._value.type.dims))

    @property
    def nbytes(self) -> int:
        """The bytes its elements take."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """Where it lives."""
        return self._value.device or default_device()

    @property
    def T(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError.of(
                "T",
                f"shape {self.shape} is not a matrix",
                "mT exchanges the last two axes of a stack of matrices, permute_dims reorders any",
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
    def at(self) -> IndexedUpdate:
        """Updates without assignment: `x.at[index].set(v)`, `.add(v)`, `.max(v)` … are new tensors."""
        return functions.IndexedUpdate(self)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        return functions.array_namespace(api_version)

    # --- elements ---

    @short_tracebacks
    def realize(self) -> Tensor:
        """Compute the elements now; the same tensor."""
        SESSION.evaluate((self._value,))
        return self

    def _elements(self, what: str | None) -> Array:
        """The elements, read-only. `what` asks for them, for messages."""
        storage = self._value.storage
        # What was computed is made read-only when somebody looks at it.
        return fetched(SESSION.elements(self._value, what) if storage is None else storage)

    def _data(self, what: str | None = None) -> Array:
        """The elements, read-only, for somebody to keep."""
        array = self._elements(what)
        self._value.shared = True
        return array

    @property
    def _known(self) -> Array | None:
        """The elements where they are in the host's memory already: what is known of a program before it runs."""
        return host(self._value.storage)

    @short_tracebacks
    def numpy(self) -> Array:
        """The elements, in an array of their own."""
        return self._elements("numpy").copy()

    @short_tracebacks
    def item(self, *at: int) -> Scalar:
        """The only element as a Python number, or the one at an index: along each axis, or in row-major order."""
        if at:
            return (self[at] if len(at) > 1 or self.ndim == 1 else functions.ravel(self)[at[0]]).item()
        if self.size != 1:
            raise ShapeError.of(
                "item",
                f"shape {self.shape} has {self.size} elements, not one",
                "pick one with x[…], or take all with tolist()",
            )
        return functions.python_number(self._elements("item").reshape(()), self.dtype)

    @short_tracebacks
    def tolist(self) -> Nested:
        """The elements as nested lists of Python numbers."""
        return functions.python_list(self._elements("tolist"), self.dtype)

    def _scalar(self, what: str, allowed: bool) -> Scalar:
        if self.ndim != 0:
            raise DTypeError.at_caller(
                f"{what}() of a tensor of shape {self.shape}: only one without axes is a number",
                "use any() or all() for a truth value, item() for the only element",
                op=what,
            )
        if not allowed:
            raise DTypeError.at_caller(
                f"{what}() of a tensor of dtype {self.dtype.name}",
                "convert it with astype, or take real(x)",
                op=what,
            )
        return functions.python_number(self._elements(what), self.dtype)

    @short_tracebacks
    def __bool__(self) -> bool:
        return bool(self._scalar("bool", True))

    @short_tracebacks
    def __int__(self) -> int:
        return int(cast("float", self._scalar("int", not self.dtype.is_complex)))

    @short_tracebacks
    def __float__(self) -> float:
        return float(cast("float", self._scalar("float", not self.dtype.is_complex)))

    @short_tracebacks
    def __complex__(self) -> complex:
        return complex(self._scalar("complex", True))

    @short_tracebacks
    def __index__(self) -> int:
        return operator.index(cast("int", self._scalar("index", self.dtype.is_int)))

    @short_tracebacks
    def __len__(self) -> int:
        if self.ndim == 0:
            raise DTypeError.at_caller("len() of a tensor without axes")
        if not isinstance(self.shape[0], int):
            raise DTypeError.at_caller(
                f"len() of a tensor whose first axis has the named size {self.shape[0]}: Python wants a number",
                "use x.shape[0], which can be computed with",
            )
        return self.shape[0]

    @short_tracebacks
    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise DTypeError.at_caller("a tensor without axes cannot be iterated over")
        return iter(functions.unstack(self))

    def __contains__(self, value: Tensor | Scalar) -> bool:
        return bool(functions.any(functions.equal(self, value)))

    @short_tracebacks
    def __repr__(self) -> str:
        return functions.represent(self)

    @short_tracebacks
    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else format(repr(self), spec)

    # --- exchange ---

    @short_tracebacks
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
        return functions.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return functions.cuda_array_interface(self)

    @short_tracebacks
    def to_device(self, device: str, /, *, stream: int | None = None) -> Tensor:
        """The same elements on another device."""
        return functions.to_device(self, device, stream)

    def __reduce__(self) -> tuple[Any, ...]:
        return functions.rebuilt, (self.numpy(), self._device)

    def _call_scalar(self, name: str, *others: Tensor) -> Tensor:
        """A scalar function: what its record calls."""
        result: Tensor = getattr(functions, name)(self, *others)
        return result

    def snapshot(self) -> Tensor:
        """The same elements under a name of their own, made here: assigning to one leaves the other alone."""
        result = Tensor(self._value)
        self._value.shared = True
        result._held()
        return result

    def _held(self) -> None:
        """Tell the op that this name stands for a result of it."""
        node = self._value.node
        if node is not None and node.scope is None:
            node.others = (*[name for name in node.others if name() is not None], ref(self))

    def __copy__(self) -> Tensor:
        return self.snapshot()

    def __deepcopy__(self, memo: object) -> Tensor:
        return self.snapshot()

    # --- indexing ---

    def __getitem__(self, key: Index, /) -> Tensor:
        try:
            return functions.getitem(self, key)
        except Exception as error:
            shorten(error)
            raise

    @short_tracebacks
    def __setitem__(self, key: Index, value: Tensor | Scalar | Array, /) -> None:
        written = functions.assigned(self, key, value)
        if written is not None:
            self._value = written
        else:
            self._become("x[…] = …", functions.setitem(self, key, value))

    def _become(self, what: str, new: Tensor) -> None:
        """From now on this name stands for another version."""
        now = current_scope()
        if now is not None and self._scope is not now:
            raise GraphError.at_caller(
                f"{what}: a tensor from outside is assigned to while {now.what} traces the function",
                "use x.at[…].set(v) and return the result",
            )
        self._value = new._value
        self._value.shared = True  # what was assigned may be somebody's name
        self._held()

    # --- operators ---

    __pos__, __neg__ = UnaryOperator("positive"), UnaryOperator("negative")
    __abs__, __invert__ = UnaryOperator("abs"), UnaryOperator("bitwise_invert")
    __add__, __radd__, __iadd__ = operators("add", "+=")
    __sub__, __rsub__, __isub__ = operators("subtract", "-=")
    __mul__, __rmul__, __imul__ = operators("multiply", "*=")
    __truediv__, __rtruediv__, __itruediv__ = operators("divide", "/=")
    __floordiv__, __rfloordiv__, __ifloordiv__ = operators("floor_divide", "//=")
    __mod__, __rmod__, __imod__ = operators("remainder", "%=")
    __pow__, __rpow__, __ipow__ = operators("pow", "**=")
    __and__, __rand__, __iand__ = operators("bitwise_and", "&=")
    __or__, __ror__, __ior__ = operators("bitwise_or", "|=")
    __xor__, __rxor__, __ixor__ = operators("bitwise_xor", "^=")
    __lshift__, __rlshift__, __ilshift__ = operators("bitwise_left_shift", "<<=")
    __rshift__, __rrshift__, __irshift__ = operators("bitwise_right_shift", ">>=")
    __matmul__, __rmatmul__, __imatmul__ = operators("matmul", "@=")
    __lt__, __le__ = BinaryOperator("less"), BinaryOperator("less_equal")
    __gt__, __ge__ = BinaryOperator("greater"), BinaryOperator("greater_equal")
    __eq__, __ne__ = BinaryOperator("equal"), BinaryOperator("not_equal")  # type: ignore[assignment] # elementwise

    def __divmod__(self, other: Tensor | Scalar) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: Tensor | Scalar) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Tensor:
        return functions.round(self, 0 if digits is None else digits)

    # --- methods people know from elsewhere ---

    def astype(self, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
        """The elements converted."""
        return functions.astype(self, dtype, copy=copy, device=device)

    def reshape(self, *shape: int | tuple[int, ...], order: str = "C") -> Tensor:
        """Other axes, the same row-major order; one size may be -1."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return functions.reshape(self, cast("tuple[int, ...]", tuple(sizes)), order)

    def flatten(self, order: str | int = "C", end_axis: int = -1) -> Tensor:
        """One axis, in NumPy's order; with a number, that axis and all behind it (to `end_axis`) as one, as in PyTorch."""
        if isinstance(order, str):
            return functions.reshape(self, (-1,), order)
        return functions.flatten(self, order, end_axis)

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        """Axes in another order; reversed when none is given."""
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        return functions.permute_dims(
            self, cast("tuple[int, ...]", tuple(order)) or tuple(range(self.ndim))[::-1]
        )

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Without axes of size 1."""
        return functions.squeeze(self, axis)

    def clip(self, min: Tensor | Scalar | None = None, max: Tensor | Scalar | None = None) -> Tensor:
        """Elements moved into a range."""
        return functions.clip(self, min, max)

    def sum(self, axis: Axis = None, keepdims: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The sum over axes."""
        return functions.sum(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: Axis = None, keepdims: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The product over axes."""
        return functions.prod(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The mean over axes."""
        return functions.mean(self, axis=axis, dtype=dtype, keepdims=keepdims)

    def var(
        self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, ddof: float | None = None
    ) -> Tensor:
        """The variance over axes; the count is less by `correction`, which NumPy calls `ddof`."""
        return functions.var(self, axis=axis, correction=correction, keepdims=keepdims, ddof=ddof)

    def std(
        self, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, *, ddof: float | None = None
    ) -> Tensor:
        """The standard deviation over axes."""
        return functions.std(self, axis=axis, correction=correction, keepdims=keepdims, ddof=ddof)

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


def bind(namespace: ModuleType, apply: Callable[..., Tensor]) -> None:
    """Connect methods and operators to the functions they are, and `apply` to what applies an op."""
    globals()["functions"] = namespace
    Tensor.apply = staticmethod(apply)  # type: ignore[method-assign] # declared above
    for name, member in list(vars(Tensor).items()):
        if isinstance(member, UnaryOperator):
            # the function itself where it is one: one call less
            setattr(Tensor, name, member.bound(getattr(namespace, member.function)))
