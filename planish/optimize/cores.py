"""Which axis the cores share, and in how many pieces."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from planish.actions.thread import Thread
from planish.optimize.body import multiplying
from planish.optimize.draft import Draft
from planish.target import Parallel, Target
from planish.uop.nest import name_of
from planish.uop.nest.kernel import Nest, work_of
from planish.uop.node import UOp
from planish.uop.ops import UNARY, Ops

_FEW: Final = 8
"""Pieces as small as that."""
SLOW: Final = frozenset(op for op in UNARY if Ops.CBRT <= op <= Ops.ERFC)
_SLOWER: Final = 5
"""How many other operations one of those takes the time of."""
ROUNDS: Final = 2
"""Pieces that a core takes one after the other, if they are for free: a core that is late takes fewer of them."""
_MORE: Final = 8
"""What is done again may be so small a part of the work."""
_ROWS: Final = 4
"""Rows one after the other that a core is given, if there are enough."""
_SMALLER: Final = 4
"""How many times more pieces there may be than are wanted, if fewer are not possible."""
_SHARED: Final = 4
"""The part of a kernel's work that each piece may do again."""


def share_among_cores(draft: Draft, view: Nest) -> None:
    """Pieces of the outermost axis that can be cut, unless the cores have their work already."""
    if any(isinstance(action, Thread) for action in draft.actions):
        return
    pieces = pieces_for(draft.target, view)
    left = {axis: loop for axis in view.outputs if (loop := draft.outermost(axis)) is not None}
    for axis in sorted(left, key=lambda axis: left[axis].order):  # as they stand now
        size = draft.left(axis)
        most = min(pieces, size, _pieces_of(view, axis))
        if (
            view.rows and axis not in view.rows
        ):  # who has several rows can ask for the next one (`llir/next_row.py`)
            most = min(most, max(size // _ROWS, 2 * ROUNDS * draft.target.workers))
        # (what is stored in order, inside of which this axis lies, is gone through again for each piece)
        again = any(r in view.ordered and left[r].order < left[axis].order for r in left)
        if again:
            most = min(most, draft.target.workers, view.work // draft.target.piece_steps)
        if most < 2 or is_done_again(view, axis):
            continue
        if not draft.has_pieces(axis):
            # before what lies inside of it: strips of rows would leave most of every page to other cores
            if min(most, size // 2) > 1 and draft.take(Thread, axis, min(most, size // 2)):
                return
        elif again and size % most:
            if draft.do(Thread(name_of(left[axis]), most, uneven=True)):
                return
        elif draft.take_first(Thread, axis, amounts_for(draft.target, size, most)[:4]) > 1:
            return


def amounts_for(target: Target, size: int, wanted: int) -> list[int]:
    """Numbers of equal pieces, the best first; of a size without such divisors, more pieces than are wanted rather than none."""
    if wanted < 2:
        return []
    fewer = [amount for amount in range(min(wanted, size), 1, -1) if size % amount == 0]
    return (
        fewer or [n for n in range(wanted + 1, min(target.cores, _SMALLER * wanted) + 1) if size % n == 0][:1]
    )


def is_done_again(view: Nest, axis: UOp) -> bool:
    """Whether pieces of an axis would each make, or reduce, most of what the kernel does: it does not depend on the axis."""
    apart = [node for node in (*view.reductions, *view.kept) if axis not in node.src[0].ranges]
    return _SHARED * sum(prod(r.vmax + 1 for r in node.src[0].ranges) for node in apart) > view.work


def _pieces_of(view: Nest, axis: UOp) -> int:
    """In how many an axis may be cut: a sum that does not depend on it, or what is kept, is made again in every piece."""
    work = view.work
    again = sum(work_of(each) for each in view.reductions if axis not in each.ranges)
    again += sum(
        prod(r.vmax + 1 for r in each.src[0].ranges) for each in view.kept if axis not in each.src[0].ranges
    )
    return work if not again else 1 + work // (_MORE * again)


def pieces_for(target: Target, view: Nest) -> int:
    """Pieces that work is worth: of two microseconds if there are few, of more if there are many."""
    slow = sum(node.op in SLOW for node in view.sink.toposort())
    work = view.work * (1 + _SLOWER * slow)
    return min(target.cores, max(work // target.piece_steps, min(_FEW, work // target.least_piece_steps)))


class CoreCut(NamedTuple):
    """An axis of so many steps, cut into pieces."""

    axis: UOp
    steps: int
    copied: float = 0.0
    """Cycles in which each piece copies what others copy, too."""
    pieces: int = 1
    is_free: bool = False
    """Whether any number of pieces is possible: the axis can run over its end."""
    least: int = 2
    """Fewer pieces would be too large."""
    uneven: bool = False
    """Whether the number of its steps is not known."""

    @property
    def most(self) -> int:
        """How many pieces there may be: of an axis whose steps are not known, what is left of it stays a loop."""
        return self.steps // 2 if self.uneven else self.steps

    @property
    def padded(self) -> int:
        """The steps that are made."""
        return -(-self.steps // self.pieces) * self.pieces


def best_cut(target: Target, work: int, cuts: Sequence[CoreCut], *, rounds: int = ROUNDS) -> CoreCut | None:
    """The cut of a contraction of so many products that lets the cores end first; of equal ones the first, in more pieces.

    `rounds`: how many pieces each core should have.
    """
    busy = multiplying(target, work)
    most = min(target.cores, int(busy / (target.wake * target.launch)))
    if target.parallel is not Parallel.CORES or most < 2:
        return None
    several = [
        cut._replace(pieces=pieces)
        for cut in cuts
        for pieces in range(min(cut.most, most), min(cut.least, cut.steps, most) - 1, -1)
        if pieces > 1 and (cut.is_free or cut.steps % pieces == 0 or cut.uneven)
    ]

    def cost(cut: CoreCut) -> float:
        turns = -(-cut.pieces // target.workers)
        alone = busy * cut.padded / cut.steps / cut.pieces + cut.copied
        few = max(0, rounds * target.workers - cut.pieces) / (rounds * target.workers)
        many = max(0, cut.pieces - rounds * target.workers) / target.cores
        # of equal ones, the one that is less work for fewer cores, unless large pieces are wanted, and one whose pieces are known
        waste = cut.padded / cut.steps - 1 if rounds > 1 else 0
        waste += cut.uneven
        return turns * alone * (1 + 0.02 * few + 0.02 * many + 0.1 * waste)

    return min(several, key=cost, default=None)
