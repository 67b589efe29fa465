"""Layers as functions of tensors: convolution, pooling, resizing, normalisation, recurrence, attention, random bits.

What `planish.ptir.library` and single PTIR ops offer, brought to tensors for `nn` and `random`, which know the Tensor API
alone. Arguments are checked by those who call; here they are complete: one entry per spatial axis, None for what is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, overload

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.frontend.storage import Array
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.composite import composite, composites
from planish.frontend.tensor.operands import cast_to, from_data
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import (
    activations,
    losses,
    normalize,
    pooling,
    random_bits,
    recurrent,
    resize,
    sampling,
    shaping,
)
from planish.ptir.library import attention as attentions
from planish.ptir.ops import random as reference
from planish.ptir.ops.contract import ConvolutionAttrs, default_accumulator

_SPACE: Final = "XYZ"
"""Letters of spatial axes."""

# --- activations and losses -------------------------------------------------------------------------------


def activation(name: str, x: Tensor, **options: Hashable) -> Tensor:
    """A function of `planish.ptir.library.activations`."""
    return composite(getattr(activations, name), x, **options)


def loss(name: str, *tensors: Tensor | None, **options: Hashable) -> Tensor:
    """A function of `planish.ptir.library.losses`, element by element."""
    return composite(getattr(losses, name), *tensors, **options)


def cosine_similarity(x: Tensor, y: Tensor, axis: int, epsilon: float) -> Tensor:
    """The cosine of the angle between vectors along an axis."""
    return composite(losses.cosine_similarity, x, y, axis=axis, epsilon=epsilon)


def softmax(x: Tensor, axis: int) -> Tensor:
    """eˣ over its sum along an axis."""
    return composite(normalize.softmax, x, axis=axis)


def log_softmax(x: Tensor, axis: int) -> Tensor:
    """Its logarithm."""
    return composite(normalize.log_softmax, x, axis=axis)


def logsumexp(x: Tensor, axes: int | tuple[int, ...], keepdims: bool) -> Tensor:
    """log Σ eˣ over axes."""
    return composite(normalize.logsumexp, x, axes=axes, keepdims=keepdims)


# --- compositions -----------------------------------------------------------------------------------------


@overload
def on_tensors(function: Callable[..., GraphValue], **fixed: Hashable) -> Callable[..., Tensor]: ...
@overload
def on_tensors(
    function: Callable[..., tuple[GraphValue, ...]], **fixed: Hashable
) -> Callable[..., tuple[Tensor, ...]]: ...
def on_tensors(function: Callable[..., Any], **fixed: Hashable) -> Callable[..., Any]:
    """A composition as a function of tensors. What is a tensor in a call is an operand, all else an option."""
    names = tuple(inspect.signature(function).parameters)

    def call(*args: Any, **options: Any) -> Any:
        given = {**fixed, **dict(zip(names, args, strict=False)), **options}
        operands = {name: given.pop(name) for name in names if isinstance(given.get(name), Tensor)}
        results = composites(
            _by_name, *operands.values(), _function=function, _operands=tuple(operands), **given
        )
        return results[0] if len(results) == 1 else results

    call.__name__, call.__doc__ = function.__name__.strip("_"), function.__doc__
    return call


def _by_name(
    *operands: GraphValue, _function: Callable[..., Any], _operands: Sequence[str], **options: Any
) -> Any:
    return _function(**dict(zip(_operands, operands, strict=True)), **options)


# --- random bits ------------------------------------------------------------------------------------------


def rng_bits(key: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Random words of an unsigned dtype, a pure function of the key and the position."""
    return Tensor.apply(ops.rng_bits, key, attrs=ops.RngBitsAttrs(dtype, shape))


def threefry2x32(key: Tensor, high: Tensor, low: Tensor) -> tuple[Tensor, Tensor]:
    """Blocks of two uint32 enciphered under a key of two uint32."""
    first, second = composites(random_bits.threefry2x32, key, high, low)
    return first, second


