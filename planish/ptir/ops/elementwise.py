"""What makes an op elementwise: operands of one dtype and one shape, each element computed alone by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking, numerics
from planish.ptir.ops import definition as d
from planish.ptir.ops.literal import Array
from planish.ptir.types import TensorType
from planish.scalars import Scalar, conversion
from planish.scalars.meanings import INTEGER

Compute = Callable[..., Array]
_KEYS = {1: d.OpKey.ELEMENTWISE_UNARY, 2: d.OpKey.ELEMENTWISE_BINARY, 3: d.OpKey.ELEMENTWISE_TERNARY}


def same(dtype: DType) -> DType:
    return dtype


def boolean(dtype: DType) -> DType:
    return dtypes.bool_


def exact(function: Compute) -> Compute:
    """Computed in the type itself (float32 for narrow floats): one rounding by construction."""
    return lambda *arrays: function(*map(numerics.widen, arrays))


def smooth(function: Compute) -> Compute:
    """Computed in float64, so that float32 and narrower results are rounded once from a much better one."""
    return lambda *arrays: function(*map(numerics.as_float64, arrays))


def integer(name: str) -> Compute:
    """On integers of any width, wrapped: what the kernel IR means by an op of that name too."""
    meaning = INTEGER[name]

    def compute(*arrays: Array) -> Array:
        dtype = numerics.dtype_of(arrays[0])
        values = meaning(dtype, *(conversion.load(array, dtype) for array in arrays))
        return np.asarray(conversion.store(conversion.settle(dtype, values), dtype))

    return compute


def elementwise(
    name: str,
    allowed: checking.DTypeSet,
    compute: Compute,
    *,
    arity: int = 1,
    result: Callable[[DType], DType] = same,
    key: d.OpKey | None = None,
    **traits: Any,
) -> d.OpDef:
    """Define an op whose operands have one type, and whose result has their shape; `traits` are fields of `OpDef`."""

    def infer(types: d.Types, attrs: d.NoAttrs, regions: d.Regions) -> d.ResultTypes:
        first = types[0]
        if arity > 1 and types[1] is not first:
            checking.need_same_dtype(name, types)
            checking.need_same_dims(name, types)
        checking.need_dtype(name, first, allowed)
        dtype = result(first.dtype)
        return (first,) if dtype is first.dtype else (TensorType(dtype, first.dims),)

    @numerics.quiet
    def evaluate(arrays: d.Arrays, attrs: d.NoAttrs, types: d.Types) -> d.Results:
        return (numerics.convert(np.asarray(compute(*arrays)), types[0].dtype),)

    family = key or _KEYS[arity]
    return d.define(
        name, family, d.NoAttrs, arity=arity, infer=infer, evaluate=evaluate, elementwise=True, **traits
    )


def function(of: Scalar) -> d.OpDef:
    """Define the op of a scalar function."""
    return elementwise(
        of.name,
        checking.CLASSES[of.takes],
        (exact if of.exact else smooth)(of.compute),
        arity=of.arity,
        commutative=of.commutative,
        idempotent=of.idempotent,
        doc=of.doc,
    )
