"""Functions that differentiation treats in a way of their own: fixed, computed again, or with rules that are given.

They are ordinary functions otherwise. While a function is being traced, such a call becomes one op with the function in it
(`planish.frontend.markers`), which survives loops, `jit`, `vmap` and further differentiation; the compiler sees the body.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeVar

from planish import dtypes
from planish.errors import GraphError, PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.expression import TracedBody
from planish.frontend.flat import Flat, TracedTree, Tree, as_tensor, is_real_or_complex, own, shown
from planish.frontend.markers import CHECKPOINT, CUSTOM_JVP, CUSTOM_VJP, CustomAttrs
from planish.frontend.session import arguments_known, current_scope
from planish.frontend.tensor.application import apply
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import cast_to, constant
from planish.ptir import ops
from planish.ptir.ops.definition import OpDef
from planish.ptir.types import TensorType
from planish.tracebacks import short_tracebacks

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_WORDS: Final = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64, 128: dtypes.uint64}


def stop_gradient(value: T) -> T:
    """The same tree of tensors, which differentiation takes for constants."""
    return tree.map_tree(_fixed, value)


def _fixed(leaf: Tree) -> Tree:
    if not isinstance(leaf, Tensor) or not is_real_or_complex(leaf._type) or current_scope() is None:
        return own(leaf)
    # read as bits and back: bits have no derivative, and the compiler takes both out
    word = Tensor.apply(ops.bitcast, leaf, attrs=ops.BitcastAttrs(_WORDS[leaf.dtype.bits]))
    return Tensor.apply(ops.bitcast, word, attrs=ops.BitcastAttrs(leaf.dtype))


def _called(function: Callable[..., R], args: Sequence[Any], kwargs: dict[str, Any]) -> R:
    """The function itself, with tensors of its own as if it were traced."""
    args, kwargs = own((tuple(args), kwargs))
    result: R = own(function(*args, **kwargs))
    return result


def _known(given: Flat) -> list[Tensor] | None:
    """The arguments that a function may look at: under `grad` without `jit` it is traced for these alone."""
    return given.tensors if arguments_known() else None


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, of which a gradient keeps the arguments alone and computes the rest again when it comes back.

    It trades time for memory. What is computed again depends on the cotangents through values that no optimiser can see
    through, so that it is neither merged with the first computation nor done before it is needed.
    """

    @functools.wraps(function)
    @short_tracebacks
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        if current_scope() is None:
            return _called(function, args, kwargs)
        given = Flat((args, kwargs))

        def call(params: Sequence[Tensor]) -> Tree:
            positional, named = given.rebuilt(params)
            return function(*positional, **named)

        traced = TracedTree("checkpoint", call, given.types, convert=False, arguments=_known(given))
        outputs = apply(CHECKPOINT, *given.tensors, bodies=(traced.body,))
        result: R = traced.result.rebuilt(outputs)
        return result

    return checkpointed


# -- rules of one's own ----------------------------------------------------------------------------------------


# A rule may call the function that it is for, which then has rules again: so many times, for as many further derivatives.
_DEEPEST: Final = 2
_DEPTH: ContextVar[dict[object, int]] = ContextVar("depth", default={})  # noqa: B039 - never changed, only replaced


