"""Loops of which most iterations do nothing: data decides which do, and it says the same to all threads of a warp.

Who adds up rows that data chooses goes through a long list for the few rows of its own (`claim`). All that such a loop stores stands
behind a gate that is computed of the list alone. So the threads of a warp may look at an entry each, vote, and go on with the
entries that were voted for, in their order (`codegen/cuda_votes.py`); what the loop means does not change.

    loop r < 8192:                                     for 32 entries at a time:
      g = list[r] % 128 == block                         votes = ballot(list[r + lane] % 128 == block)
      store y[list[r]], … if g                           for each vote: store y[list[r]], …
    end
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from planish.dtypes import AddrSpace
from planish.llir.program import (
    Address,
    AnyLane,
    Bitcast,
    Buffer,
    Build,
    Compute,
    Concat,
    Convert,
    EndIf,
    EndLoop,
    If,
    Instruction,
    Load,
    Loop,
    Ops,
    Program,
    Register,
    SelectLanes,
    Special,
    Store,
)

PURE: Final = (Address, AnyLane, Bitcast, Build, Compute, Concat, Convert, SelectLanes, Load)
"""What may be left out where nobody needs it."""
_FREE: Final = (*PURE, Store, If, EndIf)
"""What such a loop consists of."""


class Vote(NamedTuple):
    """Of a loop: the gate that all of its stores stand behind, and what computes it of the counter."""

    gate: Register
    made_by: tuple[Instruction, ...]


def votes_of(program: Program, aliased: Container[str] = ()) -> dict[Register, Vote]:
    """The loops of a kernel whose iterations can be voted on, by their counters; `aliased`: parameters that may share memory."""
    body = program.body
    makers = makers_of(program)
    apart, chosen = unlike(program, aliased), _by_block(program)
    found: dict[Register, Vote] = {}
    alone = 0
    """Open branches and loops that only some threads of a warp may be in."""
    for at, i in enumerate(body):
        alone += isinstance(i, If) - isinstance(i, EndIf)
        alone += isinstance(i, Loop) and i.counter in apart
        alone -= isinstance(i, EndLoop) and i.counter in apart
        if isinstance(i, Loop) and not alone:
            end = next(k for k in range(at + 1, len(body)) if isinstance(body[k], Loop | EndLoop))
            inside = body[at + 1 : end]
            if isinstance(body[end], EndLoop) and all(isinstance(each, _FREE) for each in inside):
                vote = _vote(i.counter, inside, makers, chosen - apart)
                if vote is not None:
                    found[i.counter] = vote
    return found


def _vote(
    counter: Register,
    inside: Sequence[Instruction],
    makers: Mapping[Register, Instruction],
    agreed: frozenset[Register],
) -> Vote | None:
    """What the stores of a loop have in common, if it is read from memory for each iteration, and agreed on."""
    common: frozenset[Register] | None = None
    branches: list[frozenset[Register]] = []
    for i in inside:
        if isinstance(i, If):
            branches.append(terms_of(i.condition, makers))
        elif isinstance(i, EndIf):
            branches.pop()
        elif isinstance(i, Store):
            gates = frozenset().union(*branches, terms_of(i.gate, makers))
            common = gates if common is None else common & gates
    here = {i.target: i for i in inside if i.target is not None}
    found: list[Vote] = []
    for gate in (common or frozenset()) & agreed:
        made_by = [*_made_by(gate, here)]
        reads = {each for i in made_by for each in i.registers}
        if counter in reads and any(isinstance(i, Load) for i in made_by):
            found.append(Vote(gate, tuple(i for i in inside if i in made_by)))
    return max(found, key=lambda vote: (len(vote.made_by), vote.gate.number), default=None)


def terms_of(gate: object, makers: Mapping[Register, Instruction]) -> frozenset[Register]:
    """A gate, and all that has to hold for it to hold."""
    if not isinstance(gate, Register) or gate.dtype.lanes > 1:
        return frozenset()
    made = makers.get(gate)
    if isinstance(made, Compute) and made.op is Ops.AND:
        return frozenset({gate}).union(*(terms_of(each, makers) for each in made.inputs))
    return frozenset({gate})


def _made_by(gate: Register, here: Mapping[Register, Instruction]) -> Iterator[Instruction]:
    """The instructions of a loop that a register is computed by."""
    stack, seen = [gate], {gate}
    while stack:
        made = here.get(stack.pop())
        if made is not None:
            yield made
            new = [each for each in made.registers if each not in seen]
            seen.update(new)
            stack.extend(new)


def _by_block(program: Program) -> frozenset[Register]:
    """Registers that follow from the number of the block: gates of these hold for few entries, not for nearly all."""
    found: set[Register] = set()
    for i in program.body:
        if i.target is not None:
            is_number = isinstance(i, Special) and not i.is_thread
            if is_number or not found.isdisjoint(i.registers):
                found.add(i.target)
    return frozenset(found)


def makers_of(program: Program) -> dict[Register, Instruction]:
    """The instruction that assigns each register."""
    return {i.target: i for i in program.body if i.target is not None}


def owners_of(program: Program) -> dict[Register, Buffer]:
    """The memory that addresses lie in."""
    owners: dict[Register, Buffer] = {}
    for i in program.body:
        if isinstance(i, Address):
            owner = i.base if isinstance(i.base, Buffer) else owners.get(i.base)
            if owner is not None:
                owners[i.result] = owner
    return owners


def unlike(program: Program, aliased: Container[str]) -> frozenset[Register]:
    """Registers that may differ between the threads of a warp: what follows from their numbers, or from memory that the kernel writes."""
    owners = owners_of(program)
    written = {owners.get(i.address) for i in program.body if isinstance(i, Store)}
    found: set[Register] = set()
    for i in program.body:
        if i.target is None:
            continue
        is_same = isinstance(i, (*PURE, Loop)) or (isinstance(i, Special) and not i.is_thread)
        if isinstance(i, Load):
            memory = owners.get(i.address)
            is_same = (
                memory is not None
                and memory.space is AddrSpace.GLOBAL
                and memory not in written
                and memory.name not in aliased
            )
        if not is_same or not found.isdisjoint(i.registers):
            found.add(i.target)
    return frozenset(found)
