"""Function bodies: how what a kernel calls is computed, from the stages to LLIR."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from planish.config import current
from planish.dtypes import DType
from planish.llir.lower import lower
from planish.llir.program import Compute, OpFunction, Program
from planish.stages import pipeline
from planish.stages.linearizer.decompositions.functions import FUNCTIONS
from planish.target import Target
from planish.uop.node import Table
from planish.uop.ops import Ops


def with_functions(program: Program, target: Target) -> Program:
    """The kernel with the bodies of the functions that stage 18 has left in it."""
    left = (i for i in program.body if isinstance(i, Compute) and i.op in FUNCTIONS)
    wanted = dict.fromkeys((i.op, i.result.dtype) for i in left if i.op not in target.supported_ops)
    if not wanted:
        return program
    contract = current().contract
    return replace(program, functions=tuple(_function(op, dtype, target, contract) for op, dtype in wanted))


@cache
def _function(op: Ops, dtype: DType, target: Target, _contract: bool) -> OpFunction:
    with Table() as table:
        lines = pipeline.function_lines(op, dtype, table, target)
        return OpFunction(op, dtype, lower(op.name.lower(), lines))
