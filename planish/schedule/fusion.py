"""What one kernel computes: from the tensors it stores down to memory, with every decision on the way.

Nodes are visited consumers first, so that all places at which a tensor is asked for are known when it is its turn:

* Elementwise and movement ops pass the question on: they are computed where they are used.
* A reduction stays in the kernel if it is computed once per element: its ranges then lead the loops, and it lies outside of
  the loops over the rows that see it again. Otherwise it *needs* memory, and another kernel; `reasons.py` says when and why.
* A value that loops of different levels ask for is *kept*: stored in LOCAL memory by the first loop, read by the others.
  So a row is read once, and its exponentials are computed once. What is free to compute again is not kept.

Nothing here can make a result wrong: a place is a place, whatever the loops around it. The decisions are about work and memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.schedule import reasons, reduction_reasons
from planish.schedule.elements import COMPUTED, LEAVES, ElementPlace, Elements, Key, Recipe, both, element
from planish.schedule.limits import AGAIN, FEW_ROWS
from planish.schedule.loop_order import LoopOrder, Ranges, from_the_end
from planish.schedule.prices import Prices
from planish.schedule.reason import Case, Reason, first_of
from planish.schedule.rows import Rows, is_each_once, spans
from planish.schedule.surroundings import Around
from planish.schedule.tensors import Tensors, is_empty, most
from planish.schedule.walked import is_beside_a_walk
from planish.uop.movement import flat_index
from planish.uop.nest import count
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Bufferize, Ops, ReduceAxes
from planish.uop.rewrite import substitute
from planish.uop.shape import same_dim, shape
from planish.uop.symbolic import simplify

_STAND_IN: Final = 1 << 29
"""The first slot of buffers that stand for an index that is not known yet."""


class Fusion:
    """A kernel that stores tensors of the same dims."""

    def __init__(
        self,
        tensors: Tensors,
        around: Around,
        roots: Sequence[UOp],
        *,
        ordered: bool = False,
        backwards: Collection[int] | None = (),
        made_again: Collection[UOp] = (),
    ) -> None:
        self.tensors = tensors
        self.table = tensors.table
        self.around = around
        self.roots = tuple(roots)
        self.elements = Elements(tensors, around.realised)
        self.prices = Prices(tensors, around.realised)
        self.backwards = () if backwards is None else backwards
        """Output axes whose last element is made first."""
        self.may_turn = backwards is not None
        self.turned: set[int] = set()
        """Output axes that should run backwards, which is found out on the way."""
        dims = [dim for dim in shape(roots[0]) if not same_dim(dim, 1)]
        self.nest = LoopOrder(self.table, dims, max(self.level(root) for root in roots), ordered)
        self.rows = Rows(self.nest, tensors.target, made_again)
        self.asked: dict[UOp, dict[ElementPlace, None]] = {}
        self.loops_asked: list[UOp] = []
        """Those of them that are sums or scans: what runs over loops of its own."""
        self.waiting: list[tuple[int, UOp]] = []
        self.recipes: dict[Key, Recipe] = {}
        self.values: dict[Key, UOp] = {}
        self.needs: dict[UOp, Reason] = {}
        """Tensors that have to be in memory before this kernel can be, and why."""
        self.elsewhere: set[UOp] = set()
        """Those of them that this kernel could not store on the way either."""
        self.reads: dict[UOp, None] = {}
        """Tensors in memory that are made by kernels, and read here."""
        self.buffers: set[UOp] = set()
        """All memory that is read here, as far as that is known."""
        self.on_the_way: dict[UOp, ElementPlace] = {}
        """Other results that are computed here anyway, and where."""
        self.products = frozenset[UOp]().union(*(self._products(root) for root in self.roots))
        """All products of matrices that the results are made of, as far as they are not in memory."""
        self.product: UOp | None = None
        """The product of matrices whose elements are those of the result, if there is one."""
        self.filling: set[UOp] = set()
        """Ranges of loops that fill rows which are kept."""
        self.unknown: dict[UOp, Key] = {}
        """Nodes that stand for an index until its value is made."""
        for root in self.roots:
            self.ask(Key(root, self.whole(root)))
        # from the last tensor to the first: who asks was made after what is asked for
        while self.waiting:
            self._decide(heappop(self.waiting)[1])
        if not self.needs:
            self._make()

    # -- asking -----------------------------------------------------------------------------------------------------

    def whole(self, root: UOp) -> ElementPlace:
        """Every element of a result, one per value of the output ranges."""
        axes, indices = iter(enumerate(self.nest.indices)), []
        for dim in shape(root):
            if same_dim(dim, 1):
                indices.append(self.table.const(0))
                continue
            axis, r = next(axes)
            indices.append(from_the_end(r, dim) if axis in self.backwards else r)
        return ElementPlace(tuple(indices))

    def ask(self, key: Key) -> None:
        if key.node not in self.asked:
            self.asked[key.node] = {}
            if key.node.op in {Ops.REDUCE_AXIS, Ops.SCAN_AXIS}:
                self.loops_asked.append(key.node)
            heappush(self.waiting, (-key.node.serial, key.node))
            view = self.elements.view(key.node)
            if view is not None:
                while view.op in MOVEMENT:
                    view = view.src[0]
                self.buffers.add(view)
        self.asked[key.node][key.place] = None

    def asked_here(self, op: Ops) -> Iterator[tuple[UOp, Collection[ElementPlace]]]:
        """The sums, or scans, that are made in this kernel as far as is known, and where they are asked for."""
        for node in self.loops_asked:
            if node.op is op and node not in self.around.realised and node not in self.needs:
                yield node, self.asked[node]

    def level(self, node: UOp) -> int:
        return self.around.graph.level.get(node, 0)

    def reduces(self, node: UOp) -> bool:
        """Whether a tensor depends on a reduction that is not in memory."""
        return any(True for _ in self.around.graph.reductions(node, self.around.realised))

    def _use(self, key: Key, recipe: Recipe) -> None:
        self.recipes[key] = recipe
        for need in recipe.needs:
            self.ask(need)

    def _pass_on(self, node: UOp, places: Sequence[ElementPlace]) -> None:
        for place in places:
            key = Key(node, place)
            self._use(key, self._recipe(key))

    def _recipe(self, key: Key) -> Recipe:
        if is_empty(shape(key.node)) or self.elements.view(key.node) is not None:
            return self.elements.recipe(key)
        match key.node.op:
            case Ops.REDUCE_AXIS:
                return self._reduced(key)
            case Ops.SCAN_AXIS:
                return self._scanned(key)
            case Ops.INDEX if not self.elements.counts(key.node):
                return self._at(key)
            case Ops.CONTIGUOUS:
                return Recipe((Key(key.node.src[0], key.place),), lambda sources: sources[0])
            case Ops.STORE:
                parts = tuple(self.elements.part(source, key.place) for source in key.node.src)
                return Recipe(parts, lambda sources: key.node.replace(src=tuple(sources)))
            case _:
                return self.elements.recipe(key)

    def _need(self, node: UOp, reason: Reason) -> None:
        """The tensor has to be in memory: this attempt only looks for what else does."""
        self.needs[node] = reason
        if node not in self.around.joining and not self._may_take_along(node, list(self.asked.get(node, ()))):
            self.elsewhere.add(node)
        zero = self.elements.zero(node)
        for place in self.asked.get(node, ()):
            self.recipes[Key(node, place)] = Recipe((), lambda _: zero)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self, node: UOp) -> None:
        places = list(self.asked[node])
        if is_empty(shape(node)) or node.op in LEAVES:
            self._pass_on(node, places)
        elif self.elements.view(node) is not None:
            self._note_read(node)
            if not (len(self._loops(places)) > 1 and self._keep(node, places, own_loop=False)):
                self._pass_on(node, places)
        elif self.elements.counts(node):
            self._pass_on(node, places)
        elif node in self.around.joining and not self._takes_along(node, places):
            self._need(node, reasons.RESULT)
        elif node.op is Ops.REDUCE_AXIS:
            self._decide_reduction(node, places)
        elif node.op is Ops.SCAN_AXIS:
            self._decide_scan(node, places)
        elif node.op in COMPUTED or node.op is Ops.INDEX:
            self._decide_computed(node, places)
        elif node.op in MOVEMENT or (
            node.op in {Ops.CONTIGUOUS, Ops.STORE} and self._is_result(node, places)
        ):
            self._pass_on(node, places)
        elif node.op in {Ops.CONTIGUOUS, Ops.AFTER}:
            self._need(node, reasons.WRITTEN)
        else:
            raise LoweringError(f"{node.op.name} cannot be part of a kernel", op=node.op.name)

    def _is_result(self, node: UOp, places: Sequence[ElementPlace]) -> bool:
        """Whether a tensor is made here, and nothing else in the kernel asks for it."""
        return node in self.roots and len(places) == 1

    def _note_read(self, node: UOp) -> None:
        while node.op in MOVEMENT and node not in self.around.realised:
            node = node.src[0]
        if node in self.around.realised:
            self.reads[node] = None

    def _takes_along(self, node: UOp, places: Sequence[ElementPlace]) -> bool:
        """Store another result here, if that can be."""
        if taken := self._may_take_along(node, places):
            self.nest.lead(places[0].ranges)
            self.on_the_way[node] = places[0]
        return taken

    def _may_take_along(self, node: UOp, places: Sequence[ElementPlace]) -> bool:
        """Whether another result can be stored here, because it is computed on the way, once per value of leading ranges."""
        products = self._products(node)
        apart = products and products != self._products(self.roots[0])  # two are better off so
        if len(places) != 1 or apart or is_beside_a_walk(self.around, self.roots[0], node):
            return False
        (place,) = places
        once = self.rows.may_lead(place) and is_each_once(place, node, bool(self.around.again))
        if not once or reduction_reasons.holds_up(self, node, place):
            return False
        inside = place.ranges != self.nest.outputs and not products <= {*self.around.again}
        # of a GPU, loops around a product would be those of its threads
        return not (inside and self.tensors.target.is_gpu)

    def _products(self, node: UOp) -> frozenset[UOp]:
        """The products of matrices that a tensor is made of, as far as they are not in memory."""
        return self.around.graph.products_of(node, self.around.realised)

    def _loops(self, places: Sequence[ElementPlace]) -> dict[Ranges, int]:
        """The different loops that ask, and at how many places each."""
        counts: dict[Ranges, int] = {}
        for place in places:
            counts[place.ranges] = counts.get(place.ranges, 0) + 1
        return counts

    def times(self, node: UOp, places: Sequence[ElementPlace]) -> float:
        """How often an element is computed in the loop that does so most often."""
        often = max(n * count(self.nest.closure(ranges)) for ranges, n in self._loops(places).items())
        return often / max(1, most(shape(node)))

    def _decide_computed(self, node: UOp, places: Sequence[ElementPlace]) -> None:
        if node is not self.roots[0] and not node.dtype.is_index:
            case, taken = Case(self, node, places, self.times(node, places)), node.op is Ops.INDEX
            if not taken and reasons.is_worth_a_row(case) and self._keep(node, places):
                return
            # elements at positions are in memory, or will be: what they are taken from decides
            moved = first_of(reasons.MOVED_HERE, case.source()) if taken else None
            reason = moved or first_of(reasons.TAKEN_HERE if taken else reasons.COMPUTED_HERE, case)
            if reason is not None:
                self._need(node.src[0] if moved else node, reason)
                return
        several = len(self._loops(places)) > 1 and (
            reasons.is_costly(node) or self._row_operands(node, places) > 1
        )
        if not (several and self._keep(node, places, narrow=True)):
            self._pass_on(node, places)

    def _row_operands(self, node: UOp, places: Sequence[ElementPlace]) -> int:
        """How many operands differ from place to place. (With one, it is as well kept as the result.)"""
        if node.op is Ops.INDEX:
            return 2
        operands = set()
        for source in node.src:
            inner, here = source, [place.indices if shape(source) else () for place in places]
            while (
                inner.op in MOVEMENT
                and self.elements.view(inner) is None
                and not is_empty(shape(inner.src[0]))
            ):
                moved = [self.elements.recipe(Key(inner, ElementPlace(indices))).needs for indices in here]
                if not all(moved):
                    break
                inner, here = inner.src[0], [needs[0].place.indices for needs in moved]
            if len(set(here)) > 1 and inner.op not in LEAVES:
                operands.add(inner)
        return len(operands)

    # -- reductions -------------------------------------------------------------------------------------------------

    def _decide_reduction(self, node: UOp, places: Sequence[ElementPlace]) -> None:
        if node is self.roots[0]:
            self._pass_on(node, places)
            return
        case = Case(self, node, places, self.times(node, places))
        once = len(places) == 1 and case.times <= AGAIN
        reason = first_of(
            reduction_reasons.REDUCED_HERE
            + (reduction_reasons.REDUCED_ONCE if once else reduction_reasons.REDUCED_AGAIN),
            case,
        )
        if reason is not None:
            self._need(node, reason)
        elif once:
            self.nest.lead(places[0].ranges)
            self._pass_on(node, places)
        elif not self._keep(node, places):
            self._need(node, reduction_reasons.NO_ROW)

    def _reduced(self, key: Key) -> Recipe:
        node, (indices, valid) = key
        op, axes = cast("ReduceAxes", node.arg)
        source = node.src[0]
        dims = shape(source)
        outer = frozenset(r for axis, index in enumerate(indices) if axis not in axes for r in index.ranges)
        shared = self.nest.share(
            self.level(source), self.nest.closure(outer), tuple(dims[axis] for axis in axes)
        )
        inner = dict(zip(axes, shared, strict=True))
        ranges = [r for r in shared if r.op is Ops.RANGE]
        place = ElementPlace(tuple(inner.get(axis, index) for axis, index in enumerate(indices)), valid)
        return Recipe((Key(source, place),), lambda got: got[0].reduce(op, *ranges) if ranges else got[0])

    # -- scans ------------------------------------------------------------------------------------------------------

    def _decide_scan(self, node: UOp, places: Sequence[ElementPlace]) -> None:
        (axis,) = cast("ReduceAxes", node.arg).axes
        (place, *more) = places
        if self._turns(node, place.indices[axis], axis):
            return self._need(node, reasons.SCAN)
        along, others = place.indices[axis], place.ranges - {place.indices[axis]}
        runs_here = (
            not more
            and place.valid is None
            and along in self.nest.outputs
            and all(along not in index.ranges for a, index in enumerate(place.indices) if a != axis)
            and spans(along, shape(node)[axis])
            and place.ranges <= self.nest.outputs
            and self.times(node, places) <= AGAIN
            and self.nest.can_lead(others)
            and self.nest.can_lead(place.ranges)
        )
        if same_dim(shape(node)[axis], 1) and not more:
            self._pass_on(node, places)
        elif runs_here and not reduction_reasons.is_shared(Case(self, node, places, 1.0)):
            self.nest.lead(others)
            self.nest.lead(place.ranges)
            self._pass_on(node, places)
        else:
            self._need(node, reasons.SCAN)
        return None

    def _turns(self, node: UOp, along: UOp, axis: int) -> bool:
        """Whether a scan runs against an output range, which may as well run the other way."""
        if not self.may_turn or along.op is Ops.RANGE or len(along.ranges) != 1:
            return False
        (r,) = along.ranges
        if r not in self.nest.outputs or along is not from_the_end(r, shape(node)[axis]):
            return False
        place = self.nest.indices.index(r)
        if place in self.backwards:  # turned already, for another scan
            return False
        self.turned.add(place)
        return True

    def _scanned(self, key: Key) -> Recipe:
        node, place = key
        op, (axis,) = cast("ReduceAxes", node.arg)
        along = place.indices[axis]
        source = Key(node.src[0], place)
        if along.op is not Ops.RANGE:
            return Recipe((source,), lambda got: got[0])
        return Recipe((source,), lambda got: self.table.make(Ops.SCAN, node.dtype, (got[0], along), op))

    # -- elements at positions --------------------------------------------------------------------------------------

    def _at(self, key: Key) -> Recipe:
        """x at positions that other tensors hold: pure ones are known at once, for others a node stands in."""
        node, place = key
        x, *positions = node.src
        asked: list[Key] = []

        def value(of: UOp, dtype: DType) -> UOp:
            if self.elements.is_pure(of):
                scalar = self.elements.now(of, place.indices)
            else:
                part = self.elements.part(of, place)
                asked.append(part)
                scalar = self._stand_in(part)
            return scalar if scalar.dtype is dtype else scalar.cast(dtype)

        gate = value(positions.pop(), dtypes.bool_) if positions and positions[-1].dtype.is_bool else None
        view = self.elements.view(x)
        if gate is not None and gate.op is Ops.CONST:
            if not gate.arg and view is None:  # (memory may be stored to: a place stays a place)
                zero = self.elements.zero(node)
                return Recipe((), lambda _: zero)
            gate = None if gate.arg else gate
        indices = tuple(value(position, dtypes.index) for position in positions)
        if view is not None:
            self._note_read(x)
            inside = place.valid if gate is None else both(gate, place.valid)
            if gate is None:
                read = self.elements.read(view, indices, inside)
            else:
                read = self.table.make(Ops.INDEX, x.dtype, (*element(view, indices), cast("UOp", inside)))
            return Recipe(tuple(asked), lambda _: read)
        here = Key(x, ElementPlace(indices, both(place.valid, gate)))
        zero = self.elements.zero(node)
        return Recipe((here, *asked), lambda got: got[0] if gate is None else gate.where(got[0], zero))

    def _stand_in(self, key: Key) -> UOp:
        """A node that depends on what the value depends on, and is exchanged for it at the end."""
        for known, other in self.unknown.items():
            if other == key:
                return known
        dtype = dtypes.int64 if key.node.dtype.is_index else key.node.dtype  # indices have none in memory
        memory = self.table.make(Ops.BUFFER, dtype.ptr(1), (), _STAND_IN + len(self.unknown))
        stand_in = self.table.make(Ops.INDEX, dtype, element(memory.index(), key.place.indices))
        self.unknown[stand_in] = key
        return stand_in

    # -- rows that are kept -----------------------------------------------------------------------------------------

    def _keep(
        self, node: UOp, places: Sequence[ElementPlace], own_loop: bool = True, *, narrow: bool = False
    ) -> bool:
        """Store the row once, where the first loop over it runs (or in a loop of its own), and read it elsewhere.

        `narrow`: what can as well be computed again is not kept if it became wider.
        """
        row = self.rows.of(node, places)
        if row is None or (narrow and self.rows.is_wider_than_read(node, row)):
            return False
        if (narrow or not own_loop) and not self.rows.may_keep(node, row, computed=narrow):
            return False
        filling = self.rows.filling(node, places, row)
        if filling is None:
            work = most(shape(node)[axis] for axis in row.axes)
            if (
                not own_loop
                or (count(row.held) < FEW_ROWS and work > self.tensors.target.small_elements)
                or self.rows.is_in_parts(row, places)
            ):
                return False
            filling = self.rows.own_loop(node, places[0], row, self.level(node))
        self.nest.lead(row.held)
        self.filling.update(r for axis in row.axes for r in filling.indices[axis].ranges)
        filled = Key(node, filling)
        dims = tuple(shape(node)[axis] for axis in row.axes)
        memory = node.dtype.ptr(most(dims), AddrSpace.LOCAL)

        def flat(place: ElementPlace) -> UOp:
            return simplify(flat_index(dims, [place.indices[axis] for axis in row.axes], self.table))

        def reader(place: ElementPlace) -> Recipe:
            def make(sources: list[UOp]) -> UOp:
                kept = self.table.make(Ops.BUFFERIZE, memory, (sources[0], flat(filling)), Bufferize("local"))
                return self.table.make(Ops.INDEX, node.dtype, (kept, flat(place)))

            return Recipe((filled,), make)

        self.asked[node] = {filling: None} | self.asked[node]
        self._use(filled, self._recipe(filled))
        for place in places:
            if place != filling:
                self.recipes[Key(node, place)] = reader(place)
        return True

    # -- making -----------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        for node in sorted(self.asked, key=lambda n: n.serial):
            for place in self.asked[node]:
                key = Key(node, place)
                needs, make = self.recipes[key]
                self.values[key] = make([self.values[need] for need in needs])

    def value(self, node: UOp, place: ElementPlace | None = None) -> UOp:
        """The element of a result."""
        return self.values[Key(node, self.whole(node) if place is None else place)]

    def known(self, sink: UOp) -> UOp:
        """The graph with the values of indices where nodes stood for them."""
        values = {
            stand_in: simplify(self.values[key].cast(stand_in.dtype))
            for stand_in, key in self.unknown.items()
        }
        while any(node in values for node in sink.toposort()):
            sink = substitute(sink, values)
        return sink
