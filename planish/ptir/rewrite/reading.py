"""Reading through the rewriter: the names that pattern authors know; the attributes they return are as good."""

from __future__ import annotations

from planish.ptir.function import Inst, Value
from planish.ptir.ops.definition import Attrs, OpDef, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.types import TensorType


class Reading:
    """What a pattern may ask of the function it rewrites."""

    __slots__ = ()

    def op(self, inst: Inst) -> OpDef:
        return inst.op

    def attrs(self, inst: Inst) -> Attrs:
        return inst.attrs

    def operands(self, inst: Inst) -> tuple[Value, ...]:
        return inst.operands

    def values_of(self, inst: Inst) -> tuple[Value, ...]:
        """All results."""
        return inst.results

    def value_of(self, inst: Inst) -> Value:
        """The only result."""
        return inst.result

    def type_of(self, value: Value) -> TensorType:
        return value.type

    def inst_of(self, value: Value) -> Inst | None:
        """The instruction that computes `value`; None for a parameter."""
        return value.def_inst

    def users_of(self, value: Value) -> list[Inst]:
        """Each instruction that uses `value` once, in the order they came; ends of regions included."""
        return list(value.users)

    def literal_of(self, value: Value) -> Literal | None:
        """The data of a constant; None if `value` is not one."""
        return value.literal

    @staticmethod
    def op_key(subject: Inst | OpDef) -> OpKey:
        """The family an op belongs to."""
        return subject.op.key if isinstance(subject, Inst) else subject.key

    @staticmethod
    def dominates(value: Value, at: Inst) -> bool:
        """Whether `value` may be used by an instruction that stands where `at` does."""
        home = value.region
        inst: Inst | None = at
        while inst is not None and inst.parent is not home:
            inst = None if inst.parent is None else inst.parent.owner
        if home is None or inst is None:
            return False
        definition = value.def_inst
        return definition is None or definition.order < inst.order
