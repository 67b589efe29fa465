"""Collectives of programs on GPUs: NCCL's, inside the graphs of the program; where there is no NCCL, they go through the host.

Communicators are made when a program is loaded that needs them, by all ranks together. Each GPU is one rank's: two ranks on one are told so.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planish.compiler.collectives import groups_of, prepare
from planish.config import current
from planish.errors import InternalError
from planish.ptir.ops import collective as ops
from planish.runtime import ranks
from planish.runtime.cuda import nccl
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.code import CarriedCollectives
from planish.runtime.cuda.device import Gpu
from planish.runtime.ranks import CollectiveError, Groups, World
from planish.schedule.collectives import collectives_in, key_of
from planish.schedule.plan import Host

if TYPE_CHECKING:
    from planish.compiler import Lowered

_COMMUNICATORS: Final[dict[tuple[Groups, int], int]] = {}


def carried(lowered: Lowered, gpu: Gpu) -> CarriedCollectives:
    """The collectives of a program that NCCL carries; all ranks ask at the same time."""
    known = prepare(lowered)
    world = ranks.world()
    if not world.nccl:
        return CarriedCollectives({}, {})
    exchanges: dict[int, nccl.NcclCollective] = {}
    places: dict[int, int] = {}
    kept: list[GpuArray] = []
    for step in collectives_in(lowered.plan):
        if step.call is None:
            continue
        key = key_of(step.op.name, step.attrs, step.input_types)
        if step.op.name == "mesh_index":
            attrs = cast("ops.CollectiveAttrs", step.attrs)
            place = ops.place_of(attrs.mesh, attrs.over, world.rank)
            kept.append(GpuArray.of(gpu, np.array(place, np.int64)))
            places[key] = kept[-1].address
        elif key not in exchanges:
            exchanges[key] = _exchange(world, gpu, step, known.get(key, ""))
            places[key] = 0
    return CarriedCollectives(exchanges, places, tuple(kept))


def _exchange(world: World, gpu: Gpu, step: Host, what: str) -> nccl.NcclCollective:
    attrs = cast("ops.CollectiveAttrs", step.attrs)
    groups = groups_of(attrs)
    place = ops.place_of(attrs.mesh, attrs.over, world.rank)
    dtype = step.input_types[0].dtype
    options = {"itemsize": dtype.itemsize, "scale": dtype.itemsize}
    if isinstance(attrs, ops.AllReduceAttrs | ops.ReduceScatterAttrs):
        parts = {"complex64": "float32", "complex128": "float64"}
        name = parts.get(dtype.name, dtype.name)
        if name not in nccl.TYPES or attrs.kind not in nccl.OPERATIONS:
            raise InternalError(f"no reduction {attrs.kind} of {dtype.name}, and yet a routine")
        options |= {"type": nccl.TYPES[name], "operation": nccl.OPERATIONS[attrs.kind]}
        options["scale"] = 1 + (name != dtype.name)
    if isinstance(attrs, ops.BroadcastAttrs):
        options["root"] = attrs.root
    if isinstance(attrs, ops.PermuteAttrs):
        options["source"] = next((a for a, b in attrs.pairs if b == place), -1)
        options["target"] = next((b for a, b in attrs.pairs if a == place), -1)
    members = ops.group_size(attrs.mesh, attrs.over)
    watched = members > 1 or current().keep_collectives  # who is alone waits for nobody
    own = _communicator(world, gpu, groups)
    return nccl.NcclCollective(
        step.op.name, own, members, place, what=what or step.op.name, watched=watched, **options
    )


def _communicator(world: World, gpu: Gpu, groups: Groups) -> int:
    key = groups, gpu.number
    if key not in _COMMUNICATORS:
        own = next(members for members in groups if world.rank in members)
        name = nccl.new_name() if own[0] == world.rank else b""
        where = f"{socket.gethostname()} {gpu.uuid}".encode()
        told = [each.split(b"\n", 1) for each in world.agree("NCCL's communicator", where + b"\n" + name)]
        _apart(own, [each[0].decode() for each in told])
        place = own.index(world.rank)
        _COMMUNICATORS[key] = nccl.communicator(gpu, told[own[0]][1], len(own), place)
    return _COMMUNICATORS[key]


def _apart(members: Sequence[int], where: Sequence[str]) -> None:
    """Every rank of a group has a GPU of its own."""
    owners: dict[str, int] = {}
    for rank in members:
        other = owners.setdefault(where[rank], rank)
        if other != rank:
            raise CollectiveError(
                f"ranks {other} and {rank} are on one GPU ({where[rank]})",
                remedy="give every rank its own: planish.settings(device=f'cuda:{planish.distributed.local_rank()}')",
            )


__all__ = ["carried"]
