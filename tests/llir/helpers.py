"""LLIR programs run three ways: interpreted, interpreted on few registers, and as machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.codegen import c, llvm, symbols
from planish.dtypes import DType
from planish.llir.interpret import interpret
from planish.llir.program import Program
from planish.llir.regalloc import allocate
from planish.runtime.cc import CModule, find_compiler
from planish.runtime.cpu import CompiledModule, host

Array = NDArray[Any]
HAS_C = find_compiler() is not None


def native(program: Program, arrays: Sequence[Array], **integers: int) -> None:
    """Call the compiled kernel once; `integers` are its variables and special indices."""
    _call(CompiledModule(llvm.render(program)), program, arrays, integers)


def _call(
    module: CompiledModule, program: Program, arrays: Sequence[Array], integers: Mapping[str, int]
) -> None:
    own = llvm.signature(program)
    names = (*own.variables, *own.specials)
    address = module.address(symbols.kernel(program.name))
    kinds = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * len(names)
    function = ctypes.CFUNCTYPE(None, *kinds)(address)
    function(*[array.ctypes.data for array in arrays], *[integers[name] for name in names])


C_FLAGS = ("-march=native", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-psabi")


def native_c(
    program: Program, arrays: Sequence[Array], flags: Sequence[str] = C_FLAGS, **integers: int
) -> None:
    """The same through C and the system's compiler."""
    module = CModule(c.render(program), flags=flags)
    own = llvm.signature(program)
    names = (*own.variables, *own.specials)
    kinds = [ctypes.c_void_p] * len(arrays) + [ctypes.c_int64] * len(names)
    function = ctypes.CFUNCTYPE(None, *kinds)(module.address(symbols.kernel(program.name)))
    function(*[array.ctypes.data for array in arrays], *[integers[name] for name in names])


def copies(arrays: Sequence[Array]) -> list[Array]:
    return [array.copy() for array in arrays]


def bits(array: Array) -> Array:
    """What can be compared exactly: every NaN is one."""
    if array.dtype.kind in "iub":
        return array
    wide = array.astype(np.float64)
    found = wide.view(np.int64).copy()
    found[np.isnan(wide)] = -1
    return found


def assert_same(left: Sequence[Array], right: Sequence[Array], what: str = "") -> None:
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        np.testing.assert_array_equal(bits(a), bits(b), err_msg=f"{what} array {number}")


def assert_native_agrees(
    program: Program, arrays: Sequence[Array], variables: Mapping[str, int] | None = None
) -> list[Array]:
    """The kernel does the same in the interpreter and as machine code; the result is returned."""
    expected, found = copies(arrays), copies(arrays)
    interpret(program, expected, variables or {})
    native(program, found, **(variables or {}))
    assert_same(expected, found, "native")
    if host().avx512 and llvm.render(program) != llvm.render(program, avx512=True):
        found = copies(arrays)
        _call(CompiledModule(llvm.render(program, avx512=True)), program, found, variables or {})
        assert_same(expected, found, "AVX-512")
    if HAS_C:
        found = copies(arrays)
        native_c(program, found, C_FLAGS, **(variables or {}))
        assert_same(expected, found, "C")
    return expected


def assert_allocated_agrees(program: Program, arrays: Sequence[Array]) -> None:
    """The kernel does the same on 4, 8 and 32 registers of each bank."""
    expected = copies(arrays)
    interpret(program, expected)
    for registers in (4, 8, 32):
        found = copies(arrays)
        interpret(allocate(program, registers).program, found)
        assert_same(expected, found, f"{registers} registers")


def numbers(dtype: DType, count: int, seed: int = 0) -> Array:
    """Values of a dtype with its corners among them."""
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_int:
        low, high = int(dtype.min or 0), int(dtype.max or 0)
        corners = [low, high, 0, 1, -1 if dtype.is_signed else high - 1, 2, 3, low + 1]
        span = rng.integers(max(low, -100), min(high, 100), count, endpoint=True)
        wide = rng.integers(
            low, high, count, endpoint=True, dtype=np.uint64 if low == 0 and high > 2**62 else np.int64
        )
        found = np.where(rng.random(count) < 0.5, span.astype(wide.dtype), wide)
        found[: len(corners)] = np.asarray(corners[:count], wide.dtype)
        return found.astype(dtype.numpy)
    spread = rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1e-40, 65504.0, 3e38, 1e-7, 2.5, 3.5]
    spread[: len(special)] = special[:count]
    with np.errstate(all="ignore"):
        return spread.astype(dtype.numpy)
