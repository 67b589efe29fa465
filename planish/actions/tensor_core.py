"""`tensor_core(amx_bf16, i, j, k)`: a sum of products becomes a WMMA, spread over threads and registers as the core wants it.

How. Of C[m, n] += A[m, k] @ B[k, n] the axes are split by the sizes of the core. The inner parts are not ranges: which element
a thread holds in which lane is data (`planish.uop.tensor_cores`), so each matrix gets its own expressions for
its row and column, made of the thread number (one WARP range, for cores that need several threads) and of lane axes
(`UNROLL` of constants, one for each run of register bits). The fragments of A and B are CONTRACTed to vectors; the WMMA's
result is spread over the lane axes of C, which are those of the stores. Any layout of the operands in memory will do: it is in
their indices.

A core that reads its operands from LOCAL memory (`wgmma`) has them put there, and its results taken from there (`core_memory.py`).
With `groups`, several groups of threads do rows below each other: they share the right operand, and copy both together.

Before → after::

    REDUCE[ADD](CAST(a[m, k]) * CAST(b[k, n]), k)
    REDUCE[ADD](UNROLL(WMMA(CONTRACT(a[m'(w, ra), k'(w, ra)]), CONTRACT(b[k'(w, rb), n'(w, rb)]), 0), rc), k/K)
        with m -> m/M * M + m'(w, rc), n -> n/N * N + n'(w, rc) everywhere else

Signed integers that the core reads without a sign are shifted (`Core.shifts`), and what that adds to the sums is taken off:
Σ a·b = Σ (a + 128)·b - 128·Σ b, the last being a product with a row of ones. Sums wrap, so that is exact.

What is left of m, n and k are ordinary ranges that further actions may take. A core that reads fewer mantissa bits than its
inputs have (tf32) is refused unless `fastmath` is on; the rounding is then written out, so that every interpreter agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, cast

from planish import dtypes
from planish.actions.base import Action, AxisName, CoreName, fitting
from planish.actions.core_memory import (
    CoreResults,
    operand_in_memory,
    results_in_memory,
    rounded,
    with_results,
)
from planish.config import current
from planish.target import Target
from planish.uop.nest import name_of, next_root, size_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops, UnrolledLanes
from planish.uop.products import Product, products, why_not
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.tensor_cores import Core, Matrix

_INNER, _LANES_OF_A, _LANES_OF_B, _GROUP = 1, 2, 3, 4
"""What splitting appends to the path of an axis; 0 is the outer part."""
_DRAWN: Final = 24
"""Cores that read LOCAL memory, of which one is drawn."""
_LEAST_BUFFERS: Final = 2
"""Tiles that a copy engine needs: one is used while it fills another."""
_BEFORE: Final = frozenset({AxisType.WARP, AxisType.GROUP_REDUCE})


class CoreTiling:
    """The axes of one kernel, cut to the sizes of a core."""

    def __init__(
        self,
        sink: UOp,
        core: Core,
        product: Product,
        groups: int = 1,
        buffers: int = 1,
        *,
        engine: bool = False,
        run: int = 1,
        stay: int = 0,
        apart: int = 1,
        parts: int = 1,
    ) -> None:
        self.core, self.run, self.stay, self.apart = core, run, stay, apart
        self.nodes = sink.toposort()
        self.m, self.n = product.m, product.n
        table = product.reduce.table
        self.thread = (
            table.range(core.threads, cast("Axis", self.m.arg).part(_INNER, AxisType.WARP))
            if core.threads > 1
            else None
        )
        self.groups, self.buffers, self.engine = groups, buffers, engine
        self.group = (
            table.range(groups, cast("Axis", self.m.arg).part(_GROUP, AxisType.LOCAL)) if groups > 1 else None
        )
        self.outer_m, self.outer_n = _outer(self.m, core.m * groups), _outer(self.n, core.n)
        self.next = next_root(self.nodes)
        self.parts = parts
        self.rank = self.fresh(parts, AxisType.CLUSTER) if parts > 1 else None
        """The part of the sum that a block has."""

    def spread(self, matrix: Matrix, path: tuple[int, ...]) -> tuple[UOp, UOp, UnrolledLanes]:
        """Row and column of the element that a thread holds in a lane, and the axes that the lanes are."""
        table = self.m.table
        place = [table.const(0), table.const(0)]
        axes: list[tuple[tuple[int, ...], int]] = []
        for part in self.core.parts(matrix):
            size = 1 << part.bits
            if part.source == "r":
                size = min(size, self.core.lanes(matrix) >> part.start)
                axes.append(((*path, len(axes)), size))
                counted = table.make(
                    Ops.UNROLL, dtypes.index, (table.vconst(range(size)),), UnrolledLanes((axes[-1],))
                )
            else:
                counted = cast("UOp", self.thread) // (1 << part.start) % size
            place[not part.row] = place[not part.row] + counted * (1 << part.to)
        if self.group is not None and matrix != "b":
            place[0] = place[0] + self.group * self.core.m
        return place[0], place[1], UnrolledLanes(tuple(axes))

    def fragment(self, matrix: Matrix, product: Product, outer_k: UOp) -> UOp:
        """What a thread holds of an operand, as a vector."""
        value = product.a if matrix == "a" else product.b
        if self.core.in_memory(matrix):
            return operand_in_memory(self, matrix, value, product.k, outer_k)
        path = (*_path(product.k), _LANES_OF_A if matrix == "a" else _LANES_OF_B)
        row, column, lanes = self.spread(matrix, path)
        k = self.dealt(outer_k, column if matrix == "a" else row)
        across = (
            {self.m: self.outer_m + row, product.k: k}
            if matrix == "a"
            else {self.n: self.outer_n + column, product.k: k}
        )
        value = rounded(substitute(value, across), self.core)
        if not lanes.axes:
            return value
        return value.table.make(Ops.CONTRACT, self.core.dtype(matrix), (value,), lanes)

    def dealt(self, outer: UOp, inside: UOp) -> UOp:
        """The term of a sum that stands at a place of the core's k; in any order, if it is the same for both operands.

        Of the bits of its number in `run` tiles those that number registers come first, then the tile, then those that number threads:
        what a thread holds of all these tiles are neighbours. The first bit of all, the half of a register, moves up where such neighbours
        are to be some `apart`.
        """
        if self.run == 1:
            return outer + inside
        k, held, shared = self.core.k, *_bits_of_k(self.core)
        tile, behind = outer // k, len(held) + self.run.bit_length() - 1
        order = [
            *held[1:],
            *range(-1, -self.run.bit_length(), -1),
        ]  # bits of the tile count from -1 downwards
        order.insert(self.apart.bit_length() - 1, held[0])
        term = tile // self.run * (k * self.run)
        if self.apart == 1:
            term = term + tile % self.run * (1 << len(held))
            order = held
        for first, places in ((0, order), (behind, shared)):
            for to, place in enumerate(places, first):
                bit = inside // (1 << place) % 2 if place >= 0 else tile // (1 << -place - 1) % 2
                term = term + bit * (1 << to)
        return term

    def fresh(self, size: int, kind: AxisType) -> UOp:
        self.next += 1
        return self.m.table.range(size, self.next - 1, kind)

    def tile(self, product: Product, lanes: UnrolledLanes) -> UOp:
        """The reduction, done by the core."""
        core, reduce = self.core, product.reduce
        table = reduce.table
        outer_k = _outer(product.k, core.k * self.parts)
        if self.rank is not None:  # what a block has of the sum lies together
            steps = size_of(product.k) // core.k // self.parts
            outer_k = simplify(outer_k // self.parts) + self.rank * (steps * core.k)
        a, b = (self.fragment(matrix, product, outer_k) for matrix in ("a", "b"))
        start = table.const(core.output.const(0), core.dtype("c"))
        # that every thread has its own sums is seen by its fragments; places in memory are the same for all
        own = (cast("UOp", self.thread),) if core.reads_memory else ()
        computed = table.make(Ops.WMMA, core.dtype("c"), (a, b, start, *own), core.arg)
        value = table.make(Ops.UNROLL, core.output, (computed,), lanes)
        left = [r for r in reduce.src[1:] if r is not product.k]
        left += sorted((r for r in outer_k.ranges if r is not self.rank), key=lambda r: r.order)
        total = reduce.replace(src=(value, *left)) if left else value
        return total if product.offset is None else total - self.summed(b, left, lanes) * product.offset

    def summed(self, b: UOp, loops: Sequence[UOp], lanes: UnrolledLanes) -> UOp:
        """The sums of the right operand, which an offset of the left one adds that many times.

        Over axes of their own: they are the same for all rows, and are not made again for each of them.
        """
        core, table = self.core, b.table
        first = next_root(self.nodes)
        own = {r: table.range(r.src[0], first + n, AxisType.REDUCE) for n, r in enumerate(loops)}
        ones = table.const(core.inputs.const(1), core.dtype("a"))
        start = table.const(core.output.const(0), core.dtype("c"))
        computed = table.make(Ops.WMMA, core.dtype("c"), (ones, substitute(b, own), start), core.arg)
        value = table.make(Ops.UNROLL, core.output, (computed,), lanes)
        return value.reduce(Ops.ADD, *own.values()) if own else value


def _bits_of_k(core: Core) -> tuple[list[int], list[int]]:
    """The bits of a place along k that number registers of a thread, and those that number threads."""
    layout = core.layout("a")[: core.k.bit_length() - 1]
    held = [place for place, bit in enumerate(layout) if bit.startswith("r")]
    return held, [place for place in range(len(layout)) if place not in held]


def _path(axis: UOp) -> tuple[int, ...]:
    return cast("Axis", axis.arg).path


def _outer(axis: UOp, size: int) -> UOp:
    """The first element of the tile that an axis is in, as an expression of a shorter axis, or of one whose size has a name."""
    outer = cast("Axis", axis.arg).part(0)
    if size == 1 and not size_of(axis):
        return axis.table.range(axis.src[0], outer)
    count = size_of(axis) // size
    return axis.table.const(0) if count == 1 else axis.table.range(count, outer) * size


class TensorCore(Action):
    """A sum of products, done by a tensor core.

    All reductions of the kernel that fit the same output axes are done by it.
    """

    word = "tensor_core"
    does = "let a tensor core do a sum of products"
    asks_settings = True
    core: CoreName
    m: AxisName
    n: AxisName
    k: AxisName
    groups: int = 1
    """How many groups of threads share the right operand, of a core that reads LOCAL memory."""
    buffers: int = 1
    """How many tiles of each operand there are: with several, the next ones are fetched while one is used."""
    engine: bool = False
    """Whether a copy engine brings them, while threads do nothing but multiply (`tensor_maps.py`)."""
    run: int = 1
    """How many tiles of k a thread has neighbours of, of a core whose operands are in registers: it reads them by one access."""
    stay: int = 0
    """How many blocks stay, each for one tile of the result after the other, and have the next one fetched while they finish the last; 0: none."""
    apart: int = 1
    """Of the neighbours of a run, how far apart are those that share a register: bits of two that lie sixteen apart are told apart at once."""
    parts: int = 1
    """How many blocks of a cluster share a sum: each has a part of it, and finishes a part of the tile, of which it reads the sums of the others."""

    @classmethod
    def of(cls, core: Core, product: Product, groups: int = 1, buffers: int = 1, **more: int) -> TensorCore:
        """A way to use a core; `more` are other fields."""
        m, n, k = (name_of(axis) for axis in (product.m, product.n, product.k))
        return cls(core.name, m, n, k, groups, buffers).replaced(**more)

    @classmethod
    def drawn(cls, rng: Random, sink: UOp, target: Target) -> TensorCore:
        ways = [
            cls.of(core, product, run=rng.choice((1, 1, 2, 4)), apart=rng.choice((1, 1, 2, 4)))
            for core in target.tensor_cores[:2]
            for product in products(sink, core)[:1]
        ]
        reading = [core for core in target.tensor_cores if core.reads_memory]
        for core in rng.sample(reading, min(len(reading), _DRAWN)):
            groups, buffers, engine = rng.choice((1, 1, 2)), rng.randint(1, 4), rng.random() < 0.5
            stay, parts = rng.choice((0, 0, 1, 2, 3)), rng.choice((1, 1, 2, 3))
            ways += [
                cls.of(core, product, groups, buffers, engine=engine, stay=stay, parts=parts)
                for product in products(sink, core)[:1]
            ]
        return rng.choice(ways) if ways else cls("none", "i", "j", "k")

    def chosen(self, sink: UOp, target: Target) -> tuple[Core, Product]:
        """The core, and the product that it is to do."""
        core = next((each for each in target.tensor_cores if each.name == self.core), None)
        if core is None:
            known = ", ".join(each.name for each in target.tensor_cores) or "none"
            raise self.no(f"{target.name} has no tensor core {self.core}", remedy=f"its cores are {known}")
        for node in sink.toposort():
            if node.op is Ops.WMMA or (node.op is Ops.RANGE and kind_of(node) in _BEFORE):
                raise self.no("must come before axes are shared by threads, and once")
        threads = core.threads * self.groups
        if threads > max(target.block_threads, 1):
            raise self.no(f"{core.name} takes {threads} threads, a block has {target.block_threads}")
        if self.groups < 1 or (self.groups > 1 and not core.reads_memory):
            raise self.no(
                f"{self.groups} groups: {core.name} does not read LOCAL memory, which they would share"
            )
        if self.engine and (not core.reads_memory or self.buffers < _LEAST_BUFFERS):
            raise self.no(
                f"engine=true: {core.name} with {self.buffers} buffers has nothing that a copy engine could fill ahead",
                remedy=f"a core that reads LOCAL memory, and at least {_LEAST_BUFFERS} buffers",
            )
        if self.stay < 0 or (self.stay and not self.engine):
            raise self.no(
                f"stay={self.stay}: who stays has a copy engine fetch what comes next", remedy="engine=true"
            )
        if self.parts < 1 or (self.parts > 1 and (not core.reads_memory or self.stay)):
            raise self.no(
                f"parts={self.parts}: blocks that share a sum end with it, and have it in LOCAL memory"
            )
        if self.parts > max(len(target.clusters), 1):
            raise self.no(
                f"parts={self.parts}: a cluster of {target.name} has at most {len(target.clusters)} blocks"
            )
        if self.run < 1 or self.run & (self.run - 1):
            raise self.no(f"run={self.run} is no power of two")
        if self.run > 1 and (core.reads_memory or core.threads == 1):
            raise self.no(
                f"run={self.run}: the operands of {core.name} are not in the registers of several threads"
            )
        if self.apart < 1 or self.apart & (self.apart - 1):
            raise self.no(f"apart={self.apart} is no power of two")
        if self.apart > 1 and (self.run == 1 or 2 * self.apart > self.run << len(_bits_of_k(core)[0])):
            raise self.no(
                f"apart={self.apart}: a thread has no neighbours so far apart with run={self.run}",
                remedy="a longer run",
            )
        if core.is_rough and not current().fastmath:
            kept = (
                f"adds up {core.sum_bits} bits"
                if core.mantissa is None
                else f"reads {core.mantissa} mantissa bits"
            )
            raise self.no(
                f"{core.name} {kept} of {core.inputs}, which changes results",
                remedy="allow it with fastmath=True",
            )
        candidates = products(sink, core)
        if not candidates:
            raise self.no(f"{core.name} does not fit: {why_not(sink, core)}")
        for product in candidates:
            if tuple(name_of(axis) for axis in (product.m, product.n, product.k)) == (self.m, self.n, self.k):
                rows = size_of(product.m)
                if rows % (core.m * self.groups):
                    raise self.no(
                        f"{rows} rows are no multiple of {self.groups} times {core.m}",
                        remedy="pad_to makes it one",
                    )
                if size_of(product.k) % (core.k * self.parts):
                    raise self.no(
                        f"{size_of(product.k)} terms are no multiple of {self.parts} times {core.k}",
                        remedy="pad_to makes it one",
                    )
                if size_of(product.k) // core.k % self.run:
                    raise self.no(f"{size_of(product.k)} terms are no multiple of {self.run} times {core.k}")
                if core.threads > 1 and any(
                    n.op is Ops.BUFFERIZE and not {product.m, product.n}.isdisjoint(n.src[0].ranges)
                    for n in sink.toposort()
                ):
                    raise self.no("threads would share rows that the kernel keeps for one value of an axis")
                return core, product
        ways = "; ".join(str(TensorCore.of(core, product)) for product in candidates)
        raise self.no(f"{core.name} does not fit these axes", remedy=f"it fits so: {ways}")

    def apply(self, sink: UOp, target: Target) -> UOp:
        core, product = self.chosen(sink, target)
        run, stay, apart, parts = self.run, self.stay, self.apart, self.parts
        split = CoreTiling(
            sink,
            core,
            product,
            self.groups,
            self.buffers,
            engine=self.engine,
            run=run,
            stay=stay,
            apart=apart,
            parts=parts,
        )
        # lanes that are columns belong to them: the vectors of a row then lie one behind the other
        across = split.n if core.m == 1 else split.m
        row, column, lanes = split.spread("c", (*_path(across), _LANES_OF_A))
        totals: dict[UOp, UOp] = {}
        for each in products(sink, core):
            if (each.m, each.n) == (split.m, split.n) and each.reduce not in totals:
                one = product if each.reduce is product.reduce else each
                totals[each.reduce] = split.tile(one, lanes)
        if not core.reads_memory:
            return with_results(sink, split, [CoreResults(totals, row, column)])
        kernel = with_results(sink, split, results_in_memory(split, totals, row, column))
        return fitting(sink, kernel, self, target)
