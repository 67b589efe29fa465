from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import ParseError, ShapeError
from planish.ptir.dims import MAX_NESTING, Dim, bounds, product, substitute
from planish.ptir.types import Quant, TensorType, parse_dims, tensor

B = Dim.named("B", 1, 64)
H = Dim.named("H", 2, 8)
SCOPE = {"B": B, "H": H}


def expressions():
    leaves = st.one_of(st.integers(-6, 9), st.sampled_from([B, H]))

    def extend(children):
        pairs = st.tuples(children, children)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            pairs.map(lambda p: p[0] * p[1]),
            st.tuples(children, st.sampled_from([1, 2, 3, 4, B, H])).map(lambda p: p[0] // p[1]),
        )

    return st.recursive(leaves, extend, max_leaves=6)


@given(expressions(), st.integers(1, 64), st.integers(2, 8))
def test_a_dim_prints_and_parses_to_itself_and_stays_in_its_bounds(dim, b, h):
    assert Dim.parse(str(dim), SCOPE) == dim
    value = substitute(dim, {"B": b, "H": h})
    assert isinstance(value, int)
    low, high = bounds(dim)
    assert low <= value <= high


@given(expressions(), expressions(), st.integers(1, 64), st.integers(2, 8))
def test_arithmetic_agrees_with_numbers(left, right, b, h):
    values = {"B": b, "H": h}
    x, y = substitute(left, values), substitute(right, values)
    assert substitute(left + right, values) == x + y
    assert substitute(left - right, values) == x - y
    assert substitute(left * right, values) == x * y
    assert substitute(left // 3, values) == x // 3
    assert substitute(left % 5, values) == x % 5
    if isinstance(right, Dim) and right.lo >= 1:
        assert substitute(left // right, values) == x // y


def test_equal_sizes_have_one_form():
    assert 2 * B + B == 3 * B
    assert (B + 1) * (B - 1) == B * B - 1
    assert B - B == 0
    assert isinstance(B - B, int)
    assert (4 * B + 3) // 4 == B
    assert (4 * B * H) // H == 4 * B
    assert hash(B + H) == hash(H + B)
    assert Dim.named("B", 1, 63) != B
    assert B != 1


def test_dims_print_as_documented():
    assert str(4 * B + 3) == "4*B+3"
    assert str(7 - B) == "-B+7"
    assert str((B // 2) * 3) == "3*(B//2)"
    assert B.declaration == "B in 1..64"
    assert Dim.parse("B in 1..64") == B
    compound = B + 1
    assert isinstance(compound, Dim)
    assert compound.name is None
    assert B.name == "B"


def test_dims_are_values():
    dim = (4 * B + 3) // 5
    assert isinstance(dim, Dim)
    assert pickle.loads(pickle.dumps(dim)) == dim
    assert copy.deepcopy(dim) == dim
    assert dim.evaluate({"B": 4}) == 3
    with pytest.raises(ShapeError, match="depends on B"):
        dim.evaluate({})


@pytest.mark.parametrize("text", ["4*", "B+", "(B", "B B", "Q", "4**B", "B$"])
def test_bad_dims_say_where(text):
    with pytest.raises(ParseError, match="column"):
        Dim.parse(text, SCOPE)


@pytest.mark.parametrize("deep", ["(" * 3000 + "B" + ")" * 3000, "-" * 5000 + "B", "((-" * 2000])
def test_dims_nest_only_so_deep(deep):
    with pytest.raises(ParseError, match="nests too deep"):
        Dim.parse(deep, SCOPE)
    assert Dim.parse("(" * MAX_NESTING + "B" + ")" * MAX_NESTING, SCOPE) == B
    assert Dim.parse("+".join(["(B)"] * 1000), SCOPE) == 1000 * B


@pytest.mark.parametrize("text", ["4 % 0", "4 // 0", "B % 0", "B // 0", "4 // (B-1)", "4 % -2"])
def test_division_by_what_may_be_zero_is_a_parse_error(text):
    with pytest.raises(ParseError, match=r"this is not a size: .* is divided by .*, which may be below 1"):
        Dim.parse(text, SCOPE)


def test_numbers_of_endless_digits_are_a_parse_error():
    with pytest.raises(ParseError, match="too large"):
        Dim.parse("9" * 5000)


def test_impossible_dims_are_refused():
    with pytest.raises(ShapeError, match="bounds"):
        Dim.named("B", 5, 4)
    with pytest.raises(ShapeError, match="cannot name"):
        Dim.named("4B", 1, 4)
    with pytest.raises(ShapeError, match="below 1"):
        H // (B - 1)


def test_types_print_and_their_dims_parse():
    assert str(tensor("f32")) == "tensor<f32>"
    assert str(tensor("f32", (4, 8))) == "tensor<f32, 4x8>"
    assert str(tensor("f32", ("B", "H"), B=(1, 64), H=(2, 8))) == "tensor<f32, BxH>"
    odd = tensor("i8", (4, "2*B+1", "seq_idx", 0), B=B)
    assert str(odd) == "tensor<i8, 4x(2*B+1)x(seq_idx)x0>"
    scope = {"B": B, "seq_idx": Dim.named("seq_idx")}
    assert parse_dims("4x(2*B+1)x(seq_idx)x0", scope) == odd.dims
    assert parse_dims("", scope) == ()


def test_types_are_values():
    one = tensor("f32", (4, "B"), B=B)
    other = TensorType(dtypes.float32, (4, B))
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != one.with_dtype(dtypes.float64)
    assert one.rank == 2
    assert not one.is_static
    assert one.size == 4 * B
    assert one.max_shape == (4, 64)
    assert one.substitute({"B": 3}).shape == (4, 3)
    assert product(()) == 1
    with pytest.raises(ShapeError, match="no fixed size"):
        one.shape  # noqa: B018


@pytest.mark.parametrize("dims", [(-1,), (True,), ("4",), (2.0,)])
def test_impossible_shapes_are_refused(dims):
    with pytest.raises(ShapeError, match="axis 0"):
        TensorType(dtypes.float32, dims)


def test_a_named_size_used_twice_is_one_size():
    type = tensor("f32", ("B", "B+1"))
    assert type.dims[1] - type.dims[0] == 1


def test_quantised_types_differ_by_what_they_mean():
    quant = Quant(dtypes.float32, (0.5,), (3,))
    type = TensorType(dtypes.int8, (4,), quant)
    assert type != TensorType(dtypes.int8, (4,))
    assert str(type) == "tensor<i8, 4, quant<f32, scale=[0.5], zero_point=[3]>>"
