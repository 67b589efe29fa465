"""How ONNX ops become PTIR: one table, keyed by domain, name and the opset version since which a form holds.

    @op("Reshape", since=5, known=(1,))
    def reshape(at: NodeSite, x: V, shape: Array) -> V: ...

A handler gets its inputs as values of the graph under construction; those in `known` as NumPy arrays (the engine finds out what
they are, by computing everything before if need be), absent ones as None. It returns a value, or as many as the node has
outputs. `host` handlers get everything as arrays and return arrays: strings, sequences, and what no kernel can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from planish.errors import PlanishError

if TYPE_CHECKING:
    from planish.onnx.site import NodeSite

Handler: TypeAlias = Callable[..., Any]
Known: TypeAlias = tuple[int, ...] | Literal["all"] | Callable[["NodeSite", Sequence[Any]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class OpForm:
    """One form of an op."""

    domain: str
    name: str
    since: int
    handler: Handler
    known: Known = ()
    """Inputs whose data the handler needs (negative: from the end)."""
    host: bool = False
    sequences: bool = False
    """Whether it deals with sequences and optionals, which are Python lists and None."""

    def outputs(self, at: NodeSite, given: Sequence[Any]) -> list[Any]:
        """What the handler makes of inputs, one or several."""
        result = self.handler(at, *given)
        return list(result) if isinstance(result, tuple) else [result]

    def texts(self, at: NodeSite) -> bool:
        """Whether the node makes text of numbers, which only the host can."""
        return self.name == "Cast" and at.attributes.given.get("to") in (_STRING, "STRING")


OWN: Final = "planish"
"""The domain of ops that no model names: what importers have the host do."""
_STRING: Final = 8
_TABLE: Final[dict[tuple[str, str], list[OpForm]]] = {}


def op(
    *names: str,
    since: int = 1,
    domain: str = "",
    known: Known = (),
    host: bool = False,
    sequences: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a handler for ops of one domain."""

    def register(handler: Handler) -> Handler:
        for name in names:
            forms = _TABLE.setdefault((domain, name), [])
            forms.append(OpForm(domain, name, since, handler, known, host, sequences))
            forms.sort(key=lambda entry: entry.since)
        return handler

    return register


def find(domain: str, name: str, version: int) -> OpForm | None:
    """The form of an op that holds at an opset version."""
    domain = "" if domain == "ai.onnx" else domain
    forms = [entry for entry in _TABLE.get((domain, name), ()) if entry.since <= version]
    return forms[-1] if forms else None


def names() -> list[tuple[str, str]]:
    """Every op there is an entry for."""
    return sorted(_TABLE)


class Unsupported(PlanishError):
    """Something in a model that planish does not do."""
