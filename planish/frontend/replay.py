"""Instructions of one function emitted again into a graph, on other values: what transforms of PTIR are made with."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from planish import dtypes
from planish.errors import GraphError, Location, PlanishError
from planish.ptir import ops
from planish.ptir.builder import Built, Graph
from planish.ptir.dims import DimLike
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.handle import ElementwiseMethods
from planish.ptir.ops.definition import Attrs, OpDef, Way
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


def inlined(function: Function | Program, known: Container[str]) -> Function:
    """One function without calls, and without composites that are not `known`: they are what they expand to."""
    if isinstance(function, Program):
        program = function.clone()
        from planish.ptir.passes.inline import InlinePass

        InlinePass().run(program)
        function = program.entry
    unknown = sorted(
        {
            inst.op.name
            for inst in function.walk()
            if inst.op.way is Way.COMPOSITE and inst.op.name not in known
        }
    )
    if unknown:
        from planish.ptir.passes.expand import expand_composites

        function = function.clone()
        expand_composites(function, unknown)
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
    results = graph.emit_many(inst.op, operands, inst.attrs, regions)
    values.update(zip(inst.results, results, strict=True))


def copy_region(graph: Replay, op: OpDef, region: Region, values: Values) -> Region:
    """A copy of a region."""

    def build(*args: GraphValue) -> Sequence[GraphValue]:
        return replay(graph, region, values | dict(zip(region.args, args, strict=True)))

    return graph.build_region(op, build, region.arg_types)


def dim_value(graph: Graph, dim: DimLike) -> GraphValue:
    """A size as an int64 scalar."""
    if isinstance(dim, int):
        return graph.full((), dim, dtypes.int64)
    return graph.iota((dim,), 0).dimension_size(0)


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
