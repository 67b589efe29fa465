"""Control flow that is part of the program: cond, switch, while_loop, scan, fori_loop, map.

The functions given are traced, whether the call itself is traced or not, and become the regions of one op. They take and give trees of
tensors, and may use tensors from outside. What goes around a loop keeps its structure, shapes and dtypes; where it does not,
the error names the leaf and both types.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from planish import dtypes
from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend import stepping, tree
from planish.frontend.arguments import paths
from planish.frontend.effects import incoming, tied
from planish.frontend.expression import LazyValue, Parameter, TracedBody
from planish.frontend.flat import is_data, name_of, own
from planish.frontend.session import current_scope, reopened, tensor_type, tracing
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Scalar, Tensor
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tensor.operands import cast_to, constant
from planish.frontend.tensor.operands import tensor as as_tensor
from planish.frontend.tree import Structure
from planish.ptir import ops
from planish.ptir.dims import Dim, DimLike
from planish.ptir.types import TensorType

Tree = Any
"""Tensors and numbers in containers."""


# --- trees of tensors ---------------------------------------------------------------------------------------


def _leaves(op: str, what: str, given: Tree) -> tuple[list[Tensor], Structure, list[bool]]:
    """The tensors of a tree, its structure, and which of them were Python numbers."""
    leaves, structure = tree.flatten(given)
    tensors: list[Tensor] = []
    for leaf, path in zip(leaves, paths(structure, what), strict=True):
        if not is_data(leaf):
            raise DTypeError.of(
                op,
                f"{path} is neither a tensor nor a number: {leaf!r}",
                "close over it, or convert it with planish.asarray",
            )
        tensors.append(Tensor(as_tensor(op, leaf)._value))
    return tensors, structure, [isinstance(leaf, bool | int | float | complex) for leaf in leaves]


class _TracedRegion:
    """A function of trees as a body: what it takes, what it gives."""

    def __init__(
        self,
        op: str,
        function: Callable[..., Tree],
        types: Sequence[TensorType],
        arguments: Callable[[Sequence[Tensor]], Sequence[Tree]],
        repeats: bool = True,
    ) -> None:
        self.name = name_of(function)
        with tracing(op) as scope:
            scope.repeats = repeats
            params = [Parameter.new(type, scope, f"what {op} gives to {self.name}") for type in types]
            returned = function(*arguments(list(builtins.map(Tensor, params))))
            self.returned = returned
            self.results, self.structure, self.weak = _leaves(op, f"what {self.name} returns", returned)
        self.scope, self.params = scope, params

    def body(
        self, results: Sequence[Tensor] | None = None, carried: int = -1, effects: bool = False
    ) -> TracedBody:
        """With `effects` a token goes around behind what is carried; a branch has it behind its results."""
        given = [x._value for x in (self.results if results is None else results)]
        params: list[LazyValue] = [*self.params]
        if effects:
            token = incoming(self.scope)
            place = len(given) if carried < 0 else carried
            given.insert(place, token)
            if carried >= 0:
                params.insert(place, cast("Parameter", self.scope.turn))
        return TracedBody(self.scope, params, given)

    @property
    def effects(self) -> bool:
        return self.scope.token is not None

    def cast(self, number: int, type: TensorType) -> None:
        """A result that was a Python number in the dtype that is wanted."""
        with reopened(self.scope):
            self.results[number] = cast_to(self.results[number], type.dtype)


def _shown(type: TensorType) -> str:
    return f"{type.dtype.name}[{', '.join(builtins.map(str, type.dims))}]"


def _mismatch(op: str, first: str, second: str, path: str, a: TensorType, b: TensorType) -> PlanishError:
    kind: type[PlanishError] = ShapeError if a.dims != b.dims else DTypeError
    return kind.of(
        op,
        f"{path} is {_shown(a)} in {first} and {_shown(b)} in {second}",
        "make both the same: astype converts, reshape and broadcast_to change shapes",
    )


def _same_structure(op: str, first: str, second: str, a: Structure, b: Structure) -> None:
    if a == b:
        return
    ours, theirs = set(paths(a, "")), set(paths(b, ""))
    only = [f"{path or 'a leaf'} only in {first}" for path in sorted(ours - theirs)]
    only += [f"{path or 'a leaf'} only in {second}" for path in sorted(theirs - ours)]
    raise PlanishError.of(
        op,
        f"{first} is {a} and {second} is {b}" + (f" ({'; '.join(only[:4])})" if only else ""),
        "return the same containers with the same keys",
    )


# --- cond ---------------------------------------------------------------------------------------------------


def _predicate(op: str, value: Tensor | Scalar) -> Tensor:
    predicate = as_tensor(op, value)
    if predicate.ndim or not predicate.dtype.is_bool:
        raise DTypeError.of(
            op,
            f"the predicate is {_shown(predicate._type)}, not one bool",
            "compare (x > 0), or take any() or all() of it; planish.where chooses element by element",
        )
    return predicate


def cond(
    predicate: Tensor | bool, then: Callable[..., Tree], otherwise: Callable[..., Tree], *operands: Tree
) -> Tree:
    """`then(*operands)` if the predicate is true, else `otherwise(*operands)`; only one of them is computed."""
    chosen = _predicate("cond", predicate)
    leaves, structure, _ = _leaves("cond", "operand", operands)
    given = tree.unflatten(structure, leaves)
    if stepping.stepping():
        return stepping.branch("cond", then if bool(chosen) else otherwise, given)
    return _choice("cond", chosen, then, otherwise, given)


def _choice(
    op: str, chosen: Tensor, then: Callable[..., Tree], otherwise: Callable[..., Tree], given: Sequence[Tree]
) -> Tree:
    first = _TracedRegion(op, then, (), lambda _: own(given), repeats=False)
    second = _TracedRegion(op, otherwise, (), lambda _: own(given), repeats=False)
    names = f"what {first.name} returns", f"what {second.name} returns"
    if names[0] == names[1]:
        names = f"{names[0]} (first)", f"{names[1]} (second)"
    _same_structure(op, *names, first.structure, second.structure)
    for number, path in enumerate(paths(first.structure, "the result")):
        a, b = first.results[number]._type, second.results[number]._type
        if a != b and a.dims == b.dims:
            # a Python number takes the dtype of the other branch
            if first.weak[number]:
                first.cast(number, b)
            elif second.weak[number]:
                second.cast(number, a)
        a, b = first.results[number]._type, second.results[number]._type
        if a != b:
            raise _mismatch(op, *names, path, a, b)
    effects = first.effects or second.effects
    outputs = apply(ops.cond, chosen, bodies=(first.body(effects=effects), second.body(effects=effects)))
    return tree.unflatten(first.structure, _without_token(outputs, len(first.results), effects))


def _without_token(outputs: Sequence[Tensor], place: int, effects: bool) -> list[Tensor]:
    """The results of control flow; the token among them is that of the scope from now on."""
    results = list(outputs)
    if effects:
        token, scope = results.pop(place)._value, current_scope()
        if scope is not None:
            scope.token = token
    return results


def _token(effects: bool) -> list[Tensor]:
    """What a loop starts from besides: the token that its first effect takes."""
    return [Tensor(incoming(current_scope()))] if effects else []


def switch(index: Tensor | int, branches: Sequence[Callable[..., Tree]], *operands: Tree) -> Tree:
    """The branch of that number, applied to the operands. A number outside is taken as the nearest."""
    if not branches:
        raise PlanishError.of("switch", "there are no branches")
    chosen = as_tensor("switch", index)
    if chosen.ndim or not chosen.dtype.is_int:
        raise DTypeError.of("switch", f"the index is {_shown(chosen._type)}, not one integer")
    leaves, structure, _ = _leaves("switch", "operand", operands)
    given = tree.unflatten(structure, leaves)
    if stepping.stepping():
        return stepping.branch("switch", branches[min(max(int(chosen), 0), len(branches) - 1)], given)

    def between(low: int, high: int) -> Tree:
        """One of branches[low:high]; half of them are ruled out at a time."""
        if high - low == 1:
            return branches[low](*own(given))
        middle = (low + high) // 2
        left: Callable[..., Tree] = branches[low] if middle - low == 1 else lambda *_: between(low, middle)
        right: Callable[..., Tree] = (
            branches[middle] if high - middle == 1 else lambda *_: between(middle, high)
        )
        return _choice("switch", chosen < middle, left, right, given)

    return between(0, len(branches))


# --- loops --------------------------------------------------------------------------------------------------


class _Carry:
    """What goes around a loop: tensors of fixed types, where Python numbers take the dtype that the body gives them."""

    def __init__(self, op: str, init: Tree) -> None:
        self.op = op
        self.tensors, self.structure, self.weak = _leaves(op, "init", init)

    @property
    def types(self) -> list[TensorType]:
        return [tensor._type for tensor in self.tensors]

    def rebuilt(self, leaves: Sequence[Tensor]) -> Tree:
        return tree.unflatten(self.structure, leaves)

    def agrees(
        self, traced: _TracedRegion, structure: Structure, results: Sequence[Tensor], weak: Sequence[bool]
    ) -> bool:
        """Whether a body gives what it takes; False if a number got another dtype and the body is to be traced again."""
        given = f"what {traced.name} returns"
        _same_structure(self.op, "init", given, self.structure, structure)
        again = False
        for number, path in enumerate(paths(self.structure, "the carried value")):
            a, b = self.tensors[number]._type, results[number]._type
            if a == b:
                continue
            if a.dims == b.dims and self.weak[number]:
                self.tensors[number] = cast_to(self.tensors[number], b.dtype)
                self.weak[number], again = False, True
            elif a.dims == b.dims and weak[number]:
                traced.cast(number, a)
            else:
                raise _mismatch(self.op, "init", given, path, a, b)
        return not again


_COUNTER: Final = tensor_type(dtypes.int64, ())


def _stepping(carry: _Carry, body: Callable[..., Tree], counter: bool, given: bool) -> _TracedRegion:
    """A step of a loop as a body. A counter comes first, and may be given to the function."""

    def arguments(params: Sequence[Tensor]) -> list[Tree]:
        carried = carry.rebuilt(params[int(counter) :])
        return [params[0], carried] if given else [carried]

    while True:
        types = [_COUNTER, *carry.types] if counter else carry.types
        step = _TracedRegion(carry.op, body, types, arguments)
        if carry.agrees(step, step.structure, step.results, step.weak):
            return step


def _next(step: _TracedRegion) -> Tensor:
    """The counter after a step."""
    with reopened(step.scope):
        return Tensor(step.params[0]) + 1


def while_loop(
    condition: Callable[[Tree], Tensor | bool],
    body: Callable[[Tree], Tree],
    init: Tree,
    max_steps: int | None = None,
) -> Tree:
    """`init` through `body`, again and again for as long as `condition` of it is true.

    With `max_steps` it ends after that many steps at the latest, and can be differentiated in reverse.
    """
    op = "while_loop"
    if max_steps is not None and max_steps < 0:
        raise PlanishError.of(op, f"max_steps is {max_steps}", "an integer >= 0")
    carry = _Carry(op, init)
    if stepping.stepping():
        return stepping.while_loop(condition, body, carry.rebuilt(carry.tensors), max_steps)
    counted = max_steps is not None
    step = _stepping(carry, body, counted, given=False)
    types = [_COUNTER, *carry.types] if counted else carry.types
    test = _TracedRegion(op, condition, types, lambda params: [carry.rebuilt(params[int(counted) :])])
    if len(test.results) != 1 or test.results[0].ndim or not test.results[0].dtype.is_bool:
        shown = ", ".join(_shown(result._type) for result in test.results)
        raise DTypeError.of(
            op, f"{test.name} returns {shown}, not one bool", "compare, or take any() or all()"
        )
    effects, last = step.effects or test.effects, len(types)
    with reopened(test.scope):
        tests = tied(test.results)
        if max_steps is not None:
            tests = [Tensor.apply(ops.and_, Tensor(test.params[0]) < max_steps, tests[0])]
    results = [_next(step), *step.results] if counted else step.results
    bodies = _tested(test, tests, last, effects), step.body(results, last, effects)
    start = [constant(0, dtypes.int64)] if counted else []
    outputs = apply(ops.while_, *start, *carry.tensors, *_token(effects), bodies=bodies)
    return carry.rebuilt(_without_token(outputs, last, effects)[int(counted) :])


def _tested(test: _TracedRegion, results: Sequence[Tensor], last: int, effects: bool) -> TracedBody:
    """The condition of a loop; where a token goes around it comes by here too."""
    params: list[LazyValue] = [*test.params]
    if effects:
        incoming(test.scope)
        params.insert(last, cast("Parameter", test.scope.turn))
    return TracedBody(test.scope, params, [x._value for x in results])


def scan(
    function: Callable[[Any, Any], tuple[Any, Any]],
    init: Tree,
    xs: Tree = None,
    length: int | Dim | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = function(carry, x)` for each `x` along the first axis of `xs`: the last carry, and all `y` stacked.

    Without `xs`, `length` says how often. `reverse` starts with the last `x`; the results stay in the order of `xs`.
    """
    op = "scan"
    carry = _Carry(op, init)
    sequences = _Sequences(op, xs, length)
    count = len(carry.tensors)
    if stepping.stepping() and (order := sequences.order(reverse)):
        return stepping.scan(op, function, carry.rebuilt(carry.tensors), sequences.at, order)
    while True:
        step = _TracedRegion(
            op,
            function,
            [*carry.types, *sequences.slices],
            lambda params: [carry.rebuilt(params[:count]), sequences.rebuilt(params[count:])],
        )
        if not isinstance(step.returned, tuple) or len(step.returned) != 2:
            raise PlanishError.of(
                op,
                f"{step.name} has to return a pair (carry, y), not {type(step.returned).__name__}",
                "return (carry, None) if there is nothing to stack",
            )
        kept, outputs = step.structure.children
        if carry.agrees(step, kept, step.results, step.weak):
            break
    results = _scanned(step, carry.tensors, sequences, reverse)
    return carry.rebuilt(results[:count]), tree.unflatten(outputs, results[count:])


