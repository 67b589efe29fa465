"""Programs that jax lowers, by planish: results as jax has them, and text read the same in both spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from planish import stablehlo  # noqa: E402
from planish.stablehlo.parsing import parse  # noqa: E402
from planish.stablehlo.sources import mlir_of  # noqa: E402
from planish.stablehlo.syntax import difference  # noqa: E402
from tests.stablehlo.programs import PROGRAMS  # noqa: E402

COMPILED = (
    "activations", "attention", "conv", "cond", "cumsum", "fft", "gather.pairs", "grad.mlp", "grad.scan", "linalg.solve",
    "pool.gradient", "random.normal", "reduce.body", "scan", "scatter.add", "sort.keys", "while", "vmap.while", "switch",
    "complex.arithmetic", "dot.bfloat16", "bools",
)  # fmt: skip
"""Those that run as machine code too."""


@pytest.fixture(scope="module", autouse=True)
def _quick_peer() -> Any:
    """jax compiles without optimising: its results are what counts."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def agree(found: Any, wanted: Any) -> None:
    """As near as float32 is, everything else exactly."""
    wanted = np.asarray(wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    near = 1e-2 if wanted.dtype.itemsize < 4 else 2e-4
    np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), rtol=near, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, args = PROGRAMS[name]
    lowered = jax.jit(function).lower(*args)
    wanted = jax.tree.leaves(jax.jit(function)(*args))
    module = mlir_of(lowered)
    generic = module.operation.get_asm(print_generic_op_form=True, large_elements_limit=None)
    assert difference(parse(generic), parse(str(module))) is None
    program = stablehlo.load(lowered)
    given = jax.tree.leaves(args)
    results = program.interpret(*given)
    assert len(results) == len(wanted)
    for found, known in zip(results, wanted, strict=True):
        agree(found, known)
    if name in COMPILED:
        for found, known in zip(program.run(*given), wanted, strict=True):
            agree(found, known)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in COMPILED])
def test_program_as_machine_code(name: str) -> None:
    function, args = PROGRAMS[name]
    program = stablehlo.load(jax.jit(function).lower(*args))
    for found, known in zip(
        program.run(*jax.tree.leaves(args)), jax.tree.leaves(jax.jit(function)(*args)), strict=True
    ):
        agree(found, known)
