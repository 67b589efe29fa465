"""Reverse mode: a function that also pulls the cotangents of its results back to its parameters.

Conventions are torch's: the cotangent of a complex value is conjugate to its derivative, so that a step against it descends.
A loop keeps the carried values of its steps and computes each step again on the way back, and so does a `checkpoint`;
everything else that the way back needs is kept or computed again as the compiler sees fit, since both ways are one program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from planish import dtypes
from planish.errors import GraphError
from planish.frontend.autodiff import loops
from planish.frontend.autodiff.instruction import is_differentiable, zeros
from planish.frontend.autodiff.rules import KNOWN
from planish.frontend.autodiff.sweep import BACK, THERE, Cotangents, Sweep, transposed
from planish.frontend.replay import Replay, Values, inlined, replay
from planish.ptir.dims import Dim, bounds, product
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.graph_value import GraphValue
from planish.ptir.regions import captured
from planish.ptir.types import TensorType

LOOPS: Final = loops  # they put themselves into the tables


def vjp(
    function: Function | Program, wrt: Sequence[int] | None = None, of: Sequence[int] | None = None
) -> Function:
    """The results, then a gradient for each parameter in `wrt`: a function of the parameters and of cotangents.

    There is a cotangent for each result in `of` that is a float or complex number. Both default to all that are.
    """
    function = inlined(function, KNOWN)
    wanted = [function.params[n] for n in differentiable_parameters(function, wrt)]
    graph = Replay(f"{function.name}_vjp")
    values: Values = {p: graph.input(f"x{n}", p.type) for n, p in enumerate(function.params)}
    chosen = range(len(function.results)) if of is None else of
    ends = [(n, function.results[n]) for n in chosen if is_differentiable(function.results[n].type)]
    known = {symbol.name for param in function.params for symbol in param.type.symbols()}
    given = [(result, graph.input(f"c{n}", _outer(result.type, known))) for n, result in ends]
    sweep = Sweep(graph, function.body, values, wanted)
    results = sweep.forward()
    pulled = sweep.backward((result, _resized(c, result.type)) for result, c in given)
    return graph.build(*results, *(pulled.of(param) for param in wanted))


def _outer(type: TensorType, known: Collection[str]) -> TensorType:
    """The type of a cotangent: sizes that the function itself binds have another name where it is handed in."""
    names = {symbol.name: symbol for symbol in type.symbols() if symbol.name not in known}
    return type.substitute({name: Dim.named(f"{name}_given", s.lo, s.hi) for name, s in names.items()})


def _resized(cotangent: GraphValue, type: TensorType) -> GraphValue:
    """The cotangent of a result with the result's own names for its sizes, which are the same."""
    if cotangent.type == type:
        return cotangent
    high = [most - dim for most, dim in zip(type.max_shape, cotangent.dims, strict=True)]
    return cotangent.pad([0] * cotangent.rank, high).slice([0] * cotangent.rank, type.dims)


def differentiable_parameters(function: Function, wrt: Sequence[int] | None) -> list[int]:
    """The parameters to differentiate by, which must be able to move."""
    params = function.params
    if wrt is None:
        return [n for n, param in enumerate(params) if is_differentiable(param.type)]
    for number in wrt:
        if not is_differentiable(params[number].type):
            raise GraphError(
                f"{function.name}: parameter {number} is {params[number].type}, which has no derivative",
                remedy="differentiate with respect to floats or complex numbers",
            )
    return list(wrt)


# -- cond ------------------------------------------------------------------------------------------------------


def _cond_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    """Each branch is computed again where its gradient is."""
    outside = sweep.seen(*inst.regions)
    given = [
        (n, pulled.by_value[result]) for n, result in enumerate(inst.results) if result in pulled.by_value
    ]

    def branch(region: Region) -> list[GraphValue]:
        inner = Sweep(sweep.graph, region, dict(sweep.values), outside)
        inner.forward()
        own = inner.backward((region.results[n], cotangent) for n, cotangent in given)
        return [own.of(value) for value in outside]

    first, second = inst.regions
    predicate = sweep.values[inst.operands[0]]
    cotangents = sweep.graph.cond(predicate, lambda: branch(first), lambda: branch(second))
    for value, cotangent in zip(outside, cotangents, strict=True):
        pulled.add(value, cotangent)


# -- checkpoint ------------------------------------------------------------------------------------------------


def _checkpoint_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    """The body once more, on values that nobody can know to be the same before the cotangents are there."""
    (body,) = inst.regions
    given = [
        (result, pulled.by_value[outer])
        for result, outer in zip(body.results, inst.results, strict=True)
        if outer in pulled.by_value
    ]
    outside = sweep.seen(body)
    barrier = _Barrier([(sweep.values[r], pulled.by_value[r]) for r in inst.results if r in pulled.by_value])
    inner: Values = dict(sweep.values)
    inner |= {value: barrier.behind(sweep.values[value]) for value in captured(body)}
    inner |= {
        arg: barrier.behind(sweep.values[operand])
        for arg, operand in zip(body.args, inst.operands, strict=True)
    }
    wanted = [arg for arg, operand in zip(body.args, inst.operands, strict=True) if operand in sweep.live]
    again = Sweep(sweep.graph, body, inner, (*wanted, *outside))
    again.forward()
    own = again.backward(given)
    for value, target in [
        *((arg, inst.operands[arg.index]) for arg in wanted),
        *zip(outside, outside, strict=True),
    ]:
        if value in own.by_value:
            pulled.add(target, own.by_value[value])


