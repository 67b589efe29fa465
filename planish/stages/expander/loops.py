"""One RANGE, one END: which loops the closing ops of a kernel mean, and making each of them one loop.

END, REDUCE and BUFFERIZE close ranges. Several that close the same range mean one loop if they stand in the same loops
and none needs the result of another: `max x[r]` and a copy of `x[r]` are computed side by side. If one needs the other, or
the loops around differ, the range stands for several loops. Two steps, before and after the closing ops become ENDs:

* `separate_contexts` gives every loop a range of its own, so that a range says which loop is meant.
* `merge_loops` then makes one END of all ENDs of a range, around a GROUP of their bodies.

Only ranges that run one after another are loops (LOOP, REDUCE); threads and lanes run side by side, and any number of
closing ops may list them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from planish import dtypes
from planish.errors import LoweringError
from planish.uop.nest import around, closed_by, closers_of, loops_of
from planish.uop.node import UOp
from planish.uop.ops import Axis, Ops
from planish.uop.reached import reached
from planish.uop.rewrite import substitute


class Needs:
    """Which loops need the result of which, when some of them are one.

    A node that closes several ranges is several loops, one in the other; a loop is named by the node and its range.
    """

    def __init__(self, nodes: list[UOp], closers: dict[UOp, list[UOp]]) -> None:
        nests: dict[UOp, list[UOp]] = {}
        for r, closing in closers.items():
            for node in closing:
                nests.setdefault(node, []).append(r)
        self.number: dict[tuple[UOp, UOp], int] = {}
        self.needs: list[int] = []
        below: dict[UOp, int] = {}
        for node in nodes:
            mask = 0
            for source in node.src:
                mask |= below[source]
            for r in sorted(nests.get(node, ()), key=lambda r: r.order, reverse=True):  # innermost first
                self.number[node, r] = len(self.needs)
                self.needs.append(mask)
                mask |= 1 << (len(self.needs) - 1)
            below[node] = mask
        self.member = list(range(len(self.needs)))

    def join(self, r: UOp, one: UOp, other: UOp) -> bool:
        """Let two share their loop over r; false, and nothing changed, if a loop would then need itself."""
        kept = list(self.member)
        mine, theirs = self.member[self.number[one, r]], self.member[self.number[other, r]]
        self.member = [mine if each == theirs else each for each in self.member]
        if self._needs_itself(mine):
            self.member = kept
            return False
        return True

    def _needs_itself(self, group: int) -> bool:
        waits: dict[int, set[int]] = {}
        for place, mask in enumerate(self.needs):
            mine = waits.setdefault(self.member[place], set())
            for needed, its_group in enumerate(self.member):
                if mask >> needed & 1:
                    mine.add(its_group)
        return group in reached(waits[group], waits.__getitem__)


def _groups(r: UOp, closing: list[UOp], needs: Needs) -> list[list[UOp]]:
    """The loops that a range stands for: those closing ops together that share one."""
    groups: list[list[UOp]] = []
    for node in closing:
        for group in groups:
            if around(r, group[0]) == around(r, node) and needs.join(r, group[0], node):
                group.append(node)
                break
        else:
            groups.append([node])
    return groups


def _exchange(r: UOp, new: UOp) -> Callable[[UOp], UOp]:
    """A closing op over another range: only what depends on the range changes."""

    def exchanged(closing: UOp) -> UOp:
        return substitute(closing, {r: new}, lambda node: node is closing or r in node.ranges)

    return exchanged


def separate_contexts(sink: UOp) -> UOp:
    """The kernel with a range of its own for every loop."""
    while True:
        nodes = sink.toposort()
        closers = closers_of(nodes)
        shared = [r for r, closing in closers.items() if len(closing) > 1]
        if not shared:
            return sink
        needs = Needs(nodes, closers)
        # outer loops first: what they become decides in which loops the inner ones are
        shared.sort(key=lambda r: (min(len(around(r, c)) for c in closers[r]), r.order))
        for r in shared:
            groups = _groups(r, closers[r], needs)
            if len(groups) > 1:
                break
        else:
            return sink
        change = _exchange(r, _fresh(r, closers))
        sink = substitute(sink, {closing: change(closing) for closing in groups[-1]})


def _fresh(r: UOp, known: dict[UOp, list[UOp]]) -> UOp:
    """A range like another, next to it in the nest."""
    axis = cast("Axis", r.arg)
    taken = {cast("Axis", other.arg).path for other in known}
    number = 0
    while (*axis.path, number) in taken:
        number += 1
    return r.replace(arg=axis.part(number))


def nested_ends(end: UOp) -> UOp:
    """END of several loops as ENDs of one each, the innermost (greatest axis) first; threads stay with the outermost."""
    body, *listed = end.src
    loops = sorted((r for r in listed if r in loops_of(r.ranges)), key=lambda r: r.order)
    others = tuple(r for r in listed if r not in loops)
    for r in reversed(loops[1:]):
        body = body.end(r)
    return body.end(*loops[:1], *others)


def _nest(sink: UOp, wanted: Callable[[UOp], bool]) -> UOp:
    """The kernel with the wanted ENDs nested."""
    final: dict[UOp, UOp] = {}
    for node in sink.toposort():
        rebuilt = node
        if any(final[source] is not source for source in node.src):
            rebuilt = node.replace(src=tuple(final[source] for source in node.src))
        if node.op is Ops.END and wanted(node):
            rebuilt = nested_ends(rebuilt)
        final[node] = rebuilt
    return final[sink]


def nest_all(sink: UOp) -> UOp:
    """The kernel with one loop closed by each END."""
    return _nest(sink, lambda end: len(loops_of(closed_by(end))) > 1)


def merge_loops(sink: UOp) -> UOp:
    """The kernel with one END for each range that is a loop."""
    closers = closers_of(sink.toposort())
    shared = {r for r, closing in closers.items() if len(closing) > 1}
    if not shared:
        return sink
    sink = _nest(sink, lambda end: len(loops_of(closed_by(end))) > 1 and not shared.isdisjoint(end.src[1:]))
    while True:
        nodes = sink.toposort()
        closers = closers_of(nodes)
        several = [closing for closing in closers.values() if len(closing) > 1]
        if not several:
            return sink
        ends = several[0]
        (r,) = loops_of(closed_by(ends[0]))
        _check_independent(r, ends)
        bodies: dict[UOp, None] = {}
        others: dict[UOp, None] = {}
        for end in ends:
            body = end.src[0]
            bodies.update(dict.fromkeys(body.src if body.op is Ops.GROUP else (body,)))
            others.update(dict.fromkeys(end.src[1:]))
        body = next(iter(bodies)) if len(bodies) == 1 else r.table.make(Ops.GROUP, dtypes.void, tuple(bodies))
        merged = body.end(*others)
        sink = substitute(sink, dict.fromkeys(ends, merged))


def _check_independent(r: UOp, ends: list[UOp]) -> None:
    for end in ends:
        below = set(end.toposort())
        if any(other is not end and other in below for other in ends):
            raise LoweringError(
                f"range {r.arg} is closed twice, once inside what is needed for the other",
                op="END",
                remedy="separate the loops by ranges of their own",
            )
