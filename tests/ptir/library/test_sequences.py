"""Attention and recurrent layers against their formulas in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planish.errors import GraphError, ShapeError
from planish.ptir import interpret
from planish.ptir.library.attention import attention
from planish.ptir.library.recurrent import gru, lstm, rnn
from planish.ptir.types import tensor
from tests.ptir.library.expanding import function_of
from tests.ptir.library.formulas import close, normal, run


def reference(q, k, v, add=None, scale=None, soft_cap=None):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    share = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, share, 1) for a in (k, v))
    scores = q @ np.swapaxes(k, 2, 3) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if soft_cap is not None:
        scores = soft_cap * np.tanh(scores / soft_cap)
    scores = scores if add is None else scores + add
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_attention(groups):
    q, k, v = normal(0, 2, 4, 5, 8), normal(1, 2, groups, 7, 8), normal(2, 2, groups, 7, 3)
    (got,) = run(attention, q, k, v)
    close(got, reference(q, k, v))
    (got,) = run(lambda q, k, v: attention(q, k, v, causal=True), q, k, v)
    hidden = np.where(np.tril(np.ones((5, 7), bool)), 0, -np.inf)
    close(got, reference(q, k, v, hidden))
    (got,) = run(lambda q, k, v: attention(q, k, v, causal=True, offset=2, scale=0.3, soft_cap=2.0), q, k, v)
    hidden = np.where(np.tril(np.ones((5, 7), bool), 2), 0, -np.inf)
    close(got, reference(q, k, v, hidden, 0.3, 2.0))


def test_masks():
    q, k, v = normal(0, 2, 4, 5, 8), normal(1, 2, 2, 7, 8), normal(2, 2, 2, 7, 3)
    mask = np.random.default_rng(0).random((2, 1, 5, 7)) < 0.6
    mask[0, 0, 1] = False
    (got,) = run(attention, q, k, v, mask)
    close(got, reference(q, k, v, np.where(mask, 0, -np.inf)))
    assert (got[0, :, 1] == 0).all()
    bias = normal(3, 4, 5, 7)
    (got,) = run(lambda q, k, v, b: attention(q, k, v, b, causal=True), q, k, v, bias)
    close(got, reference(q, k, v, bias + np.where(np.tril(np.ones((5, 7), bool)), 0, -np.inf)))


def test_attention_of_narrow_floats_and_named_sizes():
    q, k, v = (normal(i, 1, 2, 6, 8).astype(np.float16) for i in range(3))
    (got,) = run(attention, q, k, v)
    assert got.dtype == np.float16
    close(got, reference(q, k, v), ulps=8)
    sizes = {"L": (1, 9), "S": (1, 9)}
    types = [tensor("f32", (2, 4, "L", 8), **sizes)] + [tensor("f32", (2, 2, "S", 8), **sizes)] * 2
    function = function_of(
        types, lambda q, k, v: attention(q, k, v, causal=True, offset=k.dims[2] - q.dims[2])
    )
    q, k, v = normal(0, 2, 4, 3, 8), normal(1, 2, 2, 7, 8), normal(2, 2, 2, 7, 8)
    (got,) = interpret(function, [q, k, v])
    close(got, reference(q, k, v, np.where(np.tril(np.ones((3, 7), bool), 4), 0, -np.inf)))


def test_heads_that_do_not_share_are_refused():
    with pytest.raises(ShapeError, match="3 query heads do not share 2 key heads"):
        run(attention, normal(0, 1, 3, 2, 4), normal(0, 1, 2, 2, 4), normal(0, 1, 2, 2, 4))


# --- recurrent layers ---


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unroll(step, x, states, lengths=None, reverse=False):
    """The loop that a scan stands for, in float64."""
    outputs = np.zeros((x.shape[0], *states[0].shape))
    states = [s.astype(np.float64) for s in states]
    times = range(x.shape[0])
    for t in reversed(times) if reverse else times:
        new = step(states, x[t].astype(np.float64))
        alive = np.ones(x.shape[1], bool) if lengths is None else t < lengths
        states = [np.where(alive[:, None], n, s) for n, s in zip(new, states, strict=True)]
        outputs[t] = np.where(alive[:, None], new[0], 0)
    return outputs, *states


T, B, D, H = 5, 3, 4, 6
LENGTHS = np.array([5, 2, 0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_rnn(reverse, lengths):
    x, h, w, r, b = normal(0, T, B, D), normal(1, B, H), normal(2, H, D), normal(3, H, H), normal(4, H)

    def step(states, now):
        return [np.tanh(now @ w.T + states[0] @ r.T + b)]

    extra = [] if lengths is None else [lengths]
    got = run(
        lambda x, h, w, r, b, n=None: rnn(x, h, w, r, b, lengths=n, reverse=reverse), x, h, w, r, b, *extra
    )
    for left, right in zip(got, unroll(step, x, [h], lengths, reverse), strict=True):
        close(left, right)


@pytest.mark.parametrize("gates", ["ifgo", "iofg"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_lstm(gates, lengths):
    x, h, c = normal(0, T, B, D), normal(1, B, H), normal(2, B, H)
    w, r, b = normal(3, 4 * H, D) * 0.5, normal(4, 4 * H, H) * 0.5, normal(5, 4 * H)
    peep = normal(6, 3, H)

    def step(states, now, holes=None, coupled=False):
        hidden, cell = states
        z = dict(zip(gates, np.split(now @ w.T + hidden @ r.T + b, 4, 1), strict=True))
        pi, pf, po = np.zeros((3, H)) if holes is None else holes
        i = sigmoid(z["i"] + pi * cell)
        f = 1 - i if coupled else sigmoid(z["f"] + pf * cell)
        new = f * cell + i * np.tanh(z["g"])
        return [sigmoid(z["o"] + po * new) * np.tanh(new), new]

    extra = [] if lengths is None else [lengths]
    arrays = [x, h, c, w, r, b]
    got = run(lambda x, h, c, w, r, b, n=None: lstm(x, h, c, w, r, b, gates, lengths=n), *arrays, *extra)
    for left, right in zip(got, unroll(step, x, [h, c], lengths), strict=True):
        close(left, right)

    def build(x, h, c, w, r, b, p):
        return lstm(x, h, c, w, r, b, gates, {"i": p[0], "f": p[1], "o": p[2]}, reverse=True)

    got = run(build, *arrays, peep)
    wanted = unroll(lambda s, n: step(s, n, peep), x, [h, c], None, True)
    for left, right in zip(got, wanted, strict=True):
        close(left, right)
    got = run(lambda x, h, c, w, r, b: lstm(x, h, c, w, r, b, gates, coupled=True), *arrays)
    for left, right in zip(got, unroll(lambda s, n: step(s, n, None, True), x, [h, c]), strict=True):
        close(left, right)


@pytest.mark.parametrize("gates", ["rzn", "zrn"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_gru(gates, after, reverse):
    x, h = normal(0, T, B, D), normal(1, B, H)
    w, r = normal(2, 3 * H, D) * 0.5, normal(3, 3 * H, H) * 0.5
    b, rb = normal(4, 3 * H), normal(5, 3 * H)

    def step(states, now):
        (hidden,) = states
        given = dict(zip(gates, np.split(now @ w.T + b, 3, 1), strict=True))
        back = dict(zip(gates, np.split(hidden @ r.T + rb, 3, 1), strict=True))
        rows = dict(zip(gates, np.split(r, 3), strict=True))
        shift = dict(zip(gates, np.split(rb, 3), strict=True))
        reset, update = sigmoid(given["r"] + back["r"]), sigmoid(given["z"] + back["z"])
        inner = reset * back["n"] if after else (reset * hidden) @ rows["n"].T + shift["n"]
        return [(1 - update) * np.tanh(given["n"] + inner) + update * hidden]

    arrays = [x, h, w, r, b, rb, LENGTHS]
    got = run(lambda x, h, w, r, b, q, n: gru(x, h, w, r, b, q, gates, after, n, reverse), *arrays)
    for left, right in zip(got, unroll(step, x, [h], LENGTHS, reverse), strict=True):
        close(left, right)


def test_an_unknown_order_of_gates_is_refused():
    with pytest.raises(GraphError, match="are not an order of"):
        run(
            lambda x, h, w: lstm(x, h, h, w, w, gates="abcd"),
            normal(0, 1, 1, 1),
            normal(0, 1, 1),
            normal(0, 4, 1),
        )
