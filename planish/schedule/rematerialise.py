"""Rematerialisation: which computed tensors get memory because that is cheaper than computing them wherever they are needed.

Before a program is cut into kernels, every tensor that is computed element by element and needed more than once is judged. *Asks*
are the different places at which the kernels to come will want an element: of which kernel (its *anchor*), and at which
offset (`x[1:] + x[:-1]` asks twice). With n kernels and e asks,

    again  = e · (ops of an element, in a product for each block) + n · (bytes that it is made of)
    stored = ops + bytes it is made of + write + n · read + one more kernel

in cycles of one core of the target; the cheaper wins. Operands are judged before what they are part of, so that a chain is cut where
the sum of the two is least, whatever its length. A tensor with memory is an anchor of its own, so that what lies below it is
asked for by one kernel where it was asked for by many: choices are judged once more until none is regretted.

Reductions are not judged here: whether a kernel computes one on its way depends on its loops (`reasons.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Final, cast

from planish.records import dataclass
from planish.schedule.elements import COMPUTED, LEAVES
from planish.schedule.graph import TensorGraph, slides
from planish.schedule.prices import Path, Prices, moved
from planish.schedule.tensors import Tensors, most
from planish.uop.node import UOp
from planish.uop.ops import MOVEMENT, Ops, ReduceAxes
from planish.uop.shape import Dim, same_dim, shape

_MOST_ASKS: Final = 16
"""Asks that are told apart: what is needed more often is stored anyhow."""
_RIM: Final = 1.5
"""How much larger a rim makes a tensor at most: that of a cube of 24 elements a side does by 1.3."""
_ROUNDS: Final = 3

_HERE: Final = Path()
Anchor = UOp | tuple[object, ...]
"""A kernel to come: the product of matrices it computes, the tensor it stores, or what tells results apart that may share one."""
Asks = dict[tuple[Anchor, Path], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both costs of a tensor, in cycles of one core, and how it is needed."""

    again: float
    stored: float
    kernels: int
    asks: int

    def __str__(self) -> str:
        places = f"{self.kernels} kernels" if self.kernels > 1 else f"{self.asks} places of a kernel"
        return f"{places} need it: computed again {self.again:.3g} cycles, stored {self.stored:.3g}"


