"""Recipes: what a function of the API made of tensors of certain types, applied again without calling it.

Which ops a function applies depends on the types of its tensors and on its other arguments (axes, shapes, dtypes), and programs call
the same functions on the same types over and over. When a call comes for the second time, the function is called with
parameters in place of its tensors, and the ops that it applied are written down: a `OpRecipe`. From then on a call finds it by the
identity of types, and makes the same expression. `dispatch` does the same for the functions that are one op.

Only functions that never look at elements are `remembered`. One that does finds none in a parameter, and keeps being called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from itertools import count
from typing import Any, Final, TypeVar, cast
from weakref import ref

from planish.dtypes import DType
from planish.errors import PlanishError, call_site
from planish.frontend.expression import LazyValue, Node, OpSignature, Parameter
from planish.frontend.session import DEEPEST, MANY, SESSION, SIDE, current_scope, tracing
from planish.frontend.tensor.array import Tensor
from planish.ptir import ops
from planish.tracebacks import shorten

F = TypeVar("F", bound=Callable[..., Any])
_LARGEST: Final = 4096
"""Recipes of one function."""
_LONGEST: Final = 64
"""Ops of a recipe: beyond, their own cost is what counts."""
_PLAIN: Final = frozenset({int, bool, str, type(None), DType, type(...)})
"""Arguments that are part of what a recipe is found by."""
_new: Final = object.__new__
_numbers: Final = count(-1, -1)


class OpRecipe:
    """Ops in order: each with the places of its operands among the tensors given and the results so far."""

    __slots__ = ("constants", "kept", "number", "results", "single", "steps")

    def __init__(
        self,
        steps: Sequence[tuple[OpSignature, tuple[int, ...]]],
        results: Sequence[int],
        single: bool,
        kept: object,
    ) -> None:
        self.steps = tuple(steps)
        self.results = tuple(results)
        self.single = single
        """Whether the function gives a tensor, not a tuple of them."""
        self.kept = kept
        """The types by whose identity it is found."""
        self.number = next(_numbers)
        """What its result is run by (`planish.frontend.direct`); those of signatures are positive."""
        self.constants: dict[int, LazyValue] = {}
        """Constants of steps, which expressions outside of traces share."""

    def applied(self, given: Sequence[LazyValue], device: str | None) -> Any:
        """The expression of these tensors."""
        scope, site = current_scope(), call_site()
        values = list(given)
        for x in given:
            x.shared = True
        for signature, places in self.steps:
            at = len(values)
            if not places and scope is None and at in self.constants:
                values.append(self.constants[at])
                continue
            node = Node()
            inputs = [values[place] for place in places]
            depth, last = 0, None
            for x in inputs:
                source = x.node
                if source is not None and source is not last:
                    last, below = source, source.depth
                    if below > depth:
                        depth, below = below, depth
                    depth += below if below < SIDE else SIDE
            node.signature = signature
            node.inputs = tuple(inputs)
            node.bodies = node.others = ()
            node.depth = depth + 1 if places else 0
            node.scope = scope
            node.site = site
            node.name = node.origin = None
            for index, type in enumerate(signature.types):
                value = LazyValue()
                value.type = type
                value.storage = None
                value.node = node
                value.index = index
                value.device = device if places else None
                value.shared = True  # other ops of the recipe may read it
                values.append(value)
            if not places and scope is None and signature.op is ops.constant:
                self.constants[at] = values[at]
        if len(self.results) == 1:
            result = self._named(values[self.results[0]], given)
            return result if self.single else (result,)
        return tuple([self._named(values[place], ()) for place in self.results])

    def _named(self, value: LazyValue, origin: Sequence[LazyValue]) -> Tensor:
        result = _new(Tensor)
        result._value = value
        node = cast("Node", value.node)
        result._scope = node.scope
        node.others = (*node.others, ref(result))
        if origin:
            value.shared = False
            node.origin = (self.number, tuple(origin))
        if node.depth >= DEEPEST:
            SESSION.settle_deep((value,), node)
        return result


def remembered(function: F) -> F:
    """The function, with recipes for calls that come again."""
    known: dict[tuple[Hashable, ...], OpRecipe | None] = {}

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            key: list[Hashable] = []
            given: list[LazyValue] = []
            if not _read(args, key, given) or (options and not _named(options, key, given)) or not given:
                return function(*args, **options)
            call_key = tuple(key)
            recipe = known.get(call_key, call_key)
            if recipe.__class__ is OpRecipe:
                device = given[0].device
                for x in given:
                    if x.device is not device and x.device != device:
                        return function(*args, **options)
                return recipe.applied(given, device)
            result = function(*args, **options)
            if recipe is call_key:
                if len(known) >= _LARGEST:
                    known.clear()
                known[call_key] = None
            elif recipe is None:
                # the second time; where nothing can be written down, not again
                written = _written(function, args, options)
                known[call_key] = written if written is not None else cast("OpRecipe", False)
            return result
        except Exception as error:
            shorten(error)
            raise

    return cast("F", call)


def _read(args: Sequence[Any], key: list[Hashable], given: list[LazyValue]) -> bool:
    """Write down what arguments are, and which tensors are among them; False if a recipe cannot be found by them."""
    for arg in args:
        kind = arg.__class__
        if kind is Tensor:
            value = arg._value
            given.append(value)
            key.append(id(value.type))
        elif kind in _PLAIN:
            key.append(kind)
            key.append(arg)
        elif kind is tuple or kind is list:
            if len(arg) > MANY:
                return False
            key.append(kind)
            key.append(len(arg))
            if not _read(arg, key, given):
                return False
        elif kind is slice:
            key.append(kind)
            tensors = len(given)
            if not _read((arg.start, arg.stop, arg.step), key, given) or len(given) > tensors:
                return False  # (the bounds decide on the shape, so their values count)
        elif kind is float and -1024 <= arg <= 1024 and (2 * arg).is_integer():
            # other floats are such as change from call to call
            key.append(kind)
            key.append(arg or str(arg))
        else:
            return False
    return True


def _named(options: dict[str, Any], key: list[Hashable], given: list[LazyValue]) -> bool:
    key += options
    return _read(tuple(options.values()), key, given)


def _written(function: Callable[..., Any], args: Sequence[Any], options: dict[str, Any]) -> OpRecipe | None:
    """What the function does with tensors like these; None where that cannot be told from types alone."""
    params: list[Parameter] = []
    types: list[object] = []

    with tracing("a recipe") as scope:

        def stand_in(arg: Any) -> Any:
            if arg.__class__ is Tensor:
                params.append(Parameter.new(arg._type, scope))
                types.append(arg._type)
                return Tensor(params[-1])
            if arg.__class__ in (tuple, list):
                return type(arg)([stand_in(one) for one in arg])
            return arg

        # one after the other: a recipe is found by the tensors of positions before those of names
        positions = [stand_in(arg) for arg in args]
        names = {name: stand_in(arg) for name, arg in options.items()}
        try:
            returned = function(*positions, **names)
        except PlanishError:
            return None
    results = returned if isinstance(returned, tuple) else (returned,)
    if not all(x.__class__ is Tensor for x in results):
        return None
    return _ordered(params, [x._value for x in results], not isinstance(returned, tuple), types)


def _ordered(
    params: Sequence[LazyValue], results: Sequence[LazyValue], single: bool, kept: object
) -> OpRecipe | None:
    places: dict[LazyValue, int] = {param: number for number, param in enumerate(params)}
    if any(result in places for result in results):
        return None
    nodes: dict[Node, int] = {}
    steps: list[tuple[OpSignature, tuple[int, ...]]] = []
    next_place = len(params)

    def place(value: LazyValue) -> int:
        node = value.node
        return places[value] if node is None or node not in nodes else nodes[node] + value.index

    pending = [(result, False) for result in reversed(results)]
    while pending:
        value, ready = pending.pop()
        node = value.node
        if value in places or node in nodes:
            continue
        if node is None or node.bodies or value.storage is not None or len(steps) >= _LONGEST:
            return None
        if ready:
            steps.append((node.signature, tuple([place(x) for x in node.inputs])))
            nodes[node] = next_place
            next_place += len(node.signature.types)
        else:
            pending.append((value, True))
            pending += [(x, False) for x in reversed(node.inputs)]
    return OpRecipe(steps, [place(result) for result in results], single, kept)
