"""Donated arguments on the short way into a compiled function: their arrays are the results."""

from __future__ import annotations

import numpy as np

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
