"""Effects: what a program does besides computing. Where in a traced function it happens, and that it happens.

An op is computed because its result is needed, once its operands are there. An effect has a *token* for both: a number that it takes
from the effect before it, and gives. The token of a scope is that of its last effect. It leaves a loop or branch as one result more, goes
around a loop as one carry more, and is a result of a compiled function; the result of a function that is transformed is made to
depend on it (`tied`). Outside of traces an effect happens at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.frontend.expression import LazyValue, Parameter, TraceScope
from planish.frontend.session import arguments_known, current_scope, tensor_type
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.operands import constant
from planish.ptir import ops

TOKEN: Final = tensor_type(dtypes.uint8, ())
EFFECT: Final = (("effect", True),)
"""What a custom call is given that is one."""


def incoming(scope: TraceScope | None) -> LazyValue:
    """The token that the next effect of a scope takes."""
    if scope is None:
        return constant(0, dtypes.uint8)._value
    if scope.token is None and scope.repeats:
        # each turn goes on where the last one ended
        scope.turn = scope.token = Parameter.new(TOKEN, scope, "the effects of the last turn")
    return incoming(scope.parent) if scope.token is None else scope.token


def tied(results: Sequence[Tensor]) -> list[Tensor]:
    """Results of the function that is being traced, the first of which needs all its effects."""
    from planish.frontend.tensor.elementwise import where

    scope = current_scope()
    tensors = list(results)
    if scope is not None and scope.token is not None and tensors:
        happened = Tensor.apply(ops.eq, Tensor(scope.token), constant(0, dtypes.uint8))
        tensors[0] = where(happened, tensors[0], constant(0, tensors[0].dtype))
    return tensors


def all_known() -> bool:
    """Whether values are known here: outside of traces, and in functions that are traced for certain arguments alone."""
    return arguments_known(once=True)
