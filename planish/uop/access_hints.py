"""Hints of an access: what a LOAD or STORE says besides its place, and the words that the text form has for it.

    store %2, %3 hint=align16           the address is a multiple of 16
    store %2, %3 hint="async own"       seen after a WAIT, in memory that each thread fills for itself
    store %2, %3 hint=buffers3          fills the first of three buffers

An access without hints has no argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from planish.uop.uop import UOp


class AccessHints(NamedTuple):
    """What is known of an access, and what is wanted of it."""

    buffers: int = 0
    """Of a STORE to memory of which there are several, for stage 12: how many."""
    asynchronous: bool = False
    """Of a STORE: it may be done in the background, and is seen after a WAIT."""
    own: bool = False
    """Of a STORE: each thread fills the memory for itself."""
    nontemporal: bool = False
    """What is there is not looked at again soon: no cache need keep it."""
    align: int = 0
    """The bytes that the address is proved to be a multiple of; 0: what its dtype asks for."""

    @property
    def text(self) -> str:
        """All of them as words."""
        words = [f"{'own' if self.own else 'buffers'}{self.buffers}"] if self.buffers else []
        words += ["async"] * self.asynchronous
        words += ["own"] * (self.own and not self.buffers)
        words += ["nontemporal"] * self.nontemporal
        words += [f"align{self.align}"] * (self.align > 0)
        return " ".join(words)


NO_HINTS: Final = AccessHints()
HINT_WORDS: Final = ("nontemporal", "align64", "async", "own", "own2", "buffers2")
"""Words as they may be written; other numbers are good too."""


def hints_of(access: UOp) -> AccessHints:
    """The hints of a LOAD or STORE."""
    return NO_HINTS if access.arg is None else cast("AccessHints", access.arg)
