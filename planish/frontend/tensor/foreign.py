"""Arrays of other libraries: how they are told from everything else, and where their elements lie.

They come by DLPack, without a copy where their layout allows, or by `__array__`: torch tensors, JAX's arrays, columns of pandas. A
function of tensors that is `accepting` them has tensors made of them first; so have operators, `jit` and transforms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

import numpy as np

from planish.dlpack import host_array
from planish.errors import DTypeError, PlanishError
from planish.frontend.storage import Array
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import tensor

F = TypeVar("F", bound=Callable[..., Any])
_OURS: Final = (Tensor, np.ndarray, np.generic, type)
_KNOWN: Final[dict[type, bool]] = dict.fromkeys(
    (Tensor, np.ndarray, bool, int, float, complex, str, list, tuple, dict, type(None)), False
)
"""Classes that were asked about."""
_NUMBERS: Final = frozenset({bool, int, float, complex})


def is_foreign(kind: type) -> bool:
    """Whether it is the class of arrays of another library."""
    foreign = _KNOWN.get(kind)
    if foreign is None:
        is_array = hasattr(kind, "__dlpack__") or hasattr(kind, "__array__")
        foreign = _KNOWN[kind] = is_array and not issubclass(kind, _OURS)
    return foreign


def host_view(op: str, x: Any) -> Array:
    """The elements of an array of another library that lies in the host's memory, in place where that can be."""
    for what in ("conj", "neg"):  # torch: signs that are still to be applied
        asked = getattr(x, f"is_{what}", None)
        if callable(asked) and asked() is True:
            x = getattr(x, f"resolve_{what}")()
    reason: Exception | None = None
    if hasattr(x, "__dlpack__"):
        for read in (np.from_dlpack, host_array):
            try:
                return cast("Array", read(x))
            except (BufferError, RuntimeError, ValueError, TypeError, PlanishError) as error:
                reason = error
    if hasattr(x, "__array__"):
        try:
            return np.asarray(x)
        except (RuntimeError, ValueError, TypeError) as error:
            reason = error
    remedy = "hand over x.detach()" if getattr(x, "requires_grad", False) else "convert it to a NumPy array"
    raise DTypeError.of(
        op, f"an array of class {type(x).__name__} cannot be taken over: {reason}", remedy
    ) from reason


def accepting(function: F, *, lists: bool = False, names: Mapping[str, str] | None = None) -> F:
    """The function, with tensors in the places of arrays, and of nested lists of numbers where they stand first.

    `names` are other names of its parameters.
    """
    name = getattr(function, "__name__", "a layer")

    def taken(number: int, arg: Any) -> Any:
        kind = arg.__class__
        if kind is np.ndarray or is_foreign(kind):
            return tensor(name, arg)
        return tensor(name, arg) if lists and number < 2 and kind is list and _is_numbers(arg) else arg

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for arg in args:
            if arg.__class__ is not Tensor:
                args = tuple([taken(number, one) for number, one in enumerate(args)])
                break
        if options:
            if names:
                options = {names.get(key, key): arg for key, arg in options.items()}
            options = {key: taken(2, arg) for key, arg in options.items()}
        return function(*args, **options)

    return cast("F", call)


def other_names(function: Callable[..., Any], names: Mapping[str, str]) -> dict[str, str]:
    """The other names of a function's parameters, where they are not names of its own."""
    own = inspect.signature(function).parameters
    return {other: name for other, name in names.items() if name in own and other not in own}


def _is_numbers(given: object) -> bool:
    """Whether a list holds numbers and nothing else; the first of each is asked."""
    while isinstance(given, list) and given:
        given = given[0]
    return given.__class__ in _NUMBERS
