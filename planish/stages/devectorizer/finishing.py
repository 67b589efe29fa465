"""Loops that finish what threads have reduced together are run by those alone who store the result.

Each thread of a group has kept its part in LOCAL memory; the sum of all parts is stored by the first of them (stage 12 gates the store). If
nobody else looks at it, the others have no need of the sum: their loop ends before it begins, so that whole warps are done, instead of all
of them reading all parts again.

Before → after::

    h = RANGE(64); acc += parts[h]; STORE(c[i], acc)        h = RANGE(where(g == 0, 64, 0)); …        g: a thread of the group
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planish.dtypes import AddrSpace
from planish.uop.laws import space_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import substitute

_TOGETHER: Final = frozenset({Ops.COMBINE, Ops.WMMA, Ops.BARRIER, Ops.FINISH, Ops.EXCHANGE})
"""What threads do together: all have to be there."""
_LEAST: Final = 8
"""Rounds of a loop that are worth asking."""


def finished_by_few(sink: UOp, idle: Mapping[UOp, Sequence[UOp]]) -> UOp:
    """The kernel whose last loops are run by few threads; `idle`: of each store, the axes of the block of which the first thread stores."""
    nodes = sink.toposort()
    users: dict[UOp, list[UOp]] = {}
    for node in nodes:
        for source in node.src:
            users.setdefault(source, []).append(node)
    exchange = {}
    for end in nodes:
        loops = [r for r in end.src[1:] if r.op is Ops.RANGE] if end.op is Ops.END else []
        if len(loops) == 1 and _is_finishing(end, loops[0]):
            (loop,) = loops
            few = _who_looks(end, loop, users, idle)
            if few:
                gate = few[0].eq(0)
                for each in few[1:]:
                    gate = gate & each.eq(0)
                exchange[loop] = loop.replace(src=(gate.where(loop.src[0], loop.src[0].const_like(0)),))
    return substitute(sink, exchange) if exchange else sink


def _is_finishing(end: UOp, loop: UOp) -> bool:
    """Whether a loop adds up what lies in LOCAL memory, and does nothing that takes several threads."""
    if kind_of(loop) is not AxisType.REDUCE or loop.src[0].op is not Ops.CONST or loop.vmax + 1 < _LEAST:
        return False
    inside = [n for n in end.src[0].toposort() if loop in n.ranges and n.op is not Ops.RANGE]
    reads = [n for n in inside if n.op is Ops.INDEX and space_of(n) is not AddrSpace.REG]
    return (
        bool(reads)
        and all(space_of(n) is AddrSpace.LOCAL for n in reads)
        and not any(n.op in _TOGETHER or n.op is Ops.END for n in inside)
    )


def _who_looks(
    end: UOp, loop: UOp, users: Mapping[UOp, Sequence[UOp]], idle: Mapping[UOp, Sequence[UOp]]
) -> list[UOp]:
    """The axes of which the first thread alone stores what comes of a loop; none if others look at it as well."""
    seen, left = {end}, [end]
    stores: list[UOp] = []
    while left:
        for user in users.get(left.pop(), ()):
            if user in seen:
                continue
            seen.add(user)
            if user.op in _TOGETHER or user.op is Ops.RANGE:
                return []
            if user.op is Ops.STORE and space_of(user.src[0]) is AddrSpace.LOCAL:
                return []
            stores += [user] * (user.op is Ops.STORE and space_of(user.src[0]) is AddrSpace.GLOBAL)
            left.append(user)
    if any(user not in seen and user is not end for user in users.get(loop, ()) if user.op is Ops.END):
        return []
    common = [set(idle.get(store, ())) for store in stores]
    few = set.intersection(*common) if common else set()
    return sorted(few, key=lambda r: r.order)
