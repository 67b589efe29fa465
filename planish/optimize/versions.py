"""Versions of a kernel with named sizes: schedules of their own for small sizes, which a launch chooses among by the sizes it has.

What is best for the largest sizes is seldom best for the smallest: a register tile of rows has one row to work on, a row of pixels
fills no vector, and what fits in a cache as a whole is copied piece by piece. A version is the same kernel with narrower bounds, so
that nothing else has to know of it::

    x[n, 384] @ w, n in 1..512        n in 1..1   columns in lanes, no tile
                                      n in 2..8   one tile of 8 rows
                                      else        tiles of 6 rows

The cost model compares, at the upper bound of a version, what is chosen for it with what would run there else. A name that the
schedule of a version does not need narrow keeps its bounds. Sizes of at least a vector may have a version without masks besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import isqrt
from typing import Final, NamedTuple, cast

import numpy as np

from planish.actions.base import Action
from planish.actions.pad_to import PadTo
from planish.actions.shift_inwards import ShiftInwards
from planish.actions.thread import Thread
from planish.dtypes import float32
from planish.optimize.body import overlapped
from planish.optimize.cost import estimate, least_cycles
from planish.optimize.draft import Draft
from planish.target import Target
from planish.uop.evaluate import evaluate
from planish.uop.nest import axes_of
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ops import Variable as NamedSize
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

Bounds = Mapping[str, tuple[int, int]]
"""The sizes that a version is for, by name: the least and the largest of each."""
Narrow = Callable[[Bounds], UOp]
"""The kernel with narrower bounds."""
Choose = Callable[[UOp], Draft]
"""What is chosen for a kernel."""

_VECTORS: Final = 4
"""Vectors of the widest version for small sizes: beyond, a tile of registers is full."""
_MOST: Final = 3
"""Versions for small sizes, at most: each is code to compile."""
_WORTH: Final = 0.88
"""What a version has to cost by what would run instead: code takes time to be compiled, and the model is no better than that."""
_GOOD: Final = 1.25
"""How many times longer than its arithmetic and memory alone a schedule may take that needs no version."""
_SAME: Final = 1.05
"""What a schedule may cost with a name that is not narrow by what it costs if it is."""


class Version(NamedTuple):
    """A schedule for some of the sizes of a kernel."""

    bounds: Bounds
    actions: tuple[Action, ...]
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{name} in {low}..{high}" for name, (low, high) in self.bounds.items())


def names_of(sink: UOp) -> dict[str, NamedSize]:
    """The named sizes of a kernel."""
    return {
        cast("NamedSize", node.arg).name: cast("NamedSize", node.arg)
        for node in sink.toposort()
        if node.op is Ops.DEFINE_VAR
    }


def within(sink: UOp, bounds: Bounds) -> UOp:
    """A kernel whose sizes have narrower bounds; where there is but one size left, it is a number."""
    exchange: dict[UOp, UOp] = {}
    for node in sink.toposort():
        limits = bounds.get(cast("NamedSize", node.arg).name) if node.op is Ops.DEFINE_VAR else None
        if limits is not None:
            low, high = limits
            name = cast("NamedSize", node.arg).name
            exchange[node] = (
                node.const_like(low) if low == high else node.replace(arg=NamedSize(name, low, high))
            )
    return simplify(substitute(sink, exchange))


def versions(
    general: Draft, sink: UOp, target: Target, narrow: Narrow, choose: Choose
) -> tuple[Version, ...]:
    """The versions that are worth their code, those for the smallest sizes first; then one for all but those."""
    small = reversed([*_worth_it(general, sink, target, narrow, choose)])
    return *small, *_without_edges(general, sink, target, narrow, choose)


def _without_edges(
    general: Draft, sink: UOp, target: Target, narrow: Narrow, choose: Choose
) -> Iterator[Version]:
    """A version for sizes of at least a vector, of which the last tile starts earlier, where that of any size is masked."""
    if not any(isinstance(action, PadTo) for action in general.actions):
        return
    least = target.lanes(float32)
    names = names_of(sink)
    bounds = {name: (least, each.high) for name, each in names.items() if each.low < least < each.high}
    if not bounds:
        return
    draft = choose(narrow(bounds))
    if not any(isinstance(action, ShiftInwards) for action in draft.actions):
        return
    # (of the largest one waits for memory, whatever is masked)
    sizes = {name: isqrt(max(each.low, least) * each.high) for name, each in names.items()}
    if _SAME * _cycles(draft.sink, sizes, target) <= _cycles(general.sink, sizes, target):
        yield Version(bounds, tuple(draft.actions), tuple(draft.reasons))


def _worth_it(general: Draft, sink: UOp, target: Target, narrow: Narrow, choose: Choose) -> Iterator[Version]:
    names, count, running = names_of(sink), 0, general
    around: dict[str, tuple[int, int]] = {}
    """The sizes of the version before: each is for some of those of the one before it."""
    widest = _VECTORS * target.lanes(float32)
    for cut in (widest >> shift for shift in range(widest.bit_length())):
        high = {name: around.get(name, (0, each.high))[1] for name, each in names.items()}
        bounds = {name: (each.low, cut) for name, each in names.items() if each.low <= cut < high[name]}
        if not bounds or count == _MOST:
            continue
        sizes = {name: cut if name in bounds else each.low for name, each in names.items()}
        now = _cycles(running.sink, sizes, target)
        enough = max(_GOOD * least_cycles(Nest.of(_at(sink, sizes)), target), target.launch)
        if now <= enough:
            continue
        draft = choose(narrow(around | bounds))
        # a template that refuses small sizes knows what the model does not
        worth = _cycles(draft.sink, sizes, target) <= _WORTH * now or running.template in draft.refused
        if not worth or _on_a_core(draft) == _on_a_core(running):
            continue
        for name in list(bounds):
            fewer = {other: each for other, each in bounds.items() if other != name}
            large = {**sizes, name: high[name]}
            if fewer and _goes_on(draft, narrow(around | fewer), running, sizes, large):
                bounds = fewer
        count += 1
        around, running = around | bounds, draft
        yield Version(around, tuple(draft.actions), tuple(draft.reasons))


def _goes_on(
    draft: Draft, sink: UOp, running: Draft, sizes: Mapping[str, int], large: Mapping[str, int]
) -> bool:
    """Whether a schedule is as good with a name that is not narrow, and better than what would run at its largest size."""
    target = draft.target
    wide = Draft(sink, target, draft.attempt, cores=draft.cores)
    return (
        all(wide.do(action) for action in draft.actions)
        and _cycles(wide.sink, sizes, target) <= _SAME * _cycles(draft.sink, sizes, target)
        and _cycles(wide.sink, large, target) <= _WORTH * _cycles(running.sink, large, target)
    )


def _at(sink: UOp, sizes: Mapping[str, int]) -> UOp:
    return within(sink, {name: (size, size) for name, size in sizes.items()})


def _cycles(sink: UOp, sizes: Mapping[str, int], target: Target) -> float:
    """What a scheduled kernel costs at some sizes, on one core, however many pieces it has."""
    sized = _at(sink, sizes)
    return overlapped(target, *estimate(sized, target, threads=1).parts.values()) * _full(sized)


def _full(sink: UOp) -> float:
    """Of the iterations that uneven pieces have at most, those that they have."""
    part = 1.0
    for r in axes_of(sink):
        around = [t for t in r.src[0].ranges if kind_of(t) is AxisType.THREAD]
        if len(around) == 1:
            (pieces,) = around
            turns = evaluate(r.src[0], {pieces: np.arange(pieces.vmax + 1)})
            part *= float(turns.sum()) / ((pieces.vmax + 1) * (r.vmax + 1))
    return part


def _on_a_core(draft: Draft) -> list[Action]:
    """What a schedule is but for pieces for cores."""
    return [action for action in draft.actions if not isinstance(action, Thread)]


__all__ = ["Bounds", "Choose", "Narrow", "Version", "names_of", "versions", "within"]
