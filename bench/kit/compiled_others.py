"""More programs for `compile_time.py`, as those of `compiled.py` are written: networks, and here statistics, numerics, simulations, pictures."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from kit.compiled import Compiled
from kit.compiled_networks import NETWORKS

# -- statistics --------------------------------------------------------------------------------------------------------


def log_sum(m: Any, x: Any) -> Any:
    """Logarithms of the sums of the exponentials of rows."""
    top = m.max(x, axis=-1, keepdims=True)
    return m.log(m.sum(m.exp(x - top), axis=-1)) + top[:, 0]


def density(m: Any, x: Any, means: Any, log_scales: Any, logits: Any) -> Any:
    """The mean logarithm of a mixture of normal distributions."""
    d = (x[:, None] - means) / m.exp(log_scales)
    return m.mean(log_sum(m, m.log(m.softmax(logits)) - 0.5 * d * d - log_scales - 0.9189))


def moments(m: Any, x: Any) -> Any:
    """Variance, skewness and kurtosis of rows."""
    d = x - m.mean(x, axis=-1, keepdims=True)
    variance = m.mean(d * d, axis=-1)
    return variance, m.mean(d**3, axis=-1) / variance**1.5, m.mean(d**4, axis=-1) / variance**2


def correlations(m: Any, x: Any) -> Any:
    d = x - m.mean(x, axis=0)
    covariances = d.T @ d / (x.shape[0] - 1.0)
    deviations = m.sqrt(m.diagonal(covariances))
    return covariances / (deviations[:, None] * deviations[None])


def class_means(classes: int, m: Any, x: Any, labels: Any) -> Any:
    ours = m.astype(labels[None] == m.arange(classes)[:, None], m.float32)
    return (ours @ x) / (m.sum(ours, axis=1)[:, None] + 1e-6)


def distances(m: Any, x: Any, y: Any) -> Any:
    """Of every two points: what is near is close to 1."""
    return m.exp(-m.sqrt(m.sum((x[:, None] - y[None]) ** 2, axis=-1) + 1e-6))


def kalman(m: Any, seen: Any, motion: Any, view: Any) -> Any:
    """A state of four numbers, by two that are seen of it at a time."""
    one = m.eye(4)
    motion = one + 0.1 * motion

    def inverse(t: Any) -> Any:
        determinant = t[0, 0] * t[1, 1] - t[0, 1] * t[1, 0]
        rows = m.stack([t[1, 1], -t[0, 1]]), m.stack([-t[1, 0], t[0, 0]])
        return m.stack(rows) / determinant

    def step(state: Any, z: Any) -> Any:
        x, p = state
        x, p = motion @ x, motion @ p @ motion.T + 0.01 * one
        shared = p @ view.T
        gain = shared @ inverse(view @ shared + m.eye(2))
        x, p = x + gain @ (z - view @ x), (one - gain @ view) @ p
        return (x, p), x

    return m.scan(step, (m.zeros((4,), dtype=m.float32), one), seen)[1]


# -- numerics ----------------------------------------------------------------------------------------------------------


def power_iteration(count: int, m: Any, a: Any, v: Any) -> Any:
    def step(_: Any, v: Any) -> Any:
        v = a @ v
        return v / m.sqrt(m.sum(v * v))

    return m.fori_loop(0, count, step, v)


def newton_inverse(count: int, m: Any, a: Any) -> Any:
    """Of twice the unit and a matrix of small numbers: of large ones the steps would lead away."""
    one = m.eye(a.shape[0])
    a, x = a + 2 * one, 0.3 * one
    for _ in range(count):
        x = x @ (2 * one - a @ x)
    return x


def piecewise(m: Any, x: Any) -> Any:
    size = m.abs(x)
    pieces = ((-2, x * x), (-1, m.exp(x)), (0, m.sin(x)), (1, m.sqrt(size)), (2, m.log(1 + size)))
    y = m.tanh(x)
    for end, piece in reversed(pieces):
        y = m.where(x < end, piece, y)
    return m.clip(y, -1.0, 1.5)


def polynomial(degree: int, m: Any, x: Any) -> Any:
    return reduce(lambda y, k: y * x + (k + 1) * 0.3, range(degree - 1), x)


def bits(m: Any, x: Any) -> Any:
    """How many of each integer are set."""
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    return (((x + (x >> 4)) & 0x0F0F0F0F) * 0x01010101) >> 24


def quantised(m: Any, x: Any) -> Any:
    """Rows as integers of a byte, and back."""
    scale = m.max(m.abs(x), axis=-1, keepdims=True) / 127
    integers = m.astype(m.clip(m.round(x / scale), -127.0, 127.0), m.int8)
    return m.astype(integers, m.float32) * scale


def moved(m: Any, x: Any, y: Any) -> Any:
    return m.concat([m.roll(x, 3, axis=0), m.flip(y, axis=1)], axis=0) + m.concat([y, x], axis=0)


# -- simulations -------------------------------------------------------------------------------------------------------


def heat(count: int, m: Any, x: Any) -> Any:
    for _ in range(count):
        middle = x[1:-1, 1:-1, 1:-1]
        around = x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1] + x[1:-1, 2:, 1:-1]
        around = around + x[1:-1, :-2, 1:-1] + x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2]
        x = m.pad(middle + 0.1 * (around - 6 * middle), ((1, 1),) * 3)
    return x


def waves(count: int, m: Any, u: Any, v: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        u, v = state
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        v = v + 0.1 * m.pad(around - 4 * u[1:-1, 1:-1], ((1, 1), (1, 1)))
        return u + 0.1 * v, v

    return m.fori_loop(0, count, step, (u, v))[0]


def life(count: int, m: Any, x: Any) -> Any:
    """Conway's game, where the edges meet."""
    x = m.where(x > 0, 1, 0)
    for _ in range(count):
        near = sum(m.roll(x, (a, b), axis=(0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
        x = m.where((near == 3) | ((near == 2) & (x == 1)), 1, 0)
    return x


def lorenz(count: int, m: Any, x: Any) -> Any:
    def slope(s: Any) -> Any:
        a, b, c = s[:, 0], s[:, 1], s[:, 2]
        return m.stack([10 * (b - a), a * (28 - c) - b, a * b - 2.67 * c], axis=1)

    for _ in range(count):
        a = slope(x)
        b = slope(x + 0.005 * a)
        c = slope(x + 0.005 * b)
        d = slope(x + 0.01 * c)
        x = x + 0.00167 * (a + 2 * b + 2 * c + d)
    return x


# -- pictures ----------------------------------------------------------------------------------------------------------


def sobel(m: Any, x: Any) -> Any:
    """How steep a picture is."""
    height, width = x.shape
    padded = m.pad(x, ((1, 1), (1, 1)))

    def at(row: int, column: int) -> Any:
        return padded[row : row + height, column : column + width]

    across = at(0, 2) + 2 * at(1, 2) + at(2, 2) - at(0, 0) - 2 * at(1, 0) - at(2, 0)
    down = at(2, 0) + 2 * at(2, 1) + at(2, 2) - at(0, 0) - 2 * at(0, 1) - at(0, 2)
    return m.sqrt(across * across + down * down)


def blurred(m: Any, x: Any) -> Any:
    """By columns, then by rows."""
    (height, width), weights = x.shape, (0.06, 0.24, 0.4, 0.24, 0.06)
    padded = m.pad(x, ((2, 2), (0, 0)))
    x = sum(w * padded[k : k + height] for k, w in enumerate(weights))
    padded = m.pad(x, ((0, 0), (2, 2)))
    return sum(w * padded[:, k : k + width] for k, w in enumerate(weights))


def resized(size: int, m: Any, x: Any) -> Any:
    """Square pictures of another size, between the four pixels that are near."""
    last = x.shape[2] - 1
    places = (m.astype(m.arange(size), m.float32) + 0.5) * ((last + 1) / size) - 0.5
    places = m.clip(places, 0.0, float(last))
    low = m.astype(m.floor(places), m.int32)
    high, part = m.minimum(low + 1, last), places - m.astype(low, m.float32)
    rows = m.take(x, low, axis=2) * (1 - part)[:, None] + m.take(x, high, axis=2) * part[:, None]
    return m.take(rows, low, axis=3) * (1 - part) + m.take(rows, high, axis=3) * part


OTHERS: dict[str, Compiled] = {
    **NETWORKS,
    "softmax over rows": Compiled(lambda m, x: m.softmax(x, axis=0), ((100, 256),)),
    "logsumexp": Compiled(log_sum, ((100, 256),)),
    "mixture density": Compiled(density, ((500,), (8,), (8,), (8,))),
    "moments": Compiled(moments, ((100, 256),)),
    "correlations": Compiled(correlations, ((200, 32),)),
    "means of classes": Compiled(partial(class_means, 20), ((300, 16), (300,)), below=20),
    "argmax and argmin": Compiled(lambda m, x: (m.argmax(x, axis=-1), m.argmin(x, axis=0)), ((100, 256),)),
    "median": Compiled(lambda m, x: m.sort(x, axis=-1)[:, 50], ((100, 101),)),
    "distances": Compiled(distances, ((100, 5), (120, 5))),
    "Kalman filter": Compiled(kalman, ((30, 2), (4, 4), (2, 4))),
    "power iteration": Compiled(partial(power_iteration, 30), ((64, 64), (64,))),
    "Newton inverse, 6 steps": Compiled(partial(newton_inverse, 6), ((32, 32),), scale=0.05),
    "triangular products": Compiled(lambda m, a, b: m.tril(a) @ m.triu(b), ((64, 64), (64, 64))),
    "cumulative product": Compiled(lambda m, x: m.cumulative_prod(1 + 0.01 * x, axis=1), ((100, 100),)),
    "piecewise": Compiled(piecewise, ((10_000,),), scale=3.0),
    "polynomial": Compiled(partial(polynomial, 31), ((10_000,),)),
    "bits counted": Compiled(bits, ((1000,),), below=1 << 30),
    "quantise": Compiled(quantised, ((100, 256),)),
    "rolls and flips": Compiled(moved, ((100, 60), (100, 60))),
    "heat in 3D, 3 steps": Compiled(partial(heat, 3), ((24, 24, 24),)),
    "waves, 30 steps": Compiled(partial(waves, 30), ((60, 60), (60, 60))),
    "game of life, 3 steps": Compiled(partial(life, 3), ((100, 100),)),
    "Lorenz by Runge and Kutta, 3 steps": Compiled(partial(lorenz, 3), ((500, 3),)),
    "Sobel": Compiled(sobel, ((120, 160),)),
    "blur in two passes": Compiled(blurred, ((120, 160),)),
    "bilinear resize": Compiled(partial(resized, 48), ((2, 3, 32, 32),)),
}  # fmt: skip
