"""Integers that cannot wrap: found from the bounds of loops, and told to LLVM, nothing else."""

from __future__ import annotations

import pytest

from planish.codegen import llvm
from planish.codegen.spans import spans_of
from planish.llir.text import parse


def program(body: str) -> str:
    return f"llir 1\nkernel k\n  @arg0: global i32[64] bytes=256 align=4\n{body}"


INDEX = """  loop %0 < 8 : i32
    %1 = shl %0, 3 : i32
    %2 = add %1, 5 : i32
    %3 = address @arg0[%2] : *i32[64]
    store %3, %2 : i32
  end
"""


def test_counters_and_sums_of_them_have_spans() -> None:
    spans = {register.number: span for register, span in spans_of(parse(program(INDEX))).items()}
    assert spans == {0: (0, 7), 1: (0, 56), 2: (5, 61)}
    text = llvm.render(parse(program(INDEX)))
    assert "shl nsw" in text
    assert "add nsw" in text


@pytest.mark.parametrize("factor", [2**29, -(2**29)])
def test_what_wraps_is_left_to_wrap(factor: int) -> None:
    body = INDEX.replace("shl %0, 3", f"mul %0, {factor}").replace("[%2]", "[%0]")
    spans = spans_of(parse(program(body)))
    assert {register.number for register in spans} == {0}
    assert "mul nsw" not in llvm.render(parse(program(body)))


def test_data_has_no_span() -> None:
    body = INDEX.replace(
        "    store %3, %2", "    %4 = load %3 : i32\n    %5 = add %4, 1 : i32\n    store %3, %5"
    )
    text = llvm.render(parse(program(body)))
    assert "add i32 %r4, 1" in text
    assert "add nsw i32 %r4, 1" not in text


def test_a_shift_beyond_the_width_is_none_of_numbers() -> None:
    body = INDEX.replace("shl %0, 3", "shl %0, 40").replace("[%2]", "[%0]")
    assert {register.number for register in spans_of(parse(program(body)))} == {0}
