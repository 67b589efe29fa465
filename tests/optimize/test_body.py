"""The body of a loop: what it takes moves the right way with everything in it, on every machine."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.optimize.body import Body, copying, multiplying, overlapped
from planish.target import TARGETS, Target
from planish.target.calibration import RATES

V4 = TARGETS["x86-64-v4"]
amounts = st.floats(0, 64)
bodies = st.builds(Body, *(amounts for _ in Body._fields))
machines = st.sampled_from([*TARGETS.values()])


@given(bodies, st.sampled_from(Body._fields), st.floats(0, 32), machines)
def test_more_of_anything_never_takes_less(body: Body, name: str, more: float, target: Target) -> None:
    longer = body._replace(**{name: getattr(body, name) + more})
    assert longer.cycles(target) >= body.cycles(target)


@given(bodies, bodies, machines)
def test_two_bodies_take_no_less_than_either_and_no_more_than_one_after_the_other(
    one: Body, other: Body, target: Target
) -> None:
    both = one.plus(other).cycles(target)
    assert both >= max(one.cycles(target), other.cycles(target)) - 1e-9
    assert both <= one.cycles(target) + other.cycles(target) + 1e-9


@given(bodies, st.sampled_from([name for name in RATES if name not in {"gathers", "latency", "launch"}]))
def test_a_machine_that_starts_more_is_never_slower(body: Body, name: str) -> None:
    wider = replace(V4, **{name: 2 * getattr(V4, name)})
    assert body.cycles(wider) <= body.cycles(V4)


def test_what_bounds_is_seen_whole_and_the_rest_in_part() -> None:
    assert overlapped(V4, 4.0, 0.0) == 4.0
    assert 4.0 < overlapped(V4, 4.0, 3.0) < overlapped(V4, 4.0, 4.0) < 8.0


def test_multiplications_have_ports_of_their_own() -> None:
    half = replace(V4, multiplies=1.0)
    assert Body(multiplies=8).compute(half) == 8.0
    assert Body(operations=8).compute(half) == Body(multiplies=4, operations=4).compute(half) == 4.0


def test_a_sum_with_few_accumulators_waits() -> None:
    few, many = (Body(operations=n, chain=V4.latency) for n in (1, 16))
    assert few.cycles(V4) >= V4.latency
    assert many.cycles(V4) / 16 < few.cycles(V4) / 4


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_copies_take_longer_the_farther_and_the_more_turned(target: Target) -> None:
    near, far = (copying(target, count) / count for count in (1 << 10, 1 << 26))
    assert 0 < near <= far
    assert copying(target, 1 << 10, turned=True) >= copying(target, 1 << 10)
    assert copying(target, 0) == 0.0
    assert multiplying(target, 2 << 20) == 2 * multiplying(target, 1 << 20) > 0


def test_every_number_of_a_machine_that_is_measured_has_a_unit() -> None:
    known = {field.name for field in fields(Target)}
    assert {*RATES, "bytes_per_cycle", "branches", "spills", "memory_cores"} <= known
