"""Factorisations, solves and Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast


def _wide(x: V) -> V:
    """Narrow floats are computed with in 32 bits."""
    return cast(x, dtypes.float32) if x.dtype.is_float and x.dtype.bits < 32 else x


@lowering("stablehlo.cholesky")
def cholesky(at: Site, x: V, *, lower: bool = False) -> V:
    """The other triangle is implementation-defined: zeros here."""
    return cast(_wide(x).cholesky(lower), x.dtype)


@lowering("stablehlo.triangular_solve")
def triangular_solve(
    at: Site, a: V, b: V, *, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str
) -> V:
    transforms = {"NO_TRANSPOSE": "none", "TRANSPOSE": "transpose", "ADJOINT": "adjoint"}
    if transpose_a not in transforms:
        at.refuse(f"there is no transpose_a {transpose_a}")
    solution = _wide(a).triangular_solve(_wide(b), left_side, lower, transforms[transpose_a], unit_diagonal)
    return cast(solution, b.dtype)


@lowering("stablehlo.fft")
def fft(at: Site, x: V, *, fft_type: str, fft_length: Sequence[int]) -> V:
    axes = list(range(x.rank - len(fft_length), x.rank))
    if not axes:
        return x
    if fft_type == "IRFFT":
        return x.irfft(fft_length[-1], axes)
    forms = {"FFT": x.fft, "IFFT": x.ifft, "RFFT": x.rfft}
    if fft_type not in forms:
        at.refuse(f"there is no transform {fft_type}")
    return forms[fft_type](axes)
