"""The kinds of work that `cpu.py` measures: inputs, the formula, what it costs at least.

A formula is written once, over `m`, the side's own way of saying softmax, convolution and so on (`sides`); arithmetic
and `@` are operators everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Formula = Callable[..., Any]
WIDTH, HEADS = 768, 12


class Input(NamedTuple):
    """Normal numbers as float32, or positions."""

    shape: tuple[int, ...]
    scale: float = 1.0
    below: int | None = None
    """Of positions: the size of what they point into."""

    def array(self, rng: np.random.Generator) -> Array:
        if self.below is not None:
            return rng.integers(0, self.below, self.shape)
        return rng.standard_normal(self.shape, dtype=np.float32) * np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of work."""

    name: str
    inputs: tuple[Input, ...]
    formula: Formula
    moved: int
    """Bytes that have to be read and written at least."""
    flops: int = 0
    """Multiplications and additions of contractions."""
    like: str = "copy"
    """The loop of `limits.py` that reads as much for what it writes."""
    weights: tuple[int, ...] = ()
    """Inputs that a server of models would know beforehand."""
    dtype: str = "f32"
    gradient: bool = False
    """Whether the formula is a loss whose gradient by all inputs but the first is wanted."""

    def arrays(self) -> list[Array]:
        """The same numbers in every process."""
        rng = np.random.default_rng(7)
        return [given.array(rng) for given in self.inputs]


def floats(*shapes: tuple[int, ...], scale: float = 1.0) -> tuple[Input, ...]:
    """Inputs of which the matrices behind the first, weights, may be smaller numbers."""
    return tuple(Input(s, scale if k and len(s) == 2 else 1.0) for k, s in enumerate(shapes))


def _size(*shapes: tuple[int, ...]) -> int:
    return sum(4 * int(np.prod(shape)) for shape in shapes)


def matmul(n: int) -> Workload:
    """Two square matrices."""
    return Workload(
        f"matmul_{n}", floats((n, n), (n, n)), lambda m, a, b: a @ b, 3 * 4 * n * n, flops=2 * n**3
    )


def matmul_bf16(n: int) -> Workload:
    """Two square matrices of bfloat16."""
    return replace(matmul(n), name="matmul_bf16", moved=3 * 2 * n * n, dtype="bf16")


_ELEMENTWISE: dict[str, tuple[int, Formula, int, str]] = {
    "a*b+c": (3, lambda m, a, b, c: a * b + c, 16, "combine"),
    "tanh_chain": (3, lambda m, a, b, c: m.tanh(a * b + c) * m.sqrt(m.abs(a) + 1.0) - c, 16, "combine"),
    "sum_all": (1, lambda m, a: m.sum(a), 4, "read"),
}


def elementwise(name: str, n: int) -> Workload:
    """Long arrays of one dimension."""
    count, formula, moved, like = _ELEMENTWISE[name]
    return Workload(name, floats(*[(n,)] * count), formula, moved * n, like=like)


_ROWS: dict[str, tuple[Formula, int]] = {
    "sum_axis0": (lambda m, a: m.sum(a, 0), 4),
    "sum_axis1": (lambda m, a: m.sum(a, 1), 4),
    "softmax": (lambda m, a: m.softmax(a), 8),
    "transpose": (lambda m, a: m.transpose(a), 8),
    "cumsum": (lambda m, a: m.cumsum(a), 8),
}


def rows(name: str, count: int, length: int) -> Workload:
    """Matrices whose rows or columns are worked on."""
    if name == "layernorm":
        shapes = (count, length), (length,), (length,)
        return Workload(name, floats(*shapes), lambda m, x, g, b: m.layernorm(x, g, b), 8 * count * length)
    if name == "matvec":
        n = count * length
        return Workload(
            name, floats((count, length), (length,)), lambda m, a, x: a @ x, 4 * n, flops=2 * n, like="read"
        )
    formula, moved = _ROWS[name]
    like = "copy" if moved > 4 else "read"
    return Workload(name, floats((count, length)), formula, moved * count * length, like=like)


def square(name: str, n: int) -> Workload:
    """The same of a square matrix."""
    return rows(name, n, n)


