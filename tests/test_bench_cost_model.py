"""What holds the cost model against times: its kernels, its schedules, its figures. Nothing is timed here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Self

import pytest

from bench import cost_model
from bench.cost_model import Case, Times, Walks, correlation, kernels, ranks, summary
from bench.kit import gpu_kernels
from planish.config import settings
from planish.target import TARGETS, host

V4 = TARGETS["x86-64-v4"]


def test_there_are_kernels_enough() -> None:
    names = [name for name, _ in kernels("", V4)]
    assert len(names) == len(set(names)) >= 200


def test_there_are_programs_enough_for_gpus() -> None:
    rows = [
        (row.name, sizes, dtype) for row in gpu_kernels.ROWS for sizes in row.sizes for dtype in row.dtypes
    ]
    assert len(set(rows)) == len(rows) > 250
    assert {row.name for row in gpu_kernels.ROWS} == set(gpu_kernels.FAMILIES)


def test_equal_values_share_their_rank() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([1, 2, 3], [10, 20, 40], 1.0), ([1, 2, 3], [3, 2, 1], -1.0), ([1, 2, 3, 4], [2, 1, 4, 3], 0.6)],
)
def test_ranks_are_compared(one: list[float], other: list[float], expected: float) -> None:
    assert correlation(one, other) == pytest.approx(expected)


def test_a_wrong_order_within_kernels_is_seen_although_sizes_are_right() -> None:
    small = Case("small", (1.0, 2.0, 3.0), (3e-6, 2e-6, 1e-6))
    large = Case("large", (100.0, 200.0, 300.0), (3e-4, 2e-4, 1e-4))
    found = summary([small, large])
    assert found["over_all"] > 0
    assert found["within"] < -0.9
    assert found["chosen"] == pytest.approx(3.0)
    assert found["heuristic"] == pytest.approx(3.0)


def test_schedules_are_different_begin_with_the_heuristic_s_and_are_found_again() -> None:
    with settings(calibration=False):
        target = host()
        name, sink = next(kernels("product 64x100", target))
        several = [Walks(sink, target, random.Random(f"0 {name}")).schedules(6) for _ in range(2)]
        heuristic = cost_model._heuristic(sink, target)
    assert list(several[0].values()) == list(several[1].values())
    assert len(several[0]) == 6
    assert next(iter(several[0].values())) == heuristic


def test_what_was_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measured(self: Times, sink: object, taken: object) -> float:
        asked.append(1)
        return 1e-6 * len(asked)

    class Nothing:
        def __init__(self, *args: object, **how: object) -> None: ...

        def __enter__(self) -> Self:
            return self

    monkeypatch.setattr(Times, "_measured", measured)
    monkeypatch.setattr(cost_model, "Sandbox", Nothing)
    _, sink = next(kernels("clip", V4))
    path = tmp_path / "times.json"
    first = Times(path).of(sink, {sink: ()})
    assert Times(path).of(sink, {sink: ()}) == first
    assert len(asked) == 1
