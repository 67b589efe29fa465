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

from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from planish.llir.makers import makers_of, needed
from planish.llir.program import EndIf, If, Instruction, Load, Loop, Program, Register, Special, Store
from planish.llir.warps import PURE, inner_loops, terms_of, unlike

_FREE: Final = (*PURE, Store, If, EndIf)
"""What such a loop consists of."""


class Vote(NamedTuple):
    """Of a loop: the gate that all of its stores stand behind, and what computes it of the counter."""

    gate: Register
    made_by: tuple[Instruction, ...]


def votes_of(program: Program, aliased: Container[str] = ()) -> dict[Register, Vote]:
    """The loops of a kernel whose iterations can be voted on, by their counters; `aliased`: parameters that may share memory."""
    body, makers = program.body, makers_of(program.body)
    apart, chosen = unlike(program, aliased), _by_block(program)
    votes: dict[Register, Vote] = {}
    for at, end in inner_loops(program, apart):
        loop, inside = body[at], body[at + 1 : end]
        if isinstance(loop, Loop) and all(isinstance(each, _FREE) for each in inside):
            vote = _vote(loop.counter, inside, makers, chosen - apart)
            if vote is not None:
                votes[loop.counter] = vote
    return votes


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
    here = makers_of(inside)
    votes: list[Vote] = []
    for gate in (common or frozenset()) & agreed:
        made_by = needed([gate], here)
        reads = {each for i in made_by for each in i.registers}
        if counter in reads and any(isinstance(i, Load) for i in made_by):
            votes.append(Vote(gate, tuple(i for i in inside if i in made_by)))
    return max(votes, key=lambda vote: (len(vote.made_by), vote.gate.number), default=None)


def _by_block(program: Program) -> frozenset[Register]:
    """Registers that follow from the number of the block: gates of these hold for few entries, not for nearly all."""
    dependent: set[Register] = set()
    for i in program.body:
        if i.target is not None:
            is_number = isinstance(i, Special) and not i.is_thread
            if is_number or not dependent.isdisjoint(i.registers):
                dependent.add(i.target)
    return frozenset(dependent)
