"""The grid of a kernel on a GPU, as plain data: sizes are texts that say how they follow from the variables of the kernel.

A size is an expression in postfix, such as `v0 63 + 64 div`; most are one number. So what was lowered can be kept, and launched by a
process that never sees the kernel's program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from planish.records import dataclass

Values = Sequence[int]
Size = Callable[[Values], int]


def _divided(x: int, y: int) -> int:
    """Towards zero, as the machine does it; nothing by nothing is nothing."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0


OPERATIONS: Final[dict[str, tuple[int, Callable[..., int]]]] = {
    "add": (2, lambda x, y: x + y), "sub": (2, lambda x, y: x - y), "mul": (2, lambda x, y: x * y), "neg": (1, lambda x: -x),
    "truncdiv": (2, _divided), "truncmod": (2, lambda x, y: int(math.fmod(x, y)) if y else 0),
    "shl": (2, lambda x, y: x << y), "shr": (2, lambda x, y: x >> y), "and": (2, lambda x, y: x & y), "or": (2, lambda x, y: x | y),
    "xor": (2, lambda x, y: x ^ y), "max": (2, max), "min": (2, min), "mulacc": (3, lambda x, y, z: x * y + z),
    "cmplt": (2, lambda x, y: int(x < y)), "cmple": (2, lambda x, y: int(x <= y)), "cmpeq": (2, lambda x, y: int(x == y)),
    "cmpne": (2, lambda x, y: int(x != y)), "where": (3, lambda p, x, y: x if p else y),
}  # fmt: skip
"""What a size is computed by: how many operands, and how."""


@cache
def size_of(text: str) -> int | Size:
    """What a text says: a number, or a function of the variables. Anything else is a ValueError."""
    words = text.split()
    stack: list[int | Size] = []
    for word in words:
        if word in OPERATIONS:
            count, compute = OPERATIONS[word]
            if len(stack) < count:
                raise ValueError(f"{text!r} is no size")
            stack[-count:] = [_applied(compute, stack[-count:])]
        elif word.startswith("v"):
            stack.append(_variable(int(word[1:])))
        else:
            stack.append(int(word))
    if len(stack) != 1:
        raise ValueError(f"{text!r} is no size")
    return stack[0]


def _variable(place: int) -> Size:
    return lambda values: values[place]


def _applied(compute: Callable[..., int], inputs: Sequence[int | Size]) -> Size:
    return lambda values: compute(*(x if isinstance(x, int) else x(values) for x in inputs))


@dataclass(frozen=True, slots=True)
class Grid:
    """How many blocks, of how many threads; along each axis."""

    blocks: tuple[str, ...]
    threads: tuple[int, ...]

    @property
    def is_static(self) -> bool:
        """Whether no variable matters."""
        return all(isinstance(size_of(text), int) for text in self.blocks)

    def at(self, values: Values) -> tuple[int, ...]:
        """The blocks of a launch whose variables have these values."""
        return tuple(size if isinstance(size, int) else size(values) for size in map(size_of, self.blocks))


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor, and the box that is copied of it, as plain data; neighbours first."""

    position: int
    """Of the parameter that is the tensor, among those of the kernel."""
    kind: str
    """Of elements, as they are copied."""
    itemsize: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    sizes: tuple[int, ...]
    lower: tuple[int, ...] = ()
    """Of windows: the corners between which pixels run, and how far they are apart."""
    upper: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GridKernel:
    """A kernel as the driver of a GPU is told of it."""

    name: str
    key: str
    """Under which the cache has its machine code."""
    grid: Grid
    shared: int
    """Bytes of shared memory that a launch asks for."""
    maps: tuple[TensorMap, ...] = ()
    """What a copy engine is told of its parameters."""
