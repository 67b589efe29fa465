"""Which template a GPU's kernel gets: the cost model's choice among those that fit, held against what was measured on an H200."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import planish as pn
from planish import compiler
from planish.compiler.device_kinds import accelerator
from planish.compiler.scheduling import FIRST
from planish.optimize import templates
from planish.optimize.cost import estimate
from planish.optimize.draft import Draft
from planish.optimize.gpu.choose import GPU
from planish.optimize.gpu.sectors import touched, warp_of
from planish.optimize.gpu.work import work_of
from planish.optimize.heuristic import drafted, rivals
from planish.optimize.templates import every_candidate
from planish.schedule.planner import plan
from planish.stages import pipeline
from planish.stages.rangeify.attempts import attempts
from planish.target import TARGETS
from planish.uop.nest.grid import neighbouring_threads
from planish.uop.nest.kernel import Nest
from planish.uop.node import Table, UOp

TARGET = TARGETS["sm_90"]


def kernels(function: Any, *shapes: tuple[Any, ...], dtype: Any = pn.float32) -> Iterator[UOp]:
    """The kernels of a program as they come to stage 7."""
    machine = pipeline.Machine(TARGET, lambda sink: ())
    specs = [pn.TensorSpec(shape, dtype) for shape in shapes]
    traced = compiler.prepare(pn.jit(function).lower(*specs).function, compiler.PIPELINE)
    with Table() as table:
        for kernel in plan(traced, table, target=TARGET).kernels:
            sink = kernel.sink
            for stage in pipeline.STAGES:
                if stage.number < FIRST:
                    sink = stage.run(sink, machine)
            yield sink


def chosen(sink: UOp) -> Draft:
    return drafted(sink, TARGET, attempts(TARGET), cores=False)


def offers(sink: UOp) -> dict[str, Draft]:
    draft = Draft(sink, TARGET, attempts(TARGET), cores=False)
    return dict(every_candidate(draft, Nest.of(sink), GPU, lambda draft: None))


def column_sums(x: Any) -> Any:
    return pn.sum(x, axis=0)


def outer_two(x: Any) -> Any:
    return pn.sum(x, axis=(0, 2))


def running(x: Any) -> Any:
    return pn.cumulative_sum(x, axis=1)


def by_rows(x: Any, w: Any) -> Any:
    return x @ w.mT


MEASURED: dict[str, tuple[Any, tuple[tuple[int, ...], ...], Any, str, float, str, float]] = {
    "columns": (column_sums, ((3333, 3000),), pn.bfloat16, "columns in rounds, 16 to each", 11.6, "columns", 21.4),
    "columns of few rows": (column_sums, ((333, 60000),), pn.bfloat16, "columns in rounds, 8 to each", 12.0, "columns", 20.0),
    "results that are few": (outer_two, ((16, 300, 777),), pn.bfloat16, "rows of many threads", 4.3, "rows", 11.8),
    "several rows": (by_rows, ((7, 3072), (6000, 3072)), pn.float32, "several rows", 25.8, "rows", 116.9),
    "scans of few": (running, ((20000, 130),), pn.float32, "elements in small blocks", 47.0, "elements", 55.0),
}  # fmt: skip
"""Programs, what their first kernel gets, what would come before it, and the microseconds of both."""


@pytest.mark.parametrize("name", MEASURED)
def test_what_was_measured_to_be_faster_is_chosen(name: str) -> None:
    function, shapes, dtype, faster, least, slower, most = MEASURED[name]
    sink = next(kernels(function, *shapes, dtype=dtype))
    ways = offers(sink)
    prices = {label: estimate(ways[label].sink, TARGET).cycles for label in (faster, slower)}
    assert prices[faster] < prices[slower]
    assert least < most
    assert chosen(sink).template == faster


def test_kept_rows_that_are_made_longer_have_a_block_each() -> None:
    """What is kept of them is then in registers: variance of 5000 x 1700 took 14.3 us two to a block, 9.4 us one."""
    sink = next(kernels(lambda x: pn.var(x, axis=1), (5000, 1700)))
    draft = chosen(sink)
    assert draft.template == "rows"
    assert not any(a.word == "local" for a in draft.actions)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[UOp]:
    asked: list[UOp] = []

    def asking(sink: UOp, *args: Any, **more: Any) -> Any:
        asked.append(sink)
        return estimate(sink, *args, **more)

    monkeypatch.setattr(templates, "estimate", asking)
    return asked


def test_what_is_settled_or_over_at_once_has_no_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch)
    product = next(kernels(lambda x, y: x @ y, (4096, 4096), (4096, 4096), dtype=pn.bfloat16))
    assert chosen(product).template == "warpgroups"
    assert not asked
    small = next(kernels(pn.nn.softmax, (30, 256)))
    assert chosen(small).template == "rows"
    assert len(asked) == 1


def test_the_first_that_fits_is_taken_where_sizes_are_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = counted(monkeypatch)
    rows = pn.Dim("rows", 1, 4096)
    product = next(kernels(lambda x, y: x @ y, (rows, 300), (300, 512), dtype=pn.bfloat16))
    assert chosen(product).template == "columns"
    assert not asked


def test_losers_are_told_with_their_prices() -> None:
    sink = next(kernels(column_sums, (3333, 3000)))
    found = rivals(sink, TARGET, attempts(TARGET))
    assert {"columns", "elements", "sums"} <= {each.name for each in found}
    cycles = [each.cost.cycles for each in found]
    assert cycles == sorted(cycles)
    assert all(each.cost.parts for each in found)


def test_tiles_that_a_copy_engine_fills_leave_room_for_their_barriers() -> None:
    """Results of rows that start anywhere took all there is, and the driver refused the kernel."""
    specs = [pn.TensorSpec(shape, pn.bfloat16) for shape in ((3100, 1900), (1900, 2500))]
    lowered = compiler.lower(pn.jit(lambda x, y: x @ y).lower(*specs).function, "sm_90")
    text = lowered.as_text("cuda")
    static = sum(8 * int(n) for n in re.findall(r"__shared__ uint64_t .*?;", text) for n in re.findall(r"\[(\d+)\]", n))  # fmt: skip
    shared = [each.shared for each in accelerator(TARGET.device).launches(lowered)]
    assert static > 0
    assert max(shared) + static <= 227 << 10


@pytest.mark.parametrize(
    ("function", "label", "sectors", "lines"),
    [
        (column_sums, "columns", 4, 1),  # neighbours: 128 bytes
        (column_sums, "sums", 32, 32),  # each thread in a row of its own
        (lambda x: x + 1.0, "elements", 16, 4),  # sixteen bytes each
    ],
)
def test_warps_touch_as_many_sectors_as_their_threads_lie_in(
    function: Any, label: str, sectors: int, lines: int
) -> None:
    sink = offers(next(kernels(function, (4096, 1024))))[label].sink
    nest = Nest.of(sink)
    warp = warp_of(neighbouring_threads(nest), TARGET)
    (seen,) = {touched(access, warp) for access in nest.accesses if access.in_memory and not access.is_store}
    assert (seen.sectors, seen.lines, seen.active) == (sectors, lines, 32)


def test_work_is_that_of_all_blocks() -> None:
    sink = offers(next(kernels(column_sums, (4096, 1024))))["columns"].sink
    work = work_of(Nest.of(sink), TARGET)
    assert work.unique == pytest.approx(4 * 4096 * 1024 + 4 * 1024, rel=0.01)
    assert work.sectors == pytest.approx(4 * 4096 * 1024, rel=0.01)
    assert work.blocks * work.threads >= 1024
    assert work.barriers == 2
    assert work.instructions == pytest.approx(4096 * 1024 / 32, rel=0.1)
