"""The gate of an access to some lanes of a wide vector: none, one for all of them, or one for each.

A tile of rows and columns has one gate of all its lanes, `row < height & column < width`. An access to one row wants little of that: what
does not change along its lanes is a scalar, which belongs to the loop over rows, and the rest is one comparison of a vector, which all rows
share. Selecting the lanes of the wide gate would compute each pair for itself, and take mask registers apart::

    gep(⟨r0 r0 … r1 r1 …⟩ < h & ⟨c0 c1 … c0 c1 …⟩ < w, lanes of r1)        ⟨p p …⟩ & (⟨c c …⟩ + ⟨0 1 …⟩) < ⟨w w …⟩,  p = r1 < h
"""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.stages.devectorizer.lane_forms import ELEMENTWISE, Forms, of_scalars
from planish.uop.node import UOp
from planish.uop.ops import Ops
from planish.uop.symbolic.affine import Affine
from planish.uop.symbolic.lanes import selected


def gate_of(
    gate: UOp | None,
    gates: Sequence[UOp | None],
    lanes: Sequence[int | None],
    forms: Forms,
    *,
    gaps: bool = True,
) -> UOp | None:
    """The gate of an access to these lanes. What is no lane (a gap) is never loaded, unless one gate is that of all, and `gaps` may be."""
    wanted = [gates[lane] for lane in lanes if lane is not None]
    some = next((each for each in gates if each is not None), None)
    if some is None or (gaps and not any(each is not None for each in wanted)):
        return None
    opened, closed = (some.table.const(value, dtypes.bool_) for value in (True, False))
    each = [opened if one is None else one for one in wanted]
    distinct = len(set(each))
    if distinct == 1 and gaps:
        return None if each[0] is opened else each[0]
    if gate is None or distinct * 2 <= len(each):  # whole pieces may turn out to have one gate
        remaining = iter(each)
        spread = tuple(closed if lane is None else next(remaining) for lane in lanes)
        return opened.table.make(Ops.VECTORIZE, dtypes.bool_.vec(len(lanes)), spread)
    factored = _factored(gate, lanes, forms)
    return _selected(gate, lanes, closed) if factored is None else factored


def _selected(gate: UOp, lanes: Sequence[int | None], closed: UOp) -> UOp:
    """The lanes of the gate as it stands."""
    if None not in lanes:
        return selected(gate, tuple(lane for lane in lanes if lane is not None))
    count = gate.dtype.lanes
    both = gate.table.make(Ops.CAT, dtypes.bool_.vec(count + 1), (gate, closed))
    return both.gep(*(count if lane is None else lane for lane in lanes))


def _factored(gate: UOp, lanes: Sequence[int | None], forms: Forms) -> UOp | None:
    """The conditions of these lanes: those that all have in common once, the others as vectors; None if their lanes are not alike."""
    count = len(lanes)
    if gate.dtype.lanes == count and None not in lanes:
        return None
    near: list[int] = []
    last = next(lane for lane in lanes if lane is not None)
    for lane in lanes:  # (a gap takes its neighbour's: it is closed below)
        last = last if lane is None else lane
        near.append(last)
    each = [_conditions(forms.lane(gate, lane)) for lane in near]
    if any(len(conditions) != len(each[0]) for conditions in each):
        return None
    common: dict[UOp, None] = {}
    apart: dict[UOp, None] = {}
    for column in zip(*each, strict=True):
        simple = [forms.simple(condition) for condition in column]
        if all(condition is simple[0] for condition in simple):
            common[simple[0]] = None
            continue
        vector = _vector(list(column))
        if vector is None:
            return None
        apart[vector] = None
    if None in lanes:
        apart[gate.table.lanes([lane is not None for lane in lanes], dtypes.bool_)] = None
    scalar = _all([c for c in common if c.op is not Ops.CONST or not c.arg])
    vector = _all(list(apart))
    if scalar is None or vector is None:
        return vector
    return vector & vector.table.make(Ops.VECTORIZE, vector.dtype, (scalar,) * count)


def _conditions(gate: UOp) -> list[UOp]:
    """What all has to hold."""
    if gate.op is not Ops.AND:
        return [gate]
    return [condition for source in gate.src for condition in _conditions(source)]


def _all(conditions: list[UOp]) -> UOp | None:
    conjunction = None
    for condition in conditions:
        conjunction = condition if conjunction is None else conjunction & condition
    return conjunction


def _vector(lanes: list[UOp]) -> UOp | None:
    """Scalars as one operation on vectors: equal ones spread, sums that differ by constants, or one op of such."""
    first, count = lanes[0], len(lanes)
    make, dtype = first.table.make, first.dtype.vec(count)
    if all(lane is first for lane in lanes):
        return make(Ops.VECTORIZE, dtype, (first,) * count)
    if first.dtype.is_index:
        form = of_scalars(lanes)
        if form.terms:
            return None
        constants = first.table.lanes(form.constants, first.dtype)
        if not form.common:
            return constants
        base = Affine(form.common, 0).build(first.const_like(0))
        return make(Ops.VECTORIZE, dtype, (base,) * count) + constants
    if first.op not in ELEMENTWISE or any(lane.op is not first.op or lane.arg != first.arg for lane in lanes):
        return None
    sources = [_vector(list(column)) for column in zip(*(lane.src for lane in lanes), strict=True)]
    known = [source for source in sources if source is not None]
    return make(first.op, dtype, tuple(known), first.arg) if len(known) == len(sources) else None
