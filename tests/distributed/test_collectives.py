"""Collectives on virtual ranks: what they compute, what is refused, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from planish import ptir
from planish.errors import GraphError, PlanishError
from planish.frontend.autodiff import jvp, vjp
from planish.ptir import interpret_ranks, ops
from planish.ptir.ops.collective import groups_of, place_of

MESH = (("data", 2), ("model", 3))
RANKS = 6


def build(make, *shapes, dtype="f64"):
    g = ptir.Graph("f")
    inputs = [g.input(f"a{n}", ptir.tensor(dtype, shape)) for n, shape in enumerate(shapes)]
    made = make(g, *inputs)
    return g.build(*(made if isinstance(made, tuple) else (made,)))


def run(make, arrays):
    """One input per rank."""
    function = build(make, arrays[0].shape, dtype="f64" if arrays[0].dtype == np.float64 else "i64")
    text = ptir.print(function)
    assert ptir.print(ptir.parse(text)) == text
    program = ptir.Program([function])
    assert ptir.print(ptir.from_json(ptir.to_json(program))) == text
    ptir.verify(program)
    return [results[0] for results in interpret_ranks(function, [[array] for array in arrays])]


def numbered(*shape):
    size = int(np.prod(shape))
    return [np.arange(size, dtype=np.int64).reshape(shape) + 100 * rank for rank in range(RANKS)]


def test_groups_and_places():
    assert groups_of(MESH, ["model"]) == [[0, 1, 2], [3, 4, 5]]
    assert groups_of(MESH, ["data"]) == [[0, 3], [1, 4], [2, 5]]
    assert groups_of(MESH, ["model", "data"]) == [[0, 3, 1, 4, 2, 5]]
    assert groups_of(MESH, []) == [[rank] for rank in range(RANKS)]
    assert [place_of(MESH, ["model"], rank) for rank in range(RANKS)] == [0, 1, 2, 0, 1, 2]


def test_what_each_computes():
    x = numbered(3, 2)
    rows = [x[:3], x[3:]]
    for rank, got in enumerate(run(lambda g, a: a.all_reduce(MESH, ["model"]), x)):
        np.testing.assert_array_equal(got, sum(rows[rank // 3]))
    for rank, got in enumerate(run(lambda g, a: a.all_reduce(MESH, ["data"], "max"), x)):
        np.testing.assert_array_equal(got, x[3 + rank % 3])
    for rank, got in enumerate(run(lambda g, a: a.all_gather(MESH, ["model"], 1), x)):
        np.testing.assert_array_equal(got, np.concatenate(rows[rank // 3], 1))
    for rank, got in enumerate(run(lambda g, a: a.reduce_scatter(MESH, ["model"], 0), x)):
        np.testing.assert_array_equal(got, sum(rows[rank // 3])[rank % 3 : rank % 3 + 1])
    for rank, got in enumerate(run(lambda g, a: a.all_to_all(MESH, ["model"], 0, 1), x)):
        part = slice(rank % 3, rank % 3 + 1)
        np.testing.assert_array_equal(got, np.concatenate([own[part] for own in rows[rank // 3]], 1))
    ring = [(0, 1), (1, 2)]
    for rank, got in enumerate(run(lambda g, a: a.permute(MESH, ["model"], ring), x)):
        np.testing.assert_array_equal(got, x[rank - 1] if rank % 3 else 0 * x[0])
    for rank, got in enumerate(run(lambda g, a: a.broadcast(MESH, ["data", "model"], 4), x)):
        np.testing.assert_array_equal(got, x[4], str(rank))
    for rank, got in enumerate(run(lambda g, a: g.mesh_index(MESH, ["model", "data"]), x)):
        assert got == place_of(MESH, ["model", "data"], rank)
    for rank, got in enumerate(run(lambda g, a: a.sharding(MESH, (("model",), ())), x)):
        np.testing.assert_array_equal(got, x[rank])


def test_inside_control_flow():
    x = numbered(4)

    def scanned(g, a):
        def step(carry, value):
            total = carry.add(value).all_reduce(MESH, ["data"])
            return total, total.all_reduce(MESH, ["model"], "max")

        return g.scan(step, [g.full((), 0, "i64")], [a])[1]

    got = run(scanned, x)
    carry = [0] * RANKS
    for step in range(4):
        added = [c + own[step] for c, own in zip(carry, x, strict=True)]
        carry = [added[rank % 3] + added[rank % 3 + 3] for rank in range(RANKS)]
        for rank in range(RANKS):
            assert got[rank][step] == max(carry)

    def looped(g, a):
        return g.while_loop(
            lambda n, v: n.lt(3),
            lambda n, v: (n.add(1), v.all_reduce(MESH, ["data"])),
            g.full((), 0, "i64"),
            a,
        )[1]

    for rank, result in enumerate(run(looped, x)):
        np.testing.assert_array_equal(result, 4 * (x[rank % 3] + x[rank % 3 + 3]))


def test_ranks_that_go_different_ways():
    """Whole groups may; a rank that its group waits for may not."""

    def chosen(axis):
        def make(g, a):
            flag = g.mesh_index(MESH, [axis]).eq(0)
            return g.cond(flag, lambda: a.all_reduce(MESH, ["model"]), lambda: a)

        return make

    x = numbered(2)
    got = run(chosen("data"), x)
    np.testing.assert_array_equal(got[1], x[0] + x[1] + x[2])
    np.testing.assert_array_equal(got[4], x[4])
    with pytest.raises(GraphError, match=r"rank 1, 2 never reaches this all_reduce of ranks 0, 1, 2"):
        run(chosen("model"), x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g, a: a.all_reduce(MESH, ["modle"]), "no axis 'modle'.*did you mean 'model'.*model \\(3\\)"),
        (lambda g, a: a.all_reduce(MESH, ["model", "model"]), "name one twice"),
        (lambda g, a: a.all_reduce(MESH, ["model"], "mean"), "no reduction 'mean'.*sum"),
        (lambda g, a: a.all_reduce((("m", 2), ("m", 2)), ["m"]), "axes of the mesh are 'm', 'm'"),
        (lambda g, a: a.all_reduce((("m", 0),), ["m"]), "has 0 ranks"),
        (lambda g, a: a.reduce_scatter(MESH, ["model"], 1), "cannot be cut into 3 equal parts"),
        (lambda g, a: a.all_gather(MESH, ["model"], 2), "axis 2 is out of range"),
        (lambda g, a: a.permute(MESH, ["model"], [(0, 1), (2, 1)]), "targets .* not different places of 3"),
        (lambda g, a: a.permute(MESH, ["model"], [(0, 3)]), "targets .* not different places of 3"),
        (lambda g, a: a.broadcast(MESH, ["model"], 3), "root 3 is no place of 3"),
        (lambda g, a: a.sharding(MESH, (("model",),)), "spec has 1 entries, not 2"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(PlanishError, match=message) as caught:
        build(make, (3, 2))
    assert "test_collectives.py" in str(caught.value)


def test_one_rank_alone_says_what_is_missing():
    function = build(lambda g, a: a.all_reduce(MESH, ["model"]), (2,))
    with pytest.raises(GraphError, match=r"mesh has 6 ranks.*one of 1.*start 6 processes"):
        ptir.interpret(function, [np.zeros(2)])
    with pytest.raises(GraphError, match="mesh has 6 ranks and 2 run"):
        interpret_ranks(function, [[np.zeros(2)]] * 2)
    alone = build(lambda g, a: a.all_reduce((("m", 1),), ["m"]), (2,))
    np.testing.assert_array_equal(ptir.interpret(alone, [np.ones(2)])[0], np.ones(2))


SMOOTH = {
    "sum": lambda g, a: a.sin().all_reduce(MESH, ["model"]).sin(),
    "prod": lambda g, a: a.all_reduce(MESH, ["data", "model"], "prod"),
    "max": lambda g, a: a.all_reduce(MESH, ["model"], "max").sin(),
    "gather": lambda g, a: a.all_gather(MESH, ["model"], 1).sin(),
    "scatter": lambda g, a: a.sin().reduce_scatter(MESH, ["model"], 0).sin(),
    "scatter prod": lambda g, a: a.reduce_scatter(MESH, ["model"], 0, "prod"),
    "scatter min": lambda g, a: a.reduce_scatter(MESH, ["model"], 0, "min").sin(),
    "exchange": lambda g, a: a.all_to_all(MESH, ["model"], 0, 1).sin(),
    "permute": lambda g, a: a.permute(MESH, ["model"], [(0, 2), (1, 0)]).sin(),
    "broadcast": lambda g, a: a.broadcast(MESH, ["model"], 1).sin(),
    "scan": lambda g, a: g.scan(
        lambda c, x: (c.add(x).all_reduce(MESH, ["data"]).sin(), c), [g.full((2,), 0.0, "f64")], [a]
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    """Of the function of all ranks together: forward against differences, backward against forward."""
    function = build(SMOOTH[name], (3, 2))
    rng = np.random.default_rng(3)
    x, t = (rng.standard_normal((RANKS, 3, 2)) for _ in range(2))
    count = len(function.results)
    step = 1e-6
    up, down = (interpret_ranks(function, [[row] for row in x + s * t]) for s in (step, -step))
    pushed = [
        row[count:] for row in interpret_ranks(jvp(function), [[a, b] for a, b in zip(x, t, strict=True)])
    ]
    for high, low, got in zip(up, down, pushed, strict=True):
        for a, b, c in zip(high, low, got, strict=True):
            np.testing.assert_allclose(c, (a - b) / (2 * step), rtol=1e-5, atol=1e-7)
    cotangents = [[rng.standard_normal(part.shape) for part in row] for row in pushed]
    pulled = interpret_ranks(vjp(function), [[a, *c] for a, c in zip(x, cotangents, strict=True)])
    forward = sum(
        np.vdot(c, p) for cs, ps in zip(cotangents, pushed, strict=True) for c, p in zip(cs, ps, strict=True)
    )
    backward = sum(np.vdot(row[count], own) for row, own in zip(pulled, t, strict=True))
    np.testing.assert_allclose(forward, backward, rtol=1e-10)


def test_every_collective_is_differentiated_here():
    used = {i.op.name for make in SMOOTH.values() for i in build(make, (3, 2)).walk()}
    others = {op.name for op in ops.REGISTRY.values() if op.key is ops.OpKey.COLLECTIVE} - used
    assert others == {"mesh_index", "sharding", "to_device"}
