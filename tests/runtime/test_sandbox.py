"""Code that nobody has run before, in processes of its own: whatever it does, the answer is a word about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from planish.errors import PlanishError
from planish.runtime import cpu, limits, sandbox
from planish.runtime.sandbox import (
    LENGTH,
    REALS,
    WHOLE,
    Check,
    Gone,
    Sandbox,
    Setup,
    TimedKernel,
    TrialBuffer,
    Worker,
)
from planish.runtime.sandbox_worker import CandidateTrial, Guarded
from planish.runtime.trial_data import difference, made_up

COUNT = 1000
PLACES = (TrialBuffer("arg0", "float32", COUNT, True, Check()), TrialBuffer("arg1", "float32", COUNT, False))


def source(body: str) -> str:
    """A loop over all elements: `%v` is what is read, `%w` what is stored."""
    return f"""
define void @kernel(ptr %o, ptr %x) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %n, %next ]
  %p = getelementptr float, ptr %x, i64 %i
  %q = getelementptr float, ptr %o, i64 %i
  %v = load float, ptr %p
{body}
  br label %next
next:
  %n = add i64 %i, 1
  %m = icmp slt i64 %n, {COUNT}
  br i1 %m, label %loop, label %end
end:
  ret void
}}
"""


def kernel(body: str) -> TimedKernel:
    return TimedKernel(source(body), cpu.host(), (0, 1), (), (), 0, 1000)


DOUBLE = kernel("  %w = fadd float %v, %v\n  store float %w, ptr %q")
OTHERWISE = kernel("  %w = fmul float %v, 2.0\n  store float %w, ptr %q")
WRONG = kernel("  %w = fmul float %v, 3.0\n  store float %w, ptr %q")
CLOSE = kernel(
    "  %u = fmul float %v, 2.0\n  %w = fadd float %u, 0x3F10000000000000\n  store float %w, ptr %q"
)
NOTHING = kernel("")
BEYOND = kernel(f"  %r = getelementptr float, ptr %o, i64 {1 << 43}\n  store float %v, ptr %r")
BEHIND = kernel(f"  %r = getelementptr float, ptr %o, i64 {COUNT + 24}\n  store float %v, ptr %r")
INPUT = kernel("  store float 0.0, ptr %p")
TRAP = kernel("  call void @llvm.trap()").source.replace("define", "declare void @llvm.trap()\ndefine", 1)
HANG = kernel("  br label %again\nagain:\n  store volatile float %v, ptr %q\n  br label %again\nnever:")
BROKEN = kernel("  this is no code")


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(PLACES, 1, workers=1) as found:
        found.remember(DOUBLE, 30.0)
        yield found


def one(box: Sandbox, candidate: TimedKernel) -> sandbox.CandidateReport:
    (report,) = box.measure([candidate], 1e-5)
    return report


@pytest.mark.parametrize("workers", [1, 2])
def test_a_contest_runs_candidates_in_turn(workers: int) -> None:
    with Sandbox(PLACES, 1, workers=workers) as box:
        box.remember(DOUBLE, 30)
        one, wrong, other = box.contest([DOUBLE, WRONG, OTHERWISE], 0.01)
        assert wrong == []
        assert len(one) == len(other) >= 7 * workers
        assert all(seconds > 0 for seconds in (*one, *other))
        assert box.contest([DOUBLE, BEYOND], 0.01) == [[], []]
        assert box.contest([DOUBLE, BROKEN], 0.01) == [[], []]
        assert box.measure([OTHERWISE], 1.0)[0].what == "right"  # another process has taken over


def test_what_is_right_is_timed(box: Sandbox) -> None:
    report = one(box, OTHERWISE)
    assert report.what == "right"
    assert 0 < report.seconds < 1


@pytest.mark.parametrize("candidate", [WRONG, CLOSE, NOTHING], ids=["wrong", "close", "nothing stored"])
def test_what_is_wrong_is_told(box: Sandbox, candidate: TimedKernel) -> None:
    report = one(box, candidate)
    assert report.what == "wrong"
    assert report.detail.startswith("arg0: element ")


@pytest.mark.parametrize(
    "candidate",
    [BEYOND, BEHIND, INPUT, TimedKernel(TRAP, cpu.host(), (0, 1), (), (), 0, 1)],
    ids=["far outside", "just behind the end", "an input is written", "illegal instruction"],
)
def test_a_crash_ends_a_worker_and_nothing_else(box: Sandbox, candidate: TimedKernel) -> None:
    before = box.started
    report = one(box, candidate)
    assert report.what == "crashed"
    assert report.detail.startswith("SIG")
    assert one(box, OTHERWISE).what == "right"
    assert box.started == before + 1


def test_what_hangs_is_killed(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_LEAST", 0.3)
        assert one(box, HANG).what == "hung"
    assert one(box, OTHERWISE).what == "right"


def test_what_does_not_compile_is_told(box: Sandbox) -> None:
    report = one(box, BROKEN)
    assert report.what == "failed"
    assert report.detail


def test_one_bad_candidate_does_not_spoil_its_neighbours() -> None:
    with Sandbox(PLACES, 1, workers=2) as box:
        box.remember(DOUBLE, 30.0)
        reports = box.measure([OTHERWISE, BEYOND, WRONG, OTHERWISE], 1e-5)
        folder = Path(box.setup.folder)
        assert folder.is_dir()
    assert [report.what for report in reports] == ["right", "crashed", "wrong", "right"]
    assert not folder.exists()


def test_workers_end_with_the_sandbox() -> None:
    with Sandbox(PLACES, 1, workers=1) as box:
        box.remember(DOUBLE, 30.0)
        worker = box._workers[0]
        assert worker is not None
        number = worker._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_a_reference_that_crashes_is_an_error() -> None:
    with (
        Sandbox(PLACES, 1, workers=1) as box,
        pytest.raises(PlanishError, match="unoptimised kernel crashed"),
    ):
        box.remember(BEYOND, 30.0)


def test_pieces_run_on_threads_and_scratch_is_given() -> None:
    text = """
