"""Layers as functions of tensors: convolution, pooling, resizing, normalisation, recurrence, attention, random bits.

What `planish.ptir.library` and single PTIR ops offer, brought to tensors for `nn` and `random`, which know the Tensor API
alone. Arguments are checked by those who call; here they are complete: one entry per spatial axis, None for what is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.frontend.storage import Array
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.composite import composite, composites
from planish.frontend.tensor.operands import cast_to, from_data
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import activations, losses, normalize, pooling, random_bits, recurrent, resize
from planish.ptir.library import attention as attentions
from planish.ptir.ops import random as reference
from planish.ptir.ops.contract import ConvolutionAttrs, default_accumulator
from planish.ptir.ops.convert import BitcastAttrs
from planish.ptir.ops.random import RngBitsAttrs

Pairs = tuple[tuple[int, int], ...]
_SPACE: Final = "XYZ"
"""Letters of spatial axes."""

# --- activations and losses -------------------------------------------------------------------------------


def activation(name: str, x: Tensor, **options: Hashable) -> Tensor:
    """A function of `planish.ptir.library.activations`."""
    return composite(getattr(activations, name), x, **options)


def loss(name: str, *tensors: Tensor | None, **options: Hashable) -> Tensor:
    """A function of `planish.ptir.library.losses`, element by element."""
    return composite(getattr(losses, name), *tensors, reduction="none", **options)


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


# --- random bits ------------------------------------------------------------------------------------------


def rng_bits(key: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Random words of an unsigned dtype, a pure function of the key and the position."""
    return Tensor.apply(ops.rng_bits, key, attrs=RngBitsAttrs(dtype, shape))


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
            made = reference.threefry2x32(
                changed, (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)
            )
        result = from_data(np.stack(made, axis=-1))
        result._value.device = key._device
        return result
    if not isinstance(numbers, Tensor):
        numbers = from_data(np.array(numbers, order="C"))
    changed_key = key ^ from_data(np.array([purpose, 0], np.uint32))
    high = cast_to(fn.bitwise_right_shift(numbers, 32), dtypes.uint32)
    return fn.stack(threefry2x32(changed_key, high, cast_to(numbers, dtypes.uint32)), axis=-1)


def bitcast(x: Tensor, dtype: DType) -> Tensor:
    """The same bits as elements of another dtype of that width."""
    return Tensor.apply(ops.bitcast, x, attrs=BitcastAttrs(dtype))


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


def max_pool(
    x: Tensor,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    ceil: bool,
) -> Tensor:
    """The largest of each window of (N, C, …)."""
    return composite(
        pooling.max_pool,
        x,
        window=window,
        strides=strides,
        padding=padding,
        dilation=dilation,
        ceil=ceil,
    )


def average_pool(
    x: Tensor,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Pairs,
    ceil: bool,
    count_padding: bool,
) -> Tensor:
    """The mean of each window of (N, C, …)."""
    return composite(
        pooling.average_pool,
        x,
        window=window,
        strides=strides,
        padding=padding,
        ceil=ceil,
        count_padding=count_padding,
    )


