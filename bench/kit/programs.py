"""The programs of `other.py`: inputs, and how planish, torch, jax and (for some) a model of ONNX say the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as tf

import planish as pn
from planish.nn import functional as f

Make = Callable[[np.random.Generator], Any]


@dataclass(frozen=True, slots=True)
class Program:
    """One thing to compute."""

    inputs: tuple[Make, ...]
    ours: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any] | None = None
    onnx: Callable[..., bytes] | None = None
    """A model whose input is `x`, made of the inputs' values: the others are known beforehand."""
    gradient: bool = False


def floats(*shape: int, scale: float = 1.0) -> Make:
    return lambda rng: rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def bytes_(*shape: int, unsigned: bool = False) -> Make:
    low, high, dtype = (0, 256, np.uint8) if unsigned else (-128, 128, np.int8)
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def places(below: int, *shape: int) -> Make:
    return lambda rng: rng.integers(0, below, shape)


def model(nodes: list[tuple[Any, ...]], x: Any, known: dict[str, Any]) -> bytes:
    """Nodes as (op, inputs, output, attributes); the last output is the result."""
    from onnx import TensorProto, helper, numpy_helper

    made = [helper.make_node(op, names.split(), [out], **more) for op, names, out, more in nodes]
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    kind = TensorProto.FLOAT if x.dtype == np.float32 else TensorProto.INT32
    result = helper.make_tensor_value_info(nodes[-1][2], kind, None)
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in known.items()]
    graph = helper.make_graph(made, "work", [given], [result], kept)
    found = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(found.SerializeToString())


PROGRAMS: dict[str, Program] = {}


# -- integers ----------------------------------------------------------------------------------------------------------


def _int8(m: int, k: int, n: int, *, unsigned: bool = False) -> Program:
    def exact(a: Any, b: Any) -> Any:
        if not unsigned and m > 16 and k % 8 == 0 and n % 8 == 0:
            return torch._int_mm(a, b)
        return a.to(torch.int32) @ b.to(torch.int32)

    def by_jax(a: Any, b: Any) -> Any:
        import jax

        return jax.lax.dot(a, b, preferred_element_type=np.int32)

    return Program(
        (bytes_(m, k, unsigned=unsigned), bytes_(k, n)),
        lambda a, b: pn.astype(a, pn.int32) @ pn.astype(b, pn.int32),
        exact,
        by_jax if not unsigned else None,
        lambda a, b: model([("MatMulInteger", "x b", "y", {})], a, {"b": b}),
    )


for sizes in (
    (64, 64, 64),
    (200, 300, 400),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (32, 1024, 4096),
    (1000, 500, 300),
):
    PROGRAMS["int8 " + "x".join(map(str, sizes))] = _int8(*sizes)
PROGRAMS["uint8xint8 512"] = _int8(512, 512, 512, unsigned=True)
PROGRAMS["int8 A Bt 512"] = Program(
    (bytes_(512, 512), bytes_(512, 512)),
    lambda a, b: pn.astype(a, pn.int32) @ pn.astype(b, pn.int32).mT,
    lambda a, b: torch._int_mm(a, b.T),
)
PROGRAMS["int8 dequantized 256x512x512"] = Program(
    (bytes_(256, 512), bytes_(512, 512), floats(512)),
    lambda a, b, s: pn.astype(pn.astype(a, pn.int32) @ pn.astype(b, pn.int32), pn.float32) * s,
    lambda a, b, s: torch._int_mm(a, b).to(s.dtype) * s,
)


# -- convolutions ------------------------------------------------------------------------------------------------------


def _conv(
    x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, padding: int = 0, groups: int = 1
) -> Program:
    def by_jax(a: Any, b: Any) -> Any:
        import jax

        space = len(x) - 2
        return jax.lax.conv_general_dilated(
            a, b, (stride,) * space, ((padding, padding),) * space, feature_group_count=groups
        )

    ours = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[len(x)]
    theirs = {3: tf.conv1d, 4: tf.conv2d, 5: tf.conv3d}[len(x)]
    space = len(x) - 2
    more = {"strides": [stride] * space, "pads": [padding] * 2 * space, "group": groups}
    return Program(
        (floats(*x), floats(*w, scale=0.1)),
        lambda a, b: ours(a, b, stride=stride, padding=padding, groups=groups),
        lambda a, b: theirs(a, b, None, stride, padding, 1, groups),
        by_jax,
        lambda a, b: model([("Conv", "x w", "y", more)], a, {"w": b}),
    )


