"""Products under way: what a loop makes of one product is computed while tensor cores work on the next ones.

A tensor core that reads LOCAL memory works in the background, and its products are done in the order in which they were begun. Where a loop makes several
(`chain`: s = q @ xᵀ, d = p @ yᵀ, then sums of what is made of both), each would be waited for before anything else is done. So those that need nothing of
this iteration but operands in LOCAL memory are begun first; each is waited for where it is first looked at, and no longer than until it is done itself; sums,
which nobody looks at before the next iteration, are kept at the end of this one, behind its last product, which is waited for with all others. What is read of
GLOBAL memory is asked for one product earlier.

Before → after::

    s = tile q, x, 0; p = f(s)                     s = tile q, x, 0 pending=1; d = tile g, y, 0 pending=2
    o = tile p, v, o; store @o                     t = finish s pending=1; p = f(t)
    d = tile g, y, 0; e = h(d)                     o = tile p, v, o pending=2; u = finish d pending=1; e = h(u)
    c = tile e, w, c; store @c                     c = tile e, w, c; store @o; store @c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from planish.dtypes import AddrSpace, PtrDType
from planish.llir import program as ir
from planish.llir.makers import makers_of, needed
from planish.llir.verify import is_kept

_LEAST: Final = 2
"""Products of operands in LOCAL memory that a loop makes, so that one of them can be made beside what is computed of another."""
_IN_ORDER: Final = (
    ir.Loop, ir.EndLoop, ir.Barrier, ir.AwaitBoxes, ir.WaitCopies, ir.CommitCopies, ir.CopyAsync, ir.CopyBox, ir.Acquire,
)  # fmt: skip
"""What products are not moved across, besides stores to memory."""


def under_way(program: ir.Program) -> ir.Program:
    """The program, the products of its loops begun early and waited for late."""
    body = list(program.body)
    fresh = 1 + max((i.target.number for i in body if i.target is not None), default=0)
    for begun, ended in reversed(_innermost(body)):
        inside = _overlapped(body[begun + 1 : ended], fresh)
        if inside is not None:
            fresh += len(inside) + begun - ended + 1
            body[begun + 1 : ended] = inside
    return replace(program, body=tuple(body))


def _innermost(body: Sequence[ir.Instruction]) -> list[tuple[int, int]]:
    """The first and last instruction of each loop that no other is in."""
    loops, begun = [], -1
    for position, i in enumerate(body):
        if isinstance(i, ir.Loop):
            begun = position
        elif isinstance(i, ir.EndLoop):
            loops += [(begun, position)] if begun >= 0 else []
            begun = -1
    return loops


def _overlapped(inside: Sequence[ir.Instruction], fresh: int) -> list[ir.Instruction] | None:
    """What a loop does, in another order; None if it stays as it is. New registers have numbers from a fresh one on."""
    tiles = [i for i in inside if isinstance(i, ir.Tile) and i.tile.in_memory("b")]
    # (whoever waits for a product of the iteration before does so already)
    if not tiles or tiles[-1].pending or sum(map(_starts, tiles)) < _LEAST:
        return None
    first = next(position for position, i in enumerate(inside) if i is tiles[0])
    depths = _depths(inside)
    if any(map(_is_in_order, inside[first:])) or any(depths[inside.index(tile)] for tile in tiles):
        return None
    return _waiting(_sums_last(_asked_ahead(_begun_first(list(inside)))), fresh)


def _is_in_order(i: ir.Instruction) -> bool:
    """Whether products, and what is read of memory, may not be moved across it."""
    return isinstance(i, _IN_ORDER) or (isinstance(i, ir.Store) and not is_kept(i))


def _starts(tile: ir.Tile) -> bool:
    """Whether it is the first of a product of operands in LOCAL memory."""
    return tile.tile.in_memory("a") and isinstance(tile.c, ir.Immediate)


def _depths(inside: Sequence[ir.Instruction]) -> list[int]:
    """How many branches each instruction is in; those that open and close the outermost one, too."""
    depths, depth = [], 0
    for i in inside:
        depth += isinstance(i, ir.If)
        depths.append(depth)
        depth -= isinstance(i, ir.EndIf)
    return depths


def _begun_first(inside: list[ir.Instruction]) -> list[ir.Instruction]:
    """Products of operands in LOCAL memory, and the places these are at, right behind the first."""
    makers = makers_of(inside)
    early: set[ir.Instruction] = set()
    for product in [i for i in inside if isinstance(i, ir.Tile) and i.tile.in_memory("a")]:
        wanted = {product, *needed(product.registers, makers)}
        if all(map(_may_be_early, wanted)):
            early.update(wanted)
    start = next(position for position, i in enumerate(inside) if isinstance(i, ir.Tile))
    head, rest = inside[:start], inside[start:]
    return [*head, *(i for i in rest if i in early), *(i for i in rest if i not in early)]


def _asked_ahead(inside: list[ir.Instruction]) -> list[ir.Instruction]:
    """What is read of GLOBAL memory between two products is asked for before the first of them, and comes while that is under way."""
    reordered: list[ir.Instruction] = []
    last = 0
    """Where the last product stands."""
    depths = _depths(inside)
    for position, i in enumerate(inside):
        if isinstance(i, ir.Load) and _is_global(i) and not depths[position]:
            wanted = _made_for(i, reordered[last:])
            if wanted is not None:
                late = {id(each) for each in wanted}
                reordered[last:] = [*wanted, i, *(each for each in reordered[last:] if id(each) not in late)]
                last += len(wanted) + 1
                continue
        last = len(reordered) if isinstance(i, ir.Tile) else last
        reordered.append(i)
    return reordered


def _made_for(i: ir.Instruction, between: Sequence[ir.Instruction]) -> list[ir.Instruction] | None:
    """What an instruction needs of those before it, in order; None if that is more than the computation of a place."""
    wanted, chain = set(i.registers), list[ir.Instruction]()
    for each in reversed(between):
        if each.target in wanted:
            if not isinstance(each, ir.Address | ir.Compute):
                return None
            wanted.update(each.registers)
            chain.append(each)
    return chain[::-1]


def _is_global(load: ir.Load) -> bool:
    kind = load.address.dtype
    return isinstance(kind, PtrDType) and kind.space is AddrSpace.GLOBAL and load.gate is None


def _may_be_early(i: ir.Instruction) -> bool:
    """Whether it asks for nothing that the iteration makes of products."""
    return isinstance(i, ir.Address | ir.Compute) or (isinstance(i, ir.Tile) and i.tile.in_memory("a"))


def _sums_last(inside: list[ir.Instruction]) -> list[ir.Instruction]:
    """Sums are kept for the next iteration behind the last product, and taken apart for it."""
    last = max(position for position, i in enumerate(inside) if isinstance(i, ir.Tile))
    sums = {i.result for i in inside if isinstance(i, ir.Tile)}
    users: dict[ir.Register, list[ir.Instruction]] = {}
    for i in inside:
        for register in i.registers:
            users.setdefault(register, []).append(i)
    late: dict[int, ir.Instruction] = {}
    for i in inside[:last]:
        if isinstance(i, ir.Store) and i.value in sums and is_kept(i):
            late[id(i)] = i
        elif (
            isinstance(i, ir.SelectLanes) and i.operand in sums and all(map(is_kept, users.get(i.result, ())))
        ):
            late |= {id(each): each for each in (i, *users.get(i.result, ()))}
    head = [i for i in inside[: last + 1] if id(i) not in late]
    behind = inside[last + 1 :]
    return [*head, *late.values(), *(i for i in behind if id(i) not in late)]


def _waiting(inside: list[ir.Instruction], fresh: int) -> list[ir.Instruction]:
    """With waits where products are first looked at; the last of them waits for all."""
    depths = _depths(inside)
    last = max(position for position, i in enumerate(inside) if isinstance(i, ir.Tile))
    begun: list[ir.Register] = []
    done: dict[ir.Register, ir.Register] = {}
    rewritten: list[ir.Instruction] = []
    outside = 0
    """Where the branch begins that an instruction is in."""
    for position, i in enumerate(inside):
        if not depths[position] or (depths[position] == 1 and isinstance(i, ir.If)):
            outside = len(rewritten)
        if isinstance(i, ir.Tile):
            chained = begun[-1:] == [i.c]
            for register in () if chained else [r for r in i.registers if r in begun]:
                outside, fresh = _finished(register, begun, done, rewritten, outside, fresh)
            begun.append(i.result)
            begun = [] if position == last else begun
            rewritten.append(_renamed(replace(i, pending=len(begun)), done))
            continue
        for register in [r for r in i.registers if r in begun]:
            outside, fresh = _finished(register, begun, done, rewritten, outside, fresh)
        rewritten.append(_renamed(i, done))
    return rewritten


def _finished(
    register: ir.Register,
    begun: list[ir.Register],
    done: dict[ir.Register, ir.Register],
    rewritten: list[ir.Instruction],
    at: int,
    fresh: int,
) -> tuple[int, int]:
    """Wait for a product, and those before it."""
    number = begun.index(register) + 1
    result = done[register] = ir.Register(fresh, register.dtype)
    del begun[:number]
    rewritten.insert(at, ir.Finish(result, register, len(begun)))
    return at + 1, fresh + 1


def _renamed(i: ir.Instruction, done: dict[ir.Register, ir.Register]) -> ir.Instruction:
    return i.renamed(lambda r: done.get(r, r), lambda r: r) if any(r in done for r in i.registers) else i
