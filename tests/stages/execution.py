"""Executes a kernel graph by definition, at any point before loads are explicit: the oracle for the rangeify stages.

Every STORE is evaluated for all values of the ranges closed around it, by `planish.uop.evaluate`, and written. A place
that is written twice with different values makes the kernel meaningless, and is an error here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.uop.evaluate import evaluate
from planish.uop.node import UOp
from planish.uop.ops import Ops

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


def _points(ranges: tuple[UOp, ...], env: Mapping[UOp, Any]) -> dict[UOp, Array]:
    """All values of some ranges, as columns; the bound of one may depend on those before it."""
    assert all(r.op is Ops.RANGE for r in ranges), "END lists something that is no RANGE"
    rows: list[tuple[int, ...]] = [()]
    for number, r in enumerate(ranges):
        grown = []
        for row in rows:
            here = {**env, **dict(zip(ranges[:number], row, strict=True))}
            grown += [(*row, i) for i in range(int(evaluate(r.src[0], here)))]
        rows = grown
    columns = np.array(rows, np.int64).reshape(len(rows), len(ranges))
    return {r: columns[:, number] for number, r in enumerate(ranges)}


def _flat(node: UOp, env: Mapping[UOp, Any], count: int) -> Array:
    found = evaluate(node, env)
    flat = found.reshape(-1)
    return flat if flat.size == count else np.ma.concatenate([flat] * count) if isinstance(flat, np.ma.MaskedArray) else np.repeat(flat, count)  # fmt: skip


def execute(
    sink: UOp, buffers: Mapping[int, Array], variables: Mapping[UOp, int] | None = None
) -> dict[int, Array]:
    """The buffers (by slot) after the kernel has run on copies of them."""
    memory = {slot: array.copy() for slot, array in buffers.items()}
    env: dict[UOp, Any] = dict(variables or {})
    for node in sink.toposort():
        if node.op is Ops.DEFINE_GLOBAL:
            assert isinstance(node.arg, int)
            env[node] = buffers[node.arg]  # reads see what was there before
    written: dict[tuple[int, int], Any] = {}
    for store, ranges in _stores(sink):
        assert store.ranges <= set(ranges), "a range is open"
        points = _points(ranges, env)
        count = len(next(iter(points.values()))) if points else 1
        if not count:
            continue
        here = {**env, **points}
        place, value, *gates = store.src
        buffer, index, *more = place.src
        slot = buffer.arg
        assert isinstance(slot, int)
        indices = _flat(index, here, count)
        open_at = ~np.ma.getmaskarray(indices)
        for gate in (*gates, *more):
            open_at &= _flat(gate, here, count)
        values = _flat(value, here, count)
        for i, v, is_open in zip(np.asarray(indices), values, open_at, strict=True):
            if not is_open:
                continue
            assert 0 <= i < memory[slot].size, f"{i} is outside buffer {slot}"
            before = written.setdefault((slot, int(i)), v)
            assert before == v or (v != v and before != before), f"buffer {slot} [{i}] is written twice"
            memory[slot][i] = v
    return memory


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
