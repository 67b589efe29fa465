"""Schedules of convolutions and pooling: what is found in the indices, what is chosen, and that it stays right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
import pytest

from planish import compiler, dtypes, ptir
from planish.actions import base as actions_base
from planish.actions.upcast import Upcast
from planish.config import settings
from planish.llir.interpret import interpret
from planish.llir.lower import lower
from planish.llir.program import Compute, EndLoop, Load, Loop, Program
from planish.optimize import templates
from planish.optimize.cost import estimate, least_cycles
from planish.optimize.draft import Draft
from planish.optimize.expected import Estimate
from planish.optimize.heuristic import choose, drafted, rivals
from planish.optimize.windows import window_of
from planish.stages.pipeline import Machine, run
from planish.stages.rangeify.attempts import attempts
from planish.stages.rangeify.s07_apply_opts import apply_opts
from planish.target import TARGETS
from planish.uop.nest import axes_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes
from planish.uop.node import Table, UOp
from planish.uop.ops import Axis, Ops
from tests.optimize.corpus import CORPUS, REDUCE, Build, f32, matmul, offered
from tests.optimize.test_heuristic import SCALAR, V4, chosen, results, words
from tests.placed import Action, ActionKind
from tests.stages.kernels import Array, buffers_of


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


def filtered(t: Table, size: int = 40, taps: int = 6, stride: int = 2) -> UOp:
    """out[p] = sum over r of x[p·stride + r - taps/2] · k[r]"""
    many, begin = (size - 1) // stride + 1, taps // 2
    out, x, k = t.param(0, f32, many), t.param(1, f32, size), t.param(2, f32, taps)
    p, r = t.range(many, 0), t.range(taps, 1, REDUCE)
    at = p * stride + r - begin
    inside = (at >= 0) & (at < size)
    value = x.index(inside.where(at, t.invalid(p.dtype))) * k.index(r)
    return t.sink(out.index(p).store(value.reduce(Ops.ADD, r)).end(p))


def by_weights(
    t: Table, n: int = 2, c: int = 1, o: int = 16, size: int = 4, taps: int = 3, stride: int = 1
) -> UOp:
    """The gradient by the weights: out[o, c, r, s] = sum over n, h, w of g[n, o, h, w] · x[n, c, h·stride + r - 1, w·stride + s - 1]."""
    many = (size - 1) // stride + 1
    out = t.param(0, f32, o * c * taps * taps)
    x, g = t.param(1, f32, n * c * size * size), t.param(2, f32, n * o * many * many)
    i, f, r, s = (t.range(m, k) for k, m in enumerate((o, c, taps, taps)))
    b, h, w = (t.range(m, 4 + k, REDUCE) for k, m in enumerate((n, many, many)))
    y, z = h * stride + r - 1, w * stride + s - 1
    inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
    at = inside.where((b * c + f) * (size * size) + y * size + z, t.invalid(h.dtype))
    value = x.index(at) * g.index((b * o + i) * (many * many) + h * many + w)
    place = out.index(((i * c + f) * taps + r) * taps + s)
    return t.sink(place.store(value.reduce(Ops.ADD, b, h, w)).end(i, f, r, s))


def depthwise_by_weights(t: Table, n: int = 1, c: int = 2, size: int = 9) -> UOp:
    """The same where every channel is by itself."""
    out, x, g = (
        t.param(0, f32, c * 9),
        t.param(1, f32, n * c * size * size),
        t.param(2, f32, n * c * size * size),
    )
    i, r, s = (t.range(m, k) for k, m in enumerate((c, 3, 3)))
    b, h, w = (t.range(m, 3 + k, REDUCE) for k, m in enumerate((n, size, size)))
    y, z = h + r - 1, w + s - 1
    inside = (y >= 0) & (y < size) & (z >= 0) & (z < size)
    at = inside.where((b * c + i) * (size * size) + y * size + z, t.invalid(h.dtype))
    value = x.index(at) * g.index((b * c + i) * (size * size) + h * size + w)
    return t.sink(out.index(i * 9 + r * 3 + s).store(value.reduce(Ops.ADD, b, h, w)).end(i, r, s))


def summed_twice(t: Table, n: int = 3, o: int = 16, c: int = 24, size: int = 10) -> UOp:
    """out[o, c] = sum over n, p of g[n, o, p] · x[n, c, p]: a product whose sums run over two axes."""
    out, x, g = t.param(0, f32, o * c), t.param(1, f32, n * c * size), t.param(2, f32, n * o * size)
    i, f, b, p = t.range(o, 0), t.range(c, 1), t.range(n, 2, REDUCE), t.range(size, 3, REDUCE)
    value = x.index((b * c + f) * size + p) * g.index((b * o + i) * size + p)
    return t.sink(out.index(i * c + f).store(value.reduce(Ops.ADD, b, p)).end(i, f))


def spread(t: Table, c: int = 3, o: int = 8, size: int = 20, taps: int = 2) -> UOp:
    """A transposed convolution of stride 2 in its phases: out[c, 2·h + p] = sum over o, r of g[o, h + r] · k[o, c, p + 2·r]."""
    out, g, k = (
        t.param(0, f32, c * size * 2),
        t.param(1, f32, o * (size + taps)),
        t.param(2, f32, o * c * taps * 2),
    )
    i, h, p = t.range(c, 0), t.range(size, 1), t.range(2, 2)
    f, r = t.range(o, 3, REDUCE), t.range(taps, 4, REDUCE)
    value = g.index(f * (size + taps) + h + r) * k.index((f * c + i) * (taps * 2) + r * 2 + p)
    return t.sink(out.index(i * (size * 2) + h * 2 + p).store(value.reduce(Ops.ADD, f, r)).end(i, h, p))


def two_results(t: Table, c: int = 1, o: int = 16, size: int = 4) -> UOp:
    """A convolution that is stored twice, as itself and without what is negative."""
    sink = convolution(t, c=c, o=o, size=size)
    (end,) = sink.src
    store, *axes = end.src
    again = (
        t.param(3, f32, o * size * size)
        .index(store.src[0].src[1])
        .store(store.src[1].alu(Ops.MAX, store.src[1].const_like(0.0)))
    )
    return t.sink(t.make(Ops.GROUP, dtypes.void, (store, again)).end(*axes))


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
        found = window_of(Nest.of(convolution(t)))
        assert found is not None
        assert [str(r.arg) for r in found.channels] == ["L0"]
        assert [str(r.arg) for r in found.pixels] == ["L1", "L2"]
        assert found.shared == ()
        assert found.weights is not None
    with Table() as t:
        found = window_of(Nest.of(depthwise(t)))
        assert found is not None
        assert [str(r.arg) for r in found.shared] == ["L0"]
    with Table() as t:
        found = window_of(Nest.of(pooling(t)))
        assert found is not None
        assert found.weights is None


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_matrices_are_no_windows(transposed: bool) -> None:
    with Table() as t:
        assert window_of(Nest.of(matmul(t, transposed=transposed))) is None
    with Table() as t:
        assert window_of(Nest.of(convolution(t, taps=1, pad=0))) is None


# -- what is chosen --------------------------------------------------------------------------------------------------


def test_channels_are_in_lanes_and_both_operands_are_copied() -> None:
    for stride in (1, 2):
        found = words(chosen(partial(convolution, c=64, o=64, size=56, stride=stride), V4))
        assert ("upcast 32" if stride == 1 else "upcast 64") in found
        assert [each for each in found if each.startswith("stage")] == ["stage 2", "stage 1"]
        assert any(each.startswith("thread") for each in found)


def test_the_inner_loop_of_a_padded_convolution_has_no_gates() -> None:
    with Table() as t:
        body = innermost(program_of(convolution(t, c=64, o=64, size=56)))
    loads = [i for i in body if isinstance(i, Load)]
    assert loads
    assert all(load.gate is None for load in loads)
    products = [i for i in body if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float]
    assert len(products) >= 14
    assert all(each.result.dtype.lanes == V4.lanes(f32) for each in products)


@pytest.mark.parametrize(("c", "o", "size"), [(512, 512, 15), (512, 512, 28), (64, 128, 112), (256, 256, 16)])
def test_what_is_copied_fits(c: int, o: int, size: int) -> None:
    with Table() as t:
        sink = convolution(t, c=c, o=o, size=size)
        actions = choose(sink, V4, attempts(V4))
        assert [each for each in words(actions) if each.startswith("stage")] == ["stage 2", "stage 1"]
        assert local_bytes(apply_opts(sink, actions, V4)) <= V4.local_bytes


@pytest.mark.parametrize(("c", "o", "size"), [(512, 512, 7), (2048, 512, 4), (160, 320, 7), (3, 40, 5)])
def test_few_pixels_of_many_channels_are_columns_of_a_product(c: int, o: int, size: int) -> None:
    """What windows see is copied, which is less than the weights: these are read once, where they lie."""
    with Table() as t:
        sink = convolution(t, c=c, o=o, size=size)
        actions = offered(sink, V4, "windows as columns")
        scheduled = apply_opts(sink, actions, V4)
    found = [word for word in words(actions) if word.startswith(("join", "stage", "peel"))]
    assert found == ["join", "join", "join", "stage 1"]
    assert local_bytes(scheduled) <= V4.local_bytes


def test_where_pixels_are_as_many_windows_are_no_columns() -> None:
    for c, o, size in ((64, 64, 8), (32, 20, 5), (64, 128, 112)):
        with Table() as t:
            found = rivals(convolution(t, c=c, o=o, size=size), V4, attempts(V4), 1)
        assert "windows as columns" not in {each.name for each in found}


@pytest.mark.parametrize("taps", [3, 5, 7, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_taps_that_a_tile_has_registers_for_are_unrolled(taps: int, stride: int) -> None:
    """Such a tile is chosen for pixels that stay in registers for all taps of a row."""
    with Table() as t:
        o = 32 if taps == 8 else 64  # so that channels are in lanes
        program = program_of(convolution(t, 3, o, 56, taps=taps, stride=stride, pad=taps // 2))
    found: Loop | None = None
    for i in program.body:
        if isinstance(i, Loop):
            found = i
        elif isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float:
            break
    assert found is not None
    assert found.unroll == taps


def test_rows_of_a_depthwise_convolution_share_what_they_load() -> None:
    found = words(chosen(partial(depthwise, c=96, size=56), V4))
    assert found[:4] == ["pad_to 16", "upcast 16", "upcast 8", "unroll 0"]
    with Table() as t:
        body = innermost(program_of(depthwise(t, c=96, size=56)))
    vectors = [
        i
        for i in body
        if isinstance(i, Load) and i.result.dtype.lanes == 16 and "acc" not in str(i.address.dtype)
    ]
    rows = 8
    assert sum(load.gate is not None for load in vectors) <= rows + 2


@pytest.mark.parametrize(("size", "width"), [(20, 32), (32, 32), (40, 48), (56, 16)])
def test_short_rows_of_a_depthwise_convolution_are_in_registers_as_a_whole(size: int, width: int) -> None:
    """Lanes beside the image are known where all vectors of a row are written out."""
    assert f"upcast {width}" in words(chosen(partial(depthwise, c=96, size=size), V4))


def test_channels_between_pixels_of_the_result_are_no_windows_of_the_weights() -> None:
    """A result that is stored as PixelShuffle has it: the image has the windows that overlap."""
    graph = ptir.Graph("f")
    x, w = (
        graph.input("x", ptir.tensor("f32", (8, 32, 32))),
        graph.input("w", ptir.tensor("f32", (4, 8, 3, 3))),
    )
    y = x.reshape((1, 8, 32, 32)).convolution(w, "NCHW", "OIHW", padding=[(1, 1), (1, 1)])
    y = y.reshape((2, 2, 32, 32)).transpose((2, 0, 3, 1)).reshape((64, 64))
    with settings(threads=1):
        steps = compiler.lower(graph.build(y), "x86-64-v4").as_text("schedule")
    assert (
        "upcast(j.outer, 16)  # pixels in lanes" in steps or "upcast(j.outer, 32)  # pixels in lanes" in steps
    )


def test_rows_of_a_copied_image_are_one_vector_after_the_other() -> None:
    """Nothing of a copy is gated, and two vectors of seven rows beside five taps would not fit into registers."""
    graph = ptir.Graph("f")
    x, w = (
        graph.input("x", ptir.tensor("f32", (1, 32, 28, 28))),
        graph.input("w", ptir.tensor("f32", (32, 1, 5, 5))),
    )
    y = x.convolution(w, "NCHW", "OIHW", padding=[(2, 2), (2, 2)], groups=32)
    with settings(threads=1):
        steps = compiler.lower(graph.build(y), "x86-64-v4").as_text("schedule")
    assert "upcast(k, 16)  # pixels in lanes" in steps
    assert "stage(arg1" in steps


def test_rows_of_an_image_of_prime_size_share_what_they_load() -> None:
    """Some rows too many: they are computed, not stored, and what they read is no other element than before."""
    found = words(chosen(partial(depthwise, c=96, size=61), V4))
    assert found[:5] == ["pad_to 16", "upcast 16", "pad_to 8", "upcast 8", "unroll 0"]
    with Table() as t:
        body = innermost(program_of(depthwise(t, c=96, size=61)))
    rows, taps, sums = 8, 3, 8
    vectors = [i for i in body if isinstance(i, Load) and i.result.dtype.lanes == 16]
    assert len(vectors) <= rows + taps - 1 + sums


def test_padding_gates_no_read_that_its_own_gate_keeps_inside() -> None:
    def gates(sink: UOp, axis: int) -> int:
        padded = apply_opts(sink, [Action(ActionKind.PADTO, axis, 8)], SCALAR)
        longer = {r for r in axes_of(padded) if r.vmax + 1 == 8}
        places = [n for n in padded.toposort() if n.op is Ops.INDEX and n.src[1].op is Ops.WHERE]
        return sum(
            c.op is Ops.CMPLT and c.src[0] in longer for n in places for c in n.src[1].src[0].toposort()
        )

    with Table() as t:
        assert gates(convolution(t, size=5), 1) == 1  # the store alone
        assert gates(pooling(t), 1) == 2  # nothing else keeps the window from running over the end
        assert gates(convolution(t, size=5, o=5), 0) == 2  # weights are read without a gate of their own


def _given(actions: Sequence[actions_base.Action], kernel: UOp) -> Sequence[actions_base.Action]:
    return actions


def test_a_row_alone_is_computed_in_several_vectors() -> None:
    """A filter of many taps and one channel: every element is read again and again, and there are sums enough to hide each other."""
    for template in ("pixels in lanes", "lanes"):
        with Table() as t:
            sink = filtered(t, size=4000, taps=256)
            actions = offered(sink, V4, template)
            machine = Machine(V4, partial(_given, actions))
            body = innermost(lower("kernel", run(sink, machine)))
        sums = [i for i in body if isinstance(i, Compute) and i.op is Ops.MULACC]
        assert sum(i.result.dtype.lanes == 16 for i in sums) >= 4, template


def test_sums_over_images_are_made_in_passes_of_register_tiles() -> None:
    """The gradient by the weights: channels in lanes, taps in registers, a part of the images at a time."""
    for stride in (1, 2):
        found = words(chosen(partial(by_weights, n=16, c=64, o=64, size=56, stride=stride), V4))
        assert "upcast 32" in found
        assert found.count("upcast 3") == 2
        assert any(each.startswith("block") for each in found)
        assert [each for each in found if each.startswith("stage")] == ["stage 2", "stage 1"]
    with Table() as t:
        body = innermost(program_of(by_weights(t, n=16, c=64, o=64, size=56)))
    assert all(load.gate is None for load in body if isinstance(load, Load))
    products = [i for i in body if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float]
    assert len(products) == 18


def test_passes_are_cut_along_two_axes_where_one_image_is_too_large() -> None:
    two_cores = replace(V4, workers=2)  # (of more, most would be idle: there are two pieces)
    found = words(chosen(partial(by_weights, n=4, c=3, o=64, size=224), two_cores))
    assert sum(each.startswith("block") for each in found) == 2
    assert "stage 2" in found


def test_taps_of_a_depthwise_gradient_share_whole_rows() -> None:
    found = words(chosen(partial(depthwise_by_weights, c=96, size=28), V4))
    assert found[:3] == ["upcast 3", "upcast 3", "stage 1"]
    assert "accumulators 16" in found
    with Table() as t:
        body = innermost(program_of(depthwise_by_weights(t, c=96, size=28)))
    products = [i for i in body if isinstance(i, Compute) and i.op is Ops.MULACC and i.result.dtype.is_float]
    loads = [i for i in body if isinstance(i, Load) and i.result.dtype.lanes == 16]
    assert len(products) == 9
    assert len(loads) == 9 + 9 + 1  # sums, taps, and what they share: nothing is shifted in registers


def test_sums_over_two_axes_are_products_of_matrices() -> None:
    found = words(chosen(partial(summed_twice, n=16, o=128, c=64, size=784), V4))
    assert "upcast 32" in found
    assert "upcast 13" in found
    assert "stage 1" in found


def test_phases_are_stored_together() -> None:
    found = words(chosen(partial(spread, c=3, o=64, size=112), V4))
    assert found[:3] == ["stage 1", "upcast 16", "stage 2"]
    assert {"upcast 3", "upcast 2"} <= set(found)


def test_several_results_of_a_convolution_share_its_tile() -> None:
    found = words(chosen(partial(two_results, c=32, o=64, size=8), V4))
    assert "upcast 32" in found
    assert [each for each in found if each.startswith("stage")] == ["stage 2", "stage 1"]


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
    "depthwise, two vectors a row": partial(depthwise, c=1, size=20),
    "pooling": pooling,
    "by weights": by_weights,
    "by weights, strided": partial(by_weights, stride=2, size=5, o=17, n=1),
    "by weights, depthwise": depthwise_by_weights,
    "summed twice": summed_twice,
    "phases": spread,
    "two results": two_results,
    "filtered": filtered,
    "filtered often": partial(filtered, size=70, taps=130, stride=2),
    "depthwise of prime size": partial(depthwise, c=1, size=11),
    "more channels than pixels": partial(convolution, c=3, o=40, size=5),
    "more channels than pixels, strided and dilated": partial(
        convolution, c=2, o=40, size=9, stride=2, dilation=2, pad=2
    ),
    "more channels than pixels, unpadded": partial(convolution, c=5, o=33, size=6, pad=0),
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


@pytest.mark.parametrize("blocks", [(2,), (1,), (2, 2), (1, 1), (1, 2, 1)])
def test_passes_along_several_axes_add_up(blocks: tuple[int, ...]) -> None:
    """BLOCK once for each reduced axis, by some or by one: what is stored is the whole sum, and what follows it is done once."""
    build = partial(by_weights, n=4, o=3, size=4)

    def steered(sink: UOp) -> list[Action]:
        actions: list[Action] = []
        for amount, axis in zip(blocks, (4, 5, 6), strict=False):
            axes = axes_of(apply_opts(sink, actions, SCALAR))
            number = next(k for k, r in enumerate(axes) if cast("Axis", r.arg).path == (axis,))
            actions.append(Action(ActionKind.BLOCK, number, amount))
        return actions

    def made(choice: Callable[[UOp], Sequence[Action]]) -> dict[int, Array]:
        with Table() as t:
            sink = build(t)
            (end,) = sink.src
            store, *axes = end.src
            sink = t.sink(store.src[0].store(store.src[1] * 2.0 + 1.0).end(*axes))
            buffers = buffers_of(sink)
            program = lower("kernel", run(sink, Machine(SCALAR, choice)))
        interpret(program, [buffers[int(param.name.removeprefix("arg"))] for param in program.params], {})
        return buffers

    expected, found = made(lambda _: ()), made(steered)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)


# -- and is the best of several --------------------------------------------------------------------------------------


def test_few_channels_go_where_lanes_are_full() -> None:
    """20 channels leave twelve lanes of 32 empty, rows of 64 pixels none; 64 channels leave none either."""
    assert "channels in lanes" in _reasons(partial(convolution, c=20, o=64, size=32))
    assert "pixels in lanes" in _reasons(partial(convolution, c=20, o=20, size=64))


def _reasons(build: Build) -> str:
    with Table() as t:
        return "; ".join(drafted(build(t), V4, attempts(V4)).reasons)


def test_a_schedule_near_the_limit_has_no_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted are estimates: one where channels fill their vectors, one for each nest where they do not."""
    seen: list[float] = []

    def counted(*args: Any, **how: Any) -> Estimate:
        found = estimate(*args, **how)
        seen.append(found.cycles)
        return found

    monkeypatch.setattr(templates, "estimate", counted)
    for o, expected in ((64, 1), (20, 2)):
        seen.clear()
        with Table() as t:
            choose(convolution(t, c=64, o=o, size=28), V4, attempts(V4), cores=False)
        assert len(seen) == expected


