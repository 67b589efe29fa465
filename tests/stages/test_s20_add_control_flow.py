"""Stage 20: which loop stands in which, which comes after which, and that nothing ever waits for itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import LoweringError, PlanishError
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.stages import pipeline
from planish.stages.linearizer import s20_add_control_flow as s20
from planish.stages.linearizer.s20_add_control_flow import add_control_flow, control_flow_edges
from planish.stages.linearizer.s21_linearize import linearize
from planish.uop import spec
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.rewrite import RewriteStats, rewrite
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.loops import BUFFERS, SIZE, graph_of, random_program, run_program

f32, i32 = dtypes.float32, dtypes.int32


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def out(t: Table, slot: int, index: UOp, *effects: UOp) -> UOp:
    buffer = t.param(slot, i32, 64)
    memory = buffer.after(*effects) if effects else buffer
    return t.make(Ops.INDEX, buffer.dtype, (memory, index))


def fill(t: Table, slot: int, counter: UOp, *after: UOp) -> UOp:
    """for counter: slot[counter] = counter."""
    return out(t, slot, counter, *after).store(counter).end(counter)


def scratch(t: Table, slot: int, index: UOp, *effects: UOp) -> UOp:
    memory = t.make(Ops.DEFINE_LOCAL, i32.ptr(8, AddrSpace.LOCAL), (), slot)
    return t.make(Ops.INDEX, memory.dtype, (memory.after(*effects) if effects else memory, index))


def loops(t: Table, *sizes: int) -> list[UOp]:
    return [t.range(t.const(size, i32), number) for number, size in enumerate(sizes)]


def headers(lines: list[UOp]) -> list[str]:
    """Where loops open and close: `L0`, `/L0`."""
    found = []
    for line in lines:
        if isinstance(line.arg, Axis):
            found.append(str(line.arg))
        elif line.op is Ops.END:
            found.append(f"/{line.src[1].arg}")
    return found


def ordered(sink: UOp) -> list[str]:
    spec.check(sink, "lowered")
    lines = linearize(add_control_flow(sink))
    spec.check(lines, "program")
    return headers(lines)


def test_siblings_with_nothing_in_common_are_chained(t: Table, golden: Golden) -> None:
    a, b = loops(t, 4, 3)
    sink = t.sink(fill(t, 0, a), fill(t, 1, b))
    after = add_control_flow(sink)
    second = next(n for n in after.toposort() if n.op is Ops.RANGE and len(n.src) == 2)
    assert second.arg is not None
    assert second.src[1].op is Ops.END
    assert ordered(sink) == ["L0", "/L0", "L1", "/L1"]
    golden.check(
        "stages/s20_add_control_flow/siblings.txt",
        f"=== before\n{print_graph(sink)}=== after\n{print_graph(after)}",
    )


def test_a_sibling_comes_after_what_it_depends_on(t: Table) -> None:
    a, b, c = loops(t, 4, 3, 5)
    last = fill(t, 2, c)
    middle = scratch(t, 0, a, last, a).store(a).end(a)  # waits for the loop with the greatest axis
    first = out(t, 0, b).store(t.make(Ops.LOAD, i32, (scratch(t, 0, b, middle, b),))).end(b)
    assert ordered(t.sink(first, middle, last)) == ["L2", "/L2", "L0", "/L0", "L1", "/L1"]


def test_an_inner_loop_opens_behind_the_header_around_it(t: Table) -> None:
    a, b = loops(t, 4, 3)
    inner = scratch(t, 0, b, a).store(b).end(b)  # its header itself knows nothing of a
    outer = out(t, 0, a).store(t.make(Ops.LOAD, i32, (scratch(t, 0, a, inner),))).end(a)
    assert ordered(t.sink(outer)) == ["L0", "L1", "/L1", "/L0"]


def test_what_does_not_depend_on_a_loop_stays_before_it(t: Table) -> None:
    a, b = loops(t, 4, 3)
    invariant = scratch(t, 0, b).store(b).end(b)
    outer = out(t, 0, a).store(t.make(Ops.LOAD, i32, (scratch(t, 0, a, invariant),))).end(a)
    assert ordered(t.sink(outer)) == ["L1", "/L1", "L0", "/L0"]


def test_several_stores_share_a_loop(t: Table) -> None:
    a, b = loops(t, 4, 3)
    group = t.make(Ops.GROUP, dtypes.void, (out(t, 0, a).store(a), out(t, 1, a).store(a + 1)))
    assert ordered(t.sink(group.end(a), fill(t, 2, b))) == ["L0", "/L0", "L1", "/L1"]


def test_siblings_inside_a_loop(t: Table) -> None:
    p, a, b, c = loops(t, 2, 3, 4, 5)
    one = scratch(t, 0, a, p).store(a).end(a)
    two = scratch(t, 1, b, p).store(b).end(b)
    both = t.make(Ops.LOAD, i32, (scratch(t, 0, c, one, c),)) + t.make(
        Ops.LOAD, i32, (scratch(t, 1, c, two, c),)
    )
    three = out(t, 0, p * 5 + c).store(both).end(c)
    assert ordered(t.sink(three.end(p))) == ["L0", "L1", "/L1", "L2", "/L2", "L3", "/L3", "/L0"]


def test_one_loop_needs_no_edges(t: Table) -> None:
    (a,) = loops(t, 4)
    sink = t.sink(fill(t, 0, a))
    assert control_flow_edges(sink) == {}
    assert add_control_flow(sink) is sink


def test_a_loop_that_is_used_outside_of_itself_is_refused(t: Table) -> None:
    a, b = loops(t, 4, 3)
    leak = scratch(t, 1, b).store(b)  # uses b, but no END of b covers it
    other = scratch(t, 0, a, leak, a).store(a).end(a)
    with pytest.raises(LoweringError, match="L1 is used by another loop that does not stand inside of it"):
        add_control_flow(t.sink(other, fill(t, 0, b)))


def test_the_work_is_linear_in_the_number_of_loops(t: Table) -> None:
    visits = []
    for count in (20, 40):
        ranges = [t.range(t.const(3, i32), number) for number in range(count)]
        sink = t.sink(*(fill(t, number, r) for number, r in enumerate(ranges)))
        stats = RewriteStats()
        edges = control_flow_edges(sink)
        assert len(edges) == count - 1
        rewrite(sink, s20.pm_add_control_flow, edges, order="sink_first", stats=stats)
        visits.append(stats.visits)
    assert visits[1] < 2.2 * visits[0]


# -- random nests --------------------------------------------------------------------------------------------------


def wrong_nests(seeds: range, control: Callable[[UOp], UOp] = add_control_flow) -> list[int]:
    """Random programs whose loops interleave, wait for each other, or compute something else."""
    found = []
    for seed in seeds:
        program = random_program(random.Random(seed))
        with Table() as t:
            sink = graph_of(program, t)
            spec.check(sink, "lowered")
            try:
                lines = linearize(control(sink))
                spec.check(lines, "program")
                code = lower("nest", lines)
                right = True
                for n in (0, 1):
                    result = np.zeros(BUFFERS * SIZE, np.int32)
                    interpret(code, [result], {"n": n} if code.variables else {})
                    right = right and np.array_equal(result, run_program(program, n))
            except PlanishError:
                right = False
        if not right:
            found.append(seed)
    return found


def test_random_nests_run_as_written() -> None:
    assert wrong_nests(range(120)) == []


@pytest.mark.fuzz
def test_many_random_nests_run_as_written() -> None:
    assert wrong_nests(range(1000, 2500)) == []


def test_loops_without_edges_interleave() -> None:
    assert wrong_nests(range(20), lambda sink: sink)


def test_counting_by_axis_alone_would_close_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = s20._Dependencies.needs
    # what a sibling depends on is not counted: they come in the order of their axes
    monkeypatch.setattr(
        s20._Dependencies,
        "needs",
        lambda self, user, used: user.op is not Ops.END and needs(self, user, used),
    )
    assert wrong_nests(range(40))


def test_loops_of_at_most_one_iteration_keep_what_they_do_not_need_outside() -> None:
    with Table() as t:
        bound = t.variable("n", 0, 1, i32)
        r = t.range(bound, 0, AxisType.REDUCE)
        register = t.make(Ops.DEFINE_REG, i32.ptr(1, AddrSpace.REG), (), 0)

        def element(*effects: UOp) -> UOp:
            memory = register.after(*effects) if effects else register
            return t.make(Ops.INDEX, register.dtype, (memory, t.const(0, i32)))

        first = element().store(t.const(7, i32))
        inside = element(first, r)
        update = inside.store(t.make(Ops.LOAD, i32, (inside,)) + 1).end(r)
        result = out(t, 0, t.const(0, i32)).store(t.make(Ops.LOAD, i32, (element(update),)))
        lines = linearize(add_control_flow(t.sink(result)))
        spec.check(lines, "program")
        code = lower("count", lines)
    for n in (0, 1):
        found = np.zeros(64, np.int32)
        interpret(code, [found], {"n": n})
        assert found[0] == 7 + n


def test_reductions_one_after_another(t: Table) -> None:
    """out[i] = Σ_s (x[i, s] - Σ_r x[i, r]): one loop depends on the other, both inside a third."""
    i = t.range(3, 0)
    r, s = t.range(4, 1, AxisType.REDUCE), t.range(4, 2, AxisType.REDUCE)
    x = t.param(1, f32, 12)
    total = x.index(i * 4 + r).reduce(Ops.ADD, r)
    value = (x.index(i * 4 + s) - total).reduce(Ops.ADD, s)
    lines = pipeline.run(t.sink(t.param(0, f32, 3).index(i).store(value).end(i)))
    assert headers(lines) == ["L0", "R1", "/R1", "R2", "/R2", "/L0"]
    data = np.arange(12, dtype=np.float32)
    result = np.zeros(3, np.float32)
    interpret(lower("rows", lines), [result, data])
    rows = data.reshape(3, 4)
    np.testing.assert_array_equal(result, (rows - rows.sum(1, keepdims=True)).sum(1))
