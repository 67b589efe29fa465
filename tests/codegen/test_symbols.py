"""No name of a user's becomes an identifier of generated code."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.codegen import symbols
from planish.llir.text import parse
from planish.runtime.cc import find_compiler
from tests.llir.helpers import native, native_c

HOSTILE = (
    "core", "t0", "entry", "r12", "u_n", "u__n", "arg0", "arg1", "local0", "acc0", "gidx0", "scratch", "arena", "kernel",
    "int", "double", "void", "while", "memcpy", "expf", "exp", "main", "undef", "i64", "ptr", "run", "frame", "b0", "i0", "null",
    "int64_t", "bool", "UNROLL", "TEXT", "tile_buffer", "load1", "loop0",
)  # fmt: skip
BACKENDS = ("llvm", "c") if find_compiler() else ("llvm",)


def squares(names: tuple[str, str]) -> ptir.Function:
    g = ptir.Graph("define")
    n, m = names
    x = g.input(n, ptir.tensor("f32", (n, m), **{n: (1, 9), m: (1, 9)}))
    return g.build(x.mul(x).reduce_sum([1]), x.exp())


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_may_have_any_name(backend):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    others = HOSTILE[::2] if backend == "llvm" else HOSTILE[::9]
    for n, m in zip(others, (*others[1:], others[0]), strict=True):
        found = compiler.lower(squares((n, m))).compile(backend=backend)(x)
        np.testing.assert_allclose(found[0], (x * x).sum(1), err_msg=f"{n}, {m}")
        np.testing.assert_allclose(found[1], np.exp(x), rtol=1e-5, err_msg=f"{n}, {m}")


def test_sizes_of_the_front_end_may_have_any_name():
    for name in ("core", "t0", "entry", "r12"):
        row_sum = pn.jit(lambda entry: pn.sum(entry * 2, axis=1), dims={0: (pn.Dim(name, 1, 64), ...)})
        found = row_sum(pn.ones((5, 3)))
        np.testing.assert_array_equal(np.asarray(found), np.full(5, 6, np.float32))


KERNEL = """llir 1
kernel {name}
  @{out}: global i64[8] bytes=64 align=8
  @{given}: global i64[8] bytes=64 align=8
  %0 = variable {size} in 1..8 : i64
  %1 = special {place} < 8 : i64
  %2 = address @{given}[%1] : *i64[8]
  %3 = load %2 : i64
  %4 = add %3, %0 : i64
  %5 = address @{out}[%1] : *i64[8]
  store %5, %4 : i64
"""


@pytest.mark.parametrize("run", [native, native_c] if "c" in BACKENDS else [native])
def test_kernels_written_as_text_may_have_any_names(run):
    names = (*HOSTILE, HOSTILE[0])
    rows = list(zip(*(names[n:] for n in range(5)), strict=False))
    for name, out, given, size, place in rows if run is native else rows[::9]:
        program = parse(KERNEL.format(name=name, out=out, given=given, size=size, place=place))
        x, found = np.arange(8), np.zeros(8, np.int64)
        for position in range(8):
            run(program, [found, x], **{size: 3, place: position})
        np.testing.assert_array_equal(found, x + 3, err_msg=name)


@pytest.mark.parametrize(
    "name", ["", "a", "_", "__", "_e9_", "é", "u_a", "a b", "%r1", '"', "a_b", "a.b", "a\n}"]
)
def test_symbols_are_identifiers_that_can_be_read_back(name):
    found = symbols.escaped(name)
    assert found.isidentifier()
    assert found.isascii()
    assert _read(found) == name


def _read(symbol: str) -> str:
    rest, found = symbol.removeprefix(symbols.RESERVED), ""
    while rest:
        if rest.startswith("__"):
            found, rest = found + "_", rest[2:]
        elif rest.startswith("_"):
            code, rest = rest[1:].split("_", 1)
            found += chr(int(code, 16))
        else:
            found, rest = found + rest[0], rest[1:]
    return found