for batch, channels, out, side in (
    (1, 64, 64, 14),
    (1, 256, 64, 14),
    (4, 64, 128, 7),
    (1, 512, 512, 7),
    (2, 128, 256, 28),
    (8, 32, 32, 8),
    (1, 16, 96, 32),
):
    PROGRAMS[f"conv 1x1 {batch}x{channels}->{out} {side}²"] = _conv(
        (batch, channels, side, side), (out, channels, 1, 1)
    )
PROGRAMS["conv 3x3 4x16->32 32²"] = _conv((4, 16, 32, 32), (32, 16, 3, 3), padding=1)
PROGRAMS["conv 3x3 1x512->512 7²"] = _conv((1, 512, 7, 7), (512, 512, 3, 3), padding=1)
PROGRAMS["conv 5x5 grouped"] = _conv((2, 64, 28, 28), (64, 16, 5, 5), padding=2, groups=4)
PROGRAMS["conv 1d 64->64 k 9"] = _conv((2, 64, 4000), (64, 64, 9), padding=4)
PROGRAMS["conv 3d 8->16 3³"] = _conv((1, 8, 16, 32, 32), (16, 8, 3, 3, 3), padding=1)
PROGRAMS["depthwise 7x7 96 56²"] = _conv((1, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
PROGRAMS["depthwise 5x5 stride 2"] = _conv((1, 96, 56, 56), (96, 1, 5, 5), 2, 2, 96)


def _convnext(batch: int, channels: int, side: int) -> Program:
    def ours(x: Any, w: Any, b: Any, g: Any, o: Any) -> Any:
        y = pn.permute_dims(f.conv2d(x, w, b, padding=3, groups=channels), (0, 2, 3, 1))
        return f.layer_norm(y, (channels,), g, o)

    def theirs(x: Any, w: Any, b: Any, g: Any, o: Any) -> Any:
        y = tf.conv2d(x, w, b, 1, 3, 1, channels).permute(0, 2, 3, 1)
        return tf.layer_norm(y, (channels,), g, o)

    def onnx(x: Any, w: Any, b: Any, g: Any, o: Any) -> bytes:
        nodes = [
            ("Conv", "x w b", "c", {"pads": [3] * 4, "group": channels}),
            ("Transpose", "c", "t", {"perm": [0, 2, 3, 1]}),
            ("LayerNormalization", "t g o", "y", {"epsilon": 1e-5}),
        ]
        return model(nodes, x, {"w": w, "b": b, "g": g, "o": o})

    given = floats(batch, channels, side, side), floats(channels, 1, 7, 7), *[floats(channels)] * 3
    return Program(given, ours, theirs, None, onnx)


for batch, channels, side in ((1, 96, 56), (1, 192, 28), (1, 384, 14), (1, 768, 7), (4, 96, 28)):
    PROGRAMS[f"convnext {batch}x{channels} {side}²"] = _convnext(batch, channels, side)


def _convnext_first(channels: int, side: int) -> Program:
    """The same with channels kept first: a norm written by hand over axis 1."""

    def ours(x: Any, w: Any, g: Any) -> Any:
        y = f.conv2d(x, w, padding=3, groups=channels)
        d = y - pn.mean(y, axis=1, keepdims=True)
        v = pn.mean(d * d, axis=1, keepdims=True)
        return d / pn.sqrt(v + 1e-6) * g[None, :, None, None]

    def theirs(x: Any, w: Any, g: Any) -> Any:
        y = tf.conv2d(x, w, None, 1, 3, 1, channels)
        d = y - y.mean(1, keepdim=True)
        v = (d * d).mean(1, keepdim=True)
        return d / torch.sqrt(v + 1e-6) * g[None, :, None, None]

    return Program(
        (floats(1, channels, side, side), floats(channels, 1, 7, 7), floats(channels)), ours, theirs
    )


PROGRAMS["convnext channels first 96 56²"] = _convnext_first(96, 56)


def _reflected(length: int, channels: int, out: int, k: int) -> Program:
    p = k // 2

    def onnx(x: Any, w: Any) -> bytes:
        nodes = [("Pad", "x p", "q", {"mode": "reflect"}), ("Conv", "q w", "y", {})]
        return model(nodes, x, {"p": np.array([0, 0, p, 0, 0, p], np.int64), "w": w})

    return Program(
        (floats(1, channels, length), floats(out, channels, k, scale=0.1)),
        lambda x, w: f.conv1d(pn.pad(x, ((0, 0), (0, 0), (p, p)), mode="reflect"), w),
        lambda x, w: tf.conv1d(tf.pad(x, (p, p), mode="reflect"), w),
        None,
        onnx,
    )


for length, channels, out, k in (
    (160_000, 1, 64, 25),
    (80_000, 16, 16, 9),
    (480_000, 1, 32, 9),
    (20_000, 64, 64, 7),
):
    PROGRAMS[f"reflect conv {length} {channels}->{out} k {k}"] = _reflected(length, channels, out, k)
PROGRAMS["stft as conv 160000"] = Program(
    (floats(1, 1, 160_000), floats(402, 1, 400, scale=0.05)),
    lambda x, w: f.conv1d(pn.pad(x, ((0, 0), (0, 0), (200, 200)), mode="reflect"), w, stride=160),
    lambda x, w: tf.conv1d(tf.pad(x, (200, 200), mode="reflect"), w, stride=160),
)
for mode, name in (("reflect", "reflect"), ("edge", "replicate")):
    PROGRAMS[f"{name} conv 3x3 32->32 64²"] = Program(
        (floats(1, 32, 64, 64), floats(32, 32, 3, 3, scale=0.1)),
        lambda x, w, mode=mode: f.conv2d(pn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode), w),
        lambda x, w, name=name: tf.conv2d(tf.pad(x, (1, 1, 1, 1), mode=name), w),
    )


# -- norms -------------------------------------------------------------------------------------------------------------

for batch, channels, side, groups in (
    (1, 32, 8, 8),
    (2, 64, 14, 32),
    (4, 128, 7, 32),
    (1, 256, 16, 32),
    (8, 64, 28, 8),
    (1, 320, 64, 32),
):
    PROGRAMS[f"group norm {batch}x{channels} {side}² by {groups}"] = Program(
        (floats(batch, channels, side, side), floats(channels), floats(channels)),
        lambda x, g, b, groups=groups: f.group_norm(x, groups, g, b),
        lambda x, g, b, groups=groups: tf.group_norm(x, groups, g, b),
    )
for batch, channels, side in ((1, 32, 8), (2, 64, 14), (4, 64, 7), (1, 64, 56)):
    PROGRAMS[f"instance norm {batch}x{channels} {side}²"] = Program(
        (floats(batch, channels, side, side), floats(channels), floats(channels)),
        lambda x, g, b: f.instance_norm(x, weight=g, bias=b),
        lambda x, g, b: tf.instance_norm(x, weight=g, bias=b),
    )
PROGRAMS["batch norm training 16x64 28²"] = Program(
    (floats(16, 64, 28, 28), floats(64), floats(64)),
    lambda x, g, b: f.batch_norm(x, None, None, g, b, training=True),
    lambda x, g, b: tf.batch_norm(x, None, None, g, b, True),
)
PROGRAMS["rms norm 512x768"] = Program(
    (floats(512, 768), floats(768)),
    lambda x, g: f.rms_norm(x, (768,), g, eps=1e-6),
    lambda x, g: tf.rms_norm(x, (768,), g, 1e-6),
)
PROGRAMS["layer norm 64x10"] = Program(
    (floats(64, 10), floats(10), floats(10)),
    lambda x, g, b: f.layer_norm(x, (10,), g, b),
    lambda x, g, b: tf.layer_norm(x, (10,), g, b),
)
PROGRAMS["channel norm 1x128 32²"] = Program(
    (floats(1, 128, 32, 32),),
    lambda x: (x - pn.mean(x, axis=1, keepdims=True)) / pn.std(x, axis=1, keepdims=True),
    lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0),
)
PROGRAMS["l2 normalize 1000x128"] = Program(
    (floats(1000, 128),), lambda x: f.normalize(x, axis=1), lambda x: tf.normalize(x, dim=1)
)
PROGRAMS["conv 3x3 + group norm + silu"] = Program(
    (floats(1, 64, 32, 32), floats(64, 64, 3, 3, scale=0.05), floats(64), floats(64)),
    lambda x, w, g, b: f.silu(f.group_norm(f.conv2d(x, w, padding=1), 32, g, b)),
    lambda x, w, g, b: tf.silu(tf.group_norm(tf.conv2d(x, w, padding=1), 32, g, b)),
)
PROGRAMS["group norm + silu + conv 3x3"] = Program(
    (floats(1, 64, 32, 32), floats(64, 64, 3, 3, scale=0.05), floats(64), floats(64)),
    lambda x, w, g, b: f.conv2d(f.silu(f.group_norm(x, 32, g, b)), w, padding=1),
    lambda x, w, g, b: tf.conv2d(tf.silu(tf.group_norm(x, 32, g, b)), w, padding=1),
)
PROGRAMS["linear + layer norm + linear"] = Program(
    (floats(128, 256), floats(256, 512, scale=0.1), floats(512), floats(512), floats(512, 256, scale=0.1)),
    lambda x, w, g, b, v: f.layer_norm(x @ w, (512,), g, b) @ v,
    lambda x, w, g, b, v: tf.layer_norm(x @ w, (512,), g, b) @ v,
)
PROGRAMS["linear + softmax of few classes"] = Program(
    (floats(1000, 256), floats(256, 10, scale=0.1)),
    lambda x, w: f.softmax(x @ w, axis=-1),
    lambda x, w: torch.softmax(x @ w, -1),
)


