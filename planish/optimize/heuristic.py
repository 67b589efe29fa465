"""Actions for common kernels, chosen by looking at indices; nothing is measured.

Whether an action fits is not decided here: every step is tried by `attempt`, which stage 7 stands behind, and what is refused
is left out. So no choice is ever illegal, whatever the kernel; the rules below only say what is worth trying.

On CPUs (and machines like them), in order, unless a tensor core does the work:

1. **Lanes.** Of every store, the axis along which it is contiguous, if what is read moves by 0 or 1 along it. A reduction
   over something contiguous whose outputs are not (rows of a matrix) gets its lanes on the reduced axis instead, with
   accumulators of their own. A length that no vector divides is padded where the machine masks lanes.
2. **Register tiles.** If a reduction runs inside of the lanes (a contraction), several vectors of lanes and several of
   an output axis that some operand does not depend on, as many as there are registers for (`_tile`).
3. **Cores.** The outermost axis that all stores run over, in pieces of enough work each.

On GPUs:

1. **A tensor core**, if one fits; then tiles of tiles.
2. **GROUP**, if there are few outputs and a long reduction: its elements go to the threads of a block.
3. **Register tiles** of four by four for contractions, four neighbours for the rest.
4. **LOCAL**, up to three axes, the last first: the threads of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, NamedTuple, cast

from planish.config import current
from planish.optimize.kernel_view import View, kind_of, size_of
from planish.target import Parallel, Target
from planish.uop.actions import Action, ActionKind, axes_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.products import products

Attempt = Callable[[UOp, Action, Sequence[Action]], UOp | None]
"""A kernel after one more action (the actions before it are told too); None if it is refused."""

_LEAST_LANES: Final = 4
"""Below that, lanes are not worth the wider loads, unless the machine has no more."""
_MOST_LANES: Final = 64
"""Lanes of one axis in a register tile."""
_VECTORS: Final = (4, 3, 2, 1)
_ROWS: Final = (14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
_ENOUGH: Final = 24
"""Accumulators beyond which a tile gains nothing."""
_TALL: Final = 8
"""Rows beyond which the rows of an operand start to collide in the first cache."""
_ACCUMULATORS: Final = 4
"""Independent sums that hide the latency of an addition."""
_PIECE: Final = 1 << 16
"""Iterations that are worth a core's attention."""
_LONG: Final = 256
"""A reduction that many threads may share."""
_FEW: Final = 2048
"""Outputs that do not fill a GPU."""
_BLOCK: Final = 256
"""Threads of a block."""
_BLOCK_AXES: Final = 3
_TILES: Final = (4, 2)
"""Tiles of a tensor core side by side; of a CPU's eight tile registers two by two, and their operands."""
_AMOUNTS: Final = (256, 128, 64, 32, 16, 8, 4, 3, 2)
_BLOCK_SIDE: Final = 16
"""Threads along one axis of a contraction: both operands are then shared."""
_PADDED: Final = (8, 9)
"""Several vectors are padded to only if that makes an axis no longer than by this ratio."""
_SEQUENTIAL: Final = frozenset({AxisType.LOOP, AxisType.REDUCE, AxisType.GLOBAL})


@dataclass(slots=True)
class _Plan:
    """The kernel as it stands, and the actions that led there."""

    sink: UOp
    target: Target
    attempt: Attempt
    actions: list[Action] = field(default_factory=list)
    upcast: dict[UOp, int] = field(default_factory=dict)
    """How much of an axis is in registers."""

    def place(self, axis: UOp) -> int | None:
        """Where what is left of an axis stands among the axes of the kernel now."""
        path = cast("Axis", axis.arg).path
        for number, r in enumerate(axes_of(self.sink)):
            if cast("Axis", r.arg).path[: len(path)] == path and kind_of(r) in _SEQUENTIAL:
                return number
        return None

    def left(self, axis: UOp) -> int:
        """The size of what is left of an axis; 0 if nothing is, or if it is not a number."""
        number = self.place(axis)
        return 0 if number is None else size_of(axes_of(self.sink)[number])

    def take(self, kind: ActionKind, axis: UOp, amount: int) -> bool:
        """Do something to an axis, if that fits."""
        number = self.place(axis)
        if number is None or not self.do(Action(kind, number, amount)):
            return False
        if kind is ActionKind.UPCAST:
            self.upcast[axis] = self.upcast.get(axis, 1) * amount
        return True

    def do(self, action: Action) -> bool:
        after = self.attempt(self.sink, action, self.actions)
        if after is None:
            return False
        self.sink = after
        self.actions.append(action)
        return True

    def take_first(self, kind: ActionKind, axis: UOp, amounts: Iterable[int]) -> int:
        """The first amount that divides what is left of an axis and fits; 1 if there is none."""
        for amount in amounts:
            size = self.left(axis)
            if amount > 1 and size and size % amount == 0 and self.take(kind, axis, amount):
                return amount
        return 1


