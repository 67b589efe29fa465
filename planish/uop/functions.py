"""Scalar functions as kernel ops: which op stands for which record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planish.scalars import FUNCTIONS, Scalar
from planish.uop.ops import Ops

OPS: Final[Mapping[str, Ops]] = {
    name: Ops[of.kernel or name.upper()]
    for name, of in FUNCTIONS.items()
    if (of.kernel or name.upper()) in Ops.__members__
}
"""The op of a function, by name; the others are formulas."""
FUNCTION_OPS: Final[Mapping[Ops, Scalar]] = {op: FUNCTIONS[name] for name, op in OPS.items()}
