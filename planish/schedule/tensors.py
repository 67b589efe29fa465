"""A PTIR function as tensor-level UOps: the values translated so far, the memory they live in, and how tensors are moved.

A tensor in memory, as a value, is `INDEX(BUFFER)` with no indices yet; movement ops give it its dims. Sizes are integers, or
index expressions over the variables of named dims (`Tensors.dim`), simplified, so that equal sizes are one node. Memory of
dynamic dims is flat and without gaps; its buffer has room for the largest sizes. What an op becomes stands in `lowering/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.errors import Location, LoweringError
from planish.ptir.dims import UNBOUNDED, DimLike, Quotient
from planish.ptir.function import Value
from planish.ptir.types import TensorType
from planish.records import dataclass
from planish.target import TARGETS, Target
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.shape import Dim, Shape, same_dim, shape
from planish.uop.symbolic import simplify

if TYPE_CHECKING:
    from planish.schedule.origins import Origins

Array = NDArray[Any]
Dims = Shape
COUNTING: Final = 1 << 30
"""The slot of buffers that only count."""
_MOST_BYTES: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """Memory that kernels share: a parameter of the function, a constant, or made by a kernel."""

    dtype: DType
    size: int
    parameter: int | None = None
    constant: Array | None = None


@dataclass(frozen=True, slots=True)
class ChosenElements:
    """One element per row at most: along which axes rows run, what the elements are, where there is one (both of size 1 there), and all others."""

    axes: frozenset[int]
    value: UOp
    valid: UOp
    others: UOp


@dataclass(slots=True)
class Tensors:
    """The function, translated: a node per value, and the buffers they live in."""

    table: Table
    buffers: list[SharedBuffer] = field(default_factory=list)
    values: dict[Value, UOp] = field(default_factory=dict)
    counting: set[UOp] = field(default_factory=set)
    """BUFFERs that are never in memory: element k of each is k. Views of them become index arithmetic."""
    realised: dict[UOp, UOp] = field(default_factory=dict)
    """Nodes that kernels have computed, and the memory (as a value) that holds each."""
    chosen: dict[UOp, ChosenElements] = field(default_factory=dict)
    """Tensors of which data chooses one element per row, with one number everywhere else."""
    bound: dict[str, UOp] = field(default_factory=dict)
    """Variables whose value is data (`bind_dim`): the int64 scalar that is the size, within its bounds."""
    target: Target = field(default_factory=lambda: TARGETS["x86-64-v4"])
    """The machine that what is computed again, and what is stored, is judged for."""
    origins: Origins | None = None
    """Hears which instruction becomes which nodes, and which kernel computes them, if somebody wants to know."""

    # -- sizes -----------------------------------------------------------------------------------------------------

    def dim(self, dim: DimLike) -> Dim:
        """A size: a number, or an index expression over variables."""
        if isinstance(dim, int):
            return dim
        total: UOp | None = None
        for monomial, coefficient in dim.terms:
            product: UOp | None = None
            for atom in monomial:
                if isinstance(atom, Quotient):
                    factor = self._node(atom.numerator) // self._node(atom.denominator)
                else:
                    factor = self.table.variable(atom.name, atom.lo, atom.hi)
                product = factor if product is None else product * factor
            term = self.table.const(coefficient) if product is None else product * coefficient
            total = term if total is None else total + term
        return 0 if total is None else canonical(total)

    def _node(self, dim: DimLike) -> UOp:
        size = self.dim(dim)
        return self.table.const(size) if isinstance(size, int) else size

    def dims(self, dims: Sequence[DimLike]) -> Dims:
        """Sizes of axes."""
        return tuple(self.dim(dim) for dim in dims)

    def dims_of(self, value: Value) -> Dims:
        """The sizes of a value."""
        return self.dims(value.type.dims)

    # -- memory ----------------------------------------------------------------------------------------------------

    def memory(self, buffer: SharedBuffer, dims: Dims) -> UOp:
        """A new buffer as a value of these dims."""
        self.buffers.append(buffer)
        place = self.table.make(Ops.BUFFER, buffer.dtype.ptr(buffer.size), (), len(self.buffers) - 1)
        return view(place, buffer.dtype, dims)

    def count(self, size: Dim) -> UOp:
        """0, 1, 2 … as a tensor of int64."""
        most = largest(size)
        place = self.table.make(Ops.BUFFER, dtypes.int64.ptr(most), (), COUNTING)
        self.counting.add(place)
        return shrink(self.table.make(Ops.INDEX, dtypes.int64, (place,)), (most,), [(0, size)])

    def position(self, dims: Dims, axis: int, dtype: DType = dtypes.index) -> UOp:
        """Of every element of a tensor of these dims, its position along an axis."""
        line = tuple(dim if each == axis else 1 for each, dim in enumerate(dims))
        return expand(reshape(self.count(dims[axis]), line), dims).cast(dtype)

    def filled(self, value: bool | int | float, dtype: DType, dims: Dims) -> UOp:
        """One number everywhere, as a tensor with all its axes."""
        return full(self.table.const(value, dtype), dims)


# -- sizes -----------------------------------------------------------------------------------------------------------


def canonical(node: UOp) -> Dim:
    """The size in its simplest form; a constant as a number."""
    simple = simplify(node)
    return cast("int", simple.arg) if simple.op is Ops.CONST else simple


def plus(x: Dim, y: Dim) -> Dim:
    """The sum of two sizes."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x + y
        x, y = y, x
    return canonical(x + y)


