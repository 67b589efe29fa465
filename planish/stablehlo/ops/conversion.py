"""Constants, and elements of one type as elements of another."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import Dense, QuantizedElement

_WORDS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


@lowering("stablehlo.constant", "chlo.constant", elementwise=True)
def constant(at: Site, *, value: Dense) -> V:
    element = value.type.element
    if isinstance(element, QuantizedElement):
        return at.graph.constant(value.full(), element.storage)
    if not value.array.ndim:
        if value.array == value.array:
            return at.graph.full(at.dims, value.array.item(), element)
        # a NaN has more bits than a Python number tells
        return at.graph.constant(value.array, element).broadcast_to(at.dims)
    return at.graph.constant(value.array, element)


@lowering("stablehlo.convert", elementwise=True)
def convert(at: Site, x: V) -> V:
    return cast(x, at.dtype)


@lowering("stablehlo.bitcast_convert")
def bitcast_convert(at: Site, x: V) -> V:
    if at.dtype is x.dtype:
        return x
    if x.dtype.is_bool or at.dtype.is_bool:
        if x.dtype.bits == at.dtype.bits or {x.dtype.itemsize, at.dtype.itemsize} == {1}:
            return cast(x, at.dtype)
        at.refuse("bools have no bits to read as another type")
    return x.bitcast(at.dtype)


@lowering("stablehlo.reduce_precision", elementwise=True)
def reduce_precision(at: Site, x: V, *, exponent_bits: int, mantissa_bits: int) -> V:
    """The nearest number with so many bits, half to even; below its normal numbers there is 0, above its largest infinity."""
    form = dtypes.float_format(x.dtype)
    own_mantissa = form.precision - 1
    own_exponent = x.dtype.bits - 1 - own_mantissa
    word = _WORDS[x.dtype.bits]
    bits = x.bitcast(word)
    if mantissa_bits < own_mantissa:
        dropped = own_mantissa - mantissa_bits
        odd = bits.shr_logical(dropped).and_(1)
        rounded = bits.add(odd).add((1 << (dropped - 1)) - 1)
        bits = rounded.and_(((1 << x.dtype.bits) - 1) ^ ((1 << dropped) - 1))
    if exponent_bits < own_exponent:
        bits = _within(bits, word, own_exponent, own_mantissa, exponent_bits)
    # without a mantissa there are no NaNs: they become infinite
    nan = x if mantissa_bits else at.full(at.dims, inf, x.dtype)
    return x.is_nan().select(nan, bits.bitcast(x.dtype))


def _within(bits: V, word: DType, own: int, mantissa: int, exponent_bits: int) -> V:
    bias = (1 << (own - 1)) - 1
    reduced = (1 << (exponent_bits - 1)) - 1
    top = 1 << (word.bits - 1)
    infinity = ((1 << own) - 1) << mantissa
    exponent = bits.and_(infinity)
    sign = bits.and_(top)
    high = exponent.gt((bias + reduced) << mantissa)
    low = exponent.le((bias - reduced) << mantissa)
    return high.select(sign.or_(infinity), low.select(sign, bits))


@lowering("stablehlo.optimization_barrier")
def optimization_barrier(at: Site, *operands: V) -> tuple[V, ...]:
    return operands


@lowering("stablehlo.tuple")
def tuple_(at: Site, *operands: Any, xla_shape: Any = None) -> tuple[Any, ...]:
    return operands


@lowering("stablehlo.get_tuple_element")
def get_tuple_element(at: Site, operand: tuple[Any, ...], *, index: int) -> Any:
    return operand[index]


@lowering("stablehlo.create_token", "stablehlo.after_all")
def token(at: Site, *operands: Any) -> None:
    """An order of effects: there are none."""