def test_a_template_that_fails_leaves_no_trace() -> None:
    with Table() as t:
        sink = convolution(t, c=4, o=32, size=16)
        draft, view = Draft(sink, V4, attempts(V4)), Nest.of(sink)

        def half(trial: Draft, view: Nest) -> bool:
            assert trial.take(Upcast, view.outputs[0], 2)
            trial.cores = False
            return False

        assert not templates.choose_best(draft, view, [templates.only("half", half)] * 2)
        assert (draft.sink, draft.actions, draft.reasons, draft.upcast, draft.cores) == (
            sink,
            [],
            [],
            {},
            True,
        )


def test_templates_offer_what_choosing_then_ranks() -> None:
    """Several schedules of one kernel, with estimates, no two the same; what is chosen is none that costs much more than another."""
    for build in (partial(convolution, c=20, o=20, size=30), partial(filtered, size=4000, taps=256)):
        with Table() as t:
            sink = build(t)
            found = rivals(sink, V4, attempts(V4), V4.workers)
            taken = tuple(choose(sink, V4, attempts(V4)))
        assert len({each.actions for each in found}) == len(found) > 1
        assert [each.cost.cycles for each in found] == sorted(each.cost.cycles for each in found)
        (mine,) = [each for each in found if each.actions == taken]
        assert 0.9 * mine.cost.cycles <= found[0].cost.cycles


def test_no_schedule_is_cheaper_than_the_bound_that_ends_the_comparing() -> None:
    for build in CORPUS.values():
        with Table() as t:
            sink = build(t)
            for each in rivals(sink, V4, attempts(V4), 1):
                assert each.cost.cycles >= 0.99 * least_cycles(Nest.of(sink), V4), each.name


def test_the_cheapest_of_several_is_taken() -> None:
    with Table() as t:
        sink = convolution(t, c=4, o=32, size=16)
        draft, view = Draft(sink, V4, attempts(V4), cores=False), Nest.of(sink)

        def lanes(count: int) -> templates.Template:
            return templates.only(f"{count}", lambda trial, view: trial.take(Upcast, view.outputs[-1], count))

        assert templates.choose_best(draft, view, [lanes(2), lanes(16), lanes(4)])
        assert str(draft.actions[-1]).endswith(" 16)")
