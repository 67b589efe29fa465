"""Factorisations of symmetric matrices that are not positive definite (L·D·Lᵀ with pivots), by the LAPACK that NumPy came with.

PTIR has no such op: these are calls of functions outside of it, a matrix at a time. Where there is no LAPACK, torch does it.
"""

from __future__ import annotations

from planish import dtypes
from planish.compiler.symmetric import FACTOR, SOLVE, has_ldl
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.ptir.library.shaping import broadcast_dims
from planish.ptir.types import TensorType
from planish.torch.registry import lowering
from planish.torch.site import FxSite


@lowering("aten.linalg_ldl_factor_ex")
def linalg_ldl_factor_ex(
    at: FxSite, x: V, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[V, V, V]:
    _check(at, x)
    types = (
        TensorType(x.dtype, x.dims),
        TensorType(dtypes.int32, x.dims[:-1]),
        TensorType(dtypes.int32, x.dims[:-2]),
    )
    packed, pivots, info = at.graph.custom_call(FACTOR, [x], types, config={"hermitian": hermitian})
    return packed, pivots, info


@lowering("aten.linalg_ldl_solve")
def linalg_ldl_solve(at: FxSite, packed: V, pivots: V, rhs: V, *, hermitian: bool = False) -> V:
    _check(at, packed)
    lead = broadcast_dims(packed.dims[:-2], rhs.dims[:-2])
    given = [
        spread(packed, (*lead, *packed.dims[-2:])),
        spread(pivots, (*lead, pivots.dims[-1])),
        spread(rhs, (*lead, *rhs.dims[-2:])),
    ]
    kind = TensorType(rhs.dtype, given[2].dims)
    return at.graph.custom_call(SOLVE, given, [kind], config={"hermitian": hermitian})[0]


def _check(at: FxSite, x: V) -> None:
    if not has_ldl(x.dtype):
        raise at.refuse(f"NumPy's LAPACK has none for {x.dtype}")
    if not all(isinstance(size, int) for size in x.dims):
        raise at.refuse("matrices whose size has a name")
