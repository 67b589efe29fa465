"""Loops that the first thread of a warp goes through for all of them: any thread may take its place for an entry.

Who counts, or adds up single elements at places that data chooses, has nothing to share among threads but the list (`claim` with voters). All that an
iteration does is to read the list, and then one element, change it and store it back. So every thread of the warp may be the first one
for an entry of its own; where entries have the same place, they take turns, in the order of the list. What the loop means does not change
(`codegen/cuda_votes.py` writes it).

    loop r < 512:                                      for 32 entries at a time, r + lane:
      store y[list[r]], y[list[r]] + x[r]  if t < 1      turn = how many lanes below have the same place
    end                                                  for k = 0, 1, …: those whose turn is k store y[list[r]], y[list[r]] + x[r]
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from planish.dtypes import AddrSpace
from planish.llir.makers import makers_of, needed, owners_of
from planish.llir.program import (
    Buffer,
    Compute,
    Convert,
    Immediate,
    Instruction,
    Load,
    Ops,
    Program,
    Register,
    Special,
    Store,
)
from planish.llir.warps import PURE, inner_loops, terms_of, unlike

_WARP: Final = 32


class Lead(NamedTuple):
    """Of a loop that one thread goes through: where its body ends, and what is done when."""

    end: int
    """The place of its EndLoop."""
    thread: Register
    """The number of the thread: 0 for whoever stands for the first."""
    first: tuple[Instruction, ...]
    """What follows from that, before the loop."""
    voted: tuple[Instruction, ...]
    """What decides whether an entry stores anything."""
    free: tuple[Instruction, ...]
    """What all threads compute side by side."""
    turn: tuple[Instruction, ...]
    """What those with the same place do one after the other: read the element, change it, store it."""
    store: Store
    gate: Register


def leads_of(program: Program, aliased: Container[str] = ()) -> dict[int, Lead]:
    """The loops of a kernel that any thread of its one warp may go through, by their places; `aliased`: parameters that may share memory."""
    threads = [i for i in program.specials if i.is_thread and _number(i.bound) != 1]
    if len(threads) != 1 or _number(threads[0].bound) != _WARP:
        return {}
    leads: dict[int, Lead] = {}
    for at, end in inner_loops(program, unlike(program, aliased)):
        lead = _lead(program, at, end, threads[0], aliased)
        if lead is not None:
            leads[at] = lead
    return leads


def _number(bound: object) -> object:
    return bound.value if isinstance(bound, Immediate) else None


def _lead(program: Program, at: int, end: int, special: Special, aliased: Container[str]) -> Lead | None:
    body, thread = program.body, special.result
    inside = body[at + 1 : end]
    stores = [i for i in inside if isinstance(i, Store)]
    if len(stores) != 1 or not all(isinstance(i, (*PURE, Store)) for i in inside):
        return None
    (store,) = stores
    gate, makers = store.gate, makers_of(program.body)
    if (
        not isinstance(gate, Register)
        or store.value.dtype.lanes > 1
        or store.address.dtype.lanes > 1
        or gate.dtype.lanes > 1
    ):
        return None
    if not any(_is_first(makers.get(term), thread) for term in terms_of(gate, makers)):
        return None
    turn = _turn(inside, store, owners_of(program), _written(program), aliased)
    if turn is None or any(i.target in {gate, store.address} for i in turn):
        return None
    first = _before(body[:at], inside, thread, unlike(program, aliased))
    if first is None:
        return None
    voted = needed([gate], makers_of(inside))
    return Lead(
        end,
        thread,
        first,
        tuple(i for i in inside if i in voted),
        tuple(i for i in inside if i not in turn),
        turn,
        store,
        gate,
    )


def _is_first(maker: Instruction | None, thread: Register) -> bool:
    """Whether a condition holds for the first thread alone."""
    if not isinstance(maker, Compute) or maker.op not in {Ops.CMPLT, Ops.CMPEQ} or maker.inputs[0] != thread:
        return False
    return _number(maker.inputs[1]) == (1 if maker.op is Ops.CMPLT else 0)


def _written(program: Program) -> frozenset[Buffer | None]:
    owners = owners_of(program)
    return frozenset(owners.get(i.address) for i in program.body if isinstance(i, Store))


def _turn(
    inside: Sequence[Instruction],
    store: Store,
    owners: Mapping[Register, Buffer],
    written: Container[Buffer | None],
    aliased: Container[str],
) -> tuple[Instruction, ...] | None:
    """The element that is changed, what is made of it, and the store; None if anything else is read that may change."""
    memory = owners.get(store.address)
    if memory is None or memory.space is not AddrSpace.GLOBAL or memory.name in aliased:
        return None
    waiting: set[Register] = set()
    turn: list[Instruction] = []
    for i in inside:
        is_element = isinstance(i, Load) and owners.get(i.address) is memory
        if isinstance(i, Load) and not is_element:
            other = owners.get(i.address)
            if (
                other is None
                or other in written
                or other.space is not AddrSpace.GLOBAL
                or other.name in aliased
            ):
                return None
        if isinstance(i, Load) and is_element and i.address != store.address:
            return None
        if is_element or i is store or not waiting.isdisjoint(i.registers):
            turn.append(i)
            if i.target is not None:
                waiting.add(i.target)
    return tuple(turn)


def _before(
    body: Sequence[Instruction],
    inside: Sequence[Instruction],
    thread: Register,
    differ: Container[Register],
) -> tuple[Instruction, ...] | None:
    """What the loop uses that follows from the number of a thread; None if threads differ in anything else that it uses."""
    here = {i.target for i in inside}
    used = {each for i in inside for each in i.registers if each not in here and each in differ}
    before = needed(used - {thread}, makers_of(body), {thread})
    first = tuple(i for i in body if i in before)
    return first if all(isinstance(i, Compute | Convert) for i in first) else None
