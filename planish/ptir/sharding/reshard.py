"""Parts of tensors in a graph under construction: a value with its spec, and how it gets another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planish import dtypes
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue
from planish.ptir.ops.collective import MeshAxes, SpecAxes, group_size
from planish.ptir.sharding.specs import steps


class TensorPart(NamedTuple):
    """What a rank has of a tensor, and the spec that says which part that is."""

    value: GraphValue
    spec: SpecAxes
    forms: dict[SpecAxes, GraphValue]
    """All the specs that the tensor is at hand under."""

    @staticmethod
    def of(value: GraphValue, spec: SpecAxes) -> TensorPart:
        return TensorPart(value, spec, {spec: value})


def reshard(graph: Graph, mesh: MeshAxes, part: TensorPart, spec: SpecAxes) -> GraphValue:
    """The part under another spec."""
    value = part.value
    cut: dict[int, tuple[str, ...]] = {}
    for step in steps(part.spec, spec):
        if step.kind == "gather":
            value = value.all_gather(mesh, step.over, step.axis)
        elif step.kind == "exchange":
            value = value.all_to_all(mesh, step.over, step.to, step.axis)
        else:
            cut[step.axis] = step.over
    return take(graph, mesh, value, cut) if cut else value


def take(graph: Graph, mesh: MeshAxes, value: GraphValue, cut: dict[int, tuple[str, ...]]) -> GraphValue:
    """This rank's part of some axes."""
    sizes = list(value.dims)
    starts: list[GraphValue | int] = [0] * value.rank
    for axis, over in cut.items():
        sizes[axis] = size = int(str(sizes[axis])) // group_size(mesh, over)
        starts[axis] = offset(graph, mesh, over, size)
    return value.dynamic_slice(
        [start if isinstance(start, GraphValue) else graph.full((), 0, dtypes.int64) for start in starts],
        sizes,
    )


def offset(graph: Graph, mesh: MeshAxes, over: Sequence[str], size: int) -> GraphValue:
    """Where this rank's part of an axis begins, if each has `size` of it."""
    place = graph.mesh_index(mesh, over)
    return place if size == 1 else place.mul(size)
