"""Tensor cores, where one fits."""

from __future__ import annotations

from typing import Final

from planish.config import current
from planish.optimize.draft import Draft
from planish.uop.actions import Action, ActionKind
from planish.uop.products import products

_TILES: Final = (4, 2)
"""Tiles of a tensor core side by side; of a CPU's eight tile registers two by two, and their operands."""


def use_tensor_core(draft: Draft) -> bool:
    for number, core in enumerate(draft.target.tensor_cores):
        if core.mantissa is not None and not current().fastmath:
            continue
        found = products(draft.sink, core)
        if found and draft.do(Action(ActionKind.TC, 0, number)):
            tile = found[0]
            for axis in (tile.m, tile.n):
                draft.take_first(ActionKind.UPCAST, axis, _TILES if core.threads > 1 else _TILES[1:])
            if core.threads > 1:
                draft.take_first(ActionKind.LOCAL, tile.n, _TILES)
            return True
    return False