def _scanned(
    step: _TracedRegion, carried: Sequence[Tensor], sequences: _Sequences, reverse: bool = False
) -> list[Tensor]:
    effects, count = step.effects, len(carried)
    attrs = ops.ScanAttrs(count + effects, sequences.length, reverse)
    body = step.body(None, count, effects)
    outputs = apply(ops.scan, *carried, *_token(effects), *sequences.tensors, attrs=attrs, bodies=(body,))
    return _without_token(outputs, count, effects)


class _Sequences:
    """What a loop goes along: trees of tensors with equal first axes."""

    def __init__(self, op: str, xs: Tree, length: int | Dim | None) -> None:
        self.tensors, self.structure, _ = _leaves(op, "xs", xs)
        self.length = self._steps(op, length)

    @property
    def slices(self) -> list[TensorType]:
        return [TensorType(x.dtype, x._type.dims[1:], x._type.quant) for x in self.tensors]

    def rebuilt(self, leaves: Sequence[Tensor]) -> Tree:
        return tree.unflatten(self.structure, leaves)

    def at(self, number: int) -> Tree:
        """The slices of a step."""
        return self.rebuilt([x[number] for x in self.tensors])

    def order(self, reverse: bool = False) -> Sequence[int]:
        """The numbers of the steps as they follow; none where nobody knows how many there are."""
        steps = range(self.length) if isinstance(self.length, int) else range(0)
        return steps[::-1] if reverse else steps

    def _steps(self, op: str, length: int | Dim | None) -> DimLike:
        steps: DimLike | None = length
        whose = "length"
        for x, path in zip(self.tensors, paths(self.structure, "xs"), strict=True):
            if x.ndim == 0:
                raise ShapeError.of(
                    op, f"{path} has no axis to go along", "close over what is the same in every step"
                )
            size = x._type.dims[0]
            if steps is None:
                steps, whose = size, path
            elif steps != size:
                raise ShapeError.of(
                    op,
                    f"{path} has {size} steps ({_shown(x._type)}), {whose} has {steps}",
                    "all sequences need the same size along their first axis",
                )
        if steps is None:
            raise PlanishError.of(op, "neither xs nor length says how many steps there are")
        if isinstance(steps, int) and steps < 0:
            raise ShapeError.of(op, f"the length is {steps}")
        return steps


