"""What actions on an axis that a SCAN runs along have in common: when they are legal, and how the axis is cut."""

from __future__ import annotations

from typing import cast

from planish.actions.base import OneAxis
from planish.actions.passes import start_of
from planish.uop.kernel_algebra import pm_flatten_range
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import rewrite


def scans_along(action: OneAxis, facts: Nest, r: UOp, remedy: str) -> list[UOp]:
    """The SCANs that run along an axis; refused if there are none, or more than their order matters."""
    scans = [node for node in facts.nodes if node.op is Ops.SCAN and r in node.src[1:]]
    if not scans:
        raise action.no("no SCAN runs along the axis", remedy=remedy)
    if r in facts.otherwise:
        raise action.no(f"the order of the axis matters: {facts.otherwise[r]}")
    for scan in scans:
        start_of(action, scan)
    if any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
        raise action.no("the axis is reduced or kept as well")
    action.check_reuse(facts, r)
    action.check_bounds(facts, r)
    return scans


def cut_scans(sink: UOp, r: UOp, amount: int, rest: UOp | None, kind: AxisType) -> UOp:
    """The kernel with a part of a scanned axis of another kind, which its SCANs run along too; `rest` is how many times (None: once)."""
    table, axis = r.table, cast("Axis", r.arg)
    part = table.range(amount, axis.part(1, kind))
    other = r.const_like(0) if rest is None else table.range(rest, axis.part(0))
    final: dict[UOp, UOp] = {r: part if rest is None else other * amount + part}
    for node in sink.toposort():
        if node in final:
            continue
        src = tuple([final[source] for source in node.src])
        if node.op is Ops.SCAN and node.src[1] is r:
            src = (src[0], other, part, *src[2:])
        final[node] = node if src == node.src else node.replace(src=src)
    return rewrite(final[sink], pm_flatten_range)
