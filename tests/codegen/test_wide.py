"""Index arithmetic in 64 bits: what is widened, what is cut back, and that a kernel computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.codegen.wide import widened
from planish.llir.interpret import interpret
from planish.llir.program import Address, Compute, Convert, Loop, Program, Register
from planish.llir.verify import verify
from planish.ptir.dims import Dim


def _transposed() -> Program:
    """Two loops, and addresses of sums and products of their counters."""
    g = ptir.Graph("transposed")
    x = g.input("x", ptir.tensor("f32", (8, 6)))
    (program,) = compiler.lower(g.build(x.transpose((1, 0)).neg()), "scalar").programs
    return program


def _counted() -> Program:
    """Counters that are values as well."""
    g = ptir.Graph("counted")
    x = g.input("x", ptir.tensor("i32", (8, 6)))
    (program,) = compiler.lower(g.build(x.add(g.iota([8, 6], 0, "i32"))), "scalar").programs
    return program


def _sized() -> Program:
    """A loop whose end is known at launch."""
    g = ptir.Graph("sized")
    n = Dim.named("n", 1, 64)
    x = g.input("x", ptir.tensor("f32", (n, 6)))
    (program,) = compiler.lower(g.build(x.transpose((1, 0)).neg()), "scalar").programs
    return program


def test_addresses_have_64_bits() -> None:
    before = _transposed()
    program, spans = widened(before)
    indices = [i.index for i in program.body if isinstance(i, Address)]
    found = [index for index in indices if isinstance(index, Register)]
    assert found
    assert {index.dtype for index in found} == {dtypes.int64}
    assert all(index in spans for index in found)
    assert all(i.counter.dtype is dtypes.int64 for i in program.body if isinstance(i, Loop))
    # nothing is computed twice, nothing is converted
    assert sum(isinstance(i, Compute) for i in program.body) == sum(
        isinstance(i, Compute) for i in before.body
    )
    assert not any(isinstance(i, Convert) for i in program.body)


def test_a_counter_that_is_also_a_value_is_cut_back() -> None:
    program, _ = widened(_counted())
    cut = [i for i in program.body if isinstance(i, Convert) and i.operand.dtype is dtypes.int64]
    assert cut
    assert all(i.result.dtype is dtypes.int32 for i in cut)


@pytest.mark.parametrize("make", [_transposed, _counted, _sized])
def test_the_same_is_computed(make: Callable[[], Program]) -> None:
    before = make()
    after, _ = widened(before)
    verify(after)
    sizes = {variable.name: 5 for variable in before.variables}
    results = []
    for program in (before, after):
        arrays = [np.arange(b.nbytes // b.dtype.itemsize).astype(b.dtype.numpy) for b in program.params]
        interpret(program, arrays, sizes)
        results.append(arrays)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
