"""Products that do not need each other are waited for together: a tensor core begins the second while it does the first.

Before → after, where what stands between has no effects, and the second product needs none of it::

    %s = tile a, b, 0                     %s = tile a, b, 0 pending=1
    %x = mul %s, 2                        %d = tile p, q, 0            both are done when this goes on
    %d = tile p, q, 0                     %x = mul %s, 2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planish.llir.program import Address, Compute, Instruction, Lanes, Load, Program, Tile


def waited_together(program: Program) -> Program:
    """The program whose products in the background are begun as early, and waited for as late, as one that follows."""
    if sum(isinstance(i, Tile) for i in program.body) < 2:
        return program
    body, at = list(program.body), 0
    while at < len(body):
        first = body[at]
        if isinstance(first, Tile) and not first.pending and first.tile.in_memory("b"):
            rest = _earlier(body[at + 1 :], first)
            if rest is not None:
                body[at:] = [replace(first, pending=1), *rest]
        at += 1
    return replace(program, body=tuple(body))


def _earlier(rest: Sequence[Instruction], first: Tile) -> list[Instruction] | None:
    """What follows a product, with the next one before all that it does not need; None if it cannot be so."""
    between: list[Address | Compute | Lanes | Load] = []
    for each in rest:
        if isinstance(each, Tile):
            break
        if not isinstance(each, Address | Compute | Lanes | Load):  # it has effects
            return None
        between.append(each)
    else:
        return None
    needed, wanted = list[Instruction](), set(each.operands)
    for before in reversed(between):
        if before.result in wanted:
            needed.insert(0, before)
            wanted.update(before.operands)
    if first.result in wanted or not each.tile.in_memory("b"):
        return None
    others = [i for i in between if i not in needed]
    return [*needed, each, *others, *rest[len(between) + 1 :]]