# -- losses, pools, resizing -------------------------------------------------------------------------------------------

PROGRAMS["cross entropy 512x1000"] = Program(
    (floats(512, 1000), places(1000, 512)),
    lambda x, t: f.cross_entropy(x, t),
    lambda x, t: tf.cross_entropy(x, t),
)
PROGRAMS["cross entropy of pixels 2x21 64²"] = Program(
    (floats(2, 21, 64, 64), places(21, 2, 64, 64)),
    lambda x, t: f.cross_entropy(x, t),
    lambda x, t: tf.cross_entropy(x, t),
)
PROGRAMS["kl div 256x1000"] = Program(
    (floats(256, 1000), floats(256, 1000)),
    lambda x, y: pn.sum(f.softmax(y, axis=-1) * (f.log_softmax(y, axis=-1) - f.log_softmax(x, axis=-1))),
    lambda x, y: torch.sum(torch.softmax(y, -1) * (torch.log_softmax(y, -1) - torch.log_softmax(x, -1))),
)
PROGRAMS["contrastive loss 256x128"] = Program(
    (floats(256, 128), floats(256, 128)),
    lambda x, y: f.cross_entropy(f.normalize(x, axis=1) @ f.normalize(y, axis=1).mT * 10.0, pn.arange(256)),
    lambda x, y: tf.cross_entropy(tf.normalize(x) @ tf.normalize(y).T * 10.0, torch.arange(256)),
)
PROGRAMS["pairwise distances 500x500x64"] = Program(
    (floats(500, 64), floats(500, 64)),
    lambda x, y: pn.sum((x[:, None] - y[None]) ** 2, axis=-1),
    lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
)
PROGRAMS["max pool 3x3/2 64 112²"] = Program(
    (floats(1, 64, 112, 112),),
    lambda x: f.max_pool2d(x, 3, 2, 1),
    lambda x: tf.max_pool2d(x, 3, 2, 1),
)
PROGRAMS["avg pool 2x2 64 56²"] = Program(
    (floats(1, 64, 56, 56),), lambda x: f.avg_pool2d(x, 2), lambda x: tf.avg_pool2d(x, 2)
)
PROGRAMS["global average pool 8x512 7²"] = Program(
    (floats(8, 512, 7, 7),), lambda x: pn.mean(x, axis=(2, 3)), lambda x: x.mean((2, 3))
)
PROGRAMS["bilinear 2x 32 64²"] = Program(
    (floats(1, 32, 64, 64),),
    lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    lambda x: tf.interpolate(x, scale_factor=2, mode="bilinear"),
)
PROGRAMS["nearest 2x + conv 3x3"] = Program(
    (floats(1, 32, 32, 32), floats(32, 32, 3, 3, scale=0.1)),
    lambda x, w: f.conv2d(f.interpolate(x, scale_factor=2), w, padding=1),
    lambda x, w: tf.conv2d(tf.interpolate(x, scale_factor=2), w, padding=1),
)
PROGRAMS["squeeze and excite 96 28²"] = Program(
    (floats(1, 96, 28, 28), floats(24, 96, scale=0.1), floats(96, 24, scale=0.1)),
    lambda x, v, w: x * f.sigmoid(f.relu(pn.mean(x, axis=(2, 3)) @ v.mT) @ w.mT)[:, :, None, None],
    lambda x, v, w: x * torch.sigmoid(torch.relu(x.mean((2, 3)) @ v.T) @ w.T)[:, :, None, None],
)


