"""What the rules of derivatives are given: an instruction as values of the new graph, and small things they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from planish.errors import GraphError, InternalError
from planish.frontend.replay import Replay, Values
from planish.ptir.builder import Graph
from planish.ptir.dims import bounds
from planish.ptir.function import Inst
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import TensorType


def is_differentiable(type: TensorType) -> bool:
    """Whether a value has derivatives: floats and complex numbers do."""
    return (type.dtype.is_float or type.dtype.is_complex) and type.quant is None


def conjugate(x: GraphValue) -> GraphValue:
    return x.conj() if x.dtype.is_complex else x


def zeros(graph: Graph, type: TensorType) -> GraphValue:
    """Nothing, in the shape of a value."""
    return graph.full(type.dims, 0, type.dtype)


def where(mask: GraphValue, value: GraphValue) -> GraphValue:
    """A value where the mask is True, and 0 elsewhere."""
    return mask.select(value, zeros(value.graph, value.type))


def added(total: GraphValue | None, part: GraphValue) -> GraphValue:
    """The sum, of which there may be nothing yet."""
    return part if total is None else total.add(part)


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
class RuleSite:
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
    def of(graph: Replay, inst: Inst, values: Values) -> RuleSite:
        graph.loc = inst.loc
        return RuleSite(
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


def the_only(given: Sequence[GraphValue | None]) -> GraphValue:
    """What a rule of an op with one result is given: there would be no question if it were not there."""
    first = given[0]
    if first is None:
        raise InternalError("a rule is asked about a value that does not move")
    return first


Push = Callable[[RuleSite, Sequence[GraphValue | None]], Sequence[GraphValue | None]]
"""Tangents of the operands (None only for those that have none: integers) to those of the results."""
Pull = Callable[[RuleSite, Sequence[GraphValue | None], Sequence[bool]], Sequence[GraphValue | None]]
"""Cotangents of the results (None where nothing came) and which operands want one, to those of the operands."""
Scaled = Callable[[GraphValue, RuleSite], GraphValue]
"""t and an instruction to t · ∂y/∂x: what an elementwise op does to a tangent, and to a cotangent."""
