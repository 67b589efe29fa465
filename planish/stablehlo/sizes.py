"""Integers that follow from constants and sizes: what operands say that decide shapes.

An operand of `dynamic_reshape` is a tensor in StableHLO; in PTIR shapes are part of types. The operations that compute such operands are
few (sums, products, concatenations of sizes), and are evaluated here on sizes, which may have names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planish.ptir.dims import Dim, DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import TensorType
from planish.stablehlo.syntax import Dense, HloFunction, HloTensorType, HloValue, Operation

if TYPE_CHECKING:
    from planish.stablehlo.importing import ModuleImporter

Known = Any
"""An array of integers and named sizes, of dtype object."""
_MOST: Final = 256
"""Elements of a shape, or of what one is computed from."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A call under way: what the arguments of the function are for the caller."""

    args: dict[HloValue, HloValue]
    caller: Frame | None

    def called(self, function: HloFunction, given: Any) -> Frame:
        """The frame of a function that is called from here."""
        return Frame(dict(zip(function.block.args, given, strict=False)), self)

    def resolve(self, value: HloValue) -> tuple[HloValue, Frame]:
        """An argument is what was given for it."""
        frame: Frame = self
        while value in frame.args and frame.caller is not None:
            value, frame = frame.args[value], frame.caller
        return value, frame


class KnownSizes:
    """Evaluates values on demand."""

    def __init__(self, importer: ModuleImporter) -> None:
        self.importer = importer
        self.given: dict[HloValue, TensorType] = {}

    def integers(self, value: HloValue, frame: Frame) -> list[DimLike] | None:
        """The integers of a value, if they are known."""
        known = self._find(value, frame, {})
        return None if known is None else list(known.reshape(-1))

    def _find(self, value: HloValue, frame: Frame, seen: dict[tuple[HloValue, int], Known]) -> Known | None:
        value, frame = frame.resolve(value)
        key = value, id(frame)
        if key not in seen:
            seen[key] = None
            seen[key] = self._evaluate(value, frame, seen)
        return seen[key]

    def _evaluate(
        self, value: HloValue, frame: Frame, seen: dict[tuple[HloValue, int], Known]
    ) -> Known | None:
        op = value.op
        if op is None or not isinstance(value.type, HloTensorType):
            return None
        if op.name == "func.call":
            function = self.importer.module.functions[op.attributes["callee"]]
            inner = frame.called(function, op.operands)
            return self._find(function.block.end.operands[value.index], inner, seen)
        if op.name in ("stablehlo.get_dimension_size", "arith.index_cast", "tensor.dim"):
            size = self._size(op, frame)
            return None if size is None else np.array(size, object)
        rule = _RULES.get(op.name.removeprefix("stablehlo.").removeprefix("chlo.broadcast_"))
        if rule is None:
            return None
        operands = [self._find(v, frame, seen) for v in op.operands]
        if any(x is None for x in operands):
            return None
        try:
            known = rule(op, value, *operands)
        except (ValueError, TypeError, ZeroDivisionError):
            return None
        return None if known is None or np.size(known) > _MOST else np.asarray(known, object)

    def _size(self, op: Operation, frame: Frame) -> DimLike | None:
        source, _ = frame.resolve(op.operands[0])
        axis = op.attributes.get("dimension", 0)
        known = self.given.get(source)
        if known is not None:
            return known.dims[axis]
        graph_value = self.importer.values.get(op.operands[0])
        if isinstance(graph_value, GraphValue):
            return graph_value.dims[axis]
        return source.type.dims[axis] if isinstance(source.type, HloTensorType) else None


def _constant(op: Operation, value: HloValue) -> Known | None:
    dense = op.attributes["value"]
    if not isinstance(dense, Dense) or dense.full().size > _MOST or dense.array.dtype.kind not in "iub":
        return None
    return np.array(dense.full().tolist(), object).reshape(dense.full().shape)


def _dims(value: HloValue) -> tuple[Any, ...]:
    return value.type.dims if isinstance(value.type, HloTensorType) else ()


def _broadcast(op: Operation, value: HloValue, x: Known) -> Known:
    dims: list[Any] = [1] * len(_dims(value))
    for axis, place in enumerate(op.attributes["broadcast_dimensions"]):
        dims[place] = x.shape[axis]
    return np.broadcast_to(x.reshape(dims), _dims(value))


def _slice(op: Operation, value: HloValue, x: Known) -> Known:
    a = op.attributes
    parts = zip(a["start_indices"], a["limit_indices"], a["strides"], strict=True)
    return x[tuple(slice(*part) for part in parts)]


def _compare(op: Operation, value: HloValue, x: Known, y: Known) -> Known:
    tests: dict[str, Callable[[Any, Any], Any]] = {
        "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b,
        "LE": lambda a, b: a <= b, "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
    }  # fmt: skip
    return np.vectorize(tests[op.attributes["comparison_direction"]], otypes=[object])(x, y)


def _each(function: Callable[[Any, Any], Any]) -> Callable[..., Known]:
    wide = np.vectorize(function, otypes=[object])
    return lambda op, value, x, y: wide(x, y)


def _divided(a: DimLike, b: DimLike) -> DimLike:
    if isinstance(a, Dim) or isinstance(b, Dim):
        return a // b  # sizes are not negative
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_RULES: Final[dict[str, Callable[..., Known | None]]] = {
    "constant": _constant,
    "reshape": lambda op, value, x: x.reshape([-1 if d is None else d for d in _dims(value)]),
    "convert": lambda op, value, x: x,
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "concatenate": lambda op, value, *xs: np.concatenate(xs, axis=op.attributes["dimension"]),
    "compare": _compare,
    "select": lambda op, value, p, x, y: np.where(p.astype(bool), x, y),
    "add": _each(lambda a, b: a + b),
    "subtract": _each(lambda a, b: a - b),
    "multiply": _each(lambda a, b: a * b),
    "divide": _each(_divided),
    "remainder": _each(lambda a, b: a - b * _divided(a, b)),
    "maximum": _each(lambda a, b: a if a >= b else b),
    "minimum": _each(lambda a, b: a if a <= b else b),
    "and": _each(lambda a, b: a & b),
    "or": _each(lambda a, b: a | b),
    "negate": lambda op, value, x: -x,
    "not": lambda op, value, x: np.vectorize(
        lambda a: (not a) if isinstance(a, bool) else ~a, otypes=[object]
    )(x),
    "sign": lambda op, value, x: np.vectorize(lambda a: (a > 0) - (a < 0), otypes=[object])(x),
}