class _Custom(ABC, Generic[P, R]):
    """A function with a rule for its derivatives."""

    what: ClassVar[str]
    op: ClassVar[OpDef]

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @short_tracebacks
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            raise PlanishError.of(self.name, f"a function with {self.what} takes no keyword arguments",
                "give them in their place",
            )  # fmt: skip
        depth = _DEPTH.get().get(self, 0)
        if current_scope() is None or depth == _DEEPEST:
            return _called(self.function, args, {})
        given = Flat(args)
        traced = TracedTree(
            self.what,
            lambda params: self.function(*given.rebuilt(params)),  # type: ignore[call-arg] # as they were given
            given.types,
            arguments=_known(given),
            once=False,
        )
        token = _DEPTH.set(_DEPTH.get() | {self: depth + 1})
        try:
            bodies = (traced.body, *self._rules(given, traced.result))
        finally:
            _DEPTH.reset(token)
        outputs = apply(self.op, *given.tensors, attrs=CustomAttrs(self.name), bodies=bodies)
        result: R = traced.result.rebuilt(outputs)
        return result

    @abstractmethod
    def _rules(self, given: Flat, result: Flat) -> tuple[TracedBody, ...]:
        """The bodies of the rules, for arguments and a result like these."""

    def _missing(self, method: str) -> GraphError:
        return GraphError.of(
            self.name, "it has no rule for its derivative yet", f"give it one with {self.name}.{method}"
        )

    def _checked(
        self, rule: str, parts: Sequence[Tree], model: Sequence[TensorType], of: str
    ) -> list[Tensor]:
        """What a rule gave, for values of these types; None is nothing."""
        tensors = []
        for part, type in zip(parts, model, strict=True):
            if not is_real_or_complex(type):
                continue
            x = constant(0, type.dtype, type.dims) if part is None else as_tensor(rule, part)
            if x._type.dims != type.dims or x.dtype.is_complex > type.dtype.is_complex:
                raise ShapeError.of(
                    self.name, f"the rule {rule} gives {shown(x._type)} for {of} {shown(type)}"
                )
            tensors.append(cast_to(x, type.dtype))
        return tensors

    def _results(self, rule: str, returned: Tree, result: Flat) -> list[Tensor]:
        """The tensors of what a rule gives as the result of the function, which has to be like it."""
        leaves = tree.aligned(returned, result.structure)
        if leaves is not None:
            tensors = [as_tensor(rule, leaves[place]) for place in result.places]
            if [x._type for x in tensors] == result.types:
                return tensors
            kinds = ", ".join(shown(x._type) for x in tensors)
        else:
            kinds = f"a tree {tree.flatten(returned)[1]}"
        wanted = ", ".join(map(shown, result.types))
        raise ShapeError.of(self.name, f"the rule {rule} gives {kinds} where the function gives {wanted}")

    def _fitting(self, rule: str, returned: Tree, model: Flat, of: str) -> list[Tensor]:
        """The tensors of a tree that has to be like another one."""
        leaves = tree.aligned(returned, model.structure)
        if leaves is None:
            raise PlanishError.of(self.name,
                f"the rule {rule} gives a tree {tree.flatten(returned)[1]} for {of}, which are {model.structure}",
            )  # fmt: skip
        return self._checked(rule, [leaves[place] for place in model.places], model.types, of)


def _spread(model: Flat, tensors: Sequence[Tensor]) -> Tree:
    """Tensors for what can move in a tree, None for the rest."""
    rest = iter(tensors)
    leaves: list[Tree] = [None] * len(model.leaves)
    for place, type in zip(model.places, model.types, strict=True):
        if is_real_or_complex(type):
            leaves[place] = next(rest)
    return tree.unflatten(model.structure, leaves)


def _moving(types: Sequence[TensorType]) -> list[TensorType]:
    return [type for type in types if is_real_or_complex(type)]


def _label(rule: Callable[..., Any]) -> str:
    return getattr(rule, "__name__", "of its derivative")


