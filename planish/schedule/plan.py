"""A function as a plan: structured steps over numbered buffers. Plain data; whoever executes it needs nothing else.

    Launch        kernel on buffers                       Branch   on a bool: then, otherwise
    Copy          source → target                         While    condition steps, their flag, body steps
    SwapPointers  two buffers exchange their memory       For      a counter over a number of steps, in either direction
    View          buffer = base[counter], or other dtype  Bind     variable = the integer in a buffer
    Host          an op that runs outside generated code  Wait     until a collective that was started is done

Sizes are those of PTIR: numbers, or expressions over named sizes, which are variables of the plan. A named size of a
parameter is known when the function is called; one that data decides is set by `Bind` or `Host` before it is used. A carried
value of a loop has two buffers: the body reads the first and writes the second, then they swap. A slice of a scanned
sequence is a View: kernels see it as memory of its own, whatever the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from planish.dtypes import DType
from planish.ptir.dims import DimLike
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.types import TensorType
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.uop.node import UOp

Array = NDArray[Any]
Renaming = Callable[[int], int]


class Role(Enum):
    """Where the memory of a buffer comes from."""

    PARAMETER = "the caller brings it; only read unless donated"
    CONSTANT = "part of the program"
    RESULT = "a new array that the caller gets"
    ARENA = "a place in the arena that every call has"
    VIEW = "part of another buffer"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its graph, which buffer each parameter slot is, and the names of the variables it needs.

    Kernels of equal graphs are one: numbers of axes and slots follow from the graph alone, and `key` says its content.
    """

    name: str
    sink: UOp
    buffers: tuple[int, ...]
    variables: tuple[str, ...] = ()
    written: tuple[int, ...] = ()
    """The buffers that are written (some may be read as well)."""
    because: tuple[str, ...] = field(default=(), compare=False)
    """Why each of the buffers that are written is in memory."""
    work: str = ""
    """What it does, and to how many elements: its name without the digest of its graph."""

    @property
    def key(self) -> bytes:
        """The same for kernels that are the same program, whatever memory they work on."""
        return self.sink.key


@dataclass(frozen=True, slots=True)
class PlanBuffer:
    """Flat memory for `size` elements."""

    dtype: DType
    size: DimLike
    role: Role
    position: int = 0
    """Which parameter or result."""
    constant: Array | None = None
    donated: bool = False
    """A parameter that may be overwritten."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel of the plan, run on a buffer per parameter; its variables are found by name."""

    kernel: int
    buffers: tuple[int, ...]

    def renamed(self, of: Renaming) -> Launch:
        return replace(self, buffers=tuple(map(of, self.buffers)))


@dataclass(frozen=True, slots=True)
class Copy:
    """All elements of the target are those of the source."""

    source: int
    target: int

    def renamed(self, of: Renaming) -> Copy:
        return Copy(of(self.source), of(self.target))


@dataclass(frozen=True, slots=True)
class SwapPointers:
    """Each buffer gets the memory of the other."""

    first: int
    second: int

    def renamed(self, of: Renaming) -> SwapPointers:
        return SwapPointers(of(self.first), of(self.second))


@dataclass(frozen=True, slots=True)
class View:
    """The buffer is the slice of `base` along its first axis that the counter says; without one, all of it.

    Its dtype may be another: then it is the same bytes.
    """

    buffer: int
    base: int
    counter: str | None

    def renamed(self, of: Renaming) -> View:
        return View(of(self.buffer), of(self.base), self.counter)


@dataclass(frozen=True, slots=True)
class Bind:
    """The variable is the int64 in the buffer, which lies within the bounds."""

    variable: str
    buffer: int
    low: int
    high: int

    def renamed(self, of: Renaming) -> Bind:
        return replace(self, buffer=of(self.buffer))


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """How machine code does the work of a host op: by a routine known by name, on buffers and integers.

    It is given the addresses of inputs, outputs, constants and scratch memory, then the integers, for each of its chunks.
    """

    name: str
    integers: tuple[DimLike, ...]
    chunks: DimLike = 1
    """How many pieces of work there are, which any threads may do in any order."""
    work: int = 0
    """An estimate of the nanoseconds that one thread would need."""
    threads: bool = False
    """Whether the last argument is how many threads a library may take."""
    fails: bool = False
    """Whether the last argument is where the routine says that it failed, with Python's exception set."""