def conv(
    name: str, x: tuple[int, ...], w: tuple[int, ...], *, stride: int = 1, padding: int = 1, groups: int = 1
) -> Workload:
    """Images, NCHW."""
    out = (x[0], w[0], *((n + 2 * padding - k) // stride + 1 for n, k in zip(x[2:], w[2:], strict=True)))
    return Workload(
        name,
        floats(x, w),
        lambda m, a, b: m.conv(a, b, stride, padding, groups),
        _size(x, w, out),
        flops=2 * int(np.prod(out)) * int(np.prod(w[1:])),
        weights=(1,),
    )


def attention(heads: int, tokens: int, width: int) -> Workload:
    """softmax(q kᵀ / √d) v"""
    shape = (heads, tokens, width)
    return Workload(
        "attention",
        floats(shape, shape, shape),
        lambda m, q, k, v: m.attention(q, k, v),
        4 * _size(shape),
        flops=4 * heads * tokens * tokens * width,
    )


def _mlp(m: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any) -> Any:
    return m.relu(m.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def _mlp_loss(m: Any, *given: Any) -> Any:
    y = _mlp(m, *given)
    return m.sum(y * y)


def mlp(batch: int, *, gradient: bool = False) -> Workload:
    """784-512-512-10, forward; or the gradient of a loss by all weights."""
    shapes = ((batch, 784), (784, 512), (512,), (512, 512), (512,), (512, 10), (10,))
    flops = 2 * batch * (784 * 512 + 512 * 512 + 512 * 10)
    inputs, size = floats(*shapes, scale=0.05), _size(*shapes)
    if gradient:
        return Workload("mlp_grad", inputs, _mlp_loss, 2 * size, flops=3 * flops, gradient=True)
    return Workload("mlp", inputs, _mlp, size, flops=flops, weights=tuple(range(1, 7)))


def block(tokens: int) -> Workload:
    """One block of GPT-2, small."""
    d = WIDTH
    shapes = (
        (tokens, d), (d,), (d,), (d, 3 * d), (3 * d,), (d, d), (d,), (d,), (d,), (d, 4 * d), (4 * d,), (4 * d, d), (d,),
    )  # fmt: skip

    def formula(m: Any, x: Any, *p: Any) -> Any:
        g1, c1, wqkv, bqkv, wo, bo, g2, c2, w1, b1, w2, b2 = p
        h = m.layernorm(x, g1, c1) @ wqkv + bqkv
        parts = [m.columns(h, k * d, (k + 1) * d) for k in range(3)]
        q, k, v = (m.permute(m.reshape(part, (tokens, HEADS, d // HEADS)), (1, 0, 2)) for part in parts)
        seen = m.reshape(m.permute(m.attention(q, k, v, causal=True), (1, 0, 2)), (tokens, d))
        x = x + seen @ wo + bo
        return x + m.gelu(m.layernorm(x, g2, c2) @ w1 + b1) @ w2 + b2

    return Workload(
        "gpt2_block",
        floats(*shapes, scale=0.02),
        formula,
        _size(*shapes, (tokens, d)),
        flops=2 * tokens * d * 12 * d + 4 * tokens * tokens * d,
        weights=tuple(range(1, len(shapes))),
    )


def embedding(count: int) -> Workload:
    """Rows of a table of 50257."""
    return Workload(
        "embedding",
        (Input((50257, WIDTH)), Input((count,), below=50257)),
        lambda m, t, i: m.take(t, i),
        2 * 4 * count * WIDTH,
    )


N = 1 << 24
WORKLOADS = {
    w.name: w
    for w in (
        *(elementwise(name, N) for name in ("a*b+c", "tanh_chain", "sum_all")),
        *(square(name, 4096) for name in ("sum_axis0", "sum_axis1", "softmax")),
        rows("layernorm", 4096, 1024),
        *(matmul(n) for n in (256, 512, 1024, 2048)),
        matmul_bf16(1024),
        square("matvec", 4096),
        conv("conv3x3", (1, 64, 56, 56), (64, 64, 3, 3)),
        conv("conv7x7_s2", (1, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3),
        conv("depthwise", (1, 96, 56, 56), (96, 1, 3, 3), groups=96),
        attention(12, 512, 64),
        mlp(64),
        mlp(64, gradient=True),
        block(256),
        square("transpose", 4096),
        embedding(1024),
        rows("cumsum", 1024, 4096),
    )
}
