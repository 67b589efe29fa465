"""The C back end beyond its agreement with the others (test_native): what it looks like, and that it is well defined."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planish import dtypes
from planish.codegen import c
from planish.errors import PlanishError
from planish.llir.builder import Builder
from planish.llir.program import Program
from planish.runtime.cc import CModule, find_compiler
from tests.conftest import Golden
from tests.llir import kernels

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler is installed")


def _axpy() -> Program:
    b = Builder("axpy")
    n = b.variable("n", 0, 100)
    x, y = b.param("x", dtypes.float32, 1600), b.param("y", dtypes.float32, 1600)
    with b.loop(n, unroll=2) as i:
        at = b.mul(i, 16)
        value = b.load(b.address(x, at), dtypes.float32.vec(16))
        place = b.address(y, at)
        b.store(place, b.add(b.mul(value, 3.0), b.load(place, dtypes.float32.vec(16))))
    return b.program()


def test_it_can_be_read(golden: Golden) -> None:
    golden.check("llir/c/axpy.c", c.render(_axpy()))
    golden.check("llir/c/register_tile.c", c.render(kernels.register_tile(2, 2, 8)))


@needs_compiler
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_compilers_have_nothing_to_say(name: str) -> None:
    compiler = find_compiler(name)
    if compiler is None:
        pytest.skip(f"{name} is not installed")
    for program in (_axpy(), kernels.register_tile(6, 4, 64)):
        flags = ("-march=native", "-Wall", "-Wextra", "-pedantic", "-Wno-psabi")
        assert CModule(c.render(program), compiler=compiler, flags=flags).warnings == ""


def test_a_missing_compiler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PlanishError, match="no C compiler"):
        CModule(c.render(_axpy()))


def _run_sanitized(count: int) -> None:
    compiler = find_compiler("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("gcc has no address sanitizer here")
    env = os.environ | {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0"}
    command = [sys.executable, "-m", "tests.llir.sanitized", str(count)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ran clean" in done.stdout


def test_sanitizers_find_nothing() -> None:
    _run_sanitized(4)


@pytest.mark.slow
def test_sanitizers_find_nothing_in_many() -> None:
    _run_sanitized(60)