def minus(x: Dim, y: Dim) -> Dim:
    """The difference of two sizes."""
    return plus(x, -y if isinstance(y, int) else y * -1)


def times(x: Dim, y: Dim) -> Dim:
    """The product of two sizes."""
    if isinstance(x, int):
        if isinstance(y, int):
            return x * y
        x, y = y, x
    return canonical(x * y)


def divided(x: Dim, by: int) -> Dim:
    """A size divided by a number, rounded down."""
    return x // by if isinstance(x, int) else canonical(x // by)


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = 1
    for dim in dims:
        total = times(total, dim)
    return total


def largest(dim: Dim) -> int:
    """The most that a size can be."""
    return dim if isinstance(dim, int) else dim.vmax


def most(dims: Iterable[Dim]) -> int:
    """The most elements that a tensor of these dims has."""
    return prod(map(largest, dims))


def room(dims: Sequence[Dim]) -> int:
    """The most elements that a tensor of these dims can have."""
    total = 1
    for dim in dims:
        total *= largest(dim)
    return total


def same_dims(x: Sequence[Dim], y: Sequence[Dim]) -> bool:
    """Whether sizes are equal, one by one (nodes by identity: they are canonical)."""
    return len(x) == len(y) and all(same_dim(a, b) for a, b in zip(x, y, strict=True))


def is_empty(dims: Sequence[Dim]) -> bool:
    """Whether a tensor of these dims certainly has no elements."""
    return any(isinstance(dim, int) and dim == 0 for dim in dims)


def check_size(type_: TensorType, op: str, location: Location | None) -> None:
    """A tensor has a largest size, and its bytes can be counted in 64 bits."""
    for symbol in type_.symbols():
        if symbol.hi >= UNBOUNDED:
            raise LoweringError(
                f"dim {symbol.name} of {type_} has no upper bound, so that no memory can be set aside",
                op=op,
                location=location,
                remedy=f"declare its bounds, as in {symbol.name} in 1..1024",
            )
    total = type_.dtype.itemsize
    for most in type_.max_shape:
        total *= most
    if total > _MOST_BYTES:
        named = ", ".join(sorted({repr(symbol) for symbol in type_.symbols()}))
        raise LoweringError(
            f"{type_} may take {total} bytes, more than 64 bits can count{f' ({named})' if named else ''}",
            op=op,
            location=location,
            remedy="lower the upper bounds of its dims" if named else "make it smaller",
        )


# -- movement --------------------------------------------------------------------------------------------------------


def view(place: UOp, dtype: DType, dims: Dims) -> UOp:
    """Flat memory as a value of these dims: its first elements, row by row."""
    flat = place.table.make(Ops.INDEX, dtype, (place,))
    used = shrink(flat, shape(flat), [(0, product(dims))])
    return place.table.make(Ops.RESHAPE, dtype, (used,), dims)


def reshape(x: UOp, dims: Dims) -> UOp:
    """The same elements in other dims."""
    return x if same_dims(shape(x), dims) else x.table.make(Ops.RESHAPE, x.dtype, (x,), dims)


def permute(x: UOp, order: Sequence[int]) -> UOp:
    """Axes reordered."""
    wanted = tuple(order)
    return x if wanted == tuple(range(len(wanted))) else x.table.make(Ops.PERMUTE, x.dtype, (x,), wanted)


def expand(x: UOp, dims: Dims) -> UOp:
    """Axes of size 1 repeated."""
    return x if same_dims(shape(x), dims) else x.table.make(Ops.EXPAND, x.dtype, (x,), dims)


def full(x: UOp, dims: Dims) -> UOp:
    """A tensor with all its axes: a scalar has none of its own, and goes with any shape."""
    return x if shape(x) or not dims else expand(reshape(x, (1,) * len(dims)), dims)


def flip(x: UOp, axes: Sequence[int]) -> UOp:
    """Some axes backwards."""
    flips = tuple(axis in axes for axis in range(len(shape(x))))
    return x.table.make(Ops.FLIP, x.dtype, (x,), flips) if any(flips) else x


def pad(x: UOp, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Zeros before and after, per axis."""
    if all(same_dim(before, 0) and same_dim(after, 0) for before, after in pairs):
        return x
    dims = tuple(plus(plus(before, dim), after) for dim, (before, after) in zip(shape(x), pairs, strict=True))
    return reshape(x.table.make(Ops.PAD, x.dtype, (x,), tuple(pairs)), dims)


def shrink(x: UOp, dims: Dims, pairs: Sequence[tuple[Dim, Dim]]) -> UOp:
    """Begin and end per axis; `dims` are those of x."""
    if all(same_dim(begin, 0) and same_dim(end, dim) for (begin, end), dim in zip(pairs, dims, strict=True)):
        return x
    sizes = tuple(minus(end, begin) for begin, end in pairs)
    return reshape(x.table.make(Ops.SHRINK, x.dtype, (x,), tuple(pairs)), sizes)
