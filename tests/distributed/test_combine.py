"""Small all-reduces become one, and no result changes."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes, ptir
from planish.ptir import interpret_ranks, ops
from planish.ptir.passes import PassManager
from planish.ptir.verify import verify

MESH = (("data", 2),)


def several(g: ptir.Graph):
    """Four that are independent, and one that needs two of them; one is of another kind."""
    x, y = g.input("x", ptir.tensor("f32", (3, 2))), g.input("y", ptir.tensor("f32", (4,)))
    a, b = x.all_reduce(MESH, ["data"]), y.all_reduce(MESH, ["data"])
    c = x.neg().all_reduce(MESH, ["data"], "max")
    d = y.mul(2.0).all_reduce(MESH, ["data"])
    later = a.reduce_sum().add(b.reduce_sum()).all_reduce(MESH, ["data"])
    return g.build(a, b, c, d, later)


def counted(function: ptir.Function) -> int:
    return sum(1 for inst in function.walk() if inst.op is ops.all_reduce)


def test_what_waits_is_sent_together():
    before = several(ptir.Graph("f"))
    program = ptir.Program([before.clone()])
    result = PassManager.parse("combine").run(program)
    verify(program)
    after = program.entry
    assert (counted(before), counted(after)) == (5, 3)
    assert result.changed
    rng = np.random.default_rng(0)
    rows = [[rng.standard_normal((3, 2)).astype("f4"), rng.standard_normal(4).astype("f4")] for _ in range(2)]
    for left, right in zip(interpret_ranks(before, rows), interpret_ranks(after, rows), strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_large_goes_alone_and_enough_does_not_wait():
    large = ptir.Program([several(ptir.Graph("f"))])
    assert not PassManager.parse("combine{small=8}").run(large).changed
    soon = ptir.Program([several(ptir.Graph("f"))])
    PassManager.parse("combine{enough=1}").run(soon)
    assert counted(soon.entry) == 5


def test_inside_loops_and_across_them():
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (4, 3)))
    outer = x.all_reduce(MESH, ["data"])

    def step(carry, row):
        one, two = row.all_reduce(MESH, ["data"]), row.neg().all_reduce(MESH, ["data"])
        return carry.max(one), two.add(outer.reduce_sum([0]))

    before = g.build(*g.scan(step, [g.full((3,), 0.0, "f32")], [x]))
    program = ptir.Program([before.clone()])
    PassManager.parse("combine").run(program)
    verify(program)
    assert (counted(before), counted(program.entry)) == (3, 2)
    rows = [[np.arange(12, dtype="f4").reshape(4, 3) + rank] for rank in range(2)]
    for left, right in zip(interpret_ranks(before, rows), interpret_ranks(program, rows), strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a, b)


def added_up(g: ptir.Graph, *, start: float, read: bool):
    """A loop that adds up what ranks have: a sum behind a transpose, and one that is read in every step if `read`."""
    x = g.input("x", ptir.tensor("f64", (5, 2, 3)))
    given = [g.full((3, 2), start, dtypes.float64), g.full((2, 3), 0.0, dtypes.float64)]

    def step(total, other, row):
        new = other.add(row.mul(2.0).all_reduce(MESH, ["data"]))
        return [total.add(row.all_reduce(MESH, ["data"]).transpose((1, 0))), new, *([new] if read else [])]

    return g.build(*g.scan(step, given, [x]))


@pytest.mark.parametrize(("start", "read"), [(0.0, False), (3.0, False), (0.0, True)])
def test_sums_that_a_loop_adds_up_are_taken_behind_it(start, read):
    before = added_up(ptir.Graph("f"), start=start, read=read)
    program = ptir.Program([before.clone()])
    PassManager.parse("combine,dce").run(program)
    verify(program)
    inside = [
        i for i in program.entry.walk() if i.op is ops.all_reduce and i.parent is not program.entry.body
    ]
    assert len(inside) == (1 if read else 0), "what a step reads must be whole there"
    assert counted(program.entry) == (2 if read else 1)
    rng = np.random.default_rng(0)
    rows = [[rng.standard_normal((5, 2, 3))] for _ in range(2)]
    for left, right in zip(interpret_ranks(before, rows), interpret_ranks(program.entry, rows), strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
