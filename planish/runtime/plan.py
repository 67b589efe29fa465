"""A compiled function as flat code: instructions with jumps, over numbered buffers and numbered integers.

This is what a plan is executed as. Sizes are integers in slots, computed by instructions like everything else, so that nothing
here knows where they come from. `run` walks the code in Python; kernels are whatever callables it is given.

    Call         kernel                 Jump    to                       Calculate   slot = slot op slot
    CopyBuffer   buffer ← buffer        Unless  flag: jump               Read        slot = the integer in a buffer
    SwapBuffers  buffers                Below   slot < slot, else jump   Slice       buffer = base[slot]
    CallHost     a routine, or a Python function
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.errors import ShapeError
from planish.records import dataclass

Array = NDArray[Any]
KernelCall = Callable[[Sequence[Array], Sequence[int], Array | None], object]
"""Runs a kernel on flat arrays, values of its variables, and scratch memory if it needs some."""
HostCall = Callable[[Sequence[Array], Sequence[int]], tuple[Sequence[Array], Sequence[int]]]
"""Arrays and integers to results, and to the integers that it decides."""


POLL: Final = "collective.poll"
"""The routine between kernels that lets collectives go on; it is no step of a plan."""


@dataclass(slots=True)
class PlanState:
    """One call in progress."""

    memory: list[Array]
    """Flat arrays by buffer."""
    slots: list[int]
    kernels: Sequence[KernelCall]
    scratch: Sequence[Array | None]
    """By kernel call."""
    calls: int = 0
    """Kernels run so far."""


@dataclass(frozen=True, slots=True)
class Call:
    """Run a kernel."""

    kernel: int
    buffers: tuple[int, ...]
    variables: tuple[int, ...]
    """The slots of its variables."""
    site: int
    """Which of all calls in the code this is."""

    def step(self, state: PlanState) -> int | None:
        arrays = [state.memory[buffer] for buffer in self.buffers]
        values = [state.slots[slot] for slot in self.variables]
        state.kernels[self.kernel](arrays, values, state.scratch[self.site])
        state.calls += 1
        return None


@dataclass(frozen=True, slots=True)
class CopyBuffer:
    """The first `size` elements of the target are those of the source."""

    source: int
    target: int
    size: int

    def step(self, state: PlanState) -> int | None:
        count = state.slots[self.size]
        state.memory[self.target][:count] = state.memory[self.source][:count]
        return None


@dataclass(frozen=True, slots=True)
class SwapBuffers:
    """Two buffers exchange their memory."""

    first: int
    second: int

    def step(self, state: PlanState) -> int | None:
        memory = state.memory
        memory[self.first], memory[self.second] = memory[self.second], memory[self.first]
        return None


@dataclass(frozen=True, slots=True)
class Slice:
    """The buffer is the index-th run of `size` elements of the base, which may be seen as another dtype."""

    buffer: int
    base: int
    index: int
    size: int
    dtype: np.dtype[Any] | None = None

    def step(self, state: PlanState) -> int | None:
        base, size = state.memory[self.base], state.slots[self.size]
        if self.dtype is not None:
            base = base.view(self.dtype)
        begin = state.slots[self.index] * size
        state.memory[self.buffer] = base[begin : begin + size]
        return None


@dataclass(frozen=True, slots=True)
class Calculate:
    """A slot is computed from two others."""

    target: int
    op: str
    left: int
    right: int

    def step(self, state: PlanState) -> int | None:
        state.slots[self.target] = OPERATIONS[self.op](state.slots[self.left], state.slots[self.right])
        return None


OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "min": min,
}


@dataclass(frozen=True, slots=True)
class Read:
    """A slot is the one integer in a buffer, which must lie within bounds."""

    target: int
    buffer: int
    low: int
    high: int

    def step(self, state: PlanState) -> int | None:
        size = int(state.memory[self.buffer][0])
        if not self.low <= size <= self.high:
            raise ShapeError(f"a size is {size}, outside {self.low}..{self.high}")
        state.slots[self.target] = size
        return None


@dataclass(frozen=True, slots=True)
class Jump:
    """Go on elsewhere."""

    to: int

    def step(self, state: PlanState) -> int | None:
        return self.to


@dataclass(frozen=True, slots=True)
class Unless:
    """Go on elsewhere if the bool in a buffer is false."""

    flag: int
    to: int

    def step(self, state: PlanState) -> int | None:
        return None if state.memory[self.flag][0] else self.to


@dataclass(frozen=True, slots=True)
class Below:
    """Go on here while left < right, elsewhere when not."""

    left: int
    right: int
    to: int

    def step(self, state: PlanState) -> int | None:
        return None if state.slots[self.left] < state.slots[self.right] else self.to


@dataclass(frozen=True, slots=True)
class Native:
    """How machine code does what a host instruction does: a routine, the buffers and the slots it is given."""

    routine: str
    buffers: tuple[int, ...]
    integers: tuple[int, ...]
    chunks: int
    """The slot of the number of its chunks."""
    work: int = 0
    """An estimate of the nanoseconds that one thread would need."""
    threads: bool = False
    """Whether the last argument is how many threads a library may take."""
    fails: bool = False
    """Whether the last argument is where the routine says that it failed, with Python's exception set."""

    @property
    def words(self) -> int:
        """How many arguments there are."""
        return len(self.buffers) + len(self.integers) + self.threads + self.fails


@dataclass(frozen=True, slots=True)
class CallHost:
    """A Python function on shaped arrays; what it gives is copied into buffers. Machine code may have a routine for it."""

    call: HostCall
    inputs: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The slots of the dims of each input."""
    outputs: tuple[int, ...]
    slots: tuple[int, ...]
    """Integers it is given."""
    decides: tuple[int, ...]
    """Slots it sets."""
    native: Native | None = None

    def step(self, state: PlanState) -> int | None:
        arrays = []
        for buffer, dims in zip(self.inputs, self.shapes, strict=True):
            shape = [state.slots[slot] for slot in dims]
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(state.memory[buffer][:count].reshape(shape))
        results, decided = self.call(arrays, [state.slots[slot] for slot in self.slots])
        for slot, value in zip(self.decides, decided, strict=True):
            state.slots[slot] = value
        for buffer, result in zip(self.outputs, results, strict=True):
            state.memory[buffer][: result.size] = result.reshape(-1)
        return None


Instruction: TypeAlias = (
    Call | CopyBuffer | SwapBuffers | Slice | Calculate | Read | Jump | Unless | Below | CallHost
)


@dataclass(frozen=True, slots=True)
class Code:
    """A whole function."""

    instructions: tuple[Instruction, ...]
    slots: tuple[int, ...]
    """What each integer is at the start; those of parameters are set by the caller."""
    sites: tuple[int, ...]
    """The kernel of each call in the code."""


def run(code: Code, state: PlanState) -> None:
    """Walk the code to its end."""
    instructions, position = code.instructions, 0
    while position < len(instructions):
        following = instructions[position].step(state)
        position = position + 1 if following is None else following
