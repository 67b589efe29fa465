"""Counted loops of a plan become loops of a kernel: what a turn launches is written into one kernel, the loop around it.

A launch takes some 25 ns, a turn of a cheap loop one or two. There are two ways to write the loop:

registers   inside of the loops over elements (`llir.carried`): a single kernel, element by element, all turns of an element before
            the next one. What is carried is in registers, and cores divide the elements.
memory      around everything: the kernels of a turn one after another, on one core. What is carried is in memory, written over where
            whoever makes the next value has read the last one before, copied back otherwise.

Both compute what the plan would, in the same order and with the same instructions. Which it is, and whether it is worth it, is asked of
what the kernels take (`launch_parameters.work_of`). A loop that would run for long is a loop of the plan over runs of turns, so that Ctrl-C ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, NamedTuple

from planish.compiler.launch_parameters import grid_of, scratch_of, work_of
from planish.compiler.loop_kernels import LoopKernel
from planish.errors import InternalError
from planish.llir import carried, inlining
from planish.llir.program import Program
from planish.llir.regalloc import pressure
from planish.records import dataclass
from planish.schedule.memory import Sharing, elements
from planish.schedule.plan import (
    Branch,
    Copy,
    For,
    Kernel,
    Launch,
    Plan,
    Rolled,
    Step,
    Steps,
    SwapPointers,
    View,
    While,
    renamed,
    walk,
)
from planish.schedule.sharing import blocks_of
from planish.target import Target

_WORTH: Final = 0.02
"""The part of its time that a loop has to spend on launches for a kernel to be made of it."""
_LONG_NS: Final = 20_000_000
_RUN_NS: Final = 10_000_000
"""A kernel that may take longer than the first runs so many turns at a time that it takes about the second."""
_MOST: Final = 24
"""Launches in a turn that become one kernel at most: what they compute then outweighs a launch each."""


class RolledKernel(NamedTuple):
    """The kernel of a loop, in LLIR, and which of its parameters may share memory."""

    kernel: Kernel
    program: Program
    aliased: frozenset[int]


@dataclass(slots=True)
class Rolling:
    """The loops of one plan. Kernels that are only parts of others are left out in the end."""

    plan: Plan
    sharing: Sharing
    programs: Sequence[Program]
    target: Target
    cores: int
    made: list[RolledKernel] = field(default_factory=list)
    rolled: list[Rolled] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Of loops that stay what they are: why."""
    blocks: Mapping[int, int] = field(init=False)
    result: Steps = ()
    """The steps of the plan, with loops as launches."""

    mentions: dict[str, Counter[int]] = field(default_factory=dict)
    """By the counter of a loop, how often it names each block; and in the plan."""
    everywhere: Counter[int] = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = blocks_of(self.sharing)
        self.everywhere = _touches(self.plan.steps, self.blocks)
        self.everywhere.update(self.blocks.get(number, number) for number in self.plan.results)

    def is_outside(self, buffer: int, loop: For) -> bool:
        """Whether something beside a loop has to do with a block."""
        return self.everywhere[buffer] > self.mentions[loop.counter][buffer]

    @property
    def known(self) -> int:
        """How many kernels there were before."""
        return len(self.programs)

    def program(self, number: int) -> Program:
        return self.programs[number] if number < self.known else self.made[number - self.known].program

    def steps(self, steps: Steps) -> Steps:
        """The same steps with loops as launches, innermost first."""
        rewritten: list[Step] = []
        for step in steps:
            match step:
                case For():
                    self.mentions[step.counter] = _touches([step], self.blocks)
                    rewritten.append(self.loop(replace(step, body=self.steps(step.body))))
                case While():
                    rewritten.append(
                        replace(step, condition=self.steps(step.condition), body=self.steps(step.body))
                    )
                case Branch():
                    rewritten.append(
                        replace(step, then=self.steps(step.then), otherwise=self.steps(step.otherwise))
                    )
                case _:
                    rewritten.append(step)
        return tuple(rewritten)

    def loop(self, step: For) -> Step:
        # what shares a block is one buffer
        block = self.blocks
        loop = replace(step, body=renamed(step.body, lambda buffer: block.get(buffer, buffer)))
        rolled = self.rolled_loop(loop)
        return step if rolled is loop else rolled

    def rolled_loop(self, loop: For) -> Step:
        steps = list(walk(loop.body))
        launches = [step for step in steps if isinstance(step, Launch)]
        if loop.stride > 1 or len(launches) > _MOST or not any(isinstance(s, Launch | Copy) for s in steps):
            return loop
        if any(not isinstance(step, Launch | View | Copy | SwapPointers | Branch) for step in steps):
            return loop
        if any(isinstance(step, View) and step.counter != loop.counter for step in steps):
            return loop
        programs = [self.program(launch.kernel) for launch in launches]
        if self.target.is_gpu or not all(
            inlining.is_simple(each) and not scratch_of(each) for each in programs
        ):
            return loop
        price = TurnPrice(loop, programs, self.target, self.cores)
        if price.registers(self.plan, [step.buffer for step in steps if isinstance(step, View)]):
            try:
                return self.in_registers(loop, price)
            except carried.Refused:
                pass
        if not price.memory():
            self.kept.append(f"{price}: a loop of launches, which add {price.launches:.0f} ns to each")
            return loop
        body = LoopKernel(self, loop, price)
        return self.add(body, body.in_memory(), "memory")

    def in_registers(self, loop: For, price: TurnPrice) -> Step:
        """With as many iterations side by side as there are registers for, by a linear scan over their lives."""
        registers, width = self.target.registers, self.target.register_bytes
        most = len(carried.CHAINS) - 1
        for number, chains in enumerate(carried.CHAINS):
            body = LoopKernel(self, loop, price)
            program = body.in_registers(chains)
            wanted = pressure(program, width if width > 1 else None).vector
            if wanted <= registers or number == most:
                return self.add(
                    body, program, "registers", f" ({wanted} of {registers} vectors)" if wanted else ""
                )
        raise InternalError("a loop has no chains")

    def add(self, body: LoopKernel, program: Program, way: str, told: str = "") -> Step:
        if scratch_of(program):
            return body.loop
        number = self.known + len(self.made)
        buffers = tuple(buffer for buffer, _ in body.params)
        parts = tuple(dict.fromkeys(launch.kernel for launch in body.launches))
        names = tuple(variable.name for variable in program.variables)
        kernel = Kernel(program.name, None, buffers, names, tuple(b for b in buffers if b in body.writes))  # type: ignore[arg-type]
        self.made.append(RolledKernel(kernel, program, self.aliased(buffers)))
        told = f"{body.price}: one kernel, what is carried in {way}{told}; launches would add {body.price.launches:.0f} ns to each"
        self.rolled.append(Rolled(program.name, parts, way, elements(body.loop.count), told))
        launch = Launch(number, buffers)
        if body.stride is None:
            return launch
        loop = body.loop
        return For(loop.count, loop.counter, False, (launch,), body.stride, body.taken)

    def aliased(self, buffers: Sequence[int]) -> frozenset[int]:
        """Of the parameters of a kernel, those that may share memory: used at different times of a turn."""
        block = {buffer: each for each in self.sharing.blocks for buffer in each.buffers}
        slots: set[int] = set()
        for slot, buffer in enumerate(buffers):
            for other in range(slot):
                one, two = block.get(buffer), block.get(buffers[other])
                apart = one is not None and two is not None and (one.end < two.begin or two.end < one.begin)
                if apart or buffer == buffers[other]:
                    slots |= {slot, other}
        return frozenset(slots)


