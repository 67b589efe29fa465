"""Versions of a kernel with named sizes: schedules of their own for small sizes, which a launch chooses among by the sizes it has.

What is best for the largest sizes is seldom best for the smallest: a register tile of rows has one row to work on, a row of pixels
fills no vector, and what fits in a cache as a whole is copied piece by piece. A version is the same kernel with narrower bounds, so
that nothing else has to know of it::

    x[n, 384] @ w, n in 1..512        n in 1..1   columns in lanes, no tile
                                      n in 2..8   one tile of 8 rows
                                      else        tiles of 6 rows

The cost model compares, at the upper bound of a version, what is chosen for it with what would run there else. A name that the
schedule of a version does not need narrow keeps its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, cast

from planish.actions.base import Action
from planish.optimize.body import overlapped
from planish.optimize.cost import estimate, least_cycles
from planish.optimize.draft import Draft
from planish.target import Target
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.ops import Variable as NamedSize
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify

Bounds = Mapping[str, tuple[int, int]]
"""The sizes that a version is for, by name: the least and the largest of each."""
Narrow = Callable[[Bounds], UOp]
"""The kernel with narrower bounds."""
Choose = Callable[[UOp], Draft]
"""What is chosen for a kernel."""

_CUTS: Final = (32, 16, 8, 4, 2, 1)
"""Upper bounds of versions."""
_MOST: Final = 3
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
        found = bounds.get(cast("NamedSize", node.arg).name) if node.op is Ops.DEFINE_VAR else None
        if found is not None:
            low, high = found
            name = cast("NamedSize", node.arg).name
            exchange[node] = (
                node.const_like(low) if low == high else node.replace(arg=NamedSize(name, low, high))
            )
    return simplify(substitute(sink, exchange))


def versions(
    general: Draft, sink: UOp, target: Target, narrow: Narrow, choose: Choose
) -> tuple[Version, ...]:
    """The versions that are worth their code, those for the smallest sizes first."""
    return tuple(reversed([*_worth_it(general, sink, target, narrow, choose)]))


def _worth_it(general: Draft, sink: UOp, target: Target, narrow: Narrow, choose: Choose) -> Iterator[Version]:
    names, found, running = names_of(sink), 0, general
    for cut in _CUTS:
        bounds = {n: (v.low, cut) for n, v in names.items() if v.low <= cut < v.high}
        if not bounds or found == _MOST:
            continue
        sizes = {name: bounds[name][1] if name in bounds else each.low for name, each in names.items()}
        now = _cycles(running.sink, sizes, target)
        enough = max(_GOOD * least_cycles(Nest.of(_at(sink, sizes)), target), target.launch)
        if now <= enough:
            continue
        draft = choose(narrow(bounds))
        cycles = _cycles(draft.sink, sizes, target)
        if cycles > _WORTH * now:
            continue
        found += 1
        bounds = _needed(bounds, draft, cycles, sizes, target, narrow)
        running = draft
        yield Version(bounds, tuple(draft.actions), tuple(draft.reasons))


def _needed(
    bounds: Bounds, draft: Draft, cycles: float, sizes: Mapping[str, int], target: Target, narrow: Narrow
) -> Bounds:
    """Of the bounds those without which a schedule would not fit, or cost more."""
    kept = dict(bounds)
    for name in bounds:
        fewer = {other: each for other, each in kept.items() if other != name}
        if not fewer:
            break
        wide = Draft(narrow(fewer), target, draft.attempt, cores=draft.cores)
        fits = all(wide.do(action) for action in draft.actions)
        if fits and _cycles(wide.sink, sizes, target) <= _SAME * cycles:
            kept = fewer
    return kept


def _at(sink: UOp, sizes: Mapping[str, int]) -> UOp:
    return within(sink, {name: (size, size) for name, size in sizes.items()})


def _cycles(sink: UOp, sizes: Mapping[str, int], target: Target) -> float:
    """What a scheduled kernel costs at some sizes, on one core, however many pieces it has."""
    return overlapped(*estimate(_at(sink, sizes), target, threads=1).parts.values())


__all__ = ["Bounds", "Choose", "Narrow", "Version", "names_of", "versions", "within"]
