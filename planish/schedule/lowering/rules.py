"""What a lowering is: a function from an instruction to the node of its one result; and how floats too narrow are widened."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.ptir.function import Inst
from planish.schedule.tensors import Tensors
from planish.uop.node import UOp

Lowering = Callable[[Tensors, Inst], UOp]
"""Called with the values so far; gives the value of the instruction's result."""


def operands(tensors: Tensors, inst: Inst) -> list[UOp]:
    """The values of the operands."""
    return [tensors.values[operand] for operand in inst.operands]


def refused(inst: Inst, why: str, remedy: str) -> LoweringError:
    """The error for an instruction that has no lowering."""
    types = ", ".join(str(operand.type) for operand in inst.operands)
    return LoweringError(f"{inst.op.name}({types}) {why}", op=inst.op.name, location=inst.loc, remedy=remedy)


def is_tiny(dtype: DType) -> bool:
    """Floats of 8 bits: machines convert them, and compute in something wider."""
    return dtype.is_float and dtype.bits < 16


def is_narrow(dtype: DType) -> bool:
    """Floats that accumulate in float32 (docs/semantics.md 6.1)."""
    return dtype.is_float and dtype.bits < 32


def accumulator(dtype: DType) -> DType:
    """The dtype that sums of a dtype run in."""
    return dtypes.float32 if is_narrow(dtype) else dtype


def convert(x: UOp, target: DType) -> UOp:
    """A cast. 8-bit floats are converted from and to float32 (or from float64) alone; the way there loses nothing.

    An integer that float32 rounds is beyond every 8-bit float anyway, and overflows the same.
    """
    if x.dtype is target:
        return x
    if is_tiny(x.dtype):
        x = x.cast(dtypes.float32)
    if is_tiny(target) and x.dtype is not dtypes.float64:
        x = x.cast(dtypes.float32)
    return x.cast(target)


def widened(compute: Callable[..., UOp], sources: Sequence[UOp], wide: Callable[[DType], bool]) -> UOp:
    """A computation in float32 where `wide` asks for it, rounded once to the dtype of the first source."""
    dtype = sources[0].dtype
    if not wide(dtype):
        return compute(*sources)
    result = compute(
        *(source.cast(dtypes.float32) if source.dtype is dtype else source for source in sources)
    )
    return result.cast(dtype) if result.dtype is dtypes.float32 else result
