"""The kinds of work that `cpu.py` measures: inputs, the formula, what it costs at least.

A formula is written once, over `m`, the side's own way of saying softmax, convolution and so on (`cpu_sides.py`); arithmetic
and `@` are operators everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Formula = Callable[..., Any]
WIDTH, HEADS, TOKENS = 768, 12, 256
HEAD = WIDTH // HEADS


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of work."""

    name: str
    inputs: Callable[[np.random.Generator], list[Array]]
    formula: Formula
    moved: int
    """Bytes that have to be read and written at least."""
    flops: int = 0
    """Multiplications and additions of contractions."""
    weights: tuple[int, ...] = ()
    """Inputs that a server of models would know beforehand."""
    dtype: str = "f32"
    gradient: bool = False
    """Whether the formula is a loss whose gradient by all inputs but the first is wanted."""

    def arrays(self) -> list[Array]:
        """The same numbers in every process."""
        return self.inputs(np.random.default_rng(7))


def _floats(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(shape, dtype=np.float32) * np.float32(scale) for shape in shapes]


def _size(*shapes: tuple[int, ...]) -> int:
    return sum(4 * int(np.prod(shape)) for shape in shapes)


def matmul(n: int) -> Workload:
    return Workload(
        f"matmul_{n}", _floats((n, n), (n, n)), lambda m, a, b: a @ b, 3 * 4 * n * n, flops=2 * n**3
    )


def _mlp(m: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    return m.relu(m.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def _mlp_loss(m: Any, *given: Any) -> Any:
    y = _mlp(m, *given)
    return m.sum(y * y)


_MLP = ((64, 784), (784, 512), (512,), (512, 512), (512,), (512, 10), (10,))
_MLP_FLOPS = 2 * 64 * (784 * 512 + 512 * 512 + 512 * 10)


def _mlp_inputs(rng: np.random.Generator) -> list[Array]:
    return [
        rng.standard_normal(s, dtype=np.float32) * np.float32(0.05 if k and len(s) == 2 else 1)
        for k, s in enumerate(_MLP)
    ]


_BLOCK = (
    (TOKENS, WIDTH),
    (WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,),
    (WIDTH,), (WIDTH,), (WIDTH, 4 * WIDTH), (4 * WIDTH,), (4 * WIDTH, WIDTH), (WIDTH,),
)  # fmt: skip


def _block(m: Any, x: Any, *p: Any) -> Any:
    g1, c1, wqkv, bqkv, wo, bo, g2, c2, w1, b1, w2, b2 = p
    h = m.layernorm(x, g1, c1) @ wqkv + bqkv
    parts = [m.columns(h, k * WIDTH, (k + 1) * WIDTH) for k in range(3)]
    q, k, v = (m.permute(m.reshape(part, (TOKENS, HEADS, HEAD)), (1, 0, 2)) for part in parts)
    seen = m.reshape(m.permute(m.attention(q, k, v, causal=True), (1, 0, 2)), (TOKENS, WIDTH))
    x = x + seen @ wo + bo
    return x + m.gelu(m.layernorm(x, g2, c2) @ w1 + b1) @ w2 + b2


def _block_inputs(rng: np.random.Generator) -> list[Array]:
    return [
        rng.standard_normal(s, dtype=np.float32) * np.float32(0.02 if k and len(s) == 2 else 1)
        for k, s in enumerate(_BLOCK)
    ]


def _conv(
    name: str,
    x: tuple[int, ...],
    w: tuple[int, ...],
    out: tuple[int, ...],
    *,
    stride: int = 1,
    padding: int = 1,
    groups: int = 1,
) -> Workload:
    return Workload(
        name,
        _floats(x, w),
        lambda m, a, b: m.conv(a, b, stride, padding, groups),
        _size(x, w, out),
        flops=2 * int(np.prod(out)) * int(np.prod(w[1:])),
        weights=(1,),
    )


N = 1 << 24
SQUARE = (4096, 4096)
WORKLOADS = {
    w.name: w
    for w in (
        Workload("a*b+c", _floats((N,), (N,), (N,)), lambda m, a, b, c: a * b + c, 16 * N),
        Workload(
            "tanh_chain", _floats((N,), (N,), (N,)),
            lambda m, a, b, c: m.tanh(a * b + c) * m.sqrt(m.abs(a) + 1.0) - c, 16 * N,
        ),
        Workload("sum_all", _floats((N,)), lambda m, a: m.sum(a), 4 * N),
        Workload("sum_axis0", _floats(SQUARE), lambda m, a: m.sum(a, 0), 4 * N),
        Workload("sum_axis1", _floats(SQUARE), lambda m, a: m.sum(a, 1), 4 * N),
        Workload("softmax", _floats(SQUARE), lambda m, a: m.softmax(a), 8 * N),
        Workload(
            "layernorm", _floats((4096, 1024), (1024,), (1024,)), lambda m, x, g, b: m.layernorm(x, g, b),
            2 * 4096 * 4096,
        ),
        *(matmul(n) for n in (256, 512, 1024, 2048)),
        Workload(
            "matmul_bf16", _floats((1024, 1024), (1024, 1024)), lambda m, a, b: a @ b, 3 * 2 * 1024**2,
            flops=2 * 1024**3, dtype="bf16",
        ),
        Workload("matvec", _floats(SQUARE, (4096,)), lambda m, a, x: a @ x, 4 * N, flops=2 * N),
        _conv("conv3x3", (1, 64, 56, 56), (64, 64, 3, 3), (1, 64, 56, 56)),
        _conv("conv7x7_s2", (1, 3, 224, 224), (64, 3, 7, 7), (1, 64, 112, 112), stride=2, padding=3),
        _conv("depthwise", (1, 96, 56, 56), (96, 1, 3, 3), (1, 96, 56, 56), groups=96),
        Workload(
            "attention", _floats((12, 512, 64), (12, 512, 64), (12, 512, 64)),
            lambda m, q, k, v: m.attention(q, k, v), 4 * 4 * 12 * 512 * 64, flops=4 * 12 * 512 * 512 * 64,
        ),
        Workload("mlp", _mlp_inputs, _mlp, _size(*_MLP), flops=_MLP_FLOPS, weights=tuple(range(1, 7))),
        Workload("mlp_grad", _mlp_inputs, _mlp_loss, 2 * _size(*_MLP), flops=3 * _MLP_FLOPS, gradient=True),
        Workload(
            "gpt2_block", _block_inputs, _block, _size(*_BLOCK) + 4 * TOKENS * WIDTH,
            flops=2 * TOKENS * WIDTH * (12 * WIDTH) + 4 * HEADS * TOKENS * TOKENS * HEAD,
            weights=tuple(range(1, len(_BLOCK))),
        ),
        Workload("transpose", _floats(SQUARE), lambda m, a: m.transpose(a), 8 * N),
        Workload(
            "embedding",
            lambda rng: [
                rng.standard_normal((50257, WIDTH), dtype=np.float32), rng.integers(0, 50257, 1024)
            ],
            lambda m, t, i: m.take(t, i), 2 * 4 * 1024 * WIDTH,
        ),
        Workload("cumsum", _floats((1024, 4096)), lambda m, a: m.cumsum(a), 8 * 1024 * 4096),
    )
}  # fmt: skip
