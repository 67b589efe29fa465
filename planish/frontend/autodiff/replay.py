"""Instructions of one function emitted again into a graph, on other values; and what the rules of derivatives are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from planish import dtypes
from planish.errors import GraphError, InternalError, Location, PlanishError
from planish.ptir import ops
from planish.ptir.builder import Built, Graph
from planish.ptir.dims import DimLike, bounds
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.handle import ElementwiseMethods
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.passes.inline import InlinePass
from planish.ptir.types import TensorType

Values = dict[Value, GraphValue]


class Replay(Graph):
    """A graph that is made from another function: what it emits comes from the line that it is made from."""

    __slots__ = ("loc", "notes")

    loc: Location | None
    notes: dict[Value, tuple[GraphValue, ...]]
    """By the first result of an instruction: what was computed along with it because its derivative needs it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.loc = None
        self.notes = {}

    def _append(
        self, op: OpDef, operands: Sequence[ElementwiseMethods], attrs: Attrs, regions: Sequence[Region]
    ) -> Inst:
        for operand in operands:
            self._check_visible(op.name, operand)
        try:
            return self.region.append(
                op, [operand.value for operand in operands], attrs, regions, loc=self.loc
            )
        except PlanishError as error:
            error.location = error.location or self.loc
            raise

    def build_region(self, op: OpDef, build: Callable[..., Built], types: Sequence[TensorType]) -> Region:
        """The region of an op that a Python function builds."""
        return self._region(op, build, types)


def inlined(function: Function | Program) -> Function:
    """One function without calls."""
    if isinstance(function, Program):
        program = function.clone()
        InlinePass().run(program)
        function = program.entry
    for inst in function.walk():
        if inst.op is ops.call:
            raise GraphError(
                f"{function.name} calls another function, which is not at hand here",
                op="call",
                location=inst.loc,
                remedy="hand over the program, or inline the calls first; recursion cannot be transformed",
            )
    return function


def replay(graph: Replay, region: Region, values: Values) -> tuple[GraphValue, ...]:
    """Emit a region's instructions; `values` says what its arguments (and what it sees from outside) are, and is filled."""
    for inst in region:
        emit(graph, inst, values)
    return tuple(values[result] for result in region.results)


def emit(graph: Replay, inst: Inst, values: Values) -> None:
    """One instruction, on the values that its operands have become."""
    operands = [values[operand] for operand in inst.operands]
    regions = [copy_region(graph, inst.op, inner, values) for inner in inst.regions]
    graph.loc = inst.loc
    made = graph.emit_many(inst.op, operands, inst.attrs, regions)
    values.update(zip(inst.results, made, strict=True))


def copy_region(graph: Replay, op: OpDef, region: Region, values: Values) -> Region:
    """A copy of a region."""

    def build(*args: GraphValue) -> Sequence[GraphValue]:
        return replay(graph, region, values | dict(zip(region.args, args, strict=True)))

    return graph.build_region(op, build, region.arg_types)


def captured(region: Region) -> list[Value]:
    """What a region uses from outside, each once."""
    own: set[Value] = set()
    found: dict[Value, None] = {}
    pending = [region]
    while pending:
        part = pending.pop()
        own.update(part.args)
        for inst in [*part, part.end]:
            found.update(dict.fromkeys(inst.operands))
            own.update(inst.results)
            pending += inst.regions
    return [value for value in found if value not in own]


def is_differentiable(type: TensorType) -> bool:
    """Whether a value has derivatives: floats and complex numbers do."""
    return (type.dtype.is_float or type.dtype.is_complex) and type.quant is None


def zeros(graph: Graph, type: TensorType) -> GraphValue:
    """Nothing, in the shape of a value."""
    return graph.full(type.dims, 0, type.dtype)


def where(mask: GraphValue, value: GraphValue) -> GraphValue:
    """A value where the mask is True, and 0 elsewhere."""
    return mask.select(value, zeros(value.graph, value.type))


def added(total: GraphValue | None, part: GraphValue) -> GraphValue:
    """The sum, of which there may be nothing yet."""
    return part if total is None else total.add(part)


