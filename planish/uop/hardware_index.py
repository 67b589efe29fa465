"""Hardware indices: what a SPECIAL counts, and along which axis.

    HardwareIndex(IndexKind.GRID, 1).name          gidx1
    index_named("lidx0")                           HardwareIndex(IndexKind.BLOCK, 0)

Names are made of kinds and numbers; only readers of text forms take them apart. A text may also call an index of pieces as it likes.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from planish.uop.uop import UOp


class IndexKind(Enum):
    """What an index numbers; the value is what its name begins with."""

    GRID = "gidx"  # blocks of a grid
    CLUSTER = "cidx"  # blocks of a cluster
    BLOCK = "lidx"  # threads of a block
    CORE = "core"  # pieces of a kernel that cores of a CPU take; lowering makes one such index

    __hash__ = object.__hash__  # members are single; by name, as an enum does it, is slow


class HardwareIndex(NamedTuple):
    """An index that hardware supplies, or the pool of threads. Of several of a kind, number 0 runs fastest."""

    kind: IndexKind
    axis: int = 0
    given: str = ""
    """A name of its own, in a program that was written as text."""

    @property
    def name(self) -> str:
        """What text forms and generated code call it."""
        return self.given or ("core" if self.kind is IndexKind.CORE else f"{self.kind.value}{self.axis}")

    @property
    def is_thread(self) -> bool:
        """Whether it tells the threads of one block apart."""
        return self.kind is IndexKind.BLOCK

    @property
    def is_rank(self) -> bool:
        """Whether it is the number of a block in its cluster."""
        return self.kind is IndexKind.CLUSTER

    def __str__(self) -> str:
        return self.name


def index_of(special: UOp) -> HardwareIndex:
    """Which index a SPECIAL is."""
    return cast("HardwareIndex", special.arg)


_NAME: Final = re.compile(r"(gidx|cidx|lidx)(0|[1-9][0-9]{0,8})")


def index_named(name: str) -> HardwareIndex:
    """The index that a text calls so."""
    match = _NAME.fullmatch(name)
    if match is not None:
        return HardwareIndex(IndexKind(match.group(1)), int(match.group(2)))
    return HardwareIndex(IndexKind.CORE, given="" if name == IndexKind.CORE.value else name)
