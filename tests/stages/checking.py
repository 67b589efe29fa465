"""What every stage test does: both graphs legal, both executed, both printed side by side in a golden file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.text import parse, print_graph
from tests.conftest import Golden
from tests.stages.execution import execute, same
from tests.stages.kernels import buffers_of, random_kernel

Run = Callable[[UOp], UOp]
Array = NDArray[Any]


def unchanged_result(
    before: UOp,
    after: UOp,
    variables: Mapping[UOp, int] | None = None,
    buffers: Mapping[int, Array] | None = None,
    seed: int = 0,
) -> bool:
    """Whether two forms of a kernel do the same to memory."""
    given = buffers_of(before, seed) if buffers is None else buffers
    return same(execute(before, given, variables), execute(after, given, variables))


def check_stage(
    golden: Golden,
    name: str,
    run: Run,
    kernel: UOp,
    variables: Mapping[UOp, int] | None = None,
    buffers: Mapping[int, Array] | None = None,
    phase: str = "kernel",
) -> UOp:
    """The kernel after a stage, which must be legal, do the same, be a fixpoint, and read as stored."""
    spec.check(kernel, phase)
    after = run(kernel)
    spec.check(after, phase)
    assert unchanged_result(kernel, after, variables, buffers)
    assert run(after) is after, "the stage changes its own result"
    assert parse(print_graph(after), after.table) is after
    golden.check(f"stages/{name}.txt", f"=== before\n{print_graph(kernel)}=== after\n{print_graph(after)}")
    return after


class Outcome(NamedTuple):
    """What a stage did to random kernels: those it made illegal or wrong (by seed), and how many it changed."""

    failures: list[int]
    changed: int


def random_outcome(
    run: Run,
    seeds: range,
    prepare: Run = lambda sink: sink,
    make: Callable[[random.Random, Table], UOp] = random_kernel,
    *,
    first: bool = False,
) -> Outcome:
    """Run a stage on random kernels; up to the first failure only, if asked."""
    failures, changed = [], 0
    for seed in seeds:
        with Table() as table:
            kernel = prepare(make(random.Random(seed), table))
            try:
                after = run(kernel)
                changed += after is not kernel
                spec.check(after, "kernel")
                right = after is kernel or unchanged_result(kernel, after, seed=seed)
            except (PlanishError, AssertionError):
                right = False
        if not right:
            failures.append(seed)
            if first:
                break
    return Outcome(failures, changed)


def some_failure(run: Run, seeds: range, prepare: Run = lambda sink: sink) -> bool:
    """Whether random kernels show that a stage is wrong."""
    return bool(random_outcome(run, seeds, prepare, first=True).failures)
