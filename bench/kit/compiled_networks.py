"""Layers, losses and steps of training: the others of `compile_time.py` (`compiled_others.py`) that are parts of networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kit.compiled import Compiled, gradient, heads, network

# -- layers ------------------------------------------------------------------------------------------------------------


def group_norm(groups: int, m: Any, x: Any) -> Any:
    return m.layernorm(x.reshape(x.shape[0], groups, -1)).reshape(x.shape)


def batch_norm(m: Any, x: Any, gain: Any, bias: Any) -> Any:
    y = m.normalised(x, (0, 2, 3))
    return m.maximum(y * gain[None, :, None, None] + bias[None, :, None, None], 0.0)


def rms_norm(m: Any, x: Any, gain: Any, w: Any) -> Any:
    """By the root of the mean of squares, then a matrix."""
    return (x / m.sqrt(m.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain) @ w


def gated(m: Any, x: Any, gate: Any, up: Any, down: Any) -> Any:
    y = x @ gate
    return (y * m.logistic(y) * (x @ up)) @ down


def exact_gelu(m: Any, x: Any, up: Any, down: Any) -> Any:
    y = x @ up
    return (0.5 * y * (1 + m.erf(y * 0.7071))) @ down


def rotary(m: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention whose queries and keys are turned, the further the later they are."""
    rows, _, width = q.shape
    half = width // 2
    rates = m.exp(m.astype(m.arange(half), m.float32) * -0.5)
    angles = m.astype(m.arange(rows), m.float32)[:, None] * rates[None]
    cosines, sines = m.cos(angles)[:, None], m.sin(angles)[:, None]

    def turned(x: Any) -> Any:
        a, b = x[..., :half], x[..., half:]
        return m.concat([a * cosines - b * sines, a * sines + b * cosines], axis=-1)

    q, k, v = (m.permute_dims(each, (1, 0, 2)) for each in (turned(q), turned(k), v))
    return m.softmax(q @ m.permute_dims(k, (0, 2, 1)) * 0.17) @ v


def mixer(m: Any, x: Any, tokens: Any, up: Any, down: Any) -> Any:
    """A block that mixes the tokens by a matrix, then what each of them is."""
    x = x + (m.layernorm(x).T @ tokens).T
    return x + m.gelu(m.layernorm(x) @ up) @ down


def recurrent(step: Callable[..., Any], m: Any, x: Any, w: Any, u: Any) -> Any:
    """All states of a step that takes a state and a row, from zero on."""
    zero = m.zeros((x.shape[1], u.shape[0]), dtype=m.float32)

    def states(h: Any, row: Any) -> Any:
        h = step(m, h, row, w, u)
        return h, h

    return m.scan(states, zero, x)[1]


def simple_step(m: Any, h: Any, row: Any, w: Any, u: Any) -> Any:
    return m.tanh(row @ w + h @ u)


def gru_step(m: Any, h: Any, row: Any, w: Any, u: Any) -> Any:
    a, b, width = row @ w, h @ u, u.shape[0]
    kept = m.logistic(a[:, :width] + b[:, :width])
    read = m.logistic(a[:, width : 2 * width] + b[:, width : 2 * width])
    new = m.tanh(a[:, 2 * width :] + read * b[:, 2 * width :])
    return (1 - kept) * new + kept * h