def drawn_keys(key: Tensor, purpose: int, numbers: Array | Tensor) -> Tensor:
    """A key of two uint32 for each number of 64 bits: its block, enciphered under the key changed by a purpose.

    Of a key and numbers that are known it is known at once, so that keys are data wherever they can be.
    """
    known = key._known
    if known is not None and isinstance(numbers, np.ndarray):
        changed = known ^ np.array([purpose, 0], np.uint32)
        with np.errstate(over="ignore"):
            words = reference.threefry2x32(
                changed, (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)
            )
        result = from_data(np.stack(words, axis=-1))
        result._value.device = key._device
        return result
    if not isinstance(numbers, Tensor):
        numbers = from_data(np.array(numbers, order="C"))
    changed_key = key ^ from_data(np.array([purpose, 0], np.uint32))
    high = cast_to(fn.bitwise_right_shift(numbers, 32), dtypes.uint32)
    return fn.stack(threefry2x32(changed_key, high, cast_to(numbers, dtypes.uint32)), axis=-1)


def bitcast(x: Tensor, dtype: DType) -> Tensor:
    """The same bits as elements of another dtype of that width."""
    return Tensor.apply(ops.bitcast, x, attrs=ops.BitcastAttrs(dtype))


# --- convolution ------------------------------------------------------------------------------------------


def convolution(
    x: Tensor,
    weight: Tensor,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    spread: Sequence[int] | None = None,
) -> Tensor:
    """Cross-correlation of (N, C, …) with (O, C/groups, …). `spread` puts its elements apart first, zeros between."""
    space = _SPACE[: x.ndim - 2]
    attrs = ConvolutionAttrs(
        tuple(strides),
        tuple(low for low, _ in padding),
        tuple(high for _, high in padding),
        (1,) * len(space) if spread is None else tuple(spread),
        tuple(dilation),
        groups,
        f"NC{space}",
        f"OI{space}",
        f"NC{space}",
        default_accumulator(x.dtype),
        x.dtype,
    )
    return Tensor.apply(ops.convolution, x, weight, attrs=attrs)


# --- pooling and resizing ---------------------------------------------------------------------------------


max_pool = on_tensors(pooling.max_pool)
max_pool_places = on_tensors(pooling.max_pool_places)
adaptive_max_pool = on_tensors(pooling.adaptive_max_pool)
average_pool = on_tensors(pooling.average_pool)
adaptive_average_pool = on_tensors(pooling.adaptive_average_pool)
interpolate = on_tensors(resize.interpolate)
turned_kernel = on_tensors(shaping.turned_kernel)
grid_sample = on_tensors(sampling.grid_sample)

# --- normalisation ----------------------------------------------------------------------------------------


layer_norm = on_tensors(normalize.layer_norm)
rms_norm = on_tensors(normalize.rms_norm)
group_norm = on_tensors(normalize.group_norm)
instance_norm = on_tensors(normalize.instance_norm)
batch_norm = on_tensors(normalize.batch_norm)
batch_norm_training = on_tensors(normalize.batch_norm_training)

# --- recurrence -------------------------------------------------------------------------------------------


def _relu(x: GraphValue) -> GraphValue:
    return x.le(0).select(x.graph.full(x.dims, 0, x.dtype), x)


def _sigmoid(x: GraphValue) -> GraphValue:
    """By tanh, whose derivative is a number everywhere."""
    return x.mul(0.5).tanh().mul(0.5).add(0.5)


def _rnn(
    x: GraphValue,
    state: GraphValue,
    weight: GraphValue,
    recurrence: GraphValue,
    bias: GraphValue | None,
    activation: str,
    reverse: bool,
) -> tuple[GraphValue, ...]:
    """One layer over (T, B, I): outputs (T, B, H) and the last state. The activation is tanh or relu."""
    function = GraphValue.tanh if activation == "tanh" else _relu
    return recurrent.rnn(x, state, weight, recurrence, bias, function, None, reverse)


rnn = on_tensors(_rnn)
lstm = on_tensors(recurrent.lstm, gate_activation=_sigmoid)
"""Gates in torch's order: outputs, last state, last cell."""
gru = on_tensors(recurrent.gru, gate_activation=_sigmoid)

# --- attention --------------------------------------------------------------------------------------------


attention = on_tensors(attentions.attention)
attention_rows = on_tensors(attentions.attention_rows)
attention_back = on_tensors(attentions.attention_back)
