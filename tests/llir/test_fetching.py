"""A copy engine: boxes are there when they are awaited, and a wait or a release that is missing is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.codegen import cuda
from planish.errors import VerifyError
from planish.llir.interpret import interpret
from planish.llir.program import (
    Acquire,
    AwaitBoxes,
    Compute,
    CopyAsync,
    CopyBox,
    Instruction,
    Program,
    Release,
    WaitCopies,
)
from tests.llir import kernels

RNG = np.random.default_rng(5)


def without(program: Program, kind: type[Instruction]) -> Program:
    return replace(program, body=tuple(i for i in program.body if not isinstance(i, kind)))


@pytest.mark.parametrize("reverse", [False, True])
def test_boxes_are_there_when_they_are_awaited(reverse: bool) -> None:
    x = np.arange(36 * 40, dtype=np.float32).reshape(36, 40)
    out = np.zeros((40, 32), np.float32)
    counts = interpret(kernels.fetched_boxes(), [x.reshape(-1), out.reshape(-1)], reverse=reverse)
    np.testing.assert_array_equal(out[:36], x[:, 8:])
    assert not out[36:].any()
    assert counts.instructions["copy_box"] == 5
    text = cuda.render(kernels.fetched_boxes())
    assert "cp.async.bulk.tensor.2d" in text
    assert (
        "__launch_bounds__(160, 8)" in text
    )  # a warp fetches for 128 threads, of which a multiprocessor has many


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (AwaitBoxes, "is read while"),
        (Release, "wait forever"),
        (Acquire, "replaces what is not released|wait forever"),
        (CopyBox, "wait forever"),
    ],
)
@pytest.mark.parametrize("source", ["by hand", "compiled"])
def test_what_is_missing_is_found(missing: type[Instruction], said: str, source: str) -> None:
    program = kernels.fetched_boxes() if source == "by hand" else compiled(64, 64, 1024)
    arrays = [np.zeros(b.elements, b.dtype.numpy) for b in program.params]
    interpret(program, arrays)
    with pytest.raises(VerifyError, match=said):
        interpret(without(program, missing), arrays)


def compiled(m: int, n: int, k: int, function: Any = lambda a, b: a @ b) -> Program:
    specs = pn.TensorSpec((m, k), pn.bfloat16), pn.TensorSpec((k, n), pn.bfloat16)
    (program,) = compiler.lower(pn.jit(function).lower(*specs).function, "sm_90").programs
    return program


def test_a_buffer_is_not_released_under_a_product() -> None:
    program = compiled(64, 64, 1024)
    later = [i.step for i in program.body if isinstance(i, Release)]
    (made,) = (i for i in program.body if isinstance(i, Compute) and i.result in later)
    body = tuple(replace(i, step=made.inputs[0]) if isinstance(i, Release) else i for i in program.body)
    arrays = [np.zeros(b.elements, b.dtype.numpy) for b in program.params]
    with pytest.raises(VerifyError, match="released while a product reads it"):
        interpret(replace(program, body=body), arrays)


def test_no_thread_copies_what_an_engine_brings() -> None:
    program = compiled(128, 128, 256)
    assert not [i for i in program.body if isinstance(i, CopyAsync | WaitCopies)]
    assert len(program.boxes) == 2


@pytest.mark.parametrize(
    ("shapes", "function"),
    [
        (((64, 65), (65, 64)), lambda a, b: a @ b),
        (((64, 64), (64, 64)), lambda a, b: (a * 2 + 1) @ b),
    ],
    ids=["rows of odd length", "an operand that is computed"],
)
def test_threads_copy_what_is_no_box(shapes: Any, function: Any) -> None:
    arrays = [RNG.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    lowered = compiler.lower(pn.jit(function).lower(*map(pn.asarray, arrays)).function, "sm_90")
    assert not [box for program in lowered.programs for box in program.boxes]
    wide = [a.astype(np.float64) for a in arrays]
    (found,) = lowered.interpreted()(*arrays)
    np.testing.assert_allclose(found.astype(np.float64), function(*wide), rtol=1e-2)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("sizes", [(128, 64, 128), (72, 136, 200)])
def test_layouts_and_edges(layout: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = (RNG.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    given = [x if way == "n" else np.ascontiguousarray(x.T) for x, way in zip((a, b), layout, strict=True)]

    def product(x: Any, y: Any) -> Any:
        return (x if layout[0] == "n" else x.T) @ (y if layout[1] == "n" else y.T)

    lowered = compiler.lower(pn.jit(product).lower(*map(pn.asarray, given)).function, "sm_90")
    assert lowered.programs[0].boxes
    (found,) = lowered.interpreted()(*given)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=1e-2)
