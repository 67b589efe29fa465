"""Views: an instruction seen as a particular op, with names for its operands and attributes.

A view is what a typed pattern is handed, and what its signature names as its root. `View.of(value)` goes from
an operand to the view of what defines it, or None if that is another op:

    inner = TransposeView.of(op.source)
    if inner is None:
        return False
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar, cast

from planish.dtypes import DType
from planish.ptir.function import Region, Value
from planish.ptir.ops.contract import ConvolutionAttrs, DotGeneralAttrs
from planish.ptir.ops.control import CallAttrs, ScanAttrs
from planish.ptir.ops.convert import BitcastAttrs, CastAttrs, DequantizeAttrs, QuantizeAttrs
from planish.ptir.ops.definition import Attrs, ConstantAttrs, OpDef, OpKey
from planish.ptir.ops.indexing import DynamicSliceAttrs, GatherAttrs, IotaAttrs, ScatterAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.ops.movement import (
    BroadcastToAttrs,
    ConcatAttrs,
    PadAttrs,
    ReshapeAttrs,
    ReverseAttrs,
    SliceAttrs,
    TransposeAttrs,
)
from planish.ptir.ops.reduce import ArgReduceAttrs, CumulativeAttrs, ReduceAttrs, ReduceWindowAttrs
from planish.ptir.rewrite.pattern import Root, View
from planish.ptir.types import DimLike, TensorType

A = TypeVar("A", bound=Attrs)
Self = TypeVar("Self", bound="OpView")


class OpView(View):
    """Any instruction: what all views share."""

    __slots__ = ()

    @classmethod
    def of(cls: type[Self], value: Value) -> Self | None:
        """The view of the instruction that defines `value`, if it is one of this view's ops."""
        inst = value.def_inst
        if inst is None:
            return None
        op = inst.op
        for root in cls.roots:
            if root is op or root is op.key:
                return cls(inst)
        return None

    @property
    def op(self) -> OpDef:
        return self.inst.op

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.inst.operands

    @property
    def result(self) -> Value:
        return self.inst.results[0]

    @property
    def results(self) -> tuple[Value, ...]:
        return self.inst.results

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.inst.results[0].type

    @property
    def dtype(self) -> DType:
        return self.inst.results[0].type.dtype

    @property
    def dims(self) -> tuple[DimLike, ...]:
        return self.inst.results[0].type.dims

    @property
    def regions(self) -> tuple[Region, ...]:
        return self.inst.regions


class AttrsView(OpView, Generic[A]):
    """A view with typed attributes."""

    __slots__ = ()

    @property
    def attrs(self) -> A:
        return cast("A", self.inst.attrs)


class SourceView(AttrsView[A]):
    """An op that transforms one tensor, its first operand."""

    __slots__ = ()

    @property
    def source(self) -> Value:
        return self.inst.operands[0]


class ConstantView(AttrsView[ConstantAttrs]):
    """`constant()`: tensor data."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CONSTANT,)

    @property
    def literal(self) -> Literal:
        return self.attrs.literal


class IotaView(AttrsView[IotaAttrs]):
    """`iota()`: 0, 1, 2 … along an axis."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.IOTA,)


class UnaryView(SourceView[Attrs]):
    """`f(source)`, element by element."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.ELEMENTWISE_UNARY,)


class BinaryView(OpView):
    """`f(lhs, rhs)`, element by element."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.ELEMENTWISE_BINARY,)

    @property
    def lhs(self) -> Value:
        return self.inst.operands[0]

    @property
    def rhs(self) -> Value:
        return self.inst.operands[1]


class CompareView(BinaryView):
    """`lhs < rhs and its like`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.COMPARE,)


class ElementwiseView(OpView):
    """Any op that works element by element."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (
        OpKey.ELEMENTWISE_UNARY,
        OpKey.ELEMENTWISE_BINARY,
        OpKey.ELEMENTWISE_TERNARY,
        OpKey.COMPARE,
        OpKey.SELECT,
        OpKey.CAST,
    )


class SelectView(OpView):
    """`select(predicate, on_true, on_false)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.SELECT,)

    @property
    def predicate(self) -> Value:
        return self.inst.operands[0]

    @property
    def on_true(self) -> Value:
        return self.inst.operands[1]

    @property
    def on_false(self) -> Value:
        return self.inst.operands[2]


class CastView(SourceView[CastAttrs]):
    """`cast(source)` to another dtype."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CAST,)


