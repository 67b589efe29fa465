"""Function calls: which functions stage 18 leaves in a kernel to be called, and how such a function is computed.

Written out where it is used, a sine is two hundred and forty nodes. Once or a few times that is what makes a kernel fast: its constants stay
in registers, its instructions fill the gaps of others, and sines of one argument share its reduction. A hundred times it is
twenty-four thousand nodes for every stage, for LLVM, and for the instruction cache. So what copies of a function would add to a kernel is bounded;
beyond that the op stays, and code generation calls one function, which `kernel` computes. In a loop that does nothing but compute, calls
take a tenth of its time; behind a loop, as what is done with the sums of a register tile, they are lost in it, and the bound is lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.stages.linearizer.decompositions.functions import FUNCTIONS
from planish.uop.node import Table, UOp
from planish.uop.ops import BINARY, Ops

Calls = frozenset[tuple[Ops, DType]]
"""Functions that are called, on values of a dtype."""
NO_CALLS: Final[Calls] = frozenset()

GROWTH: Final = 2000
"""The nodes that copies of one function may add to a kernel."""
BEHIND: Final = 1000
"""The same where all of them are computed for whole vectors, each after a loop of its own."""
_FEW: Final = 6
"""Copies that are nothing to think about: no function is so large."""
_SMALL: Final = 60
"""Nodes of a function that are not worth a call, however many there are."""


def calls_in(nodes: Sequence[UOp], size_of: Callable[[Ops, DType], int]) -> Calls:
    """The functions that a kernel is to call, by how many nodes each is. Those of narrow floats become functions of wide ones."""
    by_function: dict[tuple[Ops, DType], list[UOp]] = {}
    for node in nodes:
        if node.op in FUNCTIONS and node.dtype.is_float:
            wide = node.dtype if node.dtype.bits >= 32 else dtypes.float32.vec(node.dtype.lanes)
            by_function.setdefault((node.op, wide), []).append(node)
    called = set()
    for (op, dtype), copies in by_function.items():
        growth = (len(copies) - 1) * size_of(op, dtype.scalar) if len(copies) > _FEW else 0
        if growth > min(BEHIND, GROWTH) and size_of(op, dtype.scalar) > _SMALL:
            behind = dtype.lanes > 1 and _are_behind_loops(copies, nodes)
            if growth > (BEHIND if behind else GROWTH):
                called.add((op, dtype))
    return frozenset(called)


def _are_behind_loops(copies: Sequence[UOp], nodes: Sequence[UOp]) -> bool:
    """Whether, wherever one of them is computed, there is more that is computed in a loop inside."""
    opened = {node.ranges for node in nodes}
    return all(any(around < each for each in opened) for around in {node.ranges for node in copies})


def kernel(op: Ops, dtype: DType, table: Table) -> UOp:
    """The kernel that computes a function once: its second parameter, and if it has two operands its third, into its first."""
    here = table.const(0, dtypes.int32)
    pointer = dtype.scalar.ptr(dtype.lanes)

    def place(slot: int) -> UOp:
        memory = table.make(Ops.DEFINE_GLOBAL, pointer, (), slot)
        return table.make(Ops.INDEX, pointer, (memory, here))

    first, *others = (table.make(Ops.LOAD, dtype, (place(1 + n),)) for n in range(2 if op in BINARY else 1))
    return table.make(Ops.SINK, dtypes.void, (place(0).store(first.alu(op, *others)),))
