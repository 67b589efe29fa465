"""Updates of a tensor at places that are data, combined with what is there by any body."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.stablehlo.bodies import kind_of
from planish.stablehlo.ops.gathering import Numbers, starts_of
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast
from planish.stablehlo.syntax import HloBlock

_KINDS: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "second": "replace"}
_OF_BOOLS: Final = {"or": "max", "and": "min", "second": "replace"}


@lowering("stablehlo.scatter")
def scatter(
    at: Site,
    *operands: V,
    scatter_dimension_numbers: Numbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> tuple[V, ...]:
    count = (len(operands) - 1) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers = scatter_dimension_numbers
    x = inputs[0]
    window_dims = list(numbers.get("update_window_dims", ()))
    inserted = [*numbers.get("inserted_window_dims", ()), *numbers.get("input_batching_dims", ())]
    starts = starts_of(at, indices, numbers, "scatter")
    kept = [a for a in range(x.rank) if a not in inserted]
    sizes = {a: updates[0].dims[w] for a, w in zip(kept, window_dims, strict=True)}
    # an axis that is written whole from its beginning needs no index
    whole = [a for a in kept if a not in starts.parts and sizes[a] == x.dims[a]]
    partial = [a for a in kept if a not in whole]
    dims = (*starts.batch, *(sizes[a] for a in partial))
    lead = [place for place in range(updates[0].rank) if place not in window_dims]
    order = [*lead, *(window_dims[kept.index(a)] for a in (*partial, *whole))]
    new = [u if order == sorted(order) else u.transpose(order) for u in updates]
    indexed = [a for a in range(x.rank) if a not in whole]
    places = starts.places(dims, indexed, partial)
    if 0 in new[0].dims or 0 in x.dims:
        return tuple(inputs)
    if not indexed:
        return _everywhere(at, inputs, new, starts.batch)
    return combine_at(at, at.regions[0], inputs, new, places, indexed, unique_indices)


def _everywhere(at: Site, inputs: Sequence[V], new: Sequence[V], batch: Sequence[DimLike]) -> tuple[V, ...]:
    """Updates that cover all of the operand, one after the other."""
    count = math.prod(at.whole(new[0])[: len(batch)])
    values = list(inputs)
    lines = [u.reshape((count, *x.dims)) for u, x in zip(new, inputs, strict=True)]
    for n in range(count):
        values = list(at.each(at.regions[0], [*values, *(line[n] for line in lines)]))
    return tuple(values)


def combine_at(
    at: Site,
    block: HloBlock,
    inputs: Sequence[V],
    updates: Sequence[V],
    places: Sequence[V],
    axes: Sequence[int],
    unique: bool = False,
) -> tuple[V, ...]:
    """Updates written where index arrays say; what is outside is dropped."""
    kind = kind_of(block) if len(inputs) == 1 else None
    x, new = inputs[0], updates[0]
    if kind == "first":
        return (x,)
    known = _OF_BOOLS if x.dtype.is_bool else _KINDS
    if kind in known:
        word = known[kind]
        if x.dtype.is_bool:
            raw = cast(x, dtypes.uint8).scatter(cast(new, dtypes.uint8), places, list(axes), word)
            return (raw.ne(0),)
        return (x.scatter(new, places, list(axes), word, unique),)
    if unique:
        old = [y.gather(places, list(axes)) for y in inputs]
        merged = at.each(block, [*old, *updates])
        return tuple(
            y.scatter(m, places, list(axes), "replace", True) for y, m in zip(inputs, merged, strict=True)
        )
    return _one_by_one(at, block, inputs, updates, places, axes)


def _one_by_one(
    at: Site,
    block: HloBlock,
    inputs: Sequence[V],
    updates: Sequence[V],
    places: Sequence[V],
    axes: Sequence[int],
) -> tuple[V, ...]:
    """Any body, and places that may repeat: updates in their order."""
    count = places[0].type.size
    rest = [d for a, d in enumerate(inputs[0].dims) if a not in axes]
    rows = [u.reshape((count, *rest)) for u in updates]
    lines = [p.reshape((count,)) for p in places]
    held = len(inputs)

    def turn(*args: V) -> Sequence[V]:
        now, new, where = args[:held], args[held : 2 * held], args[2 * held :]
        index = [w.reshape((1,)) for w in where]
        old = [y.gather(index, list(axes)).reshape(rest) for y in now]
        merged = at.each(block, [*old, *new])
        return [y.scatter(m.reshape((1, *rest)), index, list(axes)) for y, m in zip(now, merged, strict=True)]

    return at.graph.scan(turn, list(inputs), [*rows, *lines])
