"""Shared by the tests of compositions: expand a function, check what came out, and run both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir import Graph, Program, interpret, verify
from planish.ptir.function import Function
from planish.ptir.library.expansions import EXPANSIONS
from planish.ptir.passes.expand import ExpandPass
from planish.ptir.types import TensorType
from tests.ptir.ops_testing import samples


def function_of(types: Sequence[TensorType], build: Callable[..., object]) -> Function:
    """The function that `build` makes of inputs of these types; it gives one handle or several."""
    graph = Graph("f")
    results = build(*(graph.input(f"x{i}", type) for i, type in enumerate(types)))
    return graph.build(*(results if isinstance(results, tuple | list) else (results,)))


def expanded(function: Function | Program) -> Program:
    """A copy without composites, verified."""
    program = function.clone() if isinstance(function, Program) else Program([function.clone()])
    ExpandPass().run(program)
    verify(program)
    left = {inst.op.name for f in program for inst in f.walk()} & EXPANSIONS.keys()
    assert not left, left
    assert all(value.type.quant is None for f in program for value in f.values())
    return program


def draw(rng: np.random.Generator, dtype: DType, shape: Sequence[int]) -> np.ndarray:
    """Values of a dtype with many duplicates, infinities, NaNs and both zeros."""
    values = samples(dtype)
    return np.asarray(values[rng.integers(0, len(values), tuple(shape))]).reshape(tuple(shape))


def types_of(arrays: Sequence[np.ndarray]) -> list[TensorType]:
    return [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]


def same_bits(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> None:
    assert len(left) == len(right)
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), number
        assert a.tobytes() == b.tobytes(), f"result {number}:\n{a!r}\n{b!r}"


def check_bits(
    arrays: Sequence[np.ndarray], build: Callable[..., object], types: Sequence[TensorType] | None = None
) -> Program:
    """A function and its expansion give the same bits; gives the expansion."""
    function = function_of(types_of(arrays) if types is None else types, build)
    program = expanded(function)
    same_bits(interpret(function, arrays), interpret(program, arrays))
    return program
