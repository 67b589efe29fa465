"""Stores past the caches and prefetches: which get them, that they change nothing, and that no address is a wrong one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.codegen import c, llvm, symbols
from planish.dtypes import DType
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.program import Ops, Prefetch, Program, Store
from planish.llir.streaming import with_streaming
from planish.llir.text import parse, print_program
from planish.llir.verify import verify
from planish.runtime.cc import CModule
from planish.runtime.cpu import CompiledModule
from planish.target import TARGETS

Array = NDArray[Any]
V4, V3 = TARGETS["x86-64-v4"], TARGETS["x86-64-v3"]
LARGE = 1 << 20
"""Elements: 4 MiB of float32, more than a second cache."""


def stream(
    size: int = LARGE,
    lanes: int = 16,
    ops: int = 1,
    *,
    dtype: DType = dtypes.float32,
    step: int | None = None,
    read_back: bool = False,
    gated: bool = False,
) -> Program:
    """z[i] = x[i] * x[i] … + x[i], a vector at a time."""
    b = Builder("stream")
    z, x = b.param("z", dtype, size), b.param("x", dtype, size)
    with b.loop(size // lanes) as i:
        at = b.mul(i, lanes if step is None else step)
        source = b.load(b.address(x, at), dtype.vec(lanes))
        if read_back:
            source = b.add(source, b.load(b.address(z, at), dtype.vec(lanes)))
        value = source
        for _ in range(ops):
            value = b.mul(value, source)
        b.store(b.address(z, at), value, gate=b.compute(Ops.CMPLT, at, size - 100) if gated else None)
    return b.program()


def nontemporal(program: Program) -> int:
    return sum(isinstance(i, Store) and i.nontemporal for i in program.body)


def prefetches(program: Program) -> int:
    return sum(isinstance(i, Prefetch) for i in program.body)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (stream(), 1),
        (stream(gated=True), 1),
        (stream(lanes=32), 1),
        (stream(lanes=8), 0),  # half a register
        (stream(lanes=1), 0),
        (stream(step=0), 0),  # the same place again and again
        (stream(read_back=True), 0),
    ],
)  # fmt: skip
def test_whole_registers_written_once_go_past_the_caches(program: Program, expected: int) -> None:
    assert nontemporal(with_streaming(program, V4, {"z"})) == expected
    assert nontemporal(with_streaming(program, V4)) == 0


@pytest.mark.parametrize(("step", "expected"), [(8, 1), (16, 0), (1024, 0)])
def test_half_a_line_has_its_other_half_next(step: int, expected: int) -> None:
    assert nontemporal(with_streaming(stream(lanes=8, step=step), V3, {"z"})) == expected


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (stream(ops=11), 1),
        (stream(ops=10), 0),  # little arithmetic
        (stream(ops=20, size=1 << 17), 0),  # it fits
        (stream(ops=20, lanes=32, size=1 << 21), 1),
        (stream(ops=20, step=0), 0),  # no stream
    ],
)
def test_long_bodies_ask_for_their_inputs(program: Program, expected: int) -> None:
    made = with_streaming(program, V4)
    assert prefetches(made) == expected
    verify(made)
    assert parse(print_program(made)) == made


def test_gpus_and_machines_without_vectors_are_left_alone() -> None:
    program = stream(ops=20)
    for name in ("cuda", "scalar"):
        assert with_streaming(program, TARGETS[name], {"z"}) is program


# -- as machine code -------------------------------------------------------------------------------------------


def by_llvm(program: Program) -> Callable[..., None]:
    return CompiledModule(llvm.render(program)).function(symbols.kernel(program.name), 2)


def by_c(program: Program) -> Callable[..., None]:
    module = CModule(c.render(program))
    assert module.warnings == ""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        module.address(symbols.kernel(program.name))
    )
    function.module = module  # type: ignore[attr-defined]
    return function


def hinted(program: Program) -> Program:
    """The hints, whatever the size."""
    made = with_streaming(program, V4, {"z"})
    assert nontemporal(made)
    return made


@pytest.mark.parametrize("back", [by_llvm, by_c])
@pytest.mark.parametrize(
    "program",
    [
        hinted(stream(480)),
        hinted(stream(480, gated=True)),
        hinted(stream(480, 32)),
        hinted(stream(480, 16, dtype=dtypes.int64)),
        hinted(stream(512, 64, dtype=dtypes.int8)),
    ],
)
def test_any_address_will_do(program: Program, back: Callable[[Program], Callable[..., None]]) -> None:
    """Such a store traps where the address is not aligned: code looks first."""
    function = back(program)
    buffer = program.params[0]
    dtype, size = buffer.dtype.numpy, buffer.elements
    x = np.random.default_rng(0).integers(-9, 9, size).astype(dtype)
    wanted = [np.full(size, 5, dtype), x.copy()]
    interpret(program, wanted)
    raw = np.zeros(size * dtype.itemsize + 256, np.uint8)
    start = -raw.ctypes.data % 64
    for offset in range(0, 128, dtype.itemsize):
        place = raw[start + offset :][: size * dtype.itemsize].view(dtype)
        raw[:] = 77
        place[:] = 5
        function(place.ctypes.data, x.ctypes.data)
        assert place.tobytes() == wanted[0].tobytes()
        assert (raw[: start + offset] == 77).all()
        assert (raw[start + offset + place.nbytes :] == 77).all()


def test_what_goes_past_the_caches_is_fenced() -> None:
    text = CompiledModule(llvm.render(hinted(stream(480)))).assembly
    assert text.count("vmovnt") in {1, 2, 4}  # by the width of this machine's registers
    assert "mfence" in text or "lock" in text
    plain = CompiledModule(llvm.render(stream(480))).assembly
    assert not any(word in plain for word in ("movnt", "mfence", "lock"))
    source = c.render(hinted(stream(480)))
    assert source.count("store_past(r") == 1
    assert "__atomic_thread_fence" in source
    assert "store_past" not in c.render(stream(480))


def test_a_promised_alignment_is_not_looked_at() -> None:
    b = Builder("aligned")
    z, x = b.param("z", dtypes.float32, 64, align=64), b.param("x", dtypes.float32, 64)
    with b.loop(4) as i:
        at = b.mul(i, 16)
        value = b.load(b.address(x, at), dtypes.float32.vec(16))
        b.store(b.address(z, at), value, align=64, nontemporal=True)
    assert "ptrtoint" not in llvm.render(b.program())


def test_a_prefetch_beyond_the_end_does_nothing() -> None:
    program = with_streaming(stream(ops=11), V4)
    x = np.random.default_rng(0).random(LARGE, np.float32)
    found = np.zeros_like(x)
    by_llvm(program)(found.ctypes.data, x.ctypes.data)
    plain = np.zeros_like(x)
    by_llvm(stream(ops=11))(plain.ctypes.data, x.ctypes.data)
    assert found.tobytes() == plain.tobytes()


# -- rows that data chooses --------------------------------------------------------------------------------------


def gathered(rows: int = 8, width: int = 32, table: int = 1 << 15) -> Program:
    """z[i, j] = x[indices[i], j], a vector at a time."""
    b = Builder("gathered")
    z, x = b.param("z", dtypes.float32, rows * width), b.param("x", dtypes.float32, table * width)
    indices = b.param("indices", dtypes.int32, rows)
    with b.loop(rows) as i:
        row = b.load(b.address(indices, i), dtypes.int32)
        start = b.mul(row, width)
        with b.loop(width // 16) as j:
            at = b.mul(j, 16)
            value = b.load(b.address(x, b.add(start, at)), dtypes.float32.vec(16))
            b.store(b.address(z, b.add(b.mul(i, width), at)), value)
    return b.program()


def test_the_next_row_that_data_chooses_is_asked_for() -> None:
    program = gathered()
    made = with_streaming(program, V4)
    assert prefetches(made) == 1
    verify(made)
    assert parse(print_program(made)) == made
    rng = np.random.default_rng(0)
    x = rng.random(program.params[1].elements, np.float32)
    indices = rng.integers(0, 1 << 15, 8).astype(np.int32)
    given = [np.zeros(256, np.float32), x, indices]
    interpret(made, given)  # no index is read beyond the end
    assert given[0].tobytes() == x.reshape(-1, 32)[indices].tobytes()
    found = np.zeros(256, np.float32)
    CompiledModule(llvm.render(made)).function(symbols.kernel("gathered"), 3)(
        found.ctypes.data, x.ctypes.data, indices.ctypes.data
    )
    assert found.tobytes() == given[0].tobytes()


def test_small_tables_and_rows_that_no_data_chooses_are_left_alone() -> None:
    assert prefetches(with_streaming(gathered(table=64), V4)) == 0
    assert prefetches(with_streaming(stream(), V4)) == 0
