"""Interning: one object for equal types and equal signatures.

Programs apply the same ops to the same types over and over, so that is what is remembered: a `OpSignature` is an op with its
attributes on operands of certain types, inferred once. Its number stands for all of that where expressions are compared.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final, cast

from planish.dtypes import DType
from planish.frontend.expression import OpSignature, TracedBody
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef
from planish.ptir.types import DimLike, TensorType

if TYPE_CHECKING:
    from planish.ptir.function import Region

_LARGEST: Final = 1 << 16
"""Types and signatures that are kept before the tables start again."""


class Types:
    """Types by what they are: tensors of equal types mostly have the same object."""

    def __init__(self) -> None:
        self.known: dict[tuple[DType, tuple[DimLike, ...]], TensorType] = {}

    def of(self, dtype: DType, dims: tuple[DimLike, ...]) -> TensorType:
        """The type of a tensor, made once."""
        type = self.known.get((dtype, dims))
        if type is None:
            if len(self.known) >= _LARGEST:
                self.known.clear()
            type = self.known[dtype, dims] = TensorType(dtype, dims)
        return type

    def interned(self, type: TensorType) -> TensorType:
        """The object that stands for a type."""
        return type if type.quant is not None else self.known.setdefault((type.dtype, type.dims), type)


class Signatures:
    """Signatures by what they are, with a table in front of it that asks for the identity of types alone."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.fast: dict[tuple[object, ...], OpSignature] = {}
        self.alive: list[tuple[TensorType, ...]] = []
        """Types whose identity is in the table: they must not be replaced by others at the same address."""
        self.known: dict[Hashable, OpSignature] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()

    def find(self, op: OpDef, attrs: Attrs, operands: tuple[TensorType, ...]) -> OpSignature:
        """That of an op without bodies; raises what inference raises."""
        interned = self.types.interned
        canonical = tuple([interned(type) for type in operands])
        signature = self.known.get((op, attrs, canonical))
        if signature is None:
            types = tuple([interned(type) for type in op.infer(canonical, attrs, ())])
            signature = self._new((op, attrs, canonical), op, attrs, canonical, types)
        with self.lock:
            if len(self.fast) >= _LARGEST:
                self.fast.clear()
                self.alive.clear()
            self.alive.append(operands)
            # ops without attributes are the most common ones
            self.fast[(op, *(() if attrs is NO_ATTRS else (attrs,)), *map(id, operands))] = signature
        return signature

    def with_bodies(
        self, op: OpDef, attrs: Attrs, operands: tuple[TensorType, ...], bodies: tuple[TracedBody, ...]
    ) -> OpSignature:
        """That of an op with bodies, which have the types of arguments and results that inference asks regions for."""
        inferred = op.infer(operands, attrs, cast("Sequence[Region]", bodies))
        types = tuple([self.types.interned(type) for type in inferred])
        key = (op, attrs, operands, types)
        return self.known.get(key) or self._new(key, op, attrs, operands, types)

    def constant(self, op: OpDef, attrs: ConstantAttrs) -> OpSignature:
        """That of a constant, whose attributes are its own and whose number is that of its type."""
        literal = attrs.literal
        type = (
            self.types.of(literal.dtype, literal.shape)
            if attrs.quant is None
            else TensorType(literal.dtype, literal.shape, attrs.quant)
        )
        signature = self.known.get((op, type)) or self._new((op, type), op, attrs, (), (type,))
        return OpSignature(op, attrs, (), signature.types, signature.number)

    def _new(
        self,
        key: Hashable,
        op: OpDef,
        attrs: Attrs,
        operands: tuple[TensorType, ...],
        types: tuple[TensorType, ...],
    ) -> OpSignature:
        with self.lock:
            if len(self.known) >= _LARGEST:
                self.known.clear()
                self.fast.clear()
                self.alive.clear()
            signature = OpSignature(op, attrs, operands, types, next(self.numbers))
            return self.known.setdefault(key, signature)
