"""LOCAL memory of which every thread reads nothing but what it wrote itself is registers of the thread.

The threads of a block share LOCAL memory, and wait for each other before they read it. A row that they keep together often needs
neither: where each of them walks the same part of the row every time, what it kept is its own.

How that is seen: all places of a buffer, stored to or read, are sums of constant steps along axes. The steps along threads' axes must
be the same at all of them; the others, those of loops and of lanes, are *own*. If all steps together are like the digits of a number
(what those below one reach is less than it), two threads never meet. The own digits, packed, are then the place in registers.

Before → after (t: LOCAL(128), r < 2)::

    STORE(INDEX(local[1024], r*512 + t*4 + ⟨0 1 2 3⟩), x)     STORE(INDEX(reg[8], r*4 + ⟨0 1 2 3⟩), x)

Nothing else changes: gates, loops and the order of effects stay. Stage 12 has no barrier for registers.

A narrow element fills a register like a wide one, but takes only its bytes of LOCAL memory. Where it is for that that a multiprocessor
had room for one block alone, such a row stays where it is: one block computes while another waits for memory. So does what a thread
has fetched for itself in the background (`stage(…, own=true)`): that is what memory is for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, cast

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.stages.expander.s10_add_local_buffers import spread
from planish.target import Target
from planish.uop.access_hints import hints_of
from planish.uop.nest import SEQUENTIAL, THREADS, constant_size, without_gate
from planish.uop.node import UOp
from planish.uop.ops import CONSTANTS, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.strides import stride
from planish.uop.symbolic import simplify

_OTHERS: Final = 32
"""Registers that a thread needs for everything else."""
_WORD: Final = 4
"""Bytes of a register; what is narrower has one of its own."""

_WALKED: Final = THREADS | SEQUENTIAL
"""Axes along which places move: a block of the grid that asks for another part has no number in registers."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a buffer is stored to or read: steps along axes, and where each lane starts."""

    index: UOp
    threads: tuple[tuple[UOp, int], ...]
    own: tuple[tuple[UOp, int], ...]
    lanes: tuple[int, ...]


def _memory(node: UOp) -> UOp | None:
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node if node.op is Ops.DEFINE_LOCAL else None


def _placed(index: UOp) -> _Place | None:
    """An index as a sum of steps; None if it is anything else."""
    steps: dict[UOp, int] = {}
    for r in sorted(index.ranges, key=lambda r: r.order):
        step = _step(index, r)
        if step is None or step < 0 or constant_size(r) is None or kind_of(r) not in _WALKED:
            return None
        steps[r] = step
    start = simplify(substitute(index, {r: r.const_like(0) for r in index.ranges}))
    lanes = _constants(start)
    if lanes is None or min(lanes) < 0:
        return None
    return _Place(
        index,
        tuple((r, step) for r, step in steps.items() if kind_of(r) in THREADS),
        tuple((r, step) for r, step in steps.items() if kind_of(r) not in THREADS),
        lanes,
    )


def _step(index: UOp, r: UOp) -> int | None:
    """The step of every lane along an axis, if it is one."""
    if index.dtype.lanes == 1:
        return stride(index, r)
    steps = _constants(simplify(substitute(index, {r: r + 1}) + index * -1))
    return steps[0] if steps is not None and len(set(steps)) == 1 else None


def _constants(value: UOp) -> tuple[int, ...] | None:
    if value.op is Ops.VECTORIZE:
        parts = [_constants(source) for source in value.src]
        return None if None in parts else tuple(part[0] for part in parts if part is not None)
    if value.op not in CONSTANTS:
        return None
    numbers = value.arg if isinstance(value.arg, tuple) else (value.arg,) * value.dtype.lanes
    return cast("tuple[int, ...]", numbers)


def _lane_steps(lanes: tuple[int, ...]) -> set[int]:
    """The steps of which the starts of lanes are sums: each the least that those below it do not reach."""
    left, steps, sums = set(lanes) - {0}, set(), {0}
    while left:
        step = min(left)
        times = 1
        while step * (times + 1) in left:
            times += 1
        sums = {each + k * step for each in sums for k in range(times + 1)}
        left -= sums
        steps.add(step)
    return steps


def _digits(number: int, steps: Collection[int]) -> dict[int, int] | None:
    """A number as multiples of steps, the largest first; None if something is left."""
    digits: dict[int, int] = {}
    for step in sorted(steps, reverse=True):
        digits[step], number = divmod(number, step)
    return digits if number == 0 else None


def _packed(places: Sequence[_Place]) -> dict[int, tuple[int, int]] | None:
    """For each own step what it becomes in registers, and how often it is taken; None if threads may meet."""
    threads = {r: step for r, step in places[0].threads if step}
    if any({r: step for r, step in p.threads if step} != threads for p in places):
        return None
    reached: dict[int, int] = {}
    steps = {step for p in places for _, step in p.own if step}.union(*(_lane_steps(p.lanes) for p in places))
    for p in places:
        for lane in p.lanes:
            known = _digits(lane, steps)
            if known is None:
                return None
            for step, times in known.items():
                along = sum(r.vmax for r, each in p.own if each == step)
                reached[step] = max(reached.get(step, 0), times + along)
    taken = {step: most for step, most in reached.items() if most}
    everything = sorted([*taken.items(), *((step, r.vmax) for r, step in threads.items())])
    below = 0
    for step, most in everything:
        if step <= below:
            return None
        below += step * most
    packed, size = {}, 1
    for step in sorted(taken):
        packed[step] = size, taken[step] + 1
        size *= taken[step] + 1
    return packed


