"""Stage 22: which gates become branches, and that the branches do what the gates did."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages.linearizer.s21_linearize import linearize
from planish.stages.linearizer.s22_cleanup_if import cleanup_if
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import print_lines
from tests.conftest import Golden

f32, i32 = dtypes.float32, dtypes.int32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def gated(t: Table, slot: int, index: UOp, gate: UOp, value: float = 1.0, lanes: int = 1) -> UOp:
    buffer = t.param(slot, f32, 8)
    place = t.make(Ops.INDEX, buffer.dtype, (buffer, index))
    return t.make(Ops.STORE, dtypes.void, (place, t.const(value, f32.vec(lanes)), gate))


def branches(lines: list[UOp]) -> str:
    letters = {Ops.IF: "(", Ops.ENDIF: ")", Ops.STORE: "s", Ops.RANGE: "[", Ops.END: "]"}
    return "".join(letters.get(line.op, "") for line in lines)


def outcome(lines: list[UOp], count: int, **variables: int) -> list[list[float]]:
    arrays = [np.zeros(8, np.float32) for _ in range(count)]
    interpret(lower("kernel", lines), arrays, variables)
    return [array.tolist() for array in arrays]


def check(lines: list[UOp], count: int = 2) -> list[UOp]:
    """The list after the stage, legal and doing the same."""
    after = cleanup_if(lines)
    spec.check(after, "program")
    names = {line.arg.name for line in lines if line.op is Ops.DEFINE_VAR}  # type: ignore[attr-defined]
    for n in range(8):
        for m in (0, 3):
            given = {name: value for name, value in (("n", n), ("m", m)) if name in names}
            assert outcome(after, count, **given) == outcome(lines, count, **given)
    return after


def test_neighbours_under_one_condition_share_a_branch(t: Table, golden: Golden) -> None:
    n = t.variable("n", 0, 7, i32)
    stores = [gated(t, slot, n, n < 3, value) for slot in (0, 1) for value in (1.0,)]
    lines = linearize(t.sink(*stores))
    after = check(lines)
    assert branches(after) == "(ss)"
    golden.check(
        "stages/s22_cleanup_if/shared.txt", f"=== before\n{print_lines(lines)}=== after\n{print_lines(after)}"
    )


def test_other_conditions_get_their_own(t: Table) -> None:
    n, m = t.variable("n", 0, 7, i32), t.variable("m", 0, 7, i32)
    first, second = gated(t, 0, n, n < 3), gated(t, 1, n, m < 2)
    third = gated(t, 0, m, n < 3, 2.0).replace(
        src=(t.make(Ops.INDEX, f32.ptr(8), (t.param(0, f32, 8).after(first, second), m)), t.const(2.0, f32), n < 3)
    )  # fmt: skip
    order = list(dict.fromkeys((*t.sink(first, second).toposort()[:-1], *t.sink(third).toposort())))
    assert branches(check(order)) == "(s)(s)(s)"


def test_a_gate_per_lane_stays_with_its_store(t: Table) -> None:
    n = t.variable("n", 0, 4, i32)
    lanes = t.make(Ops.VECTORIZE, i32.vec(4), (n, n + 1, n + 2, n + 3))
    masked = gated(t, 0, n, lanes < t.const(6, i32.vec(4)), lanes=4)
    lines = linearize(t.sink(masked))
    after = cleanup_if(lines)
    assert after == lines
    assert outcome(after, 1, n=4) == [[0, 0, 0, 0, 1, 1, 0, 0]]


def test_one_gate_for_all_lanes_is_a_condition(t: Table) -> None:
    n = t.variable("n", 0, 4, i32)
    wide = t.make(Ops.VECTORIZE, dtypes.bool_.vec(4), (n < 3,) * 4)
    after = cleanup_if(linearize(t.sink(gated(t, 0, n, wide, lanes=4))))
    assert branches(after) == "(s)"
    assert next(line for line in after if line.op is Ops.IF).src[0].dtype is dtypes.bool_
    assert outcome(after, 1, n=2) == [[0, 0, 1, 1, 1, 1, 0, 0]]


def test_a_target_that_predicates_keeps_the_list(t: Table) -> None:
    n = t.variable("n", 0, 7, i32)
    lines = linearize(t.sink(gated(t, 0, n, n < 3)))
    assert cleanup_if(lines, predicated_stores=True) == lines
    assert branches(cleanup_if(lines)) == "(s)"


def test_branches_of_two_loops_stay_apart(t: Table) -> None:
    n = t.variable("n", 0, 7, i32)
    a, b = (t.range(t.const(4, i32), number) for number in (0, 1))
    first = gated(t, 0, a, n < 3).end(a)
    b = b.replace(src=(*b.src, first))
    lines = linearize(t.sink(first, gated(t, 1, b, n < 3).end(b)))
    assert branches(check(lines)) == "[(s)][(s)]"
