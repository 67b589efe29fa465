"""The grid of a kernel on a GPU, read from its program: the special indices say what they run over."""

from __future__ import annotations

from typing import Final

from planish.codegen import cuda_fetch
from planish.codegen.cuda_blocks import launched_threads, ranks_of
from planish.errors import LoweringError
from planish.llir.program import Compute, Convert, Immediate, Operand, Program, Special
from planish.runtime.grid import OPERATIONS, Grid, TensorMap

_AXES: Final = 3


def grid_of(program: Program) -> Grid:
    """The grid that the special indices of a kernel ask for."""
    blocks = ["1"] * _AXES
    threads = [1] * _AXES
    for special in program.specials:
        axis = special.index.axis
        bound = special.bound
        if special.is_rank:
            continue
        if not special.is_thread:
            blocks[axis] = _text(program, special)
        elif isinstance(bound, Immediate) and isinstance(bound.value, int):
            threads[axis] = bound.value
        else:
            raise LoweringError(f"{program.name}: a block of varying size", op="SPECIAL")
    ranks = ranks_of(program)
    if ranks > 1:  # neighbouring blocks are a cluster
        blocks[0] = f"{blocks[0]} {ranks} mul"
    if cuda_fetch.fetches(program):  # who fetches comes behind the others
        threads = [launched_threads(program), 1, 1]
    return Grid(tuple(blocks), tuple(threads))


def maps_of(program: Program) -> tuple[TensorMap, ...]:
    """What a copy engine is told of the parameters of a kernel."""
    maps = []
    for param, box in cuda_fetch.maps_of(program):
        dtype, position = param.dtype.scalar, program.params.index(param)
        kind = "tf32" if box.rounded else dtype.short if dtype.bits > 8 else "u8"
        corners = (box.lower, box.upper, box.steps)
        maps.append(TensorMap(position, kind, dtype.itemsize, box.dims, box.strides, box.sizes, *corners))
    return tuple(maps)


def _text(program: Program, special: Special) -> str:
    """A bound as an expression of the variables of the kernel."""
    makers = {i.target: i for i in program.body if i.target is not None}
    places = {variable.result: f"v{k}" for k, variable in enumerate(program.variables)}

    def write(operand: Operand) -> str:
        if isinstance(operand, Immediate):
            return str(int(operand.value))  # type: ignore[arg-type]  # a size is one integer
        if operand in places:
            return places[operand]
        maker = makers.get(operand)
        if isinstance(maker, Convert):
            return write(maker.operand)
        if isinstance(maker, Compute) and maker.op.name.lower() in OPERATIONS:
            return " ".join([*map(write, maker.inputs), maker.op.name.lower()])
        raise LoweringError(f"{program.name}: the grid depends on more than sizes", op="SPECIAL")

    return write(special.bound)
