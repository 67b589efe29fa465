"""Compositions of PTIR ops that several front ends and passes need, written once in the DSL.

Functions take and return handles (`ptir.Value`) of a graph under construction. `classes` says of every op how it reaches
the machine; `expansions` holds those that the pass `expand` puts in place of composite ops.
"""

from __future__ import annotations

from planish.ptir.library.classes import COMPOSITES, WAYS, Way, way_of

__all__ = ["COMPOSITES", "WAYS", "Way", "way_of"]