def choose(sink: UOp, target: Target, attempt: Attempt, *, cores: bool = True) -> list[Action]:
    """Actions for a kernel whose views are resolved; `cores`: whether it may be cut into pieces for several."""
    plan = _Plan(sink, target, attempt)
    view = View(sink)
    if not view.writes:
        return []
    if target.is_gpu:
        _for_gpu(plan, view)
    else:
        _for_cpu(plan, view)
        if cores and target.parallel is Parallel.CORES:
            _share_among_cores(plan, view)
    return plan.actions


# -- CPUs --------------------------------------------------------------------------------------------------------


def _for_cpu(plan: _Plan, view: View) -> None:
    if plan.target.register_bytes == 1:
        return  # no vectors
    if _tensor_core(plan):
        return
    vectors = _vector_axes(view)
    for axis in vectors:
        inner = [r for r in view.reductions if axis in r.ranges]
        if inner:
            _contract(plan, view, axis, inner)
        else:
            _take_lanes(plan, axis, ActionKind.UPCAST, _lanes(plan.target, view, axis), least=4)
    for reduction in view.reductions:
        if not any(axis in reduction.ranges for axis in vectors):
            _reduce_in_lanes(plan, view, reduction)


def _vector_axes(view: View, *, every: bool = False) -> list[UOp]:
    """For every place written, and every row kept, the axis whose neighbours go into lanes.

    Unless `every` one is wanted, an axis is left out if lanes do better along a reduced one.
    """
    found: dict[UOp, None] = {}
    for place in view.writes:
        axis = next(
            (r for r in reversed(view.outputs) if size_of(r) != 1 and view.stride(place, r) == 1), None
        )
        if axis is not None and all(view.stride(other, axis) in {0, 1} for other in view.writes):
            found[axis] = None
    for axis in view.rows:
        if kind_of(axis) is AxisType.LOOP and all(view.stride(p, axis) in {0, 1} for p in view.reads):
            found[axis] = None
    return [axis for axis in found if every or not _prefers_reduction(view, axis)]


def _prefers_reduction(view: View, axis: UOp) -> bool:
    """Whether reads jump along an output axis but run along a reduced one."""
    for reduction in view.reductions:
        reads = [place for place in view.inside(reduction) if axis in place.ranges]
        if all(view.stride(place, axis) == 1 for place in reads):
            continue
        if axis in reduction.ranges and _contiguous_reduced(view, reduction) is not None:
            return True
    return False


def _contiguous_reduced(view: View, reduction: UOp) -> UOp | None:
    """The reduced axis along which everything that is read moves by 0 or 1, and something does move."""
    for axis in reversed(reduction.src[1:]):
        if axis.op is not Ops.RANGE or kind_of(axis) is not AxisType.REDUCE:
            continue
        steps = {view.stride(place, axis) for place in view.inside(reduction)}
        if 1 in steps and steps <= {0, 1}:
            return axis
    return None


def _lanes(target: Target, view: View, axis: UOp) -> int:
    """How many elements along an axis fill a register, for the widest dtype that is accessed along it."""
    places = [p for p in (*view.writes, *view.reads) if axis in p.ranges and not p.dtype.is_bool]
    return min((target.lanes(place.dtype.scalar) for place in places if not place.dtype.is_index), default=1)


def _take_lanes(
    plan: _Plan, axis: UOp, kind: ActionKind, lanes: int, vectors: int = 1, least: int = 2
) -> int:
    """Lanes of an axis: whole vectors if that is possible, parts of one if not; padded if nothing divides.

    `least`: how many halves of a vector an axis must have to be worth padding.
    """
    if lanes < 2:
        return 1
    fewest = min(_LEAST_LANES, lanes)
    whole = [lanes * count for count in range(vectors, 0, -1) if lanes * count <= _MOST_LANES]
    parts = [lanes >> shift for shift in range(1, lanes.bit_length()) if lanes >> shift >= fewest]
    if _wants_padding(plan, axis, lanes) and 2 * (axis.vmax + 1) > least * lanes:
        width = next(
            (w for w in whole if _PADDED[0] * _up(axis.vmax + 1, w) <= _PADDED[1] * (axis.vmax + 1)), lanes
        )
        if plan.take(ActionKind.PADTO, axis, width):
            return width if plan.take(kind, axis, width) else 1
    return plan.take_first(kind, axis, (*whole, *parts))


