"""What a StableHLO module says: functions, blocks, operations, types and attributes as plain data.

Generic and pretty spelling come to the same here: attributes stand under their names in the specification, lists of integers are
tuples, enumerations their words (`"LT"`), and the fields of `#stablehlo.gather<…>` and its kin a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.dtypes import DType
from planish.errors import Location

Attribute: TypeAlias = Any
"""None (unit), bool, int, float, str, tuple, dict, `Symbol`, `Dense`, or a type."""


@dataclass(frozen=True, slots=True)
class QuantizedElement:
    """`!quant.uniform<i8:f32, 0.5:3>`: integers that stand for reals."""

    storage: DType
    expressed: DType
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class HloTensorType:
    """`tensor<2x?xf32, #stablehlo.bounds<?, 8>>`: sizes that are open are None, and may have an upper bound."""

    dims: tuple[int | None, ...]
    element: DType | QuantizedElement
    bounds: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        element = self.element.short if isinstance(self.element, DType) else str(self.element)
        sizes = "".join("?x" if d is None else f"{d}x" for d in self.dims)
        return f"tensor<{sizes}{element}>"


@dataclass(frozen=True, slots=True)
class TupleType:
    """`tuple<…>`."""

    elements: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class OtherType:
    """Tokens, function types, and whatever else is no tensor: by its text."""

    text: str


Type: TypeAlias = HloTensorType | TupleType | OtherType


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """`@name`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """`dense<…> : tensor<…>`: elements, one for all of them where they are alike."""

    type: HloTensorType
    array: NDArray[Any]
    """As many elements as the type has, or one (a scalar)."""

    def full(self) -> NDArray[Any]:
        """All of its elements."""
        return np.broadcast_to(self.array, [0 if d is None else d for d in self.type.dims])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Dense)
            and self.type == other.type
            and self.full().tobytes() == other.full().tobytes()
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True, eq=False)
class HloValue:
    """An argument of a block, or a result of an operation."""

    name: str
    type: Type
    op: Operation | None = None
    """What it is a result of."""
    index: int = 0

    def __repr__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class HloBlock:
    """A region: they all have one block."""

    args: list[HloValue] = field(default_factory=list)
    ops: list[Operation] = field(default_factory=list)

    @property
    def end(self) -> Operation:
        """What it returns."""
        return self.ops[-1]

    @property
    def body(self) -> list[Operation]:
        """All but that."""
        return self.ops[:-1]


@dataclass(slots=True, eq=False)
class Operation:
    """`%results = name(%operands) {attributes} ({regions}) : types`."""

    name: str
    operands: list[HloValue]
    attributes: dict[str, Attribute]
    regions: list[HloBlock]
    results: list[HloValue] = field(default_factory=list)
    location: Location | None = None


@dataclass(slots=True, eq=False)
class HloFunction:
    """`func.func @name(…) -> …`."""

    name: str
    block: HloBlock
    result_types: list[Type]
    arg_attributes: list[dict[str, Attribute]]
    result_attributes: list[dict[str, Attribute]]
    location: Location | None = None
    attributes: dict[str, Attribute] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class HloModule:
    """All functions by name."""

    name: str
    functions: dict[str, HloFunction]
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def operations(self) -> Iterator[Operation]:
        """Every operation, those inside of regions too."""
        pending = [function.block for function in self.functions.values()]
        while pending:
            block = pending.pop()
            for op in block.ops:
                yield op
                pending += op.regions


def captured(block: HloBlock) -> list[HloValue]:
    """What a region uses from outside, each once."""
    own: set[HloValue] = set()
    used: dict[HloValue, None] = {}
    pending = [block]
    while pending:
        part = pending.pop()
        own.update(part.args)
        for op in part.ops:
            used.update(dict.fromkeys(op.operands))
            own.update(op.results)
            pending += op.regions
    return [value for value in used if value not in own]


def difference(one: HloModule, other: HloModule) -> str | None:
    """Where two modules do not say the same, whatever they call their values; None if they do."""
    if list(one.functions) != list(other.functions):
        return f"functions {list(one.functions)} and {list(other.functions)}"
    for mine, theirs in zip(one.functions.values(), other.functions.values(), strict=True):
        where = _difference(mine.block, theirs.block, {})
        if where is not None or mine.result_types != theirs.result_types:
            return f"in {mine.name}: {where or 'result types'}"
    return None


def _difference(one: HloBlock, other: HloBlock, known: dict[HloValue, HloValue]) -> str | None:
    if [a.type for a in one.args] != [a.type for a in other.args] or len(one.ops) != len(other.ops):
        return f"blocks of {len(one.ops)} and {len(other.ops)} operations"
    known |= dict(zip(one.args, other.args, strict=True))
    for mine, theirs in zip(one.ops, other.ops, strict=True):
        facts = [
            (op.name, operands, op.attributes, [v.type for v in op.results], len(op.regions))
            for op, operands in (
                (mine, [known.get(v) for v in mine.operands]),
                (theirs, list(theirs.operands)),
            )
        ]
        if facts[0] != facts[1]:
            return f"{facts[0]} and {facts[1]}"
        for inner, outer in zip(mine.regions, theirs.regions, strict=True):
            where = _difference(inner, outer, known)
            if where is not None:
                return where
        known |= dict(zip(mine.results, theirs.results, strict=True))
    return None
