"""Random programs: tangents and cotangents agree, derivatives verify and survive optimisation."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes, ptir
from planish.errors import GraphError
from planish.frontend.autodiff import jvp, vjp
from planish.frontend.autodiff.instruction import is_differentiable
from tests.ptir import generate_core, generate_ops
from tests.ptir.generate import random_inputs, random_program

WIDE = (dtypes.float64, dtypes.float64, dtypes.float64, dtypes.complex128, dtypes.int64, dtypes.bool_)
# Without derivatives, with dtypes of their own, or ill-conditioned on arbitrary numbers.
LEFT_OUT = (
    "custom_call", "convolution", "quantize", "dequantize", "qr", "svd", "eigh", "lu", "cholesky", "triangular_solve",
    "constant", "pow", "bitcast",
)  # fmt: skip


@pytest.fixture
def _wide(monkeypatch):
    for module in (generate_core, generate_ops):
        monkeypatch.setattr(module, "DTYPES", WIDE)
        monkeypatch.setattr(module, "COMMON", WIDE)


def weighed(left, right) -> tuple[float, float]:
    """The real inner product, and the sum of its terms' sizes: what rounding is measured against."""
    pairs = [(np.conj(a) * b).real for a, b in zip(left, right, strict=True)]
    return sum(float(p.sum()) for p in pairs), sum(float(np.abs(p).sum()) for p in pairs)


def uses_float32(program) -> bool:
    """Sums of products are accumulated in it here."""
    return any(inst.op.name == "dot_general" for function in program for inst in function.walk())


def check(seed: int) -> bool:
    """Whether the program had derivatives that are finite numbers."""
    program = random_program(seed, 12, LEFT_OUT)
    rng = np.random.default_rng(seed)
    arrays = random_inputs(program, seed, odd=False)

    def like(array):
        t = rng.standard_normal(array.shape)
        t = t + 1j * rng.standard_normal(array.shape) if array.dtype.kind == "c" else t
        return np.asarray(t, array.dtype)

    try:
        forward, backward = jvp(program), vjp(program)
    except GraphError as error:
        if "while loop has no reverse" not in error.message:
            raise
        return False
    ptir.verify(forward)
    ptir.verify(backward)
    entry = program.entry
    moving = [n for n, param in enumerate(entry.params) if is_differentiable(param.type)]
    tangents = [like(arrays[n]) for n in moving]
    with np.errstate(all="ignore"):
        results = ptir.interpret(program, arrays)
        cotangents = [
            like(y) for y, r in zip(results, entry.results, strict=True) if is_differentiable(r.type)
        ]
        count = len(results)
        moved = ptir.interpret(forward, [*arrays, *tangents])[count:]
        pulled = ptir.interpret(backward, [*arrays, *cotangents])[count:]
        left, most = weighed(cotangents, moved)
        right, other = weighed(pulled, tangents)
        if not np.isfinite(most + other):
            return False
        narrow = any(value.type.dtype in (dtypes.float32, dtypes.complex64) for value in backward.values())
        accuracy = 1e-5 if narrow or uses_float32(program) else 1e-9
        assert abs(left - right) <= accuracy * (1 + most + other), (seed, left, right)
        optimised = ptir.Program([backward])
        ptir.PassManager.parse("canonicalize,cse,dce").run(optimised)
        ptir.verify(optimised)
        again = ptir.interpret(optimised, [*arrays, *cotangents])[count:]
    for a, b in zip(pulled, again, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=accuracy * (1 + most + other), err_msg=str(seed))
    return bool(moved) and most > 0


@pytest.mark.usefixtures("_wide")
def test_tangents_and_cotangents_agree():
    found = sum(check(seed) for seed in range(100))
    assert found > 10, "too few programs have derivatives to say anything"


@pytest.mark.fuzz
@pytest.mark.usefixtures("_wide")
def test_tangents_and_cotangents_agree_often():
    for seed in range(1000, 6000):
        check(seed)
