"""A compiled function is one native call: what it accepts, what it refuses, what it keeps for the next process."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, ptir
from planish.errors import DTypeError, ShapeError
from planish.ptir import Graph, tensor
from planish.runtime.cc import find_compiler

Array = NDArray[Any]


def scaled(dims: tuple[Any, ...]) -> ptir.Function:
    g = Graph("scaled")
    x, y = g.input("x", tensor("f32", dims)), g.input("y", tensor("f32", dims))
    return g.build(x.mul(y).add(x), x.sub(y))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path) -> Any:
    with pn.settings(cache_dir=str(tmp_path / "cache")):
        yield


def test_plain_arrays_take_the_short_way() -> None:
    exe = compiler.compile(scaled((5, 7)))
    x, y = (np.random.default_rng(n).random((5, 7), np.float32) for n in (0, 1))
    first, second = exe(x, y)
    np.testing.assert_array_equal(first, x * y + x)
    np.testing.assert_array_equal(second, x - y)
    assert exe.is_fast
    kept = first.copy()
    exe(y, x)
    np.testing.assert_array_equal(first, kept)  # results are the caller's


def test_foreign_arrays_are_taken_as_they_are() -> None:
    exe = compiler.compile(scaled((4, 6)))
    base = np.random.default_rng(0).random((9, 13), np.float32)
    raw = np.zeros(4 * 24 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(4, 6)
    misaligned[:] = base[:4, :6]
    readonly = base[:4, :6].copy()
    readonly.flags.writeable = False
    for foreign in (
        base[1:9:2, 12:0:-2],
        base[:6, :4].T,
        np.broadcast_to(base[0, :6], (4, 6)),
        misaligned,
        readonly,
        base[:4, :6].astype(">f4"),
        base[:4, :6].tolist(),
    ):
        given = np.asarray(foreign, np.float32)
        first, _ = exe(given if isinstance(foreign, list) else foreign, given)
        np.testing.assert_array_equal(first, given * given + given)


def test_mistakes_are_told_apart() -> None:
    exe = compiler.compile(scaled((4, 6)))
    x = np.zeros((4, 6), np.float32)
    with pytest.raises(ShapeError, match="takes 2 arrays, not 1"):
        exe(x)
    with pytest.raises(ShapeError, match=r"argument 1 .y. is float32\[4, 5\]"):
        exe(x, x[:, :5])
    with pytest.raises(DTypeError, match="float64"):
        exe(x, x.astype(np.float64))
    np.testing.assert_array_equal(exe(x, x)[0], x)  # and it still works


def test_one_compilation_serves_all_sizes() -> None:
    exe = compiler.compile(scaled((ptir.Dim.named("B", 1, 40), 3)))
    assert exe.is_fast
    for size in (1, 2, 17, 40):
        x, y = (np.random.default_rng(n).random((size, 3), np.float32) for n in (0, 1))
        np.testing.assert_array_equal(exe(x, y)[0], x * y + x)
    with pytest.raises(ShapeError, match=r"B = 41 is outside 1\.\.40"):
        exe(np.zeros((41, 3), np.float32), np.zeros((41, 3), np.float32))
    with pytest.raises(ShapeError, match="has size 4, not 5"):
        exe(np.zeros((5, 3), np.float32), np.zeros((4, 3), np.float32))


def test_threads_call_one_function_at_once() -> None:
    g = Graph("rows")
    x = g.input("x", tensor("f32", (64, 256)))
    total = x.exp().reduce_sum([1], keepdims=True).broadcast_like(x)
    exe = compiler.compile(g.build(x.exp().div(total)))
    inputs = [np.random.default_rng(n).random((64, 256), np.float32) for n in range(4)]
    expected = [exe(x)[0].copy() for x in inputs]
    wrong: list[int] = []

    def call(n: int) -> None:
        for _ in range(200):
            if not np.array_equal(exe(inputs[n])[0], expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_are_the_same_on_any_number_of_threads() -> None:
    g = Graph("sum")
    x = g.input("x", tensor("f32", (300, 700)))
    exe = compiler.compile(g.build(x.reduce_sum([0, 1]), x.reduce_sum([0]), x.reduce_sum([1])))
    given = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
    with pn.settings(threads=1):
        alone = [r.tobytes() for r in exe(given)]
    with pn.settings(threads=3):
        assert [r.tobytes() for r in exe(given)] == alone


def test_scratch_memory_is_each_threads_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows too long for a stack (here a small one), in memory of the arena: every chunk has a piece of its own."""
    monkeypatch.setattr("planish.compiler.launch_parameters._STACK", 64 << 10)
    g = Graph("rows")
    x = g.input("x", tensor("f32", (48, 20_000)))
    e = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x)).exp()
    lowered = compiler.lower(g.build(e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e))))
    given = np.random.default_rng(0).standard_normal((48, 20_000)).astype(np.float32)
    assert any(lowered.scratch)
    runs = []
    for backend in ("llvm", "c") if find_compiler() else ("llvm",):
        exe = lowered.compile(backend)
        for threads in (1, 2, 4):
            with pn.settings(threads=threads):
                runs += [exe(given)[0].tobytes() for _ in range(3)]
    assert len(set(runs)) == 1
    wanted = np.exp(given.astype(np.float64) - given.max(1, keepdims=True))
    found = np.frombuffer(runs[0], np.float32).reshape(48, 20_000)
    np.testing.assert_allclose(found, wanted / wanted.sum(1, keepdims=True), rtol=1e-5)


_SECOND = """
import json, sys
import numpy as np
import planish as pn
from planish import compiler, ptir
from planish.compiler.object_code import counters
with pn.settings(cache_dir=sys.argv[1]):
    function = ptir.parse(sys.stdin.read()).entry
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    result = compiler.compile(function)(x, x)[0]
heavy = ("llvmlite", "planish.compiler.lowering", "planish.stages", "planish.llir", "planish.ptir.passes", "planish.codegen")
modules = [name for name in heavy if name in sys.modules]
print(json.dumps({"compiled": counters.compiled, "loaded": counters.loaded, "sum": float(result.sum()), "modules": modules}))
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    text = ptir.print(scaled((5, 7)))
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", _SECOND, str(tmp_path / "shared")], input=text, capture_output=True, text=True, check=True
        )  # fmt: skip
        found.append(json.loads(done.stdout))
    assert found[0]["compiled"] >= 2  # the kernel and the plan; what supports them comes compiled
    assert found[0]["loaded"] == 0
    assert found[1]["compiled"] == 0
    assert found[1]["loaded"] == found[0]["compiled"]
    assert found[0]["sum"] == found[1]["sum"]
    assert found[1]["modules"] == []  # who finds everything does not wait for what would make it


def test_what_was_kept_can_be_read_at_every_level(tmp_path: Path) -> None:
    """What a call does not need is read when it is asked for."""
    function = scaled((5, 7))
    with pn.settings(cache_dir=str(tmp_path)):
        made = compiler.compile(function).lowered
        kept = compiler.compile(function).lowered
    assert kept is not made
    assert "programs" not in vars(kept)
    for level in ("ptir", "plan", "uop", "llir", "llvm", "c"):
        assert kept.as_text(level) == made.as_text(level)
    assert kept.programs == made.programs
    assert kept.choices == made.choices
    assert [call.work for call in kept.calls] == [call.work for call in made.calls]
    assert dataclasses.replace(kept, choices=()).programs == made.programs
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        kept.colour  # type: ignore[attr-defined]  # noqa: B018