def worth_memory(
    tensors: Tensors,
    graph: TensorGraph,
    roots: Sequence[UOp],
    realised: Collection[UOp],
    walked: Container[UOp] = (),
) -> dict[UOp, Verdict]:
    """The computed tensors below some results that are to have memory of their own, and why; none that is `walked` over."""
    return _Judge(tensors, graph, roots, realised, walked).run()


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is in memory, and what is to be."""

    stored: Container[UOp]
    realised: Container[UOp]

    def __contains__(self, node: object) -> bool:
        return node in self.stored or node in self.realised


class _Judge:
    """The tensors of one cut, with what is stored so far."""

    def __init__(
        self,
        tensors: Tensors,
        graph: TensorGraph,
        roots: Sequence[UOp],
        realised: Collection[UOp],
        walked: Container[UOp],
    ) -> None:
        self.target = tensors.target
        self.walked = walked
        """Products on the way to others, and what is made of them: kernels that walk over them make no sums of anything else."""
        self.prices = Prices(tensors, realised)
        self.graph = graph
        self.roots = frozenset(roots)
        self.realised = realised
        sink = roots[0].table.sink(*roots)
        order = sink.toposort(lambda node: node is sink or node not in realised)[:-1]
        self.order = [node for node in order if node not in realised]
        """What is not in memory, sources first."""
        self.stored: dict[UOp, Verdict] = {}
        self.memory = _Memory(self.stored, realised)
        self.products: dict[UOp, int] = {}
        """How many products of matrices, one after another, a tensor depends on."""

        self.rows: dict[Anchor, tuple[object, ...]] = {}
        """The rows of a kernel that reduces some and uses what comes of it: the dims, and the axes that they lie along."""

    def run(self) -> dict[UOp, Verdict]:
        """Judge, and judge again what was stored now that it is an anchor."""
        candidates = [node for node in self.order if node not in self.walked and self._is_candidate(node)]
        for _ in range(_ROUNDS):
            if not candidates:
                break
            asks = self._asks()
            before = len(self.stored)
            for node in candidates:
                verdict = self._verdict(node, asks.get(node, {}))
                if verdict is not None and verdict.again > verdict.stored:
                    self.stored[node] = verdict
                else:
                    self.stored.pop(node, None)
            candidates = [node for node in candidates if node in self.stored]
            if len(candidates) == before:
                break
        return self.stored

    def _is_candidate(self, node: UOp) -> bool:
        """Whether it is computed, is a tensor, and is not just a step towards a single other one.

        What is padded with a rim is better stored with it: then nobody has to ask whether an element lies in it.
        """
        rim = node.op is Ops.PAD and node.src[0].op in COMPUTED and _is_rim(node)
        if not (node.op in COMPUTED or rim) or node in self.roots or node.dtype.is_index or not shape(node):
            return False
        users = self.graph.users.get(node, [])
        if len(users) != 1:
            return True
        (user,) = users
        if user.op is Ops.CAST and user.dtype.itemsize > node.dtype.itemsize:
            return True  # the narrower one is the one to store
        return user.op not in COMPUTED and not (user.op is Ops.PAD and _is_rim(user))

    # -- who asks -------------------------------------------------------------------------------------------------

    def _asks(self) -> dict[UOp, Asks]:
        """Of every tensor, who asks for its elements: users before what they use."""
        self._count_products()
        self.rows.clear()
        asks: dict[UOp, Asks] = {}
        for node in reversed(self.order):
            mine = asks.get(node, {})
            if node in self.roots or node in self.stored or self._is_operand(node, mine):
                mine = {(self._anchor(node), _HERE): None}
            for position, source in enumerate(node.src):
                if source in self.realised or source.op in LEAVES:
                    continue
                theirs = asks.setdefault(source, {})
                for ask in self._passed(node, position, mine):
                    if len(theirs) < _MOST_ASKS:
                        theirs[ask] = None
        return asks

    def _is_operand(self, node: UOp, asks: Asks) -> bool:
        """Whether it is made of a product and another one asks for it: no product is computed on the way to another, so that it will be stored."""
        return (
            node.op in COMPUTED
            and self.products[node] > 0
            and node not in self.walked
            and any(isinstance(anchor, UOp) and anchor.op is Ops.REDUCE_AXIS for anchor, _ in asks)
        )

    def _count_products(self) -> None:
        for node in self.order:
            below = max((self.products.get(source, 0) for source in node.src), default=0)
            product = node.op is Ops.REDUCE_AXIS and self.graph.is_product(node)
            self.products[node] = below + product

    def _anchor(self, node: UOp) -> Anchor:
        """The kernel that stores a tensor: results of the same dims that wait for the same products may share one."""
        own = self.graph.products_of(node, self.memory)
        return tuple(dim for dim in shape(node) if dim != 1), self.products[node], own

    def _passed(self, node: UOp, position: int, asks: Asks) -> Iterable[tuple[Anchor, Path]]:
        """What a node that is asked for asks of an operand."""
        op = node.op
        if op in COMPUTED or op is Ops.EXPAND or op is Ops.SCAN_AXIS:
            return asks
        if op in MOVEMENT:
            return [(anchor, moved(node, path)) for anchor, path in asks]
        if op is Ops.REDUCE_AXIS and not self.graph.is_product(node):
            # (a sum over windows has a kernel of its own, whoever needs it)
            if self._comes_back(node) and not slides(node, self.realised):
                return self._in_rows(node, asks)
            # sums over the same axes share their loop
            return [((shape(node.src[0]), cast("ReduceAxes", node.arg).axes, self.products[node]), _HERE)]
        if op is Ops.INDEX and position:
            return asks
        return [(node, _HERE)]

    def _in_rows(self, reduction: UOp, asks: Asks) -> list[tuple[Anchor, Path]]:
        """What a reduction that comes back asks: who reduces and who uses the result are one row kernel, unless its rows lie otherwise."""
        rows = _rows_of(reduction)
        apart = (*rows, self.products[reduction], self.graph.level[reduction])
        return [
            (anchor, path) if self.rows.setdefault(anchor, rows) == rows else (apart, _HERE)
            for anchor, path in asks
        ]

    def _comes_back(self, reduction: UOp) -> bool:
        """Whether what a reduction gives is spread over the elements that it is made of.

        Not meant is what is paired with itself, every row with every other: that needs all rows first.
        """
        size, rows = most(shape(reduction.src[0])), _rows_of(reduction)
        along: set[UOp] = set()
        across: set[UOp] = set()
        is_spread: bool | None = None
        stack, seen = [reduction], {reduction}
        while stack and len(seen) < _MOST_ASKS:
            for user in self.graph.users.get(stack.pop(), ()):
                if user in seen:
                    continue
                if user.op is Ops.EXPAND and most(shape(user)) >= size:
                    users = self.graph.users.get(user, ())
                    if is_spread is None:
                        walks = any(each in self.walked for each in users)
                        is_spread = not walks or reduction.src[0] in self.walked
                    spread = _rows_of(user)
                    if spread == rows:
                        along.update(users)
                    elif [dim for dim, _ in spread] == [dim for dim, _ in rows]:
                        across.update(users)
                elif user.op in COMPUTED or user.op in MOVEMENT:
                    seen.add(user)
                    stack.append(user)
        return bool(is_spread) and along.isdisjoint(across)

    def _evaluations(self, node: UOp, anchor: Anchor) -> float:
        """How often a kernel computes each element for one of its asks: a product does so for each block of what it multiplies with."""
        if (
            not isinstance(anchor, UOp)
            or anchor.op is not Ops.REDUCE_AXIS
            or not self.graph.is_product(anchor)
        ):
            return 1.0
        reuse = most(shape(anchor.src[0])) / max(most(shape(node)), 1)
        return max(self.target.packed_again, reuse / self.target.packed_rows)

    # -- what it costs --------------------------------------------------------------------------------------------

    def _verdict(self, node: UOp, asks: Mapping[tuple[Anchor, Path], None]) -> Verdict | None:
        if len(asks) < 2:
            return None
        kernels = len({anchor for anchor, _ in asks})
        price = self.prices.of(node, self.stored)
        if not price.memory:
            return None  # arithmetic on positions is simplified where it is used
        evaluations = sum(self._evaluations(node, anchor) for anchor, _ in asks)
        again = evaluations * price.compute + kernels * price.read
        stored = price.compute + price.read + price.storing(self.target, kernels, len(asks))
        return Verdict(again, stored, kernels, len(asks))


def _rows_of(node: UOp) -> tuple[tuple[Dim, bool], ...]:
    """The axes of what a reduction is made of, and whether it is made along each; or of an expanded tensor, and whether each is new.

    Axes of one element lie along nothing, and views leave them out or put them in.
    """
    if node.op is Ops.EXPAND:
        dims, before = shape(node), shape(node.src[0])
        along = [not same_dim(dim, old) for dim, old in zip(dims, before, strict=True)]
    else:
        dims, axes = shape(node.src[0]), cast("ReduceAxes", node.arg).axes
        along = [axis in axes for axis in range(len(dims))]
    return tuple((dim, each) for dim, each in zip(dims, along, strict=True) if not same_dim(dim, 1))


def _is_rim(node: UOp) -> bool:
    """Whether a padding adds little."""
    return most(shape(node)) <= _RIM * most(shape(node.src[0]))
