"""The numbers by which kernels are chosen, each with its reason; what depends on the machine stands in its `Target`."""

from __future__ import annotations

from typing import Final

from planish.uop.ops import Ops

FEW_ROWS: Final = 16
"""Fewer rows than that do not keep all cores busy. (Not those of this machine: sums are cut alike, and are the same numbers, on all of them.)"""
AGAIN: Final = 1.25
"""How often an element may be computed and still count as computed once: the rest is what paddings add."""
MOST_STEPS: Final = 1024
"""Elements that one kernel computes for one of its result: beyond, its code is larger than a cache of instructions."""
CHEAP: Final = frozenset(
    {Ops.ADD, Ops.SUB, Ops.MUL, Ops.MULACC, Ops.NEG, Ops.ABS, Ops.MAX, Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.NOT,
     Ops.SHL, Ops.SHR, Ops.CMPLT, Ops.CMPLE, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.CAST, Ops.BITCAST, Ops.NOOP,
     Ops.FLOOR, Ops.CEIL, Ops.TRUNC, Ops.ROUND}
)  # fmt: skip
"""Ops that cost no more than reading their result from memory would."""
