"""From Python functions to PTIR and back: trace, and inline.

`trace` calls a function with parameters, `capture` (`planish.frontend.capture`) writes it down as a PTIR function, `inline` applies
one to tensors. Transforms live on these three: a function is traced, captured, transformed as PTIR, and inlined where it was
called. As the tensors may themselves be parameters of an outer trace, transforms compose in any order.

What a function has seen is what it was given and what stood outside when it asked, whatever is assigned afterwards: bodies hold
values. What it hands to a program has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import cast

from planish import ptir
from planish.errors import PlanishError
from planish.frontend.capture import capture_body
from planish.frontend.effects import tied
from planish.frontend.expression import LazyValue, Parameter, TracedBody
from planish.frontend.session import DEEPEST, SESSION, reopened, tracing
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.transfer import beside, to_device
from planish.ptir.function import Inst, Region
from planish.ptir.regions import captured
from planish.ptir.types import TensorType

Known = dict[ptir.SSAValue, Tensor]
"""What values of a PTIR function are as tensors: names that no program has, and nothing is assigned to."""


def trace(
    what: str,
    function: Callable[..., Sequence[Tensor]],
    types: Sequence[TensorType],
    names: Sequence[str] = (),
    arguments: Sequence[Tensor] | None = None,
    once: bool = True,
) -> TracedBody:
    """Call a function with parameters of these types. `what` names the transform in messages, `names` the parameters.

    With `arguments`, for the first parameters or all, it is traced for these alone: it may look at the elements of what it computes
    from them (`looked_at`).
    """
    with tracing(what) as scope:
        called = [*names, *["a parameter"] * (len(types) - len(names))]
        params = [Parameter.new(type, scope, name) for type, name in zip(types, called, strict=True)]
        if arguments is not None:
            scope.arguments = {param: x._value for param, x in zip(params, arguments, strict=False)}
            scope.once = once
        results = [result._value for result in tied(function(*map(Tensor, params)))]
    return TracedBody(scope, params, results)


def looked_at(value: LazyValue) -> LazyValue | None:
    """What a traced value is for the arguments that its function is traced for; None if it needs one that may be any.

    `if`, `print` and masks in a function under `grad` or `jvp` see numbers so, as they would without the transform.
    """
    scope = value.scope
    if scope is None or not scope.open:
        return None
    seen = scope.seen.get(value)
    if seen is None:
        arguments = scope.arguments or {}
        body = TracedBody(scope, tuple(arguments), [value])
        if body.unbound or not (arguments or body.free):
            return None
        function, free = capture_body(body, scope.what)
        with reopened(scope.parent):
            outputs = inline(function, [Tensor(x) for x in (*arguments.values(), *free)])
        seen = scope.seen[value] = outputs[0]._value
    return seen


def inline(function: ptir.Function, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """A PTIR function applied to tensors; its results have names of their own."""
    if len(tensors) != len(function.params):
        raise PlanishError(f"{function.name} takes {len(function.params)} tensors, not {len(tensors)}")
    known: Known = dict(zip(function.params, tensors, strict=True))
    with SESSION.whole():
        results = _inline(function.body, known)
    known.clear()
    values = [x._value for x in results]
    deepest = max((x.node for x in values if x.node is not None), key=attrgetter("depth"), default=None)
    if deepest is not None and deepest.depth >= DEEPEST:
        SESSION.settle_deep(values, deepest)
    return own_names(results, tensors)


def own_names(results: Sequence[Tensor], taken: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Tensors for a program to keep: each a name of its own, also where it is one of the `taken` or comes twice."""
    seen = {x._value for x in taken}
    names = []
    for result in results:
        names.append(result.snapshot() if result._value in seen else result)
        seen.add(result._value)
    return tuple(names)


def inline_known(function: ptir.Function, known: Known) -> None:
    """As much of a PTIR function as can be applied to the tensors that are known; what they become is added."""
    for inst in function:
        seen = [value for inner in inst.regions for value in captured(inner)]
        if inst.results[0] not in known and all(value in known for value in (*inst.operands, *seen)):
            _apply_inst(inst, known)


def _inline(region: Region, known: Known) -> tuple[Tensor, ...]:
    for inst in region:
        _apply_inst(inst, known)
    return tuple(known[result] for result in region.results)


def _apply_inst(inst: Inst, known: Known) -> None:
    if inst.op is ptir.ops.to_device:
        known[inst.results[0]] = _moved(inst, [known[operand] for operand in inst.operands])
        return
    bodies = tuple(_inlined_body(inst.op.name, inner, known) for inner in inst.regions)
    results = apply(inst.op, *[known[operand] for operand in inst.operands], attrs=inst.attrs, bodies=bodies)
    node = results[0]._value.node
    if inst.loc is not None and node is not None:
        # the line that the function was written in, not that of the transform
        node.site = inst.loc
    known.update(zip(inst.results, results, strict=True))


def _moved(inst: Inst, given: Sequence[Tensor]) -> Tensor:
    """A copy to another device: done at once, or a step of what is being traced."""
    device = cast("ptir.ops.ToDeviceAttrs", inst.attrs).device
    return to_device(given[0], device) if device else beside(*given)


def _inlined_body(what: str, region: Region, known: Known) -> TracedBody:
    with tracing(what) as scope:
        params = [Parameter.new(arg.type, scope) for arg in region.args]
        inner = known | dict(zip(region.args, map(Tensor, params), strict=True))
        results = _inline(region, inner)
    return TracedBody(scope, params, [x._value for x in results])


SESSION.looked_at = looked_at
