"""Calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo import counting
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import HloBlock


@lowering("func.call", elementwise=True)
def call(at: Site, *operands: Any, callee: str, no_inline: Any = None) -> tuple[Any, ...]:
    return _called(at, callee, operands)


def _called(at: Site, name: str, operands: Sequence[Any]) -> tuple[Any, ...]:
    function = at.importer.module.functions.get(name)
    if function is None:
        at.refuse(f"there is no function {name}", f"the module has {', '.join(at.importer.module.functions)}")
    return at.importer.call(function, operands, at.op.operands)


@lowering("stablehlo.composite")
def composite(
    at: Site,
    *operands: Any,
    name: str,
    decomposition: str,
    version: int = 0,
    composite_attributes: Any = None,
) -> tuple[Any, ...]:
    """What it is made of; the name is a hint."""
    return _called(at, decomposition, operands)


def _run(at: Site, block: HloBlock, args: Sequence[V] = ()) -> tuple[V, ...]:
    return at.run(block, args)


@lowering("stablehlo.if")
def if_(at: Site, predicate: V) -> tuple[V, ...]:
    then, otherwise = at.regions
    return at.graph.cond(predicate.reshape(()), lambda: _run(at, then), lambda: _run(at, otherwise))


@lowering("stablehlo.case")
def case(at: Site, index: V) -> tuple[V, ...]:
    """One of the branches; a number that has none takes the last."""
    last = len(at.regions) - 1
    number = cast(index, dtypes.int64).reshape(())
    number = number.lt(0).or_(number.gt(last)).select(at.like(number, last), number)

    def between(low: int, high: int) -> tuple[V, ...]:
        if low == high:
            return _run(at, at.regions[low])
        middle = (low + high) // 2
        return at.graph.cond(
            number.le(middle), lambda: between(low, middle), lambda: between(middle + 1, high)
        )

    return between(0, last)


@lowering("stablehlo.while")
def while_(at: Site, *init: Any) -> tuple[Any, ...]:
    condition, body = at.regions
    counted = counting.recognise(at, init)
    if counted is not None:
        return counted
    held = [n for n, x in enumerate(init) if isinstance(x, V)]

    def full(args: Sequence[V]) -> list[Any]:
        """With tokens at their places."""
        slots: list[Any] = [None] * len(init)
        for n, x in zip(held, args, strict=True):
            slots[n] = x
        return slots

    results = at.graph.while_loop(
        lambda *args: at.run(condition, full(args))[0].reshape(()),
        lambda *args: [x for n, x in enumerate(at.run(body, full(args))) if n in held],
        *(init[n] for n in held),
    )
    return tuple(full(results))
