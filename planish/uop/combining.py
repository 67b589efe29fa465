"""What the threads of a warp get when they combine their values: COMBINE, step by step as machines do it."""

from __future__ import annotations

from typing import Any

import numpy as np

from planish.dtypes import DType
from planish.uop import arithmetic
from planish.uop.ops import Combine
from planish.uop.symbolic.reduce import identity_of

Array = np.ndarray[Any, np.dtype[Any]]


def combined(how: Combine, dtype: DType, values: Array) -> Array:
    """Each thread's result; the first axis of the values is that of the threads.

    Of all: in each step with the thread whose number differs in one bit, the highest first. Of those before: with the thread one
    before, then two, four …; in the end everybody takes what the one before it has.
    """
    numbers = np.arange(how.width)
    if not how.before:
        bit = how.width // 2
        while bit:
            values = arithmetic.apply(how.op, dtype, values, values[numbers ^ bit])
            bit //= 2
        return values
    step = 1
    while step < how.width:
        values = np.concatenate(
            [values[:step], arithmetic.apply(how.op, dtype, values[:-step], values[step:])]
        )
        step *= 2
    nothing = np.asarray(identity_of(how.op, dtype), object if dtype.is_integral else None)
    first = np.broadcast_to(arithmetic.load(nothing, dtype), values[:1].shape)
    return np.concatenate([first, values[:-1]])
