"""Vectors built lane by lane out of others: found to be a transposition where they are one, right in any case."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planish import dtypes
from planish.codegen import llvm, transposition
from planish.dtypes import DType
from planish.llir.builder import Builder
from planish.llir.program import Program
from tests.llir.helpers import assert_native_agrees, numbers

f32 = dtypes.float32


def transposed(
    rows: int,
    lanes: int,
    out: int,
    dtype: DType = f32,
    *,
    pieces: int | None = None,
    skip: int = 0,
    joined: bool = False,
) -> Program:
    """Rows read column by column, in vectors of `out` lanes; `skip` takes the columns in another order. Lane by lane, or of the rows joined."""
    b = Builder("transposed")
    x, z = b.param("x", dtype, rows * lanes), b.param("z", dtype, rows * lanes)
    loaded = [b.load(b.address(x, row * lanes), dtype.vec(lanes)) for row in range(rows)]
    whole = b.concat(*loaded) if joined else None
    for piece in range(rows * lanes // out if pieces is None else pieces):
        flat = range(piece * out, piece * out + out)
        if whole is not None:
            places = [at % rows * lanes + (at // rows + skip * at) % lanes for at in flat]
            b.store(b.address(z, piece * out), b.lanes(whole, *places))
            continue
        taken = [b.lanes(loaded[at % rows], (at // rows + skip * at) % lanes) for at in flat]
        b.store(b.address(z, piece * out), b.build(*taken))
    return b.program()


@pytest.mark.parametrize("dtype", [f32, dtypes.float64, dtypes.int8, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "lanes"), [(2, 2), (4, 4), (8, 16), (16, 16), (2, 16), (16, 8), (4, 8)])
@pytest.mark.parametrize("joined", [False, True])
def test_a_transposition_is_shuffles_of_whole_vectors(
    rows: int, lanes: int, dtype: DType, joined: bool
) -> None:
    program = transposed(rows, lanes, lanes, dtype, joined=joined)
    given = numbers(dtype, rows * lanes)
    result = assert_native_agrees(program, [given, np.zeros(rows * lanes, dtype.numpy)])
    assert result[1].tobytes() == np.ascontiguousarray(given.reshape(rows, lanes).T).tobytes()
    text = llvm.render(program)
    if rows <= lanes:
        assert "insertelement" not in text
        assert text.count("shufflevector") == rows * (rows.bit_length() - 1)


@pytest.mark.parametrize(("rows", "lanes", "out"), [(4, 8, 4), (8, 16, 8), (16, 8, 16), (2, 4, 8)])
def test_pieces_may_be_parts_of_rows_or_several(rows: int, lanes: int, out: int) -> None:
    program = transposed(rows, lanes, out)
    assert transposition.find(program).pieces
    given = numbers(f32, rows * lanes)
    result = assert_native_agrees(program, [given, np.zeros(rows * lanes, np.float32)])
    assert result[1].tobytes() == np.ascontiguousarray(given.reshape(rows, lanes).T).tobytes()
    assert "insertelement" not in llvm.render(program)


@pytest.mark.parametrize(
    "program",
    [
        transposed(3, 4, 4),  # no power of two
        transposed(4, 8, 16, pieces=1, skip=1),  # several rows at once, in disorder
        transposed(8, 8, 8, pieces=2),  # too little of it is wanted
        transposed(4, 4, 4, skip=1),  # columns in disorder
        transposed(4, 4, 4, dtypes.bool_),
        transposed(8, 8, 8, pieces=2, joined=True),
        transposed(8, 8, 8, skip=1, joined=True),
    ],
)
def test_what_is_none_is_built_as_it_is_written(program: Program) -> None:
    assert not transposition.find(program).pieces
    arrays = [numbers(b.dtype, b.elements, n) for n, b in enumerate(program.params)]
    assert_native_agrees(program, arrays)


def test_pieces_in_different_runs_of_code_are_apart() -> None:
    """A piece in a loop may not be there for one after it."""
    b = Builder("apart")
    n = b.variable("n", 0, 1)
    x, z = b.param("x", f32, 16), b.param("z", f32, 16)
    rows = [b.load(b.address(x, row * 4), f32.vec(4)) for row in range(4)]
    with b.loop(n):
        for k in (0, 1):
            b.store(b.address(z, k * 4), b.build(*(b.lanes(row, k) for row in rows)))
    for k in (2, 3):
        b.store(b.address(z, k * 4), b.build(*(b.lanes(row, k) for row in rows)))
    for size in (0, 1):
        assert_native_agrees(b.program(), [numbers(f32, 16), np.zeros(16, np.float32)], {"n": size})


def test_branches_may_stand_between_pieces() -> None:
    """What is stored only sometimes behind every column, as the end of a padded row is, leaves the columns one transposition."""
    b = Builder("columns")
    n = b.variable("n", 0, 1)
    x, z = b.param("x", f32, 16), b.param("z", f32, 16)
    rows = [b.load(b.address(x, row * 4), f32.vec(4)) for row in range(4)]
    none = b.less(n, 1)
    for k in range(4):
        b.store(b.address(z, k * 4), b.build(*(b.lanes(row, k) for row in rows)))
        with b.when(none):
            b.store(b.address(z, k), b.lanes(rows[0], k))
    assert len(transposition.find(b.program()).pieces) == 4
    assert "insertelement" not in llvm.render(b.program())
    for size in (0, 1):
        assert_native_agrees(b.program(), [numbers(f32, 16), np.zeros(16, np.float32)], {"n": size})


def test_the_rounds_of_a_large_transposition_are_seen_apart() -> None:
    """LLVM looks through as many as it sees for better shuffles, which there are none of."""
    assert "arithmetic.fence" not in llvm.render(transposed(4, 4, 4))
    assert llvm.render(transposed(16, 16, 16)).count("call <16 x float> @llvm.arithmetic.fence") == 16
    assert "arithmetic.fence" not in llvm.render(transposed(16, 16, 16, dtypes.int32))


@pytest.mark.parametrize("dtype", [f32, dtypes.float64, dtypes.int8, dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [3, 5, 10, 13])
def test_few_lanes_of_several_rows_go_where_they_belong(columns: int, dtype: DType) -> None:
    """A column of a matrix of so many, whose rows follow each other: one lane or two of every register, never a vector of odd length."""
    b = Builder("column")
    x, z = b.param("x", dtype, 16 * columns), b.param("z", dtype, 16)
    rows = [b.load(b.address(x, 16 * n), dtype.vec(16)) for n in range(columns)]
    places = [divmod(columns * n + 1, 16) for n in range(16)]
    pieces = [
        b.lanes(row, *(lane for where, lane in places if where == number)) for number, row in enumerate(rows)
    ]
    b.store(b.address(z, 0), b.concat(*pieces))
    given = numbers(dtype, 16 * columns)
    result = assert_native_agrees(b.program(), [given, np.zeros(16, dtype.numpy)])
    assert result[1].tobytes() == given[1::columns].tobytes()
    joined = [line for line in llvm.render(b.program()).splitlines() if "poison, i32 poison" in line]
    assert all("<16 x i32>" in line for line in joined)
    assert not re.search(r"<(3|5|6|7|13) x \w+> %\w+, <", llvm.render(b.program()))


def test_rows_that_are_joined_for_a_transposition_alone_are_not_joined() -> None:
    """Nor for a selection that is none of it; for whoever wants them as one vector they are."""
    for program in (transposed(16, 16, 16, joined=True), transposed(16, 16, 16, joined=True, skip=1)):
        assert len(transposition.find(program).unneeded) == 1
        assert "<256 x float>" not in llvm.render(program)
    b = Builder("both")
    x, z = b.param("x", f32, 64), b.param("z", f32, 128)
    whole = b.concat(*(b.load(b.address(x, row * 8), f32.vec(8)) for row in range(8)))
    for column in range(8):
        b.store(b.address(z, column * 8), b.lanes(whole, *range(column, 64, 8)))
    b.store(b.address(z, 64), whole)
    assert not transposition.find(b.program()).unneeded
    assert_native_agrees(b.program(), [numbers(f32, 64), np.zeros(128, np.float32)])
