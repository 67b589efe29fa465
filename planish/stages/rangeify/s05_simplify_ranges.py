"""Stage 5, simplify ranges: neighbouring ranges become one, and ranges lose the ends at which nothing happens.

Why: a loop costs something at every start, and one long loop is easier to vectorise and to share between cores than
several short ones.

Merging. Ranges r (of size s) and t (of size u), neighbours in an END or any two of a REDUCE, are exchanged for `m // u` and
`m % u` with one range m of size s*u. The result is kept if, once simplified, it has no more divisions and remainders than
before. They must be of one kind, closed by exactly the same ENDs and REDUCEs (a REDUCE over one of them alone would become
another sum), and no REDUCE, SCAN or BUFFERIZE may run inside one of them only (it would be computed again for every value of
the other).

Shrinking. Where nothing happens for all r >= c, the range ends at c; where nothing happens for r < c, it starts there.
"Nothing" is proved, by simplifying what is left of the body there: for an END, that no store is left; for a REDUCE, that its
operand is the identity of its op. A range that a SCAN runs along, or whose values a BUFFERIZE stores, keeps all of them. So `sum(where(r < 5, x[r], 0))` runs 5 times, and `sum(x[r] * w[r])` with a guarded
x does not shrink on floats, because a zero times w need not be zero.

Before → after::

    END(STORE(c[i*8 + j], …), i, j)          END(STORE(c[m], …), m), m = RANGE(32)         i < 4, j < 8
    REDUCE(where(r < 5, x[r], 0), r)         REDUCE(x[r'], r'), r' = RANGE(5)

Would break without it: nothing; kernels would run more and shorter loops.

Holds afterwards: no merge and no shrinking that the rules above allow is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise, permutations
from typing import Final, cast

from planish.records import dataclass
from planish.stages.rangeify.cuts import RangePart, cuts_of, parts_of, restricted
from planish.uop.kernel_algebra import by_nest, does_nothing, kernel_sym, simplified
from planish.uop.matcher import Matcher, rule
from planish.uop.nest import LOOP_VALUES, constant_size
from planish.uop.node import UOp
from planish.uop.ops import ALU, Axis, Ops
from planish.uop.pattern import node
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic.affine import Affine, affine
from planish.uop.symbolic.cost import division_count
from planish.uop.symbolic.reduce import identity

_CLOSING: Final = frozenset({Ops.END, Ops.REDUCE})
_GATES: Final = frozenset({Ops.AND, Ops.WHERE})
"""What stands around the comparisons of a gated address."""


@dataclass(slots=True)
class Tried:
    """What was tried in vain, so that it is not tried again for every change elsewhere."""

    pairs: set[tuple[UOp, UOp]] = field(default_factory=set)
    ends: set[tuple[UOp, RangePart]] = field(default_factory=set)


def _closers(nodes: list[UOp]) -> dict[UOp, list[UOp]]:
    """The ENDs and REDUCEs that close each range."""
    closers: dict[UOp, list[UOp]] = {}
    for each in nodes:
        if each.op in _CLOSING:
            for r in each.src[1:]:
                closers.setdefault(r, []).append(each)
    return closers


# -- merging -----------------------------------------------------------------------------------------------------


def _candidates(closers: dict[UOp, list[UOp]]) -> Iterator[tuple[UOp, UOp]]:
    """Pairs that could be one range, the outer first."""
    seen: dict[tuple[UOp, UOp], None] = {}
    for closing in dict.fromkeys(each for nodes in closers.values() for each in nodes):
        nest = by_nest(set(closing.src[1:]))
        pairs = pairwise(nest) if closing.op is Ops.END else permutations(nest, 2)
        seen.update(dict.fromkeys(pairs))
    for outer, inner in seen:
        if cast("Axis", outer.arg).kind is not cast("Axis", inner.arg).kind:
            continue
        if set(closers[outer]) == set(closers[inner]) and _is_plain(outer) and _is_plain(inner):
            yield outer, inner


def _is_plain(r: UOp) -> bool:
    """A range that waits for nothing, whose size is a number or a positive size known at launch."""
    return len(r.src) == 1 and not r.src[0].ranges and r.src[0].vmin >= 1


def _addresses(nodes: list[UOp], pair: set[UOp]) -> list[UOp]:
    """The largest index and bool expressions that depend on the pair: all divisions by its sizes are in them."""
    pure: set[UOp] = set()
    used: dict[UOp, None] = {}
    for each in nodes:
        is_pure = each.op in ALU and (each.dtype.is_index or each.dtype.is_bool)
        if is_pure:
            pure.add(each)
        elif each.op not in _CLOSING:
            used.update(dict.fromkeys(s for s in each.src if s in pure or s.op is Ops.RANGE))
    return [each for each in used if not each.ranges.isdisjoint(pair)]


def _splits_a_reduce(nodes: list[UOp], outer: UOp, inner: UOp) -> bool:
    """Whether something as costly as a loop runs for one of the ranges only, or a loop's length depends on one."""
    return any(
        (each.op in LOOP_VALUES and (outer in each.ranges) is not (inner in each.ranges))
        or (each.op is Ops.RANGE and each is not outer and each is not inner and not each.ranges.isdisjoint((outer, inner)))
        for each in nodes
    )  # fmt: skip


