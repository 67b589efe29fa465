"""The handle a user holds while building a graph: operators and elementwise methods.

`GraphValue` in `planish.ptir.graph_value` adds the methods that take attributes; here is what all
handles share. Methods emit exactly one op each and return handles; a Python number beside a handle becomes a
constant of the handle's dtype and shape. Tensors are never promoted or broadcast silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

from planish.dtypes import DType
from planish.errors import GraphError
from planish.ptir import ops
from planish.ptir.function import Region, Value
from planish.ptir.ops.definition import NO_ATTRS, Attrs, OpDef
from planish.ptir.types import DimLike, TensorType
from planish.scalars import FUNCTIONS

if TYPE_CHECKING:
    from planish.ptir.builder import Graph
    from planish.ptir.graph_value import GraphValue

Number: TypeAlias = bool | int | float | complex
Operand: TypeAlias = "ElementwiseMethods | Number"
M = TypeVar("M", bound=Callable[..., object])


def _unary(op: OpDef) -> Callable[[ElementwiseMethods], GraphValue]:
    def method(self: ElementwiseMethods) -> GraphValue:
        return self.graph.emit(op, (self,))

    return _named(method, op)


def _binary(op: OpDef) -> Callable[[ElementwiseMethods, Operand], GraphValue]:
    def method(self: ElementwiseMethods, other: Operand) -> GraphValue:
        return self.graph.emit(op, (self, self._lift(other)))

    return _named(method, op)


def _reversed(op: OpDef) -> Callable[[ElementwiseMethods, Operand], GraphValue]:
    def method(self: ElementwiseMethods, other: Operand) -> GraphValue:
        return self.graph.emit(op, (self._lift(other), self))

    return _named(method, op)


def _named(method: M, op: OpDef) -> M:
    method.__name__, method.__doc__ = op.name, op.doc
    return method


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
        raise GraphError.at_caller(
            f"{self!r} has no truth value while the graph is being built",
            "use select for elements and graph.cond for control flow",
        )

    def __iter__(self) -> NoReturn:
        raise GraphError.at_caller(f"{self!r} cannot be iterated over")

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

    def _call_scalar(self, name: str, *others: GraphValue) -> GraphValue:
        """A scalar function: what its record calls."""
        return self.graph.emit(ops.find(name), (self, *others))

    # --- unary ---

    neg = _unary(ops.neg)
    abs = _unary(ops.abs)
    sign = _unary(ops.sign)
    reciprocal = _unary(ops.reciprocal)
    sqrt = _unary(ops.sqrt)
    rsqrt = _unary(ops.rsqrt)
    cbrt = _unary(ops.cbrt)
    floor = _unary(ops.floor)
    ceil = _unary(ops.ceil)
    round = _unary(ops.round)
    trunc = _unary(ops.trunc)
    exp = _unary(ops.exp)
    exp2 = _unary(ops.exp2)
    expm1 = _unary(ops.expm1)
    log = _unary(ops.log)
    log2 = _unary(ops.log2)
    log1p = _unary(ops.log1p)
    sin = _unary(ops.sin)
    cos = _unary(ops.cos)
    tan = _unary(ops.tan)
    asin = _unary(ops.asin)
    acos = _unary(ops.acos)
    atan = _unary(ops.atan)
    sinh = _unary(ops.sinh)
    cosh = _unary(ops.cosh)
    tanh = _unary(ops.tanh)
    asinh = _unary(ops.asinh)
    acosh = _unary(ops.acosh)
    atanh = _unary(ops.atanh)
    erf = _unary(ops.erf)
    erfc = _unary(ops.erfc)
    erfinv = _unary(ops.erfinv)
    lgamma = _unary(ops.lgamma)
    digamma = _unary(ops.digamma)
    not_ = _unary(ops.not_)
    popcount = _unary(ops.popcount)
    clz = _unary(ops.clz)
    is_nan = _unary(ops.is_nan)
    is_inf = _unary(ops.is_inf)
    is_finite = _unary(ops.is_finite)
    conj = _unary(ops.conj)
    real = _unary(ops.real)
    imag = _unary(ops.imag)

    # --- binary ---

    add = _binary(ops.add)
    sub = _binary(ops.sub)
    mul = _binary(ops.mul)
    div = _binary(ops.div)
    floor_div = _binary(ops.floor_div)
    trunc_div = _binary(ops.trunc_div)
    floor_mod = _binary(ops.floor_mod)
    trunc_mod = _binary(ops.trunc_mod)
    pow = _binary(ops.pow)
    max = _binary(ops.max)
    min = _binary(ops.min)
    atan2 = _binary(ops.atan2)
    hypot = _binary(ops.hypot)
    copysign = _binary(ops.copysign)
    nextafter = _binary(ops.nextafter)
    complex = _binary(ops.complex)
    and_ = _binary(ops.and_)
    or_ = _binary(ops.or_)
    xor = _binary(ops.xor)
    shl = _binary(ops.shl)
    shr_logical = _binary(ops.shr_logical)
    shr_arithmetic = _binary(ops.shr_arithmetic)

    # --- comparisons and choice ---

    eq = _binary(ops.eq)
    ne = _binary(ops.ne)
    lt = _binary(ops.lt)
    le = _binary(ops.le)
    gt = _binary(ops.gt)
    ge = _binary(ops.ge)

    def select(self, chosen: ElementwiseMethods, other: Operand) -> GraphValue:
        """`chosen` where this predicate is True, else `other`."""
        return self.graph.emit(ops.select, (self, chosen, chosen._lift(other)))

    where = select

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

    __radd__ = _reversed(ops.add)
    __rsub__ = _reversed(ops.sub)
    __rmul__ = _reversed(ops.mul)
    __rtruediv__ = _reversed(ops.div)
    __rfloordiv__ = _reversed(ops.floor_div)
    __rmod__ = _reversed(ops.floor_mod)
    __rpow__ = _reversed(ops.pow)


for _name, _function in FUNCTIONS.items():
    if not hasattr(ElementwiseMethods, _name):
        setattr(ElementwiseMethods, _name, (_unary if _function.arity == 1 else _binary)(ops.find(_name)))
