"""LLIR: a kernel as a linear list of instructions on typed registers and explicit memory.

The whole language on one screen (`x`, `y` …: a register or an immediate; `f(x)?`: may be left out):

    %r = address buffer[i]  address %p[i]            base + i·itemsize; a vector of indices gives a vector of addresses
    %r = address buffer of=n[i]                      the same in the LOCAL memory of the n-th block of the cluster
    %r = load %p (if g else x)? hints                lanes of %r, one after another from %p; or one from each address
         store %p, x (if g)? hints                   likewise; the gate is one bool, or one per lane
         prefetch %p                                 a promise to read (or write) soon; never fails
         copy_async %p, %q (if g)? count=n           n elements from %q to %p (0s), seen after a wait; commit_copies, wait_copies n
         fetcher … end_fetcher                       run by one thread more than the block has: what a copy engine is told
         acquire s  copy_box %p, s from @a at x, y   the buffers of step s are free; a box of a parameter goes to %p
         await_boxes s           release s (if g)?   the boxes of step s are there; nobody looks at them any more
    %r = <op> x, y …        cast x        bitcast x  arithmetic, comparison, select, fma (`mulacc`); conversions
    %r = lanes x[i, j …]  build x, y …  concat x, y … select, make and join lanes
    %r = lookup t[i]                                 lanes of the register t, selected by the values of i modulo their number
    %r = any x                                       whether a bool holds in any lane
    %r = tile a, b, c                                a @ b + c on matrix tiles spread over registers and threads
    %r = finish x                                    x, once the products under way (`tile … pending=1`) are done (`pending=2`: but for the last two)
    %r = combine op x over n                         x of n neighbouring threads, combined; each of them gets it
    %r = deal x matrices=n (transposed)?             rows that the threads of a warp have, dealt out as tensor cores hold matrices
    %r = special name < n                            the index of this block, thread or core
         loop %r < n … end        if x … endif       counted from 0; properly nested
         barrier  barrier cluster                    all threads of the block, or of all blocks of the cluster, have come here
    %r = reload s           spill s, %r              a register's place in memory; written by register allocation alone

Every buffer has a dtype, a size in bytes, an alignment and perhaps an offset in an arena. A register is assigned once
(after allocation a physical one: many times) and has a scalar, vector or pointer dtype. No dtype is `index`.
"""

from __future__ import annotations

from dataclasses import field

from planish.dtypes import DType
from planish.llir.control_forms import *  # noqa: F403
from planish.llir.control_forms import Special
from planish.llir.copy_forms import *  # noqa: F403
from planish.llir.fetch_forms import *  # noqa: F403
from planish.llir.fetch_forms import CopyBox
from planish.llir.instruction import FORMS, Instruction  # noqa: F401
from planish.llir.memory_forms import *  # noqa: F403
from planish.llir.tiles import TileOp
from planish.llir.value_forms import *  # noqa: F403
from planish.llir.value_forms import Tile
from planish.llir.values import *  # noqa: F403
from planish.llir.values import Buffer, LaunchVariable
from planish.records import dataclass
from planish.uop.ops import COMPARISONS, ESTIMATES, Ops  # noqa: F401


@dataclass(frozen=True, slots=True)
class OpFunction:
    """How an op on values of a dtype is computed, said once for all instructions of a kernel that are such.

    The body is a kernel of its own: it stores its result in its first parameter and reads its operands from the others.
    """

    op: Ops
    dtype: DType
    body: Program


@dataclass(frozen=True, slots=True)
class Program:
    """One kernel."""

    name: str
    params: tuple[Buffer, ...]
    locals: tuple[Buffer, ...]
    body: tuple[Instruction, ...]
    variables: tuple[LaunchVariable, ...] = ()
    functions: tuple[OpFunction, ...] = field(default=(), compare=False)
    """What code generation calls. The op says what it means, so that neither text nor interpreter need them."""

    def __repr__(self) -> str:
        return f"<LLIR {self.name}: {len(self.params)} parameters, {len(self.body)} instructions>"

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Parameters first."""
        return (*self.params, *self.locals)

    @property
    def tiles(self) -> tuple[TileOp, ...]:
        """The tile operations it uses, each once."""
        return tuple(dict.fromkeys(i.tile for i in self.body if isinstance(i, Tile)))

    @property
    def specials(self) -> tuple[Special, ...]:
        """Its hardware indices, in order of appearance."""
        return tuple(i for i in self.body if isinstance(i, Special))

    @property
    def boxes(self) -> tuple[CopyBox, ...]:
        """What a copy engine is told to bring."""
        return tuple(i for i in self.body if isinstance(i, CopyBox))

    @property
    def is_allocated(self) -> bool:
        """Whether it works on physical registers."""
        return any(getattr(i, i.writes).bank != "" for i in self.body if i.writes is not None)