define void @kernel(ptr %o, i64 %n, i64 %core, ptr %scratch) {
  %s = getelementptr i64, ptr %scratch, i64 %core
  store i64 %n, ptr %s
  %v = load i64, ptr %s
  %p = getelementptr i64, ptr %o, i64 %core
  %w = add i64 %v, %core
  store i64 %w, ptr %p
  ret void
}
"""
    places = (TrialBuffer("arg0", "int64", 8, True, Check()),)
    candidate = TimedKernel(text, cpu.host(), (0,), (70,), (8,), 64, 10_000_000)
    with Sandbox(places, 2, workers=1) as box:
        box.remember(candidate, 30.0)
        found = np.fromfile(Path(box.setup.folder) / f"0-{REALS}", np.int64)
    assert found.tolist() == [70 + n for n in range(8)]


PIECES = """
define void @kernel(ptr %o, ptr %x, i64 %core) {
entry:
  %first = mul i64 %core, 250
  %last = add i64 %first, 250
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %n, %loop ]
  %p = getelementptr float, ptr %x, i64 %i
  %q = getelementptr float, ptr %o, i64 %i
  %v = load float, ptr %p
  %two = fadd float %v, %v
  %bad = icmp eq i64 %i, BAD
  %w = select i1 %bad, float 9.0, float %two
  store float %w, ptr %q
  %n = add i64 %i, 1
  %m = icmp slt i64 %n, %last
  br i1 %m, label %loop, label %end
