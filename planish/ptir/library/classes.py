"""How every op reaches the machine: what their records say, as tables."""

from __future__ import annotations

from typing import Final

from planish.ptir import ops as _ops  # noqa: F401 - they are defined there
from planish.ptir.ops.definition import REGISTRY, OpDef, Way

WAYS: Final[dict[str, Way]] = {op.name: op.way for op in REGISTRY.values()}
"""The way of every op, by name."""

COMPOSITES: Final[frozenset[str]] = frozenset(name for name, way in WAYS.items() if way is Way.COMPOSITE)
"""The ops that are gone after `expand,expand-complex`."""


STAYING: Final = frozenset({"sort", "top_k", "non_max_suppression"})
"""Composites that may stay, and run as host ops, where a machine has routines for them (`library.hosted`)."""


def way_of(op: OpDef) -> Way:
    """How an op reaches the machine."""
    return WAYS[op.name]


def unplaced() -> list[str]:
    """Ops without a way, ways without an op, and host ops that are not marked so: empty unless something was forgotten."""
    wrong = sorted(REGISTRY.keys() ^ WAYS.keys())
    wrong += [
        op.name for op in REGISTRY.values() if op.name in WAYS and op.host is not (WAYS[op.name] is Way.HOST)
    ]
    return wrong


__all__ = ["COMPOSITES", "STAYING", "WAYS", "Way", "unplaced", "way_of"]
