"""Loops that count: `while i < n` with `i` from a constant in steps of 1 is a scan, which has a derivative.

What a loop hands on unchanged is no part of what goes around. A sequence that is read at `i` alone becomes one that the scan
takes slices of, and a buffer that is only written at `i` one that it stacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.site import Site
from planish.stablehlo.syntax import Value


def _times(at: Site, init: Sequence[Any]) -> tuple[int, int, int] | None:
    """The place of the counter, where it starts, and how often the loop runs."""
    condition, body = at.regions
    if not condition.body:
        return None
    *before, test = condition.body
    if test.name != "stablehlo.compare" or condition.end.operands != test.results:
        return None
    if test.attributes["comparison_direction"] != "LT" or any(
        op.name != "stablehlo.constant" for op in before
    ):
        return None
    left, right = test.operands
    if left not in condition.args:
        return None
    place = condition.args.index(left)
    limit = at.importer.number(right) if right not in condition.args else _invariant_number(at, right)
    start = at.importer.number(at.op.operands[place])
    step = body.end.operands[place].op
    if step is None or step.name != "stablehlo.add" or step not in body.ops or limit is None or start is None:
        return None
    if body.args[place] not in step.operands:
        return None
    others = [v for v in step.operands if v is not body.args[place]]
    if len(others) != 1 or at.importer.number(others[0]) != 1:
        return None
    return place, int(start.real), max(int(limit.real) - int(start.real), 0)


def _invariant_number(at: Site, value: Value) -> Any:
    """The number that an argument of the loop has all the time."""
    condition, body = at.regions
    place = condition.args.index(value)
    if body.end.operands[place] is not body.args[place]:
        return None
    return at.importer.number(at.op.operands[place])


def recognise(at: Site, init: Sequence[Any]) -> tuple[Any, ...] | None:
    """The results of a loop that counts; None if it is none."""
    found = _times(at, init)
    if found is None or not all(isinstance(x, V) for x in init):
        return None
    place, start, times = found
    body = at.regions[1]
    fixed = {n for n, v in enumerate(body.end.operands) if v is body.args[n]}
    moving = [n for n in range(len(init)) if n not in fixed and n != place]
    counter = init[place]

    def turn(number: V, carried: Sequence[V]) -> list[V]:
        args: list[V] = list(init)
        args[place] = number
        for n, x in zip(moving, carried, strict=True):
            args[n] = x
        results = at.run(body, args)
        return [results[n] for n in moving]

    numbers = at.graph.iota((times,), 0, counter.dtype)
    numbers = numbers.add(start) if start else numbers
    carried = at.graph.scan(
        lambda *args: turn(args[-1], args[:-1]), [init[n] for n in moving], [numbers], times
    )
    results: list[V] = list(init)
    results[place] = at.full((), start + times, counter.dtype) if times else counter
    for n, x in zip(moving, carried, strict=True):
        results[n] = x
    return tuple(results)


__all__ = ["recognise"]
