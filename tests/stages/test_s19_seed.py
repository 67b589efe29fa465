"""Stage 19 as seed 001 describes it: what reaches the linear program, and what LLIR makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.llir.lower import lower
from planish.llir.program import Build, Concat, Immediate, SelectLanes, Store
from planish.stages.linearizer.s19_final_rewrite import final_rewrite, pm_split_ends
from planish.stages.linearizer.s20_add_control_flow import add_control_flow
from planish.stages.linearizer.s21_linearize import linearize
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.symbolic import symbolic
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.kernels import f32, i32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def stored(value: UOp) -> UOp:
    """A kernel that stores a vector."""
    t = value.table
    buffer = t.param(0, f32, 64)
    return t.sink(t.make(Ops.INDEX, buffer.dtype, (buffer, t.const(0, i32))).store(value))


def loaded(t: Table, lanes: int, slot: int = 1) -> UOp:
    buffer = t.param(slot, f32, 64)
    return t.make(Ops.LOAD, f32.vec(lanes), (t.make(Ops.INDEX, buffer.dtype, (buffer, t.const(0, i32))),))


def program(sink: UOp) -> list[object]:
    lines = linearize(final_rewrite(sink))
    spec.check(lines, "program")
    return list(lower("kernel", lines).body)


def test_an_end_of_two_ranges_becomes_two_ends(t: Table, golden: Golden) -> None:
    a, b = t.range(t.const(3, i32), 0), t.range(t.const(4, i32), 1)
    buffer = t.param(0, f32, 12)
    place = t.make(Ops.INDEX, buffer.dtype, (buffer, a * 4 + b))
    before = t.sink(place.store(t.const(1.0, f32)).end(a, b))
    after = final_rewrite(before)
    outer = after.src[0]
    assert outer.src[1] is a
    assert outer.src[0].src[1] is b  # the innermost closes first
    assert pm_split_ends(outer) is None
    spec.check(linearize(add_control_flow(after)), "program")
    golden.check(
        "stages/s19_final_rewrite/ends.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_a_constant_of_a_vector_dtype_is_in_every_lane(t: Table) -> None:
    (store,) = [i for i in program(stored(t.const(1.0, f32.vec(4)))) if isinstance(i, Store)]
    assert store.value == Immediate(1.0, f32.vec(4))


def test_lane_selections_are_instructions(t: Table) -> None:
    body = program(stored(loaded(t, 8).gep(6, 4, 2, 0)))
    (selected,) = [i for i in body if isinstance(i, SelectLanes)]
    assert selected.lanes == (6, 4, 2, 0)


def test_joined_vectors_are_an_instruction_and_joined_scalars_are_built(t: Table) -> None:
    both = t.make(Ops.CAT, f32.vec(8), (loaded(t, 4), loaded(t, 4, 2)))
    assert any(isinstance(i, Concat) for i in program(stored(both)))
    scalars = t.make(Ops.CAT, f32.vec(2), (loaded(t, 1), loaded(t, 1, 2)))
    made = symbolic(scalars)
    assert made is not None
    assert made.op is Ops.VECTORIZE
    assert any(isinstance(i, Build) for i in program(stored(made)))
