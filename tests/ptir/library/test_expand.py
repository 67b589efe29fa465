"""The pass `expand`: the table of ways is complete, programs with composites anywhere keep their results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from planish import ptir
from planish.ptir import interpret
from planish.ptir.library import COMPOSITES, classes
from planish.ptir.library.expansions import EXPANSIONS
from planish.ptir.ops.definition import REGISTRY
from planish.ptir.passes.expand import ExpandPass
from tests.ptir.generate import programs, random_inputs, random_program
from tests.ptir.library.expanding import expanded, function_of, same_bits


def test_every_op_has_one_way():
    assert classes.unplaced() == []
    parts = {"complex", "real", "imag", "conj"}
    assert EXPANSIONS.keys() | parts == COMPOSITES
    assert {name for name, way in classes.WAYS.items() if way is classes.Way.HOST} == {
        op.name for op in REGISTRY.values() if op.host
    }


def test_an_op_that_is_forgotten_is_found(monkeypatch):
    monkeypatch.delitem(classes.WAYS, "sort")
    monkeypatch.setitem(classes.WAYS, "fft", classes.Way.DIRECT)
    assert classes.unplaced() == ["sort", "fft"]


def check(program: ptir.Program, seed: int) -> None:
    copy = expanded(program)
    inputs = random_inputs(program, seed)
    same_bits(interpret(program, inputs), interpret(copy, inputs))


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed):
    check(random_program(seed, size=20), seed)


@given(programs(size=15))
def test_drawn_programs(program):
    check(program, 0)


@pytest.mark.fuzz
@hypothesis_settings(max_examples=2000, deadline=None)
@given(programs(size=30))
def test_many_drawn_programs(program):
    check(program, 1)


def test_composites_inside_regions():
    def build(x, n):
        graph = x.graph

        def body(step, held):
            best, where = held.top_k(40, 0)
            return step.add(1), best.add(where.cast("f32")).sort(0)

        _, looped = graph.while_loop(lambda step, held: step.lt(n), body, graph.constant(0), x)
        (chosen,) = graph.cond(n.gt(2), lambda: looped.unique()[0], lambda: looped.sort(0, True))
        return looped, chosen

    types = [ptir.tensor("f32", (40,)), ptir.tensor("i64")]
    function = function_of(types, build)
    program = expanded(function)
    x = np.random.default_rng(0).integers(0, 9, 40).astype(np.float32)
    for steps in (0, 1, 4):
        same_bits(interpret(function, [x, np.asarray(steps)]), interpret(program, [x, np.asarray(steps)]))


def test_statistics_and_options():
    function = function_of([ptir.tensor("f32", (8,))], lambda x: [x.sort(), *x.top_k(2), x.sort().sort()])
    some, every = ptir.Program([function.clone()]), ptir.Program([function.clone()])
    result = ExpandPass(only=("top_k",)).run(some)
    assert result.statistics == {"expanded": 1, "op.top_k": 1}
    assert ExpandPass().run(every).statistics == {"expanded": 4, "op.sort": 3, "op.top_k": 1}
    again = ExpandPass().run(every)
    assert not again.changed
    assert again.statistics == {"expanded": 0}


def test_the_pipeline_knows_it():
    manager = ptir.PassManager.parse("expand{only=sort,top_k},canonicalize,cse,dce")
    assert str(manager) == "expand{only=sort,top_k},canonicalize,cse,dce"


@pytest.mark.parametrize("seed", range(30))
def test_what_it_makes_optimises(seed):
    program = random_program(seed, size=12)
    copy = expanded(program)
    ptir.PassManager.parse("canonicalize,cse,dce").run(copy)
    ptir.verify(copy)
    inputs = random_inputs(program, seed)
    same_bits(interpret(program, inputs), interpret(copy, inputs))


def test_every_change_is_told_and_located():
    function = function_of([ptir.tensor("f32", (100,))], lambda x: x.sort())
    where = next(iter(function)).loc
    program = ptir.Program([function])
    log = ptir.StepLog()
    ptir.PassManager([ExpandPass()], listener=log).run(program)
    assert all(inst.loc == where and inst.made_by == "expand" for inst in function.walk())
