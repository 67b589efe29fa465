"""Collectives as routines: what a plan gives whoever carries them, MPI or NCCL.

A routine has the addresses of what is given and made, a key that says which collective this is, how many elements a rank gives each other, and a ticket by
which the plan waits for it (`overlap`), or 0. Data that only moves goes as bytes, so every dtype does. The axes and dtypes that there are by now are those that
are carried (`ptir.library.carried`); others, of a program that was not expanded, are left to Python.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, cast

from planish.dtypes import DType
from planish.ptir.dims import product
from planish.ptir.function import Inst
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


def is_met(inst: Inst) -> bool:
    """Whether ranks meet in an instruction."""
    return inst.op.key is OpKey.COLLECTIVE and inst.op.host and inst.op.name != "mesh_index"


def collectives_in(plan: Plan) -> list[Host]:
    """The steps of a plan that need other ranks."""
    return [step for step in walk(plan.steps) if isinstance(step, Host) and step.op.key is OpKey.COLLECTIVE]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction by the names that MPI has for its type and op."""

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
    loses_nan = dtype.is_float and kind in ("max", "min")
    return None if type is None or kind not in _OPS or loses_nan else Reduction(type, _OPS[kind])


def key_of(op: str, attrs: Attrs, given: Sequence[TensorType]) -> int:
    """What a plan calls a collective by: the same in every process, and never 0."""
    text = f"{op} {attrs!r} {[type.dtype.name for type in given]}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 2 | 1


def collective(op: str) -> Callable[[Attrs, Sequence[TensorType], Sequence[TensorType]], RoutineCall | None]:
    """The call of a collective; None if Python has to do it."""

    def find(attrs: Attrs, given: Sequence[TensorType], results: Sequence[TensorType]) -> RoutineCall | None:
        key = key_of(op, attrs, given)
        if op == "mesh_index":
            return RoutineCall("collective.index", (key,), fails=True)
        of = cast("ops.CollectiveAttrs", attrs)
        if any(getattr(of, name, 0) for name in ("axis", "split", "concat")):
            return None
        count = product(given[0].dims)
        if op in ("reduce_scatter", "all_to_all"):
            count = count // ops.group_size(of.mesh, of.over)
        kind = getattr(of, "kind", None)
        plain = kind is None or reduction_of(kind, given[0].dtype) is not None
        return RoutineCall("collective" if plain else "collective.half", (key, count, 0), fails=True)

    return find
