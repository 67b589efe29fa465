"""Collectives as routines: what a plan gives the C that calls MPI, for each op.

A routine has the addresses of what is given and made (and room to put parts in order, where an axis other than the first is cut or
joined), a key that says which collective this is, and twice the sizes before an axis and from a part of it on. Data that only moves goes as bytes, so every dtype
does; a reduction needs a type that MPI reduces, and where there is none the op is left to Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, cast

from planish.dtypes import DType
from planish.ptir.dims import DimLike, product
from planish.ptir.ops import collective as ops
from planish.ptir.ops.definition import Attrs, OpKey
from planish.ptir.types import TensorType
from planish.records import dataclass
from planish.schedule.plan import Host, Plan, RoutineCall, walk

KINDS: Final = {
    name: number
    for number, name in enumerate(
        ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast", "mesh_index")
    )
}
"""As the C counts them."""


def collectives_in(plan: Plan) -> list[Host]:
    """The steps of a plan that need other ranks."""
    return [step for step in walk(plan.steps) if isinstance(step, Host) and step.op.key is OpKey.COLLECTIVE]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction by the names that MPI has for its type and op, or that the C has."""

    type: str
    op: str


_TYPES: Final = {
    "float32": "FLOAT", "float64": "DOUBLE", "complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX", "bool": "UINT8_T",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}_T" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_OPS: Final = {"sum": "SUM", "prod": "PROD", "max": "MAX", "min": "MIN", "and": "BAND", "or": "BOR"}


def reduction_of(kind: str, dtype: DType) -> Reduction | None:
    """How MPI combines elements; None if it cannot."""
    type = _TYPES.get(dtype.name)
    if type is None or kind not in _OPS:
        return None
    if dtype.is_float and kind in ("max", "min"):
        return Reduction(type, f"collective_{kind}_{dtype.name}")  # MPI's own lose NaN
    return Reduction(type, _OPS[kind])


def key_of(op: str, attrs: Attrs, given: Sequence[TensorType]) -> int:
    """What a plan calls a collective by: the same in every process, and never 0."""
    text = f"{op} {attrs!r} {[type.dtype.name for type in given]}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 2 | 1


def _around(type: TensorType, axis: int) -> tuple[DimLike, DimLike]:
    """The sizes before an axis, and from it on."""
    return product(type.dims[:axis]), product(type.dims[axis:])


def _sizes(
    op: str, attrs: Attrs, given: TensorType, members: int
) -> tuple[DimLike, DimLike, DimLike, DimLike]:
    """Outer and inner of what is given, and of what comes out."""
    whole = product(given.dims)
    if isinstance(attrs, ops.AllGatherAttrs):
        return 1, whole, *_around(given, attrs.axis)
    if isinstance(attrs, ops.ReduceScatterAttrs):
        outer, inner = _around(given, attrs.axis)
        return outer, inner // members, 1, 0
    if isinstance(attrs, ops.AllToAllAttrs):
        outer, inner = _around(given, attrs.split)
        part = list(given.dims)
        part[attrs.split] = part[attrs.split] // members
        return outer, inner // members, product(part[: attrs.concat]), product(part[attrs.concat :])
    return 1, whole, 1, 0


def collective(
    op: str,
) -> Callable[[Attrs, Sequence[TensorType], Sequence[TensorType]], tuple[RoutineCall, DimLike] | None]:
    """The call of a collective, and the bytes of room it needs."""

    def find(
        attrs: Attrs, given: Sequence[TensorType], made: Sequence[TensorType]
    ) -> tuple[RoutineCall, DimLike] | None:
        key = key_of(op, attrs, given)
        if op == "mesh_index":
            return RoutineCall("collective.index", (key,), fails=True), 0
        of = cast("ops.CollectiveAttrs", attrs)
        if (
            isinstance(of, ops.AllReduceAttrs | ops.ReduceScatterAttrs)
            and reduction_of(of.kind, given[0].dtype) is None
        ):
            return None
        members = ops.group_size(of.mesh, of.over)
        sizes = _sizes(op, attrs, given[0], members)
        parted = op in ("reduce_scatter", "all_to_all") and sizes[0] != 1
        joined = op in ("all_gather", "all_to_all") and sizes[2] != 1
        room = (
            product((sizes[0], sizes[1], members, given[0].dtype.itemsize, parted + joined))
            if members > 1
            else 0
        )
        if isinstance(room, int) and room == 0:
            return RoutineCall("collective", (key, *sizes), fails=True), 0
        return RoutineCall("collective.packed", (key, *sizes), fails=True), room

    return find
