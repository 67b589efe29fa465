"""Scaled dot-product attention against torch: masks, causality, shared heads, caches, dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.nn.attention import attention_weights
from tests.nn.compare import arrays, close, interpreted, same_function, torch

theirs = torch.nn.functional.scaled_dot_product_attention
ours = nn.scaled_dot_product_attention


def three(
    batch: tuple[int, ...], heads: int = 4, groups: int = 4, length: int = 3, size: int = 5
) -> list[Any]:
    return arrays([(*batch, heads, length, 6), (*batch, groups, size, 6), (*batch, groups, size, 2)])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("batch", [(2,), (), (2, 3)])
def test_plain_and_causal(causal: bool, batch: tuple[int, ...]):
    same_function(
        lambda q, k, v: ours(q, k, v, is_causal=causal), lambda q, k, v: theirs(q, k, v, is_causal=causal),
        three(batch, length=5),
    )  # fmt: skip


@pytest.mark.parametrize("groups", [1, 2])
def test_shared_heads(groups: int):
    same_function(
        lambda q, k, v: ours(q, k, v, scale=0.7),
        lambda q, k, v: theirs(q, k, v, scale=0.7, enable_gqa=True),
        three((2,), 4, groups),
    )


def test_without_heads():
    same_function(ours, theirs, arrays([(3, 6), (5, 6), (5, 2)]))
    same_function(ours, theirs, arrays([(4, 3, 6), (4, 5, 6), (4, 5, 2)]))


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 3, 5), (1, 4, 1, 5), (2, 4, 3, 5)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(shape: tuple[int, ...], kind: str):
    mask: Any = np.random.default_rng(1).normal(size=shape)
    if kind == "bool":
        mask = mask > 0
        mask[..., 0] = True
    same_function(
        lambda q, k, v: ours(q, k, v, interpreted(pn.asarray(mask))),
        lambda q, k, v: theirs(q, k, v, torch.tensor(mask)),
        three((2,)),
    )


def test_mask_of_other_ranks():
    mask = np.random.default_rng(1).normal(size=(4, 3, 5))
    same_function(
        lambda q, k, v: ours(q, k, v, interpreted(pn.asarray(mask))),
        lambda q, k, v: theirs(q, k, v, torch.tensor(mask)),
        three(()),
    )
    same_function(
        lambda q, k, v: ours(q, k, v, interpreted(pn.asarray(mask))),
        lambda q, k, v: theirs(q, k, v, torch.tensor(mask)),
        three((2, 3)),
    )


def test_a_query_that_sees_nothing_gives_nothing():
    q, k, v = (interpreted(pn.asarray(x)) for x in three((1,)))
    mask = np.ones((3, 5), bool)
    mask[1] = False
    found = np.asarray(ours(q, k, v, interpreted(pn.asarray(mask))))
    assert (found[:, :, 1] == 0).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("offset", [2, "tensor"])
def test_a_cache_moves_the_diagonal(offset: Any):
    q, k, v = three((2,), length=2, size=4)
    start = interpreted(pn.asarray(2)) if offset == "tensor" else offset
    below = np.tril(np.ones((2, 4), bool), 2)
    same_function(
        lambda q, k, v: ours(q, k, v, is_causal=True, offset=start),
        lambda q, k, v: theirs(q, k, v, torch.tensor(below)),
        [q, k, v],
    )


def test_compiled_in_float32():
    same_function(
        lambda q, k, v: ours(q, k, v, is_causal=True),
        lambda q, k, v: theirs(q, k, v, is_causal=True, enable_gqa=True),
        [x.astype(np.float32) for x in three((2,), 4, 2, 5)],
        native=True,
    )


def test_soft_cap():
    q, k, v = (interpreted(pn.asarray(x)) for x in three((1,)))
    scores = np.einsum("bhld,bhsd->bhls", np.asarray(q), np.asarray(k)) / np.sqrt(6)
    capped = 1.5 * np.tanh(scores / 1.5)
    share = np.exp(capped) / np.exp(capped).sum(-1, keepdims=True)
    close(ours(q, k, v, soft_cap=1.5), share @ np.asarray(v))


def test_dropout_keeps_the_mean():
    q, k, v = (pn.asarray(x.astype(np.float32)) for x in three((1,)))
    whole = np.asarray(ours(q, k, v))
    keys = map(pn.asarray, pn.random.split(pn.random.key(0), 400).numpy())
    some = np.mean([np.asarray(ours(q, k, v, dropout_p=0.4, rng=key)) for key in keys], axis=0)
    assert np.abs(some - whole).max() < 0.15
    with pytest.raises(pn.PlanishError, match="training needs a random key"):
        ours(q, k, v, dropout_p=0.4)


@pytest.mark.parametrize(
    ("shapes", "complaint"),
    [
        (((2, 3, 4, 5), (2, 3, 4, 6), (2, 3, 4, 6)), r"query \(2, 3, 4, 5\), key \(2, 3, 4, 6\).*do not fit"),
        (((2, 4, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5)), "4 query heads do not share 3 key heads"),
        (((2, 4, 4, 5), (3, 4, 4, 5), (3, 4, 4, 5)), "differ in their leading axes"),
        (((4, 5), (3, 4, 5), (3, 4, 5)), "equally many axes"),
    ],
)
def test_mistakes(shapes: Any, complaint: str):
    query, key, value = (pn.ones(shape) for shape in shapes)
    with pytest.raises(pn.PlanishError, match=complaint):
        ours(query, key, value)


def in_steps(q: Any, k: Any, v: Any, bias: Any, causal: bool, soft_cap: float | None) -> Any:
    """The same without a rule of its own: every step has its derivative."""
    shared = q.shape[1] // k.shape[1]
    weights = attention_weights(q, k, bias, causal, soft_cap=soft_cap)
    return weights @ pn.repeat(v, shared, axis=1)


@pytest.mark.parametrize(
    ("groups", "causal", "soft_cap"),
    [
        (2, True, 3.0),
        pytest.param(4, False, None, marks=pytest.mark.slow),
        pytest.param(1, True, None, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_its_own_derivatives_are_those_of_its_steps(groups: int, causal: bool, soft_cap: float | None):
    given = [*map(pn.asarray, three((2,), 4, groups, 5)), pn.asarray(arrays([(4, 1, 5)])[0])]
    moved = [pn.asarray(x) for x in arrays([x.shape for x in given])]

    def derivatives(function: Any) -> list[Any]:
        def weighed(*operands: Any) -> Any:
            return pn.sum(pn.sin(function(*operands)))

        def along(*operands: Any) -> Any:
            return pn.jvp(weighed, operands, tuple(moved))[1]

        def all_of_them(*operands: Any) -> Any:
            return (
                *pn.grad(weighed, argnums=(0, 1, 2, 3))(*operands),
                along(*operands),
                pn.grad(along)(*operands),
            )

        return list(pn.jit(all_of_them)(*given))

    mine = derivatives(lambda q, k, v, b: ours(q, k, v, b, is_causal=causal, soft_cap=soft_cap))
    wanted = derivatives(lambda q, k, v, b: in_steps(q, k, v, b, causal, soft_cap))
    for found, exact in zip(mine, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(exact), rtol=1e-9, atol=1e-9)
