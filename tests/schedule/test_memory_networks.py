"""The memory of known networks, in bytes; scratch memory and cores of single kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, dtypes, ptir
from planish.codegen import llvm, symbols
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir.builder import Builder
from planish.llir.program import Ops, Program
from planish.ptir import ops
from planish.ptir.graph_value import GraphValue
from planish.runtime.cpu import CompiledModule
from planish.schedule.memory import ArenaPlace
from planish.uop.hardware_index import index_named

Array = NDArray[Any]
N = 32
BYTES = N * N * 4


def matmul(x: GraphValue, y: GraphValue) -> GraphValue:
    return x.dot_general(y, ops.DotDims(lhs_contract=(1,), rhs_contract=(0,)))


def square(graph: ptir.Graph, name: str) -> GraphValue:
    return graph.input(name, ptir.tensor("f32", (N, N)))


def chain(layers: int) -> ptir.Function:
    """tanh(… tanh(x @ w0) … @ wn)."""
    graph = ptir.Graph("chain")
    h = square(graph, "x")
    for layer in range(layers):
        h = matmul(h, square(graph, f"w{layer}")).tanh()
    return graph.build(h)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize(("layers", "apart"), [(1, 0), (2, 1), (3, 2), (6, 5)])
def test_a_chain_of_layers_alternates_between_two_places(layers, apart):
    lowered = compiler.lower(chain(layers))
    memory = lowered.memory
    assert memory.unshared == apart * BYTES
    assert memory.peak == memory.lower_bound == min(apart, 2) * BYTES
    assert (memory.parameters, memory.results, memory.constants) == ((layers + 1) * BYTES, BYTES, 0)
    assert len(lowered.plan.launches) == layers
    assert len(lowered.plan.kernels) == 1  # all layers are the same kernel
    arrays = [numbers(N, N, seed=number) / 4 for number in range(layers + 1)]
    want = arrays[0]
    for w in arrays[1:]:
        want = np.tanh(want @ w)
    for run in (lowered.compile(), compiler.lower(chain(layers), reuse=False).compile()):
        (found,) = run(*arrays)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_what_is_read_late_keeps_its_place():
    # a = x @ w is needed again after two more layers: three places, not two
    graph = ptir.Graph("late")
    x, w = square(graph, "x"), square(graph, "w")
    a = matmul(x, w)
    b = matmul(a, w)
    c = matmul(b, w)
    lowered = compiler.lower(graph.build(matmul(c, a)))
    assert lowered.memory.peak == 3 * BYTES
    arrays = [numbers(N, N) / 4, numbers(N, N, seed=1) / 4]
    (found,) = lowered.compile()(*arrays)
    h = arrays[0] @ arrays[1]
    np.testing.assert_allclose(found, h @ arrays[1] @ arrays[1] @ h, rtol=1e-3, atol=1e-4)


def test_a_residual_is_written_over():
    # z = (b @ v) @ w + b, where b dies: its memory becomes that of z
    graph = ptir.Graph("residual")
    x, w, v = (square(graph, name) for name in "xwv")
    b = matmul(x, w)
    z = matmul(matmul(b, v), w).add(b)
    lowered = compiler.lower(graph.build(matmul(z, v)))
    assert sorted(len(place.buffers) for place in lowered.memory.places) == [1, 2]
    assert (lowered.memory.peak, lowered.memory.unshared) == (2 * BYTES, 3 * BYTES)
    arrays = [numbers(N, N, seed=seed) / 4 for seed in range(3)]
    b0 = arrays[0] @ arrays[1]
    want = (b0 @ arrays[2] @ arrays[1] + b0) @ arrays[2]
    (found,) = lowered.compile()(*arrays)
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-4)


def test_a_recurrent_network_keeps_two_states():
    graph = ptir.Graph("rnn")
    h, xs, w = (
        graph.input("h", ptir.tensor("f32", (4, 8))),
        graph.input("xs", ptir.tensor("f32", (5, 4, 8))),
        graph.input("w", ptir.tensor("f32", (8, 8))),
    )

    def step(state: GraphValue, x: GraphValue) -> tuple[GraphValue, GraphValue]:
        following = matmul(state, w).add(x).tanh()
        return following, following

    last, ys = graph.scan(step, [h], [xs])
    lowered = compiler.lower(graph.build(last, ys))
    assert len(lowered.plan.launches) == 1
    assert [place.nbytes for place in lowered.memory.places] == [128, 128]
    arrays = [numbers(4, 8), numbers(5, 4, 8), numbers(8, 8) / 4]
    want = ptir.interpret(lowered.function, arrays)
    for run in (lowered.compile(), lowered.interpreted()):
        for a, b in zip(want, run(*arrays), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_report_reads_as_a_table():
    executable = compiler.lower(chain(3)).compile()
    lines = str(executable.memory).splitlines()
    assert lines[0] == (
        f"arena {2 * BYTES} bytes ({2 * BYTES} without sharing), parameters {4 * BYTES}, constants 0, results {BYTES}"
    )
    assert lines[1].split() == ["offset", "bytes", "from", "to", "buffers"]
    assert len(lines) == 4
    assert isinstance(executable.memory.places[0], ArenaPlace)
    (kernel,) = executable.kernels
    assert kernel.launches == executable.cost.launches == 3
    assert executable.cost.flops >= 3 * 2 * N**3
    assert executable.cost.nbytes == 3 * 3 * BYTES


def test_a_size_without_an_upper_bound_is_an_error():
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("f32", ("B", 4)))
    with pytest.raises(LoweringError, match=r"dim B of .* no upper bound.*declare its bounds"):
        compiler.lower(graph.build(x.exp()))


def test_a_tensor_beyond_64_bits_is_an_error():
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("f32", ("B", "C", "D"), B=(1, 2**30), C=(1, 2**30), D=(1, 2**30)))
    with pytest.raises(LoweringError, match="more than 64 bits can count"):
        compiler.lower(graph.build(x.exp()))


# -- cores and scratch -----------------------------------------------------------------------------------------------


def test_large_kernels_run_on_all_cores_indices():
    graph = ptir.Graph("big")
    x = graph.input("x", ptir.tensor("f32", (1 << 18,)))
    lowered = compiler.lower(graph.build(x.mul(x)))
    (program,) = lowered.programs
    assert program.specials
    array = numbers(1 << 18)
    np.testing.assert_array_equal(lowered.compile()(array)[0], array * array)


def staged(cores: int, size: int) -> Program:
    """Every core fills LOCAL memory of its own with its number, all of it, before it reads any of it."""
    b = Builder("staged")
    out = b.param("arg0", dtypes.int32, cores * size)
    own = b.memory("own", dtypes.int32, size, AddrSpace.LOCAL)
    core = b.special(index_named("core"), cores)
    with b.loop(size) as i:
        b.store(b.address(own, i), b.compute(Ops.ADD, b.compute(Ops.MUL, core, 1000000), i))
    with b.loop(size) as i:
        place = b.compute(Ops.ADD, b.compute(Ops.MUL, core, size), i)
        b.store(b.address(out, place), b.load(b.address(own, i)))
    return b.program()


def test_scratch_memory_is_apart_for_every_core():
    cores, size = 3, 5
    program = staged(cores, size)
    assert llvm.scratch_bytes(program) == cores * 64
    module = CompiledModule(llvm.render(program, scratch=True))
    function = module.function(symbols.kernel(program.name), 1, 1, scratch=True)
    found = np.zeros(cores * size, np.int32)
    raw = np.zeros(cores * 64 + 64, np.uint8)
    start = raw.ctypes.data + -raw.ctypes.data % 64
    for core in reversed(range(cores)):
        function(found.ctypes.data, core, start)
    np.testing.assert_array_equal(found, [core * 1000000 + i for core in range(cores) for i in range(size)])
    # all that was written is still there: no core used the memory of another
    kept = raw[start - raw.ctypes.data :][: cores * 64].view(np.int32).reshape(cores, 16)[:, :size]
    np.testing.assert_array_equal(kept.reshape(-1), found)


def test_large_scratch_memory_is_in_the_arena():
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("i32", (30,)))
    lowered = compiler.lower(graph.build(x.add(x)))
    small, large = staged(3, 10), staged(3, 1 << 17)
    assert dataclasses.replace(lowered, programs=(small,)).memory.peak == 0
    found = dataclasses.replace(lowered, programs=(large,)).memory
    assert found.peak == 3 * (4 << 17)
    assert [place.buffers for place in found.places] == [()]
    assert "(kernel scratch)" in str(found)


def test_updates_in_a_loop_are_made_in_place():
    # a cache that is carried: every step writes two rows of it and copies none
    graph = ptir.Graph("cache")
    cache = graph.input("cache", ptir.tensor("f32", (16, 8)))
    rows = graph.input("rows", ptir.tensor("f32", (3, 2, 8)))
    places = graph.input("places", ptir.tensor("i64", (3, 2)))

    def step(state: GraphValue, row: GraphValue, place: GraphValue) -> tuple[GraphValue, ...]:
        return (state.scatter(row, [place], [0], "add"),)

    (last,) = graph.scan(step, [cache], [rows, places])
    lowered = compiler.lower(graph.build(last))
    assert len(lowered.plan.launches) == 1
    assert lowered.memory.places == ()  # it lies in the array of the result from the first step on
    arrays = [numbers(16, 8), numbers(3, 2, 8), np.array([[0, 5], [5, 5], [15, 3]])]
    counts: list[int] = []
    run = lowered.interpreted(lambda program, counters: counts.append(counters.bytes_written))
    want = ptir.interpret(lowered.function, arrays)
    for found in (run(*arrays), lowered.compile()(*arrays)):
        np.testing.assert_allclose(found[0], want[0], rtol=1e-6)
    assert counts == [2 * 8 * 4 * 3]  # one kernel


def test_a_bound_may_be_as_large_as_memory_can_be():
    for high in (2**31 - 1, 2**31, 2**60):
        graph = ptir.Graph("long")
        x = graph.input("x", ptir.tensor("f32", ("n",), n=(1, high)))
        (found,) = compiler.lower(graph.build(x.mul(2.0))).compile()(numbers(5))
        np.testing.assert_array_equal(found, numbers(5) * 2)
    graph = ptir.Graph("endless")
    x = graph.input("x", ptir.tensor("f32", ("n",)))
    with pytest.raises(LoweringError, match="no upper bound"):
        compiler.lower(graph.build(x.mul(2.0)))