def _wants_padding(plan: _Plan, axis: UOp, lanes: int) -> bool:
    """Whether no vector, nor half of one, divides an axis, on a machine that can leave out the lanes too many."""
    size = plan.left(axis)
    half = max(lanes // 2, 1)
    return plan.target.masked and (size == 0 or (size % lanes != 0 and size % half != 0))


def _up(size: int, width: int) -> int:
    return -(-size // width) * width


class _Shape(NamedTuple):
    """A register tile: rows of vectors."""

    rows: int
    vectors: int

    def rank(self, width: int) -> tuple[int, ...]:
        """Better tiles have greater ranks: enough accumulators, two vectors of each row, as tall as is good, wide."""
        count = min(self.rows * self.vectors, _ENOUGH)
        return count, self.vectors > 1, self.rows <= _TALL, self.rows, self.vectors * width


def _tile(target: Target, rows: int, columns: int, lanes: int) -> _Shape:
    """The best tile whose sides divide those of the output (0: any will do, it is padded) and fits with its operands."""
    fitting = [
        _Shape(r, v)
        for r in _ROWS
        for v in _VECTORS
        if ((not rows and r == 1) or (rows and rows % r == 0))
        and (columns % (v * lanes) == 0 if v > 1 else True)
        and v * lanes <= _MOST_LANES
        and r * v + v + 1 <= target.registers
    ]
    return max(fitting, key=lambda shape: shape.rank(lanes))


def _contract(plan: _Plan, view: View, axis: UOp, reductions: Sequence[UOp]) -> None:
    """A register tile: vectors along an axis, rows along one that some operand does not depend on."""
    lanes = _lanes(plan.target, view, axis)
    rows = _broadcast_axis(view, axis, reductions)
    columns = 0 if _wants_padding(plan, axis, max(lanes, 2)) else plan.left(axis)
    shape = _tile(plan.target, 0 if rows is None else size_of(rows), columns, max(lanes, 1))
    _take_lanes(plan, axis, ActionKind.UPCAST, lanes, shape.vectors, least=1)
    if rows is not None and shape.rows > 1:
        plan.take(ActionKind.UPCAST, rows, shape.rows)


def _broadcast_axis(view: View, lanes: UOp, reductions: Sequence[UOp]) -> UOp | None:
    """An output axis of all reductions that some of their operands do not depend on: those are loaded once for all of it."""
    for axis in reversed(view.outputs):
        if axis is lanes or not size_of(axis) or not all(axis in r.ranges for r in reductions):
            continue
        if any(axis not in place.ranges for r in reductions for place in view.inside(r)):
            return axis
    return None


def _reduce_in_lanes(plan: _Plan, view: View, reduction: UOp) -> None:
    """Lanes on the reduced axis, in enough vectors to hide the latency of adding; several rows at once do that too."""
    axis = _contiguous_reduced(view, reduction)
    if axis is not None:
        lanes = _lanes(plan.target, view, axis)
        rows = prod(amount for row, amount in plan.upcast.items() if row in reduction.ranges)
        vectors = max(1, _ACCUMULATORS // rows)
        _take_lanes(plan, axis, ActionKind.ACCUMULATORS, lanes, vectors, least=4)


def _share_among_cores(plan: _Plan, view: View) -> None:
    pieces = min(plan.target.cores, view.work // _PIECE)
    for axis in view.outputs:
        size = plan.left(axis)
        amounts = [amount for amount in range(min(pieces, size), 1, -1) if size % amount == 0]
        if plan.take_first(ActionKind.THREAD, axis, amounts[:4]) > 1:
            return


# -- GPUs --------------------------------------------------------------------------------------------------------


def _for_gpu(plan: _Plan, view: View) -> None:
    if _tensor_core(plan):
        return
    outputs = prod(r.vmax + 1 for r in view.outputs)
    if outputs <= _FEW and _group(plan, view):
        return
    for axis in _vector_axes(view, every=True):
        inner = [r for r in view.reductions if axis in r.ranges]
        plan.take_first(ActionKind.UPCAST, axis, (4, 2))
        rows = _broadcast_axis(view, axis, inner) if inner else None
        if rows is not None:
            plan.take_first(ActionKind.UPCAST, rows, (4, 2))
    _threads(plan, view, _BLOCK)


def _tensor_core(plan: _Plan) -> bool:
    for number, core in enumerate(plan.target.tensor_cores):
        if core.mantissa is not None and not current().fastmath:
            continue
        found = products(plan.sink, core)
        if found and plan.do(Action(ActionKind.TC, 0, number)):
            tile = found[0]
            for axis in (tile.m, tile.n):
                plan.take_first(ActionKind.UPCAST, axis, _TILES if core.threads > 1 else _TILES[1:])
            if core.threads > 1:
                plan.take_first(ActionKind.LOCAL, tile.n, _TILES)
            return True
    return False


def _group(plan: _Plan, view: View) -> bool:
    """A long reduction shared by the threads of a block."""
    done = False
    for reduction in view.reductions:
        axis = next(
            (r for r in reversed(reduction.src[1:]) if r.op is Ops.RANGE and size_of(r) >= _LONG), None
        )
        if axis is not None and not view.rows:
            done = plan.take_first(ActionKind.GROUP, axis, (256, 128, 64, 32, 16)) > 1 or done
    return done


def _threads(plan: _Plan, view: View, most: int) -> None:
    left = most
    used = 0
    side = _BLOCK_SIDE if view.reductions and len(view.outputs) > 1 else most
    for axis in reversed(view.outputs):
        if left < 2 or used == _BLOCK_AXES:
            return
        amounts = [n for n in _AMOUNTS if n <= min(left, side)]
        size = plan.left(axis)
        if (
            all(size == 0 or size % n for n in amounts if n >= _BLOCK_SIDE)
            and axis.vmax + 1 >= 2 * amounts[0]
        ):
            plan.take(ActionKind.PADTO, axis, amounts[0])
        taken = plan.take_first(ActionKind.LOCAL, axis, amounts)
        used += taken > 1
        left //= taken
