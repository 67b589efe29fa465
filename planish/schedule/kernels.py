"""Tensors become kernels: which results share one, in which order they run, and one UOp graph per kernel.

`cut` realises tensors: afterwards each has memory of its own. It works from the consumers down. A kernel computes one result,
or several of the same dims that share their input; `fusion.py` finds out what else it can compute on its way and what
it needs from memory first, and that becomes a result of another kernel. Where a reduction needs memory, what follows
element by element (its epilogue) is stored instead of it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from heapq import heappop, heappush
from itertools import islice
from typing import Final, NamedTuple, cast

from planish import dtypes
from planish.ptir.function import Function
from planish.records import dataclass
from planish.schedule.elements import COMPUTED, InMemory, element
from planish.schedule.fusion import Fusion
from planish.schedule.graph import THROUGH, TensorGraph
from planish.schedule.lowering import to_tensors
from planish.schedule.order import KernelEffects
from planish.schedule.order import in_order as in_running_order
from planish.schedule.parameters import buffer_of, size_text, with_parameters
from planish.schedule.plan import Kernel
from planish.schedule.reason import Reason
from planish.schedule.reasons import RESULT, WRITTEN, needed_again
from planish.schedule.rematerialise import worth_memory
from planish.schedule.split import split_reductions
from planish.schedule.surroundings import Around
from planish.schedule.tensors import Dims, SharedBuffer, Tensors, full, most, reshape, room
from planish.schedule.walked import ends_a_walk, made_again, may_join, walked_together, walks
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.reached import reached
from planish.uop.rewrite import substitute
from planish.uop.shape import Dim, same_dim, shape

NEAR: Final = 64
"""Results of the same dims among which companions are looked for."""
MOST_RESULTS: Final = 8
"""Results that one kernel stores at most."""
_LITTLE: Final = 8
"""What sums read together is an eighth of what either reads, at least, if they share a kernel for it."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All kernels of a function in order, the memory they share, and which buffers are its results."""

    kernels: tuple[Kernel, ...]
    buffers: tuple[SharedBuffer, ...]
    results: tuple[tuple[int, Dims], ...]


def cut(tensors: Tensors, wanted: Sequence[UOp], reason: Reason = RESULT) -> list[Kernel]:
    """The kernels that give tensors memory, in order, for a reason; `tensors.realised` tells where each is afterwards."""
    return _Cut(tensors).run(wanted, reason)


