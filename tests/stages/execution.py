"""Executes kernels for the stage tests, by the interpreter, and reads a few numbers off them.

The interpreter raises where a kernel is meaningless: a place that is written twice with different values, an access outside
its buffer, a range that nobody closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.uop.interpret import interpret
from planish.uop.node import UOp
from planish.uop.ops import Ops, Variable

Array = NDArray[Any]


def _stores(effect: UOp, around: tuple[UOp, ...] = ()) -> Iterator[tuple[UOp, tuple[UOp, ...]]]:
    """Every STORE with the ranges around it."""
    if effect.op is Ops.STORE:
        yield effect, around
    elif effect.op is Ops.END:
        yield from _stores(effect.src[0], (*around, *effect.src[1:]))
    elif effect.op in {Ops.SINK, Ops.GROUP, Ops.NOOP}:
        for source in effect.src:
            yield from _stores(source, around)
    else:
        raise AssertionError(f"{effect.op.name} is no effect")


def execute(
    kernel: UOp | Sequence[UOp], buffers: Mapping[int, Array], variables: Mapping[UOp, int] | None = None
) -> dict[int, Array]:
    """The buffers (by slot) after the kernel has run on copies of them."""
    named: dict[str, int] = {}
    for node, value in (variables or {}).items():
        assert isinstance(node.arg, Variable)
        named[node.arg.name] = value
    return interpret(kernel, buffers, named)


def same(before: Mapping[int, Array], after: Mapping[int, Array]) -> bool:
    """Whether two memories are equal, NaN to NaN."""
    return before.keys() == after.keys() and all(
        np.array_equal(before[slot], after[slot], equal_nan=before[slot].dtype.kind == "f") for slot in before
    )


def signed_zeros(array: Array) -> Array:
    """Which elements are negative zero."""
    return np.asarray((array == 0) & np.signbit(array))


def counters(sink: UOp) -> list[str]:
    """The ranges of a kernel, outermost first: `L0<3`."""
    found = sorted((n for n in sink.toposort() if n.op is Ops.RANGE), key=lambda r: r.order)
    return [f"{r.arg}<{r.src[0].arg}" for r in found]


def iterations(sink: UOp) -> int:
    """How often stores run in all."""
    total = 0
    for _, ranges in _stores(sink):
        total += prod(int(r.src[0].arg) for r in ranges)  # type: ignore[call-overload]
    return total


__all__ = ["counters", "execute", "iterations", "same", "signed_zeros"]