def normalised_lstm(m: Any, x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    """A step of an LSTM that normalises what the gates and the state are."""
    width = u.shape[0]
    gates = m.layernorm(x @ w) + m.layernorm(h @ u)
    i, f, o, n = (gates[:, k * width : (k + 1) * width] for k in range(4))
    c = m.logistic(f) * c + m.logistic(i) * m.tanh(n)
    return m.logistic(o) * m.tanh(m.layernorm(c)), c


def flat_pictures(m: Any, x: Any, a: Any, b: Any) -> Any:
    """Two convolutions by one axis: pictures of one row."""
    return m.maximum(m.conv(m.maximum(m.conv(x, a), 0.0), b), 0.0)


def squeezed(m: Any, x: Any, a: Any, b: Any) -> Any:
    """Channels, weighted by what the means of all of them say."""
    weights = m.logistic(m.maximum(m.mean(x, axis=(2, 3)) @ a, 0.0) @ b)
    return x * weights[:, :, None, None]


def upsampled(m: Any, x: Any, w: Any) -> Any:
    """A convolution of a picture of twice the size."""
    n, c, height, width = x.shape
    twice = m.broadcast_to(x[:, :, :, None, :, None], (n, c, height, 2, width, 2))
    return m.conv(twice.reshape(n, c, 2 * height, 2 * width), w)


# -- losses ------------------------------------------------------------------------------------------------------------


def huber(m: Any, x: Any, y: Any) -> Any:
    d = x - y
    return m.mean(m.where(m.abs(d) < 1, 0.5 * d * d, m.abs(d) - 0.5))


def divergence(m: Any, x: Any, y: Any) -> Any:
    """By Kullback and Leibler, of rows of logits."""
    a, b = m.softmax(x), m.softmax(y)
    return m.mean(m.sum(a * (m.log(a) - m.log(b)), axis=-1))


def variational(m: Any, x: Any, up: Any, noise: Any, mean: Any, spread: Any, down: Any, out: Any) -> Any:
    """The loss of an autoencoder whose code is drawn."""
    h = m.tanh(x @ up)
    mu, log_variance = h @ mean, h @ spread
    code = mu + m.exp(0.5 * log_variance) * noise
    again = m.logistic(m.tanh(code @ down) @ out)
    distance = m.mean(1 + log_variance - mu * mu - m.exp(log_variance))
    return m.mean((x - again) ** 2) - 0.5 * distance


def autoencoder(m: Any, x: Any, *weights: Any) -> Any:
    return network(m, x, *weights) - x


def unit(m: Any, x: Any) -> Any:
    """Rows of length 1."""
    return x / m.sqrt(m.sum(x * x, axis=-1, keepdims=True) + 1e-8)


def similarity(m: Any, x: Any, y: Any) -> Any:
    return unit(m, x) @ unit(m, y).T


def contrastive(m: Any, x: Any, y: Any) -> Any:
    """Every row has to find its own among those of the other side."""
    scores = similarity(m, x, y) * 10
    e = scores - m.max(scores, axis=-1, keepdims=True)
    own = m.sum(e * m.eye(x.shape[0]), axis=-1)
    return m.mean(m.log(m.sum(m.exp(e), axis=-1)) - own)


# -- training ----------------------------------------------------------------------------------------------------------


def momentum(m: Any, x: Any, a: Any, b: Any, last_a: Any, last_b: Any, labels: Any) -> Any:
    """A step for two layers."""

    def loss(a: Any, b: Any) -> Any:
        return m.cross_entropy(m.maximum(x @ a, 0.0) @ b, labels)

    to_a, to_b = m.gradient(loss, argnums=(0, 1))(a, b)
    last_a, last_b = 0.9 * last_a + to_a, 0.9 * last_b + to_b
    return a - 0.1 * last_a, b - 0.1 * last_b, last_a, last_b


def rmsprop(m: Any, x: Any, a: Any, b: Any, root_a: Any, root_b: Any) -> Any:
    """A step for two layers; roots of mean squares are kept."""
    updated = []
    for w, last, g in zip((a, b), (root_a, root_b), gradient(network, (1, 2), m, x, a, b), strict=True):
        root = m.sqrt(0.9 * last * last + 0.1 * g * g)
        updated += [w - 0.01 * g / (root + 1e-8), root]
    return tuple(updated)


def regression(count: int, m: Any, x: Any, w: Any, y: Any) -> Any:
    """Logistic, by steps down the gradient."""
    wanted = m.where(y > 0, 1.0, 0.0)
    return m.fori_loop(0, count, lambda _, w: w - 0.1 * (x.T @ (m.logistic(x @ w) - wanted)), w)


_GATED = ((64, 128), (128, 256), (128, 256), (256, 128))
_FLAT = ((4, 16, 1, 100), (32, 16, 1, 5), (16, 32, 1, 3))

NETWORKS: dict[str, Compiled] = {
    "group norm": Compiled(partial(group_norm, 8), ((4, 32, 14, 14),)),
    "batch norm, gradient": Compiled(partial(gradient, batch_norm, (0, 1, 2)), ((8, 16, 12, 12), (16,), (16,))),
    "layer norm, gradient": Compiled(
        partial(gradient, lambda m, x, gain, bias: m.layernorm(x) * gain + bias, (0, 1, 2)), ((64, 128), (128,), (128,))
    ),
    "rms norm and linear": Compiled(rms_norm, ((64, 256), (256,), (256, 128))),
    "gated layer": Compiled(gated, _GATED),
    "gated layer, gradient": Compiled(partial(gradient, gated, (1, 2, 3)), _GATED),
    "GELU network, gradient": Compiled(partial(gradient, exact_gelu, (0, 1, 2)), ((64, 96), (96, 192), (192, 96))),
    "rotary attention": Compiled(rotary, ((64, 4, 32),) * 3),
    "attention, gradient": Compiled(partial(gradient, heads, (1, 2)), ((64, 128), (128, 384), (128, 128))),
    "mixer": Compiled(mixer, ((49, 64), (49, 49), (64, 128), (128, 64))),
    "RNN, gradient": Compiled(  # twenty steps by larger weights are chaotic
        partial(gradient, partial(recurrent, simple_step), (1, 2)), ((20, 8, 32), (32, 64), (64, 64)), scale=0.1
    ),
    "GRU": Compiled(partial(recurrent, gru_step), ((20, 8, 32), (32, 192), (64, 192))),
    "normalised LSTM step": Compiled(normalised_lstm, ((8, 32), (8, 64), (8, 64), (32, 256), (64, 256))),
    "two 1D convolutions": Compiled(flat_pictures, _FLAT),
    "two 1D convolutions, gradient": Compiled(partial(gradient, flat_pictures, (1, 2)), _FLAT),
    "squeeze and excite": Compiled(squeezed, ((2, 16, 14, 14), (16, 4), (4, 16))),
    "upsampled": Compiled(upsampled, ((1, 16, 20, 20), (8, 16, 3, 3))),
    "one hot product": Compiled(
        lambda m, w, at: m.astype(at[:, None] == m.arange(w.shape[0])[None], m.float32) @ w, ((50, 64), (200,)), below=50
    ),
    "Huber loss, gradient": Compiled(partial(gradient, huber, (0, 1)), ((256, 100), (256, 100)), scale=2.0),
    "KL divergence": Compiled(divergence, ((64, 100), (64, 100))),
    "VAE, gradient": Compiled(
        partial(gradient, variational, (1, 3, 4, 5, 6)),
        ((64, 100), (100, 128), (64, 16), (128, 16), (128, 16), (16, 128), (128, 100)),
    ),
    "autoencoder, gradient": Compiled(
        partial(gradient, autoencoder, (1, 2, 3, 4)), ((64, 100), (100, 40), (40, 8), (8, 40), (40, 100))
    ),
    "cosine similarity": Compiled(similarity, ((100, 64), (120, 64))),
    "contrastive loss, gradient": Compiled(partial(gradient, contrastive, (0, 1)), ((48, 64), (48, 64))),
    "SGD with momentum": Compiled(
        momentum, ((64, 50), (50, 80), (80, 10), (50, 80), (80, 10), (64,)), below=10
    ),
    "RMSprop": Compiled(rmsprop, ((32, 20), (20, 30), (30, 1), (20, 30), (30, 1))),
    "logistic regression, 20 steps": Compiled(partial(regression, 20), ((200, 10), (10,), (200,))),
}  # fmt: skip
