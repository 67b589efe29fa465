"""Every op that is lowered directly, on every dtype it takes: PTIR interpreter ≡ LLIR interpreter ≡ native code.

What depends on the dtype is tried on all of them; of ops that only move data, or whose kernels differ by dtype in nothing but the
element, the full table is for `make test-all`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import compiler, dtypes, ptir
from planish.dtypes import DType
from planish.errors import LoweringError
from planish.ptir.library import WAYS, Way
from planish.ptir.ops.definition import REGISTRY
from planish.schedule.lowering import LOWERINGS
from tests.e2e.comparing import held, same
from tests.e2e.op_cases import CASES, DIRECT, DTYPES, DYNAMIC, LEFT_OUT, ULPS, Maker, is_plain
from tests.ptir.generate import random_inputs, random_program
from tests.ptir.ops_testing import accepts

_ALWAYS = (dtypes.float32, dtypes.int32, dtypes.bool_)


def agree(name: str, m: Maker) -> None:
    """All ways to run a program give the same result; both ways of running the kernels the same bits."""
    function = m.build()
    wanted = ptir.interpret(function, m.arrays)
    lowered = compiler.lower(function, passes=None)
    run = lowered.interpreted()(*m.arrays)
    native = lowered.compile()(*m.arrays)
    for number, (found, expected, terms) in enumerate(zip(run, wanted, m.slack, strict=True)):
        what = f"{name} of {m.dtype.short}, result {number}"
        same(native[number], found, f"{what}, native against interpreted")
        held(name, found, np.asarray(expected), terms, what)


def _table() -> list[object]:
    """Each op with float32, int32 and bool, and with one of its other dtypes, which varies from op to op."""
    rows: list[object] = []
    for position, (name, (accepted, _)) in enumerate(CASES.items()):
        others = [dtype for dtype in accepted if dtype not in _ALWAYS]
        chosen = others[position % len(others)] if others else None
        rows += [
            pytest.param(name, dtype, id=f"{name}-{dtype.short}")
            for dtype in accepted
            if dtype in _ALWAYS or dtype is chosen
        ]
    return rows


def agree_on_all(name: str, dtype: DType) -> None:
    for program in CASES[name][1]:
        m = Maker(dtype)
        program(m)
        agree(name, m)


@pytest.mark.parametrize(("name", "dtype"), _table())
def test_all_ways_to_run_agree(name: str, dtype: DType) -> None:
    agree_on_all(name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_run_agree_on_every_dtype(name: str) -> None:
    for dtype in CASES[name][0]:
        agree_on_all(name, dtype)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int32], ids=lambda d: d.short)
@pytest.mark.parametrize("name", DYNAMIC)
def test_named_sizes(name: str, dtype: DType) -> None:
    m = Maker(dtype)
    DYNAMIC[name](m)
    agree(name, m)


def test_every_op_has_its_way() -> None:
    """Lowered directly, a composite, a step of the plan, or on the documented list of host ops; nothing else."""
    assert set(WAYS) == set(REGISTRY)
    assert set(DIRECT) <= set(LOWERINGS)
    assert {name for name in LOWERINGS if WAYS[name] is not Way.DIRECT} <= {"bind_dim"}
    assert set(CASES) == set(DIRECT)


def test_every_dtype_of_every_op_is_tried() -> None:
    for name, (accepted, _) in CASES.items():
        op = REGISTRY[name]
        if op.elementwise and op.min_operands == op.max_operands and name not in ("select", "cast"):
            assert set(accepted) == {d for d in DTYPES if accepts(op, d, op.min_operands)}


def test_what_has_no_bound_is_refused_by_name() -> None:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", ("B", 4)))
    with pytest.raises(LoweringError, match=r"dim B .* no upper bound.*in parameter.*B in 1\.\."):
        compiler.lower(g.build(x.neg()))


def test_what_is_too_large_is_refused_by_name() -> None:
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", ("B", 1), B=(1, 1 << 30)))
    dims = (x.type.dims[0], 1 << 30, 8)
    large = x.reshape((x.type.dims[0], 1, 1)).broadcast_to(dims)
    with pytest.raises(LoweringError, match=r"more than 64 bits.*B in 1.*in broadcast_to, at .*test_ops"):
        compiler.lower(g.build(large))


# Left out of random programs: what rounds by its order of evaluation, is exact only within a bound, or shows the bits of a NaN.
_EXACT_ONLY = LEFT_OUT | frozenset(ULPS) | {"bitcast", "copysign"}


def agree_at_random(seed: int) -> None:
    program = random_program(seed, 14, _EXACT_ONLY)
    function = program.entry
    if not is_plain(function):
        return
    arrays = random_inputs(program, seed)
    wanted = ptir.interpret(function, arrays)
    lowered = compiler.lower(function, passes=None)
    for run in (lowered.interpreted(), lowered.compile()):
        for found, expected in zip(run(*arrays), wanted, strict=True):
            same(found, np.asarray(expected), f"program {seed}")


@given(st.integers(0, 1 << 20))
def test_random_programs(seed: int) -> None:
    agree_at_random(seed)


def test_a_size_of_nothing_reads_nothing() -> None:
    """The last of N elements, where N is 0: it was loaded in front of a loop that does not run."""
    agree_at_random(167703)


@pytest.mark.fuzz
def test_many_random_programs() -> None:
    for seed in range(1 << 20, (1 << 20) + 2000):
        agree_at_random(seed)
