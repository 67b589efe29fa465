"""An analytical model of what a scheduled kernel costs: it ranks candidates before any is measured, and explains itself.

The estimate is made of parts, each in cycles of one core: arithmetic (throughput, and latency where a sum has too few
independent accumulators), the instructions that load and store, the bytes between each two levels of the memory, the overhead of
loops, and what is spilled. The longest part bounds the kernel; the others hide behind it but for a fraction. Cores divide it.

Bytes. Of the loops around an access the outermost is looked for whose one iteration touches no more than a cache
holds: what that loop touches is then fetched once, and once more for every iteration of the loops around it. Lines count whole.

The numbers are those of a machine with wide vectors in round figures. They rank schedules of one kernel; they promise no seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from planish.dtypes import DType
from planish.optimize.nest import LANES, SEQUENTIAL, Nest, closed_by, count, trips
from planish.target import Target
from planish.uop.node import UOp
from planish.uop.ops import ALU, AxisType, Ops, TensorCore
from planish.uop.ranges import kind_of
from planish.uop.weights import weight

_SHARED: Final = 2.0
"""How many cores the memory serves at full speed; more share what there is."""
_LATENCY: Final = 4.0
"""Cycles until a sum can be added to again."""
_SPILLED: Final = 5.0
"""Cycles per iteration for a value that has no register: stored and loaded again, both in the chain of what is computed."""
_GATHERED: Final = 2.0
"""What one element costs that has to be put into a lane by itself."""
_SHUFFLED: Final = 3.0
"""What a vector costs whose lanes have to be brought into another order."""
_MASKED: Final = 1.25
"""What a masked access costs."""
_LOOP: Final = 1.5
"""Cycles to count and jump."""
_SHORT: Final = 8
"""Iterations of a loop that is unrolled."""
_HIDDEN: Final = 0.15
"""How much of what does not bound a kernel is seen nevertheless."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a schedule is expected to cost, and of what."""

    cycles: float
    """The whole, in cycles: only good for comparing schedules of one kernel on one machine."""
    parts: Mapping[str, float]
    """Cycles of one core by what they are spent on: compute, access, L2, L3, memory, loops, spills."""
    flops: int
    moved: tuple[int, ...]
    """Bytes fetched or written beyond each cache, nearest first; the last are those of memory."""
    registers: int
    """Vector registers that its innermost loop wants."""
    vector_efficiency: float
    """Lanes that do something, of those that loads, stores and arithmetic have."""
    pieces: int
    """Into how many the cores divide it."""

    @property
    def bound_by(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else "nothing"

    @property
    def nbytes(self) -> int:
        """Bytes to and from memory."""
        return self.moved[-1] if self.moved else 0

    @property
    def intensity(self) -> float:
        """Flops per byte of memory."""
        return self.flops / self.nbytes if self.nbytes else 0.0

    def __str__(self) -> str:
        total = sum(self.parts.values()) or 1.0
        shares = ", ".join(
            f"{name} {part / total:.0%}" for name, part in _by_size(self.parts) if part >= 0.01 * total
        )
        caches = " / ".join(_amount(each) for each in self.moved)
        return (
            f"bound by {self.bound_by} ({shares}); {_amount(self.flops, 1000)}flop, {caches}B beyond each cache, "
            f"{self.intensity:.2g} flop/B, {self.registers} vector registers, {self.vector_efficiency:.0%} of lanes, "
            f"{self.pieces} pieces"
        )


def _by_size(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda item: -item[1])


def _amount(number: float, base: int = 1024) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if number < 10 * base or unit == "T":
            return f"{number:.0f} {unit}" if unit else f"{number:.0f} "
        number /= base
    return ""


def estimate(
    sink: UOp, target: Target, *, threads: int | None = None, pressure: int | None = None
) -> Estimate:
    """The cost of a kernel after stage 7, on so many threads.

    `pressure`: the vector registers that its code wants, if it is known (the linear scan of LLIR tells); else it is guessed.
    """
    return _Model(Nest(sink), target).estimate(threads, pressure)


class _Model:
    """The parts of one estimate."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest = nest
        self.target = target
        self.inside: dict[UOp | None, int] = {}
        self.across = {r for access in nest.accesses for r in access.lanes if access.steps.get(r) == 1}
        """Lanes that are neighbours in some memory: those that vectors lie along."""
        self.useful = 0.0
        self.issued = 0.0

    def estimate(self, threads: int | None, pressure: int | None) -> Estimate:
        nest, target = self.nest, self.target
        compute, flops = self._compute()
        moved = tuple(self._moved(size) for size in target.caches)
        registers = self._registers() if pressure is None else pressure
        parts = {
            "compute": compute,
            "access": self._access(),
            **self._memory(moved),
            "loops": self._loops(),
            "spills": max(registers - target.registers, 0) * _SPILLED * self._innermost(),
        }
        pieces = count(nest.parallel)
        cores = max(1, min(pieces, threads or target.cores, target.cores if target.cores > 1 else pieces))
        turns = -(-pieces // cores)
        shared = {
            name: part / (min(cores, _SHARED) if name == "memory" else cores) for name, part in parts.items()
        }
        # pieces of uneven number: the last turn leaves cores idle
        uneven = turns * cores / pieces
        bound = max(shared.values())
        cycles = (bound + _HIDDEN * (sum(shared.values()) - bound)) * uneven + target.launch * (
            turns if pieces > 1 else 0
        )
        efficiency = self.useful / self.issued if self.issued else 1.0
        return Estimate(cycles, parts, flops, moved, registers, efficiency, pieces)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _vectors(self, lanes: int, dtype: DType) -> int:
        """Operations for so many lanes."""
        width = self.target.lanes(dtype.scalar) if not dtype.is_bool else self.target.register_bytes
        vectors = -(-lanes // max(width, 1))
        if width > 1:
            self.useful += lanes
            self.issued += vectors * width
        return vectors

    def _operations(self, node: UOp, lanes: int) -> int:
        """Operations for a node: what has no neighbours in memory among its lanes goes one by one to all lanes of others."""
        if self.across and self.across.isdisjoint(node.ranges):
            return lanes
        return self._vectors(lanes, node.dtype)

    def _compute(self) -> tuple[float, int]:
        nest = self.nest
        total, flops = 0.0, 0
        fused = {
            n.src[0]
            for n in nest.nodes
            if n.op is Ops.REDUCE and n.arg is Ops.ADD and n.src[0].op is Ops.MUL and n.dtype.is_float
        }
        for node in nest.nodes:
            if node.op is Ops.REDUCE:
                cycles, done = self._reduction(node)
                total += cycles
                flops += done
            elif node.op is Ops.SCAN:
                times, lanes = nest.times(node), _lanes(node)
                total += times * max(self._vectors(lanes, node.dtype) / self.target.ports, _LATENCY)
                flops += times * lanes if node.dtype.is_float else 0
            elif node.op is Ops.WMMA and isinstance(node.arg, TensorCore):
                tile, times = node.arg.dims, nest.times(node) * _lanes(node)
                total += times * prod(tile) / 1024
                flops += 2 * prod(tile) * times
            elif (
                (node.op in ALU or _converts(node)) and not node.dtype.is_index and not node.dtype.is_pointer
            ):
                if node.op in {Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE} and node.src[0].dtype.is_index:
                    continue
                times, lanes = nest.times(node), _lanes(node)
                flops += times * lanes if node.dtype.is_float and node.op in ALU else 0
                if node not in fused:
                    total += times * self._operations(node, lanes) * weight(node.op) / self.target.ports
        return total, flops

    def _reduction(self, node: UOp) -> tuple[float, int]:
        """Combining, in every iteration; with too few accumulators each waits for the one before."""
        nest, x = self.nest, node.src[0]
        closed = closed_by(node)
        times = count(nest.loops(frozenset(r for r in closed if kind_of(r) in SEQUENTIAL) | node.ranges))
        lanes = _lanes(node)
        heavy = weight(node.arg) if isinstance(node.arg, Ops) else 1.0
        vectors = self._vectors(lanes, node.dtype)
        inside = count(r for r in closed if kind_of(r) in LANES)
        horizontal = 0.0
        if inside > 1:
            before = self._vectors(lanes * inside, node.dtype)
            horizontal = (
                before + 2.0 * min(inside, self.target.lanes(node.dtype.scalar)).bit_length()
            ) * heavy
        sequential = any(kind_of(r) in SEQUENTIAL for r in closed)
        each = vectors * heavy / self.target.ports
        if sequential and self.target.register_bytes > 1:
            each = max(each, _LATENCY)
        flops = times * lanes * inside if x.dtype.is_float else 0
        return times * (each + horizontal / self.target.ports), flops

    # -- memory --------------------------------------------------------------------------------------------------

    def _access(self) -> float:
        total = 0.0
        for access in self.nest.accesses:
            lanes = [r for r in access.lanes if access.steps.get(r, 0) != 0]
            runs, run = access.runs(lanes)
            if run == 1 and lanes and self.across and self.across.isdisjoint(lanes):
                instructions = float(runs)  # each goes to all lanes of a vector
            elif run == 1 and runs > 1 and self.target.register_bytes > 1:
                instructions = runs * _GATHERED
                self.useful += runs
                self.issued += runs * self.target.lanes(access.dtype.scalar)
            else:
                instructions = float(runs * self._vectors(run, access.dtype))
                if run > 1 and access.steps.get(lanes[-1]) != 1:
                    # neighbours in memory are not neighbours in lanes: rounds of shuffles
                    instructions *= _SHUFFLED
            total += count(access.loops) * instructions * (_MASKED if access.is_gated else 1.0)
        return total / self.target.ports

    def _moved(self, size: int) -> int:
        """Bytes that are fetched and written beyond a cache."""
        total = 0
        for access in self.nest.accesses:
            loops = access.loops
            first = next((n for n, r in enumerate(loops) if self._inside(r) <= size), len(loops))
            fetched = access.footprint((*loops[first:], *access.lanes)) * count(loops[:first])
            # a line that is written is fetched before, unless it goes past the caches
            total += fetched * (2 if access.is_store and not access.nontemporal else 1)
        return total

    def _inside(self, loop: UOp | None) -> int:
        found = self.inside.get(loop)
        if found is None:
            found = self.inside[loop] = self._touched(loop)
        return found

    def _touched(self, loop: UOp | None) -> int:
        """Bytes that one iteration of a loop (None: of the kernel) touches."""
        total = 0
        seen: set[tuple[UOp, tuple[tuple[UOp, int | None], ...]]] = set()
        for access in self.nest.accesses:
            if loop is not None and loop not in access.loops:
                continue
            inner = [
                r for r in access.loops if loop is None or (r is not loop and self.nest.is_inside(r, loop))
            ]
            moving = tuple(
                (r, access.steps[r]) for r in (*inner, *access.lanes) if access.steps.get(r, 0) != 0
            )
            if (access.memory, moving) not in seen:  # what is read here and written there is touched once
                seen.add((access.memory, moving))
                total += access.footprint((*inner, *access.lanes))
        return total

    def _memory(self, moved: tuple[int, ...]) -> dict[str, float]:
        """Cycles for the bytes between levels. What fits into a cache as a whole is still there from the last call."""
        whole = self._inside(None)
        names = [f"L{number}" for number in range(2, len(moved) + 1)] + ["memory"]
        rates = self.target.bytes_per_cycle
        found = {}
        for name, nbytes, rate, size in zip(names, moved, rates, self.target.caches, strict=True):
            found[name] = 0.0 if whole <= size else nbytes / rate
        return found

    # -- loops and registers -------------------------------------------------------------------------------------

    def _loops(self) -> float:
        nest, total = self.nest, 0.0
        inner = self._without_inner()
        for r, around in nest.around.items():
            if r in inner and trips(r) <= _SHORT:
                continue
            total += count((*nest.parallel, *around)) * trips(r) * _LOOP
        return total

    def _without_inner(self) -> set[UOp]:
        nest = self.nest
        outer = {s for around in nest.around.values() for s in around}
        return {r for r in nest.around if r not in outer}

    def _innermost(self) -> float:
        """How often the busiest innermost body runs."""
        nest = self.nest
        return float(
            max((count((*nest.parallel, *nest.around[r], r)) for r in self._without_inner()), default=1)
        )

    def _registers(self) -> int:
        """Accumulators that live through one loop, the widest operand beside them, and one more."""
        live: dict[UOp, int] = {}
        for node in self.nest.nodes:
            if node.op is not Ops.REDUCE:
                continue
            vectors = -(-_lanes(node) // self.target.lanes(node.dtype.scalar))
            for r in closed_by(node):
                if kind_of(r) is AxisType.REDUCE:
                    live[r] = live.get(r, 0) + vectors
        widest = 1
        for access in self.nest.accesses:
            lanes = [r for r in access.lanes if access.steps.get(r, 0) != 0]
            runs, run = access.runs(lanes)
            if run > 1 and not access.is_store:
                widest = max(widest, min(runs, 2) * -(-run // self.target.lanes(access.dtype.scalar)))
        return max(live.values(), default=1) + widest + 1


def _converts(node: UOp) -> bool:
    """Whether a node changes the dtype of data."""
    return node.op is Ops.CAST and not node.src[0].dtype.is_index and not node.src[0].dtype.is_pointer


def _lanes(node: UOp) -> int:
    return count(_side_by_side(node.ranges))


def _side_by_side(ranges: Iterable[UOp]) -> list[UOp]:
    return [r for r in ranges if kind_of(r) in LANES]