@dataclass(frozen=True, slots=True)
class ReadyKernel:
    """How code that was compiled before, a routine that is called as kernels are, does the work of a kernel."""

    routine: str
    slots: tuple[int, ...]
    """Which parameters of the kernel it takes, in its own order."""
    numbers: tuple[int, ...]
    """What it is told of them."""
    pieces: int
    """Independent parts of the work."""
    work: int
    """An estimate of the nanoseconds that one thread would need."""


@dataclass(frozen=True, slots=True)
class Host:
    """An op evaluated on arrays, or by a routine. Sizes that only its results have are variables from then on."""

    op: OpDef
    attrs: Attrs
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    call: RoutineCall | None = None
    constants: tuple[int, ...] = ()
    """Tables that the routine reads."""
    scratch: tuple[int, ...] = ()
    """Memory that the routine works in."""

    def renamed(self, of: Renaming) -> Host:
        inputs, outputs, constants, scratch = (
            tuple(map(of, each)) for each in (self.inputs, self.outputs, self.constants, self.scratch)
        )
        return replace(self, inputs=inputs, outputs=outputs, constants=constants, scratch=scratch)


@dataclass(frozen=True, slots=True)
class Wait:
    """Until a collective that was started is done; its buffers, what is sent and what comes, are in use until here."""

    buffers: tuple[int, ...]
    ticket: int
    op: str

    def renamed(self, of: Renaming) -> Wait:
        return replace(self, buffers=tuple(map(of, self.buffers)))


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two blocks, by a bool in memory."""

    predicate: int
    then: Steps
    otherwise: Steps

    def renamed(self, of: Renaming) -> Branch:
        return Branch(of(self.predicate), renamed(self.then, of), renamed(self.otherwise, of))


@dataclass(frozen=True, slots=True)
class While:
    """The condition, then the body for as long as the flag that the condition left is true."""

    condition: Steps
    flag: int
    body: Steps

    def renamed(self, of: Renaming) -> While:
        return While(renamed(self.condition, of), of(self.flag), renamed(self.body, of))


@dataclass(frozen=True, slots=True)
class For:
    """The body for counter = 0, 1, … below count; from the end if reverse.

    With a stride, the counter goes up by that much, and `taken` is how many of the count each run of the body is for.
    """

    count: DimLike
    counter: str
    reverse: bool
    body: Steps
    stride: int = 1
    taken: str = ""

    def renamed(self, of: Renaming) -> For:
        return replace(self, body=renamed(self.body, of))


@dataclass(frozen=True, slots=True)
class Rolled:
    """A loop that is a kernel."""

    name: str
    parts: tuple[int, ...]
    """The kernels of a turn, each once."""
    way: str
    """Where what is carried is: in registers, or in memory."""
    turns: int
    """The most that there are."""
    because: str


Step: TypeAlias = Launch | Copy | SwapPointers | View | Bind | Host | Wait | Branch | While | For
Steps: TypeAlias = tuple[Step, ...]


def renamed(steps: Sequence[Step], of: Renaming) -> Steps:
    """The same steps on other buffers."""
    return tuple(step.renamed(of) for step in steps)


def mapped(steps: Sequence[Step], of: Callable[[Step], Step | None]) -> Steps:
    """The same steps with others in the place of those without blocks, or without some; `of` is asked in their order."""
    rewritten: list[Step] = []
    for step in steps:
        match step:
            case Branch(predicate, then, otherwise):
                rewritten.append(Branch(predicate, mapped(then, of), mapped(otherwise, of)))
            case While(condition, flag, body):
                rewritten.append(While(mapped(condition, of), flag, mapped(body, of)))
            case For():
                rewritten.append(replace(step, body=mapped(step.body, of)))
            case _:
                other = of(step)
                rewritten += [] if other is None else [other]
    return tuple(rewritten)


def blocks(step: Step) -> tuple[Steps, ...]:
    """The blocks inside a step, in the order in which they may run."""
    if isinstance(step, Branch):
        return step.then, step.otherwise
    if isinstance(step, While):
        return step.condition, step.body
    return (step.body,) if isinstance(step, For) else ()


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside right after the one that owns them."""
    stack = [iter(steps)]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            continue
        yield step
        stack += [iter(block) for block in reversed(blocks(step))]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a function, the kernels they launch (each once) and the buffers they work on."""

    steps: Steps
    kernels: tuple[Kernel, ...]
    buffers: tuple[PlanBuffer, ...]
    results: tuple[int, ...]
    """The buffers of the results, in order."""
    result_dims: tuple[tuple[DimLike, ...], ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch, those in loops once."""
        return tuple(step for step in walk(self.steps) if isinstance(step, Launch))

    def __repr__(self) -> str:
        return f"<plan: {len(self.launches)} launches of {len(self.kernels)} kernels, {len(self.buffers)} buffers>"

    def __str__(self) -> str:
        return self.as_text({})

    def as_text(self, homes: Mapping[int, int]) -> str:
        """The buffers, then the steps; `homes` are the buffers that live in another one's memory."""
        lines = [
            f"b{number}: {buffer.dtype}[{buffer.size}] {buffer.role.name.lower()}"
            + (f" {buffer.position}" if buffer.role in (Role.PARAMETER, Role.RESULT) else "")
            + (" donated" if buffer.donated else "")
            + (f", in the memory of b{homes[number]}" if homes.get(number, number) != number else "")
            for number, buffer in enumerate(self.buffers)
        ]
        stack: list[tuple[int, Step | str]] = [(0, step) for step in reversed(self.steps)]
        while stack:
            depth, step = stack.pop()
            if isinstance(step, str):
                lines.append("  " * depth + step)
                continue
            for word, block in reversed(self._told(step)):
                stack += [(depth + 1, inner) for inner in reversed(block)]
                stack.append((depth, word))
        return "\n".join(lines)

    def _told(self, step: Step) -> list[tuple[str, Steps]]:
        """The lines of a step, each with the block below it."""
        match step:
            case Launch(kernel, buffers):
                return [(f"launch {self.kernels[kernel].name}({_names(buffers)})", ())]
            case Copy(source, target):
                return [(f"b{target} = copy b{source}", ())]
            case SwapPointers(first, second):
                return [(f"swap b{first}, b{second}", ())]
            case View(buffer, base, counter):
                return [(f"b{buffer} = b{base}{'' if counter is None else f'[{counter}]'}", ())]
            case Bind(variable, buffer):
                return [(f"{variable} = b{buffer}", ())]
            case Host():
                by = "" if step.call is None else f" by {step.call.name}"
                if (
                    step.call is not None
                    and step.call.name in ("collective", "collective.half")
                    and step.call.integers[-1]
                ):
                    by = f" under way as {step.call.integers[-1]}"
                return [(f"{_names(step.outputs)} = host {step.op.name}({_names(step.inputs)}){by}", ())]
            case Wait():
                return [(f"wait for {step.ticket}, {step.op} into {_names(step.buffers[1:])}", ())]
            case Branch(predicate, then, otherwise):
                return [(f"if b{predicate}", then), *([("else", otherwise)] if otherwise else [])]
            case While(condition, flag, body):
                return [("loop", condition), (f"while b{flag}", body)]
            case For(count, counter, reverse, body, stride):
                order = f" by {stride}" if stride > 1 else " from the end" if reverse else ""
                return [(f"for {counter} below {count}{order}", body)]


def _names(buffers: Sequence[int]) -> str:
    return ", ".join(f"b{number}" for number in buffers)