class custom_jvp(_Custom[P, R]):  # noqa: N801 - a decorator
    """A function whose tangents go by a rule: `f.defjvp(rule)`, with `rule(primals, tangents) -> (result, tangent)`.

    Both arguments are tuples like the arguments of the function; a tangent is None for what cannot move. The rule has to be
    linear in the tangents: gradients are its transpose. What the function sees besides its arguments counts as constant.
    """

    what = "custom_jvp"
    op = CUSTOM_JVP

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]] | None = None

    def defjvp(
        self, rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]]
    ) -> Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, Any]]:
        """Say how tangents go; usable as a decorator."""
        self.rule = rule
        return rule

    def _rules(self, given: Flat, result: Flat) -> tuple[TracedBody, ...]:
        rule = self.rule
        if rule is None:
            raise self._missing("defjvp(rule)")
        count = len(given.places)
        label = _label(rule)

        def call(params: Sequence[Tensor]) -> list[Tensor]:
            returned: Tree = rule(tuple(given.rebuilt(params[:count])), tuple(_spread(given, params[count:])))
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise PlanishError.of(self.name, f"the rule {label} has to give a pair (result, tangent)")
            values = self._results(label, returned[0], result)
            return [*values, *self._fitting(label, returned[1], result, "the tangent of")]

        types = [*given.types, *_moving(given.types)]
        return (TracedTree(self.what, call, types, arguments=_known(given), once=False).body,)


class custom_vjp(_Custom[P, R]):  # noqa: N801 - a decorator
    """A function whose cotangents go by rules: `f.defvjp(forward, backward)`.

    `forward(*args) -> (result, kept)` computes the function and says what the way back needs; `backward(kept, cotangent)` gives a
    tuple with a cotangent for each argument, None for nothing. The cotangent is a tree like the result. Tangents go by the
    transpose of `backward`. What the function sees besides its arguments counts as constant.
    """

    what = "custom_vjp"
    op = CUSTOM_VJP

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function)
        self.rules: tuple[Callable[..., tuple[Any, Any]], Callable[[Any, Any], Any]] | None = None

    def defvjp(self, forward: Callable[..., tuple[Any, Any]], backward: Callable[[Any, Any], Any]) -> None:
        """Say what to keep, and how cotangents go back."""
        self.rules = (forward, backward)

    def _rules(self, given: Flat, result: Flat) -> tuple[TracedBody, ...]:
        if self.rules is None:
            raise self._missing("defvjp(forward, backward)")
        forward, backward = self.rules
        kept: list[Flat] = []

        def there(params: Sequence[Tensor]) -> list[Tensor]:
            returned: Tree = forward(*given.rebuilt(params))
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise PlanishError.of(self.name,
                    f"the rule {_label(forward)} has to give a pair: the result, and what the way back needs",
                )  # fmt: skip
            kept.append(Flat(returned[1]))
            return [*self._results(_label(forward), returned[0], result), *kept[0].tensors]

        first = TracedTree(self.what, there, given.types, arguments=_known(given), once=False)

        def back(params: Sequence[Tensor]) -> list[Tensor]:
            count = len(kept[0].places)
            cotangents = backward(kept[0].rebuilt(params[:count]), _spread(result, params[count:]))
            if len(given.structure.children) == 1 and not isinstance(cotangents, tuple):
                cotangents = (cotangents,)
            if not isinstance(cotangents, tuple) or len(cotangents) != len(given.structure.children):
                raise PlanishError.of(self.name,
                    f"the rule {_label(backward)} has to give a tuple of {len(given.structure.children)} cotangents,"
                    " one per argument",
                )  # fmt: skip
            return self._cotangents(_label(backward), cotangents, given)

        second = TracedTree(self.what, back, [*kept[0].types, *_moving(result.types)])
        return first.body, second.body

    def _cotangents(self, rule: str, cotangents: tuple[Tree, ...], given: Flat) -> list[Tensor]:
        """A cotangent for each tensor that can move; None for an argument is nothing for all of it."""
        leaves: list[Tree] = []
        for part, structure in zip(cotangents, given.structure.children, strict=True):
            own = [None] * structure.leaves if part is None else tree.aligned(part, structure)
            if own is None:
                raise PlanishError.of(self.name,
                    f"the rule {rule} gives a tree {tree.flatten(part)[1]} for an argument {structure}",
                )  # fmt: skip
            leaves += own
        return self._checked(rule, [leaves[place] for place in given.places], given.types, "an argument")
