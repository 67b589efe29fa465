"""`dot_general` and `convolution` against nested loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.ops import checking
from planish.ptir.ops.contract import resolve_dtypes
from planish.ptir.types import Dim, TensorType
from tests.ptir.ops_testing import by_name, check, make, python_values, random_array, run

DTYPES = by_name(checking.ALL)


def dot_attrs(lhs, rhs, lhs_batch=(), rhs_batch=(), lhs_contract=(), rhs_contract=(), accum=None, out=None):
    accum, out = resolve_dtypes(lhs, rhs, accum, out)
    return ops.DotGeneralAttrs(lhs_batch, rhs_batch, lhs_contract, rhs_contract, accum, out)


def item(array, index):
    return python_values(np.asarray(array[tuple(index)]))[0]


def into(dtype, value):
    return dtype.wrap(value) if dtype.is_int else value


def dot_by_loops(x, y, attrs):
    """Sum of products, exactly, then into the accumulation and the result dtype."""
    lhs_free = [a for a in range(x.ndim) if a not in attrs.lhs_batch + attrs.lhs_contract]
    rhs_free = [a for a in range(y.ndim) if a not in attrs.rhs_batch + attrs.rhs_contract]
    sizes = [x.shape[a] for a in (*attrs.lhs_batch, *lhs_free)] + [y.shape[a] for a in rhs_free]
    results = []
    for index in np.ndindex(*sizes):
        total = 0
        for inner in np.ndindex(*(x.shape[a] for a in attrs.lhs_contract)):
            left, right = [0] * x.ndim, [0] * y.ndim
            for i, (a, b) in enumerate(zip(attrs.lhs_batch, attrs.rhs_batch, strict=True)):
                left[a] = right[b] = index[i]
            for i, a in enumerate(lhs_free, len(attrs.lhs_batch)):
                left[a] = index[i]
            for i, b in enumerate(rhs_free, len(attrs.lhs_batch) + len(lhs_free)):
                right[b] = index[i]
            for i, (a, b) in enumerate(zip(attrs.lhs_contract, attrs.rhs_contract, strict=True)):
                left[a] = right[b] = inner[i]
            total = total + item(x, left) * item(y, right)
        results.append(into(attrs.out_dtype, into(attrs.accum_dtype, total)))
    return make(attrs.out_dtype, results, tuple(sizes))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_matrix_product_on_all_dtypes(dtype):
    rng = np.random.default_rng(1)
    x, y = random_array(rng, dtype, (2, 5)), random_array(rng, dtype, (5, 3))
    attrs = dot_attrs(dtype, dtype, lhs_contract=(1,), rhs_contract=(0,))
    check(run(ops.dot_general, x, y, attrs=attrs), dot_by_loops(x, y, attrs))


@given(st.data())
def test_dot_general(data):
    """Random numbers of batch, contracted and free axes in random places."""
    counts = [data.draw(st.integers(0, 2)) for _ in range(4)]
    batch, contract, left, right = ([data.draw(st.integers(0, 3)) for _ in range(n)] for n in counts)

    def place(tags):
        order = data.draw(st.permutations(tags))
        where = {tag: axis for axis, tag in enumerate(order)}
        sizes = {"b": batch, "k": contract, "m": left, "n": right}
        return tuple(sizes[kind][i] for kind, i in order), where

    names = {kind: [(kind, i) for i in range(n)] for kind, n in zip("bkmn", counts, strict=True)}
    lhs_shape, lhs_at = place(names["b"] + names["k"] + names["m"])
    rhs_shape, rhs_at = place(names["b"] + names["k"] + names["n"])
    dtype = data.draw(st.sampled_from([dtypes.int32, dtypes.float32, dtypes.uint8]))
    attrs = dot_attrs(
        dtype,
        dtype,
        tuple(lhs_at[t] for t in names["b"]),
        tuple(rhs_at[t] for t in names["b"]),
        tuple(lhs_at[t] for t in names["k"]),
        tuple(rhs_at[t] for t in names["k"]),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, y = random_array(rng, dtype, lhs_shape), random_array(rng, dtype, rhs_shape)
    check(run(ops.dot_general, x, y, attrs=attrs), dot_by_loops(x, y, attrs))


@pytest.mark.parametrize(
    ("lhs", "rhs", "accum", "out"),
    [
        (dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int32),
        (dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int8),
        (dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float32, dtypes.bfloat16),
        (dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, dtypes.float32),
        (dtypes.int8, dtypes.int8, dtypes.int32, dtypes.int64),
    ],
)
def test_mixed_dtypes_meet_in_the_accumulator(lhs, rhs, accum, out):
    rng = np.random.default_rng(2)
    x = make(lhs, [int(v) for v in rng.integers(0, 100, 24)], (4, 6))
    y = make(rhs, [int(v) for v in rng.integers(-100, 100, 24)], (6, 4))
    attrs = dot_attrs(lhs, rhs, lhs_contract=(1,), rhs_contract=(0,), accum=accum, out=out)
    check(run(ops.dot_general, x, y, attrs=attrs), dot_by_loops(x, y, attrs))


def test_dot_general_mistakes():
    def infer(x, y, **attrs):
        return ops.dot_general.result_types([x, y], dot_attrs(x.dtype, y.dtype, **attrs))[0]

    size = Dim.named("B", 1, 8)
    x, y = TensorType(dtypes.float32, (size, 4, 5)), TensorType(dtypes.float32, (size, 5, 6))
    both = {"lhs_batch": (0,), "rhs_batch": (0,)}
    assert infer(x, y, **both, lhs_contract=(2,), rhs_contract=(1,)).dims == (size, 4, 6)
    assert infer(x, y, lhs_contract=(2, 0), rhs_contract=(1, 0)).dims == (4, 6)
    with pytest.raises(ShapeError, match="different sizes"):
        infer(x, y, **both, lhs_contract=(1,), rhs_contract=(1,))
    with pytest.raises(ShapeError, match="twice"):
        infer(x, y, **both, lhs_contract=(0,), rhs_contract=(1,))
    with pytest.raises(ShapeError, match="1 contracted axes on the left"):
        infer(x, y, lhs_contract=(2,))
    with pytest.raises(DTypeError, match="mix kinds"):
        infer(x, y.with_dtype(dtypes.int32), lhs_contract=(2,), rhs_contract=(1,))


# --- convolution ------------------------------------------------------------------------------------------


def conv_by_loops(x, w, a):
    """Every output element from the definition, in (N, C, …) order, then into the layouts."""
    x = np.transpose(
        x, [a.lhs_layout.index(c) for c in "NC" + "".join(s for s in a.lhs_layout if s not in "NC")]
    )
    space = [s for s in a.lhs_layout if s not in "NC"]
    w = np.transpose(w, [a.rhs_layout.index(c) for c in ["O", "I", *space]])
    batch, _features = x.shape[:2]
    outputs, group_features = w.shape[:2]
    spread = [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape[2:], a.lhs_dilation, strict=True)]
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], a.rhs_dilation, strict=True)]
    sizes = [
        max(0, (n + lo + hi - span) // s + 1)
        for n, lo, hi, span, s in zip(spread, a.low, a.high, spans, a.strides, strict=True)
    ]
    result = np.zeros((batch, outputs, *sizes), object)
    per_group = outputs // a.groups
    for n, o, *at in itertools.product(*(range(k) for k in result.shape)):
        total = 0
        for c, *tap in itertools.product(range(group_features), *(range(k) for k in w.shape[2:])):
            place = [
                i * s + t * d - lo
                for i, s, t, d, lo in zip(at, a.strides, tap, a.rhs_dilation, a.low, strict=True)
            ]
            if all(
                p % d == 0 and 0 <= p // d < size
                for p, d, size in zip(place, a.lhs_dilation, x.shape[2:], strict=True)
            ):
                source = [p // d for p, d in zip(place, a.lhs_dilation, strict=True)]
                feature = (o // per_group) * group_features + c
                total = total + item(x, [n, feature, *source]) * item(w, [o, c, *tap])
        result[(n, o, *at)] = into(a.out_dtype, into(a.accum_dtype, total))
    order = [["N", "C", *space].index(c) for c in a.out_layout]
    flat = np.transpose(result, order)
    return make(a.out_dtype, list(flat.ravel()), flat.shape)


def conv_attrs(dtype, **given):
    accum, out = resolve_dtypes(dtype, dtype, None, None)
    count = len(given.get("lhs_layout", "NCH")) - 2
    ones, zeros = (1,) * count, (0,) * count
    defaults = {
        "strides": ones,
        "low": zeros,
        "high": zeros,
        "lhs_dilation": ones,
        "rhs_dilation": ones,
        "groups": 1,
        "lhs_layout": "NCH",
        "rhs_layout": "OIH",
        "out_layout": "NCH",
        "accum_dtype": accum,
        "out_dtype": out,
    }
    return ops.ConvolutionAttrs(**{**defaults, **given})


@pytest.mark.parametrize("dtype", by_name(checking.NUMBERS), ids=str)
def test_convolution_on_all_dtypes(dtype):
    rng = np.random.default_rng(3)
    x, w = random_array(rng, dtype, (2, 4, 5)), random_array(rng, dtype, (2, 2, 3))
    attrs = conv_attrs(dtype, groups=2, low=(1,))
    check(run(ops.convolution, x, w, attrs=attrs), conv_by_loops(x, w, attrs))


@given(st.data())
def test_convolution(data):
    count = data.draw(st.integers(0, 2))
    space = "HW"[:count]

    def layout(letters):
        return "".join(data.draw(st.permutations(letters)))

    def draw(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(count))

    groups = data.draw(st.integers(1, 2))
    features, outputs, batch = (
        data.draw(st.integers(1, 2)),
        data.draw(st.integers(1, 2)),
        data.draw(st.integers(0, 2)),
    )
    sizes, kernel = draw(1, 5), draw(1, 3)
    dtype = data.draw(st.sampled_from([dtypes.int16, dtypes.float32]))
    attrs = conv_attrs(
        dtype,
        strides=draw(1, 2),
        low=draw(-1, 2),
        high=draw(-1, 2),
        lhs_dilation=draw(1, 2),
        rhs_dilation=draw(1, 2),
        groups=groups,
        lhs_layout=layout("NC" + space),
        rhs_layout=layout("OI" + space),
        out_layout=layout("NC" + space),
    )
    # Spatial lists follow the order of the letters in lhs_layout.
    order = [c for c in attrs.lhs_layout if c not in "NC"]
    lhs = dict(zip(["N", "C", *order], [batch, features * groups, *sizes], strict=True))
    rhs = dict(zip(["O", "I", *order], [outputs * groups, features, *kernel], strict=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x = random_array(rng, dtype, tuple(lhs[c] for c in attrs.lhs_layout))
    w = random_array(rng, dtype, tuple(rhs[c] for c in attrs.rhs_layout))
    check(run(ops.convolution, x, w, attrs=attrs), conv_by_loops(x, w, attrs))


def test_convolution_mistakes():
    def infer(x, w, **attrs):
        return ops.convolution.result_types([x, w], conv_attrs(dtypes.float32, **attrs))[0]

    size = Dim.named("B", 1, 8)
    length = Dim.named("L", 8, 99)
    x, w = TensorType(dtypes.float32, (size, 4, length)), TensorType(dtypes.float32, (6, 4, 3))
    assert infer(x, w, strides=(2,), low=(1,), high=(1,)).dims == (size, 6, (length - 1) // 2 + 1)
    with pytest.raises(ShapeError, match="groups"):
        infer(x, w, groups=2)
    with pytest.raises(ShapeError, match="layout 'OI'"):
        infer(x, w, rhs_layout="OI")
    with pytest.raises(ShapeError, match="repeats a letter"):
        infer(x, w, lhs_layout="NCN")
    with pytest.raises(ShapeError, match="strides has 2 entries"):
        infer(x, w, strides=(1, 1))
    with pytest.raises(ShapeError, match="below 1"):
        infer(x, w, rhs_dilation=(0,))
    with pytest.raises(DTypeError, match="mix kinds"):
        infer(x, w.with_dtype(dtypes.int8))
