"""What a scheduled kernel asks of a GPU: counts, of which none is of a machine. `estimate.py` says what they cost.

A block runs all that is not a block's own axis: what does not depend on one is done by every block. Threads of a warp do it together, so
arithmetic counts in instructions of warps, accesses in what a warp touches at once. Where blocks claim rows of a list, each does what is to be done for its
own entries, and passes the others by, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import log2, prod
from typing import Final, NamedTuple, cast

from planish.dtypes import DType
from planish.optimize.gpu.core_tiles import reads_memory
from planish.optimize.gpu.sectors import touched, warp_of
from planish.target import Target
from planish.uop.nest import LANES, PARALLEL, SEQUENTIAL, closed_by, count, trips
from planish.uop.nest.access import Access
from planish.uop.nest.grid import block_axes, neighbouring_threads
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes
from planish.uop.node import UOp
from planish.uop.ops import ALU, AxisType, Bufferize, Ops, TensorCoreOp
from planish.uop.ranges import kind_of
from planish.uop.weights import weight

_WORD: Final = 4
"""Bytes of a register of a thread."""
_PASSED: Final = 128
"""Entries of a list that a warp passes by at once, by the code that is made for it (`codegen/cuda_votes.py`)."""
_PASSING: Final = 16
"""Instructions that it takes for them."""
_DIVIDED: Final = 5.0
"""Those of a place that is divided by a number."""


class Work(NamedTuple):
    """Of a whole kernel, but for what is said to be of a block, a thread or a warp."""

    blocks: int
    threads: int
    """Of a block."""
    local: int
    """Bytes of LOCAL memory of a block."""
    sums: float
    """Words that a thread adds up in registers."""
    held: float
    """Words that it has loaded at once."""
    instructions: float
    """Of warps, arithmetic, each weighted."""
    places: float
    """The same of what says where something is."""
    loops: float
    """Iterations of loops of a warp."""
    lines: float
    """Lines of memory that warps look for."""
    shared: float
    """Lines of LOCAL memory that warps read or write."""
    sectors: float
    """Bytes of all sectors that warps ask for, however often."""
    unique: float
    """Bytes of parameters that are touched at all, each counted once."""
    waits: float
    """How often a thread waits for memory, one time after the other."""
    ordered: float
    """The same where it reads what it may just have written."""
    barriers: float
    """How often a block waits for all of its threads."""
    shuffles: float
    """How often the threads of a warp exchange values, one time after the other."""
    finish: float
    """Steps in which few threads add up what all have put down."""
    tiled: float
    """Multiply-adds of tensor cores whose operands are in registers, by the bits of their elements."""
    walked: float
    """The same of those that read LOCAL memory."""
    serial: float
    """Steps of loops of a thread, one after the other."""


def work_of(nest: Nest, target: Target) -> Work:
    """Counted on a kernel after its actions."""
    return _Counting(nest, target).work()


class _Counting:
    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target, self.pairs = nest, target, target.pairs
        self.grid = frozenset(block_axes(nest, target.workers)) | frozenset(nest.axes(*PARALLEL))
        self.blocks = max(prod(r.vmax + 1 for r in self.grid), 1)
        self.axes = neighbouring_threads(nest)
        self.warp = warp_of(self.axes, target)
        self.cores = [n for n in nest.nodes if n.op is Ops.WMMA and isinstance(n.arg, TensorCoreOp)]
        self.in_registers = [n for n in self.cores if not reads_memory(n)]

    # -- how often ---------------------------------------------------------------------------------------------------

    @cached_property
    def claimed(self) -> dict[UOp, float]:
        """Loops over lists of which a block does a part, and how many times less than all that is."""
        divisors: dict[UOp, float] = {}
        for access in self.nest.accesses:
            for each in access.conditions:
                axis = each.src[1] if each.op is Ops.CMPEQ else each.src[0] if each.op is Ops.CMPLT else each
                if axis.op is not Ops.RANGE:
                    continue
                if each.op is Ops.CMPEQ and axis in self.grid:
                    lists = [r for r in each.src[0].ranges if kind_of(r) in SEQUENTIAL and r not in self.grid]
                    for r in lists[-1:]:
                        divisors[r] = max(divisors.get(r, 1.0), trips(axis))
        for r in self.nest.ordered:
            voters = [v for v in self.axes if not any(v in a.steps for a in self.nest.accesses)]
            if voters and r not in self.grid:
                divisors[r] = max(divisors.get(r, 1.0), float(self.target.warp))
        return divisors

    def times(self, ranges: Iterable[UOp]) -> float:
        """How often a thread comes by what stands in some loops."""
        runs = 1.0
        for r in ranges:
            if kind_of(r) in SEQUENTIAL and r not in self.grid:
                runs *= max(trips(r) / self.claimed.get(r, 1.0), 1.0)
        return runs

    def _of(self, node: UOp) -> float:
        """How often a thread does what depends on some ranges, lanes included."""
        return self.times(self.nest.loops(node.ranges)) * count(r for r in node.ranges if kind_of(r) in LANES)

    # -- accesses ----------------------------------------------------------------------------------------------------

    @cached_property
    def rings(self) -> dict[UOp, UOp]:
        """What is fetched ahead to LOCAL memory: a read, and the ring that it fills."""
        return {
            n: ring
            for ring in self.nest.kept
            if cast("Bufferize", ring.arg).buffers > 1
            for n in ring.src[0].toposort()
            if n.op is Ops.INDEX and len(n.src) > 1
        }

    @cached_property
    def private(self) -> dict[UOp, int]:
        """Kept rows of which every thread reads what it wrote itself, and their bytes: they are its registers (`own_registers.py`)."""
        nbytes = {}
        for kept in self.nest.kept:
            mine = [access for access in self.nest.accesses if access.memory is kept]
            moves = [{r: a.steps[r] for r in self.axes if a.steps.get(r)} for a in mine]
            rows_apart = all(a.copies == 1 or not any(b.is_gated for b in mine) for a in mine)
            alike = all(each == moves[0] and None not in each.values() for each in moves)
            if moves and alike and rows_apart and cast("Bufferize", kept.arg).buffers == 1:
                size = prod(place.vmax + 1 for place in kept.src[1:])
                several = max(access.copies for access in mine)
                if size // max(prod(r.vmax + 1 for r in moves[0]), 1) <= self.target.shares.kept_elements:
                    nbytes[kept] = size * several * kept.src[0].dtype.itemsize
        return nbytes

    def _own_loops(self, access: Access) -> tuple[UOp, ...]:
        return tuple(r for r in access.loops if kind_of(r) in SEQUENTIAL and r not in self.grid)

    def work(self) -> Work:
        nest, warp = self.nest, self.warp
        warps = self.blocks * warp.warps
        lines = shared = sectors = held = 0.0
        unique: dict[UOp, int] = {}
        chains: dict[tuple[UOp, ...], float] = {}
        in_order: dict[tuple[UOp, ...], float] = {}
        changed = {a.memory for a in nest.accesses if a.is_store} & {
            a.memory for a in nest.accesses if not a.is_store
        }
        for access in nest.accesses:
            if access.memory.op is Ops.DEFINE_REG:
                continue
            lanes = count(r for r in access.lanes if kind_of(r) in LANES)
            seen = touched(access, warp)
            each = max(lanes // seen.vector, 1) * seen.accesses * self.times(access.loops)
            mine = self.blocks * self._active_warps(access) if access.is_store else warps
            if not access.in_memory:
                if (access.is_store or not self.in_registers) and access.memory not in self.private:
                    moved = seen.active * seen.vector * access.dtype.itemsize / self.target.line_bytes
                    shared += mine * each * max(moved, 1.0)
                continue
            lines += mine * each / seen.accesses * seen.lines
            asked = mine * each / seen.accesses * seen.sectors * self.target.sector_bytes
            sectors += asked
            own = self._own_loops(access)
            whole = access.footprint((*access.loops, *access.lanes))
            unique[access.memory] = max(unique.get(access.memory, 0), int(min(whole, asked)))
            if access.is_store:
                continue
            if access.memory in changed and any(r in nest.ordered for r in own):
                in_order[own] = self.times(own)  # the next read may be of what was just written
                continue
            chain, ahead = self._chain(access, own)
            chains[chain] = max(chains.get(chain, 1.0), ahead)
            if access.place not in self.rings:
                held = max(held, lanes * access.dtype.itemsize / _WORD)
        for core in self.in_registers:
            for value, elements in zip(core.src[:2], _operands(core), strict=True):
                nbytes = elements * value.dtype.scalar.itemsize
                if any(n.op is Ops.BUFFERIZE for n in value.toposort()):
                    shared += warps * self._of(value) * max(nbytes / self.target.line_bytes, 1.0)
        waits = sum(self.times(chain) / ahead for chain, ahead in chains.items())
        at_once = _PASSED if warp.threads % self.target.warp == 0 else 1
        passing = sum(trips(r) / at_once for r in self.claimed)
        barriers, shuffles, finish = self._together()
        return Work(
            self.blocks, warp.threads, max(local_bytes(nest.sink, final=True) - sum(self.private.values()), 0), self._sums(), held,
            self._instructions(warps) + passing * _PASSING * warps, self._places(warps), self._iterations(warps), lines, shared, sectors,
            sum(unique.values()), waits + passing, sum(in_order.values()),
            barriers, shuffles, finish, self._tiled(self.in_registers),
            self._tiled([n for n in self.cores if n not in self.in_registers]), self._serial(),
        )  # fmt: skip

    def _chain(self, access: Access, own: tuple[UOp, ...]) -> tuple[tuple[UOp, ...], float]:
        """The loops in which a thread waits for what it reads, and for how many iterations of the last at once."""
        ring = self.rings.get(access.place)
        if ring is not None:
            around = tuple(r for r in own if r not in closed_by(ring))
            buffers = cast("Bufferize", ring.arg).buffers
            return around, float(min(buffers - 1, count(around[-1:])) if around else 1)
        if not own:
            return own, 1.0
        steps, ahead = count(own[-1:]), self.target.shares.loads_ahead
        if access.is_gated:  # (of a loop that is no whole number of rounds nothing is brought forward)
            return own, float(next(n for n in (ahead, ahead // 2, 1) if steps % n == 0))
        return own, float(min(steps, ahead))

    def _active_warps(self, access: Access) -> int:
        """Warps of a block that take part in a store: threads that its place does not depend on leave it to the first."""
        return max(prod(r.vmax + 1 for r in self.axes if r in access.lanes) // self.target.warp, 1)

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _sums(self) -> float:
        return max(
            (
                prod(r.vmax + 1 for r in n.ranges if kind_of(r) in LANES)
                * max(n.dtype.itemsize / _WORD, 1.0)
                * (n.src[0].dtype.lanes if n.src[0].op is Ops.UNROLL else 1)
                for n in self.nest.nodes
                if n.op in {Ops.REDUCE, Ops.SCAN}
            ),
            default=0.0,
        )

    def _instructions(self, warps: int) -> float:
        total = 0.0
        for node in self.nest.nodes:
            if node.op in {Ops.REDUCE, Ops.SCAN}:
                total += self._of(node.src[0]) * _each(node.dtype)
            elif _is_arithmetic(node):
                both = node.op in self.pairs and node.dtype.scalar.itemsize < _WORD
                total += weight(node.op) * self._of(node) * (0.5 if both else _each(node.dtype))
        return total * warps

    def _places(self, warps: int) -> float:
        """What differs between lanes is a part of an access, and costs nothing."""
        total = 0.0
        for node in self.nest.nodes:
            if node.op in ALU and (node.dtype.is_index or node.dtype.is_bool):
                total += min(weight(node.op), _DIVIDED) * self.times(self.nest.loops(node.ranges))
        return total * warps

    @cached_property
    def _loops(self) -> list[UOp]:
        return [r for r in self.nest.ranges if kind_of(r) in SEQUENTIAL and r not in self.grid]

    def _iterations(self, warps: int) -> float:
        """Of all loops, each with those around it."""
        return warps * sum(self.times(self.nest.loops((r,))) for r in self._loops)

    def _serial(self) -> float:
        """Steps of loops one after the other, of the longest chain."""
        return max((self.times(self.nest.loops((r,))) for r in self._loops), default=1.0)

    def _together(self) -> tuple[float, float, float]:
        """Barriers of a block, exchanges of a warp, and steps in which few threads finish shared sums, each as often as it is done."""
        barriers = shuffles = finish = 0.0
        for node in self.nest.nodes:
            if node.op in {Ops.REDUCE, Ops.SCAN}:
                group = [r for r in closed_by(node) if kind_of(r) in {AxisType.GROUP_REDUCE, AxisType.WARP}]
                if not group:
                    continue
                often = self.times(self.nest.loops(node.ranges)) * count(
                    r for r in node.ranges if kind_of(r) in LANES
                )
                size, within = count(group), min(self._within_a_warp(group), count(group))
                shuffles += often * log2(max(within, 1))
                if size > within:
                    barriers += 2 * self.times(self.nest.loops(node.ranges))
                    finish += often * size / within
            elif node.op is Ops.BUFFERIZE and self.warp.threads > self.target.warp:
                how = cast("Bufferize", node.arg)
                if not how.own and node not in self.private:
                    barriers += self.times(self.nest.loops(node.ranges)) * (1.0 if how.buffers > 1 else 2.0)
        return barriers, shuffles, finish

    def _within_a_warp(self, group: Sequence[UOp]) -> int:
        """Neighbouring threads that share a sum: they are the first of a block, or are not neighbours."""
        return min(prod(r.vmax + 1 for r in self.axes[:1] if r in group), self.target.warp)

    def _tiled(self, cores: Sequence[UOp]) -> float:
        """Every thread of a core's tile has the node."""
        total = 0.0
        for node in cores:
            own = [r for r in node.ranges if kind_of(r) in {*LANES, AxisType.LOCAL, AxisType.GROUP_REDUCE}]
            tiles = self.times(self.nest.loops(node.ranges)) * count(own) * self.blocks
            total += prod(cast("TensorCoreOp", node.arg).dims) * tiles * 8 * node.src[0].dtype.scalar.itemsize
        return total


def _operands(core: UOp) -> tuple[int, int]:
    """Elements of both operands of a core."""
    m, n, k = cast("TensorCoreOp", core.arg).dims
    return m * k, k * n


def _each(dtype: DType) -> float:
    """Instructions for an element: those of 64 bits take two."""
    return max(dtype.scalar.itemsize / _WORD, 1.0)


def _is_arithmetic(node: UOp) -> bool:
    return (node.op in ALU or node.op is Ops.CAST) and not (
        node.dtype.is_index or node.dtype.is_bool or node.dtype.is_pointer
    )
