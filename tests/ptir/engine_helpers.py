"""Small programs and patterns that the engine's tests share."""

from __future__ import annotations

from bench.ptir_programs import ARGUMENTS, LITERALS, make
from planish import dtypes
from planish.ptir import ops
from planish.ptir.function import Function, Region, Value
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.pattern import FrozenPatternSet, OpRewritePattern, PatternSet
from planish.ptir.rewrite.prelude import BinaryView, UnaryView, is_constant, is_one, is_zero
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import TensorType, tensor
from planish.ptir.verify import problems

I64 = tensor("i64")
F32 = tensor("f32", (4,))


def const(region: Region, value: int | float, type: TensorType = I64) -> Value:
    literal = Literal.full(type.dtype, type.shape, value)
    return region.append(ops.constant, (), ConstantAttrs(literal)).result


def build(kind: str, size: int, seed: int = 0) -> Function:
    """The benchmark program of that kind."""
    steps, last = make(kind, size, seed)
    function = Function("f", [I64] * ARGUMENTS)
    body = function.body
    literals = [
        body.append(ops.constant, (), ConstantAttrs(Literal.full(dtypes.int64, (), i))).result
        for i in LITERALS
    ]
    values: list[Value] = []
    scope = {"a": function.params, "c": literals, "v": values}
    table = {"add": ops.add, "mul": ops.mul}
    for step in steps:
        operands = [scope[kind][index] for kind, index in (step.lhs, step.rhs)]
        values.append(body.append(table[step.op], operands, types=(I64,)).results[0])
    body.set_results([values[last]])
    return function


def names(function: Function) -> list[str]:
    return [inst.op.name for inst in function]


def assert_valid(function: Function) -> None:
    assert [str(problem) for problem in problems(function)] == []


class Counter(Listener):
    """Counts events."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.reasons: list[str] = []

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1

    def inserted(self, inst):
        self._count("inserted")

    def erased(self, inst, region):
        self._count("erased")

    def modified(self, inst):
        self._count("modified")

    def replaced(self, old, new):
        self._count("replaced")

    def attempt(self, pattern, root):
        self._count("attempt")

    def succeeded(self, pattern, root):
        self._count("succeeded")

    def failed(self, pattern, root):
        self._count("failed")

    def reason(self, pattern, inst, text):
        self.reasons.append(text)

    def folded(self, root, values):
        self._count("folded")

    def eliminated(self, inst):
        self._count("eliminated")


class DropAddZero(OpRewritePattern[BinaryView]):
    """x + 0 -> x."""

    roots = (ops.add,)
    operands = (None, ops.constant)
    radius = 1

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not is_zero(op.rhs):
            return rw.fail(op.inst, "the right operand is not zero")
        rw.replace_op(op.inst, op.lhs)
        return True


class DropMulOne(OpRewritePattern[BinaryView]):
    """x * 1 -> x."""

    roots = (ops.mul,)
    operands = (None, ops.constant)
    radius = 1

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if not is_one(op.rhs):
            return False
        rw.replace_op(op.inst, op.lhs)
        return True


class PutConstantRight(OpRewritePattern[BinaryView]):
    """c + x -> x + c."""

    roots = (ops.add, ops.mul)
    operands = (ops.constant, None)
    radius = 1

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        if is_constant(op.rhs):
            return False
        rw.set_operands(op.inst, (op.rhs, op.lhs))
        return True


class CombineConstants(OpRewritePattern[BinaryView]):
    """(x + c) + d -> x + (c + d)."""

    roots = (ops.add, ops.mul)
    operands = ((ops.add, ops.mul), ops.constant)
    radius = 2

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        inner = BinaryView.of(op.lhs)
        if inner is None or inner.op is not op.op or not is_constant(inner.rhs):
            return rw.fail(op.inst, "the left operand is not x + c")
        rw.replace_with(op.inst, op.op, (inner.lhs, rw.emit(op.op, inner.rhs, op.rhs)))
        return True


class DropDoubleNeg(OpRewritePattern[UnaryView]):
    """neg(neg(x)) -> x."""

    roots = (ops.neg,)
    operands = (ops.neg,)

    def match_and_rewrite(self, op: UnaryView, rw: ProgramRewriter) -> bool:
        inner = UnaryView.of(op.source)
        if inner is None:
            return False
        rw.replace_op(op.inst, inner.source)
        return True


def arithmetic() -> FrozenPatternSet:
    return PatternSet([DropAddZero, DropMulOne, PutConstantRight, CombineConstants, DropDoubleNeg]).freeze()
