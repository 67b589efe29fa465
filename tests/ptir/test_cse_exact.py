"""Sharing merges only what is the same to the last bit, and keeps the lines of all it merges."""

from __future__ import annotations

import math

import pytest

from planish import dtypes
from planish.errors import Location
from planish.ptir import json, ops, text
from planish.ptir.exact import exact_key, same_attrs, same_quant
from planish.ptir.function import Function, Program, Region
from planish.ptir.locations import MAX_LOCATIONS, FusedLocation, all_locations, fuse
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.passes import CSEPass
from planish.ptir.passes.cse import share_equal
from planish.ptir.passes.manager import PassContext
from planish.ptir.rewrite.checks import fingerprint
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import Quant, tensor
from tests.ptir.engine_helpers import I64, Counter

CONFIGS = (True, 1, 1.0, 0, False, 0.0, -0.0, "1")


def configured(value: bool | int | float | str) -> ops.CustomCallAttrs:
    return ops.CustomCallAttrs("f", (I64,), config=(("c", value),))


def quant(scale: float) -> Quant:
    return Quant(dtypes.float32, (scale,), (0,))


def test_equal_is_not_the_same():
    for left in CONFIGS:
        for right in CONFIGS:
            same = type(left) is type(right) and repr(left) == repr(right)
            assert same_attrs(configured(left), configured(right)) is same
            assert (exact_key(configured(left)) == exact_key(configured(right))) is same
    nan = math.nan
    assert same_attrs(configured(nan), configured(nan))
    assert same_quant(quant(0.0), quant(0.0))
    assert not same_quant(quant(0.0), quant(-0.0))
    assert not same_quant(quant(0.0), None)
    assert same_quant(None, None)


def test_records_without_floats_are_their_own_key():
    for attrs in (ops.TransposeAttrs((1, 0)), ops.CastAttrs(dtypes.float32), ops.ScatterAttrs((0,))):
        assert exact_key(attrs) is attrs
    plain = ConstantAttrs(Literal.full(dtypes.float32, (4,), -0.0))
    assert exact_key(plain) is plain


@pytest.mark.parametrize("nested", [False, True])
def test_calls_with_equal_but_different_configs_stay_apart(nested):
    function = Function("f", [tensor("bool"), I64])
    flag, x = function.params
    results = []
    for value in (*CONFIGS, 1.0):
        if nested:
            regions = [Region(function), Region(function)]
            for region in regions:
                region.set_results([region.append(ops.custom_call, (x,), configured(value)).result])
            results.append(function.body.append(ops.cond, (flag,), regions=regions).result)
        else:
            results.append(function.body.append(ops.custom_call, (x,), configured(value)).result)
    function.body.set_results(results)
    assert share_equal(function) == 1
    assert len(set(function.results)) == len(CONFIGS)
    assert function.results[2] is function.results[-1]


def test_quantisations_with_zeros_of_two_signs_stay_apart():
    literal = Literal.full(dtypes.int8, (), 3)
    function = Function("f")
    constants = [
        function.body.append(ops.constant, (), ConstantAttrs(literal, quant(scale))).result
        for scale in (0.0, -0.0, 0.0)
    ]
    function.body.set_results(constants)
    assert share_equal(function) == 1
    rw = ProgramRewriter(function)
    assert function.body.first is not None
    made = [rw.materialize_constant(function.body.first, literal, quant(scale)) for scale in (0.0, -0.0)]
    assert [repr(value.type.quant) for value in made] == [repr(quant(0.0)), repr(quant(-0.0))]


def test_a_change_to_an_equal_is_a_change():
    function = Function("f", [I64])
    inst = function.body.append(ops.custom_call, function.params, configured(1))
    function.body.set_results(inst.results)
    before = fingerprint(inst)
    rw = ProgramRewriter(function)
    rw.set_attrs(inst, configured(1))
    assert rw.changes == 0
    rw.set_attrs(inst, configured(True))
    assert rw.changes == 1
    assert repr(inst.attrs) == repr(configured(True))
    assert fingerprint(inst) != before


# Locations.


def at(line: int) -> Location:
    return Location("model.py", line)


def test_locations_fuse_up_to_a_bound():
    assert fuse(None, None) is None
    assert fuse(None, at(1)) == fuse(at(1), None) == at(1)
    assert fuse(at(1), at(1)) == at(1)
    both = fuse(at(1), at(2))
    assert isinstance(both, FusedLocation)
    assert str(both) == "model.py:1 (and model.py:2)"
    assert all_locations(both) == (at(1), at(2))
    assert fuse(both, at(2)) is both
    assert fuse(at(2), both) == FusedLocation("model.py", 2, others=(at(1),))
    many = at(0)
    for line in range(1, 9):
        fused = fuse(many, at(line))
        assert fused is not None
        many = fused
    assert all_locations(many) == tuple(at(line) for line in range(MAX_LOCATIONS))


@pytest.mark.parametrize("listener", [None, Counter()])
def test_what_is_shared_comes_from_the_lines_of_all(listener):
    function = Function("f", [I64, I64])
    sums = [function.body.append(ops.add, function.params, loc=at(line)).result for line in (3, 5, 3, 9)]
    function.body.set_results(sums)
    program = Program([function])
    CSEPass().run(program, PassContext(listener))
    [inst] = function
    assert all_locations(inst.loc) == (at(3), at(5), at(9))
    # The text and JSON forms keep the first line.
    for again in (text.parse(text.print(program, locations=True)), json.loads(json.dumps(program))):
        assert next(iter(again.entry)).loc == at(3)
