"""The verifier: each invariant is broken by surgery, and exactly that one is reported."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from planish import dtypes
from planish.errors import Location, VerifyError
from planish.ptir import ops, text
from planish.ptir.function import Function, Inst, Value
from planish.ptir.ops.definition import RETURN, ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.types import Dim, Quant, TensorType, tensor
from planish.ptir.verify import RULES, BrokenInvariant, problems, verify
from tests.ptir.generate import random_program
from tests.ptir.test_text import everything

F4 = tensor("f32", (4,))
BROKEN: dict[str, list[Callable[[Subject], object]]] = {}

SOURCE = """ptir 1
func @main<B in 1..64>(%x: tensor<f32, 4>, %y: tensor<f32, B>, %p: tensor<bool>) -> (tensor<f32, 4>, tensor<f32, B>) {
  %a = add %x, %x : tensor<f32, 4>
  %r = reduce_max %a {axes=[0], keepdims=true} : tensor<f32, 1>
  %b = broadcast_to %r {dims=[4]} : tensor<f32, 4>
  %c = cond %p : tensor<f32, 4> {
    %d = neg %a : tensor<f32, 4>
    return %d
  } {
    %e = abs %b : tensor<f32, 4>
    return %e
  }
  %i = constant 0 : tensor<i64>
  %w, %v = while %i, %c : tensor<i64>, tensor<f32, 4> (%j: tensor<i64>, %s: tensor<f32, 4>) {
    %l = lt %j, %i : tensor<bool>
    return %l
  } (%k: tensor<i64>, %t: tensor<f32, 4>) {
    %u = add %t, %a : tensor<f32, 4>
    return %k, %u
  }
  %n, %m = scan %v, %x {num_carries=1, length=4} : tensor<f32, 4>, tensor<f32, 4> (%o: tensor<f32, 4>, %q: tensor<f32>) {
    return %o, %q
  }
  %z = call @double %m : tensor<f32, 4>
  %g = neg %y : tensor<f32, B>
  return %z, %g
}
func @double(%x: tensor<f32, 4>) -> tensor<f32, 4> {
  %0 = add %x, %x : tensor<f32, 4>
  return %0
}
"""


class Subject:
    """A valid program with its parts by name."""

    def __init__(self) -> None:
        self.program = text.parse(SOURCE)
        self.main = self.program["main"]
        self.values: dict[str, Value] = {v.name: v for v in self.main.values() if v.name is not None}

    def inst(self, name: str) -> Inst:
        inst = self.values[name].def_inst
        assert inst is not None
        return inst


def breaks(rule: str):
    """Register a way to break a rule."""

    def register(surgery):
        BROKEN.setdefault(rule, []).append(surgery)
        return surgery

    return register


def test_the_subject_is_valid():
    verify(Subject().program)
    verify(everything())


@pytest.mark.parametrize("seed", range(200, 230))
def test_random_programs_are_valid(seed):
    assert problems(random_program(seed)) == []


# --- the structure ---


@breaks("links")
def _prev(s):
    s.inst("r").prev = s.inst("c")


@breaks("links")
def _parent(s):
    s.inst("r").parent = s.inst("c").regions[0]


@breaks("links")
def _order(s):
    s.inst("r").order = s.inst("a").order


@breaks("links")
def _count(s):
    s.main.body.count += 1


@breaks("links")
def _end_prev(s):
    s.main.body.end.prev = s.inst("z")


@breaks("links")
def _cycle(s):
    s.inst("d").next = s.inst("d")


@breaks("regions")
def _owner(s):
    s.inst("c").regions[0].owner = s.inst("w")


@breaks("regions")
def _function(s):
    s.inst("c").regions[0].function = s.program["double"]


@breaks("regions")
def _shared(s):
    cond = s.inst("c")
    cond.regions = (cond.regions[0], cond.regions[0])
    s.values["b"].users.clear()


@breaks("ids")
def _inst_twice(s):
    s.inst("r").id = s.inst("a").id


@breaks("ids")
def _inst_counter(s):
    s.inst("u").id = s.main._next_inst


@breaks("ids")
def _end_id(s):
    s.main.body.end.id = s.inst("a").id


@breaks("ids")
def _value_twice(s):
    s.values["t"].id = s.values["x"].id


@breaks("ids")
def _value_counter(s):
    s.main._next_value = s.values["g"].id


@breaks("definition")
def _def_inst(s):
    s.values["r"].def_inst = s.inst("a")


@breaks("definition")
def _index(s):
    s.values["v"].index = 0


@breaks("definition")
def _result_owner(s):
    s.values["v"].owner = s.main.body


@breaks("definition")
def _param_owner(s):
    s.values["k"].owner = s.main.body


@breaks("definition")
def _param_index(s):
    s.values["y"].index = 0


@breaks("definition")
def _twice(s):
    inst = s.inst("w")
    inst.results = (inst.results[0], s.values["c"])
    assert s.values["v"].users  # by the scan, which now uses what nothing defines
    scan = s.inst("n")
    scan.operands = (s.values["c"], s.values["x"])
    s.values["c"].users[scan] = 1
    s.values["v"].users.clear()


@breaks("uses")
def _missing_user(s):
    s.values["a"].users.pop(s.inst("r"))


@breaks("uses")
def _extra_user(s):
    s.values["p"].users[s.inst("r")] = 1


@breaks("uses")
def _count_of_uses(s):
    s.values["x"].users[s.inst("a")] = 1


@breaks("uses")
def _user_in_return(s):
    s.values["g"].users.clear()


@breaks("terminator")
def _end_op(s):
    s.main.body.end.op = ops.neg


@breaks("terminator")
def _end_parent(s):
    s.main.body.end.parent = None


@breaks("terminator")
def _return_inside(s):
    inst = s.main.body._create(RETURN, (), ops.NO_ATTRS, (), (), None)
    s.main.body._link(inst, s.inst("r"))


# --- the program ---


def rewire(inst: Inst, *operands: Value) -> None:
    """Change operands and keep the users right."""
    for value in inst.operands:
        value.users[inst] -= 1
        if not value.users[inst]:
            del value.users[inst]
    inst.operands = operands
    for value in operands:
        value.users[inst] = value.users.get(inst, 0) + 1


@breaks("dominance")
def _later(s):
    rewire(s.inst("a"), s.values["x"], s.values["b"])


@breaks("dominance")
def _itself(s):
    rewire(s.inst("a"), s.values["x"], s.values["a"])


@breaks("dominance")
def _own_result_inside(s):
    rewire(s.inst("d"), s.values["c"])


@breaks("visibility")
def _ended_region(s):
    rewire(s.inst("u"), s.values["t"], s.values["d"])


@breaks("visibility")
def _other_branch(s):
    rewire(s.inst("e"), s.values["d"])


@breaks("visibility")
def _foreign(s):
    foreign = s.program["double"].params[0]
    rewire(s.inst("a"), s.values["x"], foreign)
    foreign.users.pop(s.inst("a"))


@breaks("visibility")
def _erased(s):
    gone = s.inst("a").parent._create(ops.neg, (s.values["x"],), ops.NO_ATTRS, (), None, None)
    rewire(s.inst("r"), gone.results[0])
    s.values["x"].users.pop(gone)


@breaks("visibility")
def _returned(s):
    rewire(s.main.body.end, s.values["u"], s.values["g"])


@breaks("arity")
def _operands(s):
    rewire(s.inst("a"), s.values["x"])


@breaks("arity")
def _results(s):
    inst = s.inst("r")
    inst.results = (*inst.results, Value(s.main._take_value_id(), F4, inst, 1))


@breaks("arity")
def _regions(s):
    cond = s.inst("c")
    s.values["b"].users.clear()
    cond.regions = cond.regions[:1]


@breaks("attributes")
def _wrong_record(s):
    s.inst("r").attrs = ops.TransposeAttrs((0,))


@breaks("attributes")
def _wrong_field(s):
    s.inst("r").attrs = ops.ReduceAttrs([0], True)  # type: ignore[arg-type]


@breaks("attributes")
def _wrong_item(s):
    s.inst("r").attrs = ops.ReduceAttrs((0.0,), True)  # type: ignore[arg-type]


@breaks("attributes")
def _bool_for_int(s):
    s.inst("n").attrs = ops.ScanAttrs(True, 4)


@breaks("types")
def _result_type(s):
    s.values["m"].type = tensor("f64", (4,))
    s.inst("z").attrs = ops.CallAttrs("double", (F4,))
    rewire(s.inst("z"), s.values["x"])


@breaks("types")
def _inference_fails(s):
    s.inst("r").attrs = ops.ReduceAttrs((3,), True)


@breaks("types")
def _inference_crashes(s):
    def crash(types, attrs, regions):
        raise IndexError("oops")

    op = s.inst("r").op
    copy = object.__new__(type(op))
    for slot in type(op).__slots__:
        setattr(copy, slot, getattr(op, slot))
    copy.infer = crash
    s.inst("r").op = copy


@breaks("region-types")
def _cond_results(s):
    rewire(s.inst("c").regions[1].end, s.values["r"])


@breaks("region-types")
def _while_condition(s):
    rewire(s.inst("w").regions[0].end, s.values["s"])


@breaks("region-types")
def _while_params(s):
    rewire(s.inst("w"), s.values["p"], s.values["c"])


@breaks("region-types")
def _scan_carries(s):
    rewire(s.inst("n").regions[0].end, s.values["q"], s.values["q"])


@breaks("op")
def _op_verify(s):
    function = Function("binds", [TensorType(dtypes.float32, (Dim.named("K", 1, 4), 4)), tensor("i64")])
    attrs = ops.BindDimAttrs(1, "K", 1, 4)
    inst = function.body.append(ops.bind_dim, function.params, attrs)
    function.body.set_results(inst.results)
    s.program.add(function)


@breaks("element-type")
def _void(s):
    s.values["p"].type = TensorType(dtypes.void)
    rewire(s.inst("c"), constant_bool(s))


def constant_bool(s: Subject) -> Value:
    inst = s.main.body._create(
        ops.constant, (), ConstantAttrs(Literal(np.array(True))), (), (tensor("bool"),), None
    )
    s.main.body._link(inst, s.inst("a"))
    return inst.result


def quantised(s: Subject, type: TensorType) -> None:
    function = Function("quantised", [type])
    function.body.set_results(function.params)
    s.program.add(function)


@breaks("element-type")
def _storage(s):
    quantised(s, TensorType(dtypes.float32, (2,), Quant(dtypes.float32, (1.0,), (0,))))


@breaks("element-type")
def _expressed(s):
    quantised(s, TensorType(dtypes.int8, (2,), Quant(dtypes.int32, (1.0,), (0,))))


@breaks("element-type")
def _scales(s):
    quantised(s, TensorType(dtypes.int8, (2,), Quant(dtypes.float32, (1.0, 1.0, 1.0), (0, 0, 0), 0)))


@breaks("element-type")
def _scale_axis(s):
    quantised(s, TensorType(dtypes.int8, (2,), Quant(dtypes.float32, (1.0,), (0,), 1)))


@breaks("dims")
def _unknown(s):
    k = Dim.named("K", 1, 4)
    scalar = s.main.body.append(ops.reduce_sum, (s.values["a"],), ops.ReduceAttrs((0,)))
    s.main.body.append(
        ops.broadcast_to, scalar.results, ops.BroadcastToAttrs((k,)), types=(tensor("f32", (k,)),)
    )


@breaks("dims")
def _two_bounds(s):
    function = Function(
        "bounds", [tensor("f32", (Dim.named("B", 1, 4),)), tensor("f32", (Dim.named("B", 1, 8),))]
    )
    function.body.set_results(function.params)
    s.program.add(function)


@breaks("dims")
def _attribute_only(s):
    k = Dim.named("K", 0, 0)
    attrs = ops.SliceAttrs((k,), (4,), (1,))
    types = ops.slice_.result_types([F4], ops.SliceAttrs((0,), (4,), (1,)))
    inst = s.main.body.append(ops.slice_, (s.values["a"],), attrs, types=types)
    inferred = ops.slice_.result_types([F4], attrs)
    inst.results[0].type = inferred[0]


@breaks("dims")
def _bound_inside(s):
    """A size bound inside a region is not known behind it."""
    k = Dim.named("K", 0, 4)
    region = s.inst("c").regions[0]
    inst = region._create(
        ops.bind_dim, (s.values["a"], s.values["i"]), ops.BindDimAttrs(0, "K", 0, 4), (), None, None
    )
    region._link(inst, region.end)
    # The constant count has to come first.
    s.main.body._unlink(s.inst("i"))
    s.main.body._link(s.inst("i"), s.inst("a"))
    s.main.body.append(ops.iota, (), ops.IotaAttrs(dtypes.int32, (k,), 0))


@breaks("calls")
def _no_callee(s):
    s.inst("z").attrs = ops.CallAttrs("nobody", (F4,))


@breaks("calls")
def _argument_types(s):
    rewire(s.inst("z"), s.values["r"])


@breaks("calls")
def _argument_count(s):
    rewire(s.inst("z"))


@breaks("calls")
def _result_types(s):
    other = tensor("f64", (4,))
    s.inst("z").attrs = ops.CallAttrs("double", (other,))
    s.values["z"].type = other


@breaks("calls")
def _bounds(s):
    narrow = Function("narrow", [tensor("f32", (Dim.named("N", 1, 3),))])
    narrow.body.set_results(narrow.params)
    s.program.add(narrow)
    s.inst("z").attrs = ops.CallAttrs("narrow", (F4,))


@breaks("functions")
def _wrong_key(s):
    s.program.functions["other"] = s.program.functions.pop("double")
    s.inst("z").attrs = ops.CallAttrs("other", (F4,))


@breaks("functions")
def _no_entry(s):
    s.program.entry_name = "nobody"


@pytest.mark.parametrize(
    ("rule", "surgery"),
    [
        pytest.param(rule, s, id=f"{rule}-{s.__name__.strip('_')}")
        for rule, all in BROKEN.items()
        for s in all
    ],
)
def test_each_rule_is_reported_alone(rule, surgery):
    subject = Subject()
    surgery(subject)
    found = problems(subject.program)
    assert {problem.rule for problem in found} == {rule}, [str(p) for p in found]
    with pytest.raises(VerifyError) as caught:
        verify(subject.program)
    assert len(caught.value.problems) == len(found)
    assert f"{rule}: " in caught.value.problems[0]


def test_every_rule_is_documented_and_broken_here():
    documentation = sys.modules[verify.__module__].__doc__ or ""
    assert set(BROKEN) == set(RULES)
    for rule in RULES:
        assert f"- `{rule}`: " in documentation


# --- what an error shows ---


def test_all_problems_are_listed_under_their_lines():
    s = Subject()
    s.values["a"].type = tensor("f32", (5,))
    s.values["l"].users.clear()
    with pytest.raises(VerifyError) as caught:
        verify(s.main)
    error = caught.value
    assert str(error).startswith("function @main breaks rules in ")
    (window,) = error.__notes__
    lines = window.splitlines()
    at = next(i for i, line in enumerate(lines) if "%a = add" in line)
    assert lines[at] == "   2 |   %a = add %x, %x : tensor<f32, 5>"
    assert lines[at + 1] == "     |   ^ types: add gives tensor<f32, 4>, not tensor<f32, 5>"
    at = next(i for i, line in enumerate(lines) if "%l = lt" in line)
    assert lines[at + 1].startswith("     |     ^ uses: %l lists as users nobody, not ")
    assert "  ..." in lines


def test_the_location_of_the_user_is_named():
    s = Subject()
    s.inst("a").loc = Location("model.py", 12)
    s.values["a"].type = tensor("f32", (5,))
    found = problems(s.main)
    assert "at model.py:12" in str(found[0])
    with pytest.raises(VerifyError, match=r"model\.py:12"):
        verify(s.program)


def test_attributes_that_cannot_print_still_show():
    s = Subject()
    s.inst("r").attrs = ops.ReduceAttrs(None, True)  # type: ignore[arg-type]
    with pytest.raises(VerifyError) as caught:
        verify(s.program)
    assert "{ReduceAttrs(axes=None, keepdims=True)}" in caught.value.__notes__[0]
    assert "^ attributes: axes cannot be None" in caught.value.__notes__[0]


def test_broken_links_are_reported_without_a_window():
    s = Subject()
    s.inst("d").next = s.inst("d")
    with pytest.raises(VerifyError, match="links: ") as caught:
        verify(s.program)
    assert not hasattr(caught.value, "__notes__")


def test_a_function_alone_may_call_what_is_not_there():
    s = Subject()
    s.inst("z").attrs = ops.CallAttrs("nobody", (F4,))
    assert problems(s.main) == []
    assert [p.rule for p in problems(s.program)] == ["calls"]


def test_problems_are_data():
    s = Subject()
    s.values["a"].type = tensor("f32", (5,))
    first = problems(s.main)[0]
    assert isinstance(first, BrokenInvariant)
    assert (first.rule, first.function, first.inst) == ("types", s.main, s.inst("a"))


def test_the_walk_is_linear_and_does_not_recurse():
    f = Function("long", [tensor("i64")])
    value = f.params[0]
    for _ in range(20_000):
        value = f.body.append(ops.add, (value, value)).result
    f.body.set_results([value])
    assert problems(f) == []
