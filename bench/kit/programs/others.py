"""Losses, pools, products of all shapes, attention, movement, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as tf

import planish as pn
from planish.nn import functional as f

from .base import Make, Program, floats, places

PROGRAMS: dict[str, Program] = {}


# -- losses, pools, resizing -------------------------------------------------------------------------------------------

PROGRAMS["cross entropy 512x1000"] = Program(
    (floats(512, 1000), places(1000, 512)),
    f.cross_entropy,
    tf.cross_entropy,
)
PROGRAMS["cross entropy of pixels 2x21 64²"] = Program(
    (floats(2, 21, 64, 64), places(21, 2, 64, 64)),
    f.cross_entropy,
    tf.cross_entropy,
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
