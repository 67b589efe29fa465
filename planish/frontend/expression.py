"""Expressions: what a lazy tensor stands for. Values, the ops they come from, the bodies of control flow, and scopes.

A `LazyValue` is elements that never change: data, a parameter of a function that is being traced, or a result of an op (`Node`) on
other values. A tensor is a name that a program holds for a value, and may come to stand for another one; expressions are
made of values alone, so that what was computed keeps its meaning. A `TracedBody` is a Python function that was called with
parameters instead of data: the region of a loop, the function under `jit`. Everything created during that call belongs to
the scope of the body; what it uses from outside is `free`, and stays outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from planish.errors import GraphError, Location, Site
from planish.frontend.storage import Storage
from planish.ptir.ops.control import CustomCallAttrs
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.types import TensorType

if TYPE_CHECKING:
    from planish.frontend.tensor.array import Tensor


class TraceScope:
    """One call of a function with parameters: which body is being traced, and inside which other."""

    __slots__ = ("arguments", "once", "open", "parent", "repeats", "seen", "token", "turn", "what")

    def __init__(self, what: str, parent: TraceScope | None) -> None:
        self.what = what
        """What traces: `jit`, `scan` …, for messages."""
        self.parent = parent
        self.open = True
        self.arguments: dict[Parameter, LazyValue] | None = None
        """What parameters stand for, where a transform traces a function for these arguments alone."""
        self.once = True
        """Whether it is traced once for them: what has rules is traced for each, and its effects are not those of tracing."""
        self.seen: dict[LazyValue, LazyValue] = {}
        """What values are for these arguments, as far as the function has looked at them."""
        self.repeats = False
        """Whether it is traced once and run several times: the body of a loop."""
        self.token: LazyValue | None = None
        """Of its last effect (`planish.frontend.effects`)."""
        self.turn: Parameter | None = None
        """In a loop: the token of the last turn."""

    def within(self, other: TraceScope | None) -> bool:
        """Whether it is that scope, or inside it. Everything is inside None."""
        scope: TraceScope | None = self
        while scope is not None:
            if scope is other:
                return True
            scope = scope.parent
        return other is None


# --- values -------------------------------------------------------------------------------------------------


class LazyValue:
    """Elements that never change: known, or computed when somebody asks for them.

    `LazyValue.of` makes one. There is no `__init__`: where every operation of a program comes through, fields are set one by one.
    """

    __slots__ = ("device", "index", "node", "shared", "storage", "type")

    type: TensorType
    storage: Storage | None
    node: Node | None
    """What it is a result of, until it is computed."""
    index: int
    """Which of its results; nobody asks that of data."""
    device: str | None
    """None: wherever it is needed."""
    shared: bool
    """Whether somebody else than one name may still look at its memory: an op, another name, an array that got out."""

    @classmethod
    def of(
        cls,
        type: TensorType,
        storage: Storage | None = None,
        *,
        node: Node | None = None,
        index: int = 0,
        device: str | None = None,
        shared: bool = False,
    ) -> Self:
        """Data, or a result of an op."""
        value = cls()
        value.type = type
        value.storage = storage
        value.node = node
        value.index = index
        value.device = device
        value.shared = shared
        return value

    @property
    def scope(self) -> TraceScope | None:
        """The trace that it belongs to; data belongs to none."""
        node = self.node
        return None if node is None or self.storage is not None else node.scope

    def settle(self, storage: Storage) -> None:
        """Here are the elements."""
        self.storage = storage  # first: another thread may look at it now
        self.node = None  # what it was computed from is no longer needed


class Settled(Exception):
    """Another thread computed a value while an expression was being read."""


class Parameter(LazyValue):
    """A value that is not known while a function is being traced."""

    __slots__ = ("name", "traced")

    name: str
    """What messages call it."""
    traced: TraceScope

    @classmethod
    def new(cls, type: TensorType, scope: TraceScope, name: str = "a parameter") -> Parameter:
        """One of a function that is being traced."""
        parameter = cls.of(type)
        parameter.traced = scope
        parameter.name = name
        return parameter

    @property
    def scope(self) -> TraceScope:
        return self.traced


class Donated(LazyValue):
    """What the name of a tensor stands for whose memory was donated: a type, and a complaint where more is asked of it."""

    __slots__ = ()

    @classmethod
    def instead(cls, value: LazyValue) -> Donated:
        """In the place of a value."""
        donated = cls()
        donated.type = value.type
        donated.device = value.device
        return donated

    def _refuse(self, *_: Any) -> Any:
        raise GraphError.at_caller(
            f"a tensor {self.type.dtype.name}{list(self.type.dims)} was donated: its memory holds a result now",
            "use the result in its place, donate a copy, or leave it out of donate_argnums",
        )

    node = property(_refuse, _refuse)  # it has none, and says so
    storage = property(_refuse, _refuse)
    shared = property(_refuse, _refuse)


# --- ops ----------------------------------------------------------------------------------------------------


class OpSignature:
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


class Node:
    """An op applied to values. Its fields are set where it is made (`planish.frontend.tensor.application`)."""

    __slots__ = ("bodies", "depth", "inputs", "name", "origin", "others", "scope", "signature", "site")

    signature: OpSignature
    inputs: tuple[LazyValue, ...]
    bodies: tuple[TracedBody, ...]
    depth: int
    """Greater than that of every node it needs."""
    scope: TraceScope | None
    site: Site | Location | None
    name: ref[Tensor] | None
    """The tensor that stands for its result, as long as a program has it."""
    others: tuple[ref[Tensor], ...]
    """Those for further results, and further names."""
    origin: tuple[int, tuple[LazyValue, ...]] | None
    """The number of the recipe that it is the result of, and what that was given."""

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

    @property
    def effects(self) -> bool:
        """Whether it does something besides computing."""
        attrs = self.signature.attrs
        return (isinstance(attrs, CustomCallAttrs) and attrs.effect) or any(
            body.effects for body in self.bodies
        )

    def needs(self) -> Iterator[LazyValue]:
        """What has to be there before it: its inputs, and what its bodies use from outside."""
        yield from self.inputs
        for body in self.bodies:
            yield from body.free

    def held(self) -> Iterator[LazyValue]:
        """Those of its results that a program has a name for."""
        for name in (self.name, *self.others):
            tensor = None if name is None else name()
            if tensor is not None and tensor._value.node is self:
                yield tensor._value


class TracedBody:
    """A traced function: parameters, results, and the values from outside that it uses."""

    __slots__ = ("effects", "free", "params", "results", "scope", "unbound")

    def __init__(self, scope: TraceScope, params: Sequence[LazyValue], results: Sequence[LazyValue]) -> None:
        self.scope = scope
        self.params = tuple(params)
        self.results = tuple(results)
        self.effects = False
        """Whether it does something besides computing its results."""
        self.unbound = False
        """Whether it asks for a parameter of its scope that is none of its own."""
        self.free = tuple(self._free())
        for x in self.free:
            x.shared = True  # whatever becomes of their names

    @property
    def arg_types(self) -> tuple[TensorType, ...]:
        """The types of its parameters; types are inferred from bodies as from regions."""
        return tuple(param.type for param in self.params)

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        """The types of its results."""
        return tuple(result.type for result in self.results)

    def _free(self) -> Iterator[LazyValue]:
        seen: set[LazyValue] = set()
        stack = list(reversed(self.results))
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            scope = value.scope
            if scope is self.scope:
                if value.node is not None:
                    self.effects = self.effects or value.node.effects
                    stack.extend(reversed(list(value.node.needs())))
                elif value.storage is None and value not in self.params:
                    self.unbound = True
            elif scope is not None and not self.scope.within(scope):
                from planish.frontend.leaks import escaped  # which stands on this module

                raise escaped(value, self.scope.what)
            else:
                yield value
