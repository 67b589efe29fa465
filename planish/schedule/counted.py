"""Loops that count, read off their regions: what goes up by a constant every turn, and how many turns there are.

A carried integer that every turn adds a constant to is no carried value: in turn k it is `start + k * step`, modulo the width
of its dtype. A `while` that asks nothing but whether such an integer has come to an end that does not change has as many turns
as that takes, known before the first of them.
"""

from __future__ import annotations

from typing import Final

from planish import dtypes
from planish.ptir.function import Function, Inst, Region, Value
from planish.records import dataclass
from planish.schedule.tensors import Tensors
from planish.uop.node import UOp

MOST_TURNS: Final = 1 << 62
"""Nobody waits for more."""


@dataclass(frozen=True, slots=True)
class Turns:
    """A `while` that runs as long as the carried value of that number is on this side of the end."""

    number: int
    end: Value
    step: int
    strict: bool
    """Whether the end itself is left out."""
    wraps: bool
    """Whether the first value behind the end may be none of the dtype: then the loop wraps around, and perhaps goes on."""


def _integer(value: Value) -> int | None:
    """The number that a scalar constant is."""
    literal = value.literal
    if literal is None or not literal.splat or not literal.dtype.is_int:
        return None
    number = literal.item
    return int(number) if isinstance(number, int) else None


def step_of(region: Region, number: int) -> int | None:
    """What every turn adds to a carried value; None if it does something else."""
    argument, result = region.args[number], region.results[number]
    if argument.type.dims or not argument.type.dtype.is_int or argument.type.dtype.bits < 8:
        return None
    inst = result.def_inst
    if inst is None or inst.op.name not in {"add", "sub"} or len(inst.operands) != 2:
        return None
    left, right = inst.operands
    if right is argument and inst.op.name == "add":
        left, right = right, left
    by = _integer(right) if left is argument else None
    if by is None:
        return None
    dtype = argument.type.dtype
    if not dtype.is_signed and by >> dtype.bits - 1:
        by -= 1 << dtype.bits  # unsigned integers go down by a number that wraps around
    return by if inst.op.name == "add" else -by


def counters(region: Region, count: int) -> dict[int, int]:
    """Of the first carried values, those that count, with what each turn adds."""
    steps = {number: step_of(region, number) for number in range(count)}
    return {number: step for number, step in steps.items() if step is not None}


def turns_of(inst: Inst) -> Turns | None:
    """How a `while` counts; None if it is over by something else."""
    condition, body = inst.regions
    (flag,) = condition.results
    test = flag.def_inst
    if test is None or test.op.name not in _COMPARED:
        return None
    strict, rising = _COMPARED[test.op.name]
    left, right = test.operands
    if right in condition.args:
        left, right, rising = right, left, not rising
    if left not in condition.args or right.region is condition:
        return None
    number = condition.args.index(left)
    step = step_of(body, number)
    if not step or (step > 0) != rising:
        return None
    return Turns(number, right, step, strict, not _stays_inside(right, step, strict))


_COMPARED: Final = {"lt": (True, True), "le": (False, True), "gt": (True, False), "ge": (False, False)}
"""By comparison: whether the end is left out, and whether what is compared has to rise to get there."""


def _stays_inside(end: Value, step: int, strict: bool) -> bool:
    """Whether the first value that ends the loop is one of the dtype."""
    if abs(step) == 1 and strict:
        return True
    limit, dtype = _integer(end), end.type.dtype
    if limit is None or dtype.min is None or dtype.max is None:
        return False
    last = limit + step - ((1 if step > 0 else -1) if strict else 0)
    return dtype.min <= last <= dtype.max


def known_turns(start: Value, loop: Turns) -> int | None:
    """How many turns there are, if start and end are constants."""
    begin, end = _integer(start), _integer(loop.end)
    if begin is None or end is None:
        return None
    span = (end - begin) * (1 if loop.step > 0 else -1) + (not loop.strict)
    return max(0, -(-span // abs(loop.step)))


def turns(tensors: Tensors, start: UOp, end: UOp, loop: Turns) -> UOp:
    """How many turns there are, as a scalar of int64: the difference is exact where it is not negative."""
    if loop.step < 0:
        start, end = end, start
    runs = start < end if loop.strict else start <= end
    span = end.cast(dtypes.int64).bitcast(dtypes.uint64) - start.cast(dtypes.int64).bitcast(dtypes.uint64)
    table = tensors.table
    one, by = table.const(1, dtypes.uint64), table.const(abs(loop.step), dtypes.uint64)
    less = (span - one) // by if loop.strict else span // by
    count = less.min(table.const(MOST_TURNS - 1, dtypes.uint64)) + one
    return runs.where(count.bitcast(dtypes.int64), table.const(0, dtypes.int64))


def at_turn(tensors: Tensors, start: UOp, step: int, turn: UOp) -> UOp:
    """A counter after so many turns (an index expression), modulo the width of its dtype."""
    dtype = start.dtype
    wide = turn.cast(dtypes.int64) * tensors.table.const(step, dtypes.int64)
    return start + (wide if dtype is dtypes.int64 else wide.cast(dtype))


def names_of_sizes(function: Function) -> frozenset[str]:
    """The names of all sizes in a function."""
    types = [value.type for value in function.params]
    for inst in function.body.walk():
        types += [value.type for value in inst.results]
        types += [value.type for region in inst.regions for value in region.args]
    return frozenset(symbol.name for type in set(types) for symbol in type.symbols())
