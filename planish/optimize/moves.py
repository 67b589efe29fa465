"""From one schedule to others that make sense as a whole: what a search tries besides one more action.

* **Another amount** (`other_amounts`): those of the table, and the next divisors of the axis as it stands there.
* **Another tile** (`resized`, `tiles`): a part that stays in registers is changed, and the edge that runs up to a multiple of it
  follows; alone or rows and columns at once.
* **Another machine** (`relatives`): what the heuristic would do with fewer registers, other caches, more or fewer pieces. Each
  is a schedule of one piece, which no walk of single steps would reach.

Nothing here says whether a schedule fits: whoever asks replays it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from math import isqrt
from typing import Final

from planish.actions.base import Action, is_within
from planish.actions.block import Block
from planish.actions.lanes import Lanes
from planish.actions.overrun import Overrun
from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.actions.splitting import Splitting
from planish.actions.thread import Thread
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.optimize.draft import Attempt
from planish.optimize.heuristic import choose
from planish.optimize.searched import Schedule
from planish.optimize.space import amounts
from planish.target import Target
from planish.uop.node import UOp

_BESIDE: Final = 2
"""How many divisors below and above an amount are tried."""
_TILED: Final = (Upcast, Lanes)
_EDGES: Final = (PadTo, Overrun)
_DIVIDING: Final = (Upcast, Split, Block, Thread, Unroll)
_MOST_ROWS: Final = 16
"""Rows of a tile: what is beside the vectors of it."""


def other_amounts(target: Target, action: Action, size: int) -> tuple[int, ...]:
    """What else an action could be given on an axis of a size (0: it is not known)."""
    numbers = list(amounts(target, type(action)))
    if isinstance(action, _DIVIDING) and size:
        divisors = _divisors(size)
        below = [n for n in divisors if n < action.amount][-_BESIDE:]
        above = [n for n in divisors if n > action.amount][:_BESIDE]
        numbers += [*below, *above]
    return tuple(n for n in dict.fromkeys(numbers) if n != action.amount)


@cache
def _divisors(size: int) -> tuple[int, ...]:
    """What divides a size, from 2 on."""
    small = [n for n in range(1, isqrt(size) + 1) if size % n == 0]
    return tuple(sorted({*small, *(size // n for n in small)} - {1}))


def without(actions: Schedule, place: int) -> Schedule:
    """A schedule less one action; what followed on a part of its axis is done to the whole."""
    dropped, tail = actions[place], actions[place + 1 :]
    if isinstance(dropped, Splitting):
        left = f"{dropped.axis}.{'inner' if dropped.takes_outer else 'outer'}"
        tail = tuple(action.renamed(left, dropped.axis) for action in tail)
    return (*actions[:place], *tail)


def resized(actions: Schedule, place: int, amount: int) -> Iterator[Schedule]:
    """Schedules in which the action at a place has another amount; the first that fits is the one that is meant.

    Where a part of an axis that stays in registers runs up to a multiple of it, the multiple becomes another. Where it is shared
    among cores, each gets whole parts.
    """
    changed = actions[place].resized(amount)
    head, tail = actions[:place], actions[place + 1 :]
    yield (*head, changed, *tail)
    if not isinstance(changed, _TILED):
        return
    edge = next((a for a in head if isinstance(a, _EDGES) and is_within(changed.axis, a.axis)), None)
    without = tuple(a for a in head if a is not edge)
    if edge is not None:
        yield (*without, changed, *tail)
    # what is left of the axis is shared among cores
    pieces = [a.pieces for a in tail if isinstance(a, Thread) and is_within(a.axis, changed.axis)]
    for multiple in (*(amount * n for n in pieces), amount):
        at = head.index(edge) if edge is not None else len(head)
        padding = PadTo(changed.axis, multiple) if edge is None else edge.resized(multiple)
        yield (*without[:at], padding, *without[at:], changed, *tail)


def tiles(actions: Schedule, target: Target, lanes: int) -> Iterator[tuple[Schedule, ...]]:
    """Other register tiles for a schedule that has one: of each, schedules of which the first that fits is meant."""
    parts = [
        place for place, action in enumerate(actions) if isinstance(action, _TILED) and action.amount > 1
    ]
    wide = [place for place in parts if actions[place].amount % max(lanes, 1) == 0 and lanes > 1]
    tall = [place for place in parts if place not in wide]
    if not wide or not tall:
        return
    across, down = wide[0], tall[0]
    widths = [n for n in amounts(target, Lanes) if n % lanes == 0]
    for width, rows in product(widths, range(2, _MOST_ROWS + 1)):
        vectors = width // lanes
        if (width, rows) == (actions[across].amount, actions[down].amount):
            continue
        if rows * vectors + vectors + 1 > target.registers or 2 * rows * vectors < target.registers // 2:
            continue
        # what comes later is changed first: nothing before it moves
        late, early = ((down, rows), (across, width)) if down > across else ((across, width), (down, rows))
        yield tuple(both for one in resized(actions, *late) for both in resized(one, *early))


def relatives(sink: UOp, target: Target, attempt: Attempt) -> Iterator[Schedule]:
    """What the heuristic would do if the machine were another one; no two are the same."""
    seen: set[Schedule] = set()
    for change in _OTHERS:
        schedule = tuple(choose(sink, change(target), attempt))
        if schedule not in seen:
            seen.add(schedule)
            yield schedule


def _second(target: Target, factor: float) -> Target:
    caches = tuple(int(size * factor) if n == 1 else size for n, size in enumerate(target.caches))
    return replace(target, caches=caches)


_OTHERS: Final[Sequence[Callable[[Target], Target]]] = (
    lambda t: replace(t, registers=t.registers * 3 // 4),
    lambda t: replace(t, registers=t.registers // 2),
    lambda t: _second(t, 0.25),
    lambda t: _second(t, 0.5),
    lambda t: _second(t, 2.0),
    lambda t: replace(t, caches=tuple(4 * size for size in t.caches)),
    lambda t: replace(t, cores=max(t.cores // 8, 2)),
    lambda t: replace(t, workers=2 * t.workers),
    lambda t: replace(t, local_bytes=t.local_bytes // 8),
    lambda t: replace(t, masked=False),
    lambda t: replace(t, register_bytes=max(t.register_bytes // 2, 1)),
)
"""Machines whose schedules are worth a try on another."""
