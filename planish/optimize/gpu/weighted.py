"""Attention and its derivatives on a GPU whose tensor cores read LOCAL memory: one walk over the keys for each block of queries.

Two groups of 64 queries share the blocks of keys and values that come through LOCAL memory. What a thread holds has to fit its
registers: scores of a block of keys, and sums as wide as the result, so that wide results take narrower blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import Any, Final, cast

from planish.actions.chain import Chained
from planish.actions.core_memory import neighbours
from planish.actions.key_walk import KeyWalk, Walked
from planish.actions.online import Online
from planish.actions.pad_to import PadTo
from planish.actions.split import Split
from planish.optimize.core_schedule import upto
from planish.optimize.draft import Draft
from planish.optimize.gpu.joined import joined
from planish.uop.nest import name_of, size_of
from planish.uop.nest.kernel import Nest
from planish.uop.ops import Ops
from planish.uop.tensor_cores import IN_MEMORY, Core

_KINDS: Final[tuple[type[KeyWalk[Any]], ...]] = (Online, Chained)
_ROWS: Final = 64
"""Queries of a group of threads: the rows of its core."""
_ENGINES: Final = (True, False)
"""Whether a copy engine brings keys and values: where it can."""
_MOST_BUFFERS: Final = 2
"""Blocks of keys and values at once."""


def walk_keys(draft: Draft, nest: Nest) -> bool:
    """Whether a sum of the kernel is made so."""
    cores = [core for core in draft.target.tensor_cores if core.reads_memory and core.inputs.itemsize == 2]
    if not any(n.op is Ops.BUFFERIZE for n in nest.nodes):
        return False
    for inputs in dict.fromkeys(core.inputs for core in cores):
        alike = [core for core in cores if core.inputs is inputs]
        for trial in chain((draft,), _parted(draft, nest), joined(draft, alike[0])):
            for kind in _KINDS:
                for way in kind.ways(trial.sink, alike[0]):
                    if _walk(trial, alike, way, kind):
                        draft.adopt(trial)
                        return True
    return False


def _parted(draft: Draft, nest: Nest) -> Iterator[Draft]:
    """The kernel with an axis cut where keys change: queries of several heads that share them are one axis."""
    for node in nest.nodes:
        if node.op is Ops.FLOORDIV and node.src[0] in nest.outputs and node.src[1].op is Ops.CONST:
            trial = draft.copy()
            if trial.take(Split, node.src[0], cast("int", node.src[1].arg), "queries that share keys"):
                yield trial


def _walk(draft: Draft, cores: list[Core], way: Walked, kind: type[KeyWalk[Any]]) -> bool:
    """One sum, with as many threads and keys at once as fit."""
    queries, columns = size_of(way.outer.m), size_of(way.outer.n)
    tiles = draft.target.tiles
    between = tiles.two_between if len(way.inner) > 1 else tiles.one_between
    table = tiles.two_sums if len(way.weights) > 1 else between
    blocks = next((each for each in table if columns <= each.columns), None)
    if not queries or blocks is None:
        return False
    walked = size_of(way.outer.k)
    for groups in blocks.groups if queries > _ROWS else (1,):
        # few keys are one block, of the least that has room for them: there is nothing to be brought ahead
        whole = sorted(n for n in blocks.keys if 0 < walked <= n)
        for keys in dict.fromkeys((*whole, *blocks.keys)):
            core = next((each for each in cores if each.n == keys and _reads(each, way)), None)
            most = min(_MOST_BUFFERS, -(-walked // keys) or _MOST_BUFFERS)
            for engine, buffers in product(_ENGINES, range(most, 0, -1)):
                if core is not None and _take(
                    draft, way, kind.of(core, way, groups, buffers, engine), blocks.columns
                ):
                    return True
    return False


def _reads(core: Core, way: Walked) -> bool:
    """Whether a core reads queries and keys as they lie in memory."""
    return all(
        IN_MEMORY[layout] is not (neighbours(value, axis, each.k) is axis)
        for each in way.inner
        for (layout,), value, axis in ((core.a, each.a, each.m), (core.b, each.b, each.n))
    )


def _take(draft: Draft, way: Walked, action: KeyWalk[Any], width: int) -> bool:
    trial = draft.copy()
    for axis, size in ((way.outer.m, action.groups * _ROWS), (way.outer.n, width)):
        padded = upto(size_of(axis), size)
        if padded != size_of(axis) and not trial.do(PadTo(name_of(axis), size), "a tile has a fixed size"):
            return False
    if not trial.do(action, f"{action.groups * _ROWS} queries at a time, what lies between in registers"):
        return False
    draft.adopt(trial)
    return True
