"""How `bench/cpu.py` decides who is faster: rounds, rivals, ratios; and that its processes answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.kit import process, turns
from bench.kit.process import Side
from bench.kit.turns import HEATS, RIVALS, Result, compete, hardest, ratio, rivals


class Fake:
    """A side that takes as long as it is told, turn by turn."""

    def __init__(self, name: str, times: list[float], error: float = 0.0) -> None:
        self.name, self.times, self.error, self.turns = name, times, error, 0

    def ask(self, what: str, **more: Any) -> dict[str, Any]:
        if what == "prepare":
            return {"first": 1.0, "error": self.error} if self.times else {"left": True}
        self.turns += 1
        return {"times": [self.times[(self.turns - 1) % len(self.times)]] * 3}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PAUSE", 0.0)


def run(*sides: Fake, rounds: int = 6) -> turns.Row:
    return compete(list(sides), "any", ("ours", "tuned"), rounds, 1e-3)  # type: ignore[arg-type]


def test_only_those_near_the_fastest_peer_go_on() -> None:
    assert rivals({"a": 1.0, "b": 1.3, "c": 2.0}) == ["a", "b"]
    assert len(rivals(dict.fromkeys("abcdef", 1.0))) == RIVALS
    assert rivals({}) == []
    ours, near, far, leaving = Fake("ours", [9.0]), Fake("near", [1.0]), Fake("far", [3.0]), Fake("out", [])
    row = run(ours, near, far, leaving)
    assert set(row) == {"ours", "near", "far"}
    assert (ours.turns, near.turns, far.turns) == (HEATS + 6, HEATS + 6, HEATS)
    assert hardest(row, "ours", ("ours",)) == (9.0, "near")
    assert hardest(row, "tuned", ("ours",)) is None


def test_a_ratio_is_that_of_turns_of_one_round() -> None:
    """The machine is ten times slower in some rounds: that is nobody's fault."""
    slow = [1.0, 10.0, 1.0, 10.0, 10.0, 1.0, 1.0, 10.0]
    row = run(Fake("ours", [2 * s for s in slow]), Fake("peer", slow))
    assert ratio(row, "ours", "peer") == 2.0


def test_who_is_wrong_is_no_rival() -> None:
    row = run(Fake("ours", [2.0]), Fake("wrong", [1.0], error=0.1), Fake("right", [4.0]))
    assert hardest(row, "ours", ("ours",)) == (0.5, "right")
    assert row["wrong"].rounds == []


def test_the_rival_is_whom_we_do_worst_against() -> None:
    row = {
        "ours": Result(0.0, 0.0, rounds=[1.0, 1.0]),
        "a": Result(0.0, 0.0, rounds=[1.0, 2.0]),
        "b": Result(0.0, 0.0, rounds=[1.0, 1.0]),
    }
    assert hardest(row, "ours", ("ours",)) == (1.0, "b")


def test_errors_are_those_of_the_worst_element() -> None:
    wanted = np.linspace(-4.0, 2.0, process.PIECE + 5)
    found = wanted.astype(np.float32)
    assert process._error([found], [wanted]) < 1e-6
    found[-1] += 0.4
    assert process._error([found], [wanted]) == pytest.approx(0.1, rel=1e-4)
    found[3] = np.nan
    assert process._error([found], [wanted]) == float("inf")
    with pytest.raises(ValueError, match="shape"):
        process._error([found[1:]], [wanted])


def test_a_process_prepares_and_takes_turns(tmp_path: Path) -> None:
    process.lay_out("depthwise", tmp_path)
    side = Side("numpy", 1, tmp_path)
    try:
        answer = side.ask("prepare", workload="depthwise")
        assert answer["error"] < 1e-5
        times = side.ask("turn", seconds=0.0)["times"]
        assert len(times) == process.FEWEST
        assert all(seconds > 0 for seconds in times)
        assert side.ask("prepare", workload="matmul_bf16") == {"left": True}
    finally:
        side.close()
    assert "failed" in side.ask("turn", seconds=0.0)


def test_a_tuner_tells_what_became_of_each_kernel(tmp_path: Path) -> None:
    plan = {"BENCH_SEARCH": "[2, 1, 0]", "PLANISH_CACHE_DIR": str(tmp_path / "store")}
    side = Side("tuner", 1, tmp_path, plan)
    try:
        kernels = side.ask("search", workload="mlp")["kernels"]
    finally:
        side.close()
    assert len(kernels) == 3
    assert {kernel["origin"] for kernel in kernels} == {"heuristic, no time was left for a search"}
    assert not any(kernel["replaced"] for kernel in kernels)
