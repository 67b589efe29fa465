"""Calls in NumPy's spelling: its names and order of parameters, and those of its options that have nothing to say here.

Functions of planish have the parameters of the array API standard, `tile(x, repetitions)`; people write NumPy's, `np.tile(A=x, reps=2)`,
`np.sum(x, 0, None, None, True)`, `np.sort(x, kind="stable")`. A call that Python refuses is read once more, by the signature of NumPy's
function of that name: each argument goes to our parameter of the same name, or else of the same place. Calls that are right cost nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from inspect import Parameter, Signature
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
_SILENT: Final = frozenset({"casting", "copy", "hermitian", "kind", "optimize", "overwrite_input", "subok"})
"""Options of NumPy that say how a result is found, not which."""
PYTORCH: Final = {
    "input": "x", "input1": "x1", "input2": "x2", "dim": "axis", "keepdim": "keepdims", "eps": "epsilon", "var": "variance",
}  # fmt: skip
"""PyTorch's names of parameters, and ours: functions and layers of `nn` take both, for others the name is told."""
_ROW_MAJOR: Final = frozenset({"A", "C", "K"})
"""Orders of elements in memory that leave a result as it is."""
_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class UnknownOption(TypeError):
    """NumPy's function has an option that ours has not, and it is used."""

    def __init__(self, name: str, value: object) -> None:
        super().__init__(name)
        self.name = name
        self.value = value


def arguments_of(model: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """The function, which hands on what it is given, with the arguments of another as its own."""

    def signed(function: Callable[..., R]) -> Callable[P, R]:
        cast("Any", function).__signature__ = inspect.signature(model)
        return cast("Callable[P, R]", function)

    return signed


def respelled(ours: Callable[..., Any], like: Callable[..., Any], call: Call) -> Call | None:
    """Arguments as our function takes them, that were given as NumPy's does; None where ours takes them anyway, or NumPy's would not."""
    own, theirs = signature(ours), signature(like)
    if own is None or theirs is None or binds(own, call):
        return None
    try:
        given = theirs.bind(*call[0], **call[1])
    except TypeError:
        return None
    places = [each.name for each in own.parameters.values() if each.kind in _POSITIONAL]
    named = {each.name for each in own.parameters.values() if each.kind in _NAMED}
    by_name: dict[str, Any] = {}
    run: tuple[Any, ...] = ()
    for place, parameter in enumerate(theirs.parameters.values()):
        name = parameter.name
        if name not in given.arguments:
            continue
        value = given.arguments[name]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            run = value
        elif parameter.kind is Parameter.VAR_KEYWORD:
            by_name |= value
        elif name in named:
            by_name[name] = value
        elif place < len(places) and not _holds_place(theirs, places[place]):
            by_name[places[place]] = value
        elif name in places and places.index(name) == place:
            by_name[name] = value
        elif not _is_idle(parameter, value):
            raise UnknownOption(name, value)
    arranged = _arranged(own, by_name, run)
    return arranged if arranged is not None and binds(own, arranged) else None


def _holds_place(theirs: Signature, name: str) -> bool:
    """Whether NumPy's function has a parameter of that name at another place."""
    return name in theirs.parameters and theirs.parameters[name].kind is not Parameter.KEYWORD_ONLY


def _is_idle(option: Parameter, value: object) -> bool:
    """Whether an option has nothing to say: it is as it always is, or about memory."""
    if option.name in _SILENT or value is option.default or value is None:
        return True
    if option.name == "order":
        return value in _ROW_MAJOR
    return isinstance(value, bool | int | float | str) and bool(value == option.default)


def _arranged(own: Signature, by_name: dict[str, Any], run: tuple[Any, ...]) -> Call | None:
    """Arguments by name, but for those that have to be given by place."""
    kinds = _POSITIONAL if run else (Parameter.POSITIONAL_ONLY,)
    first = [each for each in own.parameters.values() if each.kind in kinds]
    while first and first[-1].name not in by_name:
        first.pop()
    args = [by_name.pop(each.name, each.default) for each in first]
    return None if any(arg is Parameter.empty for arg in args) else ((*args, *run), by_name)


def binds(own: Signature, call: Call) -> bool:
    """Whether a function takes such arguments."""
    try:
        own.bind(*call[0], **call[1])
    except TypeError:
        return False
    return True


@lru_cache(maxsize=1024)
def signature(function: Callable[..., Any]) -> Signature | None:
    """What a function takes; None where it does not say."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
