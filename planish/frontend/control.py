"""Control flow that is part of the program: cond, switch, while_loop, scan, fori_loop, map.

The functions given are traced, whether the call itself is traced or not, and become the regions of one op. They take and give trees of
tensors, and may use tensors from outside. What goes around a loop keeps its structure, shapes and dtypes; where it does not,
the error names the leaf and both types.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from planish import dtypes
from planish.errors import DTypeError, Location, PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.arguments import paths
from planish.frontend.expression import Body, reopened, tracing
from planish.frontend.tensor.array import Scalar, Tensor, apply
from planish.frontend.tensor.operands import cast_to, constant
from planish.frontend.tensor.operands import tensor as as_tensor
from planish.frontend.tree import Structure
from planish.ptir import ops
from planish.ptir.dims import Dim, DimLike
from planish.ptir.ops.control import ScanAttrs
from planish.ptir.types import TensorType

T = TypeVar("T")
Tree = Any
"""Tensors and numbers in containers."""


# --- trees of tensors ---------------------------------------------------------------------------------------


def _leaves(op: str, what: str, given: Tree) -> tuple[list[Tensor], Structure, list[bool]]:
    """The tensors of a tree, its structure, and which of them were Python numbers."""
    leaves, structure = tree.flatten(given)
    tensors: list[Tensor] = []
    for leaf, path in zip(leaves, paths(structure, what), strict=True):
        if not isinstance(leaf, Tensor | bool | int | float | complex | np.ndarray | np.generic):
            raise DTypeError(
                f"{op}: {path} is neither a tensor nor a number: {leaf!r}",
                op=op,
                location=Location.caller(),
                remedy="close over it, or convert it with planish.asarray",
            )
        tensors.append(as_tensor(op, leaf).latest)
    return tensors, structure, [isinstance(leaf, bool | int | float | complex) for leaf in leaves]


class _Traced:
    """A function of trees as a body: what it takes, what it gives."""

    def __init__(
        self,
        op: str,
        function: Callable[..., Tree],
        types: Sequence[TensorType],
        arguments: Callable[[Sequence[Tensor]], Sequence[Tree]],
    ) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        with tracing(op) as scope:
            params = [Tensor.parameter(type, scope) for type in types]
            scope.names.update((id(param), f"what {op} gives to {self.name}") for param in params)
            returned = function(*arguments(params))
            self.returned = returned
            self.results, self.structure, self.weak = _leaves(op, f"what {self.name} returns", returned)
        self.scope, self.params = scope, params

    def body(self, results: Sequence[Tensor] | None = None) -> Body:
        return Body(self.scope, self.params, self.results if results is None else results)

    def cast(self, number: int, type: TensorType) -> None:
        """A result that was a Python number in the dtype that is wanted."""
        with reopened(self.scope):
            self.results[number] = cast_to(self.results[number], type.dtype)


def _shown(type: TensorType) -> str:
    return f"{type.dtype.name}[{', '.join(builtins.map(str, type.dims))}]"


def _mismatch(op: str, first: str, second: str, path: str, a: TensorType, b: TensorType) -> PlanishError:
    kind: type[PlanishError] = ShapeError if a.dims != b.dims else DTypeError
    return kind(
        f"{op}: {path} is {_shown(a)} in {first} and {_shown(b)} in {second}",
        op=op,
        location=Location.caller(),
        remedy="make both the same: astype converts, reshape and broadcast_to change shapes",
    )


def _same_structure(op: str, first: str, second: str, a: Structure, b: Structure) -> None:
    if a == b:
        return
    ours, theirs = set(paths(a, "")), set(paths(b, ""))
    only = [f"{path or 'a leaf'} only in {first}" for path in sorted(ours - theirs)]
    only += [f"{path or 'a leaf'} only in {second}" for path in sorted(theirs - ours)]
    raise PlanishError(
        f"{op}: {first} is {a} and {second} is {b}" + (f" ({'; '.join(only[:4])})" if only else ""),
        op=op,
        location=Location.caller(),
        remedy="return the same containers with the same keys",
    )


# --- cond ---------------------------------------------------------------------------------------------------


def _predicate(op: str, value: Tensor | Scalar) -> Tensor:
    found = as_tensor(op, value)
    if found.ndim or not found.dtype.is_bool:
        raise DTypeError(
            f"{op}: the predicate is {_shown(found._type)}, not one bool",
            op=op,
            location=Location.caller(),
            remedy="compare (x > 0), or take any() or all() of it; planish.where chooses element by element",
        )
    return found


def cond(predicate: Tensor | bool, then: Callable[..., T], otherwise: Callable[..., T], *operands: Tree) -> T:
    """`then(*operands)` if the predicate is true, else `otherwise(*operands)`; only one of them is computed."""
    chosen = _predicate("cond", predicate)
    leaves, structure, _ = _leaves("cond", "operand", operands)
    given = tree.unflatten(structure, leaves)
    return _choice("cond", chosen, then, otherwise, given)  # type: ignore[no-any-return] # what the branches return


def _choice(
    op: str, chosen: Tensor, then: Callable[..., Tree], otherwise: Callable[..., Tree], given: Sequence[Tree]
) -> Tree:
    first = _Traced(op, then, (), lambda _: given)
    second = _Traced(op, otherwise, (), lambda _: given)
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
    made = apply(ops.cond, chosen, bodies=(first.body(), second.body()))
    return tree.unflatten(first.structure, made)


def switch(index: Tensor | int, branches: Sequence[Callable[..., T]], *operands: Tree) -> T:
    """The branch of that number, applied to the operands. A number outside is taken as the nearest."""
    if not branches:
        raise PlanishError("switch: there are no branches", op="switch", location=Location.caller())
    chosen = as_tensor("switch", index)
    if chosen.ndim or not chosen.dtype.is_int:
        raise DTypeError(
            f"switch: the index is {_shown(chosen._type)}, not one integer",
            op="switch",
            location=Location.caller(),
        )
    leaves, structure, _ = _leaves("switch", "operand", operands)
    given = tree.unflatten(structure, leaves)

    def between(low: int, high: int) -> Tree:
        """One of branches[low:high]; half of them are ruled out at a time."""
        if high - low == 1:
            return branches[low](*given)
        middle = (low + high) // 2
        left: Callable[..., Tree] = branches[low] if middle - low == 1 else lambda *_: between(low, middle)
        right: Callable[..., Tree] = (
            branches[middle] if high - middle == 1 else lambda *_: between(middle, high)
        )
        return _choice("switch", chosen < middle, left, right, given)

    return between(0, len(branches))  # type: ignore[no-any-return] # what the branches return


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
        self, traced: _Traced, structure: Structure, results: Sequence[Tensor], weak: Sequence[bool]
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


def while_loop(
    condition: Callable[[T], Tensor | bool],
    body: Callable[[T], T],
    init: T,
    max_steps: int | None = None,
) -> T:
    """`init` through `body`, again and again for as long as `condition` of it is true.

    With `max_steps` it ends after that many steps at the latest, and can be differentiated in reverse.
    """
    if max_steps is not None:
        return _bounded(condition, body, init, max_steps)
    op = "while_loop"
    carry = _Carry(op, init)
    while True:
        step = _Traced(op, body, carry.types, lambda params: [carry.rebuilt(params)])
        if carry.agrees(step, step.structure, step.results, step.weak):
            break
    test = _Traced(op, condition, carry.types, lambda params: [carry.rebuilt(params)])
    if len(test.results) != 1 or test.results[0].ndim or not test.results[0].dtype.is_bool:
        shown = ", ".join(_shown(result._type) for result in test.results)
        raise DTypeError(
            f"{op}: {test.name} returns {shown}, not one bool",
            op=op,
            location=Location.caller(),
            remedy="compare, or take any() or all()",
        )
    made = apply(ops.while_, *carry.tensors, bodies=(test.body(), step.body()))
    return carry.rebuilt(made)  # type: ignore[no-any-return] # a tree like init


def _bounded(condition: Callable[[T], Tensor | bool], body: Callable[[T], T], init: T, most: int) -> T:
    if most < 0:
        raise PlanishError(
            f"while_loop: max_steps is {most}",
            op="while_loop",
            location=Location.caller(),
            remedy="an integer >= 0",
        )

    def counted(state: tuple[Tensor, T]) -> Tensor:
        again = _predicate("while_loop", condition(state[1]))
        return Tensor.apply(ops.and_, state[0] < most, again)

    def step(state: tuple[Tensor, T]) -> tuple[Tensor, T]:
        return state[0] + 1, body(state[1])

    for inner, outer in ((counted, condition), (step, body)):
        inner.__name__ = getattr(outer, "__name__", type(outer).__name__)
    return while_loop(counted, step, (constant(0, dtypes.int64), init))[1]


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
    sequences, structure, _ = _leaves(op, "xs", xs)
    steps = _length(op, sequences, structure, length)
    slices = [TensorType(x.dtype, x._type.dims[1:], x._type.quant) for x in sequences]
    count = len(carry.tensors)

    def arguments(params: Sequence[Tensor]) -> list[Tree]:
        return [carry.rebuilt(params[:count]), tree.unflatten(structure, params[count:])]

    while True:
        step = _Traced(op, function, [*carry.types, *slices], arguments)
        if not isinstance(step.returned, tuple) or len(step.returned) != 2:
            raise PlanishError(
                f"scan: {step.name} has to return a pair (carry, y), not {type(step.returned).__name__}",
                op=op,
                location=Location.caller(),
                remedy="return (carry, None) if there is nothing to stack",
            )
        kept, outputs = step.structure.children
        if carry.agrees(step, kept, step.results[:count], step.weak[:count]):
            break
    made = apply(
        ops.scan, *carry.tensors, *sequences, attrs=ScanAttrs(count, steps, reverse), bodies=(step.body(),)
    )
    return carry.rebuilt(made[:count]), tree.unflatten(outputs, made[count:])


def _length(op: str, sequences: Sequence[Tensor], structure: Structure, length: int | Dim | None) -> DimLike:
    """How many steps there are."""
    found: DimLike | None = length
    whose = "length"
    for x, path in zip(sequences, paths(structure, "xs"), strict=True):
        if x.ndim == 0:
            raise ShapeError(
                f"{op}: {path} has no axis to go along", op=op, location=Location.caller(),
                remedy="close over what is the same in every step",
            )  # fmt: skip
        size = x._type.dims[0]
        if found is None:
            found, whose = size, path
        elif found != size:
            raise ShapeError(
                f"{op}: {path} has {size} steps ({_shown(x._type)}), {whose} has {found}",
                op=op,
                location=Location.caller(),
                remedy="all sequences need the same size along their first axis",
            )
    if found is None:
        raise PlanishError(
            f"{op}: neither xs nor length says how many steps there are", op=op, location=Location.caller()
        )
    if isinstance(found, int) and found < 0:
        raise ShapeError(f"{op}: the length is {found}", op=op, location=Location.caller())
    return found


def fori_loop(lower: int | Tensor, upper: int | Tensor, body: Callable[[Tensor, T], T], init: T) -> T:
    """`init` through `body(i, value)` for i from `lower` up to, not including, `upper`.

    Between Python integers it is a scan, which can be differentiated in reverse.
    """
    name = getattr(body, "__name__", type(body).__name__)
    if isinstance(lower, int) and isinstance(upper, int):
        start = constant(lower, dtypes.int64)

        def step(state: tuple[Tensor, T], _: None) -> tuple[tuple[Tensor, T], None]:
            return (state[0] + 1, body(*state)), None

        step.__name__ = name
        (_, result), _ = scan(step, (start, init), length=max(0, upper - lower))
        return result  # type: ignore[no-any-return] # a tree like init
    ends = [as_tensor("fori_loop", end) for end in (lower, upper)]
    for end, what in zip(ends, ("lower", "upper"), strict=True):
        if end.ndim or not end.dtype.is_int:
            raise DTypeError(
                f"fori_loop: {what} is {_shown(end._type)}, not one integer",
                op="fori_loop",
                location=Location.caller(),
            )
    first, last = (cast_to(end, dtypes.int64) for end in ends)

    def again(state: tuple[Tensor, T]) -> Tensor:
        return state[0] < last

    def onward(state: tuple[Tensor, T]) -> tuple[Tensor, T]:
        return state[0] + 1, body(*state)

    onward.__name__ = name
    return while_loop(again, onward, (first, init))[1]


def map(function: Callable[[Any], T], xs: Tree) -> T:
    """A function applied to each element along the first axis of `xs`, one after the other; the results stacked.

    `vmap` does the same all at once, with more memory.
    """

    def step(_: None, x: Tree) -> tuple[None, T]:
        return None, function(x)

    step.__name__ = getattr(function, "__name__", type(function).__name__)
    return scan(step, None, xs)[1]  # type: ignore[no-any-return] # what the function returns, stacked


__all__ = ["cond", "fori_loop", "map", "scan", "switch", "while_loop"]
