"""Random programs with nested control flow: machine code gives what the PTIR interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.ptir.types import bounds
from tests.ptir.generate import HOST, random_inputs, random_program
from tests.ptir.generate_ops import MAKERS

Array = NDArray[Any]

PLAIN = frozenset({
    "constant", "iota", "add", "sub", "mul", "max", "min", "neg", "abs", "and", "or", "not", "lt", "le",
    "eq", "select", "cast", "broadcast_to", "reshape", "transpose", "slice", "concat", "reverse",
    "reduce_max", "reduce_min", "reduce_and", "gather", "dynamic_slice", "dynamic_update_slice",
    "cumsum", "argmax",
})  # fmt: skip
CONTROL = frozenset({"cond", "while", "scan", "call", "bind_dim", "dimension_size", "custom_call"})
LEFT_OUT = frozenset(MAKERS) - PLAIN - CONTROL


def close(a: Array, b: Array) -> bool:
    """Equal, or as near as sums and functions of floats may be."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "iub":
        return bool((a == b).all())
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    most = {1: 0.3, 2: 2e-2}.get(a.dtype.itemsize, 1e-4)
    with np.errstate(all="ignore"):
        return bool(np.allclose(a.astype(wide), b.astype(wide), rtol=most, atol=most, equal_nan=True))


def check(seed: int, size: int, exclude: frozenset[str], *, interpreted: bool = False) -> None:
    program = random_program(seed, size, exclude)
    lowered = compiler.lower(program)
    run = lowered.interpreted() if interpreted else lowered.compile()
    for attempt in range(2):
        inputs = random_inputs(program, seed + attempt, odd=False)
        kept = [array.copy() for array in inputs]
        wanted, found = ptir.interpret(program, inputs), run(*inputs)
        assert all(map(close, wanted, found)), f"seed {seed}: {ptir.print(program)}"
        assert all(a.tobytes() == b.tobytes() for a, b in zip(inputs, kept, strict=True)), (
            "an input was written"
        )


@pytest.mark.parametrize("seed", range(24))
def test_random_control_flow(seed):
    check(seed, 16, LEFT_OUT)


@pytest.mark.parametrize("seed", range(4))
def test_random_control_flow_in_the_llir_interpreter(seed):
    check(100 + seed, 8, LEFT_OUT, interpreted=True)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_much_random_control_flow(start):
    for seed in range(start, start + 50):
        check(seed, 20, LEFT_OUT)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 400, 50))
def test_random_programs_over_all_ops(start):
    for seed in range(start, start + 50):
        check(seed, 16, HOST - {"custom_call"})


def test_the_programs_have_what_they_are_for():
    seen: set[str] = set()
    sizes = False
    for seed in range(24):
        program = random_program(seed, 16, LEFT_OUT)
        seen |= {inst.op.name for function in program for inst in function.walk()}
        sizes |= any(bounds(d)[0] < bounds(d)[1] for p in program.entry.params for d in p.type.dims)
    assert {"cond", "while", "scan", "call", "custom_call"} <= seen
    assert sizes
