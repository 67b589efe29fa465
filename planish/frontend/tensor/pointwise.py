"""How an op becomes a function of tensors: which dtypes it takes, and what happens to the others.

Integers given to a function of real numbers become the default float dtype; Python numbers take the dtype of what they meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from planish import dtypes
from planish.errors import DTypeError
from planish.frontend.tensor import dispatch
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import (
    Operand,
    broadcast_all,
    cast_to,
    constant,
    default_float,
    promoted,
    tensor,
)
from planish.ptir.ops.definition import OpDef

Prepare = Callable[[str, Tensor], Tensor]
F = TypeVar("F", bound=Callable[..., Tensor])


class Unary(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Tensor, /) -> Tensor: ...


class Binary(Protocol):
    """A function of two tensors, or of a tensor and a number."""

    def __call__(self, x1: Operand, x2: Operand, /) -> Tensor: ...


# --- which dtypes a function takes ------------------------------------------------------------------------


def _refuse(name: str, x: Tensor, wanted: str, remedy: str) -> DTypeError:
    return DTypeError.of(name, f"{x.dtype.short} is not {wanted}", remedy)


def numeric(name: str, x: Tensor) -> Tensor:
    """Every number."""
    if x.dtype.is_bool:
        raise _refuse(name, x, "a number", "convert it first: planish.astype(x, planish.int32)")
    return x


def real_numeric(name: str, x: Tensor) -> Tensor:
    """Integers and floats."""
    if x.dtype.is_complex:
        raise _refuse(name, x, "a real number", "take planish.real(x), planish.imag(x) or planish.abs(x)")
    return numeric(name, x)


def ordered(name: str, x: Tensor) -> Tensor:
    """What can be compared."""
    return x if x.dtype.is_bool else real_numeric(name, x)


def floating(name: str, x: Tensor) -> Tensor:
    """Floats and complex numbers; integers and bools become floats."""
    return default_float(x)


def real_floating(name: str, x: Tensor) -> Tensor:
    """Floats; integers and bools become floats."""
    return default_float(ordered(name, x))


def bits(name: str, x: Tensor) -> Tensor:
    """Integers and bools."""
    if not (x.dtype.is_int or x.dtype.is_bool):
        raise _refuse(name, x, "an integer or bool", "convert it first: planish.astype(x, planish.int32)")
    return x


def integers(name: str, x: Tensor) -> Tensor:
    """Integers."""
    if not x.dtype.is_int:
        raise _refuse(name, x, "an integer", "convert it first: planish.astype(x, planish.int32)")
    return x


def truth(name: str, x: Tensor) -> Tensor:
    """As bools: whatever is not zero is true."""
    return cast_to(x, dtypes.bool_)


def anything(name: str, x: Tensor) -> Tensor:
    """Every dtype."""
    return x


# --- the tables -------------------------------------------------------------------------------------------


def unary(name: str, op: OpDef, prepare: Prepare, doc: str) -> Unary:
    function = dispatch.unary(op, lambda x: prepare(name, tensor(name, x)))
    return _named(function, name, doc)


def rounding(name: str, op: OpDef, doc: str) -> Unary:
    """Integers and bools are what they are already."""

    def function(x: Tensor, /) -> Tensor:
        given = ordered(name, tensor(name, x))
        return Tensor.apply(op, given) if given.dtype.is_float else given.snapshot()

    return _named(function, name, doc)


def predicate(name: str, op: OpDef, exact: bool, doc: str) -> Unary:
    """What is asked of floats has one answer for all integers."""

    def function(x: Tensor, /) -> Tensor:
        given = tensor(name, x)
        if given.dtype.is_float or given.dtype.is_complex:
            return Tensor.apply(op, given)
        return constant(exact, dtypes.bool_, given.shape)

    return _named(function, name, doc)


def binary(name: str, op: OpDef, prepare: Prepare, doc: str, of_bools: OpDef | None = None) -> Binary:
    """An op on what `prepare` makes of two operands in one dtype; `of_bools` is the op between two bools."""

    def ready(x1: Operand, x2: Operand) -> list[Tensor]:
        both = promoted(name, x1, x2)
        if of_bools is None or not both[0].dtype.is_bool:
            both = [prepare(name, x) for x in both]
        return broadcast_all(name, both)

    return _named(dispatch.binary(op, ready, of_bools), name, doc)


def _named(function: F, name: str, doc: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
