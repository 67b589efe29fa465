"""Loops that any thread of a warp may go through for the first: which they are, and which only look alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.llir.leading import Lead, leads_of
from planish.llir.makers import owners_of
from planish.llir.program import Compute, Immediate, Load, Ops, Program, Special, Store


@pytest.fixture(scope="module")
def program() -> Program:
    specs = pn.TensorSpec((500,), pn.int32), pn.TensorSpec((500,), pn.float32)
    traced = pn.jit(lambda i, x: pn.zeros((40,)).at[i].add(x)).lower(*specs).function
    (found,) = [each for each in compiler.lower(traced, "sm_90").programs if each.name.startswith("scatter")]
    return found


def lead_of(program: Program) -> Lead:
    (lead,) = leads_of(program).values()
    return lead


def changed(program: Program, old: Any, new: Any) -> Program:
    return replace(program, body=tuple(new if i is old else i for i in program.body))


def test_those_who_meet_read_and_store_in_turns(program: Program) -> None:
    """The element that is changed, what is made of it, and the store: nothing else waits."""
    lead, owners = lead_of(program), owners_of(program)
    assert [type(i) for i in lead.turn] == [Load, Compute, Store]
    assert owners[lead.turn[0].registers[0]] is owners[lead.store.address]
    assert not any(isinstance(i, Load) and owners[i.address] is owners[lead.store.address] for i in lead.free)
    assert lead.store.address not in {i.target for i in lead.turn}


@pytest.mark.parametrize("name", ["arg0", "arg1", "arg2"])
def test_memory_that_may_be_shared_is_left_alone(program: Program, name: str) -> None:
    assert leads_of(program, {name}) == {}


def test_a_warp_is_32_threads(program: Program) -> None:
    (thread,) = [i for i in program.specials if i.is_thread]
    assert isinstance(thread, Special)
    wider = changed(program, thread, replace(thread, bound=Immediate(64, thread.result.dtype)))
    assert leads_of(wider) == {}


def test_the_first_thread_alone_stores(program: Program) -> None:
    """A gate that lets two threads through is no sign of one that stands for all."""
    thread = lead_of(program).thread
    (gate,) = [
        i for i in program.body if isinstance(i, Compute) and i.op is Ops.CMPLT and i.inputs[0] == thread
    ]
    two = replace(gate, inputs=(thread, Immediate(2, thread.dtype)))
    assert leads_of(changed(program, gate, two)) == {}


def test_a_running_sum_on_the_way_is_one_threads_own() -> None:
    slopes = pn.grad(lambda x: pn.sum(pn.cumulative_max(x, axis=1) ** 2))
    traced = pn.jit(slopes).lower(pn.asarray(np.zeros((3, 70), np.float32))).function
    for each in compiler.lower(traced, "sm_90").programs:
        assert leads_of(each) == {}
