"""Squares turned by shuffles, masks as bits, and stores past the caches that ask once."""

from __future__ import annotations

import re

import numpy as np
import pytest

import planish as pn
from planish.codegen import llvm
from planish.codegen.questions import Kinds, stored_together
from planish.codegen.transposition import rounds
from planish.llir.text import parse

Place = tuple[int, int]


def shuffled(rows: int, lanes: int, itemsize: int) -> list[list[Place]]:
    held = [[(row, column) for column in range(lanes)] for row in range(rows)]
    for round_ in rounds(rows, lanes, itemsize):
        held = [[(held[a] + held[b])[lane] for lane in taken] for a, b, taken in round_]
    return held


@pytest.mark.parametrize(
    ("rows", "lanes", "itemsize"),
    [
        (16, 16, 4),
        (8, 8, 4),
        (8, 8, 8),
        (32, 32, 2),
        (16, 16, 1),
        (4, 4, 8),
        (4, 4, 4),
        (4, 16, 4),
        (16, 8, 4),
        (2, 16, 4),
    ],
)
def test_the_rounds_transpose(rows: int, lanes: int, itemsize: int) -> None:
    found = [place for row in shuffled(rows, lanes, itemsize) for place in row]
    assert found == [(row, column) for column in range(lanes) for row in range(rows)]
    assert len(rounds(rows, lanes, itemsize)) == rows.bit_length() - 1


def test_first_within_blocks_then_whole_blocks() -> None:
    """Of 16 floats the first two rounds stay within blocks of four, the others move such blocks."""
    first, second, third, fourth = rounds(16, 16, 4)
    for _, _, taken in (*first, *second):
        assert [lane % 16 // 4 for lane in taken] == [n // 4 for n in range(16)]
    for _, _, taken in (*third, *fourth):
        assert all(taken[n] - taken[n - 1] == 1 for n in range(16) if n % 4)


MASKED = """llir 1
kernel masked
  @arg0: global f32[16] bytes=64 align=4
  @arg1: global f32[16] bytes=64 align=4
  %0 = address @arg1[0] : *f32[16]
  %1 = load %0 : f32
  %2 = cmplt %1, 0.0 : f32 -> bool
  %3 = build true, true, %2, %2, false, %2, true, %2, %2, %2, %2, %2, %2, %2, %2, true : boolx16
  %4 = load %0 if %3 else 0.0 : f32x16
  %5 = address @arg0[0] : *f32[16]
  store %5, %4 if %3 : f32x16
"""


def test_a_mask_of_few_bools_is_an_integer() -> None:
    text = llvm.render(parse(MASKED))
    assert "insertelement <16 x i1>" not in text
    always = 1 << 0 | 1 << 1 | 1 << 6 | 1 << 15
    sometimes = 0xFFFF & ~always & ~(1 << 4)
    assert f"i16 {sometimes}, i16 0" in text
    assert f"or i16 {always}, " in text


def test_a_mask_that_ends_at_one_of_two_lanes_is_a_comparison() -> None:
    """Bits set in a part of a register would wait for the sum that a scan holds there."""
    ends = ", ".join(["true"] * 7 + ["%2"] * 9)
    text = llvm.render(parse(re.sub(r"build .* : boolx16", f"build {ends} : boolx16", MASKED)))
    assert "i32 16, i32 7" in text
    assert "icmp ugt <16 x i32>" in text
    assert "or i16" not in text


STREAMED = """llir 1
kernel streamed
  @arg0: global f32[64] bytes=256 align=4
  @arg1: global f32[16] bytes=64 align=4
  %0 = address @arg1[0] : *f32[16]
  %1 = load %0 : f32x16
  %2 = address @arg0[0] : *f32[64]
  %3 = address @arg0[16] : *f32[64]
  %4 = address @arg0[32] : *f32[64]
  store %2, %1 nontemporal : f32x16
  store %3, %1 nontemporal : f32x16
  %5 = address @arg0[48] : *f32[64]
  store %4, %1 nontemporal : f32x16
  store %5, %1 : f32x16
"""


def test_stores_past_the_caches_that_follow_each_other_ask_once() -> None:
    program = parse(STREAMED)
    assert [len(run) for run in stored_together(program, Kinds(program.body)).values()] == [2, 0]
    text = llvm.render(program)
    assert text.count("icmp eq i64") == 2


@pytest.mark.parametrize("shape", [(64, 48), (33, 70), (3, 100), (100, 5)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_transposes_run(shape: tuple[int, int], dtype: str) -> None:
    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    found = pn.jit(lambda a: pn.permute_dims(a, (1, 0)))(pn.asarray(x))
    np.testing.assert_array_equal(found.numpy(), x.T)


def test_unaligned_memory_is_written_as_well() -> None:
    """A result that may go past the caches, at an address that no such store takes."""
    raw = np.zeros(2049 * 1024 + 1, np.float32)
    x = raw[1:].reshape(2049, 1024)
    x[:] = np.arange(x.size, dtype=np.float32).reshape(x.shape)
    found = pn.jit(lambda a: pn.permute_dims(a, (1, 0)))(pn.asarray(x))
    np.testing.assert_array_equal(found.numpy(), x.T)
