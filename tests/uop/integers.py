"""Integer ops once more, in Python's integers: the witness that the tables under test are held against."""

from __future__ import annotations

from collections.abc import Callable

from planish.uop.ops import Ops


def truncated(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def power(x: int, y: int) -> int:
    return x**y if y >= 0 else {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


BINARY: dict[Ops, Callable[[int, int], int]] = {
    Ops.ADD: lambda x, y: x + y,
    Ops.SUB: lambda x, y: x - y,
    Ops.MUL: lambda x, y: x * y,
    Ops.FLOORDIV: lambda x, y: x // y if y else 0,
    Ops.FLOORMOD: lambda x, y: x % y if y else 0,
    Ops.TRUNCDIV: lambda x, y: truncated(x, y) if y else 0,
    Ops.TRUNCMOD: lambda x, y: x - y * truncated(x, y) if y else 0,
    Ops.POW: power,
    Ops.MAX: max,
    Ops.MIN: min,
    Ops.AND: lambda x, y: x & y,
    Ops.OR: lambda x, y: x | y,
    Ops.XOR: lambda x, y: x ^ y,
    Ops.SHL: lambda x, y: x << y if y >= 0 else 0,
    Ops.SHR: lambda x, y: x >> y if y >= 0 else -(x < 0),
    Ops.CMPLT: lambda x, y: int(x < y),
    Ops.CMPLE: lambda x, y: int(x <= y),
    Ops.CMPEQ: lambda x, y: int(x == y),
    Ops.CMPNE: lambda x, y: int(x != y),
}
UNARY: dict[Ops, Callable[[int], int]] = {
    Ops.NEG: lambda x: -x,
    Ops.NOT: lambda x: ~x,
    Ops.ABS: abs,
    Ops.POPCOUNT: lambda x: (x % 2**64).bit_count(),
    Ops.CLZ: lambda x: 64 - (x % 2**64).bit_length(),
}
