"""Nodes and their table: identity, content keys, derived properties, depth, and what is left when a table closes."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import DTypeError, GraphError
from planish.uop import (
    Axis,
    AxisType,
    Bufferize,
    Matcher,
    Ops,
    Table,
    UOp,
    anything,
    node,
    print_graph,
    rewrite,
    rule,
)
from tests.uop.graphs import CONSTANTS, chain, random_graph, specimens

f32, i32, index, void = dtypes.float32, dtypes.int32, dtypes.index, dtypes.void


# -- identity --------------------------------------------------------------------------------------------------


def test_the_same_fields_are_the_same_node():
    t = Table()
    a = t.variable("a", 0, 3)
    assert a + 1 is a + t.const(1)
    assert (a + 1) * 2 is (a + 1) * 2
    assert a + 1 is not t.const(1) + a
    assert t.variable("a", 0, 4) is not a
    assert len({a + 1, a + t.const(1)}) == 1


def test_equality_is_identity():
    t = Table()
    a, b = t.variable("a", 0, 3), t.variable("b", 0, 3)
    assert a == a
    assert a != b
    with pytest.raises(GraphError, match="no truth value"):
        bool(a < b)


@pytest.mark.parametrize("dtype", CONSTANTS, ids=str)
def test_different_constants_are_different_nodes(dtype):
    t = Table()
    numbers = CONSTANTS[dtype]
    assert len({t.const(n, dtype) for n in numbers}) == len(numbers)
    assert len({t.const(n, dtype).key for n in numbers}) == len(numbers)
    assert [t.const(n, dtype) for n in numbers] == [t.const(n, dtype) for n in numbers]


def test_zeros_truths_and_ones_are_told_apart():
    t = Table()
    assert t.const(0.0, f32) is not t.const(-0.0, f32)
    assert t.const(math.nan, f32) is t.const(-math.nan, f32)
    one = {
        t.const(True, dtypes.bool_),
        t.const(1, i32),
        t.const(1, index),
        t.const(1.0, f32),
        t.const(1, dtypes.int64),
    }
    assert len(one) == 5
    assert t.const(1.0, i32) is t.const(1, i32)  # one dtype, one value: one node
    assert type(t.const(1.0, i32).arg) is int
    assert type(t.const(1, f32).arg) is float
    assert t.const(1, dtypes.bool_).arg is True
    assert t.const(complex(0.0, -0.0), dtypes.complex64) is not t.const(0j, dtypes.complex64)


def test_constants_are_rounded_to_their_dtype_before_they_are_compared():
    t = Table()
    assert t.const(0.1, f32) is t.const(float(dtypes.float32.numpy.type(0.1)), f32)
    assert t.const(0.1, f32).arg != 0.1
    with pytest.raises(DTypeError, match="not a constant of dtype i8"):
        t.const(128, dtypes.int8)
    assert len(t) == 1


def test_a_vector_constant_is_one_number_in_every_lane():
    t = Table()
    splat = t.const(2.0, f32.vec(4))
    assert splat is t.const(2, f32.vec(4))
    assert splat.dtype is f32.vec(4)
    assert splat.arg == 2.0
    assert splat is not t.const(2.0, f32)
    assert t.vconst([2.0] * 4, f32) is t.vconst([2, 2, 2, 2], f32)
    assert t.vconst([0.0, -0.0], f32) is not t.vconst([0.0, 0.0], f32)


def test_numbers_and_arguments_that_python_finds_equal():
    t = Table()
    tensor = t.make(Ops.BUFFER, f32, (), 0)
    flip = t.make(Ops.FLIP, f32, (tensor,), (True, False))
    place = t.range(4, 7)
    before = len(t)
    with pytest.raises(GraphError, match=r"FLIP.*a bool per axis"):
        t.make(Ops.FLIP, f32, (tensor,), (1, 0))
    with pytest.raises(GraphError, match="arg must be Axis, not tuple"):
        t.make(Ops.RANGE, index, (t.const(4),), ((7,), AxisType.LOOP))
    with pytest.raises(GraphError, match="unknown op"):
        t.make(int(Ops.RANGE), index, (t.const(4),), place.arg)  # type: ignore[arg-type]
    assert flip.arg == (True, False)
    assert len(t) == before


@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_equal_keys_are_equal_nodes(rng, size):
    t = Table()
    random_graph(t, rng, size)
    assert len({node.key for node in t}) == len(t)


# -- content keys ----------------------------------------------------------------------------------------------

KEYS = """
from planish.uop import Table
from tests.uop.graphs import specimens
import hashlib
t = Table()
{first}
print(hashlib.sha256(b"".join(n.key for n in specimens(t))).hexdigest())
print([n.order for n in specimens(t)])
"""


def test_keys_are_the_same_in_every_process():
    outputs = set()
    for seed, first in (("0", ""), ("1", "t.const(123456)"), ("4242", "specimens(t)[::-1]")):
        run = subprocess.run(
            [sys.executable, "-c", KEYS.format(first=first)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1
    t = Table()
    assert str([n.order for n in specimens(t)]) in outputs.pop()


def test_keys_and_orders_ignore_serials():
    first, second = Table(), Table()
    chain(second, 10)
    for a, b in zip(specimens(first), specimens(second), strict=True):
        assert a.key == b.key
        assert a.order == b.order


def test_order_sorts_variables_then_ranges_then_constants():
    t = Table()
    a, b = t.variable("a", 0, 3), t.variable("b", 0, 3)
    r0, r1 = t.range(8, 0), t.range(8, (0, 1))
    nodes = [t.const(7), r1, t.const(3), b * 4, r0 * 100, a]
    assert sorted(nodes, key=lambda n: n.order) == [a, b * 4, r0 * 100, r1, t.const(3), t.const(7)]


# -- tables ----------------------------------------------------------------------------------------------------


def test_two_tables_do_not_mix():
    first, second = Table(), Table()
    a, b = first.variable("a", 0, 3), second.variable("b", 0, 3)
    sizes = len(first), len(second)
    with pytest.raises(GraphError, match=r"ADD: source 1 \(DEFINE_VAR\) belongs to another table"):
        _ = a + b
    with pytest.raises(GraphError, match="RESHAPE: a dim in arg belongs to another table"):
        second.make(Ops.RESHAPE, f32, (second.make(Ops.BUFFER, f32, (), 0),), (a,))
    assert (len(first), len(second)) == (sizes[0], sizes[1] + 1)  # the BUFFER, which is well-formed


def test_a_node_cannot_be_copied_out_of_its_table():
    node = Table().const(1)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(GraphError, match="cannot be copied or pickled"):
            attempt(node)


def test_order_sorts_compound_terms_from_outer_to_inner():
    with Table() as t:
        outer, inner, x = t.range(8, 0), t.range(8, 1), t.variable("x", 0, 9)
        apart, outside, inside = x.max(3), outer.max(3), inner.min(3) + x  # ADD would stand before MAX
        assert sorted([inside, outside, apart], key=lambda n: n.order) == [apart, outside, inside]


def test_order_sorts_ops_by_name():
    with Table() as t:
        x, y = t.variable("x", 0, 9), t.variable("y", 0, 9)
        product, difference = x * y, x.alu(Ops.SUB, y)
        assert Ops.SUB < Ops.MUL
        assert product.order < difference.order


def test_serials_are_a_topological_order():
    t = Table()
    for each in specimens(t):
        order = each.toposort()
        assert order[-1] is each
        seen: set[UOp] = set()
        for placed in order:
            assert seen.issuperset(placed.src)
            seen.add(placed)


def test_toposort_prunes_below_what_it_does_not_enter():
    t = Table()
    a = t.variable("a", 0, 3)
    inner = a * 2
    root = inner + 1
    assert root.toposort(lambda n: n is not inner) == [inner, t.const(1), root]


def test_nodes_stay_readable_after_close():
    with Table() as t:
        root = t.range(4, 0) + 1
    assert len(t) == 0
    assert root.src[0].op is Ops.RANGE
    assert [str(r.arg) for r in root.ranges] == ["L0"]


# -- depth and memory ------------------------------------------------------------------------------------------


def live() -> int:
    return sum(type(each) is UOp for each in gc.get_objects())


def test_a_long_chain_meets_no_recursion_limit_and_is_freed_at_once():
    limit = sys.getrecursionlimit()
    gc.collect()
    gc.disable()  # what goes must go by reference counting alone
    try:
        before = live()
        with Table() as t:
            r = t.range(8, 0)
            root = chain(t, 20_000) + r
            assert len(t) > 20_000
            assert len(root.key) == 16
            assert root.order
            assert root.ranges == {r}
            assert root.bounds is not None
            assert root.vmin < root.vmax
            assert print_graph(root).count("\n") > 20_000
            assert len(root.toposort()) == len(t)
            x = anything("x")
            one = Matcher("one", [rule(x + 1, -x)])
            for order in ("sources_first", "sink_first"):
                negations = [n.op for n in rewrite(root, one, order=order).toposort()].count(Ops.NEG)
                assert negations == math.ceil(20_000 / 7)
            del root, r
        del t
        assert live() == before
    finally:
        gc.enable()
    assert sys.getrecursionlimit() == limit


def test_nothing_of_a_closed_table_stays_alive():
    gc.collect()
    gc.disable()
    try:
        before = live()
        with Table() as t:
            for node in specimens(t):
                _ = node.key, node.order, node.ranges
            t.memos["somebody"] = {node: node for node in t}
            del node
        del t
        assert live() == before
    finally:
        gc.enable()


def test_no_global_keeps_a_node():
    gc.collect()
    before = live()
    t = Table()
    root = t.sink(*(t.make(Ops.NOOP, void, (n,)) for n in specimens(t)))
    x = anything("x")
    rewrite(root, Matcher("m", [rule(node(Ops.NEG, -x), x)]))
    del t, root
    gc.collect()  # without close() the cycle of nodes and table is for the collector
    assert live() == before


# -- ranges ----------------------------------------------------------------------------------------------------


class Loops:
    """Two ranges, a buffer, and a store in both."""

    def __init__(self) -> None:
        self.t = t = Table()
        self.outer, self.inner = t.range(8, 0), t.range(4, 1)
        self.buffer = t.param(0, f32, 32)
        self.place = t.make(Ops.INDEX, f32.ptr(32), (self.buffer, self.outer * 4 + self.inner))
        self.store = self.place.store(t.const(1.0, f32))


def test_a_range_is_open_in_itself_and_above():
    loops = Loops()
    assert loops.outer.ranges == {loops.outer}
    assert loops.store.ranges == {loops.outer, loops.inner}
    assert loops.buffer.ranges == frozenset()


def test_end_closes_the_ranges_it_lists():
    loops = Loops()
    assert loops.store.end(loops.inner).ranges == {loops.outer}
    assert loops.store.end(loops.inner).end(loops.outer).ranges == frozenset()
    assert loops.store.end(loops.outer, loops.inner).ranges == frozenset()


def test_reduce_and_bufferize_close_the_ranges_they_list():
    loops = Loops()
    value = loops.buffer.index(loops.outer * 4 + loops.inner)
    assert value.reduce(Ops.ADD, loops.inner).ranges == {loops.outer}
    kept = loops.t.make(Ops.BUFFERIZE, f32.ptr(4), (value, loops.inner), Bufferize())
    assert kept.ranges == {loops.outer}


def test_an_expression_that_is_closed_closes_all_its_ranges():
    loops = Loops()
    assert loops.store.end(loops.outer * 4 + loops.inner).ranges == frozenset()


def test_a_triangular_loop_keeps_the_outer_one_open():
    t = Table()
    outer = t.range(8, 0)
    inner = t.range(outer + 1, 1)
    store = t.make(Ops.INDEX, f32.ptr(64), (t.param(0, f32, 64), inner)).store(t.const(1.0, f32))
    assert store.ranges == {outer, inner}
    assert store.end(inner).ranges == {outer}


def test_a_loop_that_starts_inside_another_stays_inside_it():
    t = Table()
    outer = t.range(8, 0)
    inner = t.make(Ops.RANGE, index, (t.const(4), outer), Axis((1,), AxisType.LOOP))
    store = t.make(Ops.INDEX, f32.ptr(64), (t.param(0, f32, 64), t.const(0))).store(t.const(1.0, f32))
    assert store.end(inner).ranges == {outer}


def test_what_an_effect_has_closed_is_closed_after_it():
    loops = Loops()
    closed = loops.store.end(loops.inner)
    inside = loops.buffer.after(loops.inner)
    assert inside.ranges == {loops.inner}
    assert loops.buffer.after(closed).ranges == {loops.outer}
    assert inside.after(closed).ranges == {loops.outer}


def test_ranges_of_unrelated_branches_are_joined():
    loops = Loops()
    t, other = loops.t, loops.t.range(3, 2)
    one = loops.store.end(loops.inner)
    assert t.make(Ops.GROUP, void, (one, loops.place.store(other.cast(f32)))).ranges == {
        loops.outer,
        loops.inner,
        other,
    }


# -- making nodes ----------------------------------------------------------------------------------------------


def test_numbers_take_the_dtype_of_the_node_they_meet():
    t = Table()
    a = t.variable("a", 0, 3, i32)
    assert (2 * a).src[0] is t.const(2, i32)
    assert (5 - a) is t.const(5, i32) - a
    assert (a > 2) is (t.const(2, i32) < a)
    assert (2 < a) is (t.const(2, i32) < a)  # noqa: SIM300
    assert (a >= 2) is (t.const(2, i32) <= a)
    assert (a < 2).where(1, a).src[1] is t.const(1, i32)
    with pytest.raises(GraphError, match="one of the branches must be a UOp"):
        (a < 2).where(1, 2)
    with pytest.raises(GraphError, match="an operand must be a UOp or a number, not str"):
        _ = a + "1"  # type: ignore[arg-type]


def test_const_like_wraps_integers():
    t = Table()
    small = t.variable("a", 0, 3, dtypes.int8)
    assert small.const_like(200) is t.const(-56, dtypes.int8)
    assert t.const(0).const_like(2**70).arg == 2**70
    assert t.const(0, dtypes.uint8.vec(2)).const_like(-1) is t.const(255, dtypes.uint8.vec(2))


def test_cast_and_bitcast_to_the_same_dtype_are_the_node():
    t = Table()
    a = t.const(1, i32)
    assert a.cast(i32) is a
    assert a.bitcast(i32) is a
    assert a.cast(f32).dtype is f32
    assert t.const(1, i32.vec(4)).cast(f32).dtype is f32.vec(4)


def test_replace_changes_what_is_named():
    t = Table()
    a, b = t.variable("a", 0, 3), t.variable("b", 0, 3)
    assert (a + b).replace(op=Ops.MUL) is a * b
    assert (a + b).replace(src=(b, b)) is b + b
    assert t.range(4, 0).replace(arg=Axis((5,), AxisType.LOOP)) is t.range(4, 5)
    assert (a + b).replace() is a + b


def test_repr_is_one_short_line():
    t = Table()
    assert repr(chain(t, 1000)) == f"<ADD index #{len(t) - 1}, 2 sources>"


def test_remaking_is_making_over_other_sources() -> None:
    """What `make` gives, and what it refuses."""
    with Table() as t:
        a, b = t.variable("a", 0, 9), t.variable("b", 0, 9)
        total = a + b
        assert t.remake(total, (b, a)) is b + a
        assert t.remake(total, total.src) is total
        assert t.remake(t.const(3), ()) is t.const(3)
        wide = a.cast(dtypes.int64)
        with pytest.raises(GraphError, match="do not make"):  # another dtype: the law of the op is asked
            t.remake(total, (wide, b))
        with pytest.raises(GraphError, match="given 3 sources"):
            t.remake(total, (a, b, a))
        with Table() as other, pytest.raises(GraphError, match="belongs to another table"):
            t.remake(total, (other.variable("a", 0, 9), b))
        scan = t.make(
            Ops.SCAN, dtypes.float32.vec(4), (t.const(1.0, dtypes.float32.vec(4)), a, t.const(2)), Ops.ADD
        )
        with pytest.raises(GraphError, match="do not divide"):  # its law looks at a number
            t.remake(scan, (*scan.src[:2], t.const(3)))
