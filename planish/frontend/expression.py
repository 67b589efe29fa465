"""What a lazy tensor is made of: ops applied to tensors, the bodies of control flow, and the scopes they were traced in.

A `Node` is one op applied; a tensor is one of its results. A `Body` is a Python function that was called with parameters
instead of data: the region of a loop, the function under `jit`. Everything created during that call belongs to the scope of
the body; what it uses from outside is `free`, and stays outside.

Programs apply the same ops to the same types over and over, so that is what is remembered: a `Signature` is an op with its
attributes on operands of certain types, inferred once. Its number stands for all of that where expressions are compared.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, cast
from weakref import ref

from planish.dtypes import DType
from planish.errors import GraphError, Location, Site
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef
from planish.ptir.types import DimLike, TensorType

if TYPE_CHECKING:
    from planish.frontend.storage import Storage
    from planish.frontend.tensor.array import Tensor
    from planish.ptir.function import Region


class Scope:
    """One call of a function with parameters: which body is being traced, and inside which other."""

    __slots__ = ("names", "open", "parent", "what")

    def __init__(self, what: str, parent: Scope | None) -> None:
        self.what = what
        """What traces: `jit`, `scan` …, for messages."""
        self.parent = parent
        self.open = True
        self.names: dict[int, str] = {}
        """What its parameters are called, by identity, where that is known: for messages."""

    def within(self, other: Scope | None) -> bool:
        """Whether it is that scope, or inside it. Everything is inside None."""
        scope: Scope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return other is None


GIVEN_AWAY: Final = Scope("donation", None)
"""Where tensors end whose memory was donated."""
_CURRENT: ContextVar[Scope | None] = ContextVar("scope", default=None)
current_scope: Final = _CURRENT.get
"""The scope that is being traced."""


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


@contextmanager
def reopened(scope: Scope) -> Iterator[None]:
    """What is created inside belongs to a scope that was there before."""
    token = _CURRENT.set(scope)
    try:
        yield
    finally:
        _CURRENT.reset(token)


# --- types and signatures -----------------------------------------------------------------------------------


_LARGEST: Final = 1 << 16
"""Types and signatures that are kept before the tables start again."""
_TYPES: Final[dict[tuple[DType, tuple[DimLike, ...]], TensorType]] = {}


def tensor_type(dtype: DType, dims: tuple[DimLike, ...]) -> TensorType:
    """The type of a tensor, made once: tensors of equal types mostly have the same object."""
    found = _TYPES.get((dtype, dims))
    if found is None:
        if len(_TYPES) >= _LARGEST:
            _TYPES.clear()
        found = _TYPES[dtype, dims] = TensorType(dtype, dims)
    return found


def interned(type: TensorType) -> TensorType:
    """The object that stands for a type."""
    return type if type.quant is not None else _TYPES.setdefault((type.dtype, type.dims), type)


class Signature:
    """An op with its attributes, and the types of its operands and results."""

    __slots__ = ("attrs", "number", "op", "operands", "types")

    def __init__(
        self,
        op: OpDef,
        attrs: Attrs,
        operands: tuple[TensorType, ...],
        types: tuple[TensorType, ...],
        number: int,
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.operands = operands
        self.types = types
        """Of its results."""
        self.number = number
        """Equal for equal signatures. That of a constant tells its type, not its value."""


class _Signatures:
    """Signatures by what they are, with a table in front of it that asks for the identity of types alone."""

    def __init__(self) -> None:
        self.fast: dict[tuple[object, ...], Signature] = {}
        self.alive: list[tuple[TensorType, ...]] = []
        """Types whose identity is in the table: they must not be replaced by others at the same address."""
        self.known: dict[Hashable, Signature] = {}
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()

    def find(self, op: OpDef, attrs: Attrs, operands: tuple[TensorType, ...]) -> Signature:
        """That of an op without bodies; raises what inference raises."""
        canonical = tuple([interned(type) for type in operands])
        found = self.known.get((op, attrs, canonical))
        if found is None:
            types = tuple([interned(type) for type in op.infer(canonical, attrs, ())])
            found = self._new((op, attrs, canonical), op, attrs, canonical, types)
        with self.lock:
            if len(self.fast) >= _LARGEST:
                self.fast.clear()
                self.alive.clear()
            self.alive.append(operands)
            # ops without attributes are the most common ones
            self.fast[(op, *(() if attrs is NO_ATTRS else (attrs,)), *map(id, operands))] = found
        return found

    def with_bodies(
        self, op: OpDef, attrs: Attrs, operands: tuple[TensorType, ...], bodies: tuple[Body, ...]
    ) -> Signature:
        # bodies have the types of arguments and results that inference asks regions for
        types = tuple([interned(t) for t in op.infer(operands, attrs, cast("Sequence[Region]", bodies))])
        key = (op, attrs, operands, types)
        return self.known.get(key) or self._new(key, op, attrs, operands, types)

    def constant(self, op: OpDef, attrs: ConstantAttrs) -> Signature:
        literal = attrs.literal
        type = (
            tensor_type(literal.dtype, literal.shape)
            if attrs.quant is None
            else TensorType(literal.dtype, literal.shape, attrs.quant)
        )
        found = self.known.get((op, type)) or self._new((op, type), op, attrs, (), (type,))
        return Signature(op, attrs, (), found.types, found.number)

    def _new(
        self,
        key: Hashable,
        op: OpDef,
        attrs: Attrs,
        operands: tuple[TensorType, ...],
        types: tuple[TensorType, ...],
    ) -> Signature:
        with self.lock:
            if len(self.known) >= _LARGEST:
                self.known.clear()
                self.fast.clear()
                self.alive.clear()
            made = Signature(op, attrs, operands, types, next(self.numbers))
            return self.known.setdefault(key, made)


SIGNATURES: Final = _Signatures()


# --- nodes --------------------------------------------------------------------------------------------------


class Node:
    """An op applied to tensors."""

    __slots__ = ("arrays", "bodies", "depth", "inputs", "made", "scope", "signature", "site")

    def __init__(
        self,
        signature: Signature,
        inputs: tuple[Tensor, ...],
        bodies: tuple[Body, ...],
        depth: int,
        scope: Scope | None,
        site: Site | Location | None,
    ) -> None:
        self.signature = signature
        self.inputs = inputs
        self.bodies = bodies
        self.depth = depth
        """Greater than that of every node it needs."""
        self.scope = scope
        self.site = site
        self.made: tuple[ref[Tensor], ...] = ()
        """Its results where there are several, as long as somebody has them."""
        self.arrays: dict[int, Storage] | None = None
        """Results that were computed, for those who ask for them again under another name."""

    @property
    def op(self) -> OpDef:
        """What is applied."""
        return self.signature.op

    @property
    def attrs(self) -> Attrs:
        """How."""
        return self.signature.attrs

    @property
    def types(self) -> tuple[TensorType, ...]:
        """Of its results."""
        return self.signature.types

    @property
    def location(self) -> Location | None:
        """The user's line."""
        return self.site if isinstance(self.site, Location) else Location.at(self.site)

    def needs(self) -> Iterator[Tensor]:
        """What has to be there before it: its inputs, and what its bodies use from outside."""
        yield from self.inputs
        for body in self.bodies:
            yield from body.free


class Body:
    """A traced function: parameters, results, and the tensors from outside that it uses; all of them versions."""

    __slots__ = ("free", "params", "results", "scope")

    def __init__(self, scope: Scope, params: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        self.scope = scope
        self.params = tuple(params)
        self.results = tuple(results)
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
