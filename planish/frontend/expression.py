"""What a lazy tensor is made of: ops applied to tensors, the bodies of control flow, and the scopes they were traced in.

A `Node` is one op applied; a tensor is one of its results. A `Body` is a Python function that was called with parameters
instead of data: the region of a loop, the function under `jit`. Everything created during that call belongs to the scope of
the body; what it uses from outside is `free`, and stays outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from planish.errors import GraphError, Location
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.types import TensorType

if TYPE_CHECKING:
    from planish.frontend.tensor.array import Tensor


class Scope:
    """One call of a function with parameters: which body is being traced, and inside which other."""

    __slots__ = ("open", "parent", "what")

    def __init__(self, what: str, parent: Scope | None) -> None:
        self.what = what
        """What traces: `jit`, `scan` …, for messages."""
        self.parent = parent
        self.open = True

    def within(self, other: Scope | None) -> bool:
        """Whether it is that scope, or inside it. Everything is inside None."""
        scope: Scope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return other is None


_CURRENT: ContextVar[Scope | None] = ContextVar("scope", default=None)


def current_scope() -> Scope | None:
    """The scope that is being traced."""
    return _CURRENT.get()


@contextmanager
def tracing(what: str) -> Iterator[Scope]:
    """What is created inside belongs to a new scope."""
    scope = Scope(what, _CURRENT.get())
    token = _CURRENT.set(scope)
    try:
        yield scope
    finally:
        _CURRENT.reset(token)
        scope.open = False


class Node:
    """An op applied to tensors."""

    __slots__ = ("attrs", "bodies", "inputs", "location", "op", "scope", "types")

    def __init__(
        self,
        op: OpDef,
        inputs: tuple[Tensor, ...],
        attrs: Attrs,
        bodies: tuple[Body, ...],
        types: tuple[TensorType, ...],
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.bodies = bodies
        self.types = types
        """Of its results."""
        self.location = Location.caller()
        self.scope = _CURRENT.get()

    def needs(self) -> Iterator[Tensor]:
        """What has to be there before it: its inputs, and what its bodies use from outside."""
        yield from self.inputs
        for body in self.bodies:
            yield from body.free


class Body:
    """A traced function: parameters, results, and the tensors from outside that it uses."""

    __slots__ = ("free", "params", "results", "scope")

    def __init__(self, scope: Scope, params: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        self.scope = scope
        self.params = tuple(params)
        self.results = tuple([result.latest for result in results])
        self.free = tuple(self._free())

    @property
    def arg_types(self) -> tuple[TensorType, ...]:
        """The types of its parameters; types are inferred from bodies as from regions."""
        return tuple(param._type for param in self.params)

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        """The types of its results."""
        return tuple(result._type for result in self.results)

    def _free(self) -> list[Tensor]:
        found: list[Tensor] = []
        seen: set[int] = set()
        stack = list(reversed(self.results))
        while stack:
            tensor = stack.pop()
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            scope = tensor.scope
            if scope is self.scope:
                if tensor._node is not None:
                    stack.extend(reversed(list(tensor._node.needs())))
            elif scope is not None and not self.scope.within(scope):
                raise GraphError(
                    f"a value of a finished {scope.what} is used inside {self.scope.what}",
                    location=None if tensor._node is None else tensor._node.location,
                    remedy=f"return it from the function given to {scope.what}, and use what that returns",
                )
            else:
                found.append(tensor)
        return found