# -- products ----------------------------------------------------------------------------------------------------------


def _einsum(spec: str, a: tuple[int, ...], b: tuple[int, ...]) -> Program:
    def by_jax(x: Any, y: Any) -> Any:
        import jax

        return jax.numpy.einsum(spec, x, y)

    return Program(
        (floats(*a), floats(*b)),
        lambda x, y: pn.einsum(spec, x, y),
        lambda x, y: torch.einsum(spec, x, y),
        by_jax,
    )


PROGRAMS |= {
    "batched 8x8, 1000": _einsum("bij,bjk->bik", (1000, 8, 8), (1000, 8, 8)),
    "batched 3x3, 10000": _einsum("bij,bjk->bik", (10_000, 3, 3), (10_000, 3, 3)),
    "batched 16x64x16, 200": _einsum("bij,bjk->bik", (200, 16, 64), (200, 64, 16)),
    "batched matvec 500x64x64": _einsum("bij,bj->bi", (500, 64, 64), (500, 64)),
    "outer product 512x512": _einsum("i,j->ij", (512,), (512,)),
    "heads bthd,bshd->bhts": _einsum("bthd,bshd->bhts", (2, 128, 8, 64), (2, 128, 8, 64)),
    "mixed axes abcd,cdef->abef": _einsum("abcd,cdef->abef", (8, 16, 16, 16), (16, 16, 8, 16)),
    "trace of a product": _einsum("ij,ji->", (512, 512), (512, 512)),
    "bilinear bi,bj->bij": _einsum("bi,bj->bij", (64, 128), (64, 128)),
    "gram 2000x100": _einsum("ni,nj->ij", (2000, 100), (2000, 100)),
    "matmul 100x7x100": _einsum("ij,jk->ik", (100, 7), (7, 100)),
    "matmul 1x1000x1000": _einsum("ij,jk->ik", (1, 1000), (1000, 1000)),
    "matmul 1000x1000x3": _einsum("ij,jk->ik", (1000, 1000), (1000, 3)),
    "matmul 33x65x129": _einsum("ij,jk->ik", (33, 65), (65, 129)),
}
PROGRAMS["int64 matmul 128"] = Program(
    (places(1000, 128, 128), places(1000, 128, 128)), lambda a, b: a @ b, lambda a, b: a @ b
)
PROGRAMS["matmul float64 256"] = Program(
    (floats(256, 256), floats(256, 256)),
    lambda a, b: pn.astype(a, pn.float64) @ pn.astype(b, pn.float64),
    lambda a, b: a.double() @ b.double(),
)
PROGRAMS["gated mlp 64x512x1024"] = Program(
    (
        floats(64, 512),
        floats(512, 1024, scale=0.05),
        floats(512, 1024, scale=0.05),
        floats(1024, 512, scale=0.05),
    ),
    lambda x, g, u, d: (f.silu(x @ g) * (x @ u)) @ d,
    lambda x, g, u, d: (tf.silu(x @ g) * (x @ u)) @ d,
)
PROGRAMS["lora 128x512, rank 8"] = Program(
    (floats(128, 512), floats(512, 512, scale=0.05), floats(512, 8), floats(8, 512)),
    lambda x, w, a, b: x @ w + (x @ a) @ b,
    lambda x, w, a, b: x @ w + (x @ a) @ b,
)
PROGRAMS["kernel matrix rbf 400x32"] = Program(
    (floats(400, 32), floats(400, 32)),
    lambda x, y: pn.exp(
        -0.01 * (pn.sum(x * x, axis=1)[:, None] + pn.sum(y * y, axis=1)[None] - 2 * x @ y.mT)
    ),
    lambda x, y: torch.exp(-0.01 * ((x * x).sum(1)[:, None] + (y * y).sum(1)[None] - 2 * x @ y.T)),
)


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention(q: tuple[int, ...], k: tuple[int, ...], causal: bool = False) -> Program:
    return Program(
        (floats(*q), floats(*k), floats(*k)),
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=causal),
        lambda q, k, v: tf.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
        ),
    )


