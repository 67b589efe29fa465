"""Nodes that a rule's left side might match, made at random from its pattern.

Names become variables with assorted small bounds, ranges, values in memory or small expressions of those; constants
come from a small set with both signs, powers of two and the extremes of the dtype. The choice of a dtype that does
not fit a sub-pattern raises `Unfit`: the caller tries again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from itertools import count

from planish import dtypes
from planish.dtypes import DType, Kind, PtrDType
from planish.errors import PlanishError
from planish.uop.hardware_index import HardwareIndex, IndexKind
from planish.uop.matcher import Rule
from planish.uop.node import Number, Table, UOp
from planish.uop.ops import ALU, COMPARISONS, CONSTANTS, DTypeLaw, Ops
from planish.uop.pattern import NodePattern, anything

SCALARS: tuple[DType, ...] = (
    dtypes.index, dtypes.int8, dtypes.uint8, dtypes.int4, dtypes.bool_, dtypes.float32, dtypes.float16,
)  # fmt: skip
"""One or two of each kind, small enough to look at all values."""
RARE: tuple[DType, ...] = (dtypes.int32, dtypes.uint16, dtypes.bfloat16, dtypes.float64, dtypes.float8_e5m2)
BOUNDS = [
    (0, 3),
    (0, 7),
    (-3, 4),
    (1, 4),
    (-4, -1),
    (0, 1),
    (2, 5),
    (-1, 1),
    (0, 5),
    (-7, 0),
    (3, 3),
    (0, 11),
]
SMALL = [
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    12,
    15,
    16,
    24,
    32,
    63,
    64,
    -1,
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -8,
    -12,
    -16,
]
REALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -0.25,
    3.0,
    -3.0,
    0.1,
    4.0,
    math.inf,
    -math.inf,
    math.nan,
    1e-30,
    65504.0,
    7.0,
]
MOST_VARIABLES = 4
SIZE = 16
VOID_OPS = frozenset({Ops.SINK, Ops.GROUP, Ops.BARRIER, Ops.STORE, Ops.END, Ops.NOOP})


class Unfit(Exception):
    """This choice does not make a node; another may."""


def fits(op: Ops, dtype: DType) -> bool:
    """Whether an ALU op can have this result dtype."""
    law = op.law
    if op in COMPARISONS:
        return dtype.is_bool
    if law is DTypeLaw.FLOAT:
        return dtype.is_float
    if law is DTypeLaw.INTEGRAL:
        return dtype.is_integral and (op is not Ops.THREEFRY or dtype is dtypes.uint64)
    if law is DTypeLaw.BITS:
        return dtype.is_integral or dtype.is_bool
    return op in (Ops.WHERE, Ops.MAX, Ops.MIN) or not dtype.is_bool


class Maker:
    """One attempt: a table of its own names, a source of randomness, and how elaborate leaves may be."""

    def __init__(self, table: Table, rng: random.Random, depth: int) -> None:
        self.table = table
        self.rng = rng
        self.depth = depth
        self.names: dict[str, UOp] = {}
        self.known: dict[DType, list[UOp]] = {}
        self.variables: list[UOp] = []
        self.stored = 0  # integers over their whole dtype: few, so that all values can be looked at
        self.slots = count()

    # -- patterns ------------------------------------------------------------------------------------------------

    def make(self, pattern: NodePattern, dtype: DType) -> UOp:
        """A node of this dtype that the pattern matches, guards aside."""
        if pattern.name is not None and pattern.name in self.names:
            node = self.names[pattern.name]
            if node.dtype is not dtype:
                raise Unfit
            return node
        node = self._make(pattern, dtype)
        if pattern.name is not None:
            self.names[pattern.name] = node
        return node

    def _make(self, pattern: NodePattern, dtype: DType) -> UOp:
        compares = pattern.ops is not None and pattern.ops <= COMPARISONS
        if pattern.kinds is not None and not compares and dtype.kind not in pattern.kinds:
            raise Unfit
        if pattern.ops is None:
            return self.leaf(dtype)
        op = self.rng.choice([op for op in pattern.ops if op not in ALU or fits(op, dtype)] or [None])
        if op is None:
            raise Unfit
        if op in CONSTANTS:
            return self._constant(op, pattern, dtype)
        build = getattr(self, f"_make_{op.name.lower()}", None)
        if build is not None:
            made: UOp = build(pattern, dtype)
            return made
        if op in ALU:
            return self._alu(op, pattern, dtype)
        raise Unfit

    def _sources(self, pattern: NodePattern, least: int) -> list[NodePattern]:
        """The patterns of the sources, filled up with anything."""
        given = list(pattern.sources or ())
        if pattern.sources is None or pattern.rest:
            given += [anything() for _ in range(least - len(given))]
        if len(given) < least:
            raise Unfit
        return given

    def _alu(self, op: Ops, pattern: NodePattern, dtype: DType) -> UOp:
        sources = self._sources(pattern, op.min_sources)
        operand = dtype
        if op in COMPARISONS:
            kinds = pattern.kinds
            if not dtype.is_bool:
                raise Unfit
            operand = self._bound_dtype(sources) or self.scalar(kinds).vec(dtype.lanes)
            if kinds is not None and operand.kind not in kinds:
                raise Unfit
        src = tuple(self.make(source, operand) for source in sources)
        return self.table.make(op, dtype, src)

    def _bound_dtype(self, sources: Iterable[NodePattern]) -> DType | None:
        """The dtype of a source that is bound already."""
        for source in sources:
            if source.name is not None and source.name in self.names:
                return self.names[source.name].dtype
        return None

    def scalar(self, kinds: frozenset[Kind] | None) -> DType:
        """A scalar dtype of one of the kinds."""
        pool = SCALARS if self.rng.random() < 0.9 else RARE
        return self.rng.choice([d for d in pool if kinds is None or d.kind in kinds] or list(SCALARS))

    def _make_where(self, pattern: NodePattern, dtype: DType) -> UOp:
        condition, x, y = self._sources(pattern, 3)
        chosen = self.make(condition, dtypes.bool_.vec(dtype.lanes))
        return self.table.make(Ops.WHERE, dtype, (chosen, self.make(x, dtype), self.make(y, dtype)))

    def _make_cast(self, pattern: NodePattern, dtype: DType) -> UOp:
        (source,) = self._sources(pattern, 1)
        given = self._bound_dtype([source]) or self.scalar(source.kinds).vec(dtype.lanes)
        if given.lanes != dtype.lanes or (given.is_float and dtype.is_index):
            raise Unfit
        if self.rng.random() < 0.1:
            given = dtype
        return self.table.make(Ops.CAST, dtype, (self.make(source, given),))

    def _make_bitcast(self, pattern: NodePattern, dtype: DType) -> UOp:
        (source,) = self._sources(pattern, 1)
        same = [d for d in (*SCALARS, *RARE, dtypes.uint32, dtypes.int16) if d.bits == dtype.bits]
        given = self._bound_dtype([source]) or self.rng.choice(same or [dtypes.void]).vec(dtype.lanes)
        if given.kind is Kind.VOID or given.is_bool or dtype.is_bool or not dtype.bits:
            raise Unfit
        return self.table.make(Ops.BITCAST, dtype, (self.make(source, given),))

    def _make_gep(self, pattern: NodePattern, dtype: DType) -> UOp:
        (source,) = self._sources(pattern, 1)
        bound = self._bound_dtype([source])
        lanes = bound.lanes if bound is not None else self.rng.choice([1, 2, 3, 4])
        x = self.make(source, bound or dtype.scalar.vec(lanes))
        if x.dtype.scalar is not dtype.scalar:
            raise Unfit
        choices = [tuple(self.rng.randrange(lanes) for _ in range(dtype.lanes))]
        choices += [tuple(range(dtype.lanes))] if dtype.lanes <= lanes else []
        arg = pattern.arg if pattern.arg is not ... else self.rng.choice(choices)
        return self.table.make(Ops.GEP, dtype, (x,), arg)

    def _make_vectorize(self, pattern: NodePattern, dtype: DType) -> UOp:
        sources = self._sources(pattern, dtype.lanes)
        if len(sources) != dtype.lanes:
            raise Unfit
        if pattern.sources is None and dtype.lanes > 1 and self.rng.random() < 0.5:
            wide = self.leaf(dtype.scalar.vec(self.rng.choice([2, 3, 4])))
            gep = [wide.gep(self.rng.randrange(wide.dtype.lanes)) for _ in sources]
            const = [self._constant(Ops.CONST, anything(), dtype.scalar) for _ in sources]
            return self.table.make(Ops.VECTORIZE, dtype, tuple(self.rng.choice([gep, const])))
        return self.table.make(Ops.VECTORIZE, dtype, tuple(self.make(s, dtype.scalar) for s in sources))

    def _make_cat(self, pattern: NodePattern, dtype: DType) -> UOp:
        sources = list(
            pattern.sources or [anything() for _ in range(self.rng.randint(1, min(3, dtype.lanes)))]
        )
        if len(sources) > dtype.lanes or (pattern.rest and dtype.lanes > 1 and self.rng.random() < 0.5):
            raise Unfit
        cuts = sorted(self.rng.sample(range(1, dtype.lanes), len(sources) - 1))
        sizes = [end - start for start, end in zip([0, *cuts], [*cuts, dtype.lanes], strict=True)]
        parts = []
        for source, size in zip(sources, sizes, strict=True):
            part = dtype.scalar.vec(size)
            kind = self.rng.randrange(4) if source.ops is None and size > 1 else 3
            if kind == 0:
                parts.append(self._make_cat(anything(), part))
            elif kind == 1:
                parts.append(self._make_gep(anything(), part))
            elif kind == 2 and not any(p.op not in CONSTANTS for p in parts):
                parts.append(self._constant(Ops.VCONST, anything(), part))
            else:
                parts.append(self.make(source, part))
        return self.table.make(Ops.CAT, dtype, tuple(parts))

    def _make_range(self, pattern: NodePattern, dtype: DType) -> UOp:
        if not dtype.is_index:
            raise Unfit
        bound = (
            self.make(self._sources(pattern, 1)[0], dtype)
            if pattern.sources
            else self.table.const(self.rng.randint(1, 4))
        )
        return self.table.range(bound, 20 + next(self.slots))

    def _make_special(self, pattern: NodePattern, dtype: DType) -> UOp:
        if not dtype.is_index:
            raise Unfit
        return self.table.make(
            Ops.SPECIAL,
            dtype,
            (self.table.const(self.rng.randint(1, 6)),),
            HardwareIndex(IndexKind.BLOCK, next(self.slots)),
        )

    def _make_define_var(self, pattern: NodePattern, dtype: DType) -> UOp:
        if not dtype.is_integral or dtype.lanes > 1:
            raise Unfit
        return self._variable(dtype)

    def _make_invalid(self, pattern: NodePattern, dtype: DType) -> UOp:
        if not dtype.is_integral:
            raise Unfit
        return self.table.make(Ops.INVALID, dtype)

    def _make_noop(self, pattern: NodePattern, dtype: DType) -> UOp:
        return self.table.make(Ops.NOOP, dtype, (self.make(self._sources(pattern, 1)[0], dtype),))

    def _make_after(self, pattern: NodePattern, dtype: DType) -> UOp:
        first, *rest = self._sources(pattern, 2)
        effects = [self.make(s, dtypes.void) if s.ops is not None else self.effect() for s in rest]
        return self.table.make(Ops.AFTER, dtype, (self.make(first, dtype), *effects))

    def _make_store(self, pattern: NodePattern, dtype: DType) -> UOp:
        rng = self.rng
        where, what, *gate = self._sources(pattern, rng.choice([2, 2, 3]))
        element = rng.choice([dtypes.float32, dtypes.int8, dtypes.uint8])
        wanted = rng.choice([element, element.ptr(SIZE)])
        if where.ops is None and where.name not in self.names:
            place = self.place(element, wanted)
            self.names.update({where.name: place} if where.name else {})
        else:
            place = self.make(where, wanted)
        value = self.make(what, element)
        return self.table.make(
            Ops.STORE, dtypes.void, (place, value, *(self.make(g, dtypes.bool_) for g in gate[:1]))
        )

    def _bundle(self, op: Ops, pattern: NodePattern) -> UOp:
        if pattern.sources is not None and not pattern.rest:
            return self.table.make(op, dtypes.void, tuple(self.make(s, dtypes.void) for s in pattern.sources))
        rng = self.rng
        members = [self.effect() for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.5:
            members.append(self.table.make(Ops.GROUP, dtypes.void, tuple(members[:1])))
        if rng.random() < 0.3:
            members.append(self.table.make(Ops.NOOP, dtypes.void))
        if members and rng.random() < 0.3:
            members.append(members[0])
        return self.table.make(op, dtypes.void, tuple(members))

    def _make_group(self, pattern: NodePattern, dtype: DType) -> UOp:
        return self._bundle(Ops.GROUP, pattern)

    def _make_sink(self, pattern: NodePattern, dtype: DType) -> UOp:
        return self._bundle(Ops.SINK, pattern)

    def _make_barrier(self, pattern: NodePattern, dtype: DType) -> UOp:
        return self._bundle(Ops.BARRIER, pattern)

    def _make_end(self, pattern: NodePattern, dtype: DType) -> UOp:
        first = pattern.sources[0] if pattern.sources else None
        ranges = [self.rng.choice([self.range(), self.table.const(0)]) for _ in range(self.rng.randint(0, 2))]
        self.known.setdefault(dtypes.index, []).extend(r for r in ranges if r.op is Ops.RANGE)
        body = self.leaf(dtype) if first is None else self.make(first, dtype)
        return self.table.make(Ops.END, dtype, (body, *ranges))

    def _make_reduce(self, pattern: NodePattern, dtype: DType) -> UOp:
        first, *rest = self._sources(pattern, 2)
        ranges = [self.make(s, dtypes.index) if s.ops is not None else self.range() for s in rest]
        if any(r.op is not Ops.RANGE for r in ranges):
            raise Unfit
        # The body may use what the reduction closes.
        for r in ranges:
            self.known.setdefault(dtypes.index, []).append(r)
        ops = [Ops.MAX, Ops.MIN] + ([] if dtype.is_bool else [Ops.ADD, Ops.MUL])
        ops += [Ops.AND, Ops.OR, Ops.XOR] if not dtype.is_float else []
        arg = pattern.arg if pattern.arg is not ... else self.rng.choice(ops)
        return self.table.make(Ops.REDUCE, dtype, (self.make(first, dtype), *ranges), arg)

    def _make_index(self, pattern: NodePattern, dtype: DType) -> UOp:
        element = dtype.base if isinstance(dtype, PtrDType) else dtype
        if element.is_index or element.lanes > 1 or element.kind is Kind.VOID:
            raise Unfit
        if pattern.sources is not None and len(pattern.sources) > 1:
            raise Unfit
        return self.place(element, dtype)

    def place(self, element: DType, dtype: DType) -> UOp:
        """An element of a buffer at an index that may be gated in all the ways there are."""
        rng, table = self.rng, self.table
        buffer = table.param(next(self.slots), element, SIZE)
        index = self.leaf(dtypes.index)
        inside = (index >= 0) & (index < SIZE)
        choice = rng.randrange(6)
        if choice == 0:
            return table.make(Ops.INDEX, dtype, (buffer, table.invalid()))
        if choice == 1:
            return table.make(Ops.INDEX, dtype, (buffer, inside.where(index, table.invalid())))
        if index.vmin < 0 or index.vmax >= SIZE:
            index = index.max(0).min(SIZE - 1)
        if choice == 2:
            return table.make(
                Ops.INDEX, dtype, (buffer, index, table.const(rng.random() < 0.5, dtypes.bool_))
            )
        if choice == 3:
            return table.make(Ops.INDEX, dtype, (buffer, index, self.leaf(dtypes.bool_)))
        return table.make(Ops.INDEX, dtype, (buffer, index))

    def _make_load(self, pattern: NodePattern, dtype: DType) -> UOp:
        if dtype.is_index or dtype.lanes > 1:
            raise Unfit
        place, *rest = self._sources(
            pattern, 1 if pattern.sources is not None else self.rng.choice([1, 2, 3])
        )
        if place.name is not None and place.name in self.names:
            where = self.names[place.name]
        elif place.ops is None:
            where = self.place(dtype, dtype.ptr(SIZE))
        else:
            where = self.make(place, dtype.ptr(SIZE))
        given = [
            self.make(s if s.ops is None or len(s.ops) < len(Ops) else anything(s.name), d)
            for s, d in zip(rest, (dtype, dtypes.bool_), strict=False)
        ]
        return self.table.make(Ops.LOAD, dtype, (where, *given))

    def _constant(self, op: Ops, pattern: NodePattern, dtype: DType) -> UOp:
        try:
            if op is Ops.VCONST:
                if dtype.lanes == 1:
                    raise Unfit
                arg = (
                    tuple(self.number(dtype) for _ in range(dtype.lanes))
                    if pattern.arg is ...
                    else pattern.arg
                )
                return self.table.make(Ops.VCONST, dtype, (), arg)
            value = self.number(dtype) if pattern.arg is ... else pattern.arg
            return self.table.make(Ops.CONST, dtype, (), value)
        except PlanishError:
            raise Unfit from None

    # -- leaves --------------------------------------------------------------------------------------------------

    def number(self, dtype: DType) -> Number:
        """A constant of the scalar type."""
        if dtype.is_bool:
            return self.rng.random() < 0.5
        if dtype.is_float or dtype.is_complex:
            return dtype.scalar.const(self.rng.choice(REALS))
        value = self.rng.choice(SMALL)
        if dtype.is_index:
            return value
        low, high = int(dtype.min or 0), int(dtype.max or 0)
        if self.rng.random() < 0.2:
            return self.rng.choice(
                [low, low + 1, high, high - 1, dtype.wrap(1 << dtype.bits - 1), 1 << dtype.bits // 2 - 1]
            )
        return value if low <= value <= high else dtype.wrap(value)

    def leaf(self, dtype: DType, depth: int | None = None) -> UOp:
        """Anything of this dtype."""
        rng = self.rng
        depth = self.depth if depth is None else depth
        if dtype.kind is Kind.VOID:
            return self.effect()
        known = self.known.setdefault(dtype, [])
        if known and rng.random() < 0.3:
            return rng.choice(known)
        if dtype.lanes > 1:
            one = self.leaf(dtype.scalar, depth)
            lanes = tuple(
                one if rng.random() < 0.3 else self.leaf(dtype.scalar, depth) for _ in range(dtype.lanes)
            )
            lanes = (one,) * dtype.lanes if rng.random() < 0.3 else lanes
            node = self.table.make(Ops.VECTORIZE, dtype, lanes)
        elif depth > 0 and rng.random() < 0.6:
            node = self.expression(dtype, depth - 1)
        elif rng.random() < 0.1:
            return self.table.const(self.number(dtype), dtype)
        elif dtype.is_integral:
            node = self._variable(dtype)
        else:
            node = self._stored(dtype)
        known.append(node)
        return node

    def _stored(self, dtype: DType) -> UOp:
        """A free value: an element of memory."""
        return self.table.param(next(self.slots), dtype, 4).index(self.table.const(0))

    def _variable(self, dtype: DType) -> UOp:
        rng = self.rng
        most = (
            0 if not dtype.is_int or dtype.bits > 8 else 3 if dtype.bits < 8 else 2 if self.depth == 0 else 1
        )
        if self.stored < most and rng.random() < 0.5:
            self.stored += 1
            return self._stored(dtype)
        same = [v for v in self.variables if v.dtype is dtype]
        if len(self.variables) >= MOST_VARIABLES and same:
            return rng.choice(same)
        if dtype.is_index and rng.random() < 0.2:
            return self.range()
        low, high = rng.choice(BOUNDS)
        if dtype.is_unsigned:
            low, high = max(low, 0), max(high, 1)
        if dtype.is_int:
            least, most = int(dtype.min or 0), int(dtype.max or 0)
            low, high = max(low, least), min(high, most)
            if rng.random() < 0.2:
                low, high = rng.choice([(least, least + 5), (most - 4, most)])
        node = self.table.variable(
            f"{dtype.short}_{'uvwxyz'[len(self.variables) % 6]}{len(self.variables)}", low, high, dtype
        )
        self.variables.append(node)
        return node

    def range(self) -> UOp:
        """A range, sometimes below a symbolic bound."""
        rng = self.rng
        bounds = [v for v in self.variables if v.op is Ops.DEFINE_VAR and v.dtype.is_index and v.vmin > 0]
        if bounds and rng.random() < 0.5:
            return self.table.range(rng.choice(bounds), next(self.slots))
        return self.table.range(rng.choice([1, 2, 3, 4, 6, 8]), next(self.slots))

    def effect(self) -> UOp:
        """A store of something somewhere."""
        buffer = self.table.param(next(self.slots), dtypes.int8, SIZE)
        place = self.table.make(Ops.INDEX, buffer.dtype, (buffer, self.table.const(self.rng.randrange(SIZE))))
        return place.store(self.leaf(dtypes.int8, 0))

    def expression(self, dtype: DType, depth: int) -> UOp:
        """A small expression of the kinds that indexing makes."""
        rng = self.rng

        def some() -> UOp:
            return self.leaf(dtype, depth)

        def const(*values: int) -> UOp:
            return self.table.const(rng.choice(values), dtype)

        if dtype.is_bool:
            operand = self.leaf(rng.choice([dtypes.index, dtypes.index, dtypes.int8, dtypes.float32]), depth)
            other = (
                operand.const_like(self.number(operand.dtype))
                if rng.random() < 0.6
                else self.leaf(operand.dtype, depth)
            )
            choice = rng.randrange(5)
            if choice == 0:
                return self.leaf(dtype, depth).alu(
                    rng.choice([Ops.AND, Ops.OR, Ops.XOR]), self.leaf(dtype, depth)
                )
            if choice == 1:
                return ~self.leaf(dtype, depth)
            left, right = (operand, other) if rng.random() < 0.7 else (other, operand)
            return left.alu(rng.choice([Ops.CMPLT, Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE]), right)
        if dtype.is_float:
            op = rng.choice([Ops.ADD, Ops.MUL, Ops.NEG, Ops.MAX, Ops.SUB, Ops.ABS])
            return some().alu(op, *([some()] if op.min_sources == 2 else []))
        if dtype.is_int:
            op = rng.choice([Ops.ADD, Ops.MUL, Ops.AND, Ops.FLOORMOD, Ops.SHR, Ops.MAX])
            return some().alu(
                op, self.table.const(self.number(dtype), dtype) if rng.random() < 0.7 else some()
            )
        choice = rng.randrange(14)
        positive = (2, 3, 4, 5, 6, 8, 12, 16)
        if choice == 0:
            return some() * const(*positive, -1, -2, -4)
        if choice == 1:
            return some() + const(*SMALL)
        if choice in (2, 3, 4):
            return some() * const(*positive, -1, -3) + some()
        if choice == 5:
            return some() // const(*positive)
        if choice == 6:
            return some() % const(*positive)
        if choice == 7:
            x, c = some(), rng.choice(positive)
            return (
                (x % c) * rng.choice([1, 2, 3]) + some()
                if rng.random() < 0.5
                else x // c * (c * rng.choice([1, 2])) + some()
            )
        if choice == 8:
            return some() * self._variable(dtype) + some()
        if choice == 9:
            return some().max(const(*SMALL)) if rng.random() < 0.5 else some().min(some())
        if choice == 10:
            return self.leaf(dtypes.bool_, depth).where(
                some(), some() if rng.random() < 0.5 else const(*SMALL)
            )
        if choice == 11:
            return some() * const(*positive) + some() * const(*positive) + const(*SMALL)
        if choice == 12:
            return some() + some() * -1
        return some() * const(*positive) // const(*positive)


def roots(rule: Rule) -> list[DType]:
    """The dtypes that the root of a rule may have."""
    found: list[DType] = []
    for dtype in (*SCALARS, *RARE):
        for variant in rule.variants:
            pattern = variant.pattern
            compares = pattern.ops is not None and pattern.ops <= COMPARISONS
            allowed = (
                pattern.kinds is None
                or (compares and dtype.is_bool)
                or (not compares and dtype.kind in pattern.kinds)
            )
            possible = pattern.ops is None or any(op not in ALU or fits(op, dtype) for op in pattern.ops)
            if (
                allowed
                and possible
                and not (pattern.ops is not None and pattern.ops <= VOID_OPS - {Ops.NOOP, Ops.END})
            ):
                found.append(dtype)
                break
    if any(v.pattern.ops is not None and v.pattern.ops & VOID_OPS for v in rule.variants):
        found.append(dtypes.void)
    return found


def _is_about_lanes(pattern: NodePattern) -> bool:
    return pattern.ops is not None and not pattern.ops.isdisjoint({Ops.GEP, Ops.VECTORIZE, Ops.CAT})


def instances(rule: Rule, rng: random.Random, attempts: int) -> Iterator[UOp]:
    """Nodes of the shape of the rule's left side, without repetition; guards are not looked at."""
    dtypes_of_root = roots(rule)
    seen: set[bytes] = set()
    if not dtypes_of_root:
        return
    for number in range(attempts):
        variant = rule.variants[number % len(rule.variants)]
        dtype = dtypes_of_root[number % len(dtypes_of_root)] if number % 3 else rng.choice(dtypes_of_root)
        lanes = (
            rng.choice([2, 3, 4]) if rng.random() < (0.5 if _is_about_lanes(variant.pattern) else 0.08) else 1
        )
        if rng.random() < 0.15 and dtype.is_bool is False and len(dtypes_of_root) > 3:
            dtype = dtypes_of_root[0]
        with_lanes = dtype.vec(lanes) if dtype.kind is not Kind.VOID else dtype
        try:
            node = Maker(Table(), rng, rng.choice([0, 1, 1, 2, 3])).make(variant.pattern, with_lanes)
        except (Unfit, PlanishError):
            continue
        if node.key not in seen:
            seen.add(node.key)
            yield node
