"""Random plans over small kernels, and how to run one: the kernels are Python, so that only the plan and its memory matter.

A kernel computes element by element, in an order that differs from one to the next: whoever overwrites an element that is still
needed changes a result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.compiler import Executable, Lowered
from planish.compiler.arguments import Arguments
from planish.llir.program import Program
from planish.ptir.function import Function
from planish.ptir.types import tensor
from planish.runtime.plan import KernelCall
from planish.schedule.plan import (
    Branch,
    Copy,
    For,
    Kernel,
    Launch,
    Plan,
    PlanBuffer,
    Role,
    Step,
    Steps,
    SwapPointers,
    View,
    While,
)
from planish.schedule.sharing import settled, share
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops

Array = NDArray[Any]
SIZES = (1, 5, 10)


@dataclass
class RandomKernel:
    """One kernel: its graph, and what it does to element i."""

    name: str
    inputs: int
    value: Callable[[UOp, Sequence[UOp], int], UOp]
    compute: Callable[[int, Sequence[Array]], float]


KINDS = (
    RandomKernel("double", 1, lambda i, x, n: x[0].index(i) * 2.0 + 1.0, lambda i, x: x[0][i] * 2.0 + 1.0),
    RandomKernel("add", 2, lambda i, x, n: x[0].index(i) + x[1].index(i), lambda i, x: x[0][i] + x[1][i]),
    RandomKernel("flip", 1, lambda i, x, n: x[0].index(i * -1 + (n - 1)), lambda i, x: x[0][-1 - i]),
    RandomKernel(
        "mix",
        2,
        lambda i, x, n: x[0].index(i) + x[1].index(i * -1 + (n - 1)) * 3.0,
        lambda i, x: x[0][i] + x[1][-1 - i] * 3.0,
    ),
)


@dataclass
class Random:
    """A plan in the making."""

    rng: random.Random
    table: Table
    buffers: list[PlanBuffer] = field(default_factory=list)
    kernels: dict[tuple[str, int], int] = field(default_factory=dict)
    made: list[Kernel] = field(default_factory=list)
    calls: list[KernelCall] = field(default_factory=list)
    block: list[Step] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    """Buffers that hold something here."""
    depth: int = 0
    counters: int = 0

    def buffer(self, size: int, role: Role = Role.ARENA, position: int = 0, dtype: str = "f32") -> int:
        donated = role is Role.PARAMETER and position > 0 and self.rng.random() < 0.5
        self.buffers.append(PlanBuffer(dtypes.parse(dtype), size, role, position, donated=donated))
        return len(self.buffers) - 1

    def size(self, buffer: int) -> int:
        size = self.buffers[buffer].size
        assert isinstance(size, int)
        return size

    def kernel(self, kind: RandomKernel, size: int) -> int:
        number = self.kernels.setdefault((kind.name, size), len(self.made))
        if number == len(self.made):
            table = self.table
            params = [table.param(slot, dtypes.float32, size) for slot in range(kind.inputs + 1)]
            i = table.range(size, 0)
            store = params[0].index(i).store(kind.value(i, params[1:], size))
            self.made.append(Kernel(f"{kind.name}_{size}", table.sink(store.end(i)), ()))

            def call(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
                out, *given = arrays
                for i in range(size) if number % 2 else reversed(range(size)):
                    out[i] = np.fmod(kind.compute(i, given), 1009.0)

            self.calls.append(call)
        return number

    def compare(self) -> int:
        """The kernel that says whether a number is positive."""
        number = self.kernels.setdefault(("positive", 1), len(self.made))
        if number == len(self.made):
            out, x = self.table.param(0, dtypes.bool_, 1), self.table.param(1, dtypes.float32, 1)
            zero = self.table.const(0)
            value = self.table.const(0.0, dtypes.float32).alu(Ops.CMPLT, x.index(zero))
            self.made.append(Kernel("positive", self.table.sink(out.index(zero).store(value)), ()))

            def call(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
                arrays[0][0] = arrays[1][0] > 0

            self.calls.append(call)
        return number

    def decrease(self) -> int:
        """The kernel that counts down."""
        number = self.kernels.setdefault(("decrease", 1), len(self.made))
        if number == len(self.made):
            out, x = (self.table.param(slot, dtypes.float32, 1) for slot in range(2))
            zero = self.table.const(0)
            store = out.index(zero).store(x.index(zero) - 1.0)
            self.made.append(Kernel("decrease", self.table.sink(store), ()))

            def call(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
                arrays[0][0] = arrays[1][0] - 1.0

            self.calls.append(call)
        return number

    # -- steps -----------------------------------------------------------------------------------------------------

    def launch(self, into: int | None = None) -> int:
        """Some kernel on what is there."""
        size = self.size(self.rng.choice(self.seen)) if into is None else self.size(into)
        around = [buffer for buffer in self.seen if self.size(buffer) == size]
        recent = around[-3:] if self.rng.random() < 0.5 else around
        if not recent:
            raise LookupError
        kind = self.rng.choice(KINDS)
        out = self.buffer(size) if into is None else into
        inputs = tuple(dict.fromkeys(self.rng.choice(recent) for _ in range(kind.inputs)))
        if len(inputs) < kind.inputs:
            kind = KINDS[self.rng.choice((0, 2))]
        self.block.append(Launch(self.kernel(kind, size), (out, *inputs)))
        return out

    def write(self, into: int) -> None:
        """Something, in a buffer that exists."""
        around = [buffer for buffer in self.seen if self.size(buffer) == self.size(into)]
        if around and self.rng.random() < 0.2:
            self.block.append(Copy(self.rng.choice(around), into))
        else:
            self.launch(into)

    def inside(self, count: int, then: Callable[[], None] = lambda: None, seen: Sequence[int] = ()) -> Steps:
        """A block of its own."""
        outer, before = self.block, list(self.seen)
        self.block = []
        self.seen += seen
        self.depth += 1
        self.fill(count)
        then()
        found = tuple(self.block)
        self.depth -= 1
        self.block, self.seen = outer, before
        return found

    def branch(self) -> None:
        results = [self.buffer(self.size(self.rng.choice(self.seen))) for _ in range(self.rng.randint(1, 2))]

        def finish() -> None:
            for result in results:
                self.write(result)

        flag = self.buffer(1, dtype="bool")
        numbers = [buffer for buffer in self.seen if self.size(buffer) == 1]
        if not numbers:
            raise LookupError
        self.block.append(Launch(self.compare(), (flag, self.rng.choice(numbers))))
        then = self.inside(self.rng.randint(0, 2), finish)
        self.block.append(Branch(flag, then, self.inside(self.rng.randint(0, 2), finish)))
        self.seen += results

    def carries(self) -> list[tuple[int, int]]:
        """Buffers that a loop carries, with their first values."""
        found = []
        for _ in range(self.rng.randint(1, 2)):
            source = self.rng.choice(self.seen)
            old = self.buffer(self.size(source))
            self.block.append(Copy(source, old))
            found.append((old, self.buffer(self.size(source))))
        return found

    def advance(self, carried: Sequence[tuple[int, int]]) -> None:
        for old, new in carried:
            self.seen.append(old)  # once more: the next value is most often made of the last
            self.write(new)
        self.block += [SwapPointers(old, new) for old, new in carried]

    def repeat(self) -> None:
        count, size = self.rng.randint(0, 3), self.rng.choice((1, 5))
        carried = self.carries()
        self.counters += 1
        counter = f"counter.{self.counters}"
        base = self.buffer(count * size)
        self.block.append(For(count, f"{counter}.fill", False, self.filling(base, size, f"{counter}.fill")))
        stacked = self.buffer(count * size)
        views = [self.buffer(size, Role.VIEW) for _ in range(2)]

        def finish() -> None:
            self.write(views[1])
            self.advance(carried)

        body = self.inside(self.rng.randint(0, 5), finish, [*(old for old, _ in carried), views[0]])
        slices: list[Step] = [View(views[0], base, counter), View(views[1], stacked, counter)]
        self.block.append(For(count, counter, self.rng.random() < 0.5, (*slices, *body)))
        self.seen += [old for old, _ in carried]
        if count * size in SIZES:
            self.seen.append(stacked)

    def filling(self, base: int, size: int, counter: str) -> Steps:
        view = self.buffer(size, Role.VIEW)

        def finish() -> None:
            self.block.append(View(view, base, counter))
            self.write(view)

        return self.inside(0, finish)

    def loop(self) -> None:
        count, following = self.buffer(1), self.buffer(1)
        self.block.append(Copy(0, count))  # how often
        carried = self.carries()
        flag = self.buffer(1, dtype="bool")

        def decide() -> None:
            self.block.append(Launch(self.compare(), (flag, count)))

        def finish() -> None:
            self.block.append(Launch(self.decrease(), (following, count)))
            self.advance(carried)
            self.block.append(SwapPointers(count, following))

        around = [count, *(old for old, _ in carried)]
        condition = self.inside(self.rng.randint(0, 1), decide, around)
        body = self.inside(self.rng.randint(0, 5), finish, around)
        self.block.append(While(condition, flag, body))
        self.seen += [old for old, _ in carried]

    def fill(self, count: int) -> None:
        for _ in range(count):
            kinds: list[Callable[[], object]] = [lambda: self.seen.append(self.launch())] * 5
            if self.depth < 3:
                kinds += [self.branch, self.repeat, self.loop]
            steps, seen, buffers = len(self.block), len(self.seen), len(self.buffers)
            try:
                self.rng.choice(kinds)()
            except LookupError:
                del self.block[steps:], self.seen[seen:], self.buffers[buffers:]

    def plan(self, size: int) -> Plan:
        self.seen = [self.buffer(each, Role.PARAMETER, position) for position, each in enumerate((1, *SIZES))]
        self.fill(size)
        results = []
        for position in range(self.rng.randint(1, 3)):
            result = self.buffer(self.size(self.rng.choice(self.seen)), Role.RESULT, position)
            self.write(result)
            results.append(result)
        dims = tuple((self.buffers[result].size,) for result in results)
        return Plan(tuple(self.block), tuple(self.made), tuple(self.buffers), tuple(results), dims)


def random_plan(seed: int, table: Table) -> tuple[Plan, list[KernelCall]]:
    """A plan that depends on the seed alone, and its kernels as callables."""
    rng = random.Random(seed)
    making = Random(rng, table)
    return making.plan(rng.randint(2, 14)), making.calls


def executable(plan: Plan, calls: Sequence[KernelCall], *, reuse: bool) -> Executable:
    """A plan that can be called, on an arena or with memory for every buffer."""
    params = [buffer for buffer in plan.buffers if buffer.role is Role.PARAMETER]
    function = Function("random", [tensor("f32", (buffer.size,)) for buffer in params])
    function.body.set_results(function.params[:1] * len(plan.results))
    programs = tuple(Program(kernel.name, (), (), ()) for kernel in plan.kernels)
    sharing = share(plan, reuse=reuse)
    plan = settled(plan, sharing)
    lowered = Lowered(function, Arguments(function), plan, sharing, programs, TARGETS["scalar"])
    return Executable(lowered, _bounded(calls))


class Endless(Exception):
    """Whoever writes over the count of a loop may never come to its end."""


def _bounded(calls: Sequence[KernelCall], most: int = 100_000) -> list[KernelCall]:
    left = iter(range(most))

    def bounded(call: KernelCall) -> KernelCall:
        def run(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
            if next(left, None) is None:
                raise Endless
            call(arrays, values, scratch)

        return run

    return [bounded(call) for call in calls]


def arguments(plan: Plan, seed: int) -> list[Array]:
    """Arrays for its parameters; the first says how often loops run."""
    rng = np.random.default_rng(seed)
    sizes = [int(str(buffer.size)) for buffer in plan.buffers if buffer.role is Role.PARAMETER]
    first = rng.integers(0, 4, 1).astype(np.float32)
    return [first, *(rng.integers(-9, 10, size).astype(np.float32) for size in sizes[1:])]