PROGRAMS |= {
    "attention 8 heads 128x64": _attention((1, 8, 128, 64), (1, 8, 128, 64)),
    "attention causal 200x32": _attention((2, 4, 200, 32), (2, 4, 200, 32), True),
    "attention one query 1000": _attention((1, 16, 1, 64), (1, 16, 1000, 64)),
    "attention grouped 8/2": _attention((1, 8, 256, 64), (1, 2, 256, 64)),
    "cross attention 64x300": _attention((2, 4, 64, 40), (2, 4, 300, 40)),
    "windows 64x49x32": _attention((64, 3, 49, 32), (64, 3, 49, 32)),
}
PROGRAMS["linear attention"] = Program(
    (floats(4, 512, 64), floats(4, 512, 64), floats(4, 512, 64)),
    lambda q, k, v: f.softmax(q, axis=-1) @ (f.softmax(k, axis=1).mT @ v),
    lambda q, k, v: torch.softmax(q, -1) @ (torch.softmax(k, 1).mT @ v),
)
PROGRAMS["attention with bias 49"] = Program(
    (floats(32, 3, 49, 32), floats(32, 3, 49, 32), floats(32, 3, 49, 32), floats(3, 49, 49)),
    lambda q, k, v, b: f.softmax(q @ k.mT * 0.17 + b, axis=-1) @ v,
    lambda q, k, v, b: torch.softmax(q @ k.mT * 0.17 + b, -1) @ v,
)


