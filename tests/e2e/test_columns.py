"""Every op and dtype through the other ways to machine code: the C back end, older processors, any number of threads.

`test_ops` holds LLVM's code for this machine against the interpreters. Here the same programs are compiled by the system's C compiler,
for x86-64 and x86-64-v3, and run on one thread and on several. A sample is for `make test`, the whole table for `make test-all`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.codegen import llvm
from planish.config import settings
from planish.dtypes import DType
from planish.runtime import cpu, elf, native
from planish.runtime.cc import find_compiler
from planish.target import find as find_target
from tests.e2e.comparing import held, same
from tests.e2e.op_cases import CASES, DYNAMIC, LEFT_OUT, ULPS, Maker, is_plain
from tests.ptir.generate import random_inputs, random_program

needs_c = pytest.mark.skipif(find_compiler() is None, reason="no C compiler is installed")
needs_x86 = pytest.mark.skipif(not cpu.host().triple.startswith("x86_64"), reason="this machine is no x86-64")


EVERY = [(name, dtype) for name, (accepted, _) in CASES.items() for dtype in accepted]


_LONG = frozenset({"lgamma", "digamma", "floor_mod"})
"""Ops with so much code that a C compiler takes seconds: with `every_op` only."""


def one_in(step: int, start: int) -> pytest.MarkDecorator:
    """A sample of all ops with all dtypes."""
    chosen = [each for each in EVERY[start::step] if each[0] not in _LONG]
    rows = [pytest.param(name, dtype, id=f"{name}-{dtype.short}") for name, dtype in chosen]
    return pytest.mark.parametrize(("name", "dtype"), rows)


def all_dtypes(name: str) -> tuple[DType, ...]:
    return tuple(CASES[name][0])


every_op = pytest.mark.parametrize("name", CASES)
"""All of them: one case is an op with all its dtypes."""


def makers(name: str, dtype: DType) -> Iterator[Maker]:
    for program in CASES[name][1]:
        m = Maker(dtype)
        program(m)
        yield m


def check_c(name: str, dtype: DType) -> None:
    for m in makers(name, dtype):
        lowered = compiler.lower(m.build(), passes=None)
        wanted, found = lowered.compile()(*m.arrays), lowered.compile("c")(*m.arrays)
        for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
            same(a, b, f"{name} of {dtype.short}, result {number}, C against LLVM")


@needs_c
@one_in(37, 3)
def test_c(name: str, dtype: DType) -> None:
    """What C computes is bit for bit what LLVM's code computes."""
    check_c(name, dtype)


@needs_c
@pytest.mark.slow
@every_op
def test_every_op_in_c(name: str) -> None:
    for dtype in all_dtypes(name):
        check_c(name, dtype)


def check_on(target: str, name: str, dtype: DType) -> None:
    for m in makers(name, dtype):
        function = m.build()
        wanted = ptir.interpret(function, m.arrays)
        found = compiler.lower(function, target, passes=None).compile()(*m.arrays)
        for number, (a, b, terms) in enumerate(zip(found, wanted, m.slack, strict=True)):
            held(name, a, np.asarray(b), terms, f"{name} of {dtype.short}, result {number}, on {target}")


@needs_x86
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
@one_in(67, 5)
def test_older_processors(name: str, dtype: DType, target: str) -> None:
    check_on(target, name, dtype)


@needs_x86
@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3"])
@every_op
def test_every_op_on_older_processors(name: str, target: str) -> None:
    for dtype in all_dtypes(name):
        check_on(target, name, dtype)


def check_threads(name: str, dtype: DType) -> None:
    for m in makers(name, dtype):
        exe = compiler.lower(m.build(), passes=None).compile()
        runs = []
        for threads in (1, 2, 5):
            with settings(threads=threads):
                runs.append(exe(*m.arrays))
        for other in runs[1:]:
            for number, (a, b) in enumerate(zip(other, runs[0], strict=True)):
                same(a, b, f"{name} of {dtype.short}, result {number}")


@one_in(61, 11)
def test_any_number_of_threads(name: str, dtype: DType) -> None:
    check_threads(name, dtype)


@pytest.mark.slow
@every_op
def test_every_op_on_any_number_of_threads(name: str) -> None:
    for dtype in all_dtypes(name):
        check_threads(name, dtype)


def check_symbols(target: str, name: str, dtype: DType) -> None:
    made_for = cpu.processor(find_target(target))
    for m in makers(name, dtype):
        lowered = compiler.lower(m.build(), target, passes=None)
        for program in lowered.programs:
            needed = set(elf.undefined_symbols(cpu.emit_object(llvm.render(program), made_for)))
            assert needed <= {*elf.EXTERNAL, *native.HALF_CONVERSIONS}, program.name
            if target != "x86-64":
                assert needed <= {"fmod", "fmodf", "memcpy", "memset", "memmove"}, program.name


@needs_x86
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
@one_in(97, 7)
def test_nothing_unexpected_is_called(name: str, dtype: DType, target: str) -> None:
    """Every symbol an object needs from outside is on the list; what a processor has an instruction for is no call."""
    check_symbols(target, name, dtype)


@needs_x86
@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
@every_op
def test_nothing_unexpected_is_called_by_any_op(name: str, target: str) -> None:
    for dtype in all_dtypes(name):
        check_symbols(target, name, dtype)


@needs_c
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if at % 5 == 0 else (pytest.mark.slow,)) for at, n in enumerate(DYNAMIC)])  # fmt: skip
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32], ids=lambda d: d.short)
def test_named_sizes_in_c(name: str, dtype: DType) -> None:
    m = Maker(dtype)
    DYNAMIC[name](m)
    lowered = compiler.lower(m.build(), passes=None)
    for a, b in zip(lowered.compile("c")(*m.arrays), lowered.compile()(*m.arrays), strict=True):
        same(a, b, name)


_EXACT_ONLY = LEFT_OUT | frozenset(ULPS) | {"bitcast", "copysign"}


def c_agrees_at_random(seed: int) -> None:
    program = random_program(seed, 14, _EXACT_ONLY)
    if not is_plain(program.entry):
        return
    arrays = random_inputs(program, seed)
    lowered = compiler.lower(program.entry, passes=None)
    for a, b in zip(lowered.compile("c")(*arrays), lowered.compile()(*arrays), strict=True):
        same(a, b, f"program {seed}")


@needs_c
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_in_c(seed: int) -> None:
    c_agrees_at_random(seed)


@needs_c
@pytest.mark.fuzz
def test_many_random_programs_in_c() -> None:
    for seed in range(3000, 3500):
        c_agrees_at_random(seed)
