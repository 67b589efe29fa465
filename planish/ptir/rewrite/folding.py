"""Folding: what one instruction simplifies to, given the constants among its operands.

An op's own `fold` is asked where its `fold_when` says it could answer; otherwise an op whose operands are all
constant is evaluated. Results larger than a limit are not materialised, unless all their elements are alike.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from planish.errors import InternalError
from planish.ptir.function import Inst
from planish.ptir.ops.definition import ConstantAttrs, FoldResult, FoldWhen, OpDef
from planish.ptir.ops.literal import Array, Literal
from planish.ptir.types import TensorType

__all__ = ["MAX_FOLDED_ELEMENTS", "FoldResult", "Folder"]

MAX_FOLDED_ELEMENTS: Final = 1 << 16
_MAX_GROWN: Final = 1 << 8
"""The largest result that may have more elements than all operands: one number per channel is not to be read from memory for each pixel."""
_NOTHING: Final = FoldResult.NOTHING


class Folder:
    """Folds instructions; holds nothing but the size limit."""

    __slots__ = ("max_elements",)

    def __init__(self, max_elements: int = MAX_FOLDED_ELEMENTS) -> None:
        self.max_elements = max_elements

    def fold_integers(self, inst: Inst) -> Literal | None:
        """Elementwise integer arithmetic on splats, in Python ints: far cheaper than a round trip over NumPy."""
        compute = inst.op.python_int
        if compute is None:
            return None
        type_ = inst.results[0].type
        dtype = type_.dtype
        if not dtype.is_int or type_.quant is not None:
            return None
        items: list[int] = []
        shape: tuple[int, ...] = ()
        for value in inst.operands:
            definition = value.def_inst
            if definition is None or type(definition.attrs) is not ConstantAttrs:
                return None
            literal = definition.attrs.literal
            item = literal.item
            if item.__class__ is not int or literal.dtype is not dtype:
                return None
            shape = literal.shape
            items.append(item)
        return Literal.of_item(dtype, shape, dtype.wrap(compute(*items)))

    def try_fold(self, inst: Inst) -> FoldResult:
        """What the results of `inst` could be replaced by; changes nothing."""
        folded = self.fold_integers(inst)
        if folded is not None:
            return FoldResult(folded)
        op = inst.op
        constants: list[Literal | None] = []
        missing = 0
        for value in inst.operands:
            definition = value.def_inst
            if definition is not None and type(definition.attrs) is ConstantAttrs:
                constants.append(definition.attrs.literal)
            else:
                constants.append(None)
                missing += 1
        if op.fold is not None and (
            op.fold_when is FoldWhen.ALWAYS
            or not missing
            or (op.fold_when is FoldWhen.ANY_CONSTANT and missing < len(constants))
        ):
            result = op.fold(inst, constants)
            if result.parts:
                self._check(inst, result)
                return result
        if missing or not op.foldable or op.evaluate is None or inst.regions:
            return _NOTHING
        return self._evaluate(inst, [c for c in constants if c is not None])

    def _evaluate(self, inst: Inst, constants: list[Literal]) -> FoldResult:
        op = inst.op
        if op.evaluate is None:
            return _NOTHING
        types = [value.type for value in inst.results]
        if any(type.quant is not None or not type.is_static for type in types):
            return _NOTHING
        splat = op.elementwise and all(constant.splat for constant in constants)
        if splat:
            scalars = [TensorType(type.dtype) for type in types]
            arrays = op.evaluate([constant.data for constant in constants], inst.attrs, scalars)
            return FoldResult(
                *[
                    _literal(op, array, scalar).with_shape(type.shape)
                    for array, scalar, type in zip(arrays, scalars, types, strict=True)
                ]
            )
        given = sum(math.prod(constant.shape) for constant in constants)
        most = min(self.max_elements, max(given, _MAX_GROWN)) if constants else self.max_elements
        if any(math.prod(type.shape) > most for type in types):
            return _NOTHING
        arrays = op.evaluate([constant.array() for constant in constants], inst.attrs, types)
        return FoldResult(*[_literal(op, array, type) for array, type in zip(arrays, types, strict=True)])

    def _check(self, inst: Inst, result: FoldResult) -> None:
        if len(result.parts) != len(inst.results):
            raise InternalError(
                f"folding {inst!r} gave {len(result.parts)} results for {len(inst.results)}", op=inst.op.name
            )
        for part, value in zip(result.parts, inst.results, strict=True):
            if part is value:
                raise InternalError(f"folding {inst!r} gave its own result", op=inst.op.name)
            if isinstance(part, Literal) and (part.dtype, part.shape) != (value.type.dtype, value.type.dims):
                raise InternalError(f"folding {inst!r} gave {part!r} for {value.type}", op=inst.op.name)


def _literal(op: OpDef, array: Array, type: TensorType) -> Literal:
    array = np.asarray(array)
    if array.shape != type.dims or array.dtype != type.dtype.numpy:
        raise InternalError(
            f"evaluating {op.name} gave {array.dtype}{list(array.shape)} where {type} was due", op=op.name
        )
    return Literal(array, dtype=type.dtype)
