"""How the interpreter runs a kernel: which ranges are Python loops, which are NumPy axes, and where each node belongs.

A range may be an axis when its values do not see each other's memory: everything below it is then computed at once. It must
be a loop when something is carried from one value to the next: an accumulator, or stores that have to keep their order.
Threads of a block are always axes, so that they run in lock step.

    private   the axes along which each position has its own copy of a register or LOCAL buffer
    home      the loop that a node runs in: the innermost of those whose range is open there
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from typing import Final, cast

from planish.dtypes import AddrSpace, PtrDType
from planish.errors import GraphError
from planish.records import dataclass
from planish.uop.hardware_index import index_of
from planish.uop.nest import SEQUENTIAL, SIDE_BY_SIDE, THREADS, closed_by
from planish.uop.node import UOp
from planish.uop.ops import DEFINES, MOVEMENT, AxisType, Ops, UnrolledLanes
from planish.uop.ranges import kind_of

_LIMIT: Final = 1 << 22
"""Elements of one array before outer ranges become loops."""
_BELOW: Final = MOVEMENT | {
    Ops.INDEX, Ops.AFTER, Ops.CAST, Ops.NOOP, Ops.CONTIGUOUS, Ops.GEP, Ops.UNROLL,
}  # fmt: skip
_PASSES: Final = frozenset({Ops.AFTER, Ops.NOOP, Ops.GEP, Ops.UNROLL})
"""What may stand between a place and its STORE."""
_BUNDLES: Final = frozenset(
    {Ops.SINK, Ops.GROUP, Ops.NOOP, Ops.UNROLL, Ops.END, Ops.AFTER, Ops.BARRIER, Ops.COMMIT, Ops.WAIT}
)


def memory_below(place: UOp) -> UOp:
    """The memory (or BUFFERIZE) that a place or view is part of."""
    while place.op in _BELOW and place.src:
        place = place.src[0]
    return place


def is_thread(special: UOp) -> bool:
    """Whether a special index tells the threads of one block apart."""
    return index_of(special).is_thread


def is_rank_axis(axis: UOp) -> bool:
    """Whether a range or special index is the number of a block in its cluster."""
    if axis.op is Ops.SPECIAL:
        return index_of(axis).is_rank
    return kind_of(axis) is AxisType.CLUSTER


@dataclass(slots=True)
class LoopBodies:
    """The loops that one END closes, outermost first, and what runs at each level."""

    ranges: tuple[UOp, ...]
    bodies: tuple[list[UOp], ...]


@dataclass(slots=True)
class Effects:
    """The effects of a kernel, in whatever form, and the loops around them, collected in one walk."""

    nodes: Sequence[UOp]
    stores: list[UOp] = field(default_factory=list)
    closed: set[UOp] = field(default_factory=set)
    """The ranges that an END closes."""
    ends: list[UOp] = field(default_factory=list)
    around: dict[UOp, frozenset[UOp]] = field(default_factory=dict)
    """The ranges closed around an effect, whether it depends on them or not."""
    read: set[UOp] = field(default_factory=set)
    """Every INDEX that is used as a value."""
    scanned: set[UOp] = field(default_factory=set)

    def __post_init__(self) -> None:
        for node in self.nodes:
            if node.op is Ops.STORE:
                self.stores.append(node)
            elif node.op is Ops.END:
                self.ends.append(node)
                self.closed.update(ended_by(node))
                self._enclose(node)
            elif node.op is Ops.SCAN:
                self.scanned.update(node.src[1:])
        self.read |= _values_among(self.nodes)
        for store in self.stores:
            self._repeat_reads(store)

    def _enclose(self, end: UOp) -> None:
        closed = ended_by(end)
        stack = [end.src[0]]
        seen = set(stack)
        while stack:
            effect = stack.pop()
            self.around[effect] = self.around.get(effect, frozenset()) | closed
            if effect.op in _BUNDLES:
                below = effect.src[1:] if effect.op is Ops.AFTER else effect.src
                for source in below[:1] if effect.op is Ops.END else below:
                    if source.dtype.name == "void" and source not in seen:
                        seen.add(source)
                        stack.append(source)

    def _repeat_reads(self, store: UOp) -> None:
        """What a store changes is read anew in every iteration, whether or not the place depends on all of them.

        (From stage 11 on an AFTER says so.)
        """
        memory = memory_below(store.src[0])
        reads = {r for r in self.read if r.src and _is_memory_itself(r.src[0], memory)}
        if not reads:
            return
        inside = self.open(store)
        again: set[UOp] = set()
        for node in store.toposort():
            if node is not store and (node in reads or not again.isdisjoint(node.src)):
                again.add(node)
                self.around[node] = self.around.get(node, frozenset()) | inside

    def open(self, node: UOp) -> frozenset[UOp]:
        """The ranges a node runs inside of."""
        extra = self.around.get(node)
        return node.ranges if extra is None else node.ranges | (extra - ended_by(node))

    def is_ordered(self, store: UOp) -> bool:
        """Whether the order of a store's iterations can matter: it also reads that memory, or goes where data says."""
        memory = memory_below(store.src[0])
        return any(memory_below(r) is memory for r in self.read) or any(
            n.op is Ops.LOAD or n in self.read for i in _indices(store.src[0]) for n in i.toposort()
        )


