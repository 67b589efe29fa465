"""Lowerings by themselves: tensor-level UOps on NumPy arrays ≡ the PTIR interpreter, for every op and dtype and at random.

No scheduling takes part, so a failure here is a wrong lowering, and a failure of `test_ops` alone is not.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import compiler, dtypes, ptir
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.ptir import ops
from planish.schedule import lowering
from planish.schedule.lowering import can_lower, indexing, positions, rules, to_tensors
from planish.uop.node import Table, UOp
from tests.e2e import tensor_level
from tests.e2e.comparing import held, same
from tests.e2e.op_cases import CASES, DYNAMIC, LEFT_OUT, Maker, Program, is_plain
from tests.ptir.generate import random_inputs, random_program


def check(name: str, program: Program, dtype: DType) -> None:
    m = Maker(dtype)
    program(m)
    function = m.build()
    wanted = ptir.interpret(function, m.arrays)
    found = tensor_level.run(function, m.arrays)
    for number, (value, expected, terms) in enumerate(zip(found, wanted, m.slack, strict=True)):
        held(name, value, np.asarray(expected), terms, f"{name} of {dtype.short}, result {number}")


@pytest.mark.parametrize("name", CASES)
def test_every_op_and_dtype(name: str) -> None:
    accepted, programs = CASES[name]
    for dtype in accepted:
        for program in programs:
            check(name, program, dtype)


@pytest.mark.parametrize("name", DYNAMIC)
def test_named_sizes(name: str) -> None:
    for dtype in (dtypes.float32, dtypes.int32, dtypes.bfloat16):
        check(name, DYNAMIC[name], dtype)


# Not in random programs: formulas, and what shows the bits of a NaN.
_INEXACT = frozenset({"erfinv", "lgamma", "digamma", "hypot", "bitcast", "copysign"})


def agree_at_random(seed: int) -> None:
    program = random_program(seed, 14, LEFT_OUT | _INEXACT)
    function = program.entry
    if not is_plain(function):
        return
    arrays = random_inputs(program, seed)
    wanted = ptir.interpret(function, arrays)
    for found, expected in zip(tensor_level.run(function, arrays), wanted, strict=True):
        same(found, np.asarray(expected), f"program {seed}")


@given(st.integers(0, 1 << 20))
def test_random_programs(seed: int) -> None:
    agree_at_random(seed)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("sizes", [(0, 2), (3, 0), (0, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("exclusive", [False, True])
def test_scans_of_nothing(sizes: tuple[int, int], exclusive: bool, named: bool) -> None:
    g = ptir.Graph("f")
    x = g.input(
        "x", ptir.tensor("f64", ("N", "M"), N=(0, 3), M=(0, 2)) if named else ptir.tensor("f64", sizes)
    )
    function = g.build(
        x.cummin(0, exclusive=exclusive), x.cumsum(-1, exclusive=exclusive).add(1.0), x.reduce_min([0])
    )
    arrays = [np.ones(sizes)]
    wanted = ptir.interpret(function, arrays)
    lowered = compiler.lower(function, passes=None)
    for run in (
        tensor_level.run(function, arrays),
        lowered.interpreted()(*arrays),
        lowered.compile()(*arrays),
    ):
        for found, expected in zip(run, wanted, strict=True):
            same(found, np.asarray(expected), str(sizes))


@pytest.mark.fuzz
def test_many_random_programs() -> None:
    for seed in range(1 << 20, (1 << 20) + 4000):
        agree_at_random(seed)


# -- functions that are formulas -------------------------------------------------------------------------------------


def _reference(name: str, x: float) -> mpmath.mpf:
    value = mpmath.mpf(x)
    if name == "lgamma":
        return mpmath.re(mpmath.loggamma(value)) if value > 0 else mpmath.log(abs(mpmath.gamma(value)))
    if name == "digamma":
        return mpmath.psi(0, value)
    rest = 1 - abs(value)
    if rest > 1e-6:
        return mpmath.erfinv(value)
    start = mpmath.sqrt(-mpmath.log(rest))
    found = mpmath.findroot(lambda y: mpmath.log(mpmath.erfc(y)) - mpmath.log(rest), start)
    return mpmath.sign(value) * found


def _arguments(name: str, rng: np.random.Generator, count: int) -> np.ndarray:
    if name == "erfinv":
        tails = 1 - 10.0 ** rng.uniform(-15.9, -1, count)
        return np.concatenate([rng.uniform(-1, 1, count), tails, -tails, 10.0 ** rng.uniform(-30, -1, count)])
    return np.concatenate(
        [rng.uniform(-9, 13, 2 * count), rng.uniform(0.9, 2.1, count), 10.0 ** rng.uniform(-30, 30, count)]
    )


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=lambda d: d.short)
@pytest.mark.parametrize("name", ["erfinv", "lgamma", "digamma"])
def test_functions_keep_their_bounds(name: str, dtype: DType) -> None:
    """16 ULP, or 16 eps absolute near a zero (semantics 1.5); a quarter of that was seen, digamma of float64 aside."""
    precision = dtypes.float_format(dtype).precision
    x = np.unique(_arguments(name, np.random.default_rng(0), 60).astype(dtype.numpy))
    x = x[abs(x) < 1] if name == "erfinv" else x[x != np.floor(x)]
    g = ptir.Graph("f")
    function = g.build(g.emit(ops.REGISTRY[name], [g.input("x", ptir.tensor(dtype, x.shape))]))
    (found,) = tensor_level.run(function, [x])
    with mpmath.workdps(40):
        for argument, value in zip(x.tolist(), found.tolist(), strict=True):
            exact = _reference(name, argument)
            error = abs(mpmath.mpf(value) - exact)
            unit = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(abs(exact), 2)) + 1 - precision)
            near_zero = abs(exact) < 0.5 and name != "erfinv"
            bound = 16 * max(unit, mpmath.mpf(2) ** (1 - precision) if near_zero else unit)
            assert error <= bound, f"{name}({argument!r}) = {value!r}, {float(error / unit)} ULP"


# -- that these tests can fail ---------------------------------------------------------------------------------------


def _not_clamped(index: UOp, most: object) -> UOp:
    return index.cast(dtypes.index)


def _never_outside(index: UOp, size: object) -> UOp:
    return index.eq(index)


@pytest.mark.parametrize(
    ("name", "module", "attribute", "broken"),
    [
        ("gather", indexing, "clamped", _not_clamped),
        ("scatter", indexing, "in_bounds", _never_outside),
        ("dynamic_slice", indexing, "clamped", _not_clamped),
        ("reduce_window", positions, "_scaled", lambda x, by: x),
        ("convolution", positions, "_scaled", lambda x, by: x),
        ("cast", rules, "is_tiny", lambda dtype: True),
    ],
)
def test_a_wrong_lowering_is_seen(
    monkeypatch: pytest.MonkeyPatch, name: str, module: object, attribute: str, broken: Callable[..., object]
) -> None:
    monkeypatch.setattr(module, attribute, broken)
    with pytest.raises(AssertionError):
        test_every_op_and_dtype(name)


# -- what is refused -------------------------------------------------------------------------------------------------


def test_an_op_without_a_lowering_is_refused_by_name() -> None:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (4, 4)))
    function = g.build(g.emit(ops.cholesky, [x], ops.CholeskyAttrs()))
    with Table() as table, pytest.raises(LoweringError) as caught:
        to_tensors(function, table)
    message = str(caught.value)
    assert all(word in message for word in ("cholesky", "tensor<f32, 4x4>", "test_lowering.py", "interpret"))
    assert caught.value.op == "cholesky"
    assert caught.value.location is not None


def test_complex_numbers_are_refused_until_they_are_split() -> None:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("c64", (4,)))
    function = g.build(x.add(x))
    assert not any(map(can_lower, function))
    with Table() as table, pytest.raises(LoweringError, match=r"add\(.*complex numbers.*real and imaginary"):
        to_tensors(function, table)


def test_the_table_alone_decides() -> None:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (4,)))
    function = g.build(x.exp(), x.top_k(2)[0])
    assert [can_lower(inst) for inst in function] == [inst.op.name in lowering.LOWERINGS for inst in function]
