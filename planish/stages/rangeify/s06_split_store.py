"""Stage 6, split store (CPU): a loop with a condition on its counter becomes a loop per part, without the condition.

Why: concatenation and padding choose by position. `where(i < 50, a[i], b[i - 50])` keeps a loop from being vectorised;
two loops, one over a and one over b, are two plain copies. GPUs leave this stage out: there a thread has one position.

How: a range is cut at what its conditions compare it with (`cuts.py`), numbers or sizes that have names. Every part gets ranges of its own (one
RANGE, one END), is simplified knowing its bounds, and keeps whatever its condition guards: a part in which nothing is
stored is no loop at all. Without their conditions the ranges of a part may be one (stage 5). Two limits:

* No work is done twice. A REDUCE or BUFFERIZE that several parts would need, because it does not depend on the range, forbids
  the cut; and so does a SCAN, whose second part would have to know the end of the first.
* Around the parts of an inner range the outer ranges run again, and the cache lines at the seams are visited more than
  once. So an inner range is only cut into parts that are at least a cache line of float32 long, unless it is a long one. (A range
  stays an inner one where the part around it has but one iteration left.)
* A rim is one loop: neighbouring parts that are short beside the whole keep their conditions. Windows of five columns would otherwise
  be five loops along each axis, all but one of them for a row or two.

Before → after::

    END(STORE(c[i], where(i < 50, a[i], b[i - 50])), i)          i < 100
        GROUP(END(STORE(c[j], a[j]), j), END(STORE(c[k + 50], b[k]), k))         j < 50, k < 50

    END(STORE(c[i if i < 50], a[i]), i)                          END(STORE(c[j], a[j]), j)

Would break without it: nothing; the loops would test a condition that is known for long stretches.

Holds afterwards: no range can be cut within the limits; every part has its own ranges.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, cast

from planish import dtypes
from planish.records import dataclass
from planish.stages.rangeify.cuts import RangePart, cuts_of, parts_of, restricted
from planish.stages.rangeify.s05_simplify_ranges import simplify_ranges
from planish.uop.kernel_algebra import by_nest, does_nothing, kernel_sym, simplified
from planish.uop.matcher import Matcher, rule
from planish.uop.nest import trips
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, NUMBERED, Axis, AxisType, Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite, substitute

MOST_PARTS: Final = 32
"""Loops that one store may become: code must not grow with the number of conditions."""
SHORTEST_INNER_PART: Final = 16
LONG_BESIDE_SHORT: Final = 256
"""Elements of an inner range for each part that is shorter than a line: visiting its lines once more is little beside the conditions
that all the others are spared."""
RIM: Final = 8
"""What part of a range its rim may be: so little of the work may go on asking."""
_LOOPS: Final = frozenset({Ops.REDUCE, Ops.BUFFERIZE})


@dataclass(slots=True)
class Parts:
    """How many more loops a kernel may get, and what stays as it is."""

    left: int
    outermost: frozenset[int]
    """The axes of the outermost loops, as the kernel came."""
    rims: set[UOp] = field(default_factory=set)
    """Ranges of several parts each."""


def _own_ranges(effect: UOp) -> list[UOp]:
    """The ranges that are opened and closed below an effect."""
    closed = {
        r
        for each in effect.toposort()
        if each.op in FIRST_RANGE
        for r in each.src[FIRST_RANGE[each.op] :]
        if r.op is Ops.RANGE
    }
    return by_nest(closed)


def _own_names(effect: UOp, number: int) -> dict[UOp, UOp]:
    """For the ranges of loops, those of the part of this number."""
    return {r: r.replace(arg=cast("Axis", r.arg).part(NUMBERED + number)) for r in _own_ranges(effect)}


def _repeats_a_reduce(bodies: list[UOp]) -> bool:
    """Whether several parts would compute the same REDUCE, or fill the same row. (Those that depend on the range differ.)"""
    seen: set[UOp] = set()
    for body in bodies:
        reduces = {each for each in body.toposort() if each.op in _LOOPS}
        if reduces & seen:
            return True
        seen |= reduces
    return False


def _with_rims(r: UOp, parts: list[RangePart]) -> list[RangePart]:
    """The parts, where short neighbours are one."""
    joined: list[RangePart] = []
    for part in parts:
        both = RangePart(joined[-1].start, part.stop) if joined else part
        is_rim = joined and both.size.vmax < SHORTEST_INNER_PART and both.size.vmax * RIM <= trips(r)
        joined = [*joined[:-1], both] if is_rim else [*joined, part]
    return joined


def _cut(root: UOp, r: UOp, cuts: list[UOp], ctx: Parts) -> list[UOp] | None:
    """The loops for the parts of r."""
    parts = parts_of(r, cuts)
    short = sum(part.size.vmax < SHORTEST_INNER_PART for part in parts)
    if cast("Axis", r.arg).path[0] not in ctx.outermost and short * LONG_BESIDE_SHORT > trips(r):
        return None
    kept = _with_rims(r, parts)
    bodies, news = [], []
    for part in kept:
        new, here = restricted(r, part, cast("Axis", r.arg).path)
        news.append(new)
        bodies.append(simplified(substitute(root.src[0], {r: here})))
    if _repeats_a_reduce(bodies):
        return None
    others = [other for other in root.src[1:] if other is not r]
    loops = []
    for number, (part, body, new) in enumerate(zip(kept, bodies, news, strict=True)):
        if not does_nothing(body):
            loop = simplified(body.end(*by_nest({*others, new})))
            own = _own_names(loop, number)
            loops.append(substitute(loop, own))
            if part not in parts:
                ctx.rims.add(own.get(new, new))
    return loops


def _split(root: UOp, ctx: Parts) -> UOp | None:
    nodes = root.src[0].toposort()
    if any(r.op is not Ops.RANGE for r in root.src[1:]) or any(n.op is Ops.SCAN for n in nodes):
        return None
    cuts = cuts_of(nodes)
    nest = by_nest(set(root.src[1:]))
    for r in nest:
        places = cuts.get(r)
        if places is None or r in ctx.rims or cast("Axis", r.arg).kind is not AxisType.LOOP:
            continue
        if len(places) > ctx.left:
            continue
        loops = _cut(root, r, places, ctx)
        if loops is not None:
            ctx.left -= len(places)
            return root.table.make(Ops.GROUP, dtypes.void, tuple(loops))
    return None


pm_split_store: Final = Matcher(
    "pm_split_store",
    [
        rule(
            node(Ops.END, node(Ops.STORE), rest=True),
            _split,
            says="end(store(…), r) -> group(end(store(…), r below c), end(store(…), r from c on))",
        )
    ],
)


def split_store(sink: UOp, parts: int = MOST_PARTS) -> UOp:
    """Cut the ranges of stores at conditions; every part stands under the SINK."""
    outermost = (by_nest(set(n.src[1:])) for n in sink.toposort() if n.op is Ops.END)
    axes = frozenset(cast("Axis", nest[0].arg).path[0] for nest in outermost if nest[0].op is Ops.RANGE)
    cut = rewrite(sink, pm_split_store, Parts(parts, axes))
    return sink if cut is sink else simplify_ranges(rewrite(cut, kernel_sym))
