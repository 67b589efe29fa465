"""Operations between replicas: there is one, so that each gets what it gave."""

from __future__ import annotations

from typing import Any

from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site


def _alone(at: Site, groups: Any) -> None:
    """Every group must have one member."""
    rows = groups if isinstance(groups, tuple) else ()
    if any(isinstance(row, tuple) and len([n for n in row if n >= 0]) > 1 for row in rows):
        at.refuse(f"between the replicas {groups}", "planish runs one replica")


@lowering(
    "stablehlo.all_reduce",
    "stablehlo.cross-replica-sum",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.reduce_scatter",
)
def of_one_replica(
    at: Site,
    *operands: V,
    replica_groups: Any = (),
    channel_handle: Any = None,
    use_global_device_ids: Any = None,
    all_gather_dim: int = 0,
    scatter_dimension: int = 0,
    split_dimension: int = 0,
    concat_dimension: int = 0,
    split_count: int = 1,
) -> tuple[V, ...]:
    """A part of one is the whole, and so is what is gathered from one: along which axis does not matter."""
    _alone(at, replica_groups)
    return operands


@lowering("stablehlo.collective_broadcast")
def collective_broadcast(at: Site, x: V, *, replica_groups: Any = (), channel_handle: Any = None) -> V:
    _alone(at, replica_groups)
    if not any(0 in row for row in replica_groups):
        return at.like(x, 0)
    return x


@lowering("stablehlo.collective_permute")
def collective_permute(at: Site, x: V, *, source_target_pairs: Any = (), channel_handle: Any = None) -> V:
    """What nobody sends is 0."""
    for source, target in source_target_pairs:
        if (source, target) != (0, 0):
            at.refuse(f"from replica {source} to {target}", "planish runs one replica")
    return x if source_target_pairs else at.like(x, 0)


@lowering("stablehlo.partition_id", "stablehlo.replica_id")
def own_number(at: Site) -> V:
    return at.full((), 0, at.dtype)


@lowering("sdy.sharding_constraint", "sdy.reshard")
def sharding(at: Site, x: V, **notes: Any) -> V:
    """Where it lies: on one device."""
    return x
