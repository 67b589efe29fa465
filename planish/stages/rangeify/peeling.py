"""The action PEEL of stage 7: the last elements of an output axis get a loop of their own, after that over the others.

Why: 49 columns are three vectors and one column. In whole vectors they would be four, and a quarter of the work would be for
nothing; each part by itself gets the schedule that fits it (the last column has its lanes along what is summed up).

Before → after::

    END(STORE(c[i, j], REDUCE(f(i, j, k), k)), i, j)         j < 49
        END(STORE(c[i, j], REDUCE(f(i, j, k), k)), i, j),  END(STORE(c[i, l + 48], REDUCE(f(i, l + 48, m), m)), i, l)     j < 48, l < 1

Loops outside of the axis are shared by both parts, those inside of it, and what is reduced, are each part's own. Nothing is computed
twice: what does not depend on the axis and is a loop by itself forbids the cut.
"""

from __future__ import annotations

from typing import cast

from planish.stages.expander.loops import SEQUENTIAL, closed_by
from planish.stages.rangeify.cuts import constant_size, parts_of, restricted
from planish.stages.rangeify.legality import Facts
from planish.stages.rangeify.refusal import Refusal
from planish.uop.node import UOp
from planish.uop.ops import FIRST_RANGE, Axis, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute


def peel(sink: UOp, r: UOp, start: int) -> UOp:
    """The kernel with two loops over an axis, the second from an element on."""
    facts, size = Facts(sink), constant_size(r)
    if size is None or not 0 < start < size:
        raise Refusal(f"PEEL: {start} is no element inside of an axis of {r.vmax + 1}")
    ends = [end for end in facts.outer_ends if r in closed_by(end)]
    if set(facts.closers[r]) != set(ends) or any(end.op is not Ops.END for end in ends):
        raise Refusal("PEEL: the axis is reduced or kept: there is more than what is stored of it")
    if r in facts.ordered or facts.is_bound(r) or any(n.op is Ops.AFTER for n in facts.nodes):
        raise Refusal("PEEL: the order of the axis matters")
    if any(n.op in {Ops.REDUCE, Ops.BUFFERIZE, Ops.SCAN} and r not in n.ranges for n in facts.nodes):
        raise Refusal("PEEL: what does not depend on the axis would be computed for both parts")
    loops: list[UOp] = []
    for end in reversed(facts.outer_ends):
        loops += [_part(end, r, number, start) for number in (0, 1)] if end in ends else [end]
    return sink.replace(src=tuple(loops))


def _part(end: UOp, r: UOp, number: int, start: int) -> UOp:
    """One part of a loop nest, with its own inner loops."""
    part = parts_of(r, [start])[number]
    new, here = restricted(r, part, (*cast("Axis", r.arg).path, number))
    inner = {
        s
        for node in end.toposort()
        if node.op in FIRST_RANGE
        for s in closed_by(node)
        if s is not r and kind_of(s) in SEQUENTIAL and (node is not end or s.order > r.order)
    }
    own = {s: s.replace(arg=_named(s, number)) for s in inner}
    body, *ranges = end.src
    body = substitute(body, {r: here, **own})
    return end.replace(src=(body, *(new if s is r else own.get(s, s) for s in ranges)))


def _named(r: UOp, number: int) -> Axis:
    return cast("Axis", r.arg).part(number)
