"""What is compiled by way of simpler ops, sorting and complex numbers above all: PTIR interpreter ≡ LLIR interpreter ≡ native code.

`tests/ptir/library` holds each composition against its op, by the interpreter. Here it goes on to kernels and to machine code, and
through every stage: a dtype per case for `make test`, all of them for `make test-all`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, dtypes, ptir
from planish.compiler.bisect import bisect
from planish.dtypes import DType
from planish.ptir.graph_value import GraphValue
from planish.ptir.library import COMPOSITES
from planish.ptir.ops.checking import ALL, COMPLEX, FLOATS, INTS, ORDERED
from planish.target import TARGETS
from tests.e2e.comparing import same
from tests.ptir.library.expanding import draw, function_of, types_of
from tests.ptir.ops_testing import by_name

Array = NDArray[Any]
MACHINES = ("scalar", "x86-64-v3", "cuda")


class Case(NamedTuple):
    """A function of arrays of a dtype."""

    accepted: Sequence[DType]
    shapes: Sequence[Sequence[int]]
    build: Callable[..., object]
    close: bool = False
    """Of complex functions: within a bound, not to the bit."""


def _order(x: GraphValue, y: GraphValue) -> list[GraphValue]:
    keys, indices = x.sort_with([x.graph.iota(x.dims, 0)], 0, descending=True)
    return [x.sort(0), keys, indices, *y.top_k(3, 0), *y.top_k(2, 0, largest=False)]


def _quantised(x: GraphValue) -> list[GraphValue]:
    one = x.quantize(dtypes.int8, 0.37, 3)
    per_axis = x.quantize(dtypes.uint8, [0.5, 1e-3, 7.0], [255, 0, 9], 0)
    return [
        one.bitcast(dtypes.int8),
        one.dequantize(),
        per_axis.bitcast(dtypes.uint8),
        per_axis.transpose().dequantize(),
    ]


def _counted(x: GraphValue) -> list[GraphValue]:
    positions, count = x.nonzero()
    kept = positions.bind_dim(count, 1, "K", 0, 20)
    return [positions, count, kept, kept.reduce_sum([1]), *x.nonzero(3)]


def _random(key: GraphValue) -> list[GraphValue]:
    return [key.rng_bits((3, 5), dtype) for dtype in ("u8", "u16", "u32", "u64")]


def _parts(x: GraphValue, y: GraphValue) -> list[GraphValue]:
    return [
        x.real(),
        x.imag(),
        x.conj(),
        x.real().complex(y.imag()),
        x.add(y),
        x.sub(y).neg(),
        x.mul(y),
        x.eq(y),
    ]


def _products(x: GraphValue, y: GraphValue) -> list[GraphValue]:
    return [x.div(y), x @ y, x.reduce_sum([0]), x.cumsum(1), x.exp(), x.tanh(), x.abs(), x.sqrt()]


def _suppressed(boxes: GraphValue, scores: GraphValue) -> tuple[GraphValue, ...]:
    return boxes.non_max_suppression(scores, 4, 0.25, 0.0)


_KEYS = [dtypes.uint32]
CASES = {
    "order": Case(by_name(ORDERED), [(7, 2), (9,)], _order),
    "order of many": Case(by_name(ORDERED), [(37,), (40,)], _order),
    "nonzero": Case(by_name(ALL), [(5, 4)], _counted),
    "unique": Case(by_name(ALL), [(12,)], lambda x: [*x.unique(), *x.unique(3)]),
    "unique rows": Case(by_name(INTS), [(5, 2)], lambda x: [*x.unique(axis=0)]),
    "quantize": Case(by_name(FLOATS), [(3, 20)], _quantised),
    "rng_bits": Case(_KEYS, [(2,)], _random),
    "non_max_suppression": Case(by_name(FLOATS), [(1, 6, 4), (1, 2, 6)], _suppressed),
    "complex": Case(by_name(COMPLEX), [(3, 3), (3, 3)], _parts),
    "complex functions": Case(by_name(COMPLEX), [(3, 3), (3, 3)], _products, close=True),
}


def made(name: str, dtype: DType) -> tuple[ptir.Function, list[Array]]:
    case, rng = CASES[name], np.random.default_rng(len(name))
    if case.close or name == "non_max_suppression":
        arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in case.shapes]
        if dtype.is_complex:
            arrays = [each + 1j * rng.standard_normal(each.shape) for each in arrays]
        arrays = [each.astype(dtype.numpy) for each in arrays]
    else:
        arrays = [draw(rng, dtype, shape) for shape in case.shapes]
    return function_of(types_of(arrays), case.build), arrays


def apart(array: Array) -> Array:
    """Complex numbers as pairs."""
    if not np.iscomplexobj(array):
        return array
    return np.ascontiguousarray(array)[..., np.newaxis].view(array.real.dtype)


def check(name: str, dtype: DType) -> None:
    function, arrays = made(name, dtype)
    wanted = ptir.interpret(function, arrays)
    lowered = compiler.lower(function)
    run, native = lowered.interpreted()(*arrays), lowered.compile()(*arrays)
    for number, (found, coded, meant) in enumerate(zip(run, native, wanted, strict=True)):
        what = f"{name} of {dtype.short}, result {number}"
        same(apart(coded), apart(found), f"{what}, native against interpreted")
        if CASES[name].close:
            eps = np.finfo(meant.dtype).eps
            np.testing.assert_allclose(found, meant, rtol=64 * eps, atol=64 * eps, err_msg=what)
        else:
            same(apart(found), apart(np.asarray(meant)), what)


def check_stages(name: str, dtype: DType, target: str) -> None:
    function, arrays = made(name, dtype)
    found = bisect(function, arrays, TARGETS[target])
    assert found is None, f"{name} of {dtype.short} on {target}: {found}"


@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_run_agree(name: str) -> None:
    accepted = CASES[name].accepted
    for dtype in dict.fromkeys((accepted[len(name) % len(accepted)], accepted[-1])):
        check(name, dtype)


def test_equal_lanes_are_one_constant() -> None:
    """A vector of 6s and the number 6 in all lanes once were two nodes, and the loop around them was there twice."""
    function, arrays = made("order", dtypes.uint8)
    found = compiler.lower(function, TARGETS["x86-64"]).interpreted()(*arrays)
    for one, other in zip(found, ptir.interpret(function, arrays), strict=True):
        same(one, np.asarray(other), "order")


@pytest.mark.parametrize(("at", "name"), list(enumerate(CASES)), ids=str)
def test_every_stage_agrees(at: int, name: str) -> None:
    """Of each case one dtype and one machine, which vary."""
    accepted = CASES[name].accepted
    check_stages(name, accepted[at % len(accepted)], MACHINES[at % 3])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_run_agree_on_every_dtype(name: str) -> None:
    for dtype in CASES[name].accepted:
        check(name, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_every_stage_agrees_on_every_dtype(name: str, target: str) -> None:
    for dtype in CASES[name].accepted:
        check_stages(name, dtype, target)


def test_no_composite_is_left_out() -> None:
    ops = {inst.op.name for name, case in CASES.items() for inst in made(name, case.accepted[0])[0].walk()}
    assert ops >= COMPOSITES - {"sharding", "to_device"}  # (annotations, tested with what reads them)
