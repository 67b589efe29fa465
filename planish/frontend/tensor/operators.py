"""Operators as functions of the API: which one, and with which operand first.

Tensors come before the functions on them, so a class names the function, and `bound` makes the method of it when both are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from planish.errors import DTypeError

if TYPE_CHECKING:
    from planish.frontend.storage import Array
    from planish.frontend.tensor.array import Scalar, Tensor

    Operand: TypeAlias = Tensor | Scalar | Array


class UnaryOperator:
    """`-x` is negative(x)."""

    def __init__(self, function: str) -> None:
        self.function = function

    if TYPE_CHECKING:

        def __get__(self, x: Tensor, owner: type) -> Callable[[], Tensor]: ...

    def bound(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The method."""
        return function


class BinaryOperator(UnaryOperator):
    """`x + y` is add(x, y)."""

    if TYPE_CHECKING:

        def __get__(self, x: Tensor, owner: type) -> Callable[[Operand], Tensor]: ...  # type: ignore[override]


class Reflected(BinaryOperator):
    """`2 + x` is add(2, x)."""

    def bound(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda x, other, /: function(other, x)


class InPlace(BinaryOperator):
    """`x += y` is add(x, y) where that has the shape and dtype of x."""

    def __init__(self, function: str, symbol: str) -> None:
        super().__init__(function)
        self.symbol = symbol

    def bound(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def method(x: Tensor, other: Any, /) -> Tensor:
            result = function(x, other)
            if result._type == x._type:
                return result
            raise DTypeError.at_caller(
                f"{self.symbol} would turn {x.dtype.name}{list(x.shape)} into {result.dtype.name}{list(result.shape)}",
                "write x = x op y for a result of another dtype or shape",
            )

        return method


def operators(function: str, symbol: str) -> tuple[BinaryOperator, Reflected, InPlace]:
    """`x + y`, `2 + x` and `x += y` of a function."""
    return BinaryOperator(function), Reflected(function), InPlace(function, symbol)
