"""Collectives under way: a plan starts them when what they send is there, waits where they are needed, and computes nothing twice for them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

import planish as pn
from planish import compiler, ptir
from planish.compiler.executable import flops_of
from planish.schedule.collectives import collectives_in
from planish.schedule.overlap import TICKETS
from planish.schedule.plan import Host, Launch, Step, Wait, walk

MESH = (("data", 2),)
WIDE = 192  # gradients of its layers are too large to wait for each other
LAYERS = 3


def training_step() -> ptir.Function:
    mesh = pn.Mesh((2,), ("data",))

    def loss(weights: list[Any], x: Any) -> Any:
        for w in weights:
            x = pn.tanh(x @ w)
        return pn.mean(x**2)

    def step(weights: list[Any], x: Any) -> Any:
        value, slopes = pn.value_and_grad(loss)(weights, x)
        return value, [w - 0.1 * slope for w, slope in zip(weights, slopes, strict=True)]

    weights = [np.zeros((WIDE, WIDE), np.float32)] * LAYERS
    specs = (pn.P(), pn.P("data"))
    made = pn.jit(step, mesh=mesh, in_shardings=specs, out_shardings=(pn.P(), pn.P()))
    return cast("ptir.Function", made.lower(weights, np.zeros((64, WIDE), np.float32)))


def started(steps: tuple[Step, ...]) -> dict[int, int]:
    """The kernels between the start and the wait of each collective, by ticket."""
    found: dict[int, int] = {}
    under_way: dict[int, int] = {}
    launches = 0
    for step in steps:
        launches += isinstance(step, Launch)
        if isinstance(step, Host) and step.call is not None and step.call.name == "collective":
            ticket = step.call.integers[-1]
            if isinstance(ticket, int) and ticket:
                assert ticket not in under_way
                under_way[ticket] = launches
        if isinstance(step, Wait):
            found[step.ticket] = launches - under_way.pop(step.ticket)
    assert not under_way
    return found


def flops(lowered: compiler.Lowered) -> int:
    launches = [step.kernel for step in walk(lowered.plan.steps) if isinstance(step, Launch)]
    return sum(flops_of(lowered.programs[kernel]) for kernel in launches)


def test_gradients_travel_while_the_layers_before_are_computed() -> None:
    lowered = compiler.lower(training_step())
    reductions = [step for step in collectives_in(lowered.plan) if step.op.name == "all_reduce"]
    assert len(reductions) == LAYERS + 1  # the loss is one of its own
    between = started(lowered.plan.steps)
    assert len(between) >= LAYERS - 1
    # the last layer's gradient is the first, and has the others' backward passes for itself
    assert max(between.values()) >= 2 * (LAYERS - 1)


def test_nothing_is_computed_twice_because_ranks_meet() -> None:
    """The products of a step: two in each layer backwards (one in the first), one forwards."""
    lowered = compiler.lower(training_step())
    products = 2 * 32 * WIDE * WIDE
    least = products * (3 * LAYERS - 1)
    assert least <= flops(lowered) < 1.2 * least  # and some for tanh


def test_what_is_sent_is_not_written_over_before_it_is_there() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (16, 16)))
    got = (x @ x).all_reduce(MESH, ("data",))
    other = x
    for _ in range(4):
        other = (other @ x).sin()
    lowered = compiler.lower(graph.build(got + 1.0, other.all_reduce(MESH, ("data",))))
    start, _ = collectives_in(lowered.plan)
    wait = next(step for step in lowered.plan.steps if isinstance(step, Wait))
    assert wait.buffers == (*start.inputs, *start.outputs)
    places = lowered.memory
    spans = [(places.offsets[b], places.offsets[b] + 1024) for b in wait.buffers if b in places.offsets]
    begin, end = lowered.plan.steps.index(start), lowered.plan.steps.index(wait)
    between = {
        b for step in lowered.plan.steps[begin + 1 : end] if isinstance(step, Launch) for b in step.buffers
    }
    assert between
    for buffer in between & places.offsets.keys() - set(wait.buffers):
        home = places.offsets[buffer]
        assert all(home >= high or home + 1024 <= low for low, high in spans)


def test_a_collective_of_a_collective_lets_others_work_first() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (32, 32)))
    chained = (x + 1.0).all_reduce(MESH, ("data",)).all_gather(MESH, ("data",), 0)
    other = x
    for _ in range(3):
        other = (other @ x).sin()
    lowered = compiler.lower(graph.build(chained, other.all_reduce(MESH, ("data",))))
    assert max(started(lowered.plan.steps).values()) >= 3


def test_more_collectives_than_tickets_still_run() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (8,)))
    sums = [(x * float(n)).all_reduce(MESH, ("data",), "max") for n in range(TICKETS + 8)]
    lowered = compiler.lower(graph.build(*sums))
    tickets = started(lowered.plan.steps)
    assert len(collectives_in(lowered.plan)) == TICKETS + 8
    assert max(tickets, default=0) < TICKETS
