"""Calls of functions outside of StableHLO, by name: LAPACK as jax calls it, notes about sharding, checks of test files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from planish import dtypes
from planish.errors import ShapeError
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.ptir.library.factorizations import (
    householder,
    householder_product,
    lu_solve,
    permutation_of,
    pivots_of,
)
from planish.ptir.library.shaping import tril, triu
from planish.stablehlo.ops import checks
from planish.stablehlo.ops.order import top_k
from planish.stablehlo.ops.windows import reduce_window
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

Config = Mapping[str, Any]
Target = Callable[..., Any]
_TARGETS: Final[dict[str, Target]] = {}
_NOTES: Final = {
    "called_computations", "custom_call_schedule", "error_message", "has_side_effect", "operand_layouts",
    "output_operand_aliases", "result_layouts",
}  # fmt: skip
"""Where arrays lie, and when: each target says itself what its operands mean."""


def _target(*names: str) -> Callable[[Target], Target]:
    def register(function: Target) -> Target:
        for name in names:
            _TARGETS[name] = function
        return function

    return register


def _lapack(*names: str) -> Callable[[Target], Target]:
    """A routine of LAPACK, for each letter of its element types."""
    return _target(*(f"lapack_{letter}{name}_ffi" for name in names for letter in "sdcz"))


@lowering("stablehlo.custom_call")
def custom_call(
    at: Site,
    *operands: Any,
    call_target_name: str,
    backend_config: Any = "",
    api_version: int = 1,
    **notes: Any,
) -> Any:
    known = _TARGETS.get(call_target_name)
    if known is None:
        at.refuse(
            f"nothing is known of the target {call_target_name!r}",
            "planish calls " + ", ".join(sorted(_TARGETS)),
        )
    config = backend_config if isinstance(backend_config, dict) else notes.get("mhlo.backend_config") or {}
    for name, value in notes.items():
        if name not in _NOTES and "." not in name:
            at.refuse(f"the attribute {name} = {value!r} is not known")
    return known(at, config, *operands)


# --- notes for other compilers ----------------------------------------------------------------------------


@_target(
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
)
def _identity(at: Site, config: Config, *operands: Any) -> Any:
    return operands


@_target("shape_assertion")
def _shape_assertion(at: Site, config: Config, condition: V, *sizes: V) -> list[Any]:
    """What jax.export asserts of sizes: where they are known it must hold."""
    known = [at.importer.sizes.integers(v, at.importer.frame) for v in at.op.operands]
    if known[0] is not None and not known[0][0]:
        told = str(at.op.attributes.get("error_message", "the sizes do not fit the exported function"))
        for number, size in enumerate(known[1:]):
            told = told.replace(f"{{{number}}}", "?" if size is None else str(size[0]))
        raise ShapeError(told.partition(" Please see")[0], op="shape_assertion", location=at.op.location)
    return []


@_target("stablehlo.dynamic_reduce_window")
def _dynamic_reduce_window(at: Site, config: Config, *operands: V) -> tuple[V, ...]:
    """A window whose sizes are operands: dims, strides, dilations of base and window, padding."""
    count = (len(operands) - 5) // 2
    dims, strides, base, dilations, flat = (at.sizes(2 * count + n) for n in range(5))
    (name,) = at.op.attributes["called_computations"]
    inner = Site(at.importer, replace(at.op, regions=[at.importer.module.functions[name.name].block]))
    window: dict[str, Any] = {
        "window_dimensions": dims,
        "window_strides": strides,
        "base_dilations": base,
        "window_dilations": dilations,
        "padding": list(zip(flat[::2], flat[1::2], strict=True)),
    }
    return reduce_window(inner, *operands[: 2 * count], **window)


# --- checks -----------------------------------------------------------------------------------------------


@_target("check.expect_eq")
def _expect_eq(at: Site, config: Config, x: V, y: V) -> list[V]:
    return checks.expect_eq(at, x, y)


@_target("check.expect_almost_eq", "check.expect_close")
def _expect_close(at: Site, config: Config, x: V, y: V) -> list[V]:
    return checks.expect_almost_eq(at, x, y)


@_target("check.eq")
def _check_eq(at: Site, config: Config, x: V, y: V) -> V:
    """As a result: whether all are close."""
    checks.expect_almost_eq(at, x, y)
    return at.importer.checks.pop()[1]


# --- order ------------------------------------------------------------------------------------------------


@_target("mhlo.topk", "stablehlo.dynamic_top_k")
def _top_k(at: Site, config: Config, x: V, *rest: V) -> tuple[V, V]:
    return top_k(at, x, k=at.dims_of(0)[-1])


# --- LAPACK -----------------------------------------------------------------------------------------------


def _letter(config: Config, name: str, default: str) -> str:
    letter = config.get(name, ord(default))
    return chr(letter) if isinstance(letter, int) else str(letter)[:1]


def _fine(at: Site, x: V) -> V:
    """No error, for each matrix."""
    return at.full(x.dims[:-2], 0, dtypes.int32)


@_lapack("potrf")
def _cholesky(at: Site, config: Config, x: V) -> tuple[V, V]:
    """The other triangle stays as it was; a matrix without a factor is told by 1."""
    lower = _letter(config, "uplo", "L") == "L"
    factor = x.cholesky(lower)
    wrong = factor.is_nan().reduce_or([x.rank - 2, x.rank - 1])
    other = triu(x, 1) if lower else tril(x, -1)
    return factor.add(other), cast(wrong, dtypes.int32)


@_lapack("getrf")
def _lu(at: Site, config: Config, x: V) -> tuple[V, V, V]:
    rows, columns = at.whole(x)[-2:]
    packed, permutation = x.lu()
    return packed, pivots_of(permutation, min(rows, columns)), _fine(at, x)


@_lapack("geqrf")
def _qr(at: Site, config: Config, x: V) -> tuple[V, ...]:
    packed, tau = householder(x)
    return (packed, tau, _fine(at, x))[: len(at.op.results)]


@_target("Qr")
def _qr_of_xla(at: Site, config: Config, x: V) -> tuple[V, V]:
    return householder(x)


@_lapack("orgqr", "ungqr")
def _reflections(at: Site, config: Config, x: V, tau: V) -> tuple[V, ...]:
    return (householder_product(x, tau), _fine(at, x))[: len(at.op.results)]


@_target("ProductOfElementaryHouseholderReflectors")
def _reflections_of_xla(at: Site, config: Config, x: V, tau: V) -> V:
    return householder_product(x, tau)


@_lapack("syevd", "heevd")
def _eigh(at: Site, config: Config, x: V) -> tuple[V, V, V]:
    values, vectors = x.eigh(_letter(config, "uplo", "L") == "L")
    return vectors, values, _fine(at, x)


@_lapack("gesdd", "gesvd")
def _svd(at: Site, config: Config, x: V) -> tuple[V, ...]:
    """The operand overwritten, the values, u and vᴴ, no error; how much of u and vᴴ is said by the mode."""
    mode = _letter(config, "mode", "A")
    if mode == "N":
        (values,) = x.svd(compute_uv=False)
        empty = [at.full(at.dims_of(n), 0, x.dtype) for n in (2, 3)]
        return x, values, *empty, _fine(at, x)
    left, values, right = x.svd(mode == "A")
    return x, values, left, right, _fine(at, x)


@_lapack("trsm")
def _triangular(at: Site, config: Config, a: V, b: V, *alpha: V) -> V:
    transforms = {"N": "none", "T": "transpose", "C": "adjoint"}
    return a.triangular_solve(
        b,
        _letter(config, "side", "L") == "L",
        _letter(config, "uplo", "L") == "L",
        transforms[_letter(config, "trans_x", "N")],
        _letter(config, "diag", "N") == "U",
    )


@_lapack("gtsv")
def _tridiagonal(at: Site, config: Config, lower: V, middle: V, upper: V, b: V) -> tuple[V, ...]:
    """By a dense solve: rows are exchanged where they must be."""
    size = middle.dims[-1]
    dims = (*middle.dims, size)
    rank = len(dims)
    row, column = (at.graph.iota(dims, a, dtypes.int64) for a in (rank - 2, rank - 1))

    def band(x: V, offset: int) -> V:
        return column.eq(row.add(offset)).select(
            spread(x.expand_dims(x.rank), dims), at.full(dims, 0, x.dtype)
        )

    matrix = band(lower, -1).add(band(middle, 0)).add(band(upper, 1))
    solution = lu_solve(*matrix.lu(), b)
    return lower, middle, upper, solution, _fine(at, matrix)


@_target("LuDecomposition")
def _lu_of_xla(at: Site, config: Config, x: V) -> tuple[V, V, V]:
    packed, permutation = x.lu()
    rows, columns = at.whole(x)[-2:]
    return packed, pivots_of(permutation, min(rows, columns)).sub(1), cast(permutation, dtypes.int32)


@_target("LuPivotsToPermutation", "cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation")
def _permutation(at: Site, config: Config, pivots: V) -> V:
    return cast(permutation_of(pivots.add(1), at.dims[-1]), dtypes.int32)