def _is_memory_itself(buffer: UOp, memory: UOp) -> bool:
    """Whether a buffer is this memory, or a view of it, not observed after anything."""
    while buffer is not memory and (buffer.op in MOVEMENT or buffer.op is Ops.INDEX):
        buffer = buffer.src[0]
    return buffer is memory


def ended_by(node: UOp) -> frozenset[UOp]:
    """The ranges that a node closes if it is an END."""
    return closed_by(node) if node.op is Ops.END else frozenset()


def _values_among(nodes: Sequence[UOp]) -> set[UOp]:
    """Every INDEX whose element is read: by a LOAD, or where it is not just the place of a STORE."""
    needed: set[UOp] = set()
    reads: set[UOp] = set()
    for node in reversed(nodes):
        for position, source in enumerate(node.src):
            if node.op is Ops.LOAD and position == 0:
                reads.add(place_below(source))
            is_place = node.op is Ops.STORE and position == 0
            passes = node.op in _PASSES and node not in needed and position == 0
            if not is_place and not passes and not source.dtype.is_pointer:
                needed.add(source)
        if node.op is Ops.INDEX and node in needed and len(node.src) > 1:
            reads.add(node)
    return reads


def place_below(place: UOp) -> UOp:
    """The INDEX that a place is made of."""
    while place.op is not Ops.INDEX and place.src:
        place = place.src[0]
    return place


def _indices(place: UOp) -> tuple[UOp, ...]:
    return place_below(place).src[1:]


def _space(memory: UOp) -> AddrSpace | None:
    return memory.dtype.space if isinstance(memory.dtype, PtrDType) else None


@dataclass(slots=True)
class LoopPlan:
    """Where everything runs."""

    effects: Effects
    loops: frozenset[UOp]
    axes: dict[object, int]
    """Ranges, special indices and paths of unrolled axes: the place of each among the leading axes of a value."""
    private: dict[UOp, tuple[UOp, ...]]
    top: list[UOp]
    nests: dict[UOp, LoopBodies]


def _own_axes(effects: Effects, memory: UOp) -> tuple[frozenset[UOp], set[UOp]]:
    """The ranges along which a register or LOCAL buffer can be private; those that carry it from value to value."""
    stores = [s for s in effects.stores if memory_below(s.src[0]) is memory]
    reads = [r for r in effects.read if memory_below(r) is memory]
    sites = [effects.open(s) for s in stores] + [r.ranges for r in reads]
    common = frozenset.intersection(*sites) if sites else frozenset()
    if _space(memory) is AddrSpace.REG:
        # a register is a thread's own, and still is where an END has closed the axis of the threads
        common |= {r for store in stores for r in effects.open(store) if kind_of(r) in THREADS}
    carried: set[UOp] = set()
    for store in stores:
        indices = _indices(store.src[0])
        varies = frozenset().union(*(i.ranges for i in indices))
        for r in effects.open(store) - common:
            same_place = all(_indices(read) == indices for read in reads if r in read.ranges)
            if r not in varies or not same_place:
                carried.add(r)
    return common, carried


