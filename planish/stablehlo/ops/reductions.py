"""Reductions over axes, with any body and any number of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.common import spread
from planish.stablehlo.bodies import is_identity, kind_of
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import HloBlock, HloValue

REDUCE: Final[dict[str, Callable[..., V]]] = {
    "sum": V.reduce_sum,
    "prod": V.reduce_prod,
    "max": V.reduce_max,
    "min": V.reduce_min,
    "and": V.reduce_and,
    "or": V.reduce_or,
}


@lowering("stablehlo.reduce")
def reduce(at: Site, *operands: V, dimensions: Sequence[int]) -> tuple[V, ...]:
    count = len(operands) // 2
    inputs, starts = operands[:count], operands[count:]
    block = at.regions[0]
    if not dimensions:
        return tuple(
            at.each(block, [*(spread(s, x.dims) for s, x in zip(starts, inputs, strict=True)), *inputs])
        )
    kind = kind_of(block) if count == 1 else None
    if kind in REDUCE:
        reduced = REDUCE[kind](inputs[0], list(dimensions))
        if is_identity(kind, at.known(at.op.operands[1]), at, 1):
            return (reduced,)
        return at.each(block, [spread(starts[0], reduced.dims), reduced])
    picked = _arg_extreme(at, inputs, block, dimensions)
    if picked is not None:
        return picked
    return _folded(at, inputs, starts, block, list(dimensions))


def _folded(
    at: Site, inputs: Sequence[V], starts: Sequence[V], block: HloBlock, axes: list[int]
) -> tuple[V, ...]:
    """Halves combined with each other until one element is left: the body is associative."""
    kept = [axis for axis in range(inputs[0].rank) if axis not in axes]
    dims = [inputs[0].dims[axis] for axis in kept]
    sizes = at.whole(inputs[0])
    count = 1
    for axis in axes:
        count *= sizes[axis]
    first = [spread(s, dims) for s in starts]
    if not count:
        return tuple(first)
    values = [x.transpose([*axes, *kept]).reshape((count, *dims)) for x in inputs]
    while count > 1:
        half = count // 2
        low = [_part(x, 0, half) for x in values]
        high = [_part(x, half, 2 * half) for x in values]
        merged = at.each(block, [*low, *high])
        if count % 2:
            merged = tuple(m.concat([_part(x, 2 * half, count)]) for m, x in zip(merged, values, strict=True))
        values, count = list(merged), half + count % 2
    return at.each(block, [*first, *(x.reshape(dims) for x in values)])


def _part(x: V, low: int, high: int) -> V:
    return x.slice([low, *[0] * (x.rank - 1)], [high, *x.dims[1:]])


# --- the place of an extreme ------------------------------------------------------------------------------


def _arg_extreme(at: Site, inputs: Sequence[V], block: HloBlock, axes: Sequence[int]) -> tuple[V, ...] | None:
    """(value, number) pairs of which the larger value wins, NaN before all, then the lower number: argmax of counted values."""
    if len(inputs) != 2 or len(axes) != 1 or not inputs[1].dtype.is_int or inputs[0].dtype.is_complex:
        return None
    largest = _picks(block)
    numbers = at.op.operands[1].op
    if largest is None or numbers is None or numbers.name != "stablehlo.iota":
        return None
    (axis,) = axes
    start = at.importer.number(at.op.operands[2])
    size = inputs[0].dims[axis]
    if numbers.attributes["iota_dimension"] != axis or start is None or not isinstance(size, int) or not size:
        return None
    x = cast(inputs[0], dtypes.uint8) if inputs[0].dtype.is_bool else inputs[0]
    place = (x.argmax if largest else x.argmin)(axis, dtype=dtypes.int64)
    extreme = (x.reduce_max if largest else x.reduce_min)([axis])
    return cast(extreme, inputs[0].dtype), cast(place, inputs[1].dtype)


def _picks(block: HloBlock) -> bool | None:
    """Whether a body takes the pair with the larger (True) or smaller (False) value, the lower number among equals.

    x wins if x > y or x is NaN, or if x == y and its number is lower: as `jax.numpy.argmax` writes it.
    """
    if len(block.args) != 4:
        return None
    x, i, y, j = block.args
    names = {x: "x", y: "y", i: "i", j: "j"}
    terms: dict[HloValue, str] = dict(names)
    for op in block.body:
        operands = [terms.get(v, "?") for v in op.operands]
        word = op.name.removeprefix("stablehlo.")
        if word == "compare":
            word = op.attributes["comparison_direction"]
        if word in ("or", "and", "EQ", "NE"):
            operands.sort()
        if len(op.results) != 1:
            return None
        terms[op.results[0]] = f"{word}({','.join(operands)})"
    value, number = (terms.get(v, "?") for v in block.end.operands)
    for word, largest in (("GT", True), ("LT", False)):
        better = f"{word}(x,y)"
        for wins in (_both("or", better, "NE(x,x)"), better):
            chosen = _both("or", wins, _both("and", "EQ(x,y)", "LT(i,j)"))
            if value == f"select({wins},x,y)" and number == f"select({chosen},i,j)":
                return largest
    return None


def _both(word: str, one: str, other: str) -> str:
    return f"{word}({','.join(sorted((one, other)))})"