def size_along(x: GraphValue, axis: int, dims: Sequence[DimLike]) -> GraphValue:
    """The size of an axis as int64, in a shape."""
    size = x.dims[axis]
    if isinstance(size, int):
        return x.graph.full(dims, size, dtypes.int64)
    return x.dimension_size(axis).broadcast_to(dims)


def clamped(x: GraphValue, indices: Sequence[GraphValue], axes: Sequence[int]) -> list[GraphValue]:
    """Indices as gather reads them, as int64: those beyond the ends are the ends."""
    return [
        index64(index, size_along(x, axis, index.dims)) for index, axis in zip(indices, axes, strict=True)
    ]


def index64(index: GraphValue, size: GraphValue) -> GraphValue:
    """An index within 0 … size - 1, whatever integers it came in."""
    last = size.sub(1)
    if index.dtype is dtypes.uint64:
        # above half of the range it would come out negative
        return index.min(last.max(0).cast(dtypes.uint64)).cast(dtypes.int64).min(last)
    wide = index if index.dtype is dtypes.int64 else index.cast(dtypes.int64)
    return wide.max(0).min(last)


def along(axis: int, index: GraphValue) -> list[GraphValue]:
    """Index arrays for every axis of a shape: `index` for one of them, every other is kept."""
    return [index if k == axis else index.graph.iota(index.dims, k, index.dtype) for k in range(index.rank)]


def gathered(x: GraphValue, indices: Sequence[GraphValue], axes: Sequence[int]) -> GraphValue:
    """Elements at indices, also of axes that may be empty: then the indices are, or what they find does not count."""
    high = [int(axis in axes and bounds(dim)[0] == 0) for axis, dim in enumerate(x.dims)]
    padded = x.pad([0] * x.rank, high) if any(high) else x
    return padded.gather(indices, axes)


def taken(x: GraphValue, index: GraphValue, axis: int) -> GraphValue:
    """Elements along one axis, like NumPy's take_along_axis."""
    return gathered(x, along(axis, index), range(x.rank))


def put(target: GraphValue, updates: GraphValue, index: GraphValue, axis: int) -> GraphValue:
    """Updates added at positions along one axis."""
    return target.scatter(updates, along(axis, index), range(target.rank), "add")


@dataclass(slots=True)
class At:
    """What a rule sees of an instruction: `x` its operands, `y` its results, as values of the new graph."""

    graph: Replay
    inst: Inst
    x: tuple[GraphValue, ...]
    y: tuple[GraphValue, ...]

    @property
    def attrs(self) -> Any:
        """Its attributes, of the type its op has."""
        return self.inst.attrs

    @staticmethod
    def of(graph: Replay, inst: Inst, values: Values) -> At:
        graph.loc = inst.loc
        return At(
            graph,
            inst,
            tuple(values[operand] for operand in inst.operands),
            tuple(values[result] for result in inst.results),
        )

    def no_rule(self, why: str, remedy: str) -> GraphError:
        """The error for an instruction that has no derivative."""
        return no_rule(self.inst, why, remedy)


def no_rule(inst: Inst, why: str, remedy: str) -> GraphError:
    """The error for an instruction that has no derivative."""
    return GraphError(why, op=inst.op.name, location=inst.loc, remedy=remedy)


def the_only(found: Sequence[GraphValue | None]) -> GraphValue:
    """What a rule of an op with one result is given: there would be no question if it were not there."""
    first = found[0]
    if first is None:
        raise InternalError("a rule is asked about a value that does not move")
    return first


Push = Callable[[At, Sequence[GraphValue | None]], Sequence[GraphValue | None]]
"""Tangents of the operands (None only for those that have none: integers) to those of the results."""
Pull = Callable[[At, Sequence[GraphValue | None], Sequence[bool]], Sequence[GraphValue | None]]
"""Cotangents of the results (None where nothing came) and which operands want one, to those of the operands."""
Scaled = Callable[[GraphValue, At], GraphValue]
"""t and an instruction to t · ∂y/∂x: what an elementwise op does to a tangent, and to a cotangent."""
