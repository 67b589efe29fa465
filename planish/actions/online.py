"""`online(wgmma_m64n128_bf16_f32_kk, i, j, k, groups=2, buffers=2)`: sums weighted by a softmax, in one walk over the keys.

Attention is two products of matrices with a softmax between them (`planish.uop.weighted_sums`). Row by row it needs all scores of a query
before the first share of one is known. In one walk it needs none of them twice: with the greatest score so far, weights are right but
for a factor, and when a greater one comes, what was summed so far is made smaller by as much::

    for keys in blocks of the columns of the core:                        per thread, in registers:
      s  = q @ xᵀ;  u = graded(s)                                         a tile of scores, by a tensor core
      m' = max(m, max over the block of u)                                threads that hold one row combine theirs
      a  = exp(m - m');  p = exp(u - m')
      l  = l · a + Σ p;  o = o · a + cast(p) @ v;  m = m'                 p lies as the left operand of the second product has to
    o / l

Queries stay in LOCAL memory; blocks of keys and values come through rings of `buffers` of them. Of a core that reads LOCAL memory a
thread holds columns of C exactly as it has to hold columns of A, so that the weights go from one product into the other in registers.

The sum of the weights is taken of what they are before they are cast, and divides the result instead of each of them: they are rounded
to the dtype of the values one by one, as in the program, but before the division. Beyond the last key scores are -inf.
"""

from __future__ import annotations

import math
from random import Random
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.actions.base import Action, AxisName, CoreName, fitting
from planish.actions.core_memory import neighbours, numbers, results_in_memory
from planish.actions.padding import gated
from planish.actions.tensor_core import Split
from planish.dtypes import AddrSpace, DType
from planish.target import Target
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest import name_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Combine, Lanes, Ops
from planish.uop.products import axis_size
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import CORES, IN_MEMORY, Core, place_in_memory
from planish.uop.weighted_sums import WeightedSum, last_seen, weighted_sums

_ACCESS: Final = 16
"""Bytes that a thread moves at once."""
_ROW_THREADS: Final = 4
"""Neighbouring threads that hold one row of a tile."""
_LANES, _ROWS, _SCORES, _SUMS = 2, 0, 1, 2
"""What the paths of lane axes are made of: both products have their rows in common."""
_BEFORE: Final = frozenset({AxisType.WARP, AxisType.LOCAL, AxisType.GROUP_REDUCE, AxisType.UPCAST})
_LOG2E: Final = math.log2(math.e)
_HEAVY: Final = frozenset({Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE})


class _Fragment(NamedTuple):
    """What a thread holds of a tile of sums: where each lane is, and the lane axes in the order of its registers."""

    row: UOp
    column: UOp
    lanes: Lanes
    columns: Lanes
    """Those of its lane axes that are columns."""
    rows: Lanes


class _Register(NamedTuple):
    """Numbers of a thread that live as long as the walk."""

    memory: UOp
    place: UOp

    @property
    def dtype(self) -> DType:
        return self.memory.dtype.base.scalar  # type: ignore[attr-defined, no-any-return]

    def at(self, *effects: UOp) -> UOp:
        """What they are after some effects."""
        return self.memory.table.make(Ops.INDEX, self.dtype, (self.memory.after(*effects), self.place))


