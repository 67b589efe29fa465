"""`settings(check="nan")`: the first op that makes a NaN or an infinity of numbers, with the line that asked for it.

What was there already is told apart: an op that is given a NaN and gives one on is not to blame, element by element where ops work so.
A NaN of infinities is new, an infinity of infinities is not. What the arguments of a call hold already is a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.errors import Location, NanError
from planish.ptir.function import Inst
from planish.ptir.ops.definition import OpKey

Array = NDArray[Any]
Mask = NDArray[np.bool_]
_ELEMENTWISE: Final = frozenset(
    {OpKey.ELEMENTWISE_UNARY, OpKey.ELEMENTWISE_BINARY, OpKey.ELEMENTWISE_TERNARY, OpKey.CAST}
)
_OVERFLOWING: Final = _ELEMENTWISE | {
    OpKey.DOT_GENERAL, OpKey.CONVOLUTION, OpKey.REDUCE, OpKey.CUMULATIVE, OpKey.SCATTER, OpKey.LINALG, OpKey.FFT
}  # fmt: skip
"""Ops whose infinities are results; elsewhere one was written into the program, as what pads or fills."""


class NanWarning(UserWarning):
    """An argument holds NaNs or infinities already; those are not looked for."""


def interpret_without_nan(function: ptir.Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results, op by op; a `NanError` where one makes a NaN or an infinity."""
    _warn_of_arguments(function, arrays)
    with np.errstate(all="ignore"):
        return ptir.interpret(function, arrays, observer=_look)


def _warn_of_arguments(function: ptir.Function, arrays: Sequence[Array]) -> None:
    for number, array in enumerate(arrays):
        told = _counted(array)
        if told:
            place = Location.caller()
            name = function.params[number].name or f"argument {number}"
            first = [int(i) for i in np.argwhere(_nan(array) | _infinite(array))[0]]
            warnings.warn_explicit(
                f"{name} of {function.name} holds {told} already, the first at {first}: what comes of it is not told",
                NanWarning,
                "planish" if place is None else place.file,
                1 if place is None else place.line,
            )


def _counted(array: Array) -> str:
    nans, infinities = int(_nan(array).sum()), int(_infinite(array).sum())
    parts = [f"{nans} NaN{'s' * (nans > 1)}"] * bool(nans)
    parts += [f"{infinities} infinit{'ies' if infinities > 1 else 'y'}"] * bool(infinities)
    return " and ".join(parts)


def _look(inst: Inst, given: Sequence[Array], results: Sequence[Array]) -> None:
    # What is written into a program is meant; what regions give was looked at inside of them.
    if inst.regions or not inst.operands or inst.op.key is OpKey.BITCAST:
        return
    for number, array in enumerate(results):
        _look_at(inst, given, array, number if len(results) > 1 else None, _nan, _nan)
        if inst.op.key in _OVERFLOWING:
            _look_at(inst, given, array, number if len(results) > 1 else None, _infinite, _not_finite)


def _look_at(
    inst: Inst,
    given: Sequence[Array],
    array: Array,
    number: int | None,
    kind: Callable[[Array], Mask],
    excuse: Callable[[Array], Mask],
) -> None:
    mask = kind(array)
    if not mask.any():
        return
    for x in given:
        had = excuse(x)
        if not had.any():
            continue
        if inst.op.key not in _ELEMENTWISE or x.shape not in (array.shape, ()):
            return
        mask = mask & ~had
    count = int(mask.sum())
    if not count:
        return
    where = tuple(int(i) for i in np.argwhere(mask)[0])
    inputs = ", ".join(str(operand.type) for operand in inst.operands)
    values = ", ".join(_shown(x[where]) for x in given if x.shape == array.shape)
    what, remedy = _WORDS[kind]
    raise NanError(
        f"{inst.op.name} made {what[0] if count == 1 else f'{count} {what[1]}'} of ({inputs}):"
        f" element {list(where)}" + ("" if number is None else f" of result {number}")
        + (f", from {values}" if values else ""),
        op=inst.op.name,
        location=inst.loc,
        remedy=remedy,
    )  # fmt: skip


def _nan(array: Array) -> Mask:
    return np.zeros(array.shape, np.bool_) if array.dtype.kind in "biuSUO" else np.isnan(array)


def _infinite(array: Array) -> Mask:
    return np.zeros(array.shape, np.bool_) if array.dtype.kind in "biuSUO" else np.isinf(array)


def _not_finite(array: Array) -> Mask:
    return _nan(array) | _infinite(array)


_WORDS: Final[dict[Callable[[Array], Mask], tuple[tuple[str, str], str]]] = {
    _nan: (
        ("a NaN", "NaNs"),
        "keep its operands where it is defined, for example with planish.where or planish.clip",
    ),
    _infinite: (
        ("an infinity", "infinities"),
        "keep its operands away from zero or from what overflows, take off the largest first, or use a wider dtype",
    ),
}


def _shown(value: Any) -> str:
    return str(value.item() if isinstance(value, np.generic | np.ndarray) else value)
