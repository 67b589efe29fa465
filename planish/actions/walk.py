"""What `online` and `chain` have in common: a walk over blocks of keys, in which products of queries and keys stay in registers.

Queries stay in LOCAL memory; blocks of keys and values come through rings of several of them. Of a core that reads LOCAL memory a
thread holds columns of C exactly as it has to hold columns of A, so that what is made of one product goes into the next in registers.
Operands are copied by all threads together, in rows of 128 bytes as the core wants them (`planish.uop.tensor_cores.place_in_memory`),
beyond the ends of their axes as zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from operator import and_, or_
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.actions.base import Refusal
from planish.actions.core_memory import neighbours, numbers, results_in_memory, with_results
from planish.actions.padding import gated
from planish.actions.tensor_core import CoreTiling
from planish.actions.tensor_maps import fetched
from planish.dtypes import AddrSpace, DType
from planish.uop.nest import size_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Box, Bufferize, Combine, Ops, UnrolledLanes
from planish.uop.products import Product
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.conditions import conjuncts
from planish.uop.tensor_cores import CHAINED, CORES, IN_MEMORY, Core, place_in_memory
from planish.uop.visible import Seen, seen
from planish.uop.weighted_sums import looked_through

_ACCESS: Final = 16
"""Bytes that a thread moves at once."""
_ROW_THREADS: Final = 4
"""Neighbouring threads that hold one row of a tile."""
_LANES, _ROWS = 2, 0
"""What the paths of lane axes are made of: both products have their rows in common."""
SCORES, SUMS = 1, 2
"""Which product lane axes of columns belong to."""


class Fragment(NamedTuple):
    """What a thread holds of a tile of sums: where each lane is, and the lane axes in the order of its registers."""

    row: UOp
    column: UOp
    lanes: UnrolledLanes
    columns: UnrolledLanes
    """Those of its lane axes that are columns."""
    rows: UnrolledLanes


class WalkRegister(NamedTuple):
    """Numbers of a thread that live as long as the walk."""

    memory: UOp
    place: UOp

    @property
    def dtype(self) -> DType:
        return self.memory.dtype.base.scalar  # type: ignore[attr-defined, no-any-return]

    def at(self, *effects: UOp) -> UOp:
        """What they are after some effects."""
        return self.memory.table.make(Ops.INDEX, self.dtype, (self.memory.after(*effects), self.place))


class Walk:
    """One kernel, walked over in blocks of keys: products of queries and keys, and sums of what is made of them."""

    def __init__(
        self, sink: UOp, core: Core, values: Product, seen: Seen, how: tuple[int, int, bool]
    ) -> None:
        groups, self.buffers, self.engine = how
        self.core, self.values = core, values
        self.second = CORES[second_core(core, values)]
        """The core of the sums."""
        self.split = CoreTiling(sink, self.second, values, groups)
        self.table = sink.table
        self.size = size_of(values.k)
        """How many keys there are."""
        axis = cast("Axis", values.k.arg).part(0, AxisType.REDUCE)
        if seen.period % core.n:
            seen = Seen()
        times = self.size // seen.period if seen.period else 1
        self.block = self.table.range(simplify(self.blocks(seen) * times), axis)
        self.start = self.before(seen) + self.block // times * core.n + self.block % times * seen.period
        """The first key of a block; of keys that begin anew, a block of every period in turn."""
        if self.engine and (self.buffers < 2 or not self.block.vmax):
            raise Refusal("an engine fetches ahead: several buffers for several blocks of keys")
        self.registers = 0
        self.tiles: list[tuple[Product, UOp]] = []
        """The tiles of keys so far."""

    def blocks(self, seen: Seen) -> UOp:
        """How many blocks of keys there are, from the first to the last one that any query of this block sees."""
        split, size, rows = self.split, self.core.n, self.core.m * self.split.groups
        count = self.table.const(-(-(seen.period or self.size) // size))
        if seen.last is not None:
            # those who see most begin first: what is left to do in the end is short
            split.outer_m = size_of(split.m) - rows - split.outer_m
            below = substitute(seen.last, {split.m: split.outer_m + (rows - 1)})
            number = simplify(below // size + 1)
            count = number.alu(Ops.MIN, count) if number.vmax > count.vmax else number
        count = count - self.before(seen) // size
        return simplify(count.alu(Ops.MAX, count.const_like(0)) if count.vmin < 0 else count)

    def before(self, seen: Seen) -> UOp:
        """How many keys, in whole blocks, come before the first that any query of this block sees."""
        if seen.first is None:
            return self.table.const(0)
        above = substitute(seen.first, {self.split.m: self.split.outer_m})
        hidden = simplify(above // self.core.n)
        return (
            simplify(hidden.alu(Ops.MAX, hidden.const_like(0)) if hidden.vmin < 0 else hidden) * self.core.n
        )

    # -- where things are --------------------------------------------------------------------------------------------

    def fragment(self, core: Core, tag: int) -> Fragment:
        """Rows and columns of the lanes of a tile of sums."""
        path = (*cast("Axis", self.split.m.arg).path, _LANES)
        place = [self.table.const(0), self.table.const(0)]
        axes: list[tuple[tuple[int, ...], int]] = []
        of_rows: list[tuple[tuple[int, ...], int]] = []
        for part in core.parts("c"):
            size = 1 << part.bits
            if part.source == "r":
                size = min(size, core.lanes("c") >> part.start)
                own = (*path, _ROWS, part.to) if part.row else (*path, tag, len(axes))
                axes.append((own, size))
                of_rows += [axes[-1]] * part.row
                counted = self.lanes(UnrolledLanes((axes[-1],)))
            else:
                counted = cast("UOp", self.split.thread) // (1 << part.start) % size
            place[not part.row] = place[not part.row] + counted * (1 << part.to)
        if self.split.group is not None:
            place[0] = place[0] + self.split.group * core.m
        columns = UnrolledLanes(tuple(axis for axis in axes if axis not in of_rows))
        return Fragment(
            place[0], place[1], UnrolledLanes(tuple(axes)), columns, UnrolledLanes(tuple(of_rows))
        )

    def lanes(self, axes: UnrolledLanes) -> UOp:
        """The number of a lane."""
        return self.table.make(Ops.UNROLL, dtypes.index, (self.table.vconst(range(axes.total)),), axes)

    def register(self, axes: UnrolledLanes) -> WalkRegister:
        kind = dtypes.float32.ptr(axes.total, AddrSpace.REG)
        self.registers += 1
        memory = self.table.make(Ops.DEFINE_REG, kind, (), self.registers - 1)
        return WalkRegister(memory, self.lanes(axes))

    # -- operands ----------------------------------------------------------------------------------------------------

    def tile(
        self, value: UOp, across: tuple[UOp, UOp, int], along: tuple[UOp, UOp, int], layout: str, buffers: int
    ) -> UOp:
        """Part of an operand in LOCAL memory, in pieces of 128 bytes along k, in a ring unless there are no buffers for one.

        Axes are told with their first element and how many there are.
        """
        (row, first_row, rows), (k, first_k, depth) = across, along
        chunk, along_k = self.core.k, IN_MEMORY[layout]
        k_first = neighbours(value, row, k) is not row
        wide = _ACCESS // value.dtype.itemsize if along_k == k_first else 1
        number = numbers(self.split, rows * depth, wide)
        fast = depth if k_first else rows
        inner, outer = (number % fast, number // fast) if k_first else (number // fast, number % fast)
        place = place_in_memory(outer, inner % chunk, chunk, along_k=along_k) + inner // chunk * (
            rows * chunk
        )
        copied = self.moved(value, {row: first_row + outer, k: first_k + inner})
        if self.engine and buffers:
            panels, axes = (depth // chunk, (k, row)) if along_k else (rows // chunk, (row, k))
            box = Box(0, (), (), (chunk, rows if along_k else depth), panels, buffers)
            boxed = fetched(value, *axes, {row: first_row, k: first_k}, copied, box)
            if boxed is None or along_k != k_first:
                raise Refusal("what is read of keys or values is no box that a copy engine fetches")
            copied = boxed
        how = Bufferize("local", buffers=max(buffers, 1))
        return self.table.make(Ops.BUFFERIZE, value.dtype, (copied, simplify(place)), how)

    def moved(self, value: UOp, exchange: dict[UOp, UOp]) -> UOp:
        """A value at other places, reading nothing beyond the ends of its axes."""
        elsewhere = substitute(value, exchange)
        for axis, at in exchange.items():
            if axis.op is Ops.RANGE and at.vmax > axis.vmax:
                inside = at < axis.src[0]
                reads = {
                    n: gated(n, inside)
                    for n in elsewhere.toposort()
                    if n.op is Ops.INDEX and n.src[0].op is Ops.DEFINE_GLOBAL and at in n.toposort()
                }
                elsewhere = substitute(elsewhere, reads)
        return elsewhere

    def multiplied(self, core: Core, pairs: list[tuple[UOp, UOp]], start: UOp) -> UOp:
        """Tiles of products, added up one after the other."""
        for number, (a, b) in enumerate(pairs):
            more = len(pairs) - 1 - number
            arg = core.arg._replace(pending=1) if more else core.arg
            start = self.table.make(
                Ops.WMMA, core.dtype("c"), (a, b, start, cast("UOp", self.split.thread)), arg
            )
        return start

    def place(self, tile: UOp, at: UOp | int) -> UOp:
        index = at if isinstance(at, UOp) else self.table.const(at)
        return self.table.make(Ops.INDEX, tile.dtype.scalar, (tile, index))

    def product(self, product: Product) -> UOp:
        """A product for a block of keys, as a thread holds it."""
        core, split = self.core, self.split
        depth = -(-size_of(product.k) // core.k) * core.k
        rows, zero = core.m * split.groups, self.table.const(0)
        q = self.tile(product.a, (product.m, split.outer_m, rows), (product.k, zero, depth), core.a[0], 0)
        keys, layout = (product.n, self.start, core.n), core.b[0]
        mine = zero if split.group is None else split.group * (core.m * core.k)
        # across k, rows of 128 bytes lie block by block of columns: for each piece along k a tile of its own
        step = depth if IN_MEMORY[layout] else core.k
        x = [
            self.tile(product.b, keys, (product.k, zero + start, step), layout, self.buffers)
            for start in range(0, depth, step)
        ]
        self.tiles.append((product, x[0]))
        pairs = [
            (
                self.place(q, mine + c * rows * core.k),
                self.place(x[c * core.k // step], c * core.k % step * core.n),
            )
            for c in range(depth // core.k)
        ]
        return self.multiplied(core, pairs, self.table.const(0.0, core.dtype("c")))

    def summed(self, product: Product, weights: UOp, held: UOp) -> UOp:
        """What was summed so far and the values of a block, weighted."""
        core = CORES[second_core(self.core, product)]
        across = (product.n, self.split.outer_n, core.n)
        lanes, shared = core.lanes("a"), self.shared_tile(product, core)
        pairs = []
        for c in range(self.core.n // core.k):
            along = (product.k, self.start + c * core.k, core.k)
            v = self.tile(product.b, across, along, core.b[0], self.buffers) if shared is None else shared
            pairs.append((weights.gep(*range(c * lanes, (c + 1) * lanes)), self.place(v, 0)))
        return self.multiplied(core, pairs, held)

    def shared_tile(self, product: Product, core: Core) -> UOp | None:
        """The tile of an operand before, if it is that of the values as well: so many keys that rows and columns of 128 bytes are the same."""
        for first, tile in self.tiles:
            moved = simplify(substitute(first.b, {first.k: product.n}))
            if (
                self.core.n == core.k
                and size_of(first.k) == size_of(product.n) == core.n
                and (self.core.b, core.b) == (("@k",), ("@mn",))
                and moved is simplify(product.b)
            ):
                return tile
        return None

    # -- the walk ----------------------------------------------------------------------------------------------------

    def gathered(self, value: UOp, axes: UnrolledLanes) -> UOp:
        wide = value.dtype.scalar.vec(axes.total)
        return self.table.make(Ops.CONTRACT, wide, (value,), axes)

    def over_columns(self, op: Ops, value: UOp, held: Fragment) -> UOp:
        return self.table.make(Ops.REDUCE, value.dtype, (self.gathered(value, held.columns),), op)

    def of_row(self, op: Ops, value: UOp) -> UOp:
        """What the threads that hold a row have, combined."""
        return self.table.make(Ops.COMBINE, value.dtype, (value,), Combine(op, _ROW_THREADS))

    def standing(self, value: UOp, products: Mapping[UOp, UOp], held: Fragment) -> UOp:
        """A value at every lane, products in it being those that a thread holds."""
        split = self.split
        lanes = {
            old: self.table.make(Ops.UNROLL, new.dtype.scalar, (new,), held.lanes)
            for old, new in products.items()
        }
        return self.moved(value, {**lanes, split.m: split.outer_m + held.row, self.values.k: self.key(held)})

    def unhidden(self, value: UOp) -> UOp:
        """A value of a query and a key whose masks are looked at in those blocks of keys alone that they hide something of.

        A mask that compares the key with the query hides keys of few blocks (at the diagonal, at the ends of a window): the others
        branch around it, all threads of a group together.
        """
        exchanged: dict[UOp, UOp] = {}
        for node in value.toposort(lambda n: n.op is not Ops.REDUCE):
            if node.op is not Ops.WHERE:
                continue
            conditions = conjuncts(node.src[0]) or [node.src[0]]
            hides = {each: self.hides(each) for each in conditions}
            always = [each for each, hidden in hides.items() if hidden is None]
            sometimes = [hidden for hidden in hides.values() if hidden is not None]
            if not sometimes:
                continue
            condition, x, other = (substitute(source, exchanged) for source in node.src)
            left = x if not always else reduce(and_, always).where(x, other)
            exchanged[node] = self.table.make(
                Ops.RARE, node.dtype, (reduce(or_, sometimes), condition.where(x, other), left)
            )
        return substitute(value, exchanged)

    def hides(self, condition: UOp) -> UOp | None:
        """Whether a condition hides any key of a block from any query of a group of threads; None if that cannot be told."""
        limit, split, size = seen([condition], self.values.k, self.split.m), self.split, self.core.n
        if limit == Seen() or limit.period % size:
            return None
        rows = split.outer_m if split.group is None else split.outer_m + split.group * self.core.m
        first = simplify(self.start % limit.period) if limit.period else self.start
        hidden = []
        if limit.last is not None:
            hidden.append(substitute(limit.last, {split.m: rows}) < first + (size - 1))
        if limit.first is not None:
            hidden.append(first < substitute(limit.first, {split.m: rows + (self.core.m - 1)}))
        return reduce(or_, hidden)

    def key(self, held: Fragment) -> UOp:
        """The key of a lane."""
        return self.start + held.column

    def stored(self, sink: UOp, results: dict[UOp, UOp], sums: Fragment) -> UOp:
        """The kernel with results that threads hold instead of sums."""
        split = self.split
        parts = results_in_memory(split, results, sums.row, sums.column)
        return with_results(sink, split, parts)

    def stored_row(self, store: UOp, known: Mapping[UOp, UOp], held: Fragment) -> UOp:
        """A store of what is known of each row at the end of the walk, by one of the threads that hold it."""
        place, value = store.src
        opened = looked_through(value)
        if any(n.op is Ops.REDUCE and n not in known for n in opened.toposort(lambda n: n not in known)):
            raise Refusal("a result for each row is made of more than the walk knows of it")
        first = (cast("UOp", self.split.thread) % _ROW_THREADS).eq(0)
        at = {self.split.m: self.split.outer_m + held.row}
        return gated(substitute(place, at), first).store(substitute(opened, {**known, **at}))

    @property
    def around(self) -> list[UOp]:
        """The loops around the walk that threads and blocks are."""
        split = self.split
        own = split.outer_m.ranges | split.outer_n.ranges | {cast("UOp", split.thread)}
        own |= {split.group} if split.group is not None else set()
        batches = self.values.reduce.ranges - {split.m, split.n}
        return sorted(own | batches, key=lambda r: r.order)


def row_stores(sink: UOp, columns: UOp) -> tuple[UOp, list[UOp]]:
    """A kernel that stores what has columns alone, and the stores of what has none."""
    stores = [n for n in sink.toposort() if n.op is Ops.STORE]
    rows = [store for store in stores if columns not in store.ranges]
    if not rows:
        return sink, []
    whole = [store for store in stores if columns in store.ranges]
    ranges = sorted(frozenset[UOp]().union(*(store.ranges for store in whole)), key=lambda r: r.order)
    effect = whole[0] if len(whole) == 1 else sink.table.make(Ops.GROUP, dtypes.void, tuple(whole))
    return sink.table.sink(effect.end(*ranges)), rows


def unscaled(graded: UOp) -> tuple[UOp, float]:
    """A value without the positive factor that it was multiplied by, whatever was masked of it later."""
    if graded.op is Ops.MUL and graded.src[1].op is Ops.CONST:
        factor = cast("float", graded.src[1].arg)
        if 0 < factor < math.inf:
            return graded.src[0], factor
    if graded.op is Ops.WHERE and graded.src[2].op is Ops.CONST and graded.src[2].arg == -math.inf:
        condition, x, hidden = graded.src
        value, factor = unscaled(x)
        return condition.where(value, hidden), factor
    return graded, 1.0


def second_core(core: Core, product: Product) -> str:
    """The name of the core of the second product, as wide as its result, reading values as they lie; "" if there is none."""
    along_k = neighbours(product.b, product.n, product.k) is product.k
    wanted = size_of(product.n), core.inputs, ("@k" if along_k else "@mn",)
    return next((each.name for each in CHAINED if (each.n, each.inputs, each.b) == wanted), "")