end:
  ret void
}
"""


def pieces(bad: int) -> TimedKernel:
    return TimedKernel(PIECES.replace("BAD", str(bad)), cpu.host(), (0, 1), (), (4,), 0, 1000)


def test_of_a_long_kernel_a_part_is_enough_to_start_with() -> None:
    """Pieces 0 and 3 of four are run; then an optimised kernel that is right there stands in for the others."""
    with Sandbox(PLACES, 1, workers=1) as box:
        box.remember(pieces(-1), 30.0, (0, 3))
        assert [one(box, pieces(bad)).what for bad in (-1, 10, 999, 300)] == [
            "right",
            "wrong",
            "wrong",
            "right",
        ]
        assert box.extend(pieces(10), 30.0) is not None  # it is wrong itself
        assert one(box, pieces(300)).what == "right"
        assert box.extend(pieces(-1), 30.0) is None
        assert [one(box, pieces(bad)).what for bad in (-1, 10, 300)] == ["right", "wrong", "wrong"]
        assert box.extend(BEYOND, 30.0) == "crashed: SIGSEGV"


def test_large_results_are_not_kept_in_memory() -> None:
    assert sandbox._room([TrialBuffer("arg0", "float32", 1 << 50, True)]) is None
    assert sandbox._room([TrialBuffer("arg0", "float32", 1 << 50, False)]) == sandbox._room([])


def test_without_a_python_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "")
    with pytest.raises(PlanishError, match="no Python"):
        Sandbox(PLACES, 1)


def test_limits_are_measured() -> None:
    with Sandbox((), 1, workers=1) as box:
        found = limits.measure(box, 4)
    assert found.flops > 1e8
    assert found.bandwidth > 1e7
    assert found.seconds(found.flops, 0) == pytest.approx(1.0)
    assert found.seconds(0, 2 * found.bandwidth) == pytest.approx(2.0)


def test_limits_are_those_of_the_same_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox((), 1, workers=1) as box:
        meter = limits.Meter(box, 4)
        monkeypatch.setattr(meter, "_flops", {32: 1e9, 64: 5e8})
        monkeypatch.setattr(meter, "_bandwidth", {1 << 20: 1e10, 1 << 12: 1e11})
        assert meter.share({32: 10**6}, 1 << 12, 2e-3) == pytest.approx(0.5)
        assert meter.share({64: 10**6}, 1 << 12, 2e-3) == pytest.approx(1.0)
        assert meter.share({}, 1 << 20, 2e-4) == pytest.approx((1 << 20) / 1e10 / 2e-4)
        assert meter.share({16: 1}, 8, 1.0) is None  # no loop shows what half floats could do
        seen: list[int] = []
        monkeypatch.setattr(meter, "_measure_bandwidth", seen.append)
        monkeypatch.setattr(meter, "_measure_flops", seen.append)
        # faster than the limit, also when that is measured again: it is not the limit
        assert meter.share({32: 10**6}, 1 << 12, 1e-4) is None
        assert seen == [1 << 12, 32] * 3


def test_a_limit_is_measured_for_as_many_bytes_as_are_asked_for() -> None:
    with Sandbox((), 1, workers=1) as box:
        meter = limits.Meter(box, 4)
        assert meter.bandwidth(5000) > 1e7
        assert meter.flops(64) > 1e8
        assert list(meter._bandwidth) == [4096]


# -- comparing -------------------------------------------------------------------------------------------------------

A = np.array([1.0, 2.0, 1000.0], np.float32)
SUM = Check(terms=100, eps=2.0**-23, whole=True)


def test_every_bit_counts_where_nothing_is_summed() -> None:
    assert difference(A, A.copy(), Check(), REALS) is None
    assert difference(A, np.nextafter(A, np.float32(9e9)), Check(), REALS) is not None
    zeros = np.zeros(2, np.float32)
    assert difference(zeros, -zeros, Check(), REALS) is not None
    nan = np.array([np.nan], np.float32)
    assert difference(nan, -nan, Check(), REALS) is None  # which NaN is not promised


def test_sums_are_held_to_their_bound() -> None:
    bound = 100 * 2.0**-23 * (2 + 1000)
    near = A + np.array([0, 0.9 * bound, 0], np.float32)
    far = A + np.array([0, 1.1 * bound, 0], np.float32)
    assert difference(near, A, SUM, REALS) is None
    assert difference(far, A, SUM, REALS) is not None
    assert difference(near, A, SUM, REALS, largest=lambda: 0.0) is not None  # whoever knows it is believed
    assert difference(near, A, SUM, WHOLE) is not None  # sums of whole numbers are exact
    assert difference(-np.zeros(1, np.float32), np.zeros(1, np.float32), SUM, WHOLE) is None
    assert difference(np.array([np.inf], np.float32), np.array([1.0], np.float32), SUM, REALS) is not None


def test_integers_are_compared_as_such() -> None:
    large = np.array([2**62 + 1], np.int64)
    assert difference(large, large - 1, Check(), REALS) is not None
    assert difference(large, large.copy(), Check(), REALS) is None


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool"])
def test_there_is_data_for_every_dtype(name: str) -> None:
    place = TrialBuffer("x", name, 10, False)
    for which in (REALS, WHOLE):
        first, again = made_up(place, 0, which), made_up(place, 0, which)
        assert first.dtype.name == name
        assert first.tobytes() == again.tobytes()
        assert len(np.unique(first.astype(np.float64))) > 1
    assert set(np.unique(made_up(TrialBuffer("x", "float32", 1, False), 0, WHOLE))) <= {-2, -1, 0, 1, 2}


def test_guarded_memory_ends_where_it_should() -> None:
    small = Guarded(100)
    assert small.array.size == 100
    assert (small.array.ctypes.data + 128) % 4096 == 0  # the next cache line is no memory
    large = Guarded(1 << 20)
    assert large.array.ctypes.data % 4096 == 0


def test_while_a_kernel_is_timed_there_is_memory_behind_the_end() -> None:
    """Masked lanes beyond the end are not stored, but a processor may take long to find out where nothing is mapped."""
    there: list[str] = []

    def behind(memory: Guarded) -> str:
        for line in Path("/proc/self/maps").read_text().splitlines():
            (place, rights, *_) = line.split()
            first, last = (int(each, 16) for each in place.split("-"))
            if first <= memory.start + memory.whole < last:
                return rights[:2]
        return "none"

    bench = CandidateTrial(sandbox.Setup(PLACES, 1, ""))
    bench.load(kernel("  store float %v, ptr %q"))
    assert {behind(memory) for memory in bench.memory.values()} == {"--"}

    def clock() -> float:
        there.append(behind(bench.memory[0, WHOLE]))
        return 1.0

    bench.clock = clock
    bench.measure(0.0)
    assert set(there) == {"rw"}
    assert {behind(memory) for memory in bench.memory.values()} == {"--"}


def test_what_is_written_is_filled_again() -> None:
    bench = CandidateTrial(sandbox.Setup(PLACES, 1, ""))
    bench.load(kernel("  %u = load float, ptr %q\n  %w = fadd float %u, %v\n  store float %w, ptr %q"))
    bench.once(REALS)
    first = bench.array(0, REALS).copy()
    bench.once(REALS)
    assert np.array_equal(first, bench.array(0, REALS))


@pytest.mark.parametrize("said", [b"\x80\x04cposix\nsystem\n", b"[" * 10_000, b"{}", b"[1]", b"\xff", b"[]"])
def test_an_answer_that_is_none_is_a_crash(said: bytes) -> None:
    """Whatever a kernel has written over: what its process says is read as data."""
    worker = Worker(Setup((), 1, ""), {})
    worker.end()
    source, sink = os.pipe()
    worker._process.stdout = os.fdopen(source, "rb")
    with os.fdopen(sink, "wb") as file:
        file.write(LENGTH.pack(len(said)) + said)
    with pytest.raises(Gone, match="answer is none"):
        worker.receive(10)
    assert worker._process.stdout.closed


def test_the_current_folder_is_not_where_a_worker_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("open('loaded', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with Sandbox(PLACES, 1, workers=1) as box:
        assert box.remember(DOUBLE, 60) > 0
    assert not (tmp_path / "loaded").exists()