class BitcastView(SourceView[BitcastAttrs]):
    """`bitcast(source)`: the same bits as another dtype."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.BITCAST,)


class QuantizeView(SourceView[QuantizeAttrs]):
    """`quantize(source)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.QUANTIZE,)


class DequantizeView(SourceView[DequantizeAttrs]):
    """`dequantize(source)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DEQUANTIZE,)


class ReshapeView(SourceView[ReshapeAttrs]):
    """`reshape(source, dims)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.RESHAPE,)


class TransposeView(SourceView[TransposeAttrs]):
    """`transpose(source, perm)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.TRANSPOSE,)

    @property
    def perm(self) -> tuple[int, ...]:
        return self.attrs.perm


class BroadcastView(SourceView[BroadcastToAttrs]):
    """`broadcast_to(source, dims)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.BROADCAST_TO,)


class SliceView(SourceView[SliceAttrs]):
    """`slice(source, starts, limits, strides)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.SLICE,)


class ReverseView(SourceView[ReverseAttrs]):
    """`reverse(source, axes)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.REVERSE,)


class PadView(SourceView[PadAttrs]):
    """`pad(source, padding, low, high, interior)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.PAD,)

    @property
    def padding(self) -> Value:
        """The scalar that fills."""
        return self.inst.operands[1]


class ConcatView(AttrsView[ConcatAttrs]):
    """`concat(parts…, axis)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CONCAT,)

    @property
    def parts(self) -> tuple[Value, ...]:
        return self.inst.operands


class GatherView(SourceView[GatherAttrs]):
    """`gather(source, indices…)`, an array of indices for each of the axes."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.GATHER,)

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.inst.operands[1:]


class ScatterView(SourceView[ScatterAttrs]):
    """`scatter(source, updates, indices…)`, an array of indices for each of the axes."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.SCATTER,)

    @property
    def updates(self) -> Value:
        return self.inst.operands[1]

    @property
    def indices(self) -> tuple[Value, ...]:
        return self.inst.operands[2:]


class DynamicSliceView(SourceView[DynamicSliceAttrs]):
    """`dynamic_slice(source, starts…)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DYNAMIC_SLICE,)

    @property
    def starts(self) -> tuple[Value, ...]:
        return self.inst.operands[1:]


class DynamicUpdateSliceView(SourceView[Attrs]):
    """`dynamic_update_slice(source, update, starts…)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DYNAMIC_UPDATE_SLICE,)

    @property
    def update(self) -> Value:
        return self.inst.operands[1]

    @property
    def starts(self) -> tuple[Value, ...]:
        return self.inst.operands[2:]


class ReduceView(SourceView[ReduceAttrs]):
    """`reduce_sum(source, axes)` and its like."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.REDUCE,)


class ArgReduceView(SourceView[ArgReduceAttrs]):
    """`argmax(source, axis)`, argmin(source, axis)."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.ARG_REDUCE,)


class CumulativeView(SourceView[CumulativeAttrs]):
    """`cumsum(source, axis)` and its like."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CUMULATIVE,)


class ReduceWindowView(SourceView[ReduceWindowAttrs]):
    """`reduce_window(source)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.REDUCE_WINDOW,)


class DotGeneralView(AttrsView[DotGeneralAttrs]):
    """`dot_general(lhs, rhs)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.DOT_GENERAL,)

    @property
    def lhs(self) -> Value:
        return self.inst.operands[0]

    @property
    def rhs(self) -> Value:
        return self.inst.operands[1]


class ConvolutionView(AttrsView[ConvolutionAttrs]):
    """`convolution(lhs, rhs)`."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CONVOLUTION,)

    @property
    def lhs(self) -> Value:
        return self.inst.operands[0]

    @property
    def rhs(self) -> Value:
        return self.inst.operands[1]


class CondView(OpView):
    """`cond(predicate, …)` with a region for each case."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.COND,)

    @property
    def predicate(self) -> Value:
        return self.inst.operands[0]


class WhileView(OpView):
    """`while(carries…)` with regions for condition and body."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.WHILE,)

    @property
    def condition(self) -> Region:
        return self.inst.regions[0]

    @property
    def body(self) -> Region:
        return self.inst.regions[1]


class ScanView(AttrsView[ScanAttrs]):
    """`scan(carries…, inputs…)` with a region for one step."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.SCAN,)

    @property
    def body(self) -> Region:
        return self.inst.regions[0]


class CallView(AttrsView[CallAttrs]):
    """`call(operands…)` of another function."""

    __slots__ = ()
    roots: ClassVar[tuple[Root, ...]] = (OpKey.CALL,)
