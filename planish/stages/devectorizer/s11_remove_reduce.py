"""Stage 11, remove reduce: "combine these values" becomes an accumulator that a loop updates; loops become one each.

Why: hardware has no REDUCE; it has a register that is set once and updated in a loop.

Before → after::

    REDUCE[ADD](value, r)            acc = DEFINE_REG
                                     init:    acc[0] = 0          after the outer ranges, so once per outer iteration
                                     update:  acc[0] = acc[0] + value      inside r, after init; END r
                                     result:  acc[0]              after update

    SCAN[ADD](value, r, 16)          p = running sums of the lanes: with those 1, 2, 4, 8 before
                                     update:  acc[0] = acc[0] + p[15]      inside r; p[15] is all that a turn waits for
                                     result:  ⟨acc[0] …⟩ + p, acc[0] as it was before

    SCAN[ADD](value, r)              init:    acc[0] = 0          after the loops around r
                                     update:  acc[0] = acc[0] + value      inside r, after init; r stays open
                                     result:  acc[0]              after update, in the same iteration

    where(c, 0, y) + REDUCE[ADD](value, r)     init:    acc[0] = where(c, 0, y)      what earlier passes left (`block`)

    acc + WMMA(a, b, 0)              WMMA(a, b, acc)              a tensor core adds to what it is given

    END(a, r), END(b, r)             END(GROUP(a, b), r)          where neither needs the other

Lanes first: a reduction of lanes (an unrolled axis) is combined by a tree of ops before it reaches the accumulator, so the
loop carries one dependency per unrolled group. Of a register tile of sums, though, every product is added to its accumulator
by itself: there are enough of them to hide the latency, and a product that is added at once costs nothing (stage 18 fuses
them). A scan's range runs inside all loops that its operand depends on, since
there is one accumulator and not one per iteration.

Where closing ops share a range they share a loop (`expander/loops.py`): sums, maxima and copies of a row are made in one
walk over it. Then LOCAL buffers whose lifetimes allow it share memory (`sharing.py`).

Would break without it: stage 21 could not place the value in any loop.

Holds afterwards: no REDUCE and no SCAN is left; each accumulator is initialised after all ranges its value depends on
except those it reduces, and read inside them only after that. One RANGE, one END.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import field
from itertools import accumulate
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.records import dataclass
from planish.stages.devectorizer.sharing import share_locals
from planish.stages.devectorizer.wmma import pm_reduce_tiles, pm_wmma_accumulate
from planish.stages.expander.loops import merge_loops, separate_contexts
from planish.uop.laws import memory_of
from planish.uop.matcher import Matcher, rule
from planish.uop.nest import THREADS, around, closed_by, closers_of, loops_of, stores_in
from planish.uop.node import Number, UOp
from planish.uop.ops import ALU, Axis, Ops
from planish.uop.pattern import INDEX, node
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic.reduce import identity

_SIDE_BY_SIDE: Final = 64
"""Sums of which the machine has enough at once to hide how long one addition takes."""


@dataclass(slots=True)
class RegisterCount:
    """How many registers the kernel has so far, and the loops around each range that is scanned."""

    count: int = 0
    around: dict[UOp, frozenset[UOp]] = field(default_factory=dict)
    threads: bool = False
    """Whether the lanes are registers of threads, each of which is computed by itself."""


@dataclass(frozen=True, slots=True)
class _Accumulator:
    """A register (as many scalars side by side as there are lanes), and its value to start from."""

    register: UOp
    dtype: DType
    start: UOp

    def at(self, *effects: UOp) -> UOp:
        """What it holds after the effects."""
        table = self.register.table
        memory = self.register.after(*effects) if effects else self.register
        return table.make(Ops.INDEX, self.dtype, (memory, table.const(0, dtypes.index)))


def _accumulator(root: UOp, ctx: RegisterCount, start: UOp | None = None) -> _Accumulator:
    op, dtype, table = cast("Ops", root.arg), root.dtype, root.table
    if start is None:
        nothing = identity(op, root)
        if nothing is None:
            raise LoweringError(f"{op.name} of {dtype} has no value to start from", op=root.op.name)
        start = table.const(nothing, dtype)
    register = table.make(Ops.DEFINE_REG, dtype.scalar.ptr(dtype.lanes, AddrSpace.REG), (), ctx.count)
    ctx.count += 1
    return _Accumulator(register, dtype, start)


def horizontal(op: Ops, value: UOp, dtype: DType) -> UOp:
    """Lanes combined down to the dtype, half with half, as vectors as long as there are halves."""
    width = dtype.lanes
    rows = _side_by_side(value, width)
    if rows is not None:
        return _fold_rows(op, rows, width)
    left: list[UOp] = []  # what an odd number of parts leaves over
    while value.dtype.lanes > width:
        half = value.dtype.lanes // width // 2 * width
        if value.dtype.lanes > 2 * half:
            left.append(value.gep(*range(2 * half, value.dtype.lanes)))
        value = value.gep(*range(half)).alu(op, value.gep(*range(half, 2 * half)))
    for part in reversed(left):
        value = value.alu(op, part)
    return value


def _side_by_side(value: UOp, width: int) -> UOp | None:
    """What a vector transposes, if that holds the lanes of each result next to each other, a power of two of them."""
    count = value.dtype.lanes // width
    if value.op is not Ops.GEP or width == 1 or count < 2 or count & (count - 1):
        return None
    order = tuple(row * count + lane for lane in range(count) for row in range(width))
    return value.src[0] if value.arg == order and value.src[0].dtype.lanes == len(order) else None


def _fold_rows(op: Ops, rows: UOp, width: int) -> UOp:
    """The left half of every row with its right half, until a row is one lane: far fewer shuffles than a transpose first."""
    count = rows.dtype.lanes // width
    while count > 1:
        half = count // 2
        left = [row * count + lane for row in range(width) for lane in range(half)]
        rows = rows.gep(*left).alu(op, rows.gep(*(lane + half for lane in left)))
        count = half
    return rows


def _countable(root: UOp) -> UOp | None:
    """A reduction or scan of indices, in an integer type that memory has."""
    if not root.dtype.is_index:
        return None
    x = root.src[0].cast(dtypes.int64)
    wide = dtypes.int64.vec(root.dtype.lanes)
    return root.replace(dtype=wide, src=(x, *root.src[1:])).cast(root.dtype)


def _products(root: UOp) -> list[UOp]:
    """The products of an unrolled sum one by one, if so many sums run side by side that none has to wait for the one before."""
    value, width = root.src[0], root.dtype.lanes
    if (
        root.arg is not Ops.ADD
        or value.op is not Ops.MUL
        or not value.dtype.is_float
        or width < _SIDE_BY_SIDE
    ):
        return []
    parts = (range(start, start + width) for start in range(0, value.dtype.lanes, width))
    return [value.table.make(Ops.MUL, root.dtype, tuple(x.gep(*part) for x in value.src)) for part in parts]


def _to_accumulator(root: UOp, ctx: RegisterCount) -> UOp:
    return _accumulated(root, ctx)


def _accumulated(root: UOp, ctx: RegisterCount, start: UOp | None = None) -> UOp:
    value, *reduced = root.src
    op = cast("Ops", root.arg)
    products = _products(root)
    if len(products) < 2:
        value = horizontal(op, value, root.dtype)
        if not reduced:
            return value
        products = [value]
    acc = _accumulator(root, ctx, start)
    outer = sorted((value.ranges | acc.start.ranges) - set(reduced), key=lambda r: r.order)
    started = acc.at(*outer).store(acc.start)
    inside = total = acc.at(started, *reduced)
    for product in products:
        total = total.alu(op, product)
    updated = inside.store(total)
    return acc.at(updated.end(*reduced) if reduced else updated)


def _go_on(sink: UOp, ctx: RegisterCount) -> UOp:
    """where(c, identity, y) op REDUCE[op](x, r…): the accumulator starts with what came before, instead of meeting it in the end.

    It is there already when the loop begins: nothing has to be kept beside a whole tile of sums. What came before (y) is read
    where the kernel writes; other values that are added to a sum stay outside of it, where the program rounds them.
    """
    nodes = sink.toposort()
    written = {
        memory_of(each.src[0]) for each in nodes if each.op is Ops.STORE and each.src[0].op is Ops.INDEX
    }
    met = [each for each in nodes if _meets_what_was(each, written)]
    uses = Counter(source for node in nodes for source in node.src) if met else Counter[UOp]()
    exchange = {each: _accumulated(each.src[1], ctx, each.src[0]) for each in met if uses[each.src[1]] == 1}
    return substitute(sink, exchange) if exchange else sink


def _by_tensor_core(value: UOp) -> bool:
    """Then it is given its accumulator in another way."""
    return (value.src[0] if value.op is Ops.GEP else value).op is Ops.WMMA


def _meets_what_was(each: UOp, written: Collection[UOp]) -> bool:
    if each.op not in ALU or len(each.src) != 2:
        return False
    start, total = each.src
    return (
        start.op is Ops.WHERE
        and total.op is Ops.REDUCE
        and total.arg is each.op
        and len(total.src) > 1
        and not _by_tensor_core(total.src[0])
        and start.src[1].op is Ops.CONST
        and start.src[1].arg == identity(each.op, total)
        and start.src[2].op is Ops.INDEX
        and memory_of(start.src[2]) in written
        and start.ranges.isdisjoint(total.src[1:])
    )


def running(op: Ops, value: UOp, positions: int, *, threads: bool = False) -> UOp:
    """Each position in lanes combined with all before it: with those one before, then two, four …; in threads one after the other."""
    count = value.dtype.lanes
    width = count // positions
    if threads:
        return _one_by_one(op, value, positions, width)
    # (-0.0 + x is x, too; zeros would be shifted in by an instruction that waits, on Zen 5, for what its register held before)
    start = -0.0 if op is Ops.ADD and value.dtype.is_float else identity(op, value)
    step = 1
    while step < positions:
        away = step * width
        nothing = value.table.const(cast("Number", start), value.dtype.scalar.vec(away))
        moved = (nothing, value.gep(*range(count - away)))
        value = value.table.make(Ops.CAT, value.dtype, moved).alu(op, value)
        step *= 2
    return value


def _one_by_one(op: Ops, value: UOp, positions: int, width: int) -> UOp:
    """The fewest operations, where nothing is done to several lanes at once."""
    parts = [value.gep(*range(first, first + width)) for first in range(0, positions * width, width)]
    totals = list(accumulate(parts, lambda before, part: before.alu(op, part)))
    return value.table.make(Ops.VECTORIZE if width == 1 else Ops.CAT, value.dtype, tuple(totals))


def _scan_lanes_to_accumulator(root: UOp, ctx: RegisterCount) -> UOp:
    """The accumulator holds what came before the lanes of an iteration; only their last ones reach it."""
    value, r, positions = root.src
    op, count = cast("Ops", root.arg), cast("int", positions.arg)
    value = running(op, value, count, threads=ctx.threads)
    if r.op is Ops.CONST:
        return value
    width = value.dtype.lanes // count
    last = value.gep(*range(value.dtype.lanes - width, value.dtype.lanes))
    acc = _accumulator(root.replace(dtype=last.dtype, src=(last, r)), ctx)
    outer = sorted(ctx.around[r] | (value.ranges - {r}), key=lambda s: s.order)
    before = acc.at(acc.at(*outer).store(acc.start), r)
    update = before.store(before.alu(op, last))
    spread = before.gep(*(tuple(range(width)) * count)) if width > 1 else _spread(before, count)
    return spread.alu(op, value).after(update)


def _spread(value: UOp, lanes: int) -> UOp:
    return value.table.make(Ops.VECTORIZE, value.dtype.vec(lanes), (value,) * lanes)


def _scan_to_accumulator(root: UOp, ctx: RegisterCount) -> UOp:
    if len(root.src) > 2:
        return _scan_lanes_to_accumulator(root, ctx)
    value, r = root.src
    if r.op is Ops.CONST:  # a range of one value
        return value
    op = cast("Ops", root.arg)
    acc = _accumulator(root, ctx)
    outer = sorted(ctx.around[r] | (value.ranges - {r}), key=lambda s: s.order)
    inside = acc.at(acc.at(*outer).store(acc.start), r)
    return acc.at(inside.store(inside.alu(op, value)))


pm_reduce: Final = Matcher(
    "pm_reduce",
    [
        rule(
            node({Ops.REDUCE, Ops.SCAN}),
            _countable,
            on=INDEX,
            says="index: REDUCE(x, r…) -> CAST(REDUCE(CAST(x, int64), r…))",
        ),
        rule(node(Ops.REDUCE), _to_accumulator, says="REDUCE(x, r…) -> acc after (acc = op(acc, x) for r…)"),
        rule(node(Ops.SCAN), _scan_to_accumulator, says="SCAN(x, r) -> acc after acc = op(acc, x), inside r"),
    ],
)


_RULES: Final = pm_reduce_tiles + pm_reduce + pm_wmma_accumulate


def _scans(nodes: list[UOp]) -> list[UOp]:
    return [n for n in nodes if n.op is Ops.SCAN and n.src[1].op is Ops.RANGE]


def _scans_innermost(sink: UOp) -> UOp:
    """The kernel with every scanned range inside of the loops that what is scanned depends on."""
    while True:
        nodes = sink.toposort()
        outside = {
            (scan.src[1], s)
            for scan in _scans(nodes)
            for s in loops_of(scan.src[0].ranges) - {scan.src[1]}
            if s.order > scan.src[1].order
        }
        if not outside:
            return sink
        r, s = min(outside, key=lambda pair: pair[0].order)
        if any((b, a) == (r, s) for a, b in _depends(nodes)):
            raise LoweringError(
                f"scans over {r.arg} and {s.arg} each depend on the other's range, so neither loop can be the inner",
                op="SCAN",
                remedy="give the result of one of them memory before it is scanned again",
            )
        last = max(cast("Axis", n.arg).path[0] for n in nodes if n.op is Ops.RANGE)
        sink = substitute(sink, {r: r.replace(arg=Axis((last + 1,), cast("Axis", r.arg).kind))})


def _depends(nodes: list[UOp]) -> set[tuple[UOp, UOp]]:
    """(scanned range, a loop that what is scanned depends on)."""
    return {(scan.src[1], s) for scan in _scans(nodes) for s in loops_of(scan.src[0].ranges) - {scan.src[1]}}


def _reads_in_their_loops(sink: UOp) -> UOp:
    """What a loop reads of a buffer that it writes, it reads anew in every iteration, even at one and the same place."""
    final: dict[UOp, UOp] = {}
    for each in sink.toposort():
        src = tuple([final[source] for source in each.src])
        rebuilt = each if src == each.src else each.replace(src=src)
        if each.op is Ops.END:
            rebuilt = rebuilt.replace(src=(_read_anew(rebuilt), *rebuilt.src[1:]))
        final[each] = rebuilt
    return final[sink]


def _read_anew(end: UOp) -> UOp:
    """The body of a loop, its reads of what it writes inside of the loop."""
    loops = frozenset(loops_of(closed_by(end)))
    stores = list(stores_in(end))
    written = {store.src[0].src[0] for store in stores if store.src[0].op is Ops.INDEX}
    ordered = sorted(loops, key=lambda r: r.order)
    reads = {
        n: n.replace(src=(n.src[0].after(*ordered), *n.src[1:]))
        for store in stores
        for n in store.src[1].toposort()
        if n.op is Ops.INDEX and n.src[0] in written and not loops <= n.ranges
    }
    return substitute(end.src[0], reads)


def remove_reduce(sink: UOp) -> UOp:
    """Turn every REDUCE and SCAN into an accumulator, and what closes the same range into one loop."""
    sink = _reads_in_their_loops(sink)
    nodes = sink.toposort()
    if _scans(nodes):
        sink = _scans_innermost(sink)
    sink = separate_contexts(sink)
    nodes = sink.toposort()
    closers = closers_of(nodes)
    first = max((cast("int", n.arg) + 1 for n in nodes if n.op is Ops.DEFINE_REG), default=0)
    scanned = {scan.src[1] for scan in _scans(nodes)}
    loops = {r: around(r, closers[r][0]) for r in scanned}
    ctx = RegisterCount(first, loops, any(n.op is Ops.RANGE and kind_of(n) in THREADS for n in nodes))
    sink = rewrite(_go_on(sink, ctx), _RULES, ctx)
    return share_locals(merge_loops(sink))
