from __future__ import annotations

import pytest

from planish import dtypes
from planish.errors import RewriteError
from planish.ptir import ops
from planish.ptir.function import Function, Region
from planish.ptir.ops.definition import OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite.listener import ListenerGroup, combine
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import tensor
from tests.ptir.engine_helpers import F32, I64, Counter, assert_valid, const, names
from tests.ptir.test_engine_function import small, with_region


def test_reading_names():
    function = small()
    rw = ProgramRewriter(function)
    total, square = function
    assert rw.op(total) is ops.add
    assert rw.op_key(total) is OpKey.ELEMENTWISE_BINARY
    assert rw.op_key(ops.cast) is OpKey.CAST
    assert rw.operands(square) == (total.result, total.result)
    assert rw.values_of(square) == square.results
    assert rw.value_of(square) is square.result
    assert rw.type_of(total.result) == I64
    assert rw.inst_of(total.result) is total
    assert rw.inst_of(function.params[0]) is None
    assert rw.users_of(total.result) == [square]
    assert rw.literal_of(total.result) is None
    assert rw.attrs(total) is ops.NO_ATTRS


def test_replacing_uses_moves_every_use_and_counts_once():
    function = small()
    total, square = function
    counter = Counter()
    rw = ProgramRewriter(function, counter)
    rw.replace_all_uses(total.result, function.params[1])
    assert square.operands == (function.params[1],) * 2
    assert square.version == 1
    assert counter.counts == {"replaced": 1, "modified": 1}
    rw.erase_inst(total)
    assert counter.counts["erased"] == 1
    assert total.parent is None
    assert_valid(function)


def test_results_of_the_function_are_uses():
    function = small()
    _, square = function
    rw = ProgramRewriter(function)
    rw.replace_op(square, function.params[0])
    assert function.results == (function.params[0],)
    assert_valid(function)


@pytest.mark.parametrize("listened", [False, True])
def test_merging_keeps_the_earlier_instruction(listened):
    function = Function("f", [I64])
    x = function.params[0]
    body = function.body
    one, two = (body.append(ops.add, (x, x)) for _ in range(2))
    both = body.append(ops.mul, (one.result, two.result))
    body.set_results([both.result, two.result])
    counter = Counter()
    ProgramRewriter(function, counter if listened else None).merge(two, one)
    assert both.operands == (one.result, one.result)
    assert one.result.num_uses == 3
    assert x.num_uses == 2
    assert counter.counts == ({"replaced": 1, "modified": 2, "erased": 1} if listened else {})
    assert_valid(function)


def test_replacing_needs_equal_types_and_another_value():
    function = Function("f", [I64, F32])
    x, y = function.params
    function.body.set_results([x])
    rw = ProgramRewriter(function, pattern="Wrong")
    with pytest.raises(RewriteError, match=r"types differ \(pattern Wrong\)"):
        rw.replace_all_uses(x, y)
    with pytest.raises(RewriteError, match="by itself"):
        rw.replace_all_uses(x, x)


def test_erasing_needs_an_unused_living_instruction():
    function = small()
    total, square = function
    rw = ProgramRewriter(function)
    with pytest.raises(RewriteError, match="2 uses"):
        rw.erase_inst(total)
    rw.replace_op(square, function.params[0])
    with pytest.raises(RewriteError, match="erased already"):
        rw.erase_inst(square)
    with pytest.raises(RewriteError, match="end of a region"):
        rw.erase_inst(function.body.end)
    with pytest.raises(RewriteError, match="it is erased"):
        rw.insert_before(square, ops.neg, (function.params[0],))


def test_new_instructions_take_type_location_and_maker_from_their_surroundings():
    function = small()
    total, square = function
    rw = ProgramRewriter(function, pattern="Maker")
    inst = rw.insert_before(square, ops.neg, (total.result,))
    assert inst.result.type == I64
    assert inst.made_by == "Maker"
    assert inst.next is square
    after = rw.insert_after(square, ops.neg, (total.result,))
    assert square.next is after
    assert names(function) == ["add", "neg", "mul", "neg"]
    with pytest.raises(RewriteError, match="needs a root"):
        rw.emit(ops.neg, total.result)


def test_constants_are_shared_and_usable_everywhere():
    function = with_region()
    inner = next(inst for inst in function.walk() if inst.op is ops.add)
    rw = ProgramRewriter(function)
    one = rw.materialize_constant(inner, Literal.full(dtypes.int64, (), 1))
    again = rw.materialize_constant(function.body.end, Literal.full(dtypes.int64, (), 1))
    other = rw.splat(inner, I64, 2)
    assert one is again
    assert one is not other
    assert rw.dominates(one, inner)
    zero, minus = (rw.materialize_constant(inner, Literal.full(dtypes.float32, (), z)) for z in (0.0, -0.0))
    assert zero is not minus
    unused = other.def_inst
    assert unused is not None
    rw.erase_inst(unused)
    assert rw.splat(inner, I64, 2) is not other
    assert_valid(function)


