"""Turned copies: what is read along one axis and written along another goes through a tile of shared memory."""

from __future__ import annotations

from typing import Final

from planish.actions.local import Local
from planish.actions.upcast import Upcast
from planish.optimize.draft import Draft
from planish.optimize.gpu.fit import fitted
from planish.uop.nest.kernel import Nest
from planish.uop.node import UOp
from planish.uop.ops import Ops

_Sides = tuple[tuple[int, tuple[int, int]], ...]
_SIDES: Final[_Sides] = ((16, (1, 8)), (8, (1, 8)), (4, (1, 2)))
"""Threads along each axis of a tile, and how much longer an axis may become for that many."""
_LONG: Final[_Sides] = ((64, (1, 8)), (32, (1, 8)), (16, (1, 2)))
"""The same of an axis of which a thread has one element."""
_TURNED: Final = {1: 8, 2: 8, 8: 2}
"""Elements along each axis that a thread has, by their bytes: 16 bytes of them, about."""
_WIDE: Final = 4
"""The same of all others."""


def turn(draft: Draft, view: Nest) -> bool:
    """Copies that read along one axis and write along another."""
    if view.reductions or view.scans or view.rows or len(view.outputs) < 2:
        return False
    written = next(
        (r for r in reversed(view.outputs) if all(view.stride(p, r) == 1 for p in view.writes)), None
    )
    if written is None:
        return False
    turned = {place: read for place in view.reads if (read := _read_along(view, place, written)) is not None}
    if not turned:
        return False
    read = next(iter(turned.values()))
    places = [place for place, its in turned.items() if its is read]
    each = max(_TURNED.get(place.dtype.itemsize, _WIDE) for place in places)
    ways: tuple[tuple[UOp, int, _Sides], ...] = ((written, each, _SIDES), (read, each, _SIDES))
    if any((view.stride(p, r) or 0) % each for p in view.writes for r in view.outputs if r is not written):
        # rows start anywhere: neighbouring threads write neighbours one by one, so that each access fills whole sectors
        ways = ((written, 1, _LONG), (read, each, _SIDES[1:]))
    for axis, wide, sides in ways:
        side = next((side for side, most in sides if fitted(draft, axis, side * wide, most)), 0)
        if not side or (wide > 1 and not draft.take(Upcast, axis, wide, "neighbours by one access")):
            return False
        if not draft.take(Local, axis, side):
            return False
    # the innermost loop that is left: outside of it are blocks of the grid
    loop = next((left for r in reversed(view.outputs) if (left := draft.outermost(r)) is not None), None)
    slots = {place.src[0]: place for place in places}
    staged = [
        draft.stage(place, loop, "read and written together, each along its own axis")
        for place in slots.values()
    ]
    return any(staged)


def _read_along(view: Nest, place: UOp, written: UOp) -> UOp | None:
    """The axis along which neighbours are read, if they are written along another one."""
    if view.stride(place, written) in {0, 1} or place.src[0].op is not Ops.DEFINE_GLOBAL:
        return None
    return next((r for r in view.outputs if r is not written and view.stride(place, r) == 1), None)