@dataclass(slots=True)
class TurnPrice:
    """What a turn takes, in nanoseconds on one core."""

    loop: For
    programs: Sequence[Program]
    target: Target
    cores: int
    works: list[int] = field(init=False)
    shared: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        points = [_product(grid_of(each)) for each in self.programs]
        self.works = [work_of(each, count) for each, count in zip(self.programs, points, strict=True)]
        self.shared = [count > 1 and self.cores > 1 for count in points]

    @property
    def turn(self) -> int:
        """What it takes by itself."""
        return max(1, sum(self.works))

    @property
    def launches(self) -> float:
        """What launches (and calls that copy) take in a turn."""
        copies = sum(isinstance(step, Copy) for step in walk(self.loop.body))
        target = self.target
        return target.copy_ns * copies + sum(
            target.share_ns if shared else target.launch_ns for shared in self.shared
        )

    @property
    def apart(self) -> float:
        """What a turn takes as launches."""
        return self.launches + sum(
            work / self.cores if shared else work
            for work, shared in zip(self.works, self.shared, strict=True)
        )

    def memory(self) -> bool:
        """Whether one core that launches nothing is faster, and by how much it matters."""
        return self.apart - self.turn >= _WORTH * self.turn

    def registers(self, plan: Plan, sliced: Iterable[int]) -> bool:
        """Whether all turns of an element after another are worth it: sequences are then read across, not along."""
        if len(self.programs) != 1:
            return False
        slices = sum(
            elements(plan.buffers[buffer].size) * plan.buffers[buffer].dtype.itemsize for buffer in sliced
        )
        return slices <= _ACROSS

    @property
    def total(self) -> int:
        """What all turns take at the most."""
        return self.turn * max(1, elements(self.loop.count))

    @property
    def run(self) -> int | None:
        """How many turns one launch is for; None: all of them."""
        return None if self.total <= _LONG_NS else max(1, _RUN_NS // self.turn)

    def __str__(self) -> str:
        return f"loop of {self.loop.count} turns of about {self.turn} ns"


_ACROSS: Final = 8 << 10
"""Bytes of a turn's slices up to which reading them a vector at a time is no waste."""


def _touches(steps: Iterable[Step], block: Mapping[int, int]) -> Counter[int]:
    """How often steps name each block."""
    counts: Counter[int] = Counter()

    def note(buffer: int) -> int:
        counts[block.get(buffer, buffer)] += 1
        return buffer

    for step in steps:
        step.renamed(note)
    return counts


def _product(sizes: Iterable[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def roll(
    plan: Plan, sharing: Sharing, programs: Sequence[Program], target: Target, cores: int, loops: bool
) -> Rolling:
    """The loops of a plan that are kernels, and its steps with them; without `loops` there are none."""
    rolling = Rolling(plan, sharing, programs, target, cores)
    rolling.result = rolling.steps(plan.steps) if loops else plan.steps
    return rolling


def candidates(plan: Plan) -> frozenset[int]:
    """Kernels that only counted loops launch: they may turn out to be parts of others."""
    inside: set[int] = set()
    outside: set[int] = set()

    def note(steps: Steps, counted: bool) -> None:
        for step in steps:
            if isinstance(step, Launch):
                (inside if counted else outside).add(step.kernel)
            elif isinstance(step, For):
                note(step.body, True)
            elif isinstance(step, While):
                note((*step.condition, *step.body), False)
            elif isinstance(step, Branch):
                note((*step.then, *step.otherwise), counted)

    note(plan.steps, False)
    return frozenset(inside - outside)


def launched(steps: Steps) -> list[int]:
    """The kernels that steps launch, each once, in order."""
    return list(dict.fromkeys(step.kernel for step in walk(steps) if isinstance(step, Launch)))


__all__ = ["Rolled", "Rolling", "candidates", "launched", "roll"]