def fori_loop(
    lower: int | Tensor, upper: int | Tensor, body: Callable[[Tensor, Tree], Tree], init: Tree
) -> Tree:
    """`init` through `body(i, value)` for i from `lower` up to, not including, `upper`.

    Between Python integers it is a scan, which can be differentiated in reverse.
    """
    op = "fori_loop"
    ends = [as_tensor(op, end) for end in (lower, upper)]
    for end, what in zip(ends, ("lower", "upper"), strict=True):
        if end.ndim or not end.dtype.is_int:
            raise DTypeError.of(op, f"{what} is {_shown(end._type)}, not one integer")
    first, last = (cast_to(end, dtypes.int64) for end in ends)
    carry = _Carry(op, init)
    if stepping.stepping():
        return stepping.fori_loop(range(int(first), int(last)), body, carry.rebuilt(carry.tensors))
    step = _stepping(carry, body, counter=True, given=True)
    count, effects = 1 + len(carry.tensors), step.effects
    onward = step.body([_next(step), *step.results], count, effects)
    start = [first, *carry.tensors, *_token(effects)]
    if isinstance(lower, int) and isinstance(upper, int):
        attrs = ops.ScanAttrs(count + effects, max(0, upper - lower))
        outputs = apply(ops.scan, *start, attrs=attrs, bodies=(onward,))
    else:
        test = _TracedRegion(
            op, lambda params: params[0] < last, [_COUNTER, *carry.types], lambda params: [params]
        )
        outputs = apply(ops.while_, *start, bodies=(_tested(test, test.results, count, effects), onward))
    return carry.rebuilt(_without_token(outputs, count, effects)[1:])


def map(function: Callable[[Any], Tree], xs: Tree) -> Tree:
    """A function applied to each element along the first axis of `xs`, one after the other; the results stacked.

    `vmap` does the same all at once, with more memory.
    """
    op = "map"
    sequences = _Sequences(op, xs, None)
    if stepping.stepping() and (order := sequences.order()):
        return stepping.scan(op, lambda _, x: (None, function(x)), None, sequences.at, order)[1]
    step = _TracedRegion(op, function, sequences.slices, lambda params: [sequences.rebuilt(params)])
    return tree.unflatten(step.structure, _scanned(step, (), sequences))


__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]

report_all(globals(), __all__)
