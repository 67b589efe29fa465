"""Collectives by NCCL, on the one rank that there is: kept, so that they run as among several, inside the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.compiler.cuda.executable import GpuExecutable
from planish.runtime.cuda import nccl
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.watchdog import watchdog
from planish.schedule.plan import Wait

pytestmark = pytest.mark.skipif(not nccl.is_there(), reason="there is no NCCL here")
GPU = "cuda:0"
MESH = (("a", 1), ("b", 1))
DTYPES = (
    "bool", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float8_e4m3fn", "float8_e5m2", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    """Collectives of one rank are not left out."""
    assert pn.distributed.init("nccl").nccl
    with pn.settings(keep_collectives=True):
        yield


def values(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 5, shape).astype(np.float64)
    kind = pn.dtypes.parse(dtype)
    if kind.is_float:
        found = found / 4
        found.flat[0] = np.nan
    array = found + 1j * rng.integers(0, 5, shape) if kind.is_complex else found
    return array.astype(kind.numpy)


def ran(function: ptir.Function, *arrays: Any) -> GpuExecutable:
    """The function, after its results on the GPU were held against those of the interpreter, three times: the graph is made once."""
    wanted = ptir.interpret_ranks(function, [list(arrays)])[0]
    made = compiler.compile(function, device=GPU)
    assert isinstance(made, GpuExecutable)
    for _ in range(3):
        for mine, theirs in zip(made(*arrays), wanted, strict=True):
            got = mine.numpy()
            assert got.dtype == theirs.dtype
            wide = (
                np.float64 if got.dtype.kind in "fV" else got.dtype
            )  # NumPy knows NaN of its own dtypes alone
            np.testing.assert_array_equal(got.astype(wide), theirs.astype(wide))
    return made


def of(dtype: str, name: str, *given: object, shape: tuple[int, ...] = (4, 6)) -> ptir.Function:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor(dtype, shape))
    return graph.build(getattr(x, name)(MESH, *given))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_reduction_of_every_dtype(dtype: str) -> None:
    kind = pn.dtypes.parse(dtype)
    kinds = ["and", "or"] if kind.is_bool or kind.is_int else []
    kinds += [] if kind.is_bool else ["sum", "prod"]
    kinds += [] if kind.is_complex else ["max", "min"]
    for each in kinds:
        for function in (
            of(dtype, "all_reduce", ("a", "b"), each),
            of(dtype, "reduce_scatter", ("a",), 1, each),
        ):
            made = ran(function, values(dtype, (4, 6)))
            assert len(made.run.carried.exchanges) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_movement_of_every_dtype(dtype: str) -> None:
    for name, *given in (
        ("all_gather", ("a",), 0),
        ("all_gather", ("a", "b"), 1),
        ("all_to_all", ("a",), 0, 1),
        ("all_to_all", ("b",), 1, 1),
        ("permute", ("a",), ((0, 0),)),
        ("permute", ("a",), ()),
        ("broadcast", ("b",), 0),
    ):
        made = ran(of(dtype, str(name), *given), values(dtype, (4, 6)))
        assert [each.op for each in made.run.carried.exchanges.values()] == [name]


def test_a_whole_program_is_one_segment() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (64, 64)))
    y = (x @ x).all_reduce(MESH, ("a",))
    z = (x + 1.0) @ x  # needs nothing of y
    index = graph.mesh_index(MESH, ("b",)).cast("float32").broadcast_to((64, 64))
    function = graph.build((y + z + index).all_gather(MESH, ("b",), 1))
    x0 = np.random.default_rng(0).integers(-3, 4, (64, 64)).astype(np.float32)
    made = ran(function, x0)
    assert made._fast is not None
    assert len(made.run.carried.exchanges) == 2


def test_collectives_right_behind_each_other_and_beside_products() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (32, 32)))
    first = (x + 1.0).all_reduce(MESH, ("a",))
    twice = first.all_gather(MESH, ("b",), 0).all_reduce(MESH, ("a",), "max")
    other = x
    for _ in range(3):
        other = (other @ x) * 0.0625
    function = graph.build(twice, first + 2.0, other.all_reduce(MESH, ("b",)))
    assert any(isinstance(step, Wait) for step in compiler.lower(function, "sm_90").plan.steps)
    ran(function, np.random.default_rng(0).integers(-2, 3, (32, 32)).astype(np.float32))


def test_the_watchdog_sees_every_collective() -> None:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("float32", (256,)))
    function = graph.build((x.all_reduce(MESH, ("a",)) + 1.0).all_reduce(MESH, ("b",)))
    found = watchdog(gpu(0))
    before = found.words[1]
    ran(function, np.ones(256, np.float32))  # three times
    assert list(found.words) == [0, before + 3 * 2 * 2]
    assert any(name.startswith("all_reduce(tensor<f32, 256>) over a (1) of @f") for name in found.dog.names)


def test_a_loop_meets_in_every_turn() -> None:
    mesh = pn.Mesh((1,), ("data",))
    w = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32) / 3

    def turns(w: Any, x: Any) -> Any:
        return pn.scan(lambda carry, _: (pn.tanh(carry @ w), carry), x, None, length=5)[0]

    x = np.ones((4, 8), np.float32)
    with pn.settings(keep_collectives=False):
        wanted = np.asarray(pn.jit(turns)(w, x))
    with pn.settings(device=GPU):
        sharded = pn.jit(turns, mesh=mesh, in_shardings=(pn.P("data"), pn.P()), out_shardings=pn.P())
        assert "reduce_scatter" in ptir.print(cast("ptir.Function", sharded.lower(w, x)))
        np.testing.assert_allclose(np.asarray(sharded(w, x)), wanted, rtol=1e-5, atol=1e-6)


def test_a_training_step_is_that_of_the_processor() -> None:
    mesh = pn.Mesh((1, 1), ("data", "model"))

    def loss(w: Any, x: Any) -> Any:
        return pn.mean((pn.tanh(x @ w["up"]) @ w["down"]) ** 2)

    def step(w: Any, x: Any) -> Any:
        value, slopes = pn.value_and_grad(loss)(w, x)
        return value, {name: w[name] - 0.1 * slopes[name] for name in w}

    rng = np.random.default_rng(0)
    weights = {
        "up": rng.standard_normal((32, 64)).astype(np.float32),
        "down": rng.standard_normal((64, 32)).astype(np.float32),
    }
    x = rng.standard_normal((16, 32)).astype(np.float32)
    specs = {"up": pn.P(None, "model"), "down": pn.P("model", None)}
    with pn.settings(keep_collectives=False):
        wanted, kept_weights = pn.jit(step)(weights, x)
    with pn.settings(device=GPU):
        train = pn.jit(step, in_shardings=(specs, pn.P("data")), out_shardings=(pn.P(), specs), mesh=mesh)
        names = [inst.op.name for inst in cast("ptir.Function", train.lower(weights, x)).walk()]
        assert names.count("all_reduce") >= 2
        for _ in range(3):
            value, new = train(weights, x)
            np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=1e-5)
            for name in weights:
                np.testing.assert_allclose(
                    new[name].numpy(), kept_weights[name].numpy(), rtol=1e-4, atol=1e-5
                )
