"""Random numbers: known answers, the same bits everywhere, and distributions that are what they are called."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import random
from planish.errors import DTypeError, ShapeError
from planish.frontend.library import threefry2x32
from planish.ptir.ops.random import random_words

N = 40_000


def words(*numbers: int) -> pn.Tensor:
    return pn.asarray(np.array(numbers, np.uint32))


@pytest.mark.parametrize(
    ("key", "block", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_threefry(
    key: tuple[int, int], block: tuple[int, int], answer: tuple[int, int]
):  # fmt: skip
    found = threefry2x32(words(*key), words(block[0]), words(block[1]))
    assert [int(x[0]) for x in found] == list(answer)


def test_bits_are_the_words_of_position():
    key = random.key(0x13198A2E_03707344)
    assert key.tolist() == [0x13198A2E, 0x03707344]
    numbers = np.arange(12, dtype=np.uint64)
    for dtype in (pn.uint8, pn.uint16, pn.uint32, pn.uint64):
        expected = random_words(np.array([0x13198A2E, 0x03707344], np.uint32), numbers, dtype).reshape(3, 4)
        np.testing.assert_array_equal(random.bits(key, (3, 4), dtype).numpy(), expected)
    assert random.bits(random.key(0), (1,), pn.uint64).item() == 0x6B20015999BA4EFE


def test_seeds():
    assert random.key(5).tolist() == [0, 5]
    assert random.key(-1).tolist() == [0xFFFFFFFF, 0xFFFFFFFF]
    assert random.key((1 << 64) - 1).tolist() == [0xFFFFFFFF, 0xFFFFFFFF]
    for seed in (5, -3, (1 << 40) + 7):
        assert random.key(pn.asarray(seed)).tolist() == random.key(seed).tolist()
    assert random.key(pn.asarray(7, dtype=pn.uint32)).tolist() == [0, 7]


def test_keys_do_not_meet():
    key = random.key(3)
    made = [
        key,
        *map(pn.asarray, random.split(key, 50).numpy()),
        *(random.fold_in(key, n) for n in range(50)),
        *(random.fold_in(random.key(4), n) for n in range(5)),
    ]
    pairs = {tuple(np.asarray(one).tolist()) for one in made}
    drawn = np.asarray(random.bits(key, (200,), pn.uint64)).tolist()
    assert len(pairs) == len(made)
    assert not pairs & {(word >> 32, word & 0xFFFFFFFF) for word in drawn}


def test_folding_in_a_tensor_is_folding_in_its_number():
    key = random.key(9)
    for number in (0, 1, -1, 1 << 40):
        assert random.fold_in(key, pn.asarray(number)).tolist() == random.fold_in(key, number).tolist()
    assert random.split(key, (2, 3)).shape == (2, 3, 2)
    np.testing.assert_array_equal(
        random.split(key, (2, 3)).numpy().reshape(6, 2), random.split(key, 6).numpy()
    )


DRAWS: dict[str, Callable[[pn.Tensor], pn.Tensor]] = {
    "bits": lambda key: random.bits(key, (33, 7)),
    "uniform": lambda key: random.uniform(key, (33, 7), minval=-2.0, maxval=3.0),
    "uniform64": lambda key: random.uniform(key, (33, 7), pn.float64),
    "randint": lambda key: random.randint(key, (33, 7), -5, 1000),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, (33, 7)),
    "permutation": lambda key: random.permutation(key, 1000),
    "split": lambda key: random.split(key, 100),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_bits_on_every_device_and_thread_count(name: str):
    draw = DRAWS[name]
    expected = draw(random.key(11)).numpy()
    elsewhere = draw(random.key(11).to_device("interpreter"))
    assert elsewhere.device == "interpreter"
    np.testing.assert_array_equal(elsewhere.numpy(), expected)
    for threads in (1, 2, 5):
        with pn.settings(threads=threads):
            np.testing.assert_array_equal(draw(random.key(11)).numpy(), expected)


def distance(sample: np.ndarray[Any, Any], cumulative: Callable[[np.ndarray[Any, Any]], Any]) -> float:
    """Kolmogorov and Smirnov's: how far the sample's distribution is from the wanted one, times √n."""
    ordered = np.sort(sample.astype(np.float64))
    count = len(ordered)
    wanted = cumulative(ordered)
    above = np.max(np.arange(1, count + 1) / count - wanted)
    below = np.max(wanted - np.arange(count) / count)
    return float(max(above, below) * math.sqrt(count))


def phi(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])


CONTINUOUS: dict[str, tuple[Callable[[pn.Tensor, Any], pn.Tensor], Callable[[Any], Any]]] = {
    "uniform": (lambda k, d: random.uniform(k, N, d, -1.0, 3.0), lambda x: (x + 1) / 4),
    "normal": (lambda k, d: random.normal(k, N, d, 2.0, 3.0), lambda x: phi((x - 2) / 3)),
    "truncated": (
        lambda k, d: random.truncated_normal(k, -1.0, 2.0, N, d),
        lambda x: (phi(x) - phi(np.array([-1.0]))) / (phi(np.array([2.0])) - phi(np.array([-1.0]))),
    ),
    "exponential": (lambda k, d: random.exponential(k, N, d), lambda x: -np.expm1(-x)),
    "gumbel": (lambda k, d: random.gumbel(k, N, d), lambda x: np.exp(-np.exp(-x))),
    "laplace": (
        lambda k, d: random.laplace(k, N, d),
        lambda x: np.where(x < 0, 0.5 * np.exp(x), 1 - 0.5 * np.exp(-x)),
    ),
    "logistic": (lambda k, d: random.logistic(k, N, d), lambda x: 1 / (1 + np.exp(-x))),
    "cauchy": (lambda k, d: random.cauchy(k, N, d), lambda x: np.arctan(x) / math.pi + 0.5),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", [pn.float32, pn.float64])
def test_distributions(name: str, dtype: Any):
    draw, cumulative = CONTINUOUS[name]
    sample = draw(random.key(21), dtype)
    assert sample.dtype is dtype
    values = sample.numpy()
    assert np.isfinite(values).all()
    # beyond 1.95 once in a thousand
    assert distance(values, cumulative) < 1.95


@pytest.mark.parametrize("dtype", [pn.float16, pn.bfloat16])
def test_narrow_dtypes_stay_inside(dtype: Any):
    unit = random.uniform(random.key(1), N, dtype)
    assert unit.dtype is dtype
    values = unit.numpy().astype(np.float64)
    assert values.min() == 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(random.normal(random.key(1), N, dtype).numpy().astype(np.float64).std() - 1) < 0.02


def test_uniform_never_reaches_its_end():
    low, high = 1.0, float(np.nextafter(np.float32(1), np.float32(2)))
    assert set(random.uniform(random.key(0), 1000, minval=low, maxval=high).numpy().tolist()) == {1.0}
    bounds = pn.asarray([0.0, 10.0])
    drawn = random.uniform(random.key(0), (1000, 2), minval=bounds, maxval=bounds + 1.0).numpy()
    assert drawn.min(0).tolist() >= [0, 10]
    assert (drawn.max(0) < [1, 11]).all()


@pytest.mark.parametrize(("low", "high"), [(0, 7), (-3, 2), (-(1 << 62), (1 << 62) + 5), (0, 1)])
def test_randint_fills_its_range_evenly(low: int, high: int):
    drawn = random.randint(random.key(2), N, low, high).numpy()
    assert drawn.min() >= low
    assert drawn.max() < high
    cells = 7 if high - low > 100 else high - low
    counts = np.bincount(
        ((drawn.astype(object) - low) * cells // (high - low)).astype(np.int64), minlength=cells
    )
    expected = N / cells
    assert (np.abs(counts - expected) < 5 * math.sqrt(expected)).all()


def test_randint_of_other_dtypes_and_tensor_bounds():
    everything = random.randint(random.key(2), N, 0, 256, pn.uint8)
    assert everything.dtype is pn.uint8
    assert len(set(everything.numpy().tolist())) == 256
    all64 = random.randint(random.key(2), 100, 0, 1 << 64, pn.uint64).numpy()
    assert all64.max() > 1 << 63
    bounds = pn.asarray([3, 100])
    drawn = random.randint(random.key(2), (500, 2), 0, bounds).numpy()
    assert drawn.max(0).tolist() == [2, 99]
    assert drawn.min() == 0


def test_bernoulli_and_rademacher():
    assert abs(random.bernoulli(random.key(5), 0.3, N).numpy().mean() - 0.3) < 0.01
    p = pn.asarray([0.0, 1.0])
    assert random.bernoulli(random.key(5), p).tolist() == [False, True]
    assert random.bernoulli(random.key(5), p, (3, 2)).numpy().tolist() == [[False, True]] * 3
    signs = random.rademacher(random.key(5), N)
    assert set(signs.numpy().tolist()) == {-1, 1}
    assert abs(signs.numpy().mean()) < 0.02


def test_categorical_follows_its_probabilities():
    share = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        logits = pn.asarray(np.log(share) + 3)
    drawn = random.categorical(random.key(6), logits, shape=(N, 2)).numpy()
    for row in range(2):
        np.testing.assert_allclose(np.bincount(drawn[:, row], minlength=3) / N, share[row], atol=0.01)
    turned = random.categorical(random.key(6), pn.permute_dims(logits, (1, 0)), axis=0)
    assert turned.shape == (2,)


def test_permutations():
    order = random.permutation(random.key(7), 500).numpy()
    assert sorted(order.tolist()) == list(range(500))
    assert order.tolist() != list(range(500))
    x = pn.reshape(pn.arange(12), (3, 4))
    shuffled = random.permutation(random.key(7), x, axis=1).numpy()
    assert sorted(map(tuple, shuffled.T.tolist())) == sorted(map(tuple, x.numpy().T.tolist()))
    keys = map(pn.asarray, random.split(random.key(1), 600).numpy())
    places = np.stack([random.permutation(k, 4).numpy() for k in keys])
    counts = np.stack([np.bincount(column, minlength=4) for column in places.T])
    assert (np.abs(counts - 150) < 5 * math.sqrt(150)).all()


def test_choice():
    key = random.key(8)
    different = random.choice(key, 20, (4, 5), replace=False).numpy()
    assert sorted(different.ravel().tolist()) == list(range(20))
    again = random.choice(key, 3, (N,)).numpy()
    np.testing.assert_allclose(np.bincount(again) / N, [1 / 3] * 3, atol=0.01)
    p = pn.asarray([0.1, 0.0, 0.9])
    np.testing.assert_allclose(
        np.bincount(random.choice(key, 3, (N,), p=p).numpy(), minlength=3) / N, [0.1, 0, 0.9], atol=0.01
    )
    assert sorted(random.choice(key, 3, (2,), replace=False, p=p).numpy().tolist()) == [0, 2]
    rows = pn.reshape(pn.arange(6), (3, 2))
    assert random.choice(key, rows, (5,)).shape == (5, 2)
    assert random.choice(key, rows, axis=1).shape == (3,)
    assert random.choice(key, 5).shape == ()


@pytest.mark.parametrize(
    ("call", "error", "complaint"),
    [
        (lambda k: random.bits(0), DTypeError, "a key is two uint32, not int"),  # type: ignore[arg-type]
        (lambda k: random.bits(pn.asarray([1, 2])), DTypeError, r"not int64\[2\].*random\.key\(seed\)"),
        (lambda k: random.bits(random.split(k)), DTypeError, r"uint32\[2, 2\].*vmap"),
        (lambda k: random.bits(k, 3, pn.int32), DTypeError, "int32 is not an unsigned"),
        (lambda k: random.uniform(k, 3, pn.int32), DTypeError, "int32 is not float16"),
        (lambda k: random.uniform(k, 3, minval=1.0, maxval=1.0), ShapeError, r"nothing from 1\.0 to 1\.0"),
        (lambda k: random.randint(k, 3, 5, 5), ShapeError, "no integer from 5 to 5"),
        (lambda k: random.randint(k, 3, 0, 300, pn.uint8), ShapeError, "uint8 does not hold 0 … 299"),
        (lambda k: random.randint(k, 3, 0, 3, pn.float32), DTypeError, "not an integer dtype"),
        (lambda k: random.truncated_normal(k, 2, 1), ShapeError, "nothing from 2 to 1"),
        (lambda k: random.choice(k, 3, 4, replace=False), ShapeError, "4 of 3 cannot"),
        (lambda k: random.choice(k, 0, 1), ShapeError, "nothing to choose"),
        (lambda k: random.choice(k, 3, 1, p=pn.ones(2)), ShapeError, "one probability for each of 3"),
        (lambda k: random.categorical(k, pn.ones((2, 3)), shape=(3,)), ShapeError, r"does not end in \(2,\)"),
        (lambda k: random.categorical(k, pn.arange(3)), DTypeError, "not log probabilities"),
        (lambda k: random.permutation(k, pn.asarray(1.0)), ShapeError, "no order"),
        (lambda k: random.fold_in(k, pn.asarray(1.0)), DTypeError, "not an integer"),
        (lambda k: random.key(pn.asarray([1])), DTypeError, "a seed is an integer"),
        (lambda k: random.key(1 << 64), ShapeError, "more than 64 bits"),
    ],
)
def test_mistakes_say_what_to_do(call: Any, error: type[Exception], complaint: str):
    with pytest.raises(error, match=complaint):
        call(random.key(0))