class _Walk:
    """One kernel, walked over in blocks of keys."""

    def __init__(self, sink: UOp, core: Core, found: WeightedSum, groups: int, buffers: int) -> None:
        self.core, self.found, self.buffers = core, found, buffers
        self.second = CORES[_second(core, found)]
        self.split = Split(sink, self.second, found.values, groups, buffers)
        self.table = sink.table
        self.size = axis_size(found.keys)
        """How many keys there are."""
        axis = cast("Axis", found.keys.arg).part(0, AxisType.REDUCE)
        self.block = self.table.range(self.blocks(), axis)
        self.registers = 0

    def blocks(self) -> UOp:
        """How many blocks of keys there are up to the last one that any query of this block sees."""
        split, size = self.split, self.core.n
        count = self.table.const(-(-self.size // size))
        last = last_seen(self.found)
        if last is None:
            return count
        # those who see most begin first: what is left to do in the end is short
        split.outer_m = axis_size(split.m) - self.core.m * split.groups - split.outer_m
        below = substitute(last, {split.m: split.outer_m + (self.core.m * split.groups - 1)})
        seen = simplify(below // size + 1)
        seen = seen.alu(Ops.MIN, count) if seen.vmax > cast("int", count.arg) else seen
        return simplify(seen.alu(Ops.MAX, seen.const_like(0)) if seen.vmin < 0 else seen)

    # -- where things are --------------------------------------------------------------------------------------------

    def fragment(self, core: Core, tag: int) -> _Fragment:
        """Rows and columns of the lanes of a tile of sums."""
        path = (*cast("Axis", self.split.m.arg).path, _LANES)
        place = [self.table.const(0), self.table.const(0)]
        axes: list[tuple[tuple[int, ...], int]] = []
        of_rows: list[tuple[tuple[int, ...], int]] = []
        for part in core.parts("c"):
            size = 1 << part.bits
            if part.source == "r":
                own = (*path, _ROWS, part.to) if part.row else (*path, tag, len(axes))
                axes.append((own, size))
                of_rows += [axes[-1]] * part.row
                counted = self.lanes(Lanes((axes[-1],)))
            else:
                counted = cast("UOp", self.split.thread) // (1 << part.start) % size
            place[not part.row] = place[not part.row] + counted * (1 << part.to)
        if self.split.group is not None:
            place[0] = place[0] + self.split.group * core.m
        columns = Lanes(tuple(axis for axis in axes if axis not in of_rows))
        return _Fragment(place[0], place[1], Lanes(tuple(axes)), columns, Lanes(tuple(of_rows)))

    def lanes(self, axes: Lanes) -> UOp:
        """The number of a lane."""
        return self.table.make(Ops.UNROLL, dtypes.index, (self.table.vconst(range(axes.total)),), axes)

    def register(self, axes: Lanes) -> _Register:
        kind = dtypes.float32.ptr(axes.total, AddrSpace.REG)
        self.registers += 1
        memory = self.table.make(Ops.DEFINE_REG, kind, (), self.registers - 1)
        return _Register(memory, self.lanes(axes))

    # -- operands ----------------------------------------------------------------------------------------------------

    def tile(
        self, value: UOp, across: tuple[UOp, UOp, int], along: tuple[UOp, UOp, int], layout: str, buffers: int
    ) -> UOp:
        """Part of an operand in LOCAL memory, in pieces of 128 bytes along k; axes are told with their first element and how many there are."""
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
        how = Bufferize("local", buffers=buffers)
        return self.table.make(Ops.BUFFERIZE, value.dtype, (copied, simplify(place)), how)

    def moved(self, value: UOp, exchange: dict[UOp, UOp]) -> UOp:
        """A value at other places, reading nothing beyond the ends of its axes."""
        made = substitute(value, exchange)
        for axis, at in exchange.items():
            if axis.op is Ops.RANGE and at.vmax > axis.vmax:
                inside = at < axis.src[0]
                reads = {
                    n: gated(n, inside)
                    for n in made.toposort()
                    if n.op is Ops.INDEX and n.src[0].op is Ops.DEFINE_GLOBAL and at in n.toposort()
                }
                made = substitute(made, reads)
        return made

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

    def scores(self) -> UOp:
        """The scores of a block of keys, as a thread holds them."""
        core, product, split = self.core, self.found.scores, self.split
        depth = -(-axis_size(product.k) // core.k) * core.k
        rows, zero = core.m * split.groups, self.table.const(0)
        along = (product.k, zero, depth)
        q = self.tile(product.a, (product.m, split.outer_m, rows), along, core.a[0], 1)
        keys = (product.n, self.block * core.n, core.n)
        x = self.tile(product.b, keys, along, core.b[0], self.buffers)
        mine = zero if split.group is None else split.group * (core.m * core.k)
        pairs = [
            (self.place(q, mine + c * rows * core.k), self.place(x, c * core.n * core.k))
            for c in range(depth // core.k)
        ]
        return self.multiplied(core, pairs, self.table.const(0.0, core.dtype("c")))

    def summed(self, weights: UOp, held: UOp) -> UOp:
        """What was summed so far and the values of a block, weighted."""
        core, product = self.second, self.found.values
        across = (product.n, self.split.outer_n, core.n)
        along = (product.k, self.block * self.core.n, self.core.n)
        v = self.tile(product.b, across, along, core.b[0], self.buffers)
        lanes = core.lanes("a")
        pairs = [
            (weights.gep(*range(c * lanes, (c + 1) * lanes)), self.place(v, c * core.n * core.k))
            for c in range(self.core.n // core.k)
        ]
        return self.multiplied(core, pairs, held)

    # -- the walk ----------------------------------------------------------------------------------------------------

    def gathered(self, value: UOp, axes: Lanes) -> UOp:
        wide = value.dtype.scalar.vec(axes.total)
        return self.table.make(Ops.CONTRACT, wide, (value,), axes)

    def over_columns(self, op: Ops, value: UOp, held: _Fragment) -> UOp:
        return self.table.make(Ops.REDUCE, value.dtype, (self.gathered(value, held.columns),), op)

    def of_row(self, op: Ops, value: UOp) -> UOp:
        """What the threads that hold a row have, combined."""
        return self.table.make(Ops.COMBINE, value.dtype, (value,), Combine(op, _ROW_THREADS))

    def graded(self, scores: UOp, held: _Fragment) -> tuple[UOp, float]:
        """What the softmax is of, at every lane, but for a factor."""
        found, split = self.found, self.split
        value, factor = _unscaled(found.graded)
        key = self.block * self.core.n + held.column
        product = found.scores.reduce
        stands = self.table.make(Ops.UNROLL, scores.dtype.scalar, (scores,), held.lanes)
        value = self.moved(value, {product: stands, split.m: split.outer_m + held.row, found.keys: key})
        if self.size % self.core.n:
            value = (key < self.size).where(value, value.const_like(-math.inf))
        return value, factor

    def made(self, sink: UOp) -> UOp:
        """The kernel with the walk in it."""
        table, split = self.table, self.split
        held, sums = self.fragment(self.core, _SCORES), self.fragment(self.second, _SUMS)
        top, share, total = self.register(held.rows), self.register(held.rows), self.register(sums.lanes)
        graded, factor = self.graded(self.scores(), held)
        outer = sorted(graded.ranges - {self.block}, key=lambda r: r.order)
        begun = [
            each.at(*outer).store(table.const(start, each.dtype))
            for each, start in ((top, -math.inf), (share, 0.0), (total, 0.0))
        ]
        m, sofar, o = (
            each.at(start, self.block) for each, start in zip((top, share, total), begun, strict=True)
        )
        rate = factor * _LOG2E
        best = m.alu(Ops.MAX, self.of_row(Ops.MAX, self.over_columns(Ops.MAX, graded, held)))
        base = best.eq(-math.inf).where(best.const_like(0.0), best) * rate
        shrunk = m.alu(Ops.MULACC, m.const_like(rate), -base).alu(Ops.EXP2_ESTIMATE)
        grown = graded.alu(Ops.MULACC, graded.const_like(rate), -base).alu(Ops.EXP2_ESTIMATE)
        weights = self.gathered(grown.cast(self.second.inputs), held.lanes)
        products = self.summed(weights, self.gathered(o * shrunk, sums.lanes))
        new = (
            best,
            sofar.alu(Ops.MULACC, shrunk, self.over_columns(Ops.ADD, grown, held)),
            table.make(Ops.UNROLL, o.dtype, (products,), sums.lanes),
        )
        ends = [was.store(now).end(self.block) for was, now in zip((m, sofar, o), new, strict=True)]
        whole = self.of_row(Ops.ADD, share.at(*ends))
        if self.found.blind:
            whole = whole.eq(0.0).where(whole.const_like(1.0), whole)
        result = total.at(*ends) * whole.alu(Ops.RECIP)
        totals = {self.found.values.reduce: result}
        exchanged, row, column = results_in_memory(split, totals, sums.row, sums.column)
        places = {split.m: split.outer_m + row, split.n: split.outer_n + column}
        return rewrite(substitute(sink, {**places, **exchanged}), pm_flatten_range)


def _unscaled(graded: UOp) -> tuple[UOp, float]:
    """A value without the positive factor that it was multiplied by, whatever was masked of it later."""
    if graded.op is Ops.MUL and graded.src[1].op is Ops.CONST:
        factor = cast("float", graded.src[1].arg)
        if 0 < factor < math.inf:
            return graded.src[0], factor
    if graded.op is Ops.WHERE and graded.src[2].op is Ops.CONST and graded.src[2].arg == -math.inf:
        condition, x, hidden = graded.src
        value, factor = _unscaled(x)
        return condition.where(value, hidden), factor
    return graded, 1.0


def _second(core: Core, found: WeightedSum) -> str:
    """The core of the second product: as wide as its result, reading values as they lie."""
    product = found.values
    along_k = neighbours(product.b, product.n, product.k) is product.k
    kind = core.name.split("_")[2]
    return f"wgmma_m64n{axis_size(product.n)}_{kind}_f32_r{'k' if along_k else 'm'}"


class Online(Action):
    """A softmax between two products, in one walk over the keys."""

    word = "online"
    does = "walk over the keys once, both products of an attention by tensor cores and the softmax between them in registers"
    core: CoreName
    m: AxisName
    n: AxisName
    k: AxisName
    groups: int = 1
    """How many groups of threads share keys and values."""
    buffers: int = 1
    """How many blocks of keys and values there are: with several, the next ones are fetched while one is used."""

    @classmethod
    def of(cls, core: Core, found: WeightedSum, groups: int = 1, buffers: int = 1) -> Online:
        """A way to walk."""
        values = found.values
        m, n, k = (name_of(axis) for axis in (values.m, values.n, values.k))
        return cls(core.name, m, n, k, groups, buffers)

    @classmethod
    def drawn(cls, rng: Random, sink: UOp, target: Target) -> Online:
        cores = [core for core in target.tensor_cores if core.reads_memory and core.inputs.itemsize == 2]
        core = rng.choice(cores) if cores else None
        ways = [] if core is None else [cls.of(core, each) for each in weighted_sums(sink, core)]
        way = rng.choice(ways) if ways else cls("none", "i", "j", "k")
        return way.replaced(groups=rng.choice((1, 1, 2)), buffers=rng.randint(1, 3))

    def chosen(self, sink: UOp, target: Target) -> tuple[Core, WeightedSum]:
        """The core, and the sum that is made."""
        core = next((each for each in target.tensor_cores if each.name == self.core), None)
        if core is None or not core.reads_memory or core.inputs.itemsize != 2:
            raise self.no(f"{target.name} has no tensor core {self.core} of 16-bit operands in LOCAL memory")
        if core.n % core.k:
            raise self.no(f"the {core.n} columns of {core.name} are no multiple of {core.k}")
        if any(n.op is Ops.WMMA or (n.op is Ops.RANGE and kind_of(n) in _BEFORE) for n in sink.toposort()):
            raise self.no("must come before axes are shared by threads, and once")
        if not 1 <= self.groups <= target.block_threads // core.threads or self.buffers < 1:
            raise self.no(f"{self.groups} groups of {core.threads} threads and {self.buffers} buffers")
        sums = weighted_sums(sink, core)
        for found in sums:
            if Online.of(core, found, self.groups, self.buffers) == self:
                self.check(core, found)
                return core, found
        ways = "; ".join(str(Online.of(core, each)) for each in sums)
        raise self.no(
            "there is no such sum weighted by a softmax", remedy=f"there is {ways}" if ways else None
        )

    def check(self, core: Core, found: WeightedSum) -> None:
        """Refuse sizes and scores that do not fit."""
        rows = core.m * self.groups
        sizes = [axis_size(r) for r in (found.values.m, found.values.n, found.keys, found.scores.k)]
        if not all(sizes):
            raise self.no("sizes are not known")
        if sizes[0] % rows or _second(core, found) not in CORES:
            raise self.no(
                f"{sizes[0]} queries and {sizes[1]} columns are no multiple of {rows} and no width of a tile",
                remedy="pad_to makes them so",
            )
        product = found.scores.reduce
        others = found.graded.toposort(lambda n: n is not product)
        if any(n.op in _HEAVY and n is not product for n in others):
            raise self.no("scores are made of other sums")

    def apply(self, sink: UOp, target: Target) -> UOp:
        core, found = self.chosen(sink, target)
        return fitting(sink, _Walk(sink, core, found, self.groups, self.buffers).made(sink), self, target)
