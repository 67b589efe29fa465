"""Views: an instruction seen as a particular op, with names for its operands and attributes.

A view is what a typed pattern is handed, and what its signature names as its root. `InstView.of(value)` goes from
an operand to the view of what defines it, or None if that is another op:

    inner = TransposeView.of(op.source)
    if inner is None:
        return False
"""

from __future__ import annotations

from typing import Generic, TypeVar, cast

from planish.dtypes import DType
from planish.ptir import ops
from planish.ptir.function import Region, Value
from planish.ptir.ops.definition import Attrs, ConstantAttrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.pattern import InstView
from planish.ptir.types import DimLike, TensorType

__all__ = [
    "ArgReduceView", "AttrsView", "BinaryView", "BitcastView", "BroadcastView", "CallView", "CastView",
    "CompareView", "ConcatView", "CondView", "ConstantView", "ConvolutionView", "CumulativeView",
    "DequantizeView", "DotGeneralView", "DynamicSliceView", "DynamicUpdateSliceView", "ElementwiseView",
    "GatherView", "IotaView", "OpView", "PadView", "QuantizeView", "ReduceView", "ReduceWindowView",
    "ReshapeView", "ReverseView", "ScanView", "ScatterView", "SelectView", "SliceView", "SourceView",
    "TransposeView", "UnaryView", "WhileView",
]  # fmt: skip

A = TypeVar("A", bound=Attrs)


