"""Outlining: the large branches of a kernel as functions of their own, of the same parameters.

    if a … version 1 … endif                if a  part0(parameters)  endif
    if b … version 2 … endif                if b  part1(parameters)  endif

Versions of a kernel for named sizes have nothing in common but their parameters. What a compiler does grows faster than a function:
four versions of attention take 123 ms apart and 185 ms as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from planish.llir import program as ir

_LARGE: Final = 128
"""Instructions of a branch that are worth a function."""
_PURE: Final = (ir.Special, ir.Compute, ir.Convert)
"""What every function may compute anew."""


class Outlined(NamedTuple):
    """A kernel without its large branches, and these as programs, by where they were: behind so many instructions."""

    shell: ir.Program
    parts: dict[int, ir.Program]


class _Branch(NamedTuple):
    """An If and its EndIf, by their positions."""

    begin: int
    end: int


def _branches(program: ir.Program) -> Iterator[_Branch]:
    """Those that stand in no loop and no other branch."""
    depth, begin = 0, 0
    for position, instruction in enumerate(program.body):
        if isinstance(instruction, ir.If | ir.Loop):
            if not depth:
                begin = position
            depth += 1
        elif isinstance(instruction, ir.EndIf | ir.EndLoop):
            depth -= 1
            if not depth and isinstance(instruction, ir.EndIf):
                yield _Branch(begin, position)


def outlined(program: ir.Program) -> Outlined:
    """A kernel with each of its large branches in a function of its own; as it is where they share more than parameters."""
    if sum(type(i) is ir.If for i in program.body) < 2:
        return Outlined(program, {})
    large = [branch for branch in _branches(program) if branch.end - branch.begin > _LARGE]
    if len(large) < 2 or program.tiles:
        return Outlined(program, {})
    body: list[ir.Instruction] = []
    parts: dict[int, ir.Program] = {}
    owner: dict[ir.Buffer, int] = {}
    last = 0
    for number, branch in enumerate(large):
        body += program.body[last : branch.begin + 1]
        inside = program.body[branch.begin + 1 : branch.end]
        before = [i for i in body if not isinstance(i, ir.If | ir.EndIf)]
        used = _memory_of(program, inside)
        if not all(isinstance(i, _PURE) for i in before) or any(buffer in owner for buffer in used):
            return Outlined(program, {})
        owner |= dict.fromkeys(used, number)
        parts[len(body)] = replace(
            program, name=f"{program.name}.{number}", locals=tuple(used), body=(*before, *inside)
        )
        last = branch.end
    body += program.body[last:]
    if any(buffer in owner for buffer in _memory_of(program, body)):
        return Outlined(program, {})
    own = tuple(buffer for buffer in program.locals if buffer not in owner)
    return Outlined(replace(program, locals=own, body=tuple(body)), parts)


def _memory_of(
    program: ir.Program, instructions: tuple[ir.Instruction, ...] | list[ir.Instruction]
) -> list[ir.Buffer]:
    """The memory of a kernel's own that instructions name, in order."""
    named = {i.base for i in instructions if isinstance(i, ir.Address) and isinstance(i.base, ir.Buffer)}
    return [buffer for buffer in program.locals if buffer in named]
