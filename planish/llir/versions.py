"""Versions of a kernel in one program: which of them runs, the sizes of a launch say.

    version 1 for n in 1..4, the kernel itself for all else

    if n < 5 … version 1 … endif
    if n >= 5 … the kernel itself … endif

All have the same parameters and take the same integers. The grid is that of the version with most pieces: the pieces that another one
lacks do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from planish.dtypes import DType
from planish.errors import InternalError
from planish.llir.builder import Builder
from planish.llir.inlining import Inlining
from planish.llir.program import Buffer, Immediate, Ops, Program, Register, Special
from planish.uop.hardware_index import HardwareIndex


class SizedProgram(NamedTuple):
    """A kernel for some sizes: the least and the largest of each name that it takes."""

    bounds: Mapping[str, tuple[int, int]]
    program: Program


def with_versions(general: Program, versions: Sequence[SizedProgram]) -> Program:
    """One program of a kernel and its versions, the first of which that takes the sizes of a launch runs."""
    if not versions:
        return general
    b = Builder(general.name)
    programs = [*(version.program for version in versions), general]
    params = _params(b, programs)
    sizes = _variables(b, programs)
    grid = _grid(b, programs)
    left: list[Register] = []
    known = {each.name: (each.low, each.high) for program in programs for each in program.variables}
    for bounds, program in versions:
        fits = _all(
            b, [each for name, ends in bounds.items() for each in _within(b, sizes[name], ends, known[name])]
        )
        _write(b, program, params, sizes, grid, [*left, fits])
        left.append(b.compute(Ops.XOR, fits, True))
    _write(b, general, params, sizes, grid, left)
    return b.program()


def _within(b: Builder, size: Register, ends: tuple[int, int], known: tuple[int, int]) -> Iterator[Register]:
    """What says that a size is one of a version's, as far as that is not known of all."""
    if ends[1] < known[1]:
        yield b.less(size, ends[1] + 1)
    if ends[0] > known[0]:
        yield b.compute(Ops.XOR, b.less(size, ends[0]), True)


def _all(b: Builder, conditions: Sequence[Register]) -> Register:
    conjunction = conditions[0]
    for each in conditions[1:]:
        conjunction = b.compute(Ops.AND, conjunction, each)
    return conjunction


def _params(b: Builder, programs: Sequence[Program]) -> dict[str, Buffer]:
    """The parameters of all, each once."""
    by_name = {each.name: each for program in programs for each in program.params}
    ordered = sorted(by_name.values(), key=lambda each: each.number)
    return {each.name: b.parameter(each.number, each.dtype, each.size, each.align) for each in ordered}


def _variables(b: Builder, programs: Sequence[Program]) -> dict[str, Register]:
    """The integers of all; what the last one, which takes every size, says of their bounds and dtypes goes for all."""
    by_name = {each.name: each for program in programs for each in program.variables}
    return {
        each.name: b.variable(each.name, each.low, each.high, each.result.dtype) for each in by_name.values()
    }


def _grid(b: Builder, programs: Sequence[Program]) -> dict[HardwareIndex, Register]:
    """The hardware indices of all."""
    most: dict[HardwareIndex, tuple[int, DType]] = {}
    for special in (each for program in programs for each in program.specials):
        known = most.get(special.index, (0, special.result.dtype))
        most[special.index] = max(known[0], _bound(special)), known[1]
    return {index: b.special(index, bound, dtype) for index, (bound, dtype) in most.items()}


def _bound(special: Special) -> int:
    if not isinstance(special.bound, Immediate) or not isinstance(special.bound.value, int):
        raise InternalError(f"the bound of {special.name} is not known when it is compiled")
    return special.bound.value


def _write(
    b: Builder,
    program: Program,
    params: Mapping[str, Buffer],
    sizes: Mapping[str, Register],
    grid: Mapping[HardwareIndex, Register],
    conditions: Sequence[Register],
) -> None:
    """A kernel where conditions hold, for the pieces that it has."""
    pieces = {special.index: _bound(special) for special in program.specials}
    has = [b.less(number, pieces.get(index, 1)) for index, number in grid.items()]
    with b.when(_all(b, [*conditions, *has])):
        inlining = Inlining(b, program, [params[each.name] for each in program.params])
        inlining.integers(sizes)
        for instruction in program.body:
            if isinstance(instruction, Special):
                number = grid[instruction.index]
                same = number.dtype is instruction.result.dtype
                inlining.registers[instruction.result] = (
                    number if same else b.cast(number, instruction.result.dtype)
                )
            else:
                inlining.write(instruction)
