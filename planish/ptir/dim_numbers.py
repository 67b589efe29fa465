"""Arithmetic on a size that leaves the whole numbers: `1 / n`, `n ** 0.5`, `n * 0.1`.

A size is an integer polynomial, and stays one under `+ - * // %`. Anything else is a number that is known when the program runs; what
stands for it is the front end's (`use_numbers`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NoReturn, TypeVar, cast

from planish.errors import DTypeError, ShapeError

M = TypeVar("M", bound=Callable[..., Any])

_HIGHEST: Final = 8
"""Powers that are still written out as products."""
_MADE: list[Callable[[Any], Any]] = []


def use_numbers(as_number: Callable[[Any], Any]) -> None:
    """Say what stands for the number that a size will be."""
    _MADE[:] = [as_number]


def among_sizes(what: Callable[[Any, Any], Any]) -> Callable[[M], M]:
    """A method for sizes. Beside a number of another kind a size is a number, too; what tensors do with it, they know."""

    def decorated(method: M) -> M:
        @wraps(method)
        def asked(self: SizeArithmetic, other: Any) -> Any:
            if isinstance(other, int | SizeArithmetic):
                return method(self, other)
            return what(self.as_number(), other) if isinstance(other, float) else NotImplemented

        return cast("M", asked)

    return decorated


class SizeArithmetic:
    """What a size can do besides being a polynomial."""

    __slots__ = ()

    def as_number(self) -> Any:
        """The number that it will be."""
        if not _MADE:
            raise ShapeError(f"{self} is computed with, and nothing stands for its number here")
        return _MADE[0](self)

    @among_sizes(operator.ge)
    def __ge__(self, other: Any) -> bool:
        return not self < other

    @among_sizes(operator.le)
    def __le__(self, other: Any) -> bool:
        return not self > other

    def __truediv__(self, other: Any) -> Any:
        return self.as_number() / _value(other)

    def __rtruediv__(self, other: Any) -> Any:
        return _value(other) / self.as_number()

    def __pow__(self, exponent: Any) -> Any:
        if isinstance(exponent, int) and 0 <= exponent <= _HIGHEST:
            power: Any = 1
            for _ in range(exponent):
                power = self * power
            return power
        return self.as_number() ** _value(exponent)

    def __rpow__(self, base: Any) -> Any:
        return _value(base) ** self.as_number()

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __float__(self) -> NoReturn:
        _no_number(self, "float")

    def __int__(self) -> NoReturn:
        _no_number(self, "int")


def _value(x: Any) -> Any:
    return x.as_number() if isinstance(x, SizeArithmetic) else x


def _no_number(size: object, what: str) -> NoReturn:
    raise DTypeError.at_caller(
        f"{what}() of the named size {size}: it is known when the program runs",
        "compute with it: n ** 0.5, 1 / n and planish.sqrt(n) are numbers of the program",
        op=what,
    )
