"""The programs that rewriting is measured on, as data: every engine builds its own form from the same list.

One block of N add and mul instructions on i64 scalars, 96 arguments, 16 literals.

- `mixed`: of every twelve instructions two are identities (x * 1, x + 0), two make up a constant subtree, one
  repeats another, one is dead, six are live and stay.
- `clean`: nothing to rewrite; operands are arguments, the value before and, one time in eight, a literal on
  the right that is neither 0 nor 1.

Live values form one chain, whose last value is the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

ARGUMENTS = 96
LITERALS = tuple(range(16))

Operand = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """`op` is "add" or "mul"; operands are ("a", i) arguments, ("c", i) literals, ("v", i) earlier steps."""

    op: str
    lhs: Operand
    rhs: Operand


def make(kind: str, size: int, seed: int = 0) -> tuple[list[Step], int]:
    """The steps of a program and the number of the one that is its result."""
    return {"clean": _clean, "mixed": _mixed}[kind](size, random.Random(seed))


def _clean(size: int, rng: random.Random) -> tuple[list[Step], int]:
    steps: list[Step] = []
    chain: Operand = ("a", 0)
    for number in range(size):
        # Ops alternate, so that neither (x + c) + d nor (x * c) * d arises.
        op = "add" if number % 2 else "mul"
        other = ("c", rng.randrange(3, 16)) if rng.random() < 0.125 else ("a", rng.randrange(1, ARGUMENTS))
        steps.append(Step(op, chain, other))
        chain = ("v", number)
    return steps, size - 1


def _mixed(size: int, rng: random.Random) -> tuple[list[Step], int]:
    steps: list[Step] = []
    chain: Operand = ("a", 0)

    def argument() -> Operand:
        return ("a", rng.randrange(1, ARGUMENTS))

    def literal() -> Operand:
        return ("c", rng.randrange(3, 16))

    for number in range(size):
        slot = number % 12
        match slot:
            case 0:
                step = Step("mul", chain, ("c", 1))
            case 1:
                step = Step("mul", literal(), literal())
            case 2:
                step = Step("add", argument(), argument())
            case 3:
                step = steps[-1]
            case 4:
                step = Step("mul", argument(), argument())
            case 5:
                step = Step("add", chain, ("v", number - 3))
            case 6:
                step = Step("add", chain, ("c", 0))
            case 7:
                step = Step("add", ("v", number - 6), literal())
            case 8:
                step = Step("mul", chain, ("v", number - 1))
            case 9:
                step = Step("add", chain, ("v", number - 6))
            case 10:
                step = Step("mul", chain, argument())
            case _:
                step = Step("add", chain, argument())
        steps.append(step)
        if slot in (0, 5, 6, 8, 9, 10, 11):
            chain = ("v", number)
    return steps, chain[1]
