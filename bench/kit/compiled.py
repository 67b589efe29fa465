"""Programs whose compilation `compile_time.py` measures, each written once over `m`, the names of planish or of `jax.numpy`.

Both follow the array standard, so that a formula is the same text on both sides; the few words in which they differ
(`conv`, `scan`, `gradient`, `fori_loop`, `logistic`, `top`) are added by `Words`. Arrays are small: what counts is how much there is to
compile.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

Formula = Callable[..., Any]


class Words:
    """A side's array functions, and in the same words what the standard does not have."""

    names: Any
    jit: Any
    gradient: Any
    scan: Any
    fori_loop: Any
    erf: Any
    logistic: Any
    top: Any

    def __init__(self, side: str) -> None:
        if side == "planish":
            import planish as pn

            self.names = pn
            self.jit, self.gradient = pn.jit, pn.grad
            self.scan, self.fori_loop = pn.scan, pn.fori_loop
            self.erf, self.logistic, self.top = pn.erf, pn.nn.sigmoid, pn.topk
        else:
            import jax

            self.names = jax.numpy
            self.jit, self.gradient = jax.jit, jax.grad
            self.scan, self.fori_loop = jax.lax.scan, jax.lax.fori_loop
            self.erf, self.logistic, self.top = jax.scipy.special.erf, jax.nn.sigmoid, jax.lax.top_k
        self.side = side

    def __getattr__(self, name: str) -> Any:
        return getattr(self.names, name)

    def done(self, results: Any) -> list[Any]:
        """What a function gave, as arrays, as soon as they are computed."""
        return [np.asarray(each) for each in (results if isinstance(results, (tuple, list)) else (results,))]

    def conv(self, x: Any, w: Any) -> Any:
        """By windows of odd sizes, the picture's size kept."""
        pads = tuple((n // 2, n // 2) for n in w.shape[2:])
        if self.side == "planish":
            return self.names.nn.conv2d(x, w, padding=tuple(low for low, _ in pads))
        import jax

        return jax.lax.conv_general_dilated(x, w, (1, 1), pads)

    def halved(self, x: Any) -> Any:
        """The greatest of every 2 × 2."""
        n, c, h, w = x.shape
        return self.names.max(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))

    def softmax(self, x: Any, axis: int = -1) -> Any:
        e = self.exp(x - self.max(x, axis=axis, keepdims=True))
        return e / self.sum(e, axis=axis, keepdims=True)

    def normalised(self, x: Any, axis: int | tuple[int, ...]) -> Any:
        d = x - self.mean(x, axis=axis, keepdims=True)
        return d / self.sqrt(self.mean(d * d, axis=axis, keepdims=True) + 1e-5)

    def layernorm(self, x: Any) -> Any:
        return self.normalised(x, -1)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.tanh(0.79788456 * (x + 0.044715 * x * x * x)))

    def cross_entropy(self, x: Any, labels: Any) -> Any:
        e = x - self.max(x, axis=-1, keepdims=True)
        right = self.take_along_axis(e, labels[:, None], axis=-1)[:, 0]
        return self.mean(self.log(self.sum(self.exp(e), axis=-1)) - right)


class Compiled(NamedTuple):
    """A formula and the shapes of what it is called with."""

    formula: Formula
    shapes: tuple[tuple[int, ...], ...]
    below: int = 0
    """Of integers, which are the last input: what they are less than; 0 where all are floats."""
    scale: float = 0.3
    """The standard deviation of floats."""

    @property
    def size(self) -> int:
        """Elements of the first input."""
        return int(np.prod(self.shapes[0]))

    def arrays(self) -> list[Any]:
        rng = np.random.default_rng(7)
        arrays: list[Any] = [
            rng.standard_normal(s, dtype=np.float32) * np.float32(self.scale) for s in self.shapes
        ]
        if self.below:
            arrays[-1] = rng.integers(0, self.below, self.shapes[-1]).astype(np.int32)
        return arrays


# -- formulas that need more than a line -------------------------------------------------------------------------------


def sines(count: int, m: Any, x: Any) -> Any:
    for k in range(count):
        x = m.sin(x) * (0.9 + k % 7 * 1e-2) + 0.5 * k
    return x


