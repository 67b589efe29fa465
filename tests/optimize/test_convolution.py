"""Schedules of convolutions and pooling: what is found in the indices, what is chosen, and that it stays right."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

from planish.llir.lower import lower
from planish.llir.program import Compute, EndLoop, Load, Loop, Program
from planish.optimize.heuristic import choose
from planish.optimize.kernel_view import View
from planish.optimize.windows import window_of
from planish.stages.pipeline import Machine, run
from planish.stages.rangeify.attempts import attempts
from planish.stages.rangeify.legality import local_bytes
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.optimize.corpus import REDUCE, Build, f32, matmul
from tests.optimize.test_heuristic import SCALAR, V4, chosen, results, words
from tests.stages.kernels import Array


def convolution(
    t: Table,
    c: int = 2,
    o: int = 16,
    size: int = 5,
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 1,
) -> UOp:
    """out[o, h, w] = sum over c, r, s of x[c, h·stride + r·dilation - pad, w·stride + s·dilation - pad] · k[o, c, r, s]."""
    many = (size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    out, x, k = (
        t.param(0, f32, o * many * many),
        t.param(1, f32, c * size * size),
        t.param(2, f32, o * c * taps * taps),
    )
    i, h, w = t.range(o, 0), t.range(many, 1), t.range(many, 2)
    f, r, s = (t.range(n, 3 + n_, REDUCE) for n_, n in enumerate((c, taps, taps)))
    y, z = h * stride + r * dilation - pad, w * stride + s * dilation - pad
    inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
    at = inside.where(f * (size * size) + y * size + z, t.invalid(h.dtype))
    value = x.index(at) * k.index(((i * c + f) * taps + r) * taps + s)
    place = out.index(i * (many * many) + h * many + w)
    return t.sink(place.store(value.reduce(Ops.ADD, f, r, s)).end(i, h, w))


def depthwise(t: Table, c: int = 3, size: int = 8, stride: int = 1) -> UOp:
    many = (size - 1) // stride + 1
    out, x, k = t.param(0, f32, c * many * many), t.param(1, f32, c * size * size), t.param(2, f32, c * 9)
    i, h, w = t.range(c, 0), t.range(many, 1), t.range(many, 2)
    r, s = t.range(3, 3, REDUCE), t.range(3, 4, REDUCE)
    y, z = h * stride + r - 1, w * stride + s - 1
    inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
    at = inside.where(i * (size * size) + y * size + z, t.invalid(h.dtype))
    value = x.index(at) * k.index(i * 9 + r * 3 + s)
    return t.sink(out.index(i * (many * many) + h * many + w).store(value.reduce(Ops.ADD, r, s)).end(i, h, w))


def pooling(t: Table, c: int = 4, size: int = 12, stride: int = 2) -> UOp:
    many = (size - 3) // stride + 1
    out, x = t.param(0, f32, c * many * many), t.param(1, f32, c * size * size)
    i, h, w = t.range(c, 0), t.range(many, 1), t.range(many, 2)
    r, s = t.range(3, 3, REDUCE), t.range(3, 4, REDUCE)
    value = x.index(i * (size * size) + (h * stride + r) * size + w * stride + s)
    return t.sink(out.index(i * (many * many) + h * many + w).store(value.reduce(Ops.MAX, r, s)).end(i, h, w))


def program_of(sink: UOp) -> Program:
    machine = Machine(V4, partial(choose, target=V4, attempt=attempts(V4)))
    return lower("kernel", run(sink, machine))


def innermost(program: Program) -> list[object]:
    """What the loop that multiplies consists of."""
    loops: list[list[object]] = [[]]
    for i in program.body:
        if isinstance(i, Loop):
            loops.append([])
        elif isinstance(i, EndLoop):
            body = loops.pop()
            if any(
                isinstance(each, Compute) and each.op is Ops.MULACC and each.result.dtype.is_float
                for each in body
            ):
                return body
        else:
            loops[-1].append(i)
    raise AssertionError("nothing is multiplied in a loop")


# -- the structure ---------------------------------------------------------------------------------------------------


def test_windows_are_found_in_the_indices() -> None:
    with Table() as t:
        found = window_of(View(convolution(t)))
        assert found is not None
        assert [str(r.arg) for r in found.channels] == ["L0"]
        assert [str(r.arg) for r in found.pixels] == ["L1", "L2"]
        assert found.shared == ()
        assert found.weights is not None
    with Table() as t:
        found = window_of(View(depthwise(t)))
        assert found is not None
        assert [str(r.arg) for r in found.shared] == ["L0"]
    with Table() as t:
        found = window_of(View(pooling(t)))
        assert found is not None
        assert found.weights is None


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_matrices_are_no_windows(transposed: bool) -> None:
    with Table() as t:
        assert window_of(View(matmul(t, transposed=transposed))) is None
    with Table() as t:
        assert window_of(View(convolution(t, taps=1, pad=0))) is None


# -- what is chosen --------------------------------------------------------------------------------------------------


def test_channels_are_in_lanes_and_both_operands_are_copied() -> None:
    for stride in (1, 2):
        found = words(chosen(partial(convolution, c=64, o=64, size=56, stride=stride), V4))
        assert "UPCAST 32" in found
        assert [each for each in found if each.startswith("STAGE")] == ["STAGE 2", "STAGE 1"]
        assert any(each.startswith("THREAD") for each in found)


def test_the_inner_loop_of_a_padded_convolution_has_no_gates() -> None:
    with Table() as t:
        body = innermost(program_of(convolution(t, c=64, o=64, size=56)))
    loads = [i for i in body if isinstance(i, Load)]
    assert loads
    assert all(load.gate is None for load in loads)
    products = [i for i in body if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float]
    assert len(products) >= 14
    assert all(each.result.dtype.lanes == V4.lanes(f32) for each in products)


@pytest.mark.parametrize(("c", "o", "size"), [(512, 512, 7), (512, 512, 28), (64, 128, 112), (256, 96, 14)])
def test_what_is_copied_fits(c: int, o: int, size: int) -> None:
    with Table() as t:
        sink = convolution(t, c=c, o=o, size=size)
        actions = choose(sink, V4, attempts(V4))
        assert [each for each in words(actions) if each.startswith("STAGE")] == ["STAGE 2", "STAGE 1"]
        assert local_bytes(apply_opts(sink, actions, V4)) <= V4.local_bytes


def test_rows_of_a_depthwise_convolution_share_what_they_load() -> None:
    found = words(chosen(partial(depthwise, c=96, size=56), V4))
    assert found[:4] == ["PADTO 16", "UPCAST 16", "UPCAST 8", "UNROLL 0"]
    with Table() as t:
        body = innermost(program_of(depthwise(t, c=96, size=56)))
    vectors = [
        i
        for i in body
        if isinstance(i, Load) and i.result.dtype.lanes == 16 and "acc" not in str(i.address.dtype)
    ]
    rows = 8
    assert sum(load.gate is not None for load in vectors) <= rows + 2


# -- and is right ----------------------------------------------------------------------------------------------------

SMALL: dict[str, Build] = {
    "plain": convolution,
    "strided": partial(convolution, stride=2, size=9),
    "dilated": partial(convolution, dilation=2, pad=2),
    "unpadded": partial(convolution, pad=0, o=20),
    "odd": partial(convolution, o=18, size=5, c=2),
    "prime": partial(convolution, size=18, c=1, taps=2, pad=0),
    "few channels": partial(convolution, o=5, size=9),
    "patches": partial(convolution, taps=2, stride=2, pad=0, size=8),
    "depthwise": depthwise,
    "depthwise strided": partial(depthwise, stride=2),
    "pooling": pooling,
}


@cache
def plain(name: str) -> dict[int, Array]:
    """By plain loops."""
    return results(SMALL[name], SCALAR, steered=False)


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize("name", SMALL)
def test_no_choice_changes_a_result(name: str, target: str) -> None:
    expected = plain(name)
    found = results(SMALL[name], TARGETS[target], steered=True)
    for slot, array in expected.items():
        np.testing.assert_allclose(found[slot], array, rtol=1e-5, atol=1e-5, err_msg=f"slot {slot}")
