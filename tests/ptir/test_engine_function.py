from __future__ import annotations

import itertools
import random

import pytest

from planish.errors import GraphError
from planish.ptir import ops
from planish.ptir.function import Function, Program, Region
from planish.ptir.rewrite.rewriter import ProgramRewriter
from tests.ptir.engine_helpers import F32, I64, assert_valid, build, const, names


def small() -> Function:
    function = Function("f", [I64, I64], ["x", "y"])
    x, y = function.params
    total = function.body.append(ops.add, (x, y)).result
    square = function.body.append(ops.mul, (total, total)).result
    function.body.set_results([square])
    return function


def with_region() -> Function:
    """while x < 10: x = x + step, with `step` seen from outside."""
    function = Function("f", [I64])
    step = const(function.body, 3)
    limit = const(function.body, 10)
    condition = Region(function, [I64])
    condition.set_results([condition.append(ops.lt, (condition.args[0], limit)).result])
    body = Region(function, [I64])
    body.set_results([body.append(ops.add, (body.args[0], step)).result])
    loop = function.body.append(ops.while_, function.params, regions=(condition, body))
    function.body.set_results(loop.results)
    return function


def test_users_count_every_operand_and_results_too():
    function = small()
    x, _ = function.params
    total, square = (inst.result for inst in function)
    assert x.num_uses == 1
    assert x.has_one_use
    assert total.num_uses == 2
    assert not total.has_one_use
    assert square.has_one_use
    assert list(square.users) == [function.body.end]
    assert function.results == (square,)
    assert_valid(function)


def test_values_seen_from_regions_count_as_used():
    function = with_region()
    step = next(iter(function)).result
    assert step.num_uses == 1
    assert [inst.op.name for inst in function.walk()] == ["constant", "constant", "while", "lt", "add"]
    assert len(function) == 3
    assert_valid(function)


def test_a_clone_is_equal_and_independent():
    for function in (small(), with_region(), build("mixed", 200)):
        copy = function.clone()
        assert [i.id for i in copy.walk()] == [i.id for i in function.walk()]
        assert [repr(i) for i in copy.walk()] == [repr(i) for i in function.walk()]
        assert [v.id for v in copy.values()] == [v.id for v in function.values()]
        assert_valid(copy)
        before = [repr(i) for i in function.walk()]
        rw = ProgramRewriter(copy)
        last = copy.body.last
        assert last is not None
        fresh = rw.insert_before(last, ops.add, (copy.params[0], copy.params[0]))
        assert fresh.id not in {inst.id for inst in function.walk()}
        assert [repr(i) for i in function.walk()] == before


def test_order_labels_stay_right_under_any_insertions():
    random_source = random.Random(5)
    function = Function("f", [I64])
    x = function.params[0]
    function.body.set_results([x])
    rw = ProgramRewriter(function)
    insts = [function.body.append(ops.neg, (x,))]
    modes = [
        lambda: insts[0],
        lambda: insts[-1],
        lambda: random_source.choice(insts),
        lambda: function.body.end,
    ]
    for _ in range(2000):
        at = modes[random_source.randrange(4)]()
        inst = rw.insert_before(at, ops.neg, (x,))
        insts.insert(len(insts) if at is function.body.end else insts.index(at), inst)
    # Always before the newest one: the pattern that exhausts the room between two labels fastest.
    for _ in range(500):
        insts.insert(5, rw.insert_before(insts[5], ops.neg, (x,)))
    assert list(function) == insts
    orders = [inst.order for inst in insts]
    assert all(a < b for a, b in itertools.pairwise(orders))
    assert_valid(function)


def test_iteration_allows_erasing():
    function = build("clean", 50)
    rw = ProgramRewriter(function)
    function.body.set_results([function.params[0]])
    for inst in reversed(function):
        rw.erase_inst(inst)
    assert len(function) == 0
    assert function.body.first is None
    assert_valid(function)


def test_misbuilt_instructions_are_refused():
    function = Function("f", [I64, F32])
    x, y = function.params
    with pytest.raises(GraphError, match="takes 2 operands"):
        function.body.append(ops.add, (x,))
    with pytest.raises(GraphError, match="takes NoAttrs"):
        function.body.append(ops.add, (x, x), ops.CastAttrs(F32.dtype))
    with pytest.raises(TypeError):
        function.body.append(ops.add, (x, y))
    with pytest.raises(GraphError, match="takes 2 regions"):
        function.body.append(ops.while_, (x,))
    assert x.num_uses == 0


def test_programs():
    program = Program([small()])
    assert program.entry.name == "f"
    with pytest.raises(GraphError, match="already has"):
        program.add(small())
    with pytest.raises(GraphError, match="no function 'g'"):
        program["g"]
    assert program.clone()["f"] is not program["f"]
    with pytest.raises(GraphError, match="not among"):
        Program([small()], entry="g")


def test_names():
    assert names(small()) == ["add", "mul"]
