"""The one hook into rewriting: whoever wants to see what happens is a `Listener`.

The step log, statistics, dumps, explanations and the expensive checks all hang here. Without a listener the
engine pays one comparison with None per change. A listener must not change the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planish.ptir.function import Inst, Region, Value


class Listener:
    """Hears every change and every attempt; each method does nothing until overridden."""

    __slots__ = ()

    def inserted(self, inst: Inst) -> None:
        """`inst` now stands in its region."""

    def erased(self, inst: Inst, region: Region) -> None:
        """`inst` was taken out of `region`; its operands can still be read."""

    def modified(self, inst: Inst) -> None:
        """Operands, attributes or regions of `inst` changed, or it moved."""

    def replaced(self, old: Value, new: Value) -> None:
        """Every use of `old` became a use of `new`."""

    def attempt(self, pattern: str, root: Inst) -> None:
        """`pattern` is about to be tried."""

    def succeeded(self, pattern: str, root: Inst) -> None:
        """`pattern` rewrote `root`, which may be erased by now."""

    def failed(self, pattern: str, root: Inst) -> None:
        """`pattern` did not apply."""

    def reason(self, pattern: str | None, inst: Inst, text: str) -> None:
        """`pattern` says why it is about to fail."""

    def folded(self, root: Inst, values: Sequence[Value]) -> None:
        """`root` was folded: `values` are what its results became."""

    def eliminated(self, inst: Inst) -> None:
        """`inst` was erased because nothing uses it; `erased` was called before."""


class ListenerGroup(Listener):
    """Several listeners as one, told in order."""

    __slots__ = ("members",)

    def __init__(self, members: Sequence[Listener]) -> None:
        self.members = tuple(members)

    def inserted(self, inst: Inst) -> None:
        for member in self.members:
            member.inserted(inst)

    def erased(self, inst: Inst, region: Region) -> None:
        for member in self.members:
            member.erased(inst, region)

    def modified(self, inst: Inst) -> None:
        for member in self.members:
            member.modified(inst)

    def replaced(self, old: Value, new: Value) -> None:
        for member in self.members:
            member.replaced(old, new)

    def attempt(self, pattern: str, root: Inst) -> None:
        for member in self.members:
            member.attempt(pattern, root)

    def succeeded(self, pattern: str, root: Inst) -> None:
        for member in self.members:
            member.succeeded(pattern, root)

    def failed(self, pattern: str, root: Inst) -> None:
        for member in self.members:
            member.failed(pattern, root)

    def reason(self, pattern: str | None, inst: Inst, text: str) -> None:
        for member in self.members:
            member.reason(pattern, inst, text)

    def folded(self, root: Inst, values: Sequence[Value]) -> None:
        for member in self.members:
            member.folded(root, values)

    def eliminated(self, inst: Inst) -> None:
        for member in self.members:
            member.eliminated(inst)


def combine(*listeners: Listener | None) -> Listener | None:
    """One listener for all that are given; None if there are none."""
    members = [listener for listener in listeners if listener is not None]
    if len(members) <= 1:
        return members[0] if members else None
    return ListenerGroup(members)