def _in_registers(place: _Place, packed: dict[int, tuple[int, int]], original: UOp) -> UOp:
    """The index in registers, under the gate that it had."""
    table, count = original.table, len(place.lanes)
    total: UOp | None = None
    for r, step in place.own:
        if step in packed:
            part = r * packed[step][0]
            total = part if total is None else total + part
    starts = [
        sum(times * packed[step][0] for step, times in (_digits(lane, packed) or {}).items() if times)
        for lane in place.lanes
    ]
    lanes = table.const(starts[0]) if count == 1 else table.lanes(starts)
    index = lanes if total is None else spread(total, count) + lanes
    if place.index is original:
        return index
    return original.replace(src=(original.src[0], index, original.src[2]))


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a thread may keep in registers: all places of the buffer, and how their steps are packed."""

    memory: UOp
    nodes: tuple[UOp, ...]
    places: tuple[_Place, ...]
    packed: dict[int, tuple[int, int]]
    filled: frozenset[frozenset[UOp]]
    """The loops around the stores."""
    read: frozenset[frozenset[UOp]]

    @property
    def base(self) -> DType:
        return cast("PtrDType", self.memory.dtype).base

    @property
    def size(self) -> int:
        return prod(times for _, times in self.packed.values())

    def crowds(self, threads: int, target: Target) -> bool:
        """Whether a second block would have no room for registers, and has some for LOCAL memory."""
        nbytes = cast("PtrDType", self.memory.dtype).size * self.base.itemsize
        return (
            self.base.itemsize < _WORD
            and 2 * threads * (self.words + _OTHERS) >= target.block_registers
            and 2 * nbytes <= target.local_bytes
        )

    @property
    def words(self) -> int:
        return self.size * max(-(-self.base.itemsize // _WORD), 1)

    def becomes(self, other: _Kept) -> bool:
        """Whether the last that is done with it is to make the other of it, place by place: then that lies where it lay."""
        return self is not other and self.words == other.words and self.read == other.filled


def _kept(memory: UOp, nodes: list[UOp], stored: set[UOp]) -> _Kept | None:
    if any(len(node.src) != 2 for node in nodes):
        return None
    placed = [_placed(without_gate(node.src[1])) for node in nodes]
    known = tuple(place for place in placed if place is not None)
    packed = _packed(known) if len(known) == len(placed) else None
    if packed is None:
        return None
    around = [frozenset(r for r, _ in place.own) for place in known]
    filled = frozenset(loops for node, loops in zip(nodes, around, strict=True) if node in stored)
    read = frozenset(loops for node, loops in zip(nodes, around, strict=True) if node not in stored)
    return _Kept(memory, tuple(nodes), known, packed, filled, read)


def own_registers(sink: UOp, target: Target) -> UOp:
    """The kernel with registers for what threads keep for themselves, as far as there are enough."""
    nodes = sink.toposort()
    stored = {n.src[0] for n in nodes if n.op is Ops.STORE}
    rings = {_memory(n.src[0].src[0]) for n in nodes if n.op is Ops.STORE and hints_of(n).own}
    places: dict[UOp, list[UOp]] = {}
    for node in nodes:
        memory = _memory(node.src[0]) if node.op is Ops.INDEX else None
        if memory is not None and memory not in rings:
            places.setdefault(memory, []).append(node)
    candidates = [kept for m, ns in places.items() if (kept := _kept(m, ns, stored)) is not None]
    threads = prod(r.vmax + 1 for r in nodes if r.op is Ops.RANGE and kind_of(r) in THREADS)
    left = min(target.registers, target.block_registers // max(threads, 1)) - _OTHERS
    first = max((cast("int", n.arg) + 1 for n in nodes if n.op is Ops.DEFINE_REG), default=0)
    exchange: dict[UOp, UOp] = {}
    taken: list[_Kept] = []
    for kept in sorted(candidates, key=lambda kept: kept.words):
        if kept.crowds(threads, target):
            continue
        if not any(kept.becomes(other) or other.becomes(kept) for other in taken):
            if kept.words > left:
                continue
            left -= kept.words
        taken.append(kept)
        register = kept.base.ptr(kept.size, AddrSpace.REG)
        exchange[kept.memory] = sink.table.make(Ops.DEFINE_REG, register, (), first + len(taken) - 1)
        for node, place in zip(kept.nodes, kept.places, strict=True):
            exchange[node] = node.replace(src=(node.src[0], _in_registers(place, kept.packed, node.src[1])))
    return _moved(sink, exchange) if exchange else sink


def _moved(sink: UOp, exchange: dict[UOp, UOp]) -> UOp:
    """The kernel with other memory, and other places in it."""
    final: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = exchange.get(node, node)
        if node.op is Ops.DEFINE_LOCAL:
            final[node] = new
            continue
        src = tuple([final[source] if source in final else _index(source, final) for source in new.src])
        dtype = src[0].dtype if node.op is Ops.AFTER and node.dtype.is_pointer else node.dtype
        final[node] = new if src == new.src and dtype is new.dtype else new.replace(dtype=dtype, src=src)
    return final[sink]


def _index(value: UOp, final: dict[UOp, UOp]) -> UOp:
    """An index that is new; ranges that wait for effects wait for what those became."""
    return substitute(value, {n: final[n] for n in value.toposort() if n in final and final[n] is not n})
