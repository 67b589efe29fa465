"""Dimension numbers at random, beside jax: products, convolutions, gathers, scatters, windows, padding, sorts."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from planish import stablehlo  # noqa: E402

QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
MORE = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def check(function: Any, *args: Any) -> None:
    """planish's results are jax's."""
    wanted = jax.tree.leaves(jax.jit(function)(*args))
    found = stablehlo.load(jax.jit(function).lower(*args)).interpret(*args)
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_allclose(mine, np.asarray(theirs), rtol=1e-4, atol=1e-4)


def data(draw: Any, shape: Any) -> Any:
    seed = draw(st.integers(0, 99))
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


@st.composite
def products(draw: Any) -> Any:
    batch, contract = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    names = string.ascii_lowercase
    size = {n: draw(st.integers(1, 3)) for n in names[:8]}
    shared, summed = names[:batch], names[2 : 2 + contract]
    left = draw(st.permutations(shared + summed + names[4 : 4 + draw(st.integers(0, 2))]))
    right = draw(st.permutations(shared + summed + names[6 : 6 + draw(st.integers(0, 2))]))
    order = draw(st.permutations(summed))
    dims = (
        ([left.index(n) for n in order], [right.index(n) for n in order]),
        ([left.index(n) for n in shared], [right.index(n) for n in shared]),
    )
    x, y = (data(draw, [size[n] for n in word]) for word in (left, right))
    return (lambda a, b: lax.dot_general(a, b, dims)), x, y


@st.composite
def convolutions(draw: Any) -> Any:
    space = draw(st.integers(1, 2))
    groups, batches = draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    letters = "HW"[:space]
    lhs = "".join(draw(st.permutations("NC" + letters)))
    rhs = "".join(draw(st.permutations("OI" + letters)))
    out = "".join(draw(st.permutations("NC" + letters)))
    per = {"N": 2 * batches, "C": 2 * groups, "O": 4, "I": 2}
    sizes = {n: draw(st.integers(4, 6)) for n in letters}
    window = {n: draw(st.integers(1, 3)) for n in letters}
    some = st.lists(st.integers(1, 2), min_size=space, max_size=space)
    options = {
        "window_strides": draw(some),
        "padding": [(draw(st.integers(-1, 2)), draw(st.integers(0, 2))) for _ in letters],
        "lhs_dilation": draw(some),
        "rhs_dilation": draw(some),
        "dimension_numbers": (lhs, rhs, out),
        "feature_group_count": groups,
        "batch_group_count": batches,
    }
    x = data(draw, [{**per, **sizes}[n] for n in lhs])
    w = data(draw, [{**per, **window}[n] for n in rhs])
    return (lambda a, b: lax.conv_general_dilated(a, b, **options)), x, w


@st.composite
def gathers(draw: Any) -> Any:
    rank = draw(st.integers(1, 3))
    dims = [draw(st.integers(1, 4)) for _ in range(rank)]
    x = data(draw, dims)
    batch = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    start_map = draw(st.permutations(range(rank)))[: draw(st.integers(1, rank))]
    collapsed = sorted(a for a in range(rank) if draw(st.booleans()))
    sizes = [1 if a in collapsed else draw(st.integers(1, dims[a])) for a in range(rank)]
    total = len(batch) + rank - len(collapsed)
    offsets = sorted(draw(st.permutations(range(total)))[: rank - len(collapsed)])
    seed = draw(st.integers(0, 99))
    indices = np.random.default_rng(seed).integers(-2, 5, [*batch, len(start_map)]).astype(np.int32)
    numbers = lax.GatherDimensionNumbers(tuple(offsets), tuple(collapsed), tuple(start_map))
    mode = draw(st.sampled_from(["clip", "fill", "promise_in_bounds"]))
    if mode == "promise_in_bounds":
        indices = np.zeros_like(indices)
    return (lambda a, i: lax.gather(a, i, numbers, tuple(sizes), mode=mode)), x, indices


@st.composite
def scatters(draw: Any) -> Any:
    rank = draw(st.integers(1, 3))
    dims = [draw(st.integers(1, 4)) for _ in range(rank)]
    x = data(draw, dims)
    batch = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, 2)))]
    start_map = draw(st.permutations(range(rank)))[: draw(st.integers(1, rank))]
    inserted = sorted(a for a in range(rank) if draw(st.booleans()))
    kept = [a for a in range(rank) if a not in inserted]
    sizes = [draw(st.integers(1, dims[a])) for a in kept]
    total = len(batch) + len(kept)
    windows = sorted(draw(st.permutations(range(total)))[: len(kept)])
    shape, lead, inside = [], iter(batch), iter(sizes)
    for place in range(total):
        shape.append(next(inside) if place in windows else next(lead))
    seed = draw(st.integers(0, 99))
    top = [dims[a] - (sizes[kept.index(a)] if a in kept else 1) for a in start_map]
    generator = np.random.default_rng(seed)
    # whole windows inside, or beginning outside: what sticks out halfway is dropped by XLA as a whole, by the specification element by element
    indices = generator.integers(0, np.array(top) + 1, [*batch, len(start_map)]).astype(np.int32)
    indices += 100 * generator.integers(0, 2, indices.shape).astype(np.int32)
    numbers = lax.ScatterDimensionNumbers(tuple(windows), tuple(inserted), tuple(start_map))
    kind = draw(st.sampled_from(["add", "mul", "min", "max", "sub"]))
    function = getattr(lax, f"scatter_{kind}")
    return (lambda a, i, u: function(a, i, u, numbers, mode="drop")), x, indices, data(draw, shape)


windowed: Any = lax.reduce_window


@st.composite
def windows(draw: Any) -> Any:
    rank = draw(st.integers(1, 3))
    x = data(draw, [draw(st.integers(1, 5)) for _ in range(rank)])
    each = [[draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(4)]
    room = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    start, body = draw(
        st.sampled_from(
            [
                (0.0, lax.add),
                (-jnp.inf, lax.max),
                (jnp.inf, lax.min),
                (1.0, lax.max),
                (0.0, lambda a, b: a + b * b),
            ]
        )
    )
    if body not in (lax.add, lax.max, lax.min):
        body = lambda a, b: a + b + 1.0  # noqa: E731 - associative, and no single operation
        start = -1.0
    return (lambda a: windowed(a, start, body, *each[:2], room, *each[2:])), x


@st.composite
def pads(draw: Any) -> Any:
    rank = draw(st.integers(1, 3))
    dims = [draw(st.integers(2, 5)) for _ in range(rank)]
    config = [
        (draw(st.integers(-1, 3)), draw(st.integers(-1, 3)), draw(st.integers(0, 2))) for _ in range(rank)
    ]
    return (lambda a: lax.pad(a, jnp.float32(7), config)), data(draw, dims)


@st.composite
def sorts(draw: Any) -> Any:
    rank = draw(st.integers(1, 2))
    dims = [draw(st.integers(1, 6)) for _ in range(rank)]
    count = draw(st.integers(1, 3))
    axis, keys = draw(st.integers(0, rank - 1)), draw(st.integers(1, count))
    operands = [np.round(data(draw, dims) / 4) for _ in range(count)]
    return (lambda *a: lax.sort(a, dimension=axis, is_stable=True, num_keys=keys)), *operands


FAMILIES = {
    "convolutions": convolutions, "gathers": gathers, "pads": pads, "products": products,
    "scatters": scatters, "sorts": sorts, "windows": windows,
}  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_random_dimension_numbers(name: str) -> None:
    @QUICK
    @given(FAMILIES[name]())
    def run(case: Any) -> None:
        check(*case)

    run()


@pytest.mark.fuzz
@pytest.mark.parametrize("name", FAMILIES)
def test_more_random_dimension_numbers(name: str) -> None:
    @MORE
    @given(FAMILIES[name]())
    def run(case: Any) -> None:
        check(*case)

    run()