def sums(count: int, m: Any, x: Any, y: Any) -> Any:
    """A chain of cheap arithmetic: nothing but what planning and rewriting cost."""
    for k in range(count // 2):
        x = x * y + (k % 7) * 0.1
    return x


def layers(count: int, m: Any, x: Any, *weights: Any) -> Any:
    for k in range(count):
        x = m.tanh(x @ weights[k % len(weights)] + 0.1)
    return x


def reductions(count: int, m: Any, x: Any) -> Any:
    for _ in range(count):
        x = x - m.mean(x, axis=-1, keepdims=True)
        x = x / (1 + m.max(m.abs(x), axis=0, keepdims=True))
    return x


def heads(m: Any, x: Any, w: Any, out: Any, causal: bool = True) -> Any:
    """Attention of four heads."""
    rows, width = x.shape
    parts = m.permute_dims((x @ w).reshape(rows, 3, 4, width // 4), (1, 2, 0, 3))
    q, k, v = parts[0], parts[1], parts[2]
    scores = q @ m.permute_dims(k, (0, 2, 1)) * 0.125
    if causal:
        i = m.arange(rows)
        scores = m.where(i[:, None] >= i[None, :], scores, -1e9)
    return m.permute_dims(m.softmax(scores) @ v, (1, 0, 2)).reshape(rows, width) @ out


def block(m: Any, x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    """Of GPT-2: attention and a wide layer, each normalised before and added."""
    x = x + heads(m, m.layernorm(x), qkv, out)
    return x + m.gelu(m.layernorm(x) @ up) @ down


def blocks(count: int, m: Any, x: Any, *weights: Any) -> Any:
    return reduce(lambda x, _: block(m, x, *weights), range(count), x)


def gradient(formula: Formula, wanted: tuple[int, ...], m: Any, *given: Any) -> Any:
    """Of the mean of squares of a formula, or of a formula that is a number."""

    def loss(*given: Any) -> Any:
        y = formula(m, *given)
        return y if y.ndim == 0 else m.mean(y * y)

    return m.gradient(loss, argnums=wanted)(*given)


def network(m: Any, x: Any, *weights: Any) -> Any:
    for w in weights[:-1]:
        x = m.tanh(x @ w)
    return x @ weights[-1]


def training(m: Any, x: Any, a: Any, b: Any, c: Any, labels: Any) -> Any:
    """A step of Adam for three layers."""

    def loss(weights: Any) -> Any:
        return m.cross_entropy(network(m, x, *weights), labels)

    updated = []
    for w, g in zip((a, b, c), m.gradient(loss)((a, b, c)), strict=True):
        first, second = 0.1 * g, 0.001 * g * g
        updated.append(w - 1e-3 * (first / 0.1) / (m.sqrt(second / 0.001) + 1e-8))
    return tuple(updated)


def pictures(m: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    x = m.halved(m.maximum(m.conv(x, a), 0.0))
    x = m.halved(m.maximum(m.conv(x, b), 0.0))
    return x.reshape(x.shape[0], -1) @ c


def residual(m: Any, x: Any, a: Any, b: Any) -> Any:
    normal = partial(m.normalised, axis=(0, 2, 3))
    return m.maximum(x + normal(m.conv(m.maximum(normal(m.conv(x, a)), 0.0), b)), 0.0)


def stencil(count: int, m: Any, x: Any) -> Any:
    for _ in range(count):
        x = m.pad(0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]), ((1, 1), (1, 1)))
    return x


def lstm(m: Any, x: Any, w: Any, u: Any) -> Any:
    width = u.shape[0]

    def step(state: Any, row: Any) -> Any:
        h, c = state
        gates = row @ w + h @ u
        i, f, g, o = (gates[:, k * width : (k + 1) * width] for k in range(4))
        c = m.logistic(f) * c + m.logistic(i) * m.tanh(g)
        h = m.logistic(o) * m.tanh(c)
        return (h, c), h

    zero = m.zeros((x.shape[1], width), dtype=m.float32)
    return m.scan(step, (zero, zero), x)[1]


def options(m: Any, s: Any, k: Any, t: Any) -> Any:
    """Prices by Black and Scholes."""
    s, k, t = m.exp(s), m.exp(k), m.exp(t)
    root = 0.3 * m.sqrt(t)
    d = (m.log(s / k) + (0.05 + 0.045) * t) / root
    return 0.5 * s * (1 + m.erf(d * 0.70710678)) - 0.5 * k * m.exp(-0.05 * t) * (
        1 + m.erf((d - root) * 0.70710678)
    )


def mandelbrot(m: Any, x: Any, y: Any) -> Any:
    def step(_: Any, z: Any) -> Any:
        a, b, n = z
        a, b = a * a - b * b + x, 2 * a * b + y
        return a, b, n + m.where(a * a + b * b < 4.0, 1.0, 0.0)

    return m.fori_loop(0, 30, step, (m.zeros_like(x), m.zeros_like(x), m.zeros_like(x)))[2]


def clusters(m: Any, x: Any, centres: Any) -> Any:
    """A step of k-means."""
    far = m.sum((x[:, None] - centres[None]) ** 2, axis=-1)
    ours = m.astype(m.argmin(far, axis=-1)[:, None] == m.arange(centres.shape[0])[None], m.float32)
    return ours.T @ x / (m.sum(ours, axis=0)[:, None] + 1e-6)


def bodies(m: Any, p: Any, v: Any) -> Any:
    """Two steps of gravity."""
    for _ in range(2):
        d = p[None] - p[:, None]
        near = m.sum(d * d, axis=-1) + 1e-2
        v = v + 1e-3 * m.sum(d / (near * m.sqrt(near))[:, :, None], axis=1)
        p = p + 1e-3 * v
    return p, v


def mixing(m: Any, x: Any) -> Any:
    """Bits of integers, eight rounds."""
    for k in range(8):
        x = (x ^ (x << 5)) + 40503 * k
        x = x ^ (x >> 7)
    return x


def lookup(m: Any, table: Any, w: Any, at: Any) -> Any:
    return m.mean(m.tanh(m.take(table, at, axis=0) @ w) ** 2)


_BLOCK = ((128, 256), (256, 768), (256, 256), (256, 1024), (1024, 256))
_TRAINING = ((64, 128), (128, 128), (128, 128), (128, 10), (64,))
_PICTURES = ((8, 3, 32, 32), (16, 3, 3, 3), (32, 16, 3, 3), (2048, 10))

COMPILED: dict[str, Compiled] = {
    "add": Compiled(lambda m, x, y: x + y, ((256, 256), (256, 256))),
    "100 sines": Compiled(partial(sines, 100), ((1000,),)),
    "500 sines": Compiled(partial(sines, 500), ((1000,),)),
    "200 multiply-adds": Compiled(partial(sums, 400), ((1000,), (1000,))),
    "30 means and maxima": Compiled(partial(reductions, 15), ((128, 128),)),
    "softmax": Compiled(lambda m, x: m.softmax(x), ((256, 256),)),
    "layer norm": Compiled(lambda m, x: m.layernorm(x), ((256, 256),)),
    "standardise by three axes": Compiled(
        lambda m, x: reduce(lambda x, k: (x - m.mean(x, axis=k, keepdims=True)) / m.std(x, axis=k, keepdims=True), range(3), x),
        ((24, 32, 40),),
    ),
    "matmul": Compiled(lambda m, a, b: a @ b, ((256, 256), (256, 256))),
    "chain of matmuls": Compiled(
        lambda m, *a: reduce(operator.matmul, a), ((64, 256), (256, 128), (128, 512), (512, 64))
    ),
    "four layers": Compiled(network, ((64, 256), (256, 256), (256, 256), (256, 256), (256, 10))),
    "attention": Compiled(partial(heads, causal=False), _BLOCK[:3]),
    "causal attention": Compiled(heads, _BLOCK[:3]),
    "GPT-2 block": Compiled(block, _BLOCK),
    "GPT-2 block, gradient": Compiled(partial(gradient, block, (1, 2, 3, 4)), _BLOCK),
    "4 GPT-2 blocks": Compiled(partial(blocks, 4), _BLOCK),
    "convolution": Compiled(lambda m, x, w: m.conv(x, w), ((1, 32, 28, 28), (64, 32, 3, 3))),
    "small picture network": Compiled(pictures, _PICTURES),
    "small picture network, gradient": Compiled(partial(gradient, pictures, (1, 2, 3)), _PICTURES),
    "residual block": Compiled(residual, ((4, 16, 16, 16), (16, 16, 3, 3), (16, 16, 3, 3))),
    "5 stencil steps": Compiled(partial(stencil, 5), ((200, 200),)),
    "LSTM": Compiled(lstm, ((20, 8, 32), (32, 256), (64, 256))),
    "cumulative sums": Compiled(lambda m, x: m.cumulative_sum(m.cumulative_sum(x, axis=0), axis=1), ((100, 100),)),
    "sort": Compiled(lambda m, x: m.sort(x, axis=-1), ((32, 200),)),
    "top 5": Compiled(lambda m, x: m.top(x, 5), ((32, 200),)),
    "cross entropy, gradient": Compiled(
        partial(gradient, lambda m, x, labels: m.cross_entropy(x, labels), (0,)), ((64, 100), (64,)), below=100
    ),
    "training step of Adam": Compiled(training, _TRAINING, below=10),
    "Black-Scholes": Compiled(options, ((1000,), (1000,), (1000,))),
    "Mandelbrot": Compiled(mandelbrot, ((64, 64), (64, 64))),
    "k-means": Compiled(clusters, ((500, 8), (16, 8))),
    "n bodies": Compiled(bodies, ((200, 3), (200, 3))),
    "mixed bits": Compiled(mixing, ((1000,),), below=1 << 30),
    "embedding, gradient": Compiled(partial(gradient, lookup, (0, 1)), ((500, 64), (64, 32), (100,)), below=500),
    "einsum of three": Compiled(
        lambda m, a, b, c: m.einsum("ij,jkl,ml->ikm", a, b, c), ((20, 30), (30, 12, 16), (24, 16))
    ),
}  # fmt: skip

CHAINS: dict[str, Callable[[int], Compiled]] = {
    "multiply-adds": lambda count: Compiled(partial(sums, count), ((1000,), (1000,))),
    "sines": lambda count: Compiled(partial(sines, count // 3), ((1000,),)),
    # weights that shrink what they are applied to: a thousand layers of larger ones are chaotic, and sides differ by more than rounding
    "layers": lambda count: Compiled(partial(layers, count // 3), ((64, 64),) * 5, scale=0.1),
}
"""Programs of as many operations as one likes."""
