"""Tables of nodes: where the nodes of a kernel are made, hash-consed.

Promises
* `Table.make` returns the one node with this op, dtype, sources and argument; a malformed one raises
  `GraphError` and leaves the table as it was. `-0.0`, NaN, `True`, `1` and `1.0` are distinct constants.
* A table belongs to one compilation and owns its nodes. Nothing global keeps a node alive; `Table.close` (or
  leaving its `with` block) breaks the cycle between nodes and table, so memory goes at once.
* `serial` counts creation, so it is a topological order: sources come before their users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self, cast

from planish import dtypes
from planish.dtypes import DType
from planish.errors import GraphError, PlanishError
from planish.uop.check import BY_VALUE, check
from planish.uop.constants import alike, exact_lanes, identity_of
from planish.uop.operators import Number
from planish.uop.ops import CONSTANTS, Axis, AxisType, Ops, Variable
from planish.uop.uop import KIND_CODE, UOp, form_of

_RANGE: Final = Ops.RANGE  # a member of an enum costs more to look up than a name
_CONST: Final = Ops.CONST
_WITH_DIMS: Final = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK})
"""Ops whose argument may hold nodes: symbolic sizes."""


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
            known = self._nodes.get(key)
        except TypeError as error:
            if isinstance(error, PlanishError):
                raise
            raise self._unhashable(op, src, arg) from None
        if known is None:
            return self._create(op, dtype, src, arg, key)
        if known.op is not op or (
            arg is not None and arg is not known.arg and not _same_types(known.arg, arg)
        ):
            # Python finds 1 == True == 1.0 and plain tuples equal to named ones; we do not
            self._check(op, dtype, src, arg)
            raise GraphError(
                f"{op_name(op)}: arg {arg!r} is not of the types of {known.arg!r}", op=op_name(op)
            )
        return known

    def remake(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """A node of this table over other sources. What is known to be well-formed of it is not checked again."""
        op, dtype, arg = node.op, node.dtype, node.arg
        key = (op, dtype, src, arg)
        nodes = self._nodes
        known = nodes.get(key)
        if known is not None and (arg is None or arg is known.arg):
            return known
        before = node.src
        if known is not None or not src or op in BY_VALUE or len(src) != len(before):
            return self.make(op, dtype, src, arg)
        form: int | None = node.form
        place = 0
        for new in src:  # counted: a zip takes as long as all the rest
            old = before[place]
            place += 1  # noqa: SIM113 - nor enumerate
            if new is not old:
                if type(new) is not UOp or new.dtype is not old.dtype or new.table is not self:
                    return self.make(op, dtype, src, arg)
                if new.op is not old.op:
                    form = None
        serial = self._serial
        nodes[key] = rebuilt = UOp(op, dtype, src, arg, self, serial, form)
        self._serial = serial + 1
        if op is _RANGE:
            self._loops.append(rebuilt)
        return rebuilt

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
        exact: object
        if op is _CONST:
            exact = dtype.scalar.const(cast("Number", arg))
            bits = identity_of(exact)
        else:
            if type(arg) is not tuple:
                raise GraphError(f"{op.name}: arg must be a tuple with a number per lane", op=op.name)
            exact, bits = exact_lanes(dtype.scalar, arg)
        key = (op, dtype, src, bits)
        constant = self._nodes.get(key)
        return constant if constant is not None else self._create(op, dtype, src, exact, key)

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
        if alike(dtype, lanes):
            return self.const(lanes[0], dtype.vec(len(lanes)))
        return self.make(Ops.VCONST, dtype.vec(len(lanes)), (), lanes)

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


__all__ = ["KIND_CODE", "Number", "Table", "UOp", "form_of"]
