"""Kernels that differ in their numbers alone become one: the numbers are read from memory.

Networks repeat their layers, and each repetition has scalars of its own: scales and zero points of quantised values, learned factors. As
constants they make kernels of one shape different programs, each of which takes its time to compile. Here the constants in which such
kernels differ become elements of a small table that each launch brings along; those that are alike stay what they are. Kernels of loops
keep theirs: a loop that becomes one kernel holds them in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType
from planish.schedule.parameters import kernel_name
from planish.schedule.plan import For, Kernel, Launch, Step, Steps, While, mapped, walk
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.reached import reached
from planish.uop.rewrite import substitute
from planish.uop.text import in_order

_MOST: Final = 64
"""Numbers in which kernels may differ: beyond that they are no repetition of each other."""


def with_tables(
    steps: Sequence[Step], kernels: Sequence[Kernel], table: Table, constant: Callable[[NDArray[Any]], int]
) -> tuple[Steps, list[Kernel]]:
    """Steps and kernels where those that only differ in their numbers are one; `constant` makes a buffer of the program."""
    kept = {
        inner.kernel
        for step in walk(steps)
        if isinstance(step, For | While)
        for inner in walk([step])
        if isinstance(inner, Launch)
    }
    alike: dict[object, list[int]] = {}
    for number, kernel in enumerate(kernels):
        if number not in kept:
            alike.setdefault((kernel.work, len(kernel.buffers), kernel.variables), []).append(number)
    same: dict[UOp, list[int]] = {}
    numbers: dict[int, list[UOp]] = {}
    for group in alike.values():
        for number in group if len(group) > 1 else ():
            sink = kernels[number].sink
            nodes = _numbers(sink)
            if 0 < len(nodes) <= _MOST:
                numbers[number] = nodes
                slot = len(kernels[number].buffers)
                same.setdefault(substitute(sink, _read(table, slot, nodes)), []).append(number)
    rewritten: list[Kernel] = list(kernels)
    becomes: dict[int, tuple[int, tuple[int, ...]]] = {}
    for members in same.values():
        if len(members) > 1:
            becomes |= _joined(rewritten, members, numbers, table, constant)
    if not becomes:
        return tuple(steps), rewritten
    left = [number for number in range(len(rewritten)) if becomes.get(number, (number,))[0] == number]
    place = {number: new for new, number in enumerate(left)}

    def launched(step: Step) -> Step:
        if not isinstance(step, Launch):
            return step
        number, added = becomes.get(step.kernel, (step.kernel, ()))
        return Launch(place[number], (*step.buffers, *added))

    return mapped(steps, launched), [rewritten[number] for number in left]


def _numbers(sink: UOp) -> list[UOp]:
    """The constants of a kernel that are data, in the order of its structure.

    Integers are, unless they say where something is in memory, or are part of a sum of integers: what is known of those is how such
    sums become products of bytes.
    """
    order, stack = in_order(sink), list[UOp]()
    for node in order:
        if node.op is Ops.INDEX:
            stack += node.src[1:]
        elif node.op is Ops.RANGE or (node.op is Ops.REDUCE and not node.dtype.is_float):
            stack += node.src
    places = set(reached(stack, lambda node: node.src))
    return [
        node
        for node in order
        if node.op is Ops.CONST and (node.dtype.is_float or (node.dtype.is_int and node not in places))
    ]


def _joined(
    kernels: list[Kernel],
    members: Sequence[int],
    numbers: Mapping[int, list[UOp]],
    table: Table,
    constant: Callable[[NDArray[Any]], int],
) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Kernels of one form as the first of them: which kernel each becomes, and the tables that its launches bring."""
    first = members[0]
    differ = [
        place
        for place, node in enumerate(numbers[first])
        if any(numbers[other][place] is not node for other in members)
    ]
    slot = len(kernels[first].buffers)
    tables = {
        member: tuple(constant(values) for values in _tables([numbers[member][n] for n in differ]))
        for member in members
    }
    kernel = kernels[first]
    sink = substitute(kernel.sink, _read(table, slot, [numbers[first][n] for n in differ]))
    name = kernel_name(kernel.work, sink)
    kernels[first] = replace(kernel, name=name, sink=sink, buffers=(*kernel.buffers, *tables[first]))
    return {member: (first, tables[member]) for member in members}


def _by_dtype(numbers: Sequence[UOp]) -> dict[DType, list[UOp]]:
    by_dtype: dict[DType, list[UOp]] = {}
    for node in numbers:
        by_dtype.setdefault(node.dtype, []).append(node)
    return by_dtype


def _read(table: Table, slot: int, numbers: Sequence[UOp]) -> dict[UOp, UOp]:
    """Constants as elements of tables, one per dtype, in the slots from one on."""
    elements: dict[UOp, UOp] = {}
    for place, (dtype, nodes) in enumerate(_by_dtype(numbers).items()):
        memory = table.make(Ops.INDEX, dtype, (table.param(slot + place, dtype, len(nodes)),))
        memory = table.make(Ops.RESHAPE, dtype, (memory,), (len(nodes),))
        for n, node in enumerate(nodes):
            elements[node] = table.make(Ops.INDEX, dtype, (memory, table.const(n)))
    return elements


def _tables(numbers: Sequence[UOp]) -> list[NDArray[Any]]:
    return [
        np.array([cast("int | float", node.arg) for node in nodes], dtype.numpy)
        for dtype, nodes in _by_dtype(numbers).items()
    ]