# -- movement and the rest ---------------------------------------------------------------------------------------------

PROGRAMS["gather rows 5000 of 10000x64"] = Program(
    (floats(10_000, 64), places(10_000, 5000)), lambda x, i: pn.take(x, i, axis=0), lambda x, i: x[i]
)
PROGRAMS["take along axis 512x100"] = Program(
    (floats(512, 100), places(100, 512, 10)),
    lambda x, i: pn.take_along_axis(x, i, axis=1),
    lambda x, i: torch.take_along_dim(x, i, 1),
)
PROGRAMS["embedding bag"] = Program(
    (floats(5000, 64), places(5000, 256, 20)),
    lambda x, i: pn.sum(pn.take(x, i.reshape((-1,)), axis=0).reshape((256, 20, 64)), axis=1),
    lambda x, i: x[i].sum(1),
)
PROGRAMS["segment sum 20000x16"] = Program(
    (floats(20_000, 16), places(500, 20_000)),
    lambda x, i: pn.segment_sum(x, i, 500),
    lambda x, i: torch.zeros(500, 16, dtype=x.dtype).index_add_(0, i, x),
)
PROGRAMS["cumsum columns 1000x256"] = Program(
    (floats(1000, 256),), lambda x: pn.cumulative_sum(x, axis=0), lambda x: x.cumsum(0)
)
PROGRAMS["rotary 8x128x64"] = Program(
    (floats(8, 128, 64), floats(128, 32), floats(128, 32)),
    lambda x, c, s: pn.concat(
        (x[..., :32] * c - x[..., 32:] * s, x[..., 32:] * c + x[..., :32] * s), axis=-1
    ),
    lambda x, c, s: torch.cat((x[..., :32] * c - x[..., 32:] * s, x[..., 32:] * c + x[..., :32] * s), -1),
)
PROGRAMS["patches 224² by 16, linear"] = Program(
    (floats(1, 3, 224, 224), floats(768, 192, scale=0.05)),
    lambda x, w: (
        pn.permute_dims(x.reshape((1, 3, 14, 16, 14, 16)), (0, 2, 4, 3, 5, 1)).reshape((196, 768)) @ w
    ),
    lambda x, w: x.reshape(1, 3, 14, 16, 14, 16).permute(0, 2, 4, 3, 5, 1).reshape(196, 768) @ w,
)
PROGRAMS["histogram of rows"] = Program(
    (floats(1000, 100),),
    lambda x: pn.sum(pn.astype((x[:, :, None] > pn.linspace(-2, 2, 16)), pn.int32), axis=1),
    lambda x: (
        (x[:, :, None] > torch.linspace(-2, 2, 16, dtype=torch.float32))
        .to(torch.int32)
        .sum(1, dtype=torch.int32)
    ),
)
PROGRAMS["variance of columns 5000x200"] = Program(
    (floats(5000, 200),), lambda x: pn.var(x, axis=0), lambda x: x.var(0, correction=0)
)
PROGRAMS["standardize columns 5000x200"] = Program(
    (floats(5000, 200),),
    lambda x: (x - pn.mean(x, axis=0)) / pn.std(x, axis=0),
    lambda x: (x - x.mean(0)) / x.std(0, correction=0),
)
PROGRAMS["softmax of columns 1000x300"] = Program(
    (floats(1000, 300),), lambda x: f.softmax(x, axis=0), lambda x: torch.softmax(x, 0)
)
PROGRAMS["logsumexp 2000x500"] = Program(
    (floats(2000, 500),),
    lambda x: pn.log(pn.sum(pn.exp(x - pn.max(x, axis=1, keepdims=True)), axis=1)) + pn.max(x, axis=1),
    lambda x: torch.logsumexp(x, 1),
)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _gradient(inputs: tuple[Make, ...], ours: Callable[..., Any], theirs: Callable[..., Any]) -> Program:
    def by_torch(*given: Any) -> Any:
        wanted = [a.detach().requires_grad_() for a in given]
        return torch.autograd.grad(theirs(*wanted), wanted)

    return Program(inputs, pn.grad(ours, argnums=tuple(range(len(inputs)))), by_torch, gradient=True)


