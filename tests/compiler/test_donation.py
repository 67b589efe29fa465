"""Donated arguments on the short way into a compiled function: their arrays are the results."""

from __future__ import annotations

import numpy as np
import pytest

from planish import compiler, ptir
from planish.ptir import Graph, tensor


def update(dims=(6,), **bounds) -> ptir.Function:
    g = Graph("update")
    state, change = (g.input(name, tensor("f32", dims, **bounds)) for name in ("state", "change"))
    return g.build(state.sub(change), change.reduce_max([0]))


def test_the_result_is_the_array_that_was_given():
    exe = compiler.compile(update(), donate=[0])
    assert exe.is_fast
    state, change = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    for step in range(1, 4):
        found, most = exe(state, change)
        assert found is state
        assert most == 1
        np.testing.assert_array_equal(state, np.arange(6) - step)
    np.testing.assert_array_equal(change, np.ones(6))


def test_an_array_that_cannot_be_written_is_copied():
    exe = compiler.compile(update(), donate=[0])
    state, change = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    state.flags.writeable = False
    found, _ = exe(state, change)
    np.testing.assert_array_equal(found, np.arange(6) - 1)
    np.testing.assert_array_equal(state, np.arange(6))
    strided = np.arange(12, dtype=np.float32)[::2]
    found, _ = exe(strided, change)
    np.testing.assert_array_equal(found, np.arange(12)[::2] - 1)
    np.testing.assert_array_equal(strided, np.arange(12)[::2])


def test_named_sizes_may_be_donated_too():
    exe = compiler.compile(update(("n",), n=(1, 9)), donate=[0])
    for size in (1, 9, 4):
        state = np.arange(size, dtype=np.float32)
        found, _ = exe(state, np.ones(size, np.float32))
        assert found.ctypes.data == state.ctypes.data
        np.testing.assert_array_equal(found, np.arange(size) - 1)


def test_a_result_of_another_shape_takes_the_memory_with_a_shape_of_its_own():
    g = Graph("folded")
    x = g.input("x", tensor("f32", (2, 3)))
    exe = compiler.compile(g.build(x.reshape((6,)).neg()), donate=[0])
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = exe(given)
    assert found.shape == (6,)
    np.testing.assert_array_equal(found, -np.arange(6))


def test_a_loop_starts_in_donated_memory():
    g = Graph("loop")
    x = g.input("x", tensor("f32", (4,)))
    (last,) = g.scan(lambda carry: [carry.mul(2.0).reverse([0])], [x], [], 3)
    exe = compiler.compile(g.build(last), donate=[0])
    given = np.arange(4, dtype=np.float32)
    (found,) = exe(given)
    np.testing.assert_array_equal(found, np.arange(4)[::-1] * 8)


def _pair(*, crossed: bool) -> ptir.Function:
    """Two results of one kernel, each made of one parameter, or (crossed) the first of both."""
    g = Graph("pair")
    x, y = (g.input(name, tensor("f32", (4096,))) for name in "xy")
    return g.build(y.add(x) if crossed else y.add(1.0), x.mul(2.0))


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("donate", [(0,), (1,), (0, 1)])
def test_each_of_several_results_takes_what_it_is_made_of(donate: tuple[int, ...], crossed: bool) -> None:
    function = _pair(crossed=crossed)
    assert len(compiler.lower(function, donate=donate).programs) == (1 if crossed else 2)
    arrays = [np.random.default_rng(n).random(4096, np.float32) for n in range(2)]
    wanted = compiler.lower(function).compile()(*arrays)
    for run in (
        compiler.lower(function, donate=donate).compile(),
        compiler.lower(function, donate=donate).interpreted(),
    ):
        given = [array.copy() for array in arrays]
        found = run(*given)
        for one, other in zip(found, wanted, strict=True):
            assert one.tobytes() == other.tobytes()
        for position, array in enumerate(given):
            if position not in donate:
                assert array.tobytes() == arrays[position].tobytes()


def test_an_optimiser_step_is_made_in_place() -> None:
    g = Graph("momentum")
    p, d, m, v = (g.input(name, tensor("f32", (1 << 20,))) for name in "pdmv")
    first, second = m.mul(0.9).add(d.mul(0.1)), v.mul(0.999).add(d.mul(d).mul(0.001))
    function = g.build(p.sub(first.mul(0.001).div(second.sqrt().add(1e-8))), first, second)
    lowered = compiler.lower(function, donate=(0, 2, 3))
    assert len(lowered.programs) == 1
    arrays = [np.random.default_rng(n).random(1 << 20, np.float32) for n in range(4)]
    wanted = compiler.lower(function).compile()(*arrays)
    found = lowered.compile()(*arrays)
    assert [f is a for f, a in zip(found, (arrays[0], arrays[2], arrays[3]), strict=True)] == [True] * 3
    assert [f.tobytes() for f in found] == [w.tobytes() for w in wanted]
