"""What each PTIR op becomes at tensor level, by family: `LOWERINGS`, keyed by op name, is the one place that says so.

rules        what a lowering is; conversions; widening of narrow floats
elementwise  ALU ops and short formulas          special     erfinv, lgamma, digamma
convert      constant, cast, bitcast             movement    reshape … pad
positions    elements by position                indexing    gather, scatter, dynamic slices, iota
reduce       reductions, scans, windows          contract    dot_general, convolution
sizes        dimension_size, bind_dim

An op that is not in the table is control flow (the plan's), a host op, or a composite that is rewritten in PTIR beforehand. Complex
numbers are pairs of floats before they come here.
"""

from __future__ import annotations

from typing import Final

from planish.ptir.function import Function, Inst
from planish.schedule.lowering.channels_last import as_it_lies
from planish.schedule.lowering.contract import CONTRACT
from planish.schedule.lowering.convert import CONVERT
from planish.schedule.lowering.elementwise import ELEMENTWISE
from planish.schedule.lowering.indexing import INDEXING
from planish.schedule.lowering.movement import MOVEMENTS
from planish.schedule.lowering.reduce import REDUCE
from planish.schedule.lowering.rules import Lowering, refused
from planish.schedule.lowering.sizes import SIZES
from planish.schedule.tensors import SharedBuffer, Tensors, check_size, room
from planish.uop.node import Table

LOWERINGS: Final[dict[str, Lowering]] = {
    **{name: as_it_lies(handler) for name, handler in ELEMENTWISE.items()},
    **CONVERT,
    "cast": as_it_lies(CONVERT["cast"]),
    **MOVEMENTS,
    **INDEXING,
    **REDUCE,
    **CONTRACT,
    **SIZES,
}


def can_lower(inst: Inst) -> bool:
    """Whether an instruction becomes tensor-level UOps as it stands."""
    return inst.op.name in LOWERINGS and not _has_complex(inst)


def _has_complex(inst: Inst) -> bool:
    return any(value.type.dtype.is_complex for value in (*inst.operands, *inst.results))


def lower_inst(tensors: Tensors, inst: Inst) -> None:
    """Enter the value of an instruction's result; those of its operands are there."""
    handler = LOWERINGS.get(inst.op.name)
    if handler is None:
        raise refused(
            inst, "cannot be compiled", "run it with planish.ptir.interpret, or expand composites first"
        )
    if _has_complex(inst):
        raise refused(inst, "works on complex numbers", "split them into real and imaginary parts first")
    (result,) = inst.results
    check_size(result.type, inst.op.name, inst.loc)
    tensors.values[result] = handler(tensors, inst)


def enter_params(tensors: Tensors, function: Function) -> None:
    """The parameters of a function as memory."""
    for position, param in enumerate(function.params):
        check_size(param.type, "parameter", None)
        dims = tensors.dims_of(param)
        tensors.values[param] = tensors.memory(
            SharedBuffer(param.type.dtype, room(dims), parameter=position), dims
        )


def to_tensors(function: Function, table: Table) -> Tensors:
    """The tensor-level UOps of a function without control flow."""
    tensors = Tensors(table)
    enter_params(tensors, function)
    for inst in function:
        lower_inst(tensors, inst)
    return tensors


__all__ = ["LOWERINGS", "can_lower", "enter_params", "lower_inst", "to_tensors"]
