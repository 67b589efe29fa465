"""Runs a function with its kernels as they are after each stage, and holds every result to what the function means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish import ptir
from planish.config import settings
from planish.llir.interpret import interpret as run_llir
from planish.llir.lower import lower as lower_to_llir
from planish.optimize.heuristic import choose
from planish.schedule.kernels import schedule
from planish.schedule.plan import Kernel
from planish.stages import pipeline
from planish.stages.bisection import difference, outputs_of
from planish.stages.pipeline import Form, Machine
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.schedule.running import memory_of

Array = NDArray[Any]
Judge = Callable[[int, Array, str], None]
"""Told the number of a result, what was found, and where; raises if it is wrong."""


@dataclass(slots=True)
class Report:
    """What was looked at."""

    kernels: int = 0
    executed: dict[int, int] = field(default_factory=dict)
    """Stage → kernels that it changed, and that were executed after it."""
    ops: set[Ops] = field(default_factory=set)
    """What occurred in the last graphs."""


def machine_for(target: str | None) -> Machine:
    """A machine with its heuristic; without a name scalar code and no actions."""
    if target is None:
        return pipeline.PLAIN
    described = TARGETS[target]
    attempt = attempts(described)
    return Machine(described, lambda sink: choose(sink, described, attempt, cores=False))


def sizes_of(function: ptir.Function, arrays: Sequence[Array]) -> dict[str, int]:
    """The named sizes that the arrays decide."""
    found: dict[str, int] = {}
    for param, array in zip(function.params, arrays, strict=True):
        for dim, size in zip(param.type.dims, array.shape, strict=True):
            if not isinstance(dim, int):
                found.setdefault(str(dim), size)
    return found


def check_function(
    function: ptir.Function, arrays: Sequence[Array], judge: Judge, target: str | None = None
) -> Report:
    """Execute every kernel after every stage that changed it; results are judged, what lies between is compared."""
    report = Report()
    sizes = sizes_of(function, arrays)
    with Table() as table, settings(check="spec"):
        plan = schedule(function, table)
        memory = memory_of(plan, arrays)
        numbers = {number: place for place, (number, _) in enumerate(plan.results)}
        dims = [
            [d if isinstance(d, int) else d.evaluate(sizes) for d in r.type.dims] for r in function.results
        ]
        last = {number: place for place, kernel in enumerate(plan.kernels) for number in kernel.written}
        for place, kernel in enumerate(plan.kernels):
            report.kernels += 1
            final = {number for number in kernel.written if last[number] == place} & numbers.keys()
            given = {slot: memory[number] for slot, number in enumerate(kernel.buffers)}
            known = {name: sizes[name] for name in kernel.variables}
            fresh = outputs_of(kernel.sink)
            expected = interpret(kernel.sink, given, known, undefined=fresh)

            def judged(
                found: Mapping[int, Array],
                where: str,
                kernel: Kernel = kernel,
                final: set[int] = final,
                expected: Mapping[int, Array] = expected,
            ) -> None:
                for slot, number in enumerate(kernel.buffers):
                    if number in final:
                        result = numbers[number]
                        elements = found[slot][: int(np.prod(dims[result]))]
                        judge(result, elements.reshape(dims[result]), where)
                    else:
                        what = difference({slot: expected[slot]}, {slot: found[slot]})
                        assert what is None, f"{where}: {what}"

            judged(expected, f"{kernel.name}, as scheduled")
            lines: Form = kernel.sink
            seen = kernel.sink
            for step in pipeline.steps(kernel.sink, machine_for(target), kernel.name):
                lines = step.form
                if isinstance(lines, UOp):
                    seen = lines
                if step.changed:
                    number = step.stage.number
                    report.executed[number] = report.executed.get(number, 0) + 1
                    found = interpret(step.form, given, known, undefined=fresh)
                    judged(found, f"{kernel.name}, after stage {number} ({step.stage.name})")
            report.ops |= {node.op for node in seen.toposort()}
            assert isinstance(lines, list)
            program = lower_to_llir(kernel.name, lines)
            slots = [int(buffer.name.removeprefix("arg")) for buffer in program.params]
            copies = {slot: array.copy() for slot, array in given.items()}
            run_llir(
                program, [copies[slot] for slot in slots], {v.name: sizes[v.name] for v in program.variables}
            )
            judged(copies, f"{kernel.name}, as LLIR")
            for slot, number in enumerate(kernel.buffers):
                memory[number] = expected[slot]
    return report
