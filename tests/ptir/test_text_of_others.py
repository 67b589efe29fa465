"""PTIR written as other languages are: the error stands where the difference is, and says how it is written here."""

from __future__ import annotations

import pytest

from planish import ptir
from planish.errors import ParseError

HEAD = "ptir 1\nfunc @f(%x: tensor<f32, 4x8>) -> tensor<f32, 4x8> {\n"


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("%0 = exp(%x)", "operands stand without parentheses; .* write exp %x, %y", 11),
        ("%0 = dot_general(%x, %x) {lhs_contract=[1]}", "operands stand without parentheses", 19),
        ("%0 = exp x", "found 'x', expected a value such as %x; .* write %x", 12),
        ("%0 = reduce_sum %x {axes: [1]}", "these are no attributes; .* write reduce_sum %x {name=value", 22),
        ("%0 = exp %x : tensor<4x8xf32>", "found '4x8x', expected a dtype; .* write tensor<f32, 4x8>", 24),
        ("%0 = add", "add takes 2 operands, not 0", 3),
        ("%0 = exp %x, %x", "exp takes 1 operand, not 2", 3),
        ("%0 = dot_general %x, %x {lhs_contract=[1]}", "attributes lhs_batch, rhs_batch, .* are missing", 27),
    ],
)
def test_the_error_says_how_it_is_written(line: str, message: str, column: int) -> None:
    with pytest.raises(ParseError, match=message) as caught:
        ptir.parse(f"{HEAD}  {line}\n  return %0\n}}")
    assert (caught.value.line, caught.value.column) == (3, column)


def test_what_may_stand_behind_an_op_still_may() -> None:
    text = f"{HEAD}  %c = constant (1.0, 2.0) : tensor<c64>\n  %0 = exp %x\n  {{}}\n  return %0\n}}"
    assert "constant" in ptir.print(ptir.parse(text))