class Operand:
    """The operand at a place, as an attribute of a view."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def __get__(self, view: InstView, owner: object) -> Value:
        return view.inst.operands[self.place]


class Operands(Operand):
    """The operands from a place on."""

    __slots__ = ()

    def __get__(self, view: InstView, owner: object) -> tuple[Value, ...]:  # type: ignore[override]
        return view.inst.operands[self.place :]


class RegionAt(Operand):
    """The region at a place."""

    __slots__ = ()

    def __get__(self, view: InstView, owner: object) -> Region:  # type: ignore[override]
        return view.inst.regions[self.place]


Self = TypeVar("Self", bound="OpView")


class OpView(InstView):
    """Any instruction: what all views share."""

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

    @property
    def attrs(self) -> A:
        return cast("A", self.inst.attrs)


class SourceView(AttrsView[A]):
    """An op that transforms one tensor, its first operand."""

    source = Operand(0)


class ConstantView(AttrsView[ConstantAttrs], roots=(OpKey.CONSTANT,)):
    """`constant()`: tensor data."""

    @property
    def literal(self) -> Literal:
        return self.attrs.literal


class IotaView(AttrsView[ops.IotaAttrs], roots=(OpKey.IOTA,)):
    """`iota()`: 0, 1, 2 … along an axis."""


class UnaryView(SourceView[Attrs], roots=(OpKey.ELEMENTWISE_UNARY,)):
    """`f(source)`, element by element."""


class BinaryView(OpView, roots=(OpKey.ELEMENTWISE_BINARY,)):
    """`f(lhs, rhs)`, element by element."""

    @property
    def lhs(self) -> Value:
        return self.inst.operands[0]

    @property
    def rhs(self) -> Value:
        return self.inst.operands[1]


class CompareView(BinaryView, roots=(OpKey.COMPARE,)):
    """`lhs < rhs and its like`."""


class ElementwiseView(
    OpView,
    roots=(
        OpKey.ELEMENTWISE_UNARY, OpKey.ELEMENTWISE_BINARY, OpKey.ELEMENTWISE_TERNARY, OpKey.COMPARE,
        OpKey.SELECT, OpKey.CAST,
    ),
):  # fmt: skip
    """Any op that works element by element."""


class SelectView(OpView, roots=(OpKey.SELECT,)):
    """`select(predicate, on_true, on_false)`."""

    predicate = Operand(0)
    on_true = Operand(1)
    on_false = Operand(2)


class CastView(SourceView[ops.CastAttrs], roots=(OpKey.CAST,)):
    """`cast(source)` to another dtype."""


class BitcastView(SourceView[ops.BitcastAttrs], roots=(OpKey.BITCAST,)):
    """`bitcast(source)`: the same bits as another dtype."""


class QuantizeView(SourceView[ops.QuantizeAttrs], roots=(OpKey.QUANTIZE,)):
    """`quantize(source)`."""


class DequantizeView(SourceView[ops.DequantizeAttrs], roots=(OpKey.DEQUANTIZE,)):
    """`dequantize(source)`."""


class ReshapeView(SourceView[ops.ReshapeAttrs], roots=(OpKey.RESHAPE,)):
    """`reshape(source, dims)`."""


class TransposeView(SourceView[ops.TransposeAttrs], roots=(OpKey.TRANSPOSE,)):
    """`transpose(source, perm)`."""

    @property
    def perm(self) -> tuple[int, ...]:
        return self.attrs.perm


class BroadcastView(SourceView[ops.BroadcastToAttrs], roots=(OpKey.BROADCAST_TO,)):
    """`broadcast_to(source, dims)`."""


class SliceView(SourceView[ops.SliceAttrs], roots=(OpKey.SLICE,)):
    """`slice(source, starts, limits, strides)`."""


class ReverseView(SourceView[ops.ReverseAttrs], roots=(OpKey.REVERSE,)):
    """`reverse(source, axes)`."""


class PadView(SourceView[ops.PadAttrs], roots=(OpKey.PAD,)):
    """`pad(source, padding, low, high, interior)`."""

    padding = Operand(1)


class ConcatView(AttrsView[ops.ConcatAttrs], roots=(OpKey.CONCAT,)):
    """`concat(parts…, axis)`."""

    parts = Operands(0)


class GatherView(SourceView[ops.GatherAttrs], roots=(OpKey.GATHER,)):
    """`gather(source, indices…)`, an array of indices for each of the axes."""

    indices = Operands(1)


class ScatterView(SourceView[ops.ScatterAttrs], roots=(OpKey.SCATTER,)):
    """`scatter(source, updates, indices…)`, an array of indices for each of the axes."""

    updates = Operand(1)
    indices = Operands(2)


class DynamicSliceView(SourceView[ops.DynamicSliceAttrs], roots=(OpKey.DYNAMIC_SLICE,)):
    """`dynamic_slice(source, starts…)`."""

    starts = Operands(1)


class DynamicUpdateSliceView(SourceView[Attrs], roots=(OpKey.DYNAMIC_UPDATE_SLICE,)):
    """`dynamic_update_slice(source, update, starts…)`."""

    update = Operand(1)
    starts = Operands(2)


class ReduceView(SourceView[ops.ReduceAttrs], roots=(OpKey.REDUCE,)):
    """`reduce_sum(source, axes)` and its like."""


class ArgReduceView(SourceView[ops.ArgReduceAttrs], roots=(OpKey.ARG_REDUCE,)):
    """`argmax(source, axis)`, argmin(source, axis)."""


class CumulativeView(SourceView[ops.CumulativeAttrs], roots=(OpKey.CUMULATIVE,)):
    """`cumsum(source, axis)` and its like."""


class ReduceWindowView(SourceView[ops.ReduceWindowAttrs], roots=(OpKey.REDUCE_WINDOW,)):
    """`reduce_window(source)`."""


class DotGeneralView(AttrsView[ops.DotGeneralAttrs], roots=(OpKey.DOT_GENERAL,)):
    """`dot_general(lhs, rhs)`."""

    lhs = Operand(0)
    rhs = Operand(1)


class ConvolutionView(AttrsView[ops.ConvolutionAttrs], roots=(OpKey.CONVOLUTION,)):
    """`convolution(lhs, rhs)`."""

    lhs = Operand(0)
    rhs = Operand(1)


class CondView(OpView, roots=(OpKey.COND,)):
    """`cond(predicate, …)` with a region for each case."""

    predicate = Operand(0)


class WhileView(OpView, roots=(OpKey.WHILE,)):
    """`while(carries…)` with regions for condition and body."""

    condition = RegionAt(0)
    body = RegionAt(1)


class ScanView(AttrsView[ops.ScanAttrs], roots=(OpKey.SCAN,)):
    """`scan(carries…, inputs…)` with a region for one step."""

    body = RegionAt(0)


class CallView(AttrsView[ops.CallAttrs], roots=(OpKey.CALL,)):
    """`call(operands…)` of another function."""
