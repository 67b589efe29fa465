"""`expand-complex`: complex numbers become pairs of reals.

Inside a function a `complex64` value is two `float32` values of the same shape (`complex128`: `float64`). **Between functions and at the
outside** it is one real tensor with a trailing axis of size 2, real part first: a parameter of type `tensor<c64, d>` becomes one of
type `tensor<f32, dx2>`, which is `array.view(np.float32).reshape(*array.shape, 2)`, and results likewise. Host ops and custom calls go
on taking and giving complex tensors; a `bitcast` to or from that same form, a view of the same bytes, stands at each side of them. No
other complex value is left.

Movement, sums and products have the bits of the interpreter; functions of `complex64` are computed in `float64`. Composites are
expanded first (`expand,expand-complex`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeAlias, cast

import numpy as np

from planish import dtypes
from planish.errors import PassError
from planish.ptir import ops
from planish.ptir.function import Function, Inst, Program, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import complex_inverses as inverses
from planish.ptir.library import complex_numbers as numbers
from planish.ptir.library import complex_tensors as tensors
from planish.ptir.library.complex_numbers import Pair
from planish.ptir.library.expansions import EXPANSIONS
from planish.ptir.library.normalize import converted
from planish.ptir.library.splice import Splice
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.ops.numerics import part_dtype
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, register
from planish.ptir.passes.expand_types import Parts, convert_function
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import TensorType
from planish.records import dataclass


@register
@dataclass(frozen=True, slots=True)
class ExpandComplexPass:
    """Rewrite complex numbers into pairs of reals."""

    name: ClassVar[str] = "expand-complex"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        changed = [f.name for f in program if expand_complex(f, context)]
        return PassResult(bool(changed), {"functions": len(changed)}, tuple(changed))


def expand_complex(function: Function, context: PassContext = DEFAULT_CONTEXT) -> bool:
    """Take complex numbers out of one function; gives whether there were any."""
    if all(_is_settled(value) for value in function.values()):
        return False
    rewriter = ProgramRewriter(function, context.listener, pattern="expand-complex")
    return convert_function(function, _Pairs(), rewriter)


def _is_settled(value: Value) -> bool:
    """Real, or what stands between a host op and a bitcast."""
    if not value.type.dtype.is_complex:
        return True
    inst = value.def_inst
    if inst is None or not (inst.op.host or inst.op is ops.bitcast):
        return False
    return all(user.op.host or user.op is ops.bitcast for user in value.users)


def complex_memory(type: TensorType) -> TensorType:
    """The real type that stands for a complex one between functions."""
    return TensorType(part_dtype(type.dtype), (*type.dims, 2))


class _Pairs:
    """Complex values as two reals."""

    __slots__ = ()

    def parts(self, type: TensorType) -> tuple[TensorType, ...] | None:
        if not type.dtype.is_complex:
            return None
        part = TensorType(part_dtype(type.dtype), type.dims)
        return part, part

    def memory(self, type: TensorType) -> TensorType:
        return complex_memory(type)

    def load(self, whole: GraphValue, type: TensorType) -> Parts:
        return split(whole)

    def store(self, parts: Parts) -> GraphValue:
        return join(parts)

    def convert(self, graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        rule = RULES.get(inst.op.name)
        if rule is not None:
            return rule(graph, inst, operands)
        if inst.op.host:
            return _host(graph, inst, operands)
        hint = "run expand before it" if inst.op.name in EXPANSIONS else None
        raise PassError(
            f"{inst.op.name} of complex numbers cannot be expanded",
            op=inst.op.name,
            location=inst.loc,
            remedy=hint,
        )


def split(whole: GraphValue) -> Pair:
    """Real and imaginary part of a trailing axis of size 2."""
    dims = whole.dims[:-1]
    re, im = (whole.slice([0] * len(dims) + [i], [*dims, i + 1]).reshape(dims) for i in range(2))
    return re, im


def join(parts: Sequence[GraphValue]) -> GraphValue:
    """The inverse of `split`."""
    re, im = (part.expand_dims(part.rank) for part in parts)
    return re.concat([im], re.rank - 1)


# --- rules ------------------------------------------------------------------------------------------------

Rule: TypeAlias = Callable[[Splice, Inst, Sequence[Parts]], Sequence[Parts]]


def _pair(parts: Parts) -> Pair:
    re, im = parts
    return re, im


def _by_parts(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    """The same op on real parts and on imaginary parts; real operands (indices, predicates) go to both."""
    both = [
        graph.emit(inst.op, [parts[i] if len(parts) == 2 else parts[0] for parts in operands], inst.attrs)
        for i in range(2)
    ]
    return [tuple(both)]


def _host(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    """The op itself, between bitcasts."""
    given = [
        join(parts).bitcast(value.type.dtype) if value.type.dtype.is_complex else parts[0]
        for value, parts in zip(inst.operands, operands, strict=True)
    ]
    results = graph.emit_many(inst.op, given, inst.attrs)
    return [
        split(result.bitcast(part_dtype(result.dtype))) if result.dtype.is_complex else (result,)
        for result in results
    ]


def _on_pairs(compute: Callable[..., Pair]) -> Rule:
    """An elementwise op, in the dtype of the parts."""

    def rule(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        return [compute(*[_pair(parts) for parts in operands])]

    return rule


def _smooth(compute: Callable[..., Pair]) -> Rule:
    """An elementwise function, computed in float64 and rounded once."""

    def rule(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        dtype = operands[0][0].dtype
        wide = [tuple(converted(part, dtypes.float64) for part in parts) for parts in operands]
        return [tuple(converted(part, dtype) for part in compute(*wide))]

    return rule


def _to_real(compute: Callable[..., GraphValue]) -> Rule:
    """An elementwise op with a real or bool result."""

    def rule(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
        return [(compute(*[_pair(parts) for parts in operands]),)]

    return rule


def _constant(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    literal = cast("ConstantAttrs", inst.attrs).literal
    parts: list[GraphValue] = []
    for data in (literal.data.real, literal.data.imag):
        part = Literal(np.array(data), dtype=part_dtype(literal.dtype))
        whole = part.with_shape(literal.shape) if literal.splat else part
        parts.append(graph.emit(ops.constant, (), ConstantAttrs(whole)))
    return [tuple(parts)]


def _iota(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    attrs = cast("ops.IotaAttrs", inst.attrs)
    part = part_dtype(attrs.dtype)
    return [(graph.iota(attrs.dims, attrs.axis, part), graph.full(attrs.dims, 0.0, part))]


def _change(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    """cast: each part, or real with an imaginary part of +0, or whether any part is not 0."""
    target = cast("ops.CastAttrs", inst.attrs).dtype
    (parts,) = operands
    if not target.is_complex:
        return [(parts[0].ne(0.0).or_(parts[1].ne(0.0)),)]
    part = part_dtype(target)
    if len(parts) == 2:
        return [tuple(converted(each, part) for each in parts)]
    re = converted(parts[0], part)
    return [(re, graph.full(re.dims, 0.0, part))]


def _bitcast(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    """Through the parts as they lie in memory: rows of equal parts, regrouped to the width of the target."""
    (parts,) = operands
    target, result = part_dtype(inst.result.type.dtype), inst.result.type
    dims = (*result.dims, 2) if result.dtype.is_complex else result.dims
    line = join(parts) if len(parts) == 2 else parts[0]
    if target.bits > line.dtype.bits:
        line = line.reshape((*dims, target.bits // line.dtype.bits))
    if line.dtype is not target:
        line = line.bitcast(target)
    line = line.reshape(dims)
    return [split(line) if result.dtype.is_complex else (line,)]


def _contraction(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    attrs = cast("ops.DotGeneralAttrs | ops.ConvolutionAttrs", inst.attrs)
    return [tensors.contract(_pair(operands[0]), _pair(operands[1]), inst.op, attrs)]


def _reduce_prod(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    return [tensors.reduce_prod(_pair(operands[0]), cast("ops.ReduceAttrs", inst.attrs))]


def _cumprod(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    return [tensors.cumprod(_pair(operands[0]), cast("ops.CumulativeAttrs", inst.attrs))]


def _reduce_window(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    attrs = cast("ops.ReduceWindowAttrs", inst.attrs)
    if attrs.kind == "sum":
        return _by_parts(graph, inst, operands)
    return [tensors.window_prod(_pair(operands[0]), attrs, inst.result.type.dims)]


def _scatter(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    attrs = cast("ops.ScatterAttrs", inst.attrs)
    if attrs.kind != "mul":
        return _by_parts(graph, inst, operands)
    indices = [parts[0] for parts in operands[2:]]
    return [tensors.scatter_mul(_pair(operands[0]), _pair(operands[1]), indices, attrs)]


def _bind_dim(graph: Splice, inst: Inst, operands: Sequence[Parts]) -> Sequence[Parts]:
    """Bound once, on both parts together: a name may be given only once."""
    whole = graph.emit(inst.op, (join(operands[0]), operands[1][0]), inst.attrs)
    return [split(whole)]


_BY_PARTS: Final = """
    neg add sub select reshape transpose broadcast_to slice reverse concat pad gather dynamic_slice
    dynamic_update_slice reduce_sum cumsum
