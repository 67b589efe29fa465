"""The loops of a kernel: which axes it has and what they are called, who closes them, and what lies around what.

An axis is a RANGE. END, REDUCE, SCAN and BUFFERIZE close ranges. Only those that run one after another are loops (LOOP, REDUCE);
threads and lanes run side by side, and any number of closing ops may list them.

Whoever asks about loops asks here: schedules name axes (`axis_named`), stages ask what closes and surrounds them, and of one kernel as
a whole `kernel.Nest` says what it reads, writes and reduces, how each access moves (`access.py`), whose order matters (`order.py`),
and how much memory of its own it has (`memory.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import Final, cast

from planish.uop.derived import without_bounds
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, AxisType, Ops
from planish.uop.ranges import kind_of

SEQUENTIAL: Final = frozenset({AxisType.LOOP, AxisType.REDUCE})
"""Axes that are loops; all others run side by side."""
THREADS: Final = frozenset({AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE})
"""Axes that the threads of a block are."""
LANES: Final = frozenset({AxisType.UPCAST, AxisType.UNROLL})
"""Axes that are in registers or lanes."""
OUTPUT: Final = frozenset({AxisType.LOOP, AxisType.GLOBAL})
"""Axes of what is stored, run one after another or by the blocks of a grid."""
PARALLEL: Final = frozenset({AxisType.THREAD, AxisType.GLOBAL, AxisType.CLUSTER})
"""Axes that run around everything else."""
SIDE_BY_SIDE: Final = LANES | THREADS
"""Axes whose values run side by side."""
LOOP_VALUES: Final = frozenset({Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE})
"""Ops whose value stands for a loop of its own, or is carried through one; an END has none."""
OF_MANY_ELEMENTS: Final = LOOP_VALUES | {Ops.WMMA}
"""Ops whose value is no single element's: loops, and tensor cores."""


# -- axes ------------------------------------------------------------------------------------------------------------


def axes_of(sink: UOp) -> list[UOp]:
    """The ranges of a kernel: by axis type, outermost first, then by place."""
    ranges = [node for node in sink.toposort() if node.op is Ops.RANGE]
    return sorted(ranges, key=lambda r: (cast("Axis", r.arg).kind.order, cast("Axis", r.arg).path))


def name_of(axis: UOp) -> str:
    """What schedules call a range."""
    return cast("Axis", axis.arg).name


def axis_named(sink: UOp, name: str) -> UOp | None:
    """The range of a kernel that has a name."""
    return next((r for r in sink.toposort() if r.op is Ops.RANGE and name_of(r) == name), None)


def is_part(r: UOp, axis: UOp) -> bool:
    """Whether a range is an axis, or a part that was split off it."""
    mine, its = (cast("Axis", each.arg) for each in (r, axis))
    whole = its.origin or its.path
    return (mine.origin or mine.path)[: len(whole)] == whole


def next_root(nodes: Iterable[UOp]) -> int:
    """A place in the nest that comes after those of all ranges."""
    return 1 + max((cast("Axis", n.arg).path[0] for n in nodes if n.op is Ops.RANGE), default=-1)


def size_of(axis: UOp) -> int:
    """The size of a range; 0 if that is not a number."""
    bound = axis.src[0]
    return cast("int", bound.arg) if bound.op is Ops.CONST else 0


def is_named(axis: UOp) -> bool:
    """Whether an axis is a range whose size is known at launch only."""
    return axis.op is Ops.RANGE and axis.src[0].op is not Ops.CONST


def constant_size(r: UOp) -> int | None:
    """The size of a range that is a number; None of others, and of one that waits for effects."""
    size = r.src[0].arg
    return size if len(r.src) == 1 and isinstance(size, int) and not isinstance(size, bool) else None


def trips(r: UOp) -> int:
    """How many values a range has, at the largest sizes."""
    return max(r.vmax + 1, 1)


def count(ranges: Iterable[UOp]) -> int:
    """How many values several ranges have together."""
    return prod(trips(r) for r in ranges)


def loops_of(ranges: frozenset[UOp]) -> frozenset[UOp]:
    """Those that are loops."""
    return frozenset(r for r in ranges if kind_of(r) in SEQUENTIAL)


# -- places ----------------------------------------------------------------------------------------------------------


def without_gate(index: UOp) -> UOp:
    """An index as it is where it is somewhere."""
    while index.op is Ops.WHERE:
        nowhere = index.src[2]
        if nowhere.op is not Ops.INVALID and not (
            nowhere.op is Ops.VECTORIZE and nowhere.src[0].op is Ops.INVALID
        ):
            break
        index = index.src[1]
    return index


def plain_index(place: UOp) -> UOp | None:
    """The index of a place without its gate; None if there is none, or more than one."""
    indices = [i for i in place.src[1:] if not i.dtype.is_bool]
    if place.op is not Ops.INDEX or len(indices) != 1:
        return None
    return without_gate(indices[0])


# -- who closes what -------------------------------------------------------------------------------------------------


def stores_in(effect: UOp) -> Iterator[UOp]:
    """The STOREs that an effect is made of. (Effects nest as loops do: not deep.)"""
    stack = [effect]
    while stack:
        each = stack.pop()
        if each.op is Ops.STORE:
            yield each
        elif each.op in {Ops.END, Ops.GROUP, Ops.SINK, Ops.NOOP}:
            stack.extend(each.src[:1] if each.op is Ops.END else each.src)


def closed_by(node: UOp) -> frozenset[UOp]:
    """The ranges that a node closes."""
    first = FIRST_RANGE.get(node.op)
    closed: frozenset[UOp] = frozenset()
    if first is not None:
        for listed in node.src[first:]:
            closed |= frozenset((listed,)) if listed.op is Ops.RANGE else without_bounds(listed.ranges)
    return closed


def around(r: UOp, closing: UOp) -> frozenset[UOp]:
    """The loops in which the loop over r runs, as far as one of the nodes that close it knows."""
    nested = frozenset(s for s in loops_of(closed_by(closing)) if s.order < r.order)
    return loops_of(closing.ranges) | nested


def closers_of(nodes: list[UOp]) -> dict[UOp, list[UOp]]:
    """For each range that is a loop, the nodes that close it."""
    closers: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op in FIRST_RANGE:
            for r in sorted(loops_of(closed_by(node)), key=lambda r: r.order):
                closers.setdefault(r, []).append(node)
    return closers
