"""Boxes of a parameter that a copy engine can fetch: what a read looks like from there.

A copy engine is told of a tensor once (its dims and the strides between them, in a *tensor map*), and then to bring the box that starts at
some coordinates; whatever of it is beyond the dims is zeros. A read is an element of such a box where its index is a sum of one axis
along which elements are neighbours, one along which rows are a multiple of 16 bytes apart, and the rest, which is a third dim; and where
nothing but the end of an axis makes it nowhere. Where it is not so, it may be one of windows (`window_maps.py`).

Before → after::

    a[where(m < 3000, m*4096 + k, nowhere)]      dims (4096, 3000), strides (1, 4096), a box of 64 x 128 at (k, m)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import Final, cast

from planish.actions.window_maps import conditions_of, windows
from planish.uop.nest import next_root, size_of
from planish.uop.node import UOp
from planish.uop.ops import Box, Ops
from planish.uop.rewrite import substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.affine import affine

_ALIGNED: Final = 16
"""Bytes that everything starts at multiples of."""
_MOST_ROWS: Final = 256
"""Elements of a box along each dim."""
ROW: Final = 128
"""Bytes of a row of a box in LOCAL memory."""


def _limits(index: UOp) -> tuple[UOp, dict[UOp, int]] | None:
    """An index as it is where it is somewhere, and below what number each axis has to be for that."""
    limits: dict[UOp, int] = {}
    index, conditions = conditions_of(index)
    for gate in conditions:
        if gate.op is not Ops.CMPLT or gate.src[0].op is not Ops.RANGE or gate.src[1].op is not Ops.CONST:
            return None
        size = cast("int", gate.src[1].arg)
        limits[gate.src[0]] = min(size, limits.get(gate.src[0], size))
    return index, limits


def fetched(value: UOp, first: UOp, second: UOp, at: Mapping[UOp, UOp], copied: UOp, box: Box) -> UOp | None:
    """What is copied of a read, as an element of a box along two axes that starts at their places; None if it is none.

    `copied` is the read at the element that is meant; of the box, sizes and buffers are known.
    """
    if value.op is not Ops.INDEX or value.src[0].op is not Ops.DEFINE_GLOBAL or len(value.src) != 2:
        return None
    if any(axis.src[0].op is not Ops.CONST for axis in (first, second)) or box.sizes[1] > _MOST_ROWS:
        return None
    fetch = _box(value, first, second, at, copied, box)
    return windows(value, first, second, at, copied, box) if fetch is None else fetch


def _cut(value: UOp, axis: UOp, run: int, at: Mapping[UOp, UOp]) -> tuple[UOp, UOp, dict[UOp, UOp]]:
    """A read along an axis that is several which were joined: what one box has of it is an axis of its own, which starts at 0."""
    root = next_root(value.toposort())
    inner, outer = value.table.range(run, root), value.table.range(size_of(axis) // run, root + 1)
    cut = simplify(substitute(value.src[1], {axis: outer * run + inner}))
    places = {**at, inner: value.table.const(0), outer: at[axis] // run}
    return value.replace(src=(value.src[0], cut)), inner, places


def _box(value: UOp, first: UOp, second: UOp, at: Mapping[UOp, UOp], copied: UOp, box: Box) -> UOp | None:
    limited = _limits(value.src[1])
    if limited is None or not limited[1].keys() <= {first, second}:
        return None
    index, limits = limited
    terms = affine(simplify(index))
    if terms is None:
        return None
    pitch, unit = terms.terms.get(second, 0), _ALIGNED // gcd(_ALIGNED, value.dtype.itemsize)
    others = {
        term: factor for term, factor in terms.terms.items() if term is not first and term is not second
    }
    for axis, run in ((first, box.sizes[0] * box.panels), (second, box.sizes[1])):
        if any(axis in term.ranges for term in others) and axis not in limits:
            if size_of(axis) <= run or size_of(axis) % run:
                return None
            cut, inner, places = _cut(value, axis, run, at)
            axes = (inner, second) if axis is first else (first, inner)
            return _box(cut, *axes, places, copied, box)
    if terms.terms.get(first) != 1 or pitch < 1 or pitch % unit:
        return None
    if any(first in term.ranges or second in term.ranges for term in others):
        return None
    dims = [limits.get(axis, axis.vmax + 1) for axis in (first, second)]
    strides, coordinates = [1, pitch], [at[first], at[second]]
    step = gcd(terms.constant, *others.values())
    if step:
        rest = value.table.const(terms.constant // step)
        for term, factor in others.items():
            rest = rest + term * (factor // step)
        rest = simplify(rest)
        if rest.vmin < 0 or step % unit:
            return None
        dims.append(rest.vmax + 1)
        strides.append(step)
        coordinates.append(substitute(rest, dict(at)))
    whole = box._replace(slot=cast("int", value.src[0].arg), dims=tuple(dims), strides=tuple(strides))
    return value.table.make(Ops.FETCH, copied.dtype, (copied, *map(simplify, coordinates)), whole)
