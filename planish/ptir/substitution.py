"""Named sizes replaced throughout types and attributes: what a body needs to stand in another function."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from planish.ptir.dims import Dim, DimLike, substitute
from planish.ptir.ops.definition import Attrs, NoAttrs
from planish.ptir.ops.sizes import BindDimAttrs
from planish.ptir.types import TensorType


class Substitution:
    """Other sizes for names. A name that `bind_dim` gives must become a plain name again, with its new bounds."""

    __slots__ = ("sizes",)

    def __init__(self, sizes: Mapping[str, DimLike]) -> None:
        self.sizes = sizes

    def type(self, type: TensorType) -> TensorType:
        return type if type.is_static else type.substitute(self.sizes)

    def attrs(self, attrs: Attrs) -> Attrs:
        if isinstance(attrs, NoAttrs):
            return attrs
        if isinstance(attrs, BindDimAttrs):
            bound = self.sizes.get(attrs.name)
            if isinstance(bound, Dim) and bound.name is not None:
                return dataclasses.replace(attrs, name=bound.name, lo=bound.lo, hi=bound.hi)
            return attrs
        changed: dict[str, object] = {}
        for field in dataclasses.fields(attrs):  # type: ignore[arg-type]
            old: object = getattr(attrs, field.name)
            new = self._item(old)
            if new is not old:
                changed[field.name] = new
        return dataclasses.replace(attrs, **changed) if changed else attrs  # type: ignore[type-var]

    def _item(self, item: object) -> object:
        if isinstance(item, Dim):
            return substitute(item, self.sizes)
        if isinstance(item, TensorType):
            return self.type(item)
        if isinstance(item, tuple):
            parts = tuple([self._item(part) for part in item])
            return parts if any(new is not old for new, old in zip(parts, item, strict=True)) else item
        return item
