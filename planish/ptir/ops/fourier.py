"""Discrete Fourier transforms over any axes: fft, ifft, rfft, irfft. Host ops (semantics 14.5)."""

from __future__ import annotations

from typing import Final

import numpy as np

from planish import dtypes
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.checking import COMPLEX, shape_error
from planish.ptir.ops.literal import Array
from planish.ptir.types import DimLike, TensorType, bounds
from planish.records import dataclass

_REAL: Final[checking.DTypeSet] = frozenset({dtypes.float32, dtypes.float64})


@dataclass(frozen=True, slots=True)
class FftAttrs(d.Attrs):
    """The axes transformed; of a real transform the last one is halved."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IrfftAttrs(d.Attrs):
    """The axes transformed, and the real size of the last one, of which the operand holds about half."""

    axes: tuple[int, ...]
    length: DimLike


def _check_axes(op: str, operand: TensorType, axes: tuple[int, ...]) -> None:
    checking.need_axes(op, axes, operand.rank)
    if not axes:
        shape_error(op, "no axis is transformed", "name at least one")
    for axis in axes:
        if bounds(operand.dims[axis])[0] == 0:
            shape_error(op, f"axis {axis} of {operand} may be empty")


def _as_given(array: Array) -> Array:
    """Single precision is transformed in single precision, as NumPy does; narrower dtypes in double."""
    return array if array.dtype.itemsize >= 4 and array.dtype.kind in "fc" else numerics.as_float64(array)


def _complex_fft(name: str, transform: str, doc: str) -> d.OpDef:
    """`transform`: what NumPy calls it, in a module that it loads when somebody asks for it."""

    def infer(types: d.Types, attrs: FftAttrs, regions: d.Regions) -> d.ResultTypes:
        checking.need_dtype(name, types[0], COMPLEX)
        _check_axes(name, types[0], attrs.axes)
        return (types[0],)

    @numerics.quiet
    def evaluate(arrays: d.Arrays, attrs: FftAttrs, types: d.Types) -> d.Results:
        result = getattr(np.fft, transform)(_as_given(arrays[0]), axes=attrs.axes)
        return (numerics.convert(result, types[0].dtype),)

    return d.define(
        name, d.OpKey.FFT, FftAttrs, arity=1, infer=infer, evaluate=evaluate, way=d.Way.HOST, doc=doc
    )


fft: Final = _complex_fft("fft", "fftn", "Forward transform, unnormalised.")
ifft: Final = _complex_fft("ifft", "ifftn", "Backward transform, divided by the product of the sizes.")


@numerics.quiet
def _evaluate_rfft(arrays: d.Arrays, attrs: FftAttrs, types: d.Types) -> d.Results:
    result = np.fft.rfftn(_as_given(arrays[0]), axes=attrs.axes)
    return (numerics.convert(result, types[0].dtype),)


@d.op(d.OpKey.FFT, evaluate=_evaluate_rfft, way=d.Way.HOST)
def rfft(types: d.Types, attrs: FftAttrs, regions: d.Regions) -> d.ResultTypes:
    """Forward transform of real data; the last axis keeps its nonnegative frequencies."""
    operand = types[0]
    checking.need_dtype("rfft", operand, _REAL)
    _check_axes("rfft", operand, attrs.axes)
    dims = list(operand.dims)
    dims[attrs.axes[-1]] = operand.dims[attrs.axes[-1]] // 2 + 1
    dtype = dtypes.complex64 if operand.dtype is dtypes.float32 else dtypes.complex128
    return (TensorType(dtype, tuple(dims)),)


@numerics.quiet
def _evaluate_irfft(arrays: d.Arrays, attrs: IrfftAttrs, types: d.Types) -> d.Results:
    sizes = [types[0].shape[axis] for axis in attrs.axes]
    result = np.fft.irfftn(_as_given(arrays[0]), s=sizes, axes=attrs.axes)
    return (numerics.convert(result, types[0].dtype),)


@d.op(d.OpKey.FFT, evaluate=_evaluate_irfft, way=d.Way.HOST)
def irfft(types: d.Types, attrs: IrfftAttrs, regions: d.Regions) -> d.ResultTypes:
    """Backward transform to real data of a given length."""
    operand = types[0]
    checking.need_dtype("irfft", operand, COMPLEX)
    _check_axes("irfft", operand, attrs.axes)
    last = attrs.axes[-1]
    if bounds(attrs.length)[0] < 1 or operand.dims[last] != attrs.length // 2 + 1:
        shape_error(
            "irfft",
            f"axis {last} of {operand} does not hold the {attrs.length // 2 + 1} frequencies of length {attrs.length}",
            "pad or slice it first",
        )
    dims = (*operand.dims[:last], attrs.length, *operand.dims[last + 1 :])
    return (TensorType(numerics.part_dtype(operand.dtype), dims),)