def is_whole(tensors: Tensors, node: UOp) -> bool:
    """Whether a tensor is a buffer, from its start, row by row."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    if node.op is Ops.SHRINK and len(shape(node)) == 1:
        ((begin, _),) = cast("tuple[tuple[Dim, Dim]]", node.arg)
        node = node.src[0] if same_dim(begin, 0) else node
    is_memory = node.op is Ops.INDEX and len(node.src) == 1 and node.src[0].op is Ops.BUFFER
    return is_memory and node.src[0] not in tensors.counting


def _below_moves(node: UOp) -> UOp:
    """The first tensor that has the elements of a tensor in the same order: below reshapes, and below permutations that undo each other."""
    best, order = node, list(range(len(_long_dims(node))))
    while node.op in {Ops.RESHAPE, Ops.PERMUTE}:
        (below,) = node.src
        if node.op is Ops.PERMUTE:
            axes = cast("tuple[int, ...]", node.arg)
            long = [axis for axis in range(len(axes)) if not same_dim(shape(below)[axis], 1)]
            moved = [long.index(axis) for axis in axes if axis in long]
            order = [moved[place] for place in order]
        elif order != sorted(order) and _long_dims(below) != _long_dims(node):
            break
        else:
            order = order if order != sorted(order) else list(range(len(_long_dims(below))))
        node = below
        if order == sorted(order):
            best = node
    return best


def _bytes_of(memory: Iterable[UOp]) -> int:
    return sum(most(shape(each)) * each.dtype.itemsize for each in memory)


def _is_much(shared: Iterable[UOp], whole: Iterable[UOp]) -> bool:
    """Whether sums save by reading some memory together: for the weights of a few taps each has registers and threads of its own."""
    return _bytes_of(shared) * _LITTLE >= _bytes_of(whole)


class _WalkKernel(NamedTuple):
    """A kernel that may walk over products, as it is before its memory is parameters."""

    sink: UOp
    kernel: Kernel
    reads: tuple[UOp, ...]
    makes: tuple[UOp, ...]


@dataclass(slots=True)
class _Cut:
    """One cut: results that are to be made, and kernels made so far."""

    tensors: Tensors
    pending: dict[UOp, None] = field(default_factory=dict)
    kernels: list[KernelEffects[Kernel]] = field(default_factory=list)
    reads: dict[UOp, tuple[UOp, ...]] = field(default_factory=dict)
    """What the kernel of a tensor that was made reads."""
    below: dict[UOp, tuple[UOp, ...]] = field(default_factory=dict)
    """What a tensor to be made is computed from, as long as no other one gets memory."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """The oldest and the newest tensor of each kernel that makes several."""
    waiting: list[tuple[int, UOp]] = field(default_factory=list)
    """Results that are to be made, the last one first."""
    alike: dict[tuple[Dim, ...], list[UOp]] = field(default_factory=dict)
    """Results by their dims, the last one last: those that may share a kernel."""
    because: dict[UOp, Reason] = field(default_factory=dict)
    """Why tensors are in memory."""
    again: frozenset[UOp] = frozenset()
    """What every kernel that needs it makes for itself."""
    walks: list[_WalkKernel] = field(default_factory=list)
    """Kernels that others may join, which are made of the same products."""
    graph: TensorGraph = field(init=False)

    def run(self, wanted: Sequence[UOp], reason: Reason) -> list[Kernel]:
        realised = self.tensors.realised
        for node in wanted:
            if is_whole(self.tensors, node):
                realised.setdefault(node, node)
        new = [node for node in dict.fromkeys(wanted) if node not in realised]
        smaller = split_reductions(self.tensors, new)
        # a scan in parts is a reshape of them, and they are what is stored; so for rows of a walk, which other results are made of
        whole = {each: self._stored(each, smaller[each]) for each in new}
        roots = list(dict.fromkeys(whole.values()))
        before = frozenset(realised)
        self.graph = TensorGraph(roots, realised)
        for node in roots:
            self._realise(node, reason)
        self.again = made_again(self.tensors.target, self.graph, roots)
        worth = worth_memory(self.tensors, self.graph, roots, before, self.again) if roots else {}
        for node, verdict in worth.items():
            self._realise(node, needed_again(verdict))
        while self.waiting:  # from the last one to the first
            node = heappop(self.waiting)[1]
            if node in self.pending:
                self._kernel(node)
        for node in new:
            realised[node] = reshape(realised[whole[node]], shape(node))
        return in_running_order(self.kernels)

    def _stored(self, wanted: UOp, node: UOp) -> UOp:
        """What is stored of a result: of another view, what has the same elements and other results are perhaps made of."""
        below = _below_moves(node)
        if wanted.op in _BELOW or below.op is Ops.CONTIGUOUS:  # (which is stored in any case)
            return below
        if not walks(self.tensors.target) or wanted.op not in {Ops.RESHAPE, Ops.PERMUTE}:
            return node
        if below in self.tensors.realised or is_whole(self.tensors, below):
            return node
        # axes of a walk are kept apart, whatever is made one of them
        same = _long_dims(below) == _long_dims(node) or ends_a_walk(self.tensors.target, below)
        return below if same else node

    def _realise(self, node: UOp, reason: Reason) -> None:
        """Give a tensor memory; a kernel will fill it."""
        if node not in self.tensors.realised:
            self.because[node] = reason
            self.below.clear()
            dims = shape(node)
            self.tensors.realised[node] = self.tensors.memory(SharedBuffer(node.dtype, room(dims)), dims)
            self._wait(node)

    def _wait(self, node: UOp) -> None:
        """A kernel is to make a tensor that has memory."""
        self.pending[node] = None
        heappush(self.waiting, (-node.serial, node))
        insort(self.alike.setdefault(_long_dims(node), []), node, key=lambda each: each.serial)

    # -- what shares a kernel ---------------------------------------------------------------------------------------

    def _kernel(self, root: UOp) -> None:
        if root.op is Ops.AFTER:
            self._overwrite(root)
            return
        group = [root, *self._companions(root)]
        refused: set[UOp] = set()
        backwards: set[int] | None = set()
        made_again: set[UOp] = set()
        while True:
            fusion = self._fuse(group, refused, backwards, made_again)
            if fusion.turned and backwards is not None:
                backwards |= fusion.turned
                continue
            if root in fusion.needs:  # it does not run backwards, but something that runs with it does
                backwards = None
                continue
            if not fusion.needs and not self._waits_for(fusion.reads, [*group, *fusion.on_the_way]):
                crowding = fusion.rows.crowding(fusion.values.values())
                if crowding is None:
                    break
                made_again.add(crowding)
                continue
            if not fusion.needs:  # something that this kernel reads is made from something that it makes
                refused |= {*group[1:], *fusion.on_the_way}
            for need in sorted(fusion.needs, key=lambda node: node.serial):  # what others are made of first
                if need in self.pending:
                    refused.add(need)
                else:
                    reason = fusion.needs[need]
                    self._realise(self._epilogue(need) if reason.with_epilogue else need, reason)
                    if need in self.pending and need in fusion.elsewhere:  # the next attempt would find out
                        refused.add(need)
            group = [node for node in group if node not in refused]
        for node in (*group, *fusion.on_the_way):
            del self.pending[node]
        self._finish(fusion, group)

    def _fuse(
        self,
        group: Sequence[UOp],
        refused: Collection[UOp],
        backwards: Collection[int] | None,
        made_again: Collection[UOp],
    ) -> Fusion:
        realised = self.tensors.realised
        others = self.pending.keys() - set(group)
        oldest = min((node.serial for node in others), default=None)
        below = () if oldest is None else self._memory_below(group, oldest)
        joining = self._joining(below, others, refused)
        if self.again and joining and oldest is not None:
            # what is stored of each row of a walk lies below what is stored of all of it
            joining |= self._joining(self._memory_below([*joining], oldest), others, refused)
        around = Around(
            self.graph,
            InMemory(realised, {*group, *joining}),
            frozenset(others - joining),
            frozenset(joining),
            self.pending,
            self.again,
        )
        return Fusion(self.tensors, around, group, backwards=backwards, made_again=made_again)

    @staticmethod
    def _joining(below: Iterable[UOp], others: Collection[UOp], refused: Collection[UOp]) -> set[UOp]:
        return {node for node in below if node in others and node not in refused and node.op not in _APART}

    def _companions(self, root: UOp) -> list[UOp]:
        """Other results of the same dims that are computed from the same memory."""
        ordered = self.alike.get(_long_dims(root), [])
        while ordered and ordered[-1] not in self.pending:
            ordered.pop()
        # what belongs together was described together: those far away are not looked at
        near = islice(reversed(ordered), NEAR)
        alike = [
            node for node in near if node is not root and node in self.pending and node.op is not Ops.AFTER
        ]
        # what is to be made is memory too: what is computed from it is another kernel's, or done on the way
        realised = self.tensors.realised
        # products of matrices are better off with all registers for themselves
        mine = self.graph.memory_of(root, realised, self.pending) if alike else None
        companions: list[UOp] = []
        for node in alike:
            theirs = self.graph.memory_of(node, realised, self.pending) if mine and node not in mine else None
            if not mine or not theirs or mine.isdisjoint(theirs) or len(companions) + 1 >= MOST_RESULTS:
                continue
            if not self._adds_up(node) or _is_much(mine & theirs, min(mine, theirs, key=_bytes_of)):
                companions.append(node)
        return companions

    def _adds_up(self, node: UOp) -> bool:
        """Whether a kernel that makes a tensor has sums to make."""
        return any(True for _ in self.graph.reductions(node, InMemory(self.tensors.realised, {node})))

    def _waits_for(self, reads: Iterable[UOp], makes: Sequence[UOp]) -> bool:
        """Whether something that is read depends on something that is to be made, by kernels that are or that will be."""
        if len(makes) == 1:
            return False
        # a tensor depends on older ones alone, unless a kernel that makes it makes a newer one too
        first = min(node.serial for node in makes)
        oldest = 0 if any(low < first <= high for low, high in self.spans) else first

        def read(node: UOp) -> Iterator[UOp]:
            below = self.reads.get(node)
            if below is None and node in self.pending:
                below = self.below.get(node)
                if below is None:
                    below = self.below[node] = self._memory_below([node])
            return (each for each in below or () if each.serial >= oldest)

        start = (node for node in reads if node.serial >= oldest)
        return any(node in makes for node in reached(start, read))

    def _memory_below(self, nodes: Sequence[UOp], oldest: int = 0) -> tuple[UOp, ...]:
        """The tensors in memory, now or later, that some are computed from, from the oldest that is of interest on."""
        realised, memory = self.tensors.realised, dict[UOp, None]()
        stack, seen = list(nodes), set(nodes)
        while stack:
            for source in stack.pop().src:
                if source.serial < oldest:
                    continue  # what it is made of is older still
                if source in realised:
                    memory[source] = None
                elif source not in seen:
                    seen.add(source)
                    stack.append(source)
        return tuple(memory)

    def _epilogue(self, node: UOp) -> UOp:
        """The last tensor, element by element, that a tensor is used for alone: better in memory than the tensor itself."""
        users = self.graph.users
        size = room(shape(node))
        first = best = node
        while len(users.get(node, ())) == 1:
            (node,) = users[node]
            if node in self.pending or room(shape(node)) != size or self._meets_product(node, first):
                break
            if node.op in COMPUTED:
                # what only makes elements wider is better done by those who read them
                wider = node.op is Ops.CAST and node.dtype.itemsize > best.dtype.itemsize
                if not wider and not node.dtype.is_index:
                    best = node
            elif node.op not in _KEEPS_ELEMENTS:
                break
            elif first.op is Ops.INDEX and self.tensors.target.is_gpu:
                best = node  # what is gathered is stored in the order in which threads read it
        return self._as_read(best)

    def _as_read(self, node: UOp) -> UOp:
        """A tensor in the order in which windows read it: what they have next to each other is best next to each other in memory."""
        best = node
        while users := self.graph.users.get(best):
            if all(user.op is Ops.INDEX and user.src[0] is best for user in users):
                return best
            if len(users) > 1 or users[0].op not in {Ops.RESHAPE, Ops.PERMUTE} or users[0] in self.pending:
                break
            (best,) = users
        return node

    def _meets_product(self, node: UOp, first: UOp) -> bool:
        """Whether a product of matrices would be computed for a tensor besides another one: two are better off apart."""
        own = {first, *self.graph.operands(first, self.tensors.realised)}

        def below(each: UOp) -> Iterator[UOp]:
            sources = each.src if each is node or each.op in THROUGH else ()
            return (source for source in sources if source not in own and source not in self.tensors.realised)

        others = (each for each in reached([node], below) if each is not node)
        return any(each.op is Ops.REDUCE_AXIS and self.graph.is_product(each) for each in others)

    # -- graphs -----------------------------------------------------------------------------------------------------

    def _finish(self, fusion: Fusion, group: Sequence[UOp]) -> None:
        """The stores of a kernel: those of the whole dims inside, those of leading ranges around them."""
        table = self.tensors.table
        stores: dict[frozenset[UOp], list[UOp]] = {}
        for node in (*group, *fusion.on_the_way):
            place = fusion.on_the_way[node] if node in fusion.on_the_way else fusion.whole(node)
            target = table.make(Ops.INDEX, node.dtype, element(self.tensors.realised[node], place.indices))
            stores.setdefault(place.ranges, []).append(target.store(fusion.value(node, place)))
        effect: UOp | None = None
        closed: frozenset[UOp] = fusion.nest.outputs
        for ranges in sorted(stores, key=len, reverse=True):
            if effect is not None:
                effect = _ended(effect, fusion.nest.ordered(closed - ranges))
                closed = ranges
            effects = [*([] if effect is None else [effect]), *stores[ranges]]
            effect = effects[0] if len(effects) == 1 else table.make(Ops.GROUP, dtypes.void, tuple(effects))
        sink = table.sink(_ended(cast("UOp", effect), fusion.nest.ordered(closed)))
        self._add(fusion, sink, [*group, *fusion.on_the_way])

    def _overwrite(self, root: UOp) -> None:
        """A tensor that is written here and there (AFTER): a copy in memory of its own, then a kernel per store."""
        del self.pending[root]
        tensors, table = self.tensors, self.tensors.table
        before, *effects = root.src
        memory = tensors.realised[root]
        content = before.src[0] if before.op is Ops.CONTIGUOUS else before
        start = table.make(Ops.CONTIGUOUS, root.dtype, (content,), ("in", buffer_of(memory)))
        tensors.realised[start] = memory
        self._wait(start)
        self.graph.add([start])
        state = start
        for number, effect in enumerate(effects):
            while True:
                own = InMemory(tensors.realised, (), {before: memory})
                around = Around(self.graph, own, frozenset(self.pending), pending={*self.pending, root})
                fusion = Fusion(tensors, around, [effect], ordered=True)
                if not fusion.needs:
                    break
                for need, reason in fusion.needs.items():
                    self._realise(need, reason)
            fusion.reads.pop(before, None)
            sink = table.sink(_ended(fusion.value(effect), fusion.nest.ordered(fusion.nest.outputs)))
            last = number == len(effects) - 1
            after = root if last else table.make(Ops.AFTER, root.dtype, (start, effect))
            self._add(fusion, sink, [after], replaces=[state])
            state = after

    def _add(self, fusion: Fusion, sink: UOp, makes: Sequence[UOp], replaces: Sequence[UOp] = ()) -> None:
        sink = fusion.known(sink)
        numbered = fusion.nest.numbered(frozenset(n for n in sink.toposort() if n.op is Ops.RANGE))
        sink = substitute(sink, numbered)
        reads = tuple(node for node in fusion.reads if node not in makes)
        size = size_text(fusion.nest.indices)
        walks_here = bool(self.again) and not replaces and may_join(sink)
        if walks_here:
            for other in self.walks:
                both = walked_together(other.sink, sink)
                if both is not None and not self._waits_for((*reads, *other.reads), (*makes, *other.makes)):
                    self.kernels = [each for each in self.kernels if each.kernel is not other.kernel]
                    self.walks.remove(other)
                    sink, makes = both, (*other.makes, *makes)
                    reads = tuple(dict.fromkeys((*other.reads, *reads)))
                    break
        reasons = {
            buffer_of(self.tensors.realised[node]): self.because.get(node, WRITTEN)
            for node in makes
            if node in self.tensors.realised
        }
        kernel = with_parameters(sink, self.tensors.buffers, size, reasons)
        if self.tensors.origins is not None:
            self.tensors.origins.computed(kernel, makes, frozenset(reads))
        self.kernels.append(KernelEffects(kernel, reads, tuple(makes), tuple(replaces)))
        if walks_here:
            self.walks.append(_WalkKernel(sink, kernel, reads, tuple(makes)))
        self.reads.update((node, reads) for node in makes)
        if len(makes) > 1:
            serials = [node.serial for node in makes]
            self.spans.append((min(serials), max(serials)))


_BELOW: Final = frozenset({Ops.SCAN_AXIS, Ops.CAST})
_APART: Final = frozenset({Ops.AFTER, Ops.CONTIGUOUS})
"""Results that are memory before they are values."""
_KEEPS_ELEMENTS: Final = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.FLIP})


def _long_dims(node: UOp) -> tuple[Dim, ...]:
    return tuple(dim for dim in shape(node) if not same_dim(dim, 1))


def _ended(effect: UOp, ranges: Sequence[UOp]) -> UOp:
    return effect.end(*ranges) if ranges else effect


def schedule(function: Function, table: Table) -> Schedule:
    """The kernels that compute a function without control flow; every result has memory of its own."""
    tensors = to_tensors(function, table)
    wanted: list[UOp] = []
    for result in function.results:
        node = full(tensors.values[result], tensors.dims_of(result))
        if node in wanted or is_whole(tensors, node):
            node = table.make(Ops.CONTIGUOUS, node.dtype, (node,), ("result", len(wanted)))
        wanted.append(node)
    kernels = cut(tensors, wanted)
    results = tuple(
        (buffer_of(tensors.realised[node]), cast("Dims", result.type.dims))
        for node, result in zip(wanted, function.results, strict=True)
    )
    return Schedule(tuple(kernels), tuple(tensors.buffers), results)
