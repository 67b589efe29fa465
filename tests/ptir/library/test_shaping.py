"""Triangles, one-hot, padding modes, tiling, einsum, cumulative functions and losses against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.errors import GraphError, ShapeError
from planish.ptir import interpret
from planish.ptir.library import cumulative, losses, shaping
from planish.ptir.library.contraction import einsum
from planish.ptir.types import tensor
from tests.ptir.library.expanding import function_of
from tests.ptir.library.formulas import close, normal, run


def equal(got, wanted):
    assert got.dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("k", [-3, -1, 0, 2, 9])
def test_triangles_and_diagonals(k):
    x = normal(0, 2, 4, 6)
    low, high = run(lambda x: [shaping.tril(x, k), shaping.triu(x, k)], x)
    equal(low, np.tril(x, k))
    equal(high, np.triu(x, k))
    (line,) = run(lambda x: shaping.diagonal(x, k), x)
    equal(line, np.diagonal(x, k, 1, 2))
    (one,) = run(lambda x: shaping.eye(x, 3, 5, dtypes.int32, k), x)
    equal(one, np.eye(3, 5, k, np.int32))


def test_one_hot():
    index = np.array([[0, 3, -1], [2, 5, 1]], np.int32)
    (got,) = run(lambda i: shaping.one_hot(i, 4), index)
    equal(got, (np.arange(4) == index[..., None]).astype(np.float32))
    (got,) = run(lambda i: shaping.one_hot(i, 4, 5, -2, dtypes.int8, 1), index)
    equal(got, np.where(np.arange(4)[None, :, None] == index[:, None], 5, -2).astype(np.int8))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("shape", [(3, 4), (1, 2), (5, 1)], ids=str)
def test_padding(mode, shape):
    x = normal(0, *shape)
    for low, high in [((1, 2), (2, 0)), ((7, 0), (0, 9)), ((0, 0), (0, 0)), ((4, 4), (4, 4))]:
        (got,) = run(lambda x, a=low, b=high: shaping.pad(x, a, b, mode), x)
        equal(got, np.pad(x, tuple(zip(low, high, strict=True)), mode))


def test_padding_crops_and_takes_named_sizes():
    x = normal(0, 6, 4)
    (got,) = run(lambda x: shaping.pad(x, (-2, 1), (1, -1), "reflect"), x)
    equal(got, np.pad(x[2:, :-1], ((0, 1), (1, 0)), "reflect"))
    function = function_of([tensor("f32", ("N",), N=(1, 9))], lambda x: [shaping.pad(x, [5], [6], m) for m in ("reflect", "edge", "wrap")])  # fmt: skip
    for size in (1, 2, 9):
        line = normal(size, size)
        for got, mode in zip(interpret(function, [line]), ("reflect", "edge", "wrap"), strict=True):
            equal(got, np.pad(line, (5, 6), mode))  # type: ignore[call-overload]
    with pytest.raises(ShapeError, match="may be empty"):
        run(lambda x: shaping.pad(x, [1], [1], "edge"), np.zeros(0))
    with pytest.raises(GraphError, match="no padding mode"):
        run(lambda x: shaping.pad(x, [1], [1], "mirror"), np.zeros(3))


def test_stacking_splitting_tiling_rolling():
    x, y = normal(0, 3, 4), normal(1, 3, 4)
    for axis in (0, 1, -1):
        (got,) = run(lambda x, y, a=axis: shaping.stack([x, y], a), x, y)
        equal(got, np.stack([x, y], axis))
    parts = run(lambda x: shaping.split(x, [1, 3, 0], 1), x)
    for got, wanted in zip(parts, np.split(x, [1, 4], 1), strict=True):
        equal(got, wanted)
    for repeats in ([2, 3], [2], [2, 1, 3], [0, 1]):
        (got,) = run(lambda x, r=repeats: shaping.tile(x, r), x)
        equal(got, np.tile(x, repeats))
    (got,) = run(lambda x: shaping.repeat(x, 3, 1), x)
    equal(got, np.repeat(x, 3, 1))
    for shifts in ([1, -2], [7, 0], [0, 0]):
        (got,) = run(lambda x, s=shifts: shaping.roll(x, s, [0, 1]), x)
        equal(got, np.roll(x, shifts, (0, 1)))
    for least in (0, 1):
        function = function_of([tensor("f32", ("N",), N=(least, 9))], lambda x: shaping.roll(x, [2], [0]))
        for size in (least, 1, 2, 9):
            line = np.arange(size, dtype=np.float32)
            equal(interpret(function, [line])[0], np.roll(line, 2))
    with pytest.raises(ShapeError, match="do not make up"):
        run(lambda x: shaping.split(x, [1, 1], 0), x)


def test_space_and_depth():
    x = normal(0, 2, 8, 3, 5)
    for mode in ("DCR", "CRD"):
        (got,) = run(lambda x, m=mode: shaping.depth_to_space(x, 2, m), x)
        if mode == "DCR":
            wanted = x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2)
        else:
            wanted = x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3)
        equal(got, wanted.reshape(2, 2, 6, 10))
        (back,) = run(lambda x, m=mode: shaping.space_to_depth(shaping.depth_to_space(x, 2, m), 2, m), x)
        equal(back, x)
    with pytest.raises(GraphError, match="no mode 'X'"):
        run(lambda x: shaping.space_to_depth(x, 1, "X"), x)


def test_broadcasting():
    assert shaping.broadcast_dims((3, 1), (4,), ()) == (3, 4)
    a, b = run(lambda a, b: shaping.broadcast_together(a, b), normal(0, 3, 1), normal(1, 2, 1, 4))
    assert a.shape == b.shape == (2, 3, 4)
    with pytest.raises(ShapeError, match="do not broadcast"):
        shaping.broadcast_dims((2,), (3,))


# --- einsum ---

EQUATIONS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->j", (3, 3, 2)),
    ("i,j->ij", (3,), (4,)),
    ("i,i", (5,), (5,)),
    ("ij,ij->ij", (3, 4), (3, 4)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("...i->...", (2, 3, 4)),
    ("ab...,b...c", (2, 3, 4), (3, 4, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ij,kj->ik", (3, 1), (4, 5)),
    ("ijk,k->", (2, 3, 4), (4,)),
    ("ab,cd->dcba", (2, 3), (4, 5)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda c: c[0])
def test_einsum(case):
    equation, *shapes = case
    arrays = [normal(i, *shape, dtype=np.float64) for i, shape in enumerate(shapes)]
    (got,) = run(lambda *xs: einsum(equation, *xs), *arrays)
    close(got, np.einsum(equation, *arrays))


def test_einsum_of_a_matrix_product_is_one_op():
    function = function_of(
        [tensor("f32", (3, 4)), tensor("f32", (4, 5))], lambda a, b: einsum("ij,jk->ik", a, b)
    )
    assert [inst.op.name for inst in function.walk()] == ["dot_general"]


@pytest.mark.parametrize(
    ("equation", "message"),
    [("ij,jk", "does not fit"), ("ijk->i", "does not name"), ("i1->i", "list of axes"), ("ij->ik", "nowhere"), ("ij->ii", "twice")],
)  # fmt: skip
def test_wrong_equations_are_refused(equation, message):
    with pytest.raises((GraphError, ShapeError), match=message):
        run(lambda x: einsum(equation, x), normal(0, 2, 3))


# --- cumulative functions and losses ---


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_cumlogsumexp(size):
    x = normal(0, 3, size) * 30
    x[0, 0] = -np.inf
    if size > 4:
        x[1, 2:4] = np.inf
        x[2, 3] = np.nan
    (got,) = run(lambda x: cumulative.cumlogsumexp(x, 1), x)
    with np.errstate(invalid="ignore"):
        forward = np.logaddexp.accumulate(x.astype(np.float64), 1)
        backward = np.logaddexp.accumulate(x[::-1].astype(np.float64), 0)[::-1]
    close(got, forward)
    (got,) = run(lambda x: cumulative.cumlogsumexp(x, 0, True), x)
    close(got, backward)


def test_losses_of_pairs():
    x, y = normal(0, 4, 5, dtype=np.float64), normal(1, 4, 5, dtype=np.float64)
    d = np.abs(x - y)
    p = 1 / (1 + np.exp(-y))
    got = run(
        lambda x, y, p: [
            losses.mean_squared_error(x, y),
            losses.mean_absolute_error(x, y),
            losses.huber(x, y, 0.7),
            losses.smooth_l1(x, y, 0.5),
            losses.smooth_l1(x, y, 0.0),
            losses.kl_divergence(x, p),
            losses.kl_divergence(x, y, True),
            losses.cosine_similarity(x, y),
        ],
        x,
        y,
        p,
    )
    wanted = [
        d**2,
        d,
        np.where(d <= 0.7, d**2 / 2, 0.7 * (d - 0.35)),
        np.where(d <= 0.5, d**2, d - 0.25),
        d,
        p * (np.log(p) - x),
        np.exp(y) * (y - x),
        (x * y).sum(1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)),
    ]
    for left, right in zip(got, wanted, strict=True):
        close(left, right)
    (zero,) = run(lambda x, t: losses.kl_divergence(x, t), np.zeros(2), np.zeros(2))
    assert (zero == 0).all()
