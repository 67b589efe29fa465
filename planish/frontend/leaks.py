"""Values that are asked for where they are not known, told in the user's terms.

While a function is traced, its parameters stand for any data. A tensor made of them that outlives the call *leaked*: somebody kept
it. The error names the line that made it, and where it was found to be kept: a variable, an attribute, a container.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from types import CellType, ModuleType
from typing import TYPE_CHECKING, Final

from planish.errors import GraphError
from planish.frontend.expression import LazyValue, Node, Parameter
from planish.ptir import ops
from planish.ptir.function import Function

if TYPE_CHECKING:
    from planish.frontend.tensor.array import Tensor

_KEEP: Final = "return it from the function, and use what that returns"
_DECIDE: Final = "decide with planish.where or planish.cond, loop with planish.while_loop"
_COMPUTE: Final = (
    "compute with the tensor itself (planish.where or planish.cond decide), look with planish.debug.print"
)
_COUNT: Final = "range(n) is planish.fori_loop, x[i : i + 8] is planish.dynamic_slice, and what decides a shape is a static argument"
_DOING: Final = {"bool": _DECIDE, "index": _COUNT}
"""What to do instead, by what asked."""
_STATIC: Final = "make the argument static, or return the tensor and look at it outside"
_PER_EXAMPLE: Final = (
    "give what is the same for all examples with in_axes=None, or return the tensor and look at it outside"
)
_MOST: Final = 10_000
"""Nodes that are looked through for one that leaked."""


def unknown(parameter: LazyValue, what: str | None = None, wanted: Iterable[LazyValue] = ()) -> GraphError:
    """What is raised when the elements of a parameter are asked for; `wanted` is what needs them."""
    scope = parameter.scope
    tracer = "a transform" if scope is None else scope.what
    which = parameter.name if isinstance(parameter, Parameter) else "a parameter"
    if scope is not None and not scope.open:
        leaked = next(_leaked(wanted), parameter)
        return GraphError.at_caller(
            f"the value of a tensor is asked for that {tracer} made while it traced a function: it depends on {which}"
            + _told(leaked),
            _KEEP,
            op=what,
        )
    each = tracer == "vmap"
    return GraphError.at_caller(
        f"the value of a tensor is asked for while {tracer} traces the function: it depends on {which},"
        + (" of which every example has its own" if each else " which is not known yet"),
        f"{_DOING.get(what or '', _COMPUTE)}; {_PER_EXAMPLE if each else _STATIC}",
        op=what,
    )


def refuse_named_sizes(function: Function, what: str | None) -> None:
    """Refuse to compute what depends on a named size that nothing here binds: it belongs to a function that is being traced."""
    bound = {symbol.name for value in function.params for symbol in value.type.symbols()}
    named: dict[str, None] = {}
    for inst in function.walk():
        for value in inst.results:
            if not value.type.is_static:
                names = [symbol.name for symbol in value.type.symbols()]
                if inst.op is ops.bind_dim:
                    bound.update(names)
                named.update(dict.fromkeys(names))
    unknown_sizes = [name for name in named if name not in bound]
    if unknown_sizes:
        raise GraphError.at_caller(
            f"the value of a tensor is asked for while a function is traced: it depends on the named size {unknown_sizes[0]},"
            " which is not known yet",
            _DECIDE,
            op=what,
        )


def escaped(value: LazyValue, inside: str) -> GraphError:
    """What is raised when a function that is traced uses what another one left behind."""
    scope = value.scope
    other = "a transform" if scope is None else scope.what
    return GraphError.at_caller(
        f"a value of a finished {other} is used inside {inside}" + _told(value),
        f"return it from the function given to {other}, and use what that returns",
    )


def _leaked(values: Iterable[LazyValue]) -> Iterator[LazyValue]:
    """Values of finished traces that others need, the nearest first."""
    pending, seen = list(values), set[LazyValue]()
    for value in pending:  # it grows meanwhile
        if value in seen or len(seen) > _MOST:
            continue
        seen.add(value)
        scope = value.scope
        if scope is not None and not scope.open:
            yield value
        elif value.node is not None:
            pending.extend(value.node.needs())


def _told(value: LazyValue) -> str:
    """Where it was made, and who keeps it."""
    node = value.node
    location = None if node is None else node.location
    kept = next(_holders(value), None)
    return ("" if location is None else f"; it was made at {location}") + (
        "" if kept is None else f", and is kept in {kept}"
    )


def _holders(value: LazyValue) -> Iterator[str]:
    """Where a program holds a value, in words: places that have a name."""
    for tensor in _names(value.node, value):
        for holder in gc.get_referrers(tensor):
            if isinstance(holder, CellType):
                yield "a variable that a function closes over"
            elif isinstance(holder, list | set):
                for owner in gc.get_referrers(holder):
                    yield from (f"a {type(holder).__name__}, {name}" for name in _places(holder, owner))
            else:
                yield from _places(tensor, holder)


def _names(node: Node | None, value: LazyValue) -> list[Tensor]:
    if node is None:
        return []
    tensors = [name() for name in (node.name, *node.others) if name is not None]
    return [tensor for tensor in tensors if tensor is not None and tensor._value is value]


def _places(item: object, holder: object) -> Iterator[str]:
    """What an object or module that holds something calls it."""
    owners = gc.get_referrers(holder) if isinstance(holder, dict) else [holder]
    for owner in owners:
        names = getattr(owner, "__dict__", None)
        if not isinstance(names, dict) or (isinstance(holder, dict) and names is not holder):
            continue
        for name in [name for name, held in list(names.items()) if held is item]:
            if isinstance(owner, ModuleType):
                yield f"variable {name} of {owner.__name__}"
            else:
                yield f"attribute {name} of a {type(owner).__name__}"
