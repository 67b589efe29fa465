"""Ranks that are processes: machine code agrees with the interpreter, and a fault of one is told and ends all."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from planish import ptir
from planish.compiler.collectives import agree
from planish.distributed import CollectiveError, World
from planish.distributed.launch import _ended, _relay, environment, launcher
from planish.errors import PlanishError
from planish.runtime.cuda.watchdog import Watchdog
from planish.runtime.rank_faults import ENDED, last_words

pytest.importorskip("mpi4py")
ROOT = Path(__file__).parents[2]


def launched(ranks: int, *script: str, limit: float = 60.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "planish", "launch", "-n", str(ranks), *script]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False, cwd=ROOT)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 4])
def test_random_programs_agree_with_the_interpreter_and_without_specs(ranks: int) -> None:
    done = launched(ranks, "-m", "tests.distributed.natively", "50", str(ranks), limit=200)
    told = f"50 triples and 25 programs of collectives on {ranks} ranks agree\n"
    assert (done.returncode, done.stdout) == (0, told), done.stderr


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ("raise", 70, ["rank 1 of 2 failed, and all ranks end", "Traceback", "ValueError: a fault of this rank"]),
        ("kill", 137, ["rank 1 was killed by SIGKILL, and all ranks ended"]),
        ("exit", 3, ["rank 1 of 2 left with status 3, and all ranks end"]),
        ("hang", 70, ["rank 0 of 2 waited 1.5 s", "all_reduce(tensor<f32, 8>) over data (2) of @step at", "faulty.py:"]),
    ],
)  # fmt: skip
def test_a_fault_of_one_ends_all(how: str, status: int, told: list[str]) -> None:
    begin = time.monotonic()
    done = launched(2, "tests/distributed/faulty.py", how)
    took = time.monotonic() - begin
    assert done.returncode == status, done.stderr
    assert all(text in done.stderr for text in told), done.stderr
    assert done.stderr.count("all ranks end") == 1
    assert not any(said in done.stdout + done.stderr for said in ("BAD TERMINATION", "prterun", "MPI_ABORT"))
    assert took < 30  # the sleeper of `hang` would take 60


@pytest.mark.mpi
def test_ranks_that_compiled_different_programs_hear_it_before_they_meet() -> None:
    done = launched(2, "tests/distributed/faulty.py", "mismatch")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert f"rank {rank} heard: the ranks do not run the same program: rank 0: @step" in done.stdout


def test_the_cores_are_shared_out_unless_the_user_has_said_how() -> None:
    assert int(environment(1000, {})["PLANISH_THREADS"]) == 1
    assert environment(2, {"PLANISH_THREADS": "7"})["PLANISH_THREADS"] == "7"


_OPEN_MPI_SAYS = f"{'-' * 74}\nprterun noticed that process rank 1 with PID 42 on node x exited on\nsignal 9 (Killed).\n{'-' * 74}\n"
_MPICH_SAYS = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 42 RUNNING AT x\n=   EXIT CODE: 9\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"


@pytest.mark.parametrize("said", [_OPEN_MPI_SAYS, _MPICH_SAYS])
def test_a_killed_rank_is_found_in_what_either_mpirun_says(said: str, tmp_path: Path) -> None:
    (tmp_path / "1").write_text("42\n")
    assert _ended(said, tmp_path) == ("rank 1 was killed by SIGKILL, and all ranks ended", 137)
    assert _ended(said + ENDED, tmp_path) is None


def test_rules_of_the_user_are_no_words_of_open_mpi(capfd: pytest.CaptureFixture[str]) -> None:
    rule = "-" * 74 + "\n"
    banner: list[str] = []
    _relay(io.BytesIO(f"{rule}a table\n{rule}{_OPEN_MPI_SAYS}{rule}rest\n".encode()), 1, banner)
    assert capfd.readouterr().out == f"{rule}a table\n{rule}{rule}rest\n"
    assert "".join(banner) == _OPEN_MPI_SAYS


def test_last_words_are_left_where_an_mpirun_that_ends_at_once_cannot_lose_them(tmp_path: Path) -> None:
    """What a rank wrote to its standard error right before the end of all was not always read by mpirun."""
    ends = "rank_faults.end_all(ranks.World(1, 2, 1.0), 'rank 1 of 2 failed ü')"
    script = (
        f"from planish.runtime import rank_faults, ranks; from pathlib import Path; "
        f"rank_faults.leave_last_words_in(Path({str(tmp_path)!r})); {ends}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (70, b"")
    assert last_words(tmp_path) == "rank 1 of 2 failed ü"
    elsewhere = script.replace(str(tmp_path), str(tmp_path / "nowhere"))
    done = subprocess.run([sys.executable, "-c", elsewhere], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.decode()) == (70, "rank 1 of 2 failed ü")


def test_the_launcher_is_the_one_beside_this_python() -> None:
    assert launcher().name in ("mpiexec", "mpirun")


def test_a_script_that_is_not_there_is_one_error() -> None:
    from planish.distributed.launch import command

    with pytest.raises(PlanishError, match=r"no script 'nowhere\.py'"):
        command(2, ["nowhere.py"])
    with pytest.raises(PlanishError, match="cannot be 0 ranks"):
        command(0, ["nowhere.py"])


def test_a_gpu_that_stays_in_a_collective_is_noticed() -> None:
    ended: list[str] = []
    words = [0, 0]
    dog = Watchdog(words, ended.append)
    first, second = dog.number("all_reduce of @f"), dog.number("all_gather of @g")
    assert dog.number("all_reduce of @f") == first != second
    for now in range(
        20
    ):  # a step a second: always in the same collective when looked at, and never the same one for long
        words[:] = [first, words[1] + 1]
        dog.look(now, 5.0)
    words[:] = [0, 100]
    for now in range(20, 40):
        dog.look(now, 5.0)  # nothing to do is no reason
    assert not ended
    words[:] = [second, 101]
    for now in range(40, 50):
        dog.look(now, 5.0)
    assert ended == ["all_gather of @g"]


def trained(ranks: int, folder: Path, *modes: str) -> dict[str, list[float]]:
    done = launched(ranks, "-m", "tests.distributed.trained", str(folder), *modes, limit=200)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


@pytest.mark.mpi
def test_a_gpt_has_the_same_losses_whatever_the_specs_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    alone = trained(1, tmp_path / "one", "pipeline", "data")
    two = trained(2, tmp_path / "two", "data", "tensor", "pipeline", "sequence")
    assert alone["resumed"] == alone["data"]  # bit by bit
    assert two["resumed"] == two["sequence"]
    for mode in ("data", "tensor", "sequence"):
        assert two[mode] == pytest.approx(alone["data"], rel=1e-4)
    assert two["pipeline"] == pytest.approx(alone["pipeline"], rel=1e-4)


@dataclass
class _Told:
    """A world whose ranks say what is given, whatever this one says."""

    others: list[str]
    size: int = 2

    def agree(self, what: str, told: bytes) -> list[bytes]:
        return [told, *(other.encode() for other in self.others)]


def test_a_rank_that_interprets_beside_machine_code_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from planish.compiler import collectives

    mesh = (("data", 2),)
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (4,)))
    whole, parts = graph.build(x.all_reduce(mesh, ("data",), "sum")), ptir.Graph("g")
    alone = parts.build(parts.input("x", ptir.tensor("float32", (4,))))
    world = _Told(["x\nthe CPU\nf\nx"])
    monkeypatch.setattr("planish.compiler.collectives.ranks.world", lambda: world)
    collectives.prepare_interpreted(alone)  # it meets nobody
    with pytest.raises(
        CollectiveError, match="devices of one kind: rank 0: the interpreter; rank 1: the CPU"
    ):
        collectives.prepare_interpreted(whole)


def test_ranks_on_devices_of_two_kinds_or_with_other_plans_are_told_so() -> None:
    digest, order = (hashlib.blake2b(text, digest_size=16).hexdigest() for text in (b"text", b"1 2"))

    def told(*others: str) -> None:
        agree(cast("World", _Told(list(others))), "f", "text", "the CPU", "1 2")

    told(f"{digest}\nthe CPU\nf\n{order}")
    with pytest.raises(CollectiveError, match="devices of one kind: rank 0: the CPU; ranks 1, 2: a GPU"):
        told(*["x\na GPU\nf\nx"] * 2)
    with pytest.raises(CollectiveError, match=r"the same program: rank 0: @f .*; rank 1: @g"):
        told("x\nthe CPU\ng\nx")
    with pytest.raises(CollectiveError, match=r"plans of @f that meet in one order: rank 0: .*; rank 1: x"):
        told(f"{digest}\nthe CPU\nf\nx")
