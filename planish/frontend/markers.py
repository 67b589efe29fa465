"""Ops that only the transforms know.

There is a function with derivatives of its own, one that is computed again on the way back, and one that is computed for all
examples of a batch though only some of them ask for it. All hold the function as their first region and are worth exactly that: what is written down for the compiler has the body
in their place (`planish.frontend.trace`), so that no pass, no text form and no target ever meets them. Differentiation and
batching find them in what they are given, whatever was traced around them: loops, `jit`, other transforms.
"""

from __future__ import annotations

from typing import Final

from planish.ptir.ops.definition import (
    REGISTRY,
    Arrays,
    Attrs,
    NoAttrs,
    OpDef,
    OpKey,
    RegionCall,
    Regions,
    Results,
    ResultTypes,
    Types,
    define,
)
from planish.records import dataclass


@dataclass(frozen=True, slots=True)
class CustomAttrs(Attrs):
    """The name of the function, for messages."""

    name: str


def _infer(types: Types, attrs: Attrs, regions: Regions) -> ResultTypes:
    return regions[0].result_types


def _evaluate(arrays: Arrays, attrs: Attrs, types: Types, call: RegionCall) -> Results:
    return call(0, arrays)


def _marker(name: str, attrs: type[Attrs], regions: int, doc: str) -> OpDef:
    op = define(
        name, OpKey.OTHER, attrs, arity=(0, None), infer=_infer, evaluate=_evaluate, num_results=None,
        num_regions=regions, foldable=False, doc=doc,
    )  # fmt: skip
    # Not one of PTIR's ops: nobody but the transforms may be asked to know it.
    return REGISTRY.pop(op.name)


CHECKPOINT: Final = _marker("checkpoint", NoAttrs, 1, "A function that the way back computes again.")
CUSTOM_JVP: Final = _marker(
    "custom_jvp",
    CustomAttrs,
    2,
    "x… to y…; and how tangents go: x… and a tangent for each that can have one, to y… and their tangents.",
)
CUSTOM_VJP: Final = _marker(
    "custom_vjp",
    CustomAttrs,
    3,
    "x… to y…; x… to y… and what the way back needs; that and cotangents of y…, to those of x….",
)
GUARDED: Final = _marker(
    "guarded",
    NoAttrs,
    1,
    "A mask of examples and x… with as many, to y…: those outside of the mask are computed and never used.",
)
MARKERS: Final = frozenset({CHECKPOINT, CUSTOM_JVP, CUSTOM_VJP, GUARDED})
