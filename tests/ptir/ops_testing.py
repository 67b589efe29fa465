"""Shared by the op tests: run one op and check inference against evaluation; sample data; bit comparison."""

from __future__ import annotations

import math

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError
from planish.ptir import ops
from planish.ptir.types import TensorType


def types_of(arrays):
    return [TensorType(dtypes.from_numpy(np.asarray(a).dtype), np.asarray(a).shape) for a in arrays]


def by_name(dtype_set) -> list[DType]:
    """The dtypes of a class in a fixed order, for test ids."""
    return sorted(dtype_set, key=lambda d: d.name)


def evaluate(op, operands, attrs, types):
    """Evaluation alone, for types that arrays do not show (quantised, dynamic)."""
    return op.evaluate([np.asarray(x) for x in operands], attrs, types)


def run_all(op, *operands, attrs=ops.NO_ATTRS):
    """All results; every one must have the inferred shape and dtype."""
    arrays = [np.asarray(a) for a in operands]
    before = [a.tobytes() for a in arrays]
    inferred = op.result_types(types_of(arrays), attrs)
    results = op.evaluate(arrays, attrs, inferred)
    assert len(results) == len(inferred)
    for result, wanted in zip(results, inferred, strict=True):
        assert isinstance(result, np.ndarray)
        assert result.shape == wanted.dims, (op.name, result.shape, wanted)
        assert result.dtype == wanted.dtype.numpy, (op.name, result.dtype, wanted)
    assert [a.tobytes() for a in arrays] == before, f"{op.name} changed an operand"
    return results


def run(op, *arrays, attrs=ops.NO_ATTRS):
    (result,) = run_all(op, *arrays, attrs=attrs)
    return result


def accepts(op, dtype: DType, arity: int, attrs=ops.NO_ATTRS) -> bool:
    try:
        op.result_types([TensorType(dtype, (2,))] * arity, attrs)
    except DTypeError:
        return False
    return True


def python_values(array):
    """Plain Python numbers, exactly."""
    dtype = dtypes.from_numpy(array.dtype)
    convert = bool if dtype.is_bool else int if dtype.is_int else complex if dtype.is_complex else float
    return [convert(v) for v in array.ravel()]


def make(dtype: DType, values, shape=None):
    """An array of constants of the dtype (floats rounded, integers wrapped)."""
    if dtype.is_int:
        items = [dtype.wrap(int(v)) for v in values]
        wide = np.array(items, np.int64 if dtype.is_signed else np.uint64)
    elif dtype.is_bool:
        wide = np.array([bool(v) for v in values])
    else:
        wide = np.array([dtype.const(v) for v in values], np.complex128 if dtype.is_complex else np.float64)
    array = wide.astype(dtype.numpy)
    return array if shape is None else array.reshape(shape)


SMALL_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.25, -7.0, 0.1, 100.0, -0.375, 6.5]
SPECIAL_FLOATS = [math.inf, -math.inf, math.nan, 1e-3, -1e-3, 3e4, 1e-40, 1e300, -1e-300]


def samples(dtype: DType, *, special: bool = True):
    """A list of interesting values of a dtype."""
    if dtype.is_bool:
        return make(dtype, [0, 1])
    if dtype.is_int:
        low, high = int(dtype.min or 0), int(dtype.max or 0)
        return make(dtype, [0, 1, 2, 3, 5, -1, -2, -7, low, low + 1, high, high - 1, high // 3])
    if dtype.is_complex:
        return make(dtype, [0, 1, -1, 1j, 0.5 + 2j, -1.5 - 0.25j, 3 - 4j, 0.1 + 0.2j])
    return make(dtype, SMALL_FLOATS + (SPECIAL_FLOATS if special else []))


def random_array(rng, dtype: DType, shape):
    """Small numbers, exact in every dtype, so that sums can be compared exactly."""
    size = int(np.prod(shape))
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    numbers = rng.integers(0 if dtype.is_unsigned else -4, 5, size)
    if dtype.is_complex:
        return make(dtype, numbers + 1j * rng.integers(-3, 4, size), shape)
    return make(dtype, [int(n) for n in numbers], shape)


def same(left, right) -> bool:
    """Equal bits, any NaN equal to any other."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    for a, b in zip(python_values(left), python_values(right), strict=True):
        if isinstance(a, complex):
            if not all(_same_float(x, y) for x, y in ((a.real, b.real), (a.imag, b.imag))):
                return False
        elif isinstance(a, float):
            if not _same_float(a, b):
                return False
        elif a != b:
            return False
    return True


def _same_float(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def check(result, expected):
    """Assert `same` with a readable message."""
    expected = np.asarray(expected)
    assert same(result, expected), f"\n{result!r}\n{expected!r}"


def ulps(a: float, b: float, dtype: DType) -> float:
    """The distance of two floats in units of the last place of the dtype."""
    if math.isnan(a) or math.isnan(b):
        return 0.0 if math.isnan(a) and math.isnan(b) else math.inf
    if a == b:
        return 0.0
    if math.isinf(a) or math.isinf(b):
        return math.inf
    form = dtypes.float_format(dtype)
    exponent = math.frexp(max(abs(a), abs(b)))[1]
    return abs(a - b) / math.ldexp(1.0, max(exponent - form.precision, form.least))
