"""The session: what the front end knows beyond one expression. Scopes, interned types and signatures, and plans.

Values are computed here when somebody asks for their elements, all of those that are asked for as one compiled function.
There is one session in a process. Which function is being traced is known per thread (and per context); types, signatures
and plans are shared, and safe to be asked for from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import numpy as np

from planish.config import current
from planish.frontend.devices import CPU, common_device, running
from planish.frontend.execute import no_room
from planish.frontend.expression import LazyValue, Node, Settled, TraceScope
from planish.frontend.interning import Signatures, Types
from planish.frontend.leaks import unknown
from planish.frontend.plans import KEPT, Plans
from planish.frontend.storage import Storage
from planish.ptir import ops
from planish.ptir.ops.definition import ConstantAttrs

DEEPEST: Final = 128
"""Expressions are computed when this many ops wait on top of each other, so that a loop of any length has plans of one size."""
SIDE: Final = 4
"""What joins an expression from the side makes it deeper by its own depth, up to this much: it may share all of it."""
MANY: Final = 16
"""Operands of one op beyond which they are computed first: a plan with hundreds of parameters takes long to compile."""


class Session:
    """Scopes, interning and plans."""

    def __init__(self) -> None:
        self.scope: ContextVar[TraceScope | None] = ContextVar("scope", default=None)
        """What is being traced."""
        self.types = Types()
        self.signatures = Signatures(self.types)
        self.plans = Plans()
        self.looked_at: Callable[[LazyValue], LazyValue | None] = lambda value: None
        """What a traced value is for certain arguments: set by `trace`, which knows how to apply what was traced."""
        self._whole: ContextVar[bool] = ContextVar("whole", default=False)
        self._cuts: dict[object, object] = {}
        """Where in a piece of code a deep expression is computed: at one place, so that the plans of a loop are alike."""

    # --- scopes -------------------------------------------------------------------------------------------

    @contextmanager
    def tracing(self, what: str) -> Iterator[TraceScope]:
        """What is created inside belongs to a new scope."""
        scope = TraceScope(what, self.scope.get())
        try:
            with self.reopened(scope):
                yield scope
        finally:
            scope.open = False

    @contextmanager
    def reopened(self, scope: TraceScope | None) -> Iterator[None]:
        """What is created inside belongs to a scope that was there before, or to none."""
        token = self.scope.set(scope)
        try:
            yield
        finally:
            self.scope.reset(token)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is built inside is one function applied: it is not computed in pieces."""
        token = self._whole.set(True)
        try:
            yield
        finally:
            self._whole.reset(token)

    # --- evaluation ---------------------------------------------------------------------------------------

    def elements(self, value: LazyValue, what: str | None = None) -> Storage:
        """The elements of a value, computed now. What is traced for certain arguments has them too."""
        while (storage := value.storage) is None:
            known = None if value.scope is None else self.looked_at(value)
            if known is None:
                self.evaluate((value,), what)
            else:
                value = known
        return storage

    def evaluate(self, values: Sequence[LazyValue], what: str | None = None) -> None:
        """Give values their elements, computed together. `what` asks for them, for messages."""
        settings = current()
        if len(values) == 1 and settings.device == CPU:
            (value,) = values
            if value.storage is None and (elements := self.plans.direct.run(value, settings)) is not None:
                counters.runs += 1
                counters.hits += 1
                value.settle(elements)
                return
        while wanted := _to_compute(values, what):
            place = running(_device(wanted) or settings.device, settings)
            try:
                results = self.plans.run(wanted, place, settings, what)
            except Settled:
                continue
            for value, storage in zip(wanted, results, strict=True):
                value.settle(storage)
                if not place.is_host:
                    value.device = place.name

    def settle_deep(self, results: Sequence[LazyValue], node: Node) -> None:
        """Compute an expression that has grown deep, and everything on the way that a program has a name for.

        A program that carries several values around has all of them computed at once, and none of them twice.
        """
        if node.scope is not None or self._whole.get():
            return
        site, cuts = node.site, self._cuts
        code = site[0] if isinstance(site, tuple) else None
        if node.depth < 2 * DEEPEST:
            if cuts.setdefault(code, site) != site:
                return
        else:
            if len(cuts) > KEPT:
                cuts.clear()
            cuts[code] = site
        roots = dict.fromkeys(results)
        seen = {node}
        pending = [node]
        while pending:
            now = pending.pop()
            for value in now.needs() if now.bodies else now.inputs:
                source = value.node
                if source is None or source in seen or source.signature.op is ops.constant:
                    continue
                seen.add(source)
                pending.append(source)
                name = source.name
                if source.others or (name is not None and name() is not None):
                    roots.update(dict.fromkeys(source.held()))
        self.evaluate(list(roots))

    def settle_many(self, values: Sequence[LazyValue]) -> bool:
        """Compute a long list of operands, in groups of one size so that their plans are alike. False if there is no need."""
        if len(values) <= MANY or self.scope.get() is not None:
            return False
        for start in range(0, len(values), MANY):
            self.evaluate(values[start : start + MANY])
        return True


def _to_compute(values: Sequence[LazyValue], what: str | None) -> list[LazyValue]:
    """Those that are not known yet, each once, with the other results of their ops that somebody has. Constants are known now."""
    roots: dict[LazyValue, None] = {}
    for value in values:
        if value.storage is not None:
            continue
        node = value.node
        if node is None:
            if value.storage is None:  # another thread may have computed it just now
                raise unknown(value, what)
        elif node.signature.op is ops.constant:
            _settle_constant(value, node)
        else:
            roots[value] = None
            if len(node.signature.types) > 1:
                roots.update(dict.fromkeys(node.held()))
    return list(roots)


def _device(values: Sequence[LazyValue]) -> str | None:
    """The one device they are tied to."""
    device: str | None = None
    for value in values:
        if value.device is not None and value.device != device:
            device = common_device("realize", {value.device} if device is None else {value.device, device})
    return device


def _settle_constant(value: LazyValue, node: Node) -> None:
    """A constant needs no computation."""
    attrs = node.signature.attrs
    if isinstance(attrs, ConstantAttrs):
        literal = attrs.literal
        try:
            value.settle(np.full(literal.shape, literal.data) if literal.splat else literal.data)
            value.shared |= not literal.splat
        except (MemoryError, ValueError) as error:
            raise no_room(value.type) from error


SESSION: Final = Session()
counters: Final = SESSION.plans.counters
current_scope: Final = SESSION.scope.get
"""The scope that is being traced."""
evaluate: Final = SESSION.evaluate
interned: Final = SESSION.types.interned
reopened: Final = SESSION.reopened
tensor_type: Final = SESSION.types.of
tracing: Final = SESSION.tracing


def arguments_known(once: bool = False) -> bool:
    """Whether functions are traced for certain arguments alone here; with `once`, and for nothing else after that."""
    scope = current_scope()
    while scope is not None:
        if scope.arguments is None or (once and not scope.once):
            return False
        scope = scope.parent
    return True
