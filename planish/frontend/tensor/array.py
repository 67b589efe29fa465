"""Tensor: a lazy array. Operations build a graph; work happens at `numpy()`.

A tensor is either data, or an op on other tensors with the type PTIR infers for it, so mistakes in shapes and dtypes are
raised where they are made. `numpy()` captures everything below as one PTIR function, canonicalises and compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planish import dtypes, ptir
from planish.compiler import lower
from planish.dtypes import DType
from planish.errors import DTypeError, Location, PlanishError
from planish.ptir.builder import Graph
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.types import TensorType

Array = NDArray[Any]
Scalar = bool | int | float
PIPELINE = "canonicalize,cse,dce"


class Tensor:
    """An array whose elements are computed when they are asked for."""

    __slots__ = ("_array", "_attrs", "_inputs", "_location", "_op", "_type")

    def __init__(
        self,
        type: TensorType,
        *,
        array: Array | None = None,
        op: OpDef | None = None,
        inputs: tuple[Tensor, ...] = (),
        attrs: Attrs = NO_ATTRS,
    ) -> None:
        self._type = type
        self._array = array
        self._op = op
        self._inputs = inputs
        self._attrs = attrs
        self._location = Location.caller()

    @staticmethod
    def apply(op: OpDef, *inputs: Tensor, attrs: Attrs = NO_ATTRS) -> Tensor:
        """An op on tensors of exactly the types it takes."""
        try:
            (result,) = op.infer([x._type for x in inputs], attrs, ())
        except PlanishError as error:
            if error.location is None:
                error.location = Location.caller()
            raise
        return Tensor(result, op=op, inputs=inputs, attrs=attrs)

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

    def numpy(self) -> Array:
        """The elements, in an array of their own."""
        if self._array is None:
            self._array = _compute(self)
        return self._array.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        return f"Tensor({np.array2string(self.numpy(), separator=', ')}, dtype={self.dtype.name})"

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __add__(self, other: Tensor | Scalar) -> Tensor:
        return functions.add(self, other)

    def __radd__(self, other: Scalar) -> Tensor:
        return functions.add(other, self)

    def __sub__(self, other: Tensor | Scalar) -> Tensor:
        return functions.subtract(self, other)

    def __rsub__(self, other: Scalar) -> Tensor:
        return functions.subtract(other, self)

    def __mul__(self, other: Tensor | Scalar) -> Tensor:
        return functions.multiply(self, other)

    def __rmul__(self, other: Scalar) -> Tensor:
        return functions.multiply(other, self)

    def __truediv__(self, other: Tensor | Scalar) -> Tensor:
        return functions.divide(self, other)

    def __rtruediv__(self, other: Scalar) -> Tensor:
        return functions.divide(other, self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return functions.matmul(self, other)

    def __neg__(self) -> Tensor:
        return functions.negative(self)

    def __abs__(self) -> Tensor:
        return functions.abs(self)

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the Array API's name
        """The last two axes exchanged."""
        return functions.permute_dims(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))


def asarray(obj: ArrayLike | Tensor, dtype: DType | None = None) -> Tensor:
    """A tensor of the data, which is copied: later changes to the source do not show."""
    if isinstance(obj, Tensor):
        return obj if dtype is None or dtype is obj.dtype else functions.astype(obj, dtype)
    array = np.array(obj, dtype=None if dtype is None else dtype.numpy)
    if array.dtype == object:
        raise DTypeError("asarray: the data is not a rectangular array of numbers", op="asarray")
    if dtype is None and not isinstance(obj, np.ndarray | np.generic) and array.dtype.kind == "f":
        array = array.astype(dtypes.DEFAULT_FLOAT.numpy)
    found = dtypes.from_numpy(array.dtype)
    array = np.ascontiguousarray(array).reshape(array.shape)
    array.flags.writeable = False
    return Tensor(TensorType(found, array.shape), array=array)


def _below(root: Tensor) -> list[Tensor]:
    """The tensor and all it is computed from, sources first."""
    order: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            order.append(tensor)
        elif id(tensor) not in seen:
            seen.add(id(tensor))
            stack.append((tensor, True))
            if tensor._array is None:
                stack.extend((source, False) for source in reversed(tensor._inputs))
    return order


def capture(roots: Sequence[Tensor]) -> tuple[ptir.Function, list[Array]]:
    """One PTIR function for the tensors, and the data of its parameters."""
    graph = Graph("main")
    values: dict[int, Any] = {}
    data: list[Array] = []
    for root in roots:
        for tensor in _below(root):
            if id(tensor) in values:
                continue
            if tensor._array is not None:
                values[id(tensor)] = graph.input(f"x{len(data)}", tensor._type)
                data.append(tensor._array)
            else:
                operands = [values[id(source)] for source in tensor._inputs]
                values[id(tensor)] = graph.emit(cast("OpDef", tensor._op), operands, tensor._attrs)
    return graph.build(*(values[id(root)] for root in roots)), data


def _compute(tensor: Tensor) -> Array:
    function, data = capture([tensor])
    program = ptir.Program()
    program.add(function)
    ptir.PassManager.parse(PIPELINE).run(program)
    (result,) = lower(function).compile()(*data)
    return result


from planish.frontend.tensor import functions  # noqa: E402 - methods and functions need each other
