"""An analytical model of what a scheduled kernel costs: it ranks candidates before any is measured, and explains itself.

The estimate is made of parts, each in cycles of one core: arithmetic, the instructions that load and store, waiting where a sum has too
few independent accumulators, the bytes between each two levels of the memory, the overhead of loops, and what is spilled. Per body of a
loop (`body.py`), then for the whole, the longest part bounds; the others hide behind it but for a fraction. Cores divide it.

Bytes. Of the loops around an access the outermost is looked for whose one iteration touches no more than a cache
holds: what that loop touches is then fetched once, and once more for every iteration of the loops around it. Lines count whole; those
that fall into the same sets of the first cache are fetched in every iteration.

What the machine is, is data (`Target`), measured by `planish info --calibrate`. Estimates rank; they promise no seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from planish.dtypes import DType
from planish.optimize.body import Body, overlapped
from planish.optimize.expected import Estimate
from planish.optimize.gpu.estimate import gpu_cost, least_gpu_cycles
from planish.target import Target
from planish.uop.nest import SIDE_BY_SIDE, closed_by, count, loops_of, trips
from planish.uop.nest.access import PAGE, Access
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import ALU, COMPARISONS, AxisType, Ops, TensorCoreOp
from planish.uop.ranges import kind_of
from planish.uop.weights import weight

_SHORT: Final = 8
"""Iterations of a loop that is unrolled."""
_NEAR: Final = 4
"""Elements from one to the next, up to which whole vectors are loaded and some of their lanes taken."""
_FEWER: Final = 2
"""How many times fewer whole vectors than pieces of them there have to be, for what lies between lanes to be loaded with them (stage 14)."""


def estimate(
    sink: UOp, target: Target, *, threads: int | None = None, pressure: int | None = None
) -> Estimate:
    """The cost of a kernel after stage 7, on so many threads.

    `pressure`: the vector registers that its code wants, if it is known (the linear scan of LLIR tells); else it is guessed.
    """
    if target.is_gpu:
        return _on_a_gpu(Nest.of(sink), target)
    return _Model(Nest.of(sink), target).estimate(threads, pressure)


def _on_a_gpu(nest: Nest, target: Target) -> Estimate:
    cost = gpu_cost(nest, target)
    return Estimate(cost.cycles(), cost.parts, 0, (cost.asked, cost.memory), 0, 1.0, max(cost.blocks, 1))


def least_cycles(nest: Nest, target: Target) -> float:
    """A bound: cycles of one core for a kernel's arithmetic in full vectors, or its memory fetched once, whichever takes longer.

    Of a GPU it is the cycles of all of it.
    """
    if target.is_gpu:
        return least_gpu_cycles(nest, target)
    fused, work = _fused(nest), Body()
    for node in nest.nodes:
        is_reduction = node.op is Ops.REDUCE
        # (what masks hide a schedule may leave out)
        masks = node.op is Ops.WHERE or node.dtype.is_bool
        if node in fused or masks or not (is_reduction or _counts(node)):
            continue
        loops = nest.loops((*loops_of(closed_by(node)), *node.ranges))
        vectors = count(loops) / max(target.lanes(node.dtype.scalar), 1)
        op = _combining(node, fused) if is_reduction else node.op
        work = work.plus(_arithmetic(op, vectors, node.dtype))
    touched: dict[UOp, int] = {}
    for access in nest.accesses:
        if access.in_memory:
            size = access.footprint((*access.loops, *access.lanes))
            touched[access.memory] = max(touched.get(access.memory, 0), size)
    nbytes = sum(touched.values())
    rates = zip(target.caches, target.bytes_per_cycle, strict=True)
    return max(work.compute(target), *(nbytes / rate for size, rate in rates if nbytes > size), 0.0)


def _fused(nest: Nest) -> set[UOp]:
    """Products that are added up: one operation is both."""
    return {
        n.src[0] for n in nest.reductions if n.arg is Ops.ADD and n.src[0].op is Ops.MUL and n.dtype.is_float
    }


def _combining(reduction: UOp, fused: set[UOp]) -> Ops:
    """What a reduction does with each term."""
    if reduction.src[0] in fused:
        return Ops.MUL
    return reduction.arg if isinstance(reduction.arg, Ops) else Ops.ADD


def _counts(node: UOp) -> bool:
    """Whether a node is arithmetic on data: not on places, nor what decides whether an element is loaded at all."""
    if node.op not in ALU or node.dtype.is_index or node.dtype.is_pointer:
        return False
    if node.op is Ops.WHERE and node.src[1].op is Ops.INDEX and node.src[2].op is Ops.CONST:
        return not _is_of_places(node.src[0])
    return not _is_of_places(node)


def _is_of_places(node: UOp) -> bool:
    """Whether a condition is about places alone."""
    while node.dtype.is_bool and node.op in {Ops.AND, Ops.OR, Ops.XOR}:
        if not _is_of_places(node.src[1]):
            return False
        node = node.src[0]
    return node.op in COMPARISONS and node.src[0].dtype.is_index


class _Model:
    """The parts of one estimate."""

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest = nest
        self.target = target
        self.touched: dict[UOp | None, int] = {}
        self.across = {r for access in nest.accesses for r in access.lanes if access.steps.get(r) == 1}
        """Lanes that are neighbours in some memory: those that vectors lie along."""
        self.bodies: dict[tuple[UOp, ...], Body] = {}
        """What every loop does in an iteration, by the loops around it and itself."""
        self.fused = _fused(nest)
        self.overwritten = _overwritten(nest)
        self.flops = 0
        self.turned = 0
        """Vectors that are shuffled among each other, and in registers all at once."""
        self.useful = 0.0
        self.issued = 0.0

    def estimate(self, threads: int | None, pressure: int | None) -> Estimate:
        nest, target = self.nest, self.target
        self._compute()
        for access in nest.accesses:
            self._add(access.loops, self._accessed(access))
        moved = tuple(self._moved(size) for size in target.caches)
        registers = self._registers() if pressure is None else pressure
        parts = {
            **self._inside_loops(),
            **self._memory(moved),
            "loops": self._loops(),
            "spills": max(registers - target.registers, 0) * target.spills * self._innermost(),
        }
        pieces = count(nest.parallel)
        cores = max(1, min(pieces, threads or target.cores, target.cores if target.cores > 1 else pieces))
        turns = -(-pieces // cores)
        # pieces of uneven number: the last turn leaves cores idle, but whoever is at work has all of the memory
        uneven = turns * cores / pieces
        shared = {
            name: part / min(cores, target.memory_cores) if name == "memory" else part / cores * uneven
            for name, part in parts.items()
        }
        # the more cores, the longer until all are at work
        started = (turns if pieces > 1 else 0) + target.wake * (cores - 1).bit_length()
        cycles = overlapped(target, *shared.values()) + target.launch * started
        efficiency = self.useful / self.issued if self.issued else 1.0
        return Estimate(cycles, parts, self.flops, moved, registers, efficiency, pieces)

    def _add(self, loops: tuple[UOp, ...], body: Body) -> None:
        known = self.bodies.get(loops)
        self.bodies[loops] = body if known is None else known.plus(body)

    def _inside_loops(self) -> dict[str, float]:
        """The parts of all bodies. What one waits for behind another part is no part of its own."""
        target = self.target
        compute = access = waiting = 0.0
        for loops, body in self.bodies.items():
            times = count(loops)
            busy = body.compute(target), body.access(target)
            compute += times * busy[0]
            access += times * busy[1]
            waiting += times * max(0.0, body.chain - max(busy))
        return {"compute": compute, "access": access, "waiting": waiting}

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _vectors(self, lanes: int, dtype: DType) -> int:
        """Operations on so many lanes side by side, however many are left for the last."""
        width = max(self.target.register_bytes if dtype.is_bool else self.target.lanes(dtype.scalar), 1)
        vectors = -(-lanes // width)
        if width > 1:
            self.useful += lanes
            self.issued += vectors * width
        return vectors

    def _compute(self) -> None:
        nest, target = self.nest, self.target
        for node in nest.nodes:
            if node.op is Ops.REDUCE:
                self._reduction(node)
                continue
            counts = _counts(node)
            if not counts and not _converts(node) and node.op not in {Ops.SCAN, Ops.WMMA}:
                continue
            loops, lanes = nest.loops(node.ranges), _lanes(node)
            floats = lanes if node.dtype.is_float and (counts or node.op is Ops.SCAN) else 0
            if node.op is Ops.SCAN:
                body = self._scanned(node, lanes)
            elif isinstance(node.arg, TensorCoreOp):
                done = prod(node.arg.dims) * lanes
                # dot products of vectors are multiplications like others
                busy = lanes if node.arg.dims[0] == 1 else done / target.core_products * target.multiplies
                floats, body = 2 * done, Body(multiplies=busy)
            elif node in self.fused:
                body = Body()
            else:
                body = _arithmetic(node.op, self._vectors(lanes, node.dtype), node.dtype)
            self.flops += count(loops) * floats
            self._add(loops, body)

    def _scanned(self, node: UOp, lanes: int) -> Body:
        """Running sums: each waits for the one before; those along lanes are made in rounds of shuffles."""
        inside = count(_side_by_side(closed_by(node)))
        rounds = (inside - 1).bit_length()
        vectors = self._vectors(lanes * inside if inside not in (1, lanes) else lanes, node.dtype)
        return Body(
            operations=vectors * (rounds + 1),
            shuffles=vectors * rounds,
            chain=self._chain(loops_of(closed_by(node))),
        )

    def _chain(self, loops: Iterable[UOp]) -> float:
        """Cycles that an iteration of loops waits for the one before: while short ones wait, the next have begun."""
        return self.target.latency * max(0.0, 1 - self.target.window / count(loops))

    def _reduction(self, node: UOp) -> None:
        """Combining, in every iteration; with too few accumulators each waits for the one before. Then its lanes."""
        nest, target = self.nest, self.target
        closed = closed_by(node)
        sequential = loops_of(closed)
        loops, lanes = nest.loops(sequential | node.ranges), _lanes(node)
        inside, op = _side_by_side(closed), _combining(node, self.fused)
        operations = self._vectors(lanes * count(inside), node.dtype)
        chain = self._chain(sequential) if target.register_bytes > 1 else 0.0
        self.flops += count(loops) * lanes * count(inside) if node.src[0].dtype.is_float else 0
        self._add(loops, _arithmetic(op, operations, node.dtype).plus(Body(chain=chain)))
        if not self.across.isdisjoint(inside):
            width = min(count(inside), target.lanes(node.dtype.scalar))
            vectors = -(-lanes * width // target.lanes(node.dtype.scalar))
            # of two vectors the halves are combined, until one is left of each element
            rounds = sum(max(vectors >> each, 1) for each in range(1, width.bit_length()))
            self._add(
                loops,
                _arithmetic(op, rounds, node.dtype).plus(Body(shuffles=2 * rounds)),
            )

    # -- memory --------------------------------------------------------------------------------------------------

    def _accessed(self, access: Access) -> Body:
        """The instructions of an access: of vectors where its lanes are neighbours, else of elements.

        Where some of its lanes are neighbours, and others nearly so, vectors lie along whichever takes less.
        """
        lanes = [r for r in access.lanes if access.steps.get(r, 0) != 0]
        wide = [r for r in lanes if r in self.across]
        along = [r for r in wide if access.steps[r] in {1, -1}]
        turned, body = self.turned, self._along(access, lanes, wide, along)
        if along and not access.is_store:
            for r in wide:
                if 1 < abs(access.steps[r] or 0) <= _NEAR and trips(r) > count(along):
                    rival = self._along(access, lanes, [r], [])
                    if rival.access(self.target) < body.access(self.target):
                        self.turned, body = turned, rival
        return body

    def _along(self, access: Access, lanes: Sequence[UOp], wide: Sequence[UOp], along: Sequence[UOp]) -> Body:
        """The instructions of an access whose vectors lie along some of its lanes."""
        target, elements, shuffles = self.target, 0.0, 0.0
        others = [r for r in lanes if r not in along]
        starts = prod(access.runs(others))
        width, step = target.lanes(access.dtype.scalar), access.step_of(wide)
        if access.in_memory and any(access.steps[r] is None for r in others):  # places are taken out of lanes
            elements = float(starts)
        if along or not wide or target.register_bytes == 1:
            # (what has no lanes along vectors goes to all lanes of one, element by element)
            run = prod(access.trips(r) for r in along)
            masked = any(not each.ranges.isdisjoint(along) for each in access.conditions)
            instructions, whole = self._pieces(access, run, others, masked=masked)
            if any(access.steps[r] == -1 for r in along):
                shuffles = instructions
            elif along and _fastest(lanes) not in along and others:
                # neighbours in memory are not neighbours in lanes: rounds of shuffles
                shuffles = instructions * (min(run, width) - 1).bit_length()
                self.turned = max(self.turned, int(instructions))
            elif along:
                # pieces of vectors are put together, or lanes are selected from whole ones
                vectors = -(-run * starts // width)
                shuffles = abs(instructions - vectors) if whole or run * starts > width else 0.0
                if whole or (access.is_gated and starts > 1 and run % width):
                    shuffles = max(shuffles, 2 * vectors)
        else:
            self.useful += starts
            self.issued += starts * width
            if 1 < step <= _NEAR and not access.is_store:
                instructions = shuffles = float(-(-starts * step // width))
            else:
                instructions, elements = float(starts), elements + starts
        inner = access.loops[-1:]
        asked = sum(not inner or inner[0] in each.ranges for each in access.conditions)
        masks = (
            self.target.masks * asked * instructions
        )  # (what does not change in the innermost loop is known before it)
        if access.is_store:
            return Body(masks, stores=instructions, shuffles=shuffles, elements=elements)
        return Body(masks, loads=instructions, shuffles=shuffles, elements=elements)

    def _masks(self, access: Access, instructions: float) -> float:
        """Operations that say which lanes of an access there are; what does not change in the innermost loop is known before it."""
        inner = access.loops[-1:]
        asked = [each for each in access.conditions if not inner or inner[0] in each.ranges]
        return sum(
            1.0 if each.ranges.isdisjoint(access.lanes) else self.target.masks * instructions
            for each in asked
        )

    def _pieces(self, access: Access, run: int, others: Sequence[UOp], *, masked: bool) -> tuple[float, bool]:
        """Vectors of a run of neighbours and of all that lie apart in other lanes, and whether what lies between is loaded with them.

        Runs that follow each other are one; those less than a vector apart are loaded as whole vectors, if these are fewer.
        """
        width, whole = max(self.target.lanes(access.dtype.scalar), 1), False
        spans, unknown = access.spans(others)
        times, extent = unknown * spans[0][1], run
        apart: list[int] = []
        for step, number in spans[1:]:
            if not apart and step == extent and not access.is_gated:
                run, extent = run * number, extent * number
                continue
            apart.append(number)
            extent += step * (number - 1)
        rest = min(run % width, 1) if masked else (run % width).bit_count()
        pieces = times * prod(apart) * (run // width + rest)
        if apart and run & (run - 1) and not access.is_store and not access.is_gated:
            covered = -(-extent // width)
            whole = _FEWER * covered * times <= pieces
            pieces = covered * times if whole else pieces
        if width > 1:
            self.useful += times * prod(apart) * run
            self.issued += pieces * width
        return float(pieces), whole

    def _moved(self, size: int) -> int:
        """Bytes that are fetched and written beyond a cache."""
        total = 0
        for access in self.nest.accesses:
            loops = access.loops
            first = next((n for n, r in enumerate(loops) if self._touched_once(r) <= size), len(loops))
            if size == self.target.caches[0] and access.collides(size // PAGE):
                first = len(loops)  # nothing of it is there any more in the next iteration
            fetched = access.footprint((*loops[first:], *access.lanes)) * count(loops[:first])
            # a line that is written is fetched before, unless it goes past the caches
            total += fetched * (2 if access.is_store and not access.nontemporal else 1)
        return total

    def _touched_once(self, loop: UOp | None) -> int:
        nbytes = self.touched.get(loop)
        if nbytes is None:
            nbytes = self.touched[loop] = self._touched(loop)
        return nbytes

    def _touched(self, loop: UOp | None) -> int:
        """Bytes that one iteration of a loop (None: of the kernel) touches."""
        # what is read here and written there is touched once, and so is all of a kernel's own memory
        touched: dict[tuple[UOp, tuple[tuple[UOp, int | None], ...]], int] = {}
        for access in self.nest.accesses:
            if loop is not None and loop not in access.loops:
                continue
            inner = [
                r for r in access.loops if loop is None or (r is not loop and self.nest.is_inside(r, loop))
            ]
            moving = tuple(
                (r, access.steps[r]) for r in (*inner, *access.lanes) if access.steps.get(r, 0) != 0
            )
            which = self.overwritten.get(access.memory, access.memory), moving if access.in_memory else ()
            size = access.footprint((*inner, *access.lanes))
            touched[which] = max(touched.get(which, 0), size)
        return sum(touched.values())

    def _memory(self, moved: tuple[int, ...]) -> dict[str, float]:
        """Cycles for the bytes between levels. What fits into a cache as a whole is still there from the last call."""
        whole = self._touched_once(None)
        names = [f"L{number}" for number in range(2, len(moved) + 1)] + ["memory"]
        rates = self.target.bytes_per_cycle
        cycles = {}
        for name, nbytes, rate, size in zip(names, moved, rates, self.target.caches, strict=True):
            cycles[name] = 0.0 if whole <= size else nbytes / rate
        return cycles

    # -- loops and registers -------------------------------------------------------------------------------------

    def _loops(self) -> float:
        nest, total = self.nest, 0.0
        inner = self._without_inner()
        for r, around in nest.around.items():
            if r in inner and trips(r) <= _SHORT:
                continue
            total += count((*nest.parallel, *around)) * trips(r) * self.target.branches
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
            _, run = access.runs(lanes)
            if run > 1 and not access.is_store and (not live or not live.keys().isdisjoint(access.loops)):
                widest = max(widest, -(-run // self.target.lanes(access.dtype.scalar)))
        return max(live.values(), default=self.turned or 1) + widest + 1


def _arithmetic(op: Ops, vectors: float, dtype: DType) -> Body:
    """An op on so many vectors."""
    # (the larger of two integers is one operation; of floats one may be no number)
    heavy = 1.0 if op in {Ops.MAX, Ops.MIN} and not dtype.is_float else weight(op)
    if heavy > 1.0 or op in {Ops.MUL, Ops.MULACC}:
        return Body(multiplies=vectors * heavy)
    return Body(operations=vectors)


def _fastest(lanes: Sequence[UOp]) -> UOp:
    """The lanes that are next to each other in registers; terms that are added up at once each have a vector."""
    return next((r for r in reversed(lanes) if kind_of(r) is not AxisType.UNROLL), lanes[-1])


def _overwritten(nest: Nest) -> dict[UOp, UOp]:
    """Kept values that take the place of others of their size, which they are computed from."""
    replaced: dict[UOp, UOp] = {}
    kept = set(nest.kept)
    for memory in nest.kept:
        size = memory.dtype, [trips(r) for r in memory.src[1:]]
        for source in memory.src[0].toposort(lambda node: node not in kept):
            if source in kept and size == (source.dtype, [trips(r) for r in source.src[1:]]):
                replaced[memory] = replaced.get(source, source)
    return replaced


def _converts(node: UOp) -> bool:
    """Whether a node changes the dtype of data."""
    return node.op is Ops.CAST and not node.src[0].dtype.is_index and not node.src[0].dtype.is_pointer


def _lanes(node: UOp) -> int:
    return count(_side_by_side(node.ranges))


def _side_by_side(ranges: Iterable[UOp]) -> list[UOp]:
    return [r for r in ranges if kind_of(r) in SIDE_BY_SIDE]
