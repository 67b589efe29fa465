"""Reverse mode: a function that also pulls the cotangents of its results back to its parameters.

Conventions are torch's: the cotangent of a complex value is conjugate to its derivative, so that a step against it descends.
A loop keeps the carried values of its steps and computes each step again on the way back; everything else that the way back
needs is kept or computed again as the compiler sees fit, since both ways are one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from planish.errors import GraphError
from planish.frontend.autodiff import loops
from planish.frontend.autodiff.replay import (
    At,
    Replay,
    Values,
    captured,
    emit,
    inlined,
    is_differentiable,
    no_rule,
    replay,
    zeros,
)
from planish.frontend.autodiff.rules import DERIVATIVES, LINEAR, RULES, emit_moving, is_flat, reads, spread
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
