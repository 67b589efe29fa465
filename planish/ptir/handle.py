"""The handle a user holds while building a graph: operators and elementwise methods.

`GraphValue` in `planish.ptir.graph_value` adds the methods that take attributes; here is what all
handles share. Methods emit exactly one op each and return handles; a Python number beside a handle becomes a
constant of the handle's dtype and shape. Tensors are never promoted or broadcast silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from planish.dtypes import DType
from planish.errors import GraphError, Location
from planish.ptir import ops
from planish.ptir.function import Region, Value
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.types import DimLike, TensorType

if TYPE_CHECKING:
    from planish.ptir.builder import Graph
    from planish.ptir.graph_value import GraphValue

Number: TypeAlias = bool | int | float | complex
Operand: TypeAlias = "ElementwiseMethods | Number"


class ElementwiseMethods:
    """A value of a graph under construction: what it is, and everything that works element by element."""

    __slots__ = ("graph", "value")

    graph: Graph
    value: Value

    def __init__(self, graph: Graph, value: Value) -> None:
        self.graph = graph
        self.value = value

    # --- what it is ---

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    @property
    def dims(self) -> tuple[DimLike, ...]:
        return self.value.type.dims

    @property
    def rank(self) -> int:
        return len(self.value.type.dims)

    @property
    def id(self) -> int:
        return self.value.id

    def named(self, name: str) -> GraphValue:
        """This value under a name that printing shows."""
        self.value.name = name
        return self.graph.wrap(self.value)

    def __repr__(self) -> str:
        name = f" {self.value.name}" if self.value.name else ""
        return f"<value{name} %{self.value.id}: {self.value.type}>"

    def __bool__(self) -> NoReturn:
        raise GraphError(
            f"{self!r} has no truth value while the graph is being built",
            location=Location.caller(),
            remedy="use select for elements and graph.cond for control flow",
        )

    def __iter__(self) -> NoReturn:
        raise GraphError(f"{self!r} cannot be iterated over", location=Location.caller())

    # --- emitting ---

    def _emit(self, op: OpDef, *others: Operand, attrs: Attrs = NO_ATTRS) -> GraphValue:
        return self.graph.emit(op, (self, *(self._lift(other) for other in others)), attrs)

    def _emit_many(
        self,
        op: OpDef,
        others: Sequence[ElementwiseMethods] = (),
        attrs: Attrs = NO_ATTRS,
        regions: Sequence[Region] = (),
    ) -> tuple[GraphValue, ...]:
        return self.graph.emit_many(op, (self, *others), attrs, regions)

    def _lift(self, other: Operand) -> ElementwiseMethods:
        if isinstance(other, ElementwiseMethods):
            return other
        return self.graph.full(self.dims, other, self.dtype)

    def _reversed(self, op: OpDef, other: Operand) -> GraphValue:
        return self.graph.emit(op, (self._lift(other), self))

    # --- unary ---

    def neg(self) -> GraphValue:
        return self._emit(ops.neg)

    def abs(self) -> GraphValue:
        return self._emit(ops.abs)

    def sign(self) -> GraphValue:
        return self._emit(ops.sign)

    def reciprocal(self) -> GraphValue:
        return self._emit(ops.reciprocal)

    def sqrt(self) -> GraphValue:
        return self._emit(ops.sqrt)

    def rsqrt(self) -> GraphValue:
        return self._emit(ops.rsqrt)

    def cbrt(self) -> GraphValue:
        return self._emit(ops.cbrt)

    def floor(self) -> GraphValue:
        return self._emit(ops.floor)

    def ceil(self) -> GraphValue:
        return self._emit(ops.ceil)

    def round(self) -> GraphValue:
        return self._emit(ops.round)

    def trunc(self) -> GraphValue:
        return self._emit(ops.trunc)

    def exp(self) -> GraphValue:
        return self._emit(ops.exp)

    def exp2(self) -> GraphValue:
        return self._emit(ops.exp2)

    def expm1(self) -> GraphValue:
        return self._emit(ops.expm1)

    def log(self) -> GraphValue:
        return self._emit(ops.log)

    def log2(self) -> GraphValue:
        return self._emit(ops.log2)

    def log1p(self) -> GraphValue:
        return self._emit(ops.log1p)

    def sin(self) -> GraphValue:
        return self._emit(ops.sin)

    def cos(self) -> GraphValue:
        return self._emit(ops.cos)

    def tan(self) -> GraphValue:
        return self._emit(ops.tan)

    def asin(self) -> GraphValue:
        return self._emit(ops.asin)

    def acos(self) -> GraphValue:
        return self._emit(ops.acos)

    def atan(self) -> GraphValue:
        return self._emit(ops.atan)

    def sinh(self) -> GraphValue:
        return self._emit(ops.sinh)

    def cosh(self) -> GraphValue:
        return self._emit(ops.cosh)

    def tanh(self) -> GraphValue:
        return self._emit(ops.tanh)

    def asinh(self) -> GraphValue:
        return self._emit(ops.asinh)

    def acosh(self) -> GraphValue:
        return self._emit(ops.acosh)

    def atanh(self) -> GraphValue:
        return self._emit(ops.atanh)

    def erf(self) -> GraphValue:
        return self._emit(ops.erf)

    def erfc(self) -> GraphValue:
        return self._emit(ops.erfc)

    def erfinv(self) -> GraphValue:
        return self._emit(ops.erfinv)

    def lgamma(self) -> GraphValue:
        return self._emit(ops.lgamma)

    def digamma(self) -> GraphValue:
        return self._emit(ops.digamma)

    def not_(self) -> GraphValue:
        return self._emit(ops.not_)

    def popcount(self) -> GraphValue:
        return self._emit(ops.popcount)

    def clz(self) -> GraphValue:
        return self._emit(ops.clz)

    def is_nan(self) -> GraphValue:
        return self._emit(ops.is_nan)

    def is_inf(self) -> GraphValue:
        return self._emit(ops.is_inf)

    def is_finite(self) -> GraphValue:
        return self._emit(ops.is_finite)

    def conj(self) -> GraphValue:
        return self._emit(ops.conj)

    def real(self) -> GraphValue:
        return self._emit(ops.real)

    def imag(self) -> GraphValue:
        return self._emit(ops.imag)

    # --- binary ---

    def add(self, other: Operand) -> GraphValue:
        return self._emit(ops.add, other)

    def sub(self, other: Operand) -> GraphValue:
        return self._emit(ops.sub, other)

    def mul(self, other: Operand) -> GraphValue:
        return self._emit(ops.mul, other)

    def div(self, other: Operand) -> GraphValue:
        return self._emit(ops.div, other)

    def floor_div(self, other: Operand) -> GraphValue:
        return self._emit(ops.floor_div, other)

    def trunc_div(self, other: Operand) -> GraphValue:
        return self._emit(ops.trunc_div, other)

    def floor_mod(self, other: Operand) -> GraphValue:
        return self._emit(ops.floor_mod, other)

    def trunc_mod(self, other: Operand) -> GraphValue:
        return self._emit(ops.trunc_mod, other)

    def pow(self, other: Operand) -> GraphValue:
        return self._emit(ops.pow, other)

    def max(self, other: Operand) -> GraphValue:
        return self._emit(ops.max, other)

    def min(self, other: Operand) -> GraphValue:
        return self._emit(ops.min, other)

    def atan2(self, other: Operand) -> GraphValue:
        return self._emit(ops.atan2, other)

    def hypot(self, other: Operand) -> GraphValue:
        return self._emit(ops.hypot, other)

    def copysign(self, other: Operand) -> GraphValue:
        return self._emit(ops.copysign, other)

    def nextafter(self, other: Operand) -> GraphValue:
        return self._emit(ops.nextafter, other)

    def complex(self, imag: Operand) -> GraphValue:
        return self._emit(ops.complex, imag)

    def and_(self, other: Operand) -> GraphValue:
        return self._emit(ops.and_, other)

    def or_(self, other: Operand) -> GraphValue:
        return self._emit(ops.or_, other)

    def xor(self, other: Operand) -> GraphValue:
        return self._emit(ops.xor, other)

    def shl(self, other: Operand) -> GraphValue:
        return self._emit(ops.shl, other)

    def shr_logical(self, other: Operand) -> GraphValue:
        return self._emit(ops.shr_logical, other)

    def shr_arithmetic(self, other: Operand) -> GraphValue:
        return self._emit(ops.shr_arithmetic, other)

    # --- comparisons and choice ---

    def eq(self, other: Operand) -> GraphValue:
        return self._emit(ops.eq, other)

    def ne(self, other: Operand) -> GraphValue:
        return self._emit(ops.ne, other)

    def lt(self, other: Operand) -> GraphValue:
        return self._emit(ops.lt, other)

    def le(self, other: Operand) -> GraphValue:
        return self._emit(ops.le, other)

    def gt(self, other: Operand) -> GraphValue:
        return self._emit(ops.gt, other)

    def ge(self, other: Operand) -> GraphValue:
        return self._emit(ops.ge, other)

    def select(self, chosen: ElementwiseMethods, other: Operand) -> GraphValue:
        """`chosen` where this predicate is True, else `other`."""
        return self.graph.emit(ops.select, (self, chosen, chosen._lift(other)))

    # --- small composites ---

    def square(self) -> GraphValue:
        return self.mul(self)

    def sigmoid(self) -> GraphValue:
        """1 / (1 + exp(-x))."""
        return self.neg().exp().add(1).reciprocal()

    def clamp(self, low: Operand, high: Operand) -> GraphValue:
        """min(max(x, low), high): NaN stays NaN."""
        return self.max(low).min(high)

    # --- operators ---

    __neg__ = neg
    __abs__ = abs
    __invert__ = not_
    __add__ = add
    __sub__ = sub
    __mul__ = mul
    __truediv__ = div
    __floordiv__ = floor_div
    __mod__ = floor_mod
    __pow__ = pow
    __and__ = and_
    __or__ = or_
    __xor__ = xor
    __lshift__ = shl
    __lt__ = lt
    __le__ = le
    __gt__ = gt
    __ge__ = ge

    def __rshift__(self, other: Operand) -> GraphValue:
        """Arithmetic for signed, logical for unsigned integers, as in NumPy."""
        return self._emit(ops.shr_arithmetic if self.dtype.is_signed else ops.shr_logical, other)

    def __radd__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.add, other)

    def __rsub__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.sub, other)

    def __rmul__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.mul, other)

    def __rtruediv__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.div, other)

    def __rfloordiv__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.floor_div, other)

    def __rmod__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.floor_mod, other)

    def __rpow__(self, other: Operand) -> GraphValue:
        return self._reversed(ops.pow, other)
