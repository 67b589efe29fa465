"""The ops of models that onnxruntime saved with its blocked layout (com.microsoft.nchwc).

There, channels are padded to whole blocks and the block is the innermost axis; shapes do not say so. Here such a tensor is its
padded channels in the usual order: layouts are the compiler's affair. Only weights are in the file as blocks, and are put back.
The size of a block is that of the machine that saved the model, which has to be like this one: so it is with onnxruntime too.
"""

from __future__ import annotations

from typing import Final

from planish.config import current
from planish.onnx.ops.common import Array, sizes
from planish.onnx.ops.convolution import convolve, with_bias
from planish.onnx.ops.image import upsampled
from planish.onnx.ops.microsoft import activated
from planish.onnx.ops.pooling import average_pool, global_average_pool, global_max_pool, max_pool
from planish.onnx.ops.windows import window_of
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V
from planish.target import find

_DOMAIN: Final = "com.microsoft.nchwc"


def _block(*channels: int) -> int:
    """How many channels a block has: as many floats as a register."""
    wide = 16 if find(current().target).register_bytes >= 64 else 8
    return wide if all(count % wide == 0 for count in channels) else 8


@op("ReorderInput", domain=_DOMAIN)
def reorder_input(at: NodeSite, x: V) -> V:
    if at.attr("channels_last", 0):
        x = x.transpose([0, x.rank - 1, *range(1, x.rank - 1)])
    count = sizes(at, x)[1]
    return _padded(x, -count % _block())


def _padded(x: V, channels: int) -> V:
    none = [0] * x.rank
    return x.pad(none, [0, channels, *none[2:]]) if channels > 0 else x


@op("ReorderOutput", domain=_DOMAIN)
def reorder_output(at: NodeSite, x: V) -> V:
    kept = x[:, : at.attributes.require("channels")]
    return kept.transpose([0, *range(2, x.rank), 1]) if at.attr("channels_last", 0) else kept


@op("Conv", domain=_DOMAIN, known=(1,))
def conv(at: NodeSite, x: V, kernel: Array, bias: V | None = None, more: V | None = None) -> V:
    outputs, inputs, *space = kernel.shape
    groups, given = at.attr("group", 1), sizes(at, x)[1]
    block = _block(outputs)
    # blocks of inputs too, unless there are less of them than a block has, or each output has one of its own
    inner = 1 if inputs % block or given < block or (inputs == 1 and groups == outputs) else block
    blocks = kernel.reshape([outputs // block, inputs // inner, *space, inner, block])
    rank = len(space)
    order = [0, rank + 3, 1, rank + 2, *range(2, rank + 2)]
    plain = blocks.transpose(order).reshape([outputs, inputs, *space])
    if groups == 1:
        x = _padded(x, inputs - given)
    result = with_bias(convolve(x, at.value(plain), window_of(at, x, space), groups), bias)
    result = result if more is None else result.add(more)
    done: V = activated(at, result, list(at.attr("activation_params") or []))
    return done


op("MaxPool", domain=_DOMAIN)(max_pool)
op("AveragePool", domain=_DOMAIN)(average_pool)
op("GlobalAveragePool", domain=_DOMAIN)(global_average_pool)
op("GlobalMaxPool", domain=_DOMAIN)(global_max_pool)


@op("Upsample", domain=_DOMAIN)
def upsample(at: NodeSite, x: V) -> V:
    how = at.attr("coordinate_transformation_mode", "asymmetric")
    nearest = at.attr("mode", "nearest") == "nearest"  # then elements are repeated, whatever the coordinates
    resized: V = upsampled(at, x, "asymmetric" if nearest else how)
    return resized
