"""Runs what the scheduler makes of a function: each kernel's graph as it is, or lowered to LLIR, counting what it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.config import settings
from planish.llir.counters import Counters
from planish.llir.interpret import interpret as run_llir
from planish.llir.lower import lower as lower_to_llir
from planish.optimize.heuristic import choose
from planish.ptir.interpret import interpret
from planish.schedule.kernels import Schedule, schedule
from planish.schedule.plan import Kernel
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS
from planish.uop.interpret import interpret as run_uops
from planish.uop.node import Table, UOp

Array = NDArray[Any]
NONE: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Ran:
    """A run: the results, and per kernel its name and what it did."""

    results: tuple[Array, ...]
    kernels: tuple[str, ...]
    counters: tuple[Counters, ...] = ()

    @property
    def read(self) -> int:
        """Bytes read from global memory."""
        return sum(each.bytes_read for each in self.counters)

    @property
    def written(self) -> int:
        """Bytes written to global memory."""
        return sum(each.bytes_written for each in self.counters)

    @property
    def scratch(self) -> int:
        """LOCAL bytes per thread, of the kernel that has most."""
        return max(each.scratch_bytes for each in self.counters)


def memory_of(plan: Schedule, arrays: Sequence[Array]) -> list[Array]:
    """The buffers of a schedule: parameters, constants, and what kernels will fill (with what is no result)."""
    memory = []
    for buffer in plan.buffers:
        if buffer.parameter is not None:
            given = np.zeros(buffer.size, buffer.dtype.numpy)
            flat = np.ascontiguousarray(arrays[buffer.parameter]).reshape(-1)
            given[: flat.size] = flat
            memory.append(given)
        elif buffer.constant is not None:
            memory.append(np.array(buffer.constant).reshape(-1))
        else:
            memory.append(np.full(buffer.size, 77, buffer.dtype.numpy))
    return memory


def _results(
    function: ptir.Function, plan: Schedule, memory: list[Array], sizes: Mapping[str, int]
) -> tuple[Array, ...]:
    found = []
    for (number, _), result in zip(plan.results, function.results, strict=True):
        dims = [dim if isinstance(dim, int) else dim.evaluate(sizes) for dim in result.type.dims]
        found.append(memory[number][: int(np.prod(dims))].reshape(dims))
    return tuple(found)


def run_graphs(function: ptir.Function, arrays: Sequence[Array], sizes: Mapping[str, int] = NONE) -> Ran:
    """Every kernel by the UOp interpreter, as the scheduler made it."""
    with Table() as table:
        plan = schedule(function, table)
        memory = memory_of(plan, arrays)
        for kernel in plan.kernels:
            given = {slot: memory[number] for slot, number in enumerate(kernel.buffers)}
            after = run_uops(kernel.sink, given, {name: sizes[name] for name in kernel.variables})
            for slot, number in enumerate(kernel.buffers):
                if number in kernel.written:
                    memory[number] = after[slot]
        return Ran(_results(function, plan, memory, sizes), tuple(k.name for k in plan.kernels))


def _lines(kernel: Kernel, target: str | None) -> list[UOp]:
    machine = pipeline.PLAIN
    if target is not None:
        described = TARGETS[target]
        attempt = attempts(described)
        machine = pipeline.Machine(described, lambda sink: choose(sink, described, attempt, cores=False))
    with settings(check="spec"):
        return pipeline.run(kernel.sink, machine)


def run_programs(
    function: ptir.Function,
    arrays: Sequence[Array],
    sizes: Mapping[str, int] = NONE,
    target: str | None = None,
) -> Ran:
    """Every kernel by the LLIR interpreter; without a target as plain scalar loops."""
    counted = []
    with Table() as table:
        plan = schedule(function, table)
        memory = memory_of(plan, arrays)
        for kernel in plan.kernels:
            program = lower_to_llir(kernel.name, _lines(kernel, target))
            slots = [int(buffer.name.removeprefix("arg")) for buffer in program.params]
            given = [memory[kernel.buffers[slot]] for slot in slots]
            needed = {variable.name: sizes[variable.name] for variable in program.variables}
            counted.append(run_llir(program, given, needed))
        found = _results(function, plan, memory, sizes)
        return Ran(found, tuple(kernel.name for kernel in plan.kernels), tuple(counted))


def names(function: ptir.Function) -> list[str]:
    """The kernels of a function, by what they do: the first word of each name."""
    with Table() as table:
        return [kernel.name.split("_")[0] for kernel in schedule(function, table).kernels]


def reference(function: ptir.Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """What the function means."""
    return tuple(interpret(function, list(arrays)))


def close(found: Sequence[Array], expected: Sequence[Array], terms: int = 1) -> None:
    """Integers are equal; floats differ by rounding, more where many terms were added."""
    assert len(found) == len(expected)
    for have, want in zip(found, expected, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        if want.dtype.kind in "fV":
            eps = 1.2e-7 if want.dtype.itemsize >= 4 else 1e-2
            scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=1.0)
            np.testing.assert_allclose(have, want, rtol=16 * eps, atol=float(scale) * eps * (4 + terms))
        else:
            np.testing.assert_array_equal(have, want)
