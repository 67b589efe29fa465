"""Methods of a graph's values for what happens between ranks: one per op of `ops.collective`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planish.ptir import ops
from planish.ptir.handle import ElementwiseMethods
from planish.ptir.ops.collective import MeshAxes, SpecAxes

if TYPE_CHECKING:
    from planish.ptir.graph_value import GraphValue


class CollectiveMethods(ElementwiseMethods):
    """`mesh` is its axes, (name, size) each; `over` names those whose ranks exchange."""

    __slots__ = ()

    def all_reduce(self, mesh: MeshAxes, over: Sequence[str], kind: str = "sum") -> GraphValue:
        return self._emit(ops.all_reduce, attrs=ops.AllReduceAttrs(mesh, tuple(over), kind))

    def all_gather(self, mesh: MeshAxes, over: Sequence[str], axis: int) -> GraphValue:
        return self._emit(ops.all_gather, attrs=ops.AllGatherAttrs(mesh, tuple(over), axis))

    def reduce_scatter(self, mesh: MeshAxes, over: Sequence[str], axis: int, kind: str = "sum") -> GraphValue:
        return self._emit(ops.reduce_scatter, attrs=ops.ReduceScatterAttrs(mesh, tuple(over), axis, kind))

    def all_to_all(self, mesh: MeshAxes, over: Sequence[str], split: int, concat: int) -> GraphValue:
        return self._emit(ops.all_to_all, attrs=ops.AllToAllAttrs(mesh, tuple(over), split, concat))

    def permute(self, mesh: MeshAxes, over: Sequence[str], pairs: Sequence[tuple[int, int]]) -> GraphValue:
        return self._emit(ops.permute, attrs=ops.PermuteAttrs(mesh, tuple(over), tuple(pairs)))

    def broadcast(self, mesh: MeshAxes, over: Sequence[str], root: int = 0) -> GraphValue:
        return self._emit(ops.broadcast, attrs=ops.BroadcastAttrs(mesh, tuple(over), root))

    def sharding(self, mesh: MeshAxes, spec: SpecAxes) -> GraphValue:
        return self._emit(ops.sharding, attrs=ops.ShardingAttrs(mesh, spec))

    def to_device(self, device: str = "", like: GraphValue | None = None) -> GraphValue:
        return self._emit(ops.to_device, *([] if like is None else [like]), attrs=ops.ToDeviceAttrs(device))
