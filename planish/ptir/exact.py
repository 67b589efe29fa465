"""When attribute records are the same: equal *and* written alike.

Python's `==` calls `True`, `1` and `1.0` equal, and `0.0` and `-0.0`. That is no reason to take one instruction
for the other. Most records hold nothing of the kind and are compared as they are; which do is decided once per
class, from its declared fields.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from functools import cache
from typing import Final, cast

from planish.dtypes import DType
from planish.ptir.dims import Dim
from planish.ptir.ops.definition import Attrs, ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Quant

# Equal values of these are one and the same; literals compare by their bits.
_EXACT: Final = (bool, int, str, types.NoneType, DType, Dim, Literal)
_NUMBERS: Final = frozenset({bool, int, float, complex})


def exact_key(attrs: Attrs) -> object:
    """What to hash and compare instead of `attrs` where only the very same will do."""
    kind: type = type(attrs)
    if kind is ConstantAttrs and cast("ConstantAttrs", attrs).quant is None:
        # Literals compare by their bits; only a quantisation holds floats that do not.
        return attrs
    return attrs if _equality_is_exact(kind) else (attrs, repr(attrs))


def same_attrs(left: Attrs, right: Attrs) -> bool:
    """Whether two records are the same."""
    return left is right or (left == right and exact_key(left) == exact_key(right))


def same_quant(left: Quant | None, right: Quant | None) -> bool:
    """Whether two quantisations are the same, signs of zero included."""
    return left is right or (left == right and repr(left) == repr(right))


@cache
def _equality_is_exact(kind: type) -> bool:
    """Whether `==` on records of this class tells everything apart."""
    return all(_is_exact(hint) for hint in typing.get_type_hints(kind).values())


def _is_exact(hint: object) -> bool:
    origin = typing.get_origin(hint)
    if origin is None:
        if not isinstance(hint, type):
            return False
        if issubclass(hint, _EXACT) or issubclass(hint, enum.Enum):
            return True
        return dataclasses.is_dataclass(hint) and _equality_is_exact(hint)
    members = [member for member in typing.get_args(hint) if member is not Ellipsis]
    if origin in (types.UnionType, typing.Union) and len(_NUMBERS.intersection(members)) > 1:
        return False
    if origin is typing.Literal:
        return len({type(member) for member in members}) == 1
    return origin in (tuple, types.UnionType, typing.Union) and all(_is_exact(member) for member in members)