"""
_SMOOTH: Final[dict[str, Callable[..., Pair]]] = {
    "rsqrt": numbers.rsqrt,
    "sqrt": numbers.sqrt,
    "exp": numbers.exp,
    "expm1": numbers.expm1,
    "log": numbers.log,
    "log2": numbers.log2,
    "log1p": numbers.log1p,
    "sin": numbers.sin,
    "cos": numbers.cos,
    "tan": numbers.tan,
    "sinh": numbers.sinh,
    "cosh": numbers.cosh,
    "tanh": numbers.tanh,
    "asin": inverses.asin,
    "acos": inverses.acos,
    "atan": inverses.atan,
    "asinh": inverses.asinh,
    "acosh": inverses.acosh,
    "atanh": inverses.atanh,
    "pow": inverses.power,
}

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_BY_PARTS.split(), _by_parts),
    **{name: _smooth(compute) for name, compute in _SMOOTH.items()},
    "conj": _on_pairs(numbers.conj),
    "mul": _on_pairs(numbers.mul),
    "div": _on_pairs(numbers.div),
    "reciprocal": _on_pairs(numbers.reciprocal),
    "sign": _on_pairs(numbers.sign),
    "abs": _to_real(numbers.modulus),
    "real": _to_real(lambda z: z[0]),
    "imag": _to_real(lambda z: z[1]),
    "eq": _to_real(numbers.equal),
    "ne": _to_real(lambda a, b: numbers.equal(a, b).not_()),
    "is_nan": _to_real(lambda z: z[0].is_nan().or_(z[1].is_nan())),
    "is_inf": _to_real(lambda z: z[0].is_inf().or_(z[1].is_inf())),
    "is_finite": _to_real(lambda z: z[0].is_finite().and_(z[1].is_finite())),
    "complex": lambda graph, inst, operands: [(operands[0][0], operands[1][0])],
    "constant": _constant,
    "iota": _iota,
    "cast": _change,
    "bitcast": _bitcast,
    "dot_general": _contraction,
    "convolution": _contraction,
    "reduce_prod": _reduce_prod,
    "cumprod": _cumprod,
    "reduce_window": _reduce_window,
    "scatter": _scatter,
    "bind_dim": _bind_dim,
    "dimension_size": lambda graph, inst, operands: [(graph.emit(inst.op, (operands[0][0],), inst.attrs),)],
}
"""What becomes of each op that may meet complex numbers; host ops are the same for all."""