def _merge(root: UOp, ctx: Tried) -> UOp | None:
    nodes = root.toposort()
    scanned = {n.src[1] for n in nodes if n.op is Ops.SCAN}
    for outer, inner in _candidates(_closers(nodes)):
        if (outer, inner) in ctx.pairs or outer in scanned or inner in scanned:
            continue
        size = inner.src[0]
        merged = outer.replace(src=(simplified(outer.src[0] * size),))
        exchange = {outer: merged // size, inner: merged % size}
        rows = _rows_apart(nodes, outer, size)
        if not _splits_a_reduce(nodes, outer, inner) and _adds_no_division(
            nodes, outer, inner, exchange, rows
        ):
            return rewrite(substitute(substitute(root, rows), exchange), kernel_sym)
        ctx.pairs.add((outer, inner))
    return None


def _rows_apart(nodes: list[UOp], outer: UOp, size: UOp) -> dict[UOp, UOp]:
    """Rows whose length has only a name, with the range multiplied out: n*(c*h + r) as n*r + n*(c*h), so that n*r meets the column."""
    rows: dict[UOp, UOp] = {}
    for each in nodes if size.op is not Ops.CONST else ():
        if each.op is not Ops.MUL or size not in each.src or outer not in each.ranges:
            continue
        sum_ = affine(each.src[0] if each.src[1] is size else each.src[1])
        if sum_ is None or not sum_.terms.get(outer):
            continue
        others = Affine({term: f for term, f in sum_.terms.items() if term is not outer}, sum_.constant)
        if others.terms and not any(outer in term.ranges for term in others.terms):
            own = outer * sum_.terms[outer]
            rows[each] = own * size + others.build(each.const_like(0)) * size
    return rows


def _adds_no_division(
    nodes: list[UOp], outer: UOp, inner: UOp, exchange: dict[UOp, UOp], rows: dict[UOp, UOp]
) -> bool:
    """Whether the addresses have no more divisions with one range in place of two than they have now."""
    before = _addresses(nodes, {outer, inner})
    most = division_count(*before)
    if most == 0 and any(_steps_apart(address, outer, inner) for address in before):
        return False
    after: list[UOp] = []
    for address in before:
        after.append(simplified(substitute(substitute(address, rows), exchange)))
        if division_count(*after) > most:
            return False
    return True


def _steps_apart(address: UOp, outer: UOp, inner: UOp) -> bool:
    """Whether an address is sure not to go on evenly from the last value of the inner range to the next of the outer one.

    Neither does one with a gate that asks about the inner range alone: that is a remainder of the merged one.
    """
    counts = constant_size(outer), constant_size(inner)
    if counts[0] is None or counts[1] is None or min(counts[0], counts[1]) < 2:
        return False
    if address.op in _GATES:
        gates = address.toposort(lambda n: n.op in _GATES)
        return any(_asks_for(each, outer, inner) for each in gates if each.op is Ops.CMPLT)
    sum_ = affine(address)
    if sum_ is None:
        return False
    terms = sum_.terms
    if any(t is not outer and t is not inner and not t.ranges.isdisjoint((outer, inner)) for t in terms):
        return False
    return terms.get(outer, 0) != terms.get(inner, 0) * counts[1]


def _asks_for(gate: UOp, outer: UOp, inner: UOp) -> bool:
    """Whether a comparison is of sums in which the inner range stands by itself, and the outer one does not."""
    if outer in gate.ranges or inner not in gate.ranges:
        return False
    sums = [affine(each) for each in gate.src]
    return all(
        each is not None and all(term is inner or inner not in term.ranges for term in each.terms)
        for each in sums
    )


# -- shrinking ---------------------------------------------------------------------------------------------------


def _is_idle(closers: list[UOp], r: UOp, part: RangePart) -> bool:
    """Whether nothing happens while r is in this part."""
    # no axis has this path, since none has a path that begins like another's
    _, here = restricted(r, part, (*cast("Axis", r.arg).path, 0))
    for closing in closers:
        left = simplified(substitute(closing.src[0], {r: here}))
        if closing.op is Ops.END:
            if not does_nothing(left):
                return False
        else:
            nothing = identity(cast("Ops", closing.arg), closing)
            if nothing is None or left is not closing.const_like(nothing):
                return False
    return True


def _guarded(closers: list[UOp], r: UOp) -> bool:
    """Whether a range is worth looking at: its stores or reduced values are under a condition on it."""
    for closing in closers:
        body = closing.src[0]
        if closing.op is Ops.END:
            if body.op is not Ops.STORE or all(r not in gate.ranges for gate in _gates(body)):
                return False
        elif r not in body.ranges:
            return False
    return True


def _gates(store: UOp) -> list[UOp]:
    place = store.src[0]
    indices = [s for s in place.src[1:] if s.op is Ops.WHERE or s.dtype.is_bool]
    return [*indices, *store.src[2:]]


def _shrink(root: UOp, ctx: Tried) -> UOp | None:
    nodes = root.toposort()
    cuts = cuts_of(nodes)
    if not cuts:
        return None
    closers = _closers(nodes)
    whole = frozenset(
        r for n in nodes if n.op in {Ops.SCAN, Ops.BUFFERIZE} for s in n.src[1:] for r in s.ranges
    )
    for r, places in cuts.items():
        here = closers.get(r, [])
        if not here or r in whole or constant_size(r) is None or not _guarded(here, r):
            continue
        parts = parts_of(r, places)
        kept = list(parts)
        while len(kept) > 1 and _newly_idle(here, r, kept[-1], ctx):
            kept.pop()
        while len(kept) > 1 and _newly_idle(here, r, kept[0], ctx):
            kept.pop(0)
        if len(kept) < len(parts):
            _, instead = restricted(r, RangePart(kept[0].start, kept[-1].stop), cast("Axis", r.arg).path)
            return rewrite(substitute(root, {r: instead}), kernel_sym)
    return None


def _newly_idle(closers: list[UOp], r: UOp, part: RangePart, ctx: Tried) -> bool:
    if (r, part) in ctx.ends:
        return False
    if _is_idle(closers, r, part):
        return True
    ctx.ends.add((r, part))
    return False


pm_simplify_ranges: Final = Matcher(
    "pm_simplify_ranges",
    [
        rule(node(Ops.SINK), _shrink, says="sink: r < n -> r < c, where nothing happens from c on; likewise below"),
        rule(node(Ops.SINK), _merge, says="sink: r, t -> m // size(t), m % size(t), if no division is added"),
    ],
)  # fmt: skip


def simplify_ranges(sink: UOp) -> UOp:
    """Shrink ranges, then merge them."""
    return rewrite(sink, pm_simplify_ranges, Tried())
