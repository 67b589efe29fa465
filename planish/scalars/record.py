"""The record of a scalar function: what it takes, how NumPy computes it, its slope, its symmetries, what it costs.

Who reads what:

- PTIR defines an op per record (dtypes, evaluation, meaning), and the law tables read `parity` and `positive`;
- the kernel IR evaluates and weighs the op of that name by it, if it has one (`Ops.CBRT` for `cbrt`);
- the lowering emits that op, or `formula` where there is none;
- derivatives are `slopes`, batching follows from the function being elementwise;
- the Tensor API offers it under its name.

A record is also the function itself in formulas: `cos(x)` applies it to a value of any layer, so slopes and formulas are
written once, as mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class Applies(Protocol):
    """What functions can be applied to: a tensor, a value of a graph, a node of a kernel."""

    def _call_scalar(self, name: str, *others: Self) -> Self: ...


class FormulaValue(Applies, Protocol):
    """What formulas compute with."""

    def __neg__(self) -> Self: ...
    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __lt__(self, other: Self | float, /) -> Self: ...
    def __gt__(self, other: Self | float, /) -> Self: ...
    def where(self, chosen: Self, other: Self | float, /) -> Self: ...


A = TypeVar("A", bound=Applies)
Slope = Callable[..., FormulaValue]
"""(t, operands…, result) to t · ∂result/∂operand."""
Formula = Callable[..., FormulaValue]


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """A function of one or two numbers."""

    name: str
    takes: str
    """The class of dtypes: `FLOATS`, or `INEXACT` where it is one of complex numbers too."""
    compute: Callable[..., Array]
    """On NumPy arrays: of float64 (complex128), to be rounded once; of the dtype itself where `exact`."""
    doc: str
    slopes: tuple[Slope | None, ...] = ()
    """Per operand, None where it does not move the result; none at all for a function of steps."""
    arity: int = 1
    exact: bool = False
    """NumPy rounds it correctly, whatever the dtype."""
    parity: str = ""
    """`odd`: f(-x) is -f(x), `even`: f(-x) is f(x); to the last bit, zeros included."""
    positive: bool = False
    """Never below zero, and never -0."""
    idempotent: bool = False
    commutative: bool = False
    weight: float = 1.0
    """How many additions it takes the time of, in round figures."""
    kernel: str = ""
    """The kernel op, if it is not called like the function."""
    formula: Formula | None = None
    """The function in terms of others, for a function without a kernel op; floats below 32 bits compute it in float32."""

    def __post_init__(self) -> None:
        FUNCTIONS[self.name] = self

    def __call__(self, x: A, /, *others: A) -> A:
        return x._call_scalar(self.name, *others)

    def __reduce__(self) -> tuple[Callable[[str], Scalar], tuple[str]]:
        return FUNCTIONS.__getitem__, (self.name,)


FUNCTIONS: Final[dict[str, Scalar]] = {}
"""By name, in the order they are written down."""
FLOATS: Final = "FLOATS"
INEXACT: Final = "INEXACT"