def adaptive_average_pool(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Means of windows that share out each spatial axis."""
    return composite(pooling.adaptive_average_pool, x, sizes=sizes)


def interpolate(
    x: Tensor,
    size: tuple[int, ...] | None,
    scale_factor: tuple[float, ...] | None,
    mode: str,
    align_corners: bool,
    antialias: bool,
    recompute_scale: bool,
) -> Tensor:
    """(N, C, …) with other spatial sizes."""
    return composite(
        resize.interpolate,
        x,
        size=size,
        scale_factor=scale_factor,
        mode=mode,
        align_corners=align_corners,
        antialias=antialias,
        recompute_scale=recompute_scale,
    )


# --- normalisation ----------------------------------------------------------------------------------------


def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, axes: int, epsilon: float) -> Tensor:
    """Over the last axes."""
    return composite(normalize.layer_norm, x, weight, bias, axis=x.ndim - axes, epsilon=epsilon)


def rms_norm(x: Tensor, weight: Tensor | None, axes: int, epsilon: float) -> Tensor:
    """Over the last axes."""
    return composite(normalize.rms_norm, x, weight, axis=x.ndim - axes, epsilon=epsilon)


def _group_norm(
    x: GraphValue, weight: GraphValue | None, bias: GraphValue | None, groups: int, epsilon: float
) -> GraphValue:
    return normalize.group_norm(x, groups, weight, bias, epsilon)


def group_norm(x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """Of (N, C, …), over groups of channels."""
    return composite(_group_norm, x, weight, bias, groups=groups, epsilon=epsilon)


def instance_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
    """Of (N, C, …), every channel of every sample on its own."""
    return composite(normalize.instance_norm, x, weight, bias, epsilon=epsilon)


def batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> Tensor:
    """Of (N, C, …), with statistics per channel that are given."""
    return composite(normalize.batch_norm, x, mean, variance, weight, bias, epsilon=epsilon)


def batch_norm_training(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """With the statistics of the batch: the result, means and (biased) variances."""
    result, mean, variance = composites(normalize.batch_norm_training, x, weight, bias, epsilon=epsilon)
    return result, mean, variance


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
    function = GraphValue.tanh if activation == "tanh" else _relu
    return recurrent.rnn(x, state, weight, recurrence, bias, function, None, reverse)


def rnn(
    x: Tensor,
    state: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None,
    activation: str,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """One layer over (T, B, I): outputs (T, B, H) and the last state. The activation is tanh or relu."""
    outputs, last = composites(
        _rnn, x, state, weight, recurrence, bias, activation=activation, reverse=reverse
    )
    return outputs, last


def lstm(
    x: Tensor,
    state: Tensor,
    cell: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer over (T, B, I), gates in torch's order: outputs, last state, last cell."""
    outputs, last, held = composites(
        recurrent.lstm, x, state, cell, weight, recurrence, bias, reverse=reverse, gate_activation=_sigmoid
    )
    return outputs, last, held


def gru(
    x: Tensor,
    state: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None,
    recurrence_bias: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """One layer over (T, B, I), gates in torch's order: outputs and the last state."""
    outputs, last = composites(
        recurrent.gru,
        x,
        state,
        weight,
        recurrence,
        bias,
        recurrence_bias,
        reverse=reverse,
        gate_activation=_sigmoid,
    )
    return outputs, last


# --- attention --------------------------------------------------------------------------------------------


def _attention(
    query: GraphValue,
    key: GraphValue,
    value: GraphValue,
    mask: GraphValue | None,
    offset: GraphValue | None,
    causal: bool,
    start: DimLike,
    scale: float | None,
    soft_cap: float | None,
) -> GraphValue:
    where = start if offset is None else offset
    return attentions.attention(query, key, value, mask, causal, where, scale, soft_cap)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    offset: Tensor | int,
    scale: float | None,
    soft_cap: float | None,
) -> Tensor:
    """(B, H, L, D) looks at (B, G, S, D) and takes from (B, G, S, E)."""
    traced = offset if isinstance(offset, Tensor) else None
    start = 0 if isinstance(offset, Tensor) else offset
    return composite(
        _attention,
        query,
        key,
        value,
        mask,
        traced,
        causal=causal,
        start=start,
        scale=scale,
        soft_cap=soft_cap,
    )


__all__ = [
    "adaptive_average_pool",
    "attention",
    "average_pool",
    "batch_norm",
    "batch_norm_training",
    "bitcast",
    "convolution",
    "drawn_keys",
    "group_norm",
    "gru",
    "instance_norm",
    "interpolate",
    "layer_norm",
    "lstm",
    "max_pool",
    "rms_norm",
    "rng_bits",
    "rnn",
    "threefry2x32",
]
