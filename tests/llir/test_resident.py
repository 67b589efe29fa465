"""Blocks that stay: one tile after the other, in a ring that goes on; a release or a barrier that is missing is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.codegen.cuda_blocks import shared_memory
from planish.compiler import Lowered
from planish.config import settings
from planish.errors import VerifyError
from planish.llir.interpret import interpret
from planish.llir.program import Barrier, EndLoop, Finish, Immediate, Loop, Program, Release
from planish.optimize import warpgroups
from planish.target import TARGETS, rounds

RNG = np.random.default_rng(11)
FEW = replace(TARGETS["sm_90"], workers=3)


def staying(monkeypatch: pytest.MonkeyPatch, buffers: int) -> None:
    """Tiles of 64 x 64, done by one block on each of three multiprocessors."""
    monkeypatch.setattr(
        warpgroups, "WARPGROUP_TILES", tuple(t for t in rounds.WARPGROUP_TILES if t[:2] == (64, 64))
    )
    monkeypatch.setattr(warpgroups, "rings", lambda *_, **__: rounds.Rings(1, buffers, stay=True))


def lowered(
    m: int, n: int, k: int, function: Any = lambda a, b: pn.maximum(a @ b.T, 0)
) -> tuple[Any, list[Any]]:
    arrays = [RNG.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k))]
    with settings(check="spec"):
        return compiler.lower(pn.jit(function).lower(*map(pn.asarray, arrays)).function, FEW), arrays


@pytest.mark.parametrize(
    ("sizes", "buffers"),
    [((256, 128, 192), 2), ((256, 128, 320), 3), ((200, 100, 256), 4)],
    ids=["two buffers for three steps", "three buffers for five steps", "beyond the edges"],
)
def test_tiles_are_done_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int], buffers: int
) -> None:
    staying(monkeypatch, buffers)
    found, (a, b) = lowered(*sizes)
    assert f"buffers={buffers}, engine=true, stay=3" in str(found.choices[0].actions[-1])
    assert found.launches[-1].grid.blocks == ("3", "1", "1")
    (result,) = found.interpreted()(a, b)
    wanted = np.maximum(a.astype(np.float64) @ b.astype(np.float64).T, 0)
    np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=1e-2)
    (program,) = found.programs
    assert not any(box.stay for box in program.boxes)
    varying = [i for i in program.body if isinstance(i, Loop) and not isinstance(i.bound, Immediate)]
    assert len(varying) == 2  # over tiles, by who fetches and by the others
    assert "cp.async.bulk.tensor" in cuda.render(program)


def small(monkeypatch: pytest.MonkeyPatch) -> Program:
    staying(monkeypatch, 3)
    found: Lowered = lowered(256, 128, 256)[0]
    (program,) = found.programs
    return program


def zeros(program: Program) -> list[Any]:
    return [np.zeros(b.elements, b.dtype.numpy) for b in program.params]


def changed(program: Program, drop: Any) -> Program:
    return replace(program, body=tuple(i for n, i in enumerate(program.body) if not drop(n, i)))


def test_the_last_step_of_a_tile_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but the next tile needs that."""
    program = small(monkeypatch)
    interpret(program, zeros(program))
    with pytest.raises(VerifyError, match="wait forever"):
        interpret(changed(program, lambda _, i: isinstance(i, Release) and i.gate is None), zeros(program))


def test_results_wait_until_those_of_the_last_tile_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One barrier before they are put down, one before they are read."""
    program = small(monkeypatch)
    kinds = [type(i) for i in program.body if isinstance(i, Barrier | Finish | EndLoop)]
    assert kinds[-4:].count(Barrier) == 2
    assert kinds.index(Finish) < kinds.index(Barrier)


def test_few_tiles_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    staying(monkeypatch, 3)
    found, _ = lowered(64, 128, 256)
    assert found.launches[-1].grid.blocks == ("2", "1", "1")


@pytest.mark.parametrize(
    ("sizes", "stays"),
    [
        ((32768, 320, 320), True),  # short sums: what a block begins and ends with would take as long
        ((4096, 4096, 4096), False),  # the largest tile leaves no memory for results beside its ring
        ((1024, 1024, 1024), False),  # a tile for each
    ],
)
def test_who_stays_follows_from_sizes(sizes: tuple[int, int, int], stays: bool) -> None:
    m, n, k = sizes
    specs = pn.TensorSpec((m, k), pn.bfloat16), pn.TensorSpec((n, k), pn.bfloat16)
    (choice,) = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90").choices
    assert ("stay=132" in str(choice.actions)) is stays


def test_what_is_written_one_by_one_does_not_stay() -> None:
    """Rows that start anywhere are written as vectors, and stay; not those that start elsewhere in every tile."""
    specs = pn.TensorSpec((8192, 768), pn.bfloat16), pn.TensorSpec((50257, 768), pn.bfloat16)
    found = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90")
    assert "stay" in str(found.choices[-1].actions)
    specs = pn.TensorSpec((7, 1001, 768), pn.bfloat16), pn.TensorSpec((7, 5027, 768), pn.bfloat16)
    found = compiler.lower(pn.jit(lambda a, b: a @ pn.matrix_transpose(b)).lower(*specs).function, "sm_90")
    assert "stay" not in str(found.choices[-1].actions)


def test_wider_results_stay_only_where_there_is_memory_for_them() -> None:
    specs = pn.TensorSpec((32768, 320), pn.bfloat16), pn.TensorSpec((320, 320), pn.bfloat16)
    function = pn.jit(lambda a, b: a.astype(pn.float32) @ b.T.astype(pn.float32))
    found = compiler.lower(function.lower(*specs).function, "sm_90")
    assert "engine=true" in str(found.choices[-1].actions)
    assert shared_memory(found.programs[-1]).dynamic <= TARGETS["sm_90"].local_bytes + 1024
