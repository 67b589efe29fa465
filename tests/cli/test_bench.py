"""`planish bench`: kernels timed against limits, searches shown, winners carried from one store to another."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

import planish
from planish.actions.base import Action
from planish.actions.unroll import Unroll
from planish.actions.upcast import Upcast
from planish.compiler import tuning
from planish.compiler.campaign import Campaign
from planish.optimize.searched import Attempted, Measured, Outcome, Search
from planish.runtime.limits import Limits
from planish.target import Target
from planish.uop.node import UOp
from tests.cli.conftest import Cli

PROGRAM = """\
ptir 1
func @f(%a: tensor<f32, 64x32>, %b: tensor<f32, 32x64>) -> tensor<f32, 64x64> {
  %0 = dot_general %a, %b {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0], accum_dtype=f32, out_dtype=f32} : tensor<f32, 64x64>
  return %0
}
"""
FASTER = (Upcast("j", 16), Upcast("i", 4))


class FakeMeter:
    """A machine whose limits are known; a kernel at half of them."""

    known: float | None = 0.5

    asked: ClassVar[list[tuple[Mapping[int, int], int]]] = []

    def __init__(self, sandbox: object, lanes: int) -> None:
        self.asked.clear()

    def limits(self) -> Limits:
        return Limits(1e11, 1e10)

    def share(self, flops: Mapping[int, int], nbytes: int, seconds: float) -> float | None:
        self.asked.append((flops, nbytes))
        return self.known


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # the limits themselves have a test of their own, and take seconds
    monkeypatch.setattr("planish.cli.bench.Meter", FakeMeter)
    with planish.settings(cache_dir=str(tmp_path / "cache")):
        yield


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "prog.ptir"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(sink: UOp, target: Target, start: Sequence[Action], *, budget: float) -> Search:
        bad = Attempted((Unroll("k", 4),), Measured(Outcome.CRASHED, detail="SIGSEGV"), 1.0)
        return Search(FASTER, 1.0, 1.25, trials=[bad], considered=9, rounds=2, ended="nothing improved")

    monkeypatch.setattr(tuning, "search", search)


def test_kernels_and_the_whole_are_timed(cli: Cli, program: Path) -> None:
    ran = cli("bench", program, "--threads", "1", "--explain")
    assert ran.status == 0
    assert "limits on 1 thread: 100 GFLOP/s, 10.0 GB/s from memory" in ran.err
    head, row, whole, *why = ran.out.splitlines()
    assert head.split() == ["kernel", "calls", "ms", "GFLOP/s", "GB/s", "limit", "bound", "by"]
    assert re.fullmatch(r"reduce_64x64_\w+ +1 +[\d.]+ +[\d.]+ +[\d.]+ +50%  \w+", row)
    assert re.fullmatch(r"whole program: [\d.]+ ms", whole)
    # a product of 64x32 by 32x64, each number touched once
    ((flops, nbytes),) = FakeMeter.asked
    assert flops[32] >= 2 * 64 * 64 * 32
    assert nbytes == 4 * (64 * 32 + 32 * 64 + 64 * 64)
    assert why[0].endswith(": heuristic")
    assert any("upcast" in line for line in why)


def test_a_limit_that_could_not_be_measured_is_told_as_such(
    cli: Cli, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeMeter, "known", None)
    ran = cli("bench", program, "--threads", "1")
    assert re.search(r"^reduce_\S+ .* –  \w+$", ran.out, re.MULTILINE)
    assert "–: its limit could not be measured" in ran.err


@pytest.mark.usefixtures("searched")
def test_tuning_shows_before_and_after(cli: Cli, program: Path) -> None:
    with pytest.warns(tuning.TuningWarning):
        ran = cli("bench", program, "--threads", "1", "--tune", "--explain")
    assert ran.status == 0
    assert "before ms" in ran.out
    assert re.search(r"whole program: [\d.]+ ms before, [\d.]+ ms after, [\d.]+x", ran.out)
    assert "search: 1.25 times as fast as the heuristic's" in ran.err
    assert "1 measured of 9, 2 rounds, nothing improved" in ran.err
    assert "rejected: it ended its process (SIGSEGV): unroll(k, 4)" in ran.err
    assert all(str(action) in ran.out for action in FASTER)


@pytest.mark.usefixtures("searched")
def test_tuning_has_time_in_all(cli: Cli, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Campaign, "budget", lambda self, wanted: None if self.total == 7 else wanted)
    ran = cli("bench", program, "--threads", "1", "--tune", "--total", "7")
    assert "heuristic, no time was left for a search" in ran.err
    assert cli("bench", program, "--tune", "--total", "0").status == 2


@pytest.mark.usefixtures("searched")
def test_winners_go_from_one_store_to_another(cli: Cli, program: Path, tmp_path: Path) -> None:
    file = tmp_path / "winners.json"
    with pytest.warns(tuning.TuningWarning):
        ran = cli("bench", program, "--tune", "--export", file)
    assert "1 winners written to" in ran.err
    assert json.loads(file.read_text())["winners"][0]["schedule"] == "upcast(j, 16); upcast(i, 4)"
    with planish.settings(cache_dir=str(tmp_path / "another"), deterministic=True, beam=4):
        ran = cli("bench", "--import", file)
        assert ran.err.endswith("1 winners for this machine imported\n")
        ran = cli("bench", program)  # pinned: what was imported is used, nothing is searched
        assert "earlier search: 1.25 times" in ran.err


def test_a_damaged_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "winners.json"
    file.write_text("{}")
    ran = cli("bench", "--import", file)
    assert ran.status == 1
    assert "not a file of winners" in ran.err
    assert cli("bench", "--import", tmp_path / "none.json").status == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["--tune"], ["p.ptir", "--beam", "0"], ["p.ptir", "--threads", "0"], ["p.ptir", "--budget", "x"]],
)
def test_misuse(cli: Cli, arguments: list[str]) -> None:
    assert cli("bench", *arguments).status == 2


def test_models_are_timed_too(cli: Cli, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    x = onnx.helper.make_tensor_value_info("x", 1, ["batch", 8])
    y = onnx.helper.make_tensor_value_info("y", 1, ["batch", 8])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    ran = cli("bench", tmp_path / "m.onnx", "--dim", "batch=4")
    assert ran.status == 0, ran.err
    assert "whole program" in ran.out
