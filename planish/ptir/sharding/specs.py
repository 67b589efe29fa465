"""Specs: how a tensor is cut over a mesh, what one rank has of it, and what it costs to go from one spec to another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from planish.ptir.function import Value
from planish.ptir.ops.collective import MeshAxes, SpecAxes, group_size
from planish.ptir.ops.definition import OpKey
from planish.ptir.types import DimLike, TensorType


def whole(rank: int) -> SpecAxes:
    """The spec of a tensor that every rank has all of."""
    return ((),) * rank


def can_cut(mesh: MeshAxes, size: DimLike, names: Sequence[str]) -> bool:
    """Whether an axis of a size can be cut along axes of the mesh: into equal parts that are not empty."""
    return not names or (isinstance(size, int) and size > 0 and size % group_size(mesh, names) == 0)


def local_type(mesh: MeshAxes, type: TensorType, spec: SpecAxes) -> TensorType:
    """What one rank has of a tensor."""
    dims = [
        dim // group_size(mesh, names) if names and isinstance(dim, int) else dim
        for dim, names in zip(type.dims, spec, strict=True)
    ]
    return type.with_dims(dims)


def is_remade(value: Value) -> bool:
    """Whether a value is cheaper made again than cut: a constant of one number, a count, one number repeated."""
    inst = value.def_inst
    if inst is None or inst.op.key not in (OpKey.CONSTANT, OpKey.IOTA, OpKey.BROADCAST_TO):
        return False
    if inst.op.key is OpKey.BROADCAST_TO:
        return all(dim == 1 for dim in inst.operands[0].type.dims)
    return inst.op.key is OpKey.IOTA or (value.literal is not None and value.literal.splat)


def bytes_of(type: TensorType) -> int:
    """The size of a value; named sizes count as their largest."""
    return math.prod(type.max_shape) * type.dtype.itemsize


class ReshardStep(NamedTuple):
    """One step from a spec to another: a collective, or a slice (`kind`), along axes of the tensor and of the mesh."""

    kind: str
    axis: int
    over: tuple[str, ...]
    to: int = -1
    """Where an exchange goes."""


def steps(old: SpecAxes, new: SpecAxes) -> list[ReshardStep]:
    """How to get from a spec to another: exchange what moves to another axis, gather what is too much, cut the rest."""
    plan: list[ReshardStep] = []
    now = [list(names) for names in old]
    for axis, names in enumerate(new):
        while not _begins(now[axis], names):
            last = now[axis][-1]
            target = next(
                (
                    to
                    for to, wanted in enumerate(new)
                    if to != axis and [*now[to], last] == [*wanted[: len(now[to]) + 1]]
                ),
                None,
            )
            if target is not None:
                plan.append(ReshardStep("exchange", axis, (last,), target))
                now[target].append(now[axis].pop())
                continue
            over: list[str] = []
            while not _begins(now[axis], names) and not (over and _moves(now, new, axis)):
                over.insert(0, now[axis].pop())
            plan.append(ReshardStep("gather", axis, tuple(over)))
    cut = [
        ReshardStep("cut", axis, tuple(names[len(now[axis]) :]))
        for axis, names in enumerate(new)
        if len(names) > len(now[axis])
    ]
    return plan + cut


def _begins(names: Sequence[str], wanted: Sequence[str]) -> bool:
    return list(names) == list(wanted[: len(names)])


def _moves(now: list[list[str]], new: SpecAxes, axis: int) -> bool:
    """Whether the last name of an axis can go where it is wanted."""
    last = now[axis][-1]
    return any(
        to != axis and [*now[to], last] == [*wanted[: len(now[to]) + 1]] for to, wanted in enumerate(new)
    )


def moved_bytes(mesh: MeshAxes, held: float, old: SpecAxes, new: SpecAxes) -> float:
    """The bytes that each rank receives on the way to another spec, if it has `held` of them."""
    if old == new:
        return 0.0
    total = 0.0
    for step in steps(old, new):
        count = group_size(mesh, step.over)
        if step.kind == "gather":
            total += held * (count - 1)
            held *= count
        elif step.kind == "exchange":
            total += held * (count - 1) / count
        else:
            held /= count
    return total
