"""Stage 9 as seed 001 describes it: marked ranges become lanes, step by step, in a given order of matchers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from planish.stages.expander import s09_expander as s09
from planish.stages.expander.s09_expander import EXPANDER_ORDER, expand, pm_group_for_reduce, pm_pre_expander
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS
from planish.uop.interpret import interpret
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, AxisType, Bufferize, Ops, UnrolledLanes
from planish.uop.symbolic import sym
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.placed import Action, ActionKind
from tests.stages.kernels import REDUCE, f32, i32

UPCAST, UNROLL, GROUP = AxisType.UPCAST, AxisType.UNROLL, AxisType.GROUP_REDUCE


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


@pytest.mark.parametrize("size", [3, 4])
def test_a_marked_range_becomes_its_numbers(t: Table, size: int) -> None:
    for kind in (UPCAST, UNROLL):
        found = pm_pre_expander(t.range(size, 1, kind))
        assert found is not None
        assert found.op is Ops.UNROLL
        assert found.src[0] is t.vconst(range(size))
        assert found.arg == UnrolledLanes((((1,), size),))
    assert pm_pre_expander(t.range(size, 1)) is None


def kernel(t: Table) -> UOp:
    """c[i*4 + u] = a[i*4 + u] + b[i], u side by side."""
    i, u = t.range(5, 0), t.range(4, 1, UPCAST)
    value = t.param(1, i32, 20).index(i * 4 + u) + t.param(2, i32, 5).index(i)
    return t.sink(t.param(0, i32, 20).index(i * 4 + u).store(value).end(i, u))


def memory(seed: int = 0) -> dict[int, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        0: np.zeros(20, np.int32),
        1: rng.integers(-9, 9, 20, np.int32),
        2: rng.integers(-9, 9, 5, np.int32),
    }


def test_operations_over_lanes_are_one_operation_each(t: Table, golden: Golden) -> None:
    before = kernel(t)
    after = expand(before)
    adds = [n for n in after.toposort() if n.op is Ops.ADD and n.dtype.is_int]
    assert [n.dtype.lanes for n in adds] == [4]
    np.testing.assert_array_equal(interpret(after, memory())[0], interpret(before, memory())[0])
    golden.check(
        "stages/seed/s09_upcast.txt", f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}"
    )


def test_the_end_keeps_the_store_of_a_vector_and_drops_the_lanes(t: Table) -> None:
    after = expand(kernel(t))
    (end,) = after.src
    assert end.op is Ops.END
    assert [r.arg.kind for r in end.src[1:]] == [AxisType.LOOP]  # type: ignore[attr-defined]
    store = end.src[0]
    assert store.op is Ops.STORE
    assert store.src[1].dtype.lanes == 4
    assert not any(n.op in {Ops.UNROLL, Ops.CONTRACT} for n in after.toposort())


def test_what_all_lanes_share_is_observed_once(t: Table) -> None:
    """AFTER(VECTORIZE(x, x), e) -> VECTORIZE(AFTER(x, e), …)."""
    i, j = t.range(2, 0), t.range(3, 1)
    effect = t.param(0, f32, 2).index(i).store(t.const(1.0, f32)).end(i)
    x = t.param(1, f32, 3).index(j)
    after = t.make(Ops.VECTORIZE, f32.vec(2), (x, x)).after(effect)
    found = sym(after)
    assert found is not None
    assert found.op is Ops.VECTORIZE
    assert found.src[0] is x.after(effect)


# -- a reduction that threads share ---------------------------------------------------------------------------------------


def test_a_shared_reduction_goes_through_local_memory(t: Table) -> None:
    g, r = t.range(8, 1, GROUP), t.range(4, 2, REDUCE)
    x = t.param(1, f32, 32).index(g * 4 + r)
    found = pm_group_for_reduce(x.reduce(Ops.ADD, r, g), s09.Expansion(axes={(0,), (1,), (2,)}))
    assert found is not None
    read, twin = found.src
    assert found.op is Ops.REDUCE
    assert twin.arg == Axis((101,), REDUCE)  # the loop that finishes it: its axis, a hundred on
    kept = read.src[0]
    assert kept.arg == Bufferize("local")
    assert kept.src[1:] == (g,)
    assert kept.src[0] is x.reduce(Ops.ADD, r)  # what each thread does by itself


def shared(t: Table) -> UOp:
    """out[l] = Σ a[l, r], with threads that share r beside threads that have an output of their own."""
    i, r = t.range(6, 0), t.range(32, 1, REDUCE)
    value = t.param(1, f32, 192).index(i * 32 + r).reduce(Ops.ADD, r)
    kernel = t.sink(t.param(0, f32, 6).index(i).store(value).end(i))
    actions = [Action(ActionKind.GROUP, 1, 8), Action(ActionKind.LOCAL, 0, 3)]
    return apply_opts(kernel, actions, TARGETS["cuda"])


def test_other_threads_have_results_of_their_own(t: Table) -> None:
    data = np.arange(192, dtype=np.float32) % 11
    for sink in (shared(t), expand(shared(t))):
        found = interpret(sink, {0: np.zeros(6, np.float32), 1: data})[0]
        np.testing.assert_array_equal(found, data.reshape(6, 32).sum(1))


# -- precedence -----------------------------------------------------------------------------------------------------------


def test_matchers_are_tried_in_the_order_of_the_specification() -> None:
    assert [matcher.name for matcher in EXPANDER_ORDER] == [
        "sym",
        "pm_pre_expander",
        "pm_group_for_reduce",
        "expander",
    ]


def shared_product(t: Table) -> UOp:
    """out[i] = Σ a[i, g] * b[i] over threads that share g: the algebra and the group both want the same REDUCE."""
    i, g = t.range(4, 0), t.range(8, 1, GROUP)
    value = (t.param(1, i32, 32).index(i * 8 + g) * t.param(2, i32, 4).index(i)).reduce(Ops.ADD, g)
    return t.sink(t.param(0, i32, 4).index(i).store(value).end(i))


def test_exchanging_two_matchers_changes_what_is_made(t: Table, golden: Golden) -> None:
    sink = shared_product(t)
    algebra, pre, group, last = EXPANDER_ORDER
    usual, exchanged = expand(sink), expand(sink, (group, pre, algebra, last))
    assert exchanged is not usual
    golden.check(
        "stages/seed/s09_order.txt",
        f"=== usual\n{print_graph(usual)}=== exchanged\n{print_graph(exchanged)}",
    )
    a, b = np.arange(32, dtype=np.int32) % 13, np.arange(4, dtype=np.int32) + 2
    for form in (sink, usual, exchanged):
        found = interpret(form, {0: np.zeros(4, np.int32), 1: a, 2: b})[0]
        np.testing.assert_array_equal(found, a.reshape(4, 8).sum(1) * b)


def products_in_memory(sink: UOp) -> bool:
    """Whether what threads keep for each other is a product already."""
    return any(n.op is Ops.BUFFERIZE and any(s.op is Ops.MUL and s.dtype is i32 for s in n.toposort())
               for n in sink.toposort())  # fmt: skip


def test_the_algebra_comes_first_so_that_less_is_done_in_every_thread(t: Table) -> None:
    sink = shared_product(t)
    algebra, pre, group, last = EXPANDER_ORDER
    assert not products_in_memory(expand(sink))
    assert products_in_memory(expand(sink, (group, pre, algebra, last)))
