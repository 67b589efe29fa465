"""The functions that `make replay` watches: every op, composites of the library, parts of networks. Small, so that a difference can be read.

`functions()` yields (name, function). They are stored as text next to what they compile to (tests/replay), so what is replayed does not change
with the code here; this makes the texts anew when ops are added: python tools/replay.py --collect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planish import dtypes, ptir
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import (
    activations,
    attention,
    contraction,
    cumulative,
    losses,
    normalize,
    order,
    pooling,
    recurrent,
    resize,
    shaping,
)
from tests.e2e.op_cases import CASES, DYNAMIC, Maker

Values = GraphValue | tuple[GraphValue, ...] | list[GraphValue]
Build = Callable[..., Values]


def _function(
    name: str, build: Build, *inputs: tuple[str, tuple[object, ...]], **bounds: tuple[int, int]
) -> ptir.Function:
    g = ptir.Graph(name)
    given = [g.input(f"x{n}", ptir.tensor(dtype, dims, **bounds)) for n, (dtype, dims) in enumerate(inputs)]  # type: ignore[arg-type]
    outputs = build(*given)
    return g.build(*(outputs if isinstance(outputs, tuple | list) else (outputs,)))


def f32(*dims: object) -> tuple[str, tuple[object, ...]]:
    return "f32", dims


def i32(*dims: object) -> tuple[str, tuple[object, ...]]:
    return "i32", dims


def _ops() -> Iterator[tuple[str, ptir.Function]]:
    """Each op with up to three of its dtypes, its first program."""
    for name, (accepted, programs) in CASES.items():
        preferred = [
            d for d in (dtypes.float32, dtypes.int32, dtypes.bfloat16, dtypes.bool_) if d in accepted
        ]
        for dtype in (preferred or list(accepted))[:3]:
            m = Maker(dtype)
            programs[0](m)
            yield f"ops/{name}_{dtype.short}", m.build()
    for name, program in DYNAMIC.items():
        m = Maker(dtypes.float32)
        program(m)
        yield f"sizes/{name}", m.build()


def _composites() -> Iterator[tuple[str, ptir.Function]]:
    ones = (
        activations.relu, activations.leaky_relu, activations.sigmoid, activations.log_sigmoid, activations.silu, activations.softplus,
        activations.mish, activations.softsign, activations.gelu, activations.elu, activations.celu, activations.selu,
        activations.hard_sigmoid, activations.hard_swish, normalize.softmax, normalize.log_softmax, normalize.logsumexp,
        normalize.layer_norm, normalize.rms_norm, shaping.tril, shaping.triu, shaping.diagonal,
    )  # fmt: skip
    for one in ones:
        yield f"composites/{one.__name__}", _function(one.__name__, one, f32(8, 48))
    for two in (
        losses.mean_squared_error, losses.mean_absolute_error, losses.huber, losses.smooth_l1,
        losses.binary_cross_entropy_with_logits, losses.kl_divergence, losses.cosine_similarity, cumulative.logaddexp,
    ):  # fmt: skip
        yield f"composites/{two.__name__}", _function(two.__name__, two, f32(6, 40), f32(6, 40))
    yield (
        "composites/cross_entropy",
        _function("cross_entropy", losses.cross_entropy, f32(6, 10), ("i64", (6,))),
    )
    image = f32(2, 4, 10, 12)
    pools: dict[str, Build] = {
        "max_pool": lambda x: pooling.max_pool(x, (2, 2), (2, 2)),
        "average_pool": lambda x: pooling.average_pool(x, (3, 3), (1, 1), ((1, 1), (1, 1))),
        "global_average_pool": pooling.global_average_pool,
        "global_max_pool": pooling.global_max_pool,
        "group_norm": lambda x: normalize.group_norm(x, 2),
        "instance_norm": normalize.instance_norm,
        "batch_norm_training": normalize.batch_norm_training,
        "interpolate": lambda x: resize.interpolate(x, scale_factor=(2.0, 2.0)),
        "interpolate_linear": lambda x: resize.interpolate(x, scale_factor=(2.0, 2.0), mode="bilinear"),
        "space_to_depth": lambda x: shaping.space_to_depth(x, 2),
        "depth_to_space": lambda x: shaping.depth_to_space(x, 2),
        "roll": lambda x: shaping.roll(x, (3, -2), (2, 3)),
        "pad_reflect": lambda x: shaping.pad(x, (0, 0, 1, 2), (0, 0, 2, 1), mode="reflect"),
    }
    for name, build in pools.items():
        yield f"composites/{name}", _function(name, build, image)
    yield "composites/sort", _function("sort", lambda x: order.sort([x]), f32(3, 16))
    yield "composites/argsort", _function("argsort", lambda x: order.argsort([x]), f32(3, 9))
    yield "composites/top_k", _function("top_k", lambda x: order.top_k(x, 3), f32(3, 20))
    yield "composites/one_hot", _function("one_hot", lambda x: shaping.one_hot(x, 7), i32(5))
    yield "composites/einsum", _function("einsum", lambda a, b: contraction.einsum("bij,bkj->bik", a, b), f32(2, 5, 16), f32(2, 6, 16))  # fmt: skip
    yield (
        "composites/lstm",
        _function("lstm", recurrent.lstm, f32(5, 2, 8), f32(2, 6), f32(2, 6), f32(24, 8), f32(24, 6)),
    )
    yield "composites/gru", _function("gru", recurrent.gru, f32(5, 2, 8), f32(2, 6), f32(18, 8), f32(18, 6))


def _linear(x: GraphValue, w: GraphValue, b: GraphValue) -> GraphValue:
    y = x.matmul(w)
    return y.add(b.broadcast_like(y))


def _mlp(x: GraphValue, w: GraphValue, b: GraphValue, v: GraphValue, c: GraphValue) -> GraphValue:
    return _linear(activations.gelu(_linear(x, w, b)), v, c)


def _residual(x: GraphValue, w: GraphValue, scale: GraphValue, shift: GraphValue) -> GraphValue:
    y = x.convolution(w, padding=((1, 1), (1, 1)))
    spread = [v.reshape((1, 8, 1, 1)).broadcast_like(y) for v in (scale, shift)]
    return activations.relu(y.mul(spread[0]).add(spread[1]).add(x))


def _block(x: GraphValue, qkv: GraphValue, out: GraphValue, gain: GraphValue) -> GraphValue:
    """Half a transformer block: normalisation, attention of two heads, the sum."""
    y = normalize.rms_norm(x, gain).matmul(qkv).reshape((16, 3, 2, 16)).transpose((1, 2, 0, 3))
    q, k, v = (part.reshape((1, 2, 16, 16)) for part in shaping.split(y, (1, 1, 1)))
    heads = attention.attention(q, k, v, causal=True)
    return x.add(heads.transpose((0, 2, 1, 3)).reshape((16, 32)).matmul(out))


def _networks() -> Iterator[tuple[str, ptir.Function]]:
    yield "networks/mlp", _function("mlp", _mlp, f32(32, 64), f32(64, 48), f32(48), f32(48, 10), f32(10))
    yield (
        "networks/mlp_any_batch",
        _function("mlp", _mlp, f32("B", 64), f32(64, 48), f32(48), f32(48, 10), f32(10), B=(1, 64)),
    )
    yield (
        "networks/residual",
        _function("residual", _residual, f32(1, 8, 14, 14), f32(8, 8, 3, 3), f32(8), f32(8)),
    )
    yield "networks/strided", _function(
        "strided", lambda x, w: x.convolution(w, strides=(2, 2), padding=((1, 1), (1, 1))), f32(1, 3, 16, 16), f32(8, 3, 3, 3)
    )  # fmt: skip
    yield "networks/depthwise", _function(
        "depthwise", lambda x, w: x.convolution(w, padding=((1, 1), (1, 1)), groups=8), f32(1, 8, 10, 10), f32(8, 1, 3, 3)
    )  # fmt: skip
    yield "networks/attention", _function("attention", attention.attention, *[f32(1, 2, 32, 16)] * 3)
    yield (
        "networks/causal",
        _function("causal", lambda *x: attention.attention(*x, causal=True), *[f32(1, 2, 32, 16)] * 3),
    )
    yield "networks/block", _function("block", _block, f32(16, 32), f32(32, 96), f32(32, 32), f32(32))
    yield "networks/embedding", _function("embedding", lambda t, i: t.take(i, 0), f32(50, 24), i32(3, 7))
    for m, n, k in ((64, 64, 64), (1, 256, 256), (33, 17, 65), (256, 256, 256)):
        yield (
            f"networks/matmul_{m}x{n}x{k}",
            _function("matmul", lambda a, b: a.matmul(b), f32(m, k), f32(k, n)),
        )
        yield f"networks/matmul_bf16_{m}x{n}x{k}", _function("matmul", lambda a, b: a.matmul(b), ("bf16", (m, k)), ("bf16", (k, n)))  # fmt: skip


def functions() -> Iterator[tuple[str, ptir.Function]]:
    """All of them."""
    yield from _ops()
    yield from _composites()
    yield from _networks()
