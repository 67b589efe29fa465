"""UOp, the node of the kernel IR: immutable, hash-consed in a table, equal exactly when identical.

Promises
* `Table.make` returns the one node with this op, dtype, sources and argument; a malformed one raises
  `GraphError` and leaves the table as it was. `-0.0`, NaN, `True`, `1` and `1.0` are distinct constants.
* A table belongs to one compilation and owns its nodes. Nothing global keeps a node alive; `Table.close` (or
  leaving its `with` block) breaks the cycle between nodes and table, so memory goes at once.
* Derived properties are computed iteratively, once, and cached: depth never meets Python's recursion limit.
* `serial` counts creation, so it is a topological order: sources come before their users.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from types import TracebackType
from typing import Final, Self, cast

from planish import dtypes
from planish.dtypes import DType, Kind, PtrDType
from planish.errors import GraphError, PlanishError
from planish.scalars import FUNCTIONS
from planish.uop import bounds as intervals
from planish.uop import derived
from planish.uop.check import BY_VALUE, check
from planish.uop.functions import OPS
from planish.uop.ops import (
    COMPARISONS,
    CONSTANTS,
    Axis,
    AxisType,
    Ops,
    Variable,
)

Number = bool | int | float | complex

_serial: Final = attrgetter("serial")

KIND_CODE: Final = {
    Kind.VOID: 0,
    Kind.BOOL: 1,
    Kind.INT: 2,
    Kind.UINT: 3,
    Kind.FLOAT: 4,
    Kind.COMPLEX: 5,
    Kind.INDEX: 6,
}


_MOST_KINDS: Final = 4096


class _KindBits(dict[DType, int]):
    """DType → its kind, shifted to its place in a form; by identity, since an enum hashes slowly."""

    def __missing__(self, dtype: DType) -> int:
        if len(self) >= _MOST_KINDS:  # pointers to ever other sizes
            self.clear()
        self[dtype] = bits = KIND_CODE[dtype.kind] << 7
        return bits


_KIND_BITS: Final = _KindBits()
_RANGE: Final = Ops.RANGE  # a member of an enum costs more to look up than a name
_CONST: Final = Ops.CONST
_MOST_SORTED: Final = 16
_WITH_DIMS: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK})
"""Ops whose argument may hold nodes: symbolic sizes."""
_COMPARES: Final = tuple(op in COMPARISONS for op in Ops)


def form_of(op: Ops, dtype: DType, src: tuple[UOp, ...]) -> int:
    """What a matcher dispatches on, in one integer: op, dtype kind, ops of the first three sources.

    The kind is the operands' for a comparison (whose own dtype is always bool).
    """
    form = op | _KIND_BITS[src[0].dtype if _COMPARES[op] else dtype]
    count = len(src)
    if count:
        form |= (src[0].op + 1) << 10
        if count > 1:
            form |= (src[1].op + 1) << 17
            if count > 2:
                form |= (src[2].op + 1) << 24
    return form


class UOp:
    """One micro-operation. Make them through a `Table` or by operators on nodes; never directly."""

    __slots__ = (
        "_bounds",
        "_key",
        "_order",
        "_ranges",
        "arg",
        "dtype",
        "form",
        "op",
        "serial",
        "src",
        "table",
    )

    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: object
    table: Table
    serial: int
    form: int
    _bounds: tuple[int, int] | None
    _ranges: frozenset[UOp] | None
    _key: bytes | None
    _order: tuple[int, ...] | None

    def __init__(
        self, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: object, table: Table, serial: int
    ) -> None:
        self.op = op
        self.dtype = dtype
        self.src = src
        self.arg = arg
        self.table = table
        self.serial = serial
        # as `form_of`, written out: it is half of what a node costs
        form = op | _KIND_BITS[src[0].dtype if _COMPARES[op] else dtype]
        if src:
            form |= (src[0].op + 1) << 10
            count = len(src)
            if count > 1:
                form |= (src[1].op + 1) << 17
                if count > 2:
                    form |= (src[2].op + 1) << 24
        self.form = form
        self._bounds = None
        self._ranges = None
        self._key = None
        self._order = None

    def __reduce__(self) -> tuple[object, ...]:
        raise GraphError(
            f"a {self.op.name} node belongs to its table and cannot be copied or pickled",
            remedy="print it with planish.uop.text and parse it into another table",
        )

    def __repr__(self) -> str:
        arg = "" if self.arg is None else f", arg={self.arg!r}"
        arg = arg if len(arg) <= 120 else f"{arg[:119]}…"  # a list of hundreds of axes says no more
        return f"<{self.op.name} {self.dtype} #{self.serial}, {len(self.src)} sources{arg}>"

    # -- derived properties ------------------------------------------------------------------------------------

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The interval (both ends included) of an integer, index or bool node; None on other dtypes."""
        found = self._bounds
        return found if found is not None else intervals.fill(self)

    @property
    def vmin(self) -> int:
        """The least value the node can take."""
        return self._interval()[0]

    @property
    def vmax(self) -> int:
        """The greatest value the node can take."""
        return self._interval()[1]

    def _interval(self) -> tuple[int, int]:
        found = self.bounds
        if found is None:
            raise GraphError(f"{self.op.name} of dtype {self.dtype} has no integer bounds", op=self.op.name)
        return found

    @property
    def ranges(self) -> frozenset[UOp]:
        """The ranges open at this node: it is evaluated once per value of each."""
        if self._ranges is None:
            derived.fill_ranges(self)
        return cast("frozenset[UOp]", self._ranges)

    @property
    def key(self) -> bytes:
        """A digest of the content, equal in every process and table; names no serial."""
        if self._key is None:
            derived.fill_keys(self)
        return cast("bytes", self._key)

    @property
    def order(self) -> tuple[int, ...]:
        """A structural sort key: the same for the same content, whatever was built first.

        Variables and ranges come first, by name and axis, so that sums read from outer to inner; a product with
        a constant sorts as its factor, a constant last.
        """
        if self._order is None:
            derived.fill_orders(self)
        return cast("tuple[int, ...]", self._order)

    def toposort(self, enter: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """All nodes this one is made of, sources first, itself last; `enter` prunes what lies below a node."""
        if enter is None:
            return list(self.sorted_sources())
        seen = {self}
        found = [self]
        for node in found:
            if enter(node):
                for source in node.src:
                    if source not in seen:
                        seen.add(source)
                        found.append(source)
        found.sort(key=_serial)
        return found

    def sorted_sources(self) -> tuple[UOp, ...]:
        """The same without pruning, remembered for a while: one stage after another asks about one graph."""
        known = self.table.sorted
        kept = known.get(self)
        if kept is not None:
            return kept
        seen = {self}
        found = [self]
        for node in found:
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    found.append(source)
        found.sort(key=_serial)
        result = tuple(found)
        if len(known) >= _MOST_SORTED:
            known.clear()
        known[self] = result
        return result

    # -- making nodes from nodes -------------------------------------------------------------------------------

    def const_like(self, value: Number) -> UOp:
        """A constant of this node's dtype; integers wrap to it."""
        dtype = self.dtype
        if dtype.is_int:
            value = dtype.wrap(cast("int", value))
        return self.table.const(value, dtype)

    def replace(
        self,
        *,
        op: Ops | None = None,
        dtype: DType | None = None,
        src: tuple[UOp, ...] | None = None,
        arg: object = ...,
    ) -> UOp:
        """This node with some fields changed."""
        return self.table.make(
            self.op if op is None else op,
            self.dtype if dtype is None else dtype,
            self.src if src is None else src,
            self.arg if arg is ... else arg,
        )

    def alu(self, op: Ops, *others: UOp | Number) -> UOp:
        """`op` of this node and the others; numbers become constants of this node's dtype."""
        src = (self, *(self._coerce(other, op) for other in others))
        if op in COMPARISONS:
            dtype = dtypes.bool_.vec(self.dtype.lanes)
        elif op is Ops.WHERE:
            dtype = src[1].dtype
        else:
            dtype = self.dtype
        return self.table.make(op, dtype, src)

    def _coerce(self, other: UOp | Number, op: Ops) -> UOp:
        if isinstance(other, UOp):
            return other
        if isinstance(other, bool | int | float | complex):
            return self.table.const(other, self.dtype)
        raise GraphError(
            f"{op.name}: an operand must be a UOp or a number, not {type(other).__name__}", op=op.name
        )

    def _call_scalar(self, name: str, *others: UOp) -> UOp:
        """A scalar function: what its record calls."""
        op = OPS.get(name)
        if op is not None:
            return self.alu(op, *others)
        formula = FUNCTIONS[name].formula
        if formula is None:
            raise GraphError(f"the kernel IR has no op {name}, and its record no formula")
        return cast("UOp", formula(self, *others))

    def where(self, x: UOp | Number, y: UOp | Number) -> UOp:
        """x where this condition holds, else y. At least one of them is a node."""
        if isinstance(x, UOp):
            return self.table.make(Ops.WHERE, x.dtype, (self, x, x._coerce(y, Ops.WHERE)))
        if isinstance(y, UOp):
            return self.table.make(Ops.WHERE, y.dtype, (self, y._coerce(x, Ops.WHERE), y))
        raise GraphError("WHERE: one of the branches must be a UOp, to know the dtype", op="WHERE")

    def cast(self, dtype: DType) -> UOp:
        """The value converted to the scalar type, lane by lane; itself if it has it already."""
        wanted = dtype.scalar.vec(self.dtype.lanes)
        return self if wanted is self.dtype else self.table.make(Ops.CAST, wanted, (self,))

    def bitcast(self, dtype: DType) -> UOp:
        """The bits reinterpreted."""
        return self if dtype is self.dtype else self.table.make(Ops.BITCAST, dtype, (self,))

    def gep(self, *lanes: int) -> UOp:
        """The selected lanes."""
        return self.table.make(Ops.GEP, self.dtype.scalar.vec(len(lanes)), (self,), lanes)

    def index(self, *indices: UOp, gate: UOp | None = None) -> UOp:
        """The element of this buffer at the indices, as a value."""
        if not isinstance(self.dtype, PtrDType):
            raise GraphError(f"INDEX: the first source must be a buffer, not {self.dtype}", op="INDEX")
        src = (self, *indices) if gate is None else (self, *indices, gate)
        return self.table.make(Ops.INDEX, self.dtype.base, src)

    def reduce(self, op: Ops, *ranges: UOp) -> UOp:
        """This value combined by `op` over the ranges."""
        return self.table.make(Ops.REDUCE, self.dtype, (self, *ranges), op)

    def after(self, *effects: UOp) -> UOp:
        """This value, observed after the effects."""
        return self.table.make(Ops.AFTER, self.dtype, (self, *effects))

    def end(self, *ranges: UOp) -> UOp:
        """This effect for all values of the ranges."""
        return self.table.make(Ops.END, self.dtype, (self, *ranges))

    def store(self, value: UOp) -> UOp:
        """The effect of writing a value at this place."""
        return self.table.make(Ops.STORE, dtypes.void, (self, value))

    def prefetch(self, locality: int = 3) -> UOp:
        """The effect of telling the caches that this place will be read; from 0, once, to 3, again and again."""
        return self.table.make(Ops.PREFETCH, dtypes.void, (self,), locality)

    def eq(self, other: UOp | Number) -> UOp:
        """self == other, as a node (Python's == is identity)."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: UOp | Number) -> UOp:
        """self != other, as a node."""
        return self.alu(Ops.CMPNE, other)

    def max(self, other: UOp | Number) -> UOp:
        """The greater of the two."""
        return self.alu(Ops.MAX, other)

    def min(self, other: UOp | Number) -> UOp:
        """The smaller of the two."""
        return self.alu(Ops.MIN, other)

    def logical_not(self) -> UOp:
        """not self, on bools."""
        return self.alu(Ops.NOT)

    def __add__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.ADD, other)

    def __sub__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SUB, other)

    def __mul__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.MUL, other)

    def __floordiv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORDIV, other)

    def __mod__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FLOORMOD, other)

    def __truediv__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.FDIV, other)

    def __pow__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.POW, other)

    def __and__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.AND, other)

    def __or__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.SHR, other)

    def __radd__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.ADD).alu(Ops.ADD, self)

    def __rsub__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.SUB).alu(Ops.SUB, self)

    def __rmul__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.MUL).alu(Ops.MUL, self)

    def __rfloordiv__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.FLOORDIV).alu(Ops.FLOORDIV, self)

    def __rmod__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.FLOORMOD).alu(Ops.FLOORMOD, self)

    def __rtruediv__(self, other: Number) -> UOp:
        return self._coerce(other, Ops.FDIV).alu(Ops.FDIV, self)

    def __lt__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLT, other)

    def __le__(self, other: UOp | Number) -> UOp:
        return self.alu(Ops.CMPLE, other)

    def __gt__(self, other: UOp | Number) -> UOp:
        return self._coerce(other, Ops.CMPLT).alu(Ops.CMPLT, self)

    def __ge__(self, other: UOp | Number) -> UOp:
        return self._coerce(other, Ops.CMPLE).alu(Ops.CMPLE, self)

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Ops.NOT)

    def __bool__(self) -> bool:
        raise GraphError(
            f"a {self.op.name} node has no truth value while the program is being built",
            remedy="use .where(x, y) to choose, .eq() or `is` to compare",
        )


class Table:
    """The nodes of one compilation. Use as a context manager, or call `close` when done."""

    __slots__ = ("_loops", "_nodes", "_serial", "memos", "sorted")

    _nodes: dict[tuple[object, ...], UOp]
    _loops: list[UOp]
    """The RANGEs among them."""
    _serial: int
    memos: dict[object, dict[UOp, UOp]]
    """Results of context-free matchers, by matcher: what is simplified once stays simplified."""
    sorted: dict[UOp, tuple[UOp, ...]]
    """What `UOp.sorted_sources` found lately."""

    def __init__(self) -> None:
        self._nodes = {}
        self._loops = []
        self._serial = 0
        self.memos = {}
        self.sorted = {}

    def __repr__(self) -> str:
        return f"<table of {len(self._nodes)} nodes>"

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[UOp]:
        return iter(self._nodes.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget every node; those still referenced elsewhere stay readable."""
        for node in self._loops:
            node._ranges = None  # a range is open in itself: the one cycle a node can be part of
        self._loops.clear()
        self._nodes.clear()
        self.memos.clear()
        self.sorted.clear()

    def make(self, op: Ops, dtype: DType, src: tuple[UOp, ...] = (), arg: object = None) -> UOp:
        """The node with these fields, made if it is new."""
        try:
            if arg is not None and op in CONSTANTS and isinstance(dtype, DType):
                return self._make_constant(op, dtype, src, arg)
            key = (op, dtype, src, arg)
            found = self._nodes.get(key)
        except TypeError as error:
            if isinstance(error, PlanishError):
                raise
            raise self._unhashable(op, src, arg) from None
        if found is None:
            return self._create(op, dtype, src, arg, key)
        if found.op is not op or (
            arg is not None and arg is not found.arg and not _same_types(found.arg, arg)
        ):
            # Python finds 1 == True == 1.0 and plain tuples equal to named ones; we do not
            self._check(op, dtype, src, arg)
            raise GraphError(
                f"{op_name(op)}: arg {arg!r} is not of the types of {found.arg!r}", op=op_name(op)
            )
        return found

    def remake(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """A node of this table over other sources. What is known to be well-formed of it is not checked again."""
        op, dtype, arg = node.op, node.dtype, node.arg
        key = (op, dtype, src, arg)
        found = self._nodes.get(key)
        if found is not None and (arg is None or arg is found.arg):
            return found
        if found is not None or not src or op in BY_VALUE or len(src) != len(node.src):
            return self.make(op, dtype, src, arg)
        for old, new in zip(node.src, src, strict=False):
            if new is not old and (new.dtype is not old.dtype or new.table is not self):
                return self.make(op, dtype, src, arg)
        serial = self._serial
        self._nodes[key] = made = UOp(op, dtype, src, arg, self, serial)
        self._serial = serial + 1
        if op is _RANGE:
            self._loops.append(made)
        return made

    def _create(
        self, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: object, key: tuple[object, ...]
    ) -> UOp:
        self._check(op, dtype, src, arg)
        serial = self._serial
        node = UOp(op, dtype, src, arg, self, serial)
        self._nodes[key] = node
        self._serial = serial + 1
        if op is _RANGE:
            self._loops.append(node)
        return node

    def _check(self, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: object) -> None:
        """Raise unless these make a node of this table."""
        if type(src) is not tuple:
            raise self._unhashable(op, src, arg)
        for source in src:
            if type(source) is not UOp or source.table is not self:
                raise self._stranger(op, src)
        if type(op) is not Ops:
            raise GraphError(f"unknown op {op!r}", remedy="use a member of planish.uop.Ops")
        if not isinstance(dtype, DType):
            raise GraphError(f"{op.name}: dtype must be a planish dtype, not {dtype!r}", op=op.name)
        check(op, dtype, src, arg)
        if op in _WITH_DIMS:
            for dim in _flat(cast("tuple[object, ...]", arg)):
                if type(dim) is UOp and dim.table is not self:
                    raise GraphError(f"{op.name}: a dim in arg belongs to another table", op=op.name)

    def _stranger(self, op: object, src: tuple[object, ...]) -> GraphError:
        """The error for a source that is no node, or not of this table."""
        name, what, remedy = op_name(op), "", "pass UOps"
        for position, source in enumerate(src):
            if not isinstance(source, UOp):
                what = f"source {position} must be a UOp, not {type(source).__name__}"
            elif source.table is not self:
                what = f"source {position} ({source.op.name}) belongs to another table"
                remedy = "build one kernel in one table"
        return GraphError(f"{name}: {what}", op=name, remedy=remedy)

    @staticmethod
    def _unhashable(op: object, src: object, arg: object) -> GraphError:
        if not isinstance(op, int):
            return GraphError(f"unknown op {op!r}", remedy="use a member of planish.uop.Ops")
        what = (
            "sources must be a tuple of UOps"
            if not isinstance(src, tuple)
            else f"arg {arg!r} is not hashable"
        )
        return GraphError(f"{op_name(op)}: {what}", op=op_name(op), remedy="use tuples and frozen values")

    def _make_constant(self, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: object) -> UOp:
        if type(arg) is int:  # mostly an integer that is there already; of other dtypes the key is another
            known = self._nodes.get((op, dtype, src, arg))
            if known is not None and type(known.arg) is int:
                return known
        if dtype.is_pointer or dtype is dtypes.void:
            raise GraphError(f"{op.name}: a constant cannot be {dtype}", op=op.name)
        scalar = dtype.scalar
        exact: object
        if op is _CONST:
            exact = scalar.const(cast("Number", arg))
            bits = _bits(exact)
        else:
            if type(arg) is not tuple:
                raise GraphError(f"{op.name}: arg must be a tuple with a number per lane", op=op.name)
            exact = tuple(scalar.const(value) for value in arg)
            bits = tuple(_bits(value) for value in exact)
        key = (op, dtype, src, bits)
        found = self._nodes.get(key)
        return found if found is not None else self._create(op, dtype, src, exact, key)

    # -- leaves ------------------------------------------------------------------------------------------------

    def const(self, value: Number, dtype: DType = dtypes.index) -> UOp:
        """A constant, exact in its dtype; in every lane of a vector dtype."""
        return self.make(_CONST, dtype, (), value)

    def vconst(self, values: Iterable[Number], dtype: DType = dtypes.index) -> UOp:
        """A constant per lane; `dtype` is the scalar type."""
        lanes = tuple(values)
        return self.make(Ops.VCONST, dtype.vec(len(lanes)), (), lanes)

    def lanes(self, values: Iterable[Number], dtype: DType = dtypes.index) -> UOp:
        """The constant of these lanes: CONST if they are all alike, so that equal vectors are one node, or else VCONST."""
        lanes = tuple(values)
        alike = len({_bits(dtype.const(value)) for value in lanes}) == 1
        return self.const(lanes[0], dtype.vec(len(lanes))) if alike else self.vconst(lanes, dtype)

    def range(
        self, bound: int | UOp, axis: int | tuple[int, ...] | Axis, kind: AxisType = AxisType.LOOP
    ) -> UOp:
        """0 ≤ i < bound. An axis is named by a path; one that is complete has its own kind."""
        end = bound if isinstance(bound, UOp) else self.const(bound)
        if not isinstance(axis, Axis):
            axis = Axis((axis,) if isinstance(axis, int) else axis, kind)
        return self.make(Ops.RANGE, end.dtype, (end,), axis)

    def variable(self, name: str, low: int, high: int, dtype: DType = dtypes.index) -> UOp:
        """A named integer within bounds, both included."""
        return self.make(Ops.DEFINE_VAR, dtype, (), Variable(name, low, high))

    def invalid(self, dtype: DType = dtypes.index) -> UOp:
        """The index that is nowhere."""
        return self.make(Ops.INVALID, dtype)

    def param(self, slot: int, dtype: DType, size: int) -> UOp:
        """A global buffer that the kernel is called with."""
        return self.make(Ops.DEFINE_GLOBAL, dtype.ptr(size), (), slot)

    def sink(self, *effects: UOp) -> UOp:
        """The root of a kernel."""
        return self.make(Ops.SINK, dtypes.void, effects)


def op_name(op: object) -> str:
    """The name of an op, or what was given in place of one."""
    return op.name if type(op) is Ops else repr(op)


def _same_types(left: object, right: object) -> bool:
    """Whether two equal arguments are of the same types all through."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if not isinstance(left, tuple):
        return True
    others = cast("tuple[object, ...]", right)
    kinds = list(map(type, left))
    if kinds != list(map(type, others)):
        return False
    return not any(issubclass(kind, tuple) for kind in set(kinds)) or all(map(_same_types, left, others))


def _flat(arg: tuple[object, ...]) -> Iterator[object]:
    for item in arg:
        if type(item) is tuple:
            yield from item
        else:
            yield item


def _bits(value: object) -> object:
    """A hashable form in which distinct constants differ and equal ones are equal."""
    if type(value) is float:
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if type(value) is complex:
        return (_bits(value.real), _bits(value.imag))
    return value


__all__ = ["Number", "Table", "UOp", "form_of"]