def test_operands_and_attributes_change_in_place():
    function = Function("f", [I64, I64, F32])
    x, y, z = function.params
    inst = function.body.append(ops.sub, (x, y))
    cast = function.body.append(ops.cast, (z,), ops.CastAttrs(dtypes.float64))
    function.body.set_results([inst.result, cast.result])
    counter = Counter()
    rw = ProgramRewriter(function, counter)
    rw.set_operand(inst, 0, y)
    assert inst.operands == (y, y)
    assert y.num_uses == 2
    rw.set_operands(inst, (y, y))
    assert counter.counts == {"modified": 1}
    with pytest.raises(TypeError):
        rw.set_operand(inst, 0, z)
    with pytest.raises(RewriteError, match="change the result types"):
        rw.set_attrs(cast, ops.CastAttrs(dtypes.int32))
    assert cast.version == 0
    assert_valid(function)


def test_moving():
    function = small()
    total, square = function
    rw = ProgramRewriter(function)
    extra = rw.insert_before(function.body.end, ops.neg, (function.params[0],))
    rw.move_before(extra, total)
    assert names(function) == ["neg", "add", "mul"]
    rw.move_before(extra, total)
    assert extra.version == 1
    with pytest.raises(RewriteError, match="cannot move"):
        rw.move_before(function.body.end, square)
    assert_valid(function)


def test_dominance():
    function = with_region()
    step, limit, loop = function
    less, plus = (inst for inst in function.walk() if inst.op in (ops.lt, ops.add))
    rw = ProgramRewriter(function)
    assert rw.dominates(step.result, plus)
    assert rw.dominates(function.params[0], less)
    assert not rw.dominates(plus.result, less)
    assert not rw.dominates(plus.result, loop)
    assert not rw.dominates(loop.result, plus)
    assert rw.dominates(plus.operands[0], plus)
    assert not rw.dominates(limit.result, step)


def test_erasing_an_op_with_regions_frees_what_they_use():
    function = with_region()
    step, limit, loop = function
    rw = ProgramRewriter(function)
    rw.replace_op(loop, function.params[0])
    assert not step.result.users
    assert not limit.result.users
    assert_valid(function)


def test_inlining_a_region_copies_it():
    function = with_region()
    loop = function.body.last
    assert loop is not None
    rw = ProgramRewriter(function)
    results = rw.inline_before(loop.regions[1], loop, function.params)
    assert [r.def_inst.op for r in results if r.def_inst] == [ops.add]
    rw.replace_op(loop, *results)
    assert names(function) == ["constant", "constant", "add"]
    assert_valid(function)
    with pytest.raises(RewriteError, match="parameters got 0"):
        rw.inline_before(Region(function, [I64]), function.body.end, ())


def test_regions_move_to_a_replacement():
    function = with_region()
    loop = function.body.last
    assert loop is not None
    rw = ProgramRewriter(function)
    regions = rw.detach_regions(loop)
    fresh = rw.insert_before(loop, ops.while_, loop.operands, regions=regions)
    rw.replace_op(loop, *fresh.results)
    assert fresh.regions == regions
    assert_valid(function)


def test_dropping_region_parameters():
    function = with_region()
    region = rw_region = Region(function, [I64, I64])
    rw = ProgramRewriter(function)
    kept = region.args[1]
    rw_region.set_results([kept])
    rw.remove_region_arg(region, 0)
    assert region.args == (kept,)
    assert kept.index == 0
    with pytest.raises(RewriteError, match="it is used"):
        rw.remove_region_arg(region, 0)
    rw.set_region_results(region, [const(function.body, 1)])
    rw.remove_region_arg(region, 0)
    assert len(region.args) == 0


def test_failing_gives_a_reason_only_to_who_listens():
    function = small()
    inst = function.body.last
    assert inst is not None
    counter = Counter()
    assert ProgramRewriter(function).fail(inst, "no") is False
    assert ProgramRewriter(function, counter).fail(inst, "because") is False
    assert counter.reasons == ["because"]


def test_listeners_combine():
    one, two = Counter(), Counter()
    assert combine() is None
    assert combine(None, one) is one
    group = combine(one, None, two)
    assert isinstance(group, ListenerGroup)
    function = small()
    rw = ProgramRewriter(function, group)
    last = function.body.last
    assert last is not None
    rw.fail(last, "x")
    rw.replace_op(last, function.params[0])
    assert one.counts == two.counts == {"replaced": 1, "modified": 1, "erased": 1}
    assert one.reasons == two.reasons == ["x"]


def test_verify_reports():
    function = small()
    rw = ProgramRewriter(function)
    assert rw.verify()
    next(iter(function)).result.type = tensor("f64")
    assert not rw.verify()
    assert rw.problems()