class _Barrier:
    """Values as they are, but only once others are there.

    n·n ≠ 2 holds for the bits n of every number, as no square ends in the bits 10; but no optimiser knows, so that nothing
    computed behind the barrier can be taken for what was computed before it, nor be computed earlier. The bits are those of
    a cotangent, and of the value that it belongs to, as a cotangent may be a constant.
    """

    def __init__(self, pairs: Sequence[tuple[GraphValue, GraphValue]]) -> None:
        self.holds: GraphValue | None = None
        for value, cotangent in pairs:
            if all(bounds(dim)[0] > 0 for dim in value.dims):
                bits = self._first_bits(value).xor(self._first_bits(cotangent))
                self.holds = bits.mul(bits).ne(2)
                return

    @staticmethod
    def _first_bits(value: GraphValue) -> GraphValue:
        one = value.slice([0] * value.rank, [1] * value.rank).reshape(())
        part = one.real() if one.dtype.is_complex else one
        return part.bitcast(_WORDS[part.dtype.bits])

    def behind(self, value: GraphValue) -> GraphValue:
        if self.holds is None or value.value.literal is not None or value.type.quant is not None:
            return value
        nothing = value.graph.full(value.dims, False if value.dtype.is_bool else 0, value.dtype)
        return self.holds.broadcast_to(value.dims).select(value, nothing)


_WORDS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}

# -- examples that ask for nothing --------------------------------------------------------------------------------


def _guarded_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    """Where nothing comes back, 0 times a slope would still be NaN if that is infinite there.

    So the body is computed again, with what an example inside of the mask has in place of what those outside have.
    """
    (body,) = inst.regions
    mask, *operands = (sweep.values[operand] for operand in inst.operands)
    inner: Values = dict(sweep.values)
    inner |= zip(body.args, (mask, *(_taken_inside(mask, x) for x in operands)), strict=True)
    outside = sweep.seen(body)
    wanted = [arg for arg, operand in zip(body.args, inst.operands, strict=True) if operand in sweep.live]
    again = Sweep(sweep.graph, body, inner, (*wanted, *outside))
    again.forward()
    own = again.backward(
        (result, pulled.by_value[outer])
        for result, outer in zip(body.results, inst.results, strict=True)
        if outer in pulled.by_value
    )
    for arg in wanted:
        if arg in own.by_value:
            part = own.by_value[arg]
            pulled.add(inst.operands[arg.index], _over(mask, part).select(part, zeros(sweep.graph, arg.type)))
    some = mask.reduce_or()
    for value in outside:
        if value in own.by_value:
            part = own.by_value[value]
            pulled.add(value, some.broadcast_to(part.dims).select(part, zeros(sweep.graph, value.type)))


def _over(mask: GraphValue, x: GraphValue) -> GraphValue:
    """A mask of examples for each element of theirs."""
    return mask.reshape([*mask.dims, *[1] * (x.rank - mask.rank)]).broadcast_to(x.dims)


def _taken_inside(mask: GraphValue, x: GraphValue) -> GraphValue:
    """What each example has; for those outside of the mask, what the first one inside has."""
    count = product(mask.dims)
    if count == 0:
        return x
    first = mask.reshape([count]).cast(dtypes.int32).argmax(0)
    row = x.reshape([count, *x.dims[mask.rank :]]).gather([first], [0])
    return _over(mask, x).select(x, row.broadcast_to(x.dims))


# -- derivatives of one's own ----------------------------------------------------------------------------------


def _differentiable(values: Sequence[Value]) -> list[Value]:
    return [value for value in values if is_differentiable(value.type)]


def _custom_jvp_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    """The rule says how tangents go; how cotangents go back is the transpose of that."""
    rule = inst.regions[1]
    given = [pulled.of(result) for result in _differentiable(inst.results)]
    fixed = [sweep.values[operand] for operand in inst.operands]
    moved = rule.results[len(inst.results) :]
    own = transposed(sweep.graph, rule, sweep.values, fixed, moved, given)
    for operand, cotangent in zip(_differentiable(inst.operands), own, strict=True):
        if operand in sweep.live:
            pulled.add(operand, cotangent)


def _custom_vjp_there(sweep: Sweep, inst: Inst) -> tuple[Sequence[GraphValue], Sequence[GraphValue]]:
    forward = inst.regions[1]
    given = [sweep.values[operand] for operand in inst.operands]
    outputs = replay(sweep.graph, forward, sweep.values | dict(zip(forward.args, given, strict=True)))
    count = len(inst.results)
    return outputs[:count], outputs[count:]


def _custom_vjp_back(sweep: Sweep, inst: Inst, pulled: Cotangents) -> None:
    backward = inst.regions[2]
    given = [*sweep.saved[inst], *(pulled.of(result) for result in _differentiable(inst.results))]
    own = replay(sweep.graph, backward, sweep.values | dict(zip(backward.args, given, strict=True)))
    for operand, cotangent in zip(_differentiable(inst.operands), own, strict=True):
        if operand in sweep.live:
            pulled.add(operand, cotangent)


THERE["custom_vjp"] = _custom_vjp_there
BACK.update(
    {
        "cond": _cond_back,
        "checkpoint": _checkpoint_back,
        "guarded": _guarded_back,
        "custom_jvp": _custom_jvp_back,
        "custom_vjp": _custom_vjp_back,
    }
)
