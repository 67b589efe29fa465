"""UOp, the node of the kernel IR: immutable, equal exactly when identical; `node.Table` makes them.

Derived properties are computed iteratively, once, and cached: depth never meets Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

from planish import dtypes
from planish.dtypes import DType, Kind, PtrDType
from planish.errors import GraphError
from planish.scalars import FUNCTIONS
from planish.uop import bounds as intervals
from planish.uop import derived
from planish.uop.functions import OPS
from planish.uop.operators import Number, Operators
from planish.uop.ops import COMPARISONS, Ops

if TYPE_CHECKING:
    from planish.uop.node import Table

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
_MOST_SORTED: Final = 16
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


class UOp(Operators):
    """One micro-operation. Make them through a `Table` or by operators on nodes; never directly."""

    __slots__ = (
        "_bounds", "_key", "_order", "_ranges", "arg", "dtype", "form", "op", "serial", "src", "table",
    )  # fmt: skip

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
        self,
        op: Ops,
        dtype: DType,
        src: tuple[UOp, ...],
        arg: object,
        table: Table,
        serial: int,
        form: int | None = None,
    ) -> None:
        self.op = op
        self.dtype = dtype
        self.src = src
        self.arg = arg
        self.table = table
        self.serial = serial
        if form is None:
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
        self._bounds = self._ranges = self._key = self._order = None

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
        bounds = self._bounds
        return bounds if bounds is not None else intervals.fill(self)

    @property
    def vmin(self) -> int:
        """The least value the node can take."""
        bounds = self._bounds
        return (bounds if bounds is not None else self._interval())[0]

    @property
    def vmax(self) -> int:
        """The greatest value the node can take."""
        bounds = self._bounds
        return (bounds if bounds is not None else self._interval())[1]

    def _interval(self) -> tuple[int, int]:
        bounds = self.bounds
        if bounds is None:
            raise GraphError(f"{self.op.name} of dtype {self.dtype} has no integer bounds", op=self.op.name)
        return bounds

    @property
    def ranges(self) -> frozenset[UOp]:
        """The ranges open at this node: it is evaluated once per value of each."""
        ranges = self._ranges
        return ranges if ranges is not None else derived.fill_ranges(self)

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
        a constant sorts as its factor, other terms by the innermost range they depend on, a constant last.
        """
        order = self._order
        if order is None:
            derived.fill_orders(self)
            order = cast("tuple[int, ...]", self._order)
        return order

    def toposort(self, enter: Callable[[UOp], bool] | None = None) -> list[UOp]:
        """All nodes this one is made of, sources first, itself last; `enter` prunes what lies below a node."""
        if enter is None:
            return list(self.sorted_sources())
        seen = {self}
        nodes = [self]
        for node in nodes:
            if enter(node):
                for source in node.src:
                    if source not in seen:
                        seen.add(source)
                        nodes.append(source)
        nodes.sort(key=_serial)
        return nodes

    def sorted_sources(self) -> tuple[UOp, ...]:
        """The same without pruning, remembered for a while: one stage after another asks about one graph."""
        known = self.table.sorted
        kept = known.get(self)
        if kept is not None:
            return kept
        seen = {self}
        nodes = [self]
        for node in nodes:
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    nodes.append(source)
        nodes.sort(key=_serial)
        result = tuple(nodes)
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
        if op is None and dtype is None and arg is ... and type(src) is tuple:
            return self.table.remake(self, src)
        return self.table.make(
            self.op if op is None else op,
            self.dtype if dtype is None else dtype,
            self.src if src is None else src,
            self.arg if arg is ... else arg,
        )

    def alu(self, op: Ops, *others: UOp | Number) -> UOp:
        """`op` of this node and the others; numbers become constants of this node's dtype."""
        src = (self, *[other if type(other) is UOp else self._coerce(other, op) for other in others])
        if _COMPARES[op]:
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

    def _reflected(self, op: Ops, other: UOp | Number) -> UOp:
        return self._coerce(other, op).alu(op, self)

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
