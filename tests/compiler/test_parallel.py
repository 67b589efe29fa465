"""Several hands: what they make is what one would make, and whatever happens to a helper, nothing is missing."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from planish import compiler, ptir
from planish.compiler import parallel
from planish.compiler.parallel import Beside, is_worth_sharing, shared
from planish.compiler.pickling import dumps
from planish.config import current, settings
from planish.llir.text import print_program


def _function() -> ptir.Function:
    """Three products of matrices of different sizes: as many kernels."""
    g = ptir.Graph("products")
    x = g.input("x", ptir.tensor("f32", (24, 16)))
    weights = [
        g.input(f"w{n}", ptir.tensor("f32", shape)) for n, shape in enumerate(((16, 20), (20, 12), (12, 8)))
    ]
    for weight in weights:
        x = x.matmul(weight).tanh()
    return g.build(x)


def test_a_thread_makes_things_in_order_and_under_the_same_settings() -> None:
    beside = Beside()
    seen: list[int] = []

    def note(number: int) -> tuple[int | None, str]:
        seen.append(number)
        return current().threads, threading.current_thread().name

    with settings(threads=3):
        first, second = (beside.make(partial(note, number)) for number in (1, 2))
    beside.close()
    assert first() == second() == (3, "planish-compile")
    assert seen == [1, 2]


def test_an_error_is_raised_where_somebody_waits() -> None:
    beside = Beside()
    failing = beside.make(lambda: 1 // 0)
    fine = beside.make(lambda: 7)
    beside.close()
    with pytest.raises(ZeroDivisionError):
        failing()
    assert fine() == 7


def test_processes_share_the_numbers() -> None:
    made = shared(range(40), lambda number: (number * number, os.getpid()), 3)
    assert {number: square for number, (square, _) in made.items()} == {n: n * n for n in range(40)}


def test_what_a_helper_does_not_finish_is_made_here() -> None:
    here = os.getpid()

    def make(number: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert shared(range(6), make, 2) == {n: n for n in range(6)}


def test_an_error_in_a_helper_is_raised_here() -> None:
    def make(number: int) -> int:
        raise ValueError(f"not {number}")

    with pytest.raises(ValueError, match="not"):
        shared(range(4), make, 2)


def test_little_work_is_not_shared() -> None:
    with settings(threads=2):
        assert is_worth_sharing(2, 10, 0.1) == 1
        assert is_worth_sharing(1, 1, 10.0) == 1
        assert is_worth_sharing(100, 0, 0.0) == 1  # the first kernel says how long one takes
    with settings(threads=1):
        assert is_worth_sharing(100, 1, 1.0) == 1


def test_a_busy_machine_is_not_given_more_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with settings(threads=2):
        monkeypatch.setattr(parallel, "is_machine_busy", lambda: True)
        assert is_worth_sharing(100, 1, 1.0) == 1
        monkeypatch.setattr(parallel, "is_machine_busy", lambda: False)
        assert is_worth_sharing(100, 1, 1.0) == 2


@pytest.mark.parametrize(("running", "busy"), [(1, False), (3, False), (6, True), (40, True)])
def test_a_machine_is_busy_when_others_want_all_processors(
    running: int, busy: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loadavg").write_text(f"9.00 9.00 9.00 {running}/700 4711\n")
    monkeypatch.setattr(parallel, "_LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert parallel.is_machine_busy() is busy


def test_programs_and_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    function = _function()
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal([int(str(dim)) for dim in type.dims]).astype(np.float32)
        for type in function.param_types
    ]
    with settings(cache=False, threads=1):
        alone = compiler.compile(function)
    monkeypatch.setattr(parallel, "_WORTH", 0.0)
    monkeypatch.setattr(parallel, "is_machine_busy", lambda: False)
    with settings(cache=False, threads=2):
        together = compiler.compile(function)
    assert list(map(print_program, together.lowered.programs)) == list(
        map(print_program, alone.lowered.programs)
    )
    assert together.lowered.choices == alone.lowered.choices
    np.testing.assert_array_equal(together(*arrays)[0], alone(*arrays)[0])


def test_records_come_back() -> None:
    programs = compiler.lower(_function(), "x86-64-v3").programs
    assert pickle.loads(dumps(programs)) == programs


def test_threads_of_others_are_no_hindrance_unless_they_are_in_code_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "is_machine_busy", lambda: False)
    done, begun = threading.Event(), threading.Event()

    def elsewhere() -> None:
        begun.set()
        done.wait()

    def in_ours() -> None:
        beside = Beside()
        promise = beside.make(elsewhere)
        promise()
        beside.close()

    with settings(threads=2):
        for work, hands in ((elsewhere, 2), (in_ours, 1)):
            done.clear()
            begun.clear()
            thread = threading.Thread(target=work)
            thread.start()
            begun.wait()
            found = is_worth_sharing(100, 1, 1.0)
            done.set()
            thread.join()
            assert found == hands


def test_helpers_make_the_machine_code_of_a_gpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    from planish.compiler import lowering
    from planish.compiler.cuda import KIND
    from planish.target import TARGETS

    monkeypatch.setattr(lowering, "is_worth_sharing", lambda *_: 2)
    target = TARGETS["sm_90"]
    with settings(cache=False):
        made = lowering.lower_for(
            _function(), target, compiler.PIPELINE, (), True, KIND.code_maker(target), loops=False
        )
        alone = compiler.lower(_function(), target)
    assert made.images is not None
    assert all(image().startswith(b"\x7fELF") for image in made.images)
    assert [launch.key for launch in made.launches] == [launch.key for launch in alone.launches]
