"""Branches around what is hardly ever needed: from RARE, a select, to an IF that all lanes take or leave together.

Why: lanes cannot branch one by one, so a select computes both of its values for all of them. Where one value is costly and wanted
for few arguments (the reduction of angles beyond all bounds, the powers of zero and infinity), nearly all of that is in vain.

Before → after, in the graph (`branch_rare`, stage 19) and in the list (`fill_branches`, stage 22)::

    RARE(p, x, y)                    acc = y
                                     if any(p): acc = p ? x : y          with all that only x needs
                                     acc

The value is that of the select, whatever the lanes hold. RAREs on one condition share their branch, so that what they have in
common is computed in it once. A branch is a STORE whose gate is ANY.

A machine that predicates stores has branches, too, where data decides for all threads of a block together whether anything is stored at all
(`decided_by_data`): a block that goes through a list for the rows that are its own passes most of it by. What is read for such a store alone is read
in the branch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final, cast

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.uop.hardware_index import index_of
from planish.uop.node import UOp
from planish.uop.ops import ALU, Ops

_MOVES: Final = ALU | {Ops.CAST, Ops.BITCAST, Ops.GEP, Ops.VECTORIZE, Ops.CAT, Ops.LOOKUP}
"""What may be computed later, or not at all."""


# -- in the graph ---------------------------------------------------------------------------------------------------


def branch_rare(sink: UOp) -> UOp:
    """The kernel with an accumulator, and a gated store to it, for every RARE."""
    nodes = sink.toposort()
    if not any(node.op is Ops.RARE for node in nodes):
        return sink
    groups = _groups(nodes)
    slot = max((cast("int", node.arg) + 1 for node in nodes if node.op is Ops.DEFINE_REG), default=0)
    final: dict[UOp, UOp] = {}
    for node in _in_order(sink, groups):
        members = groups.get(node)
        if members is None:
            src = tuple([final[source] for source in node.src])
            final[node] = node if src == node.src else node.replace(src=src)
        elif node not in final:
            final.update(zip(members, _branch(members, final, slot), strict=True))
            slot += len(members)
    return final[sink]


def _groups(nodes: Sequence[UOp]) -> dict[UOp, list[UOp]]:
    """Each RARE with those it shares a branch with: of the same condition, and none of them made of another."""
    levels: dict[UOp, int] = {}  # how many RAREs there are on the longest way down
    groups: dict[tuple[UOp, int], list[UOp]] = {}
    for node in nodes:
        level = max([levels[source] for source in node.src], default=0)
        if node.op is Ops.RARE:
            groups.setdefault((node.src[0], level), []).append(node)
            level += 1
        levels[node] = level
    return {node: members for members in groups.values() for node in members}


def _in_order(sink: UOp, groups: dict[UOp, list[UOp]]) -> list[UOp]:
    """All nodes, sources first, those of a whole group before any of it."""

    def below(node: UOp) -> list[UOp]:
        members = groups.get(node)
        return list(node.src) if members is None else [source for member in members for source in member.src]

    order: list[UOp] = []
    done = {sink}
    stack = [(sink, iter(below(sink)))]
    while stack:
        node, sources = stack[-1]
        for source in sources:
            if source not in done:
                done.add(source)
                stack.append((source, iter(below(source))))
                break
        else:
            order.append(node)
            stack.pop()
    return order


def _branch(members: Sequence[UOp], final: dict[UOp, UOp], slot: int) -> list[UOp]:
    """The accumulators of a group, read after its branch."""
    table, condition = members[0].table, final[members[0].src[0]]
    gate = table.make(Ops.ANY, dtypes.bool_, (condition,))
    here = table.const(0, dtypes.int32)
    registers: list[UOp] = []
    stores: list[UOp] = []
    for number, member in enumerate(members):
        costly, cheap = final[member.src[1]], final[member.src[2]]
        dtype = member.dtype.scalar.ptr(member.dtype.lanes, AddrSpace.REG)
        register = table.make(Ops.DEFINE_REG, dtype, (), slot + number)
        start = table.make(Ops.INDEX, dtype, (register, here)).store(cheap)
        place = table.make(Ops.INDEX, dtype, (register.after(start), here))
        chosen = condition.where(costly, cheap)
        stores.append(table.make(Ops.STORE, dtypes.void, (place, chosen, gate)))
        registers.append(register)
    return [
        table.make(
            Ops.LOAD,
            member.dtype,
            (table.make(Ops.INDEX, register.dtype, (register.after(*stores), here)),),
        )
        for member, register in zip(members, registers, strict=True)
    ]


# -- in the list ----------------------------------------------------------------------------------------------------


def decided_by_data(lines: Sequence[UOp]) -> frozenset[UOp]:
    """Gates of stores that what is read decides, for all threads of a block together."""
    gates = {line.src[2] for line in lines if line.op is Ops.STORE and len(line.src) > 2}
    return frozenset(gate for gate in gates if gate.dtype.lanes == 1 and _is_of_block(gate))


def _is_of_block(gate: UOp) -> bool:
    nodes = gate.toposort()
    reads = any(n.op is Ops.LOAD for n in nodes)
    return reads and not any(n.op is Ops.SPECIAL and index_of(n).is_thread for n in nodes)


def is_rare(line: UOp, others: Collection[UOp] = ()) -> bool:
    """Whether a line is a store that hardly ever happens, or one with such another gate."""
    return line.op is Ops.STORE and len(line.src) > 2 and (line.src[2].op is Ops.ANY or line.src[2] in others)


def gather_branches(lines: Sequence[UOp]) -> list[UOp]:
    """The list with the stores of one branch next to each other: nothing between them waits for the first."""
    last: dict[UOp, UOp] = {}
    waiting: dict[UOp, list[UOp]] = {}  # by the store they are put before
    for line in reversed(lines):
        if not is_rare(line):
            # what needs a store that is still to be put elsewhere lies in between: those before it are of another branch
            for source in line.src:
                if is_rare(source):
                    last.pop(source.src[2], None)
        elif line.src[2] in last:
            waiting.setdefault(last[line.src[2]], []).append(line)
        else:
            last[line.src[2]] = line
    moved = {line for several in waiting.values() for line in several}
    result: list[UOp] = []
    for line in lines:
        if line not in moved:
            result += reversed(waiting.get(line, ()))
            result.append(line)
    return result


def fill_branches(lines: Sequence[UOp], others: Collection[UOp] = ()) -> list[UOp]:
    """The list with all that only a rare branch, or one of other conditions, needs, and that stands beside it, inside."""
    number = {line: position for position, line in enumerate(lines)}
    stores = list(accumulate(line.op is Ops.STORE for line in lines))

    def moves(line: UOp, branch: UOp) -> bool:
        """Whether a line may be computed later: of what is read, if it is for the branch alone and nothing is stored before."""
        gated = line.op is Ops.LOAD and len(line.src) > 2 and line.src[2] is branch.src[0]
        return line.op in _MOVES or (gated and stores[number[line]] == stores[number[branch]])

    around: list[UOp] = []
    place: dict[UOp, UOp | None] = {}  # line -> the innermost loop or IF that it stands in
    for line in lines:
        if line.op in {Ops.END, Ops.ENDIF}:
            around.pop()
        place[line] = around[-1] if around else None
        if line.op in {Ops.RANGE, Ops.IF}:
            around.append(line)
    home: dict[UOp, UOp | None] = {}  # the IF that all users of a line are in; None: some are not
    for line in reversed(lines):
        branch: UOp | None = home.get(line)
        inside = place[line]
        if (
            inside is not None
            and inside.op is Ops.IF
            and (inside.src[0].op is Ops.ANY or inside.src[0] in others)
        ):
            branch = inside
        elif branch is None or place[branch] is not inside or not moves(line, branch):
            branch = None
        home[line] = branch
        for source in line.src:
            home[source] = branch if home.get(source, branch) is branch else None
    result: list[UOp] = []
    inner: dict[UOp, list[UOp]] = {}
    for line in lines:
        branch = home[line]
        if branch is not None and place[line] is not branch:
            inner.setdefault(branch, []).append(line)
            continue
        result.append(line)
        if line.op is Ops.IF:
            result += inner.pop(line, ())
    return result