def _chosen_loops(
    effects: Effects, own: dict[UOp, tuple[frozenset[UOp], set[UOp]]], in_order: bool
) -> set[UOp]:
    together = SIDE_BY_SIDE | {AxisType.CLUSTER}
    candidates = {r for r in effects.closed if kind_of(r) not in together and r not in effects.scanned}
    if in_order:
        return candidates
    loops = {r for _, carried in own.values() for r in carried}
    for store in effects.stores:
        if _space(memory_below(store.src[0])) is AddrSpace.GLOBAL and effects.is_ordered(store):
            loops |= {r for r in effects.open(store) if kind_of(r) in SEQUENTIAL}
    loops &= candidates
    sizes = {r: max(r.src[0].vmax, 1) for r in effects.nodes if r.op is Ops.RANGE}
    while True:
        widest = max(effects.nodes, key=lambda n: prod(sizes[r] for r in n.ranges - loops))
        spare = (widest.ranges & candidates) - loops
        if prod(sizes[r] for r in widest.ranges - loops) <= _LIMIT or not spare:
            return loops
        loops.add(min(spare, key=lambda r: r.order))


def make_plan(nodes: Sequence[UOp], *, in_order: bool = False, is_list: bool = False) -> LoopPlan:
    """How to run these nodes; `in_order` makes every range a loop that can be one. A list has its loops where it has them."""
    effects = Effects(nodes)
    own = {
        node: _own_axes(effects, node)
        for node in nodes
        if node.op in DEFINES and _space(node) is not AddrSpace.GLOBAL
    }
    loops = frozenset(_chosen_loops(effects, own, in_order))
    axes: dict[object, int] = {}
    for node in nodes:
        if node.op is Ops.SPECIAL or (node.op is Ops.RANGE and node not in loops):
            axes.setdefault(node, len(axes))
        elif node.op in {Ops.UNROLL, Ops.CONTRACT}:
            for path, _ in cast("UnrolledLanes", node.arg).axes:
                axes.setdefault(path, len(axes))
    private: dict[UOp, tuple[UOp, ...]] = {}
    for memory, (common, _) in own.items():
        shared = _space(memory) is AddrSpace.LOCAL
        private_axes = [r for r in common - loops if not (shared and kind_of(r) in THREADS)]
        private_axes += [s for s in nodes if s.op is Ops.SPECIAL and not (shared and is_thread(s))]
        private[memory] = tuple(sorted(private_axes, key=lambda axis: axes[axis]))
    top, nests = ([], {}) if is_list else _homes(effects, loops)
    return LoopPlan(effects, loops, axes, private, top, nests)


def _homes(effects: Effects, loops: frozenset[UOp]) -> tuple[list[UOp], dict[UOp, LoopBodies]]:
    top = [node for node in effects.nodes if node not in loops and not effects.open(node) & loops]
    nests: dict[UOp, LoopBodies] = {}
    placed: set[UOp] = set()
    for end in effects.ends:
        ranges = sorted((r for r in ended_by(end) if r in loops), key=lambda r: r.order)
        if not ranges:
            continue
        nest = nests[end] = LoopBodies(tuple(ranges), tuple([] for _ in ranges))
        around = effects.open(end)
        for node in end.toposort(_stops_at_other_ends(end)):
            inside = effects.open(node) & loops
            # what is open besides has to be open around the END, too: else this is no innermost loop of the node
            if node in loops or node is end or not inside & set(ranges) or not inside <= around | set(ranges):
                continue
            level = max(number for number, r in enumerate(ranges) if r in inside)
            nest.bodies[level].append(node)
            placed.add(node)
    for node in effects.nodes:
        if node not in placed and node not in loops and effects.open(node) & loops:
            raise GraphError(
                f"{node.op.name} runs in loops that do not nest: {', '.join(str(r.arg) for r in effects.open(node))}",
                op=node.op.name,
            )
    return top, nests


def _stops_at_other_ends(end: UOp) -> Callable[[UOp], bool]:
    """What lies below an END that closes some of the same ranges runs in a loop of its own."""
    own = ended_by(end)
    return lambda node: node is end or own.isdisjoint(ended_by(node))