PROGRAMS |= {
    "gradient conv 3x3": _gradient(
        (floats(2, 32, 28, 28), floats(32, 32, 3, 3, scale=0.1)),
        lambda x, w: pn.mean(f.conv2d(x, w, padding=1) ** 2),
        lambda x, w: (tf.conv2d(x, w, padding=1) ** 2).mean(),
    ),
    "gradient depthwise 7x7": _gradient(
        (floats(1, 96, 28, 28), floats(96, 1, 7, 7, scale=0.1)),
        lambda x, w: pn.mean(f.conv2d(x, w, padding=3, groups=96) ** 2),
        lambda x, w: (tf.conv2d(x, w, padding=3, groups=96) ** 2).mean(),
    ),
    "gradient group norm": _gradient(
        (floats(4, 64, 16, 16), floats(64), floats(64)),
        lambda x, g, b: pn.mean(f.silu(f.group_norm(x, 16, g, b))),
        lambda x, g, b: tf.silu(tf.group_norm(x, 16, g, b)).mean(),
    ),
    "gradient layer norm": _gradient(
        (floats(512, 256), floats(256), floats(256)),
        lambda x, g, b: pn.mean(f.silu(f.layer_norm(x, (256,), g, b))),
        lambda x, g, b: tf.silu(tf.layer_norm(x, (256,), g, b)).mean(),
    ),
    "gradient batch norm": _gradient(
        (floats(16, 64, 14, 14), floats(64), floats(64)),
        lambda x, g, b: pn.mean(f.relu(f.batch_norm(x, None, None, g, b, training=True)) ** 2),
        lambda x, g, b: (torch.relu(tf.batch_norm(x, None, None, g, b, True)) ** 2).mean(),
    ),
    "gradient conv 1x1": _gradient(
        (floats(4, 64, 14, 14), floats(128, 64, 1, 1, scale=0.1)),
        lambda x, w: pn.mean(f.conv2d(x, w) ** 2),
        lambda x, w: (tf.conv2d(x, w) ** 2).mean(),
    ),
    "gradient attention": _gradient(
        (floats(4, 128, 32), floats(4, 128, 32), floats(4, 128, 32)),
        lambda q, k, v: pn.mean((f.softmax(q @ k.mT * 0.18, axis=-1) @ v) ** 2),
        lambda q, k, v: ((torch.softmax(q @ k.mT * 0.18, -1) @ v) ** 2).mean(),
    ),
    "gradient max pool": _gradient(
        (floats(2, 32, 56, 56),),
        lambda x: pn.mean(f.max_pool2d(x, 2) ** 2),
        lambda x: (tf.max_pool2d(x, 2) ** 2).mean(),
    ),
}
