"""GPU templates: each kind of kernel gets its own, and what it computes is what it computed before, in both interpreters."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, dtypes
from planish.actions.base import Refusal
from planish.actions.claim import Claim
from planish.actions.group import Group
from planish.compiler.grids import grid_of
from planish.config import settings
from planish.dtypes import AddrSpace
from planish.llir.interpret import interpret
from planish.llir.program import Deal
from planish.ptir.builder import Graph
from planish.ptir.types import TensorType
from planish.stages import pipeline
from planish.target import TARGETS

RNG = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


EXTREMES = np.array(
    [
        [1, 3, 3, -2],
        [-0.0, 0, -0.0, 0],
        [0, -0.0, -1, -1],
        [2, np.nan, 9, np.nan],
        [-np.inf, np.inf, np.inf, -np.inf],
        [-1, -3, -3, -2],
    ],
    np.float32,
)


def layer_norm(x: Any) -> Any:
    mean = pn.mean(x, axis=1, keepdims=True)
    return (x - mean) / pn.sqrt(pn.mean((x - mean) ** 2, axis=1, keepdims=True) + 1e-5)


CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "row sums": (lambda x: pn.sum(pn.exp(x), axis=1), (data(4, 512),), "unroll(j, 4); group(j.outer, 64)"),
    "softmax": (pn.nn.softmax, (data(4, 256),), "group("),
    "softmax of an odd length": (pn.nn.softmax, (data(4, 500),), "pad_to("),
    "softmax of few": (pn.nn.softmax, (data(6, 40),), "local("),
    "normalisation": (layer_norm, (data(4, 384),), "group("),
    "normalisation of short rows": (layer_norm, (data(8, 96),), "group(l.outer, 8); "),
    "softmax of odd short rows": (pn.nn.softmax, (data(24, 49),), "group(k, 8); "),
    "sums of few columns": (lambda x: pn.sum(x, axis=0), (data(128, 72),), "local(i, 24); group(j, 32)"),
    "short sums of few columns": (
        lambda x: pn.sum(x, axis=1),
        (data(2, 49, 40),),
        "local(j, 40); pad_to(k, ",
    ),
    "column sums": (lambda x: pn.sum(x, axis=0), (data(128, 64),), "local(i, 32); group(j, 32)"),
    "two sums of columns": (
        lambda x: (pn.sum(x, axis=0), pn.sum(x * x, axis=0)),
        (data(128, 64),),
        "local(i, 32); group(j, 32)",
    ),
    "groups of channels": (
        lambda x: pn.nn.group_norm(pn.transpose(x, (0, 3, 1, 2)), 2),
        (data(2, 17, 19, 8),),
        "local(j, 8); pad_to(k, 32); group(k, 32); unroll(k, 4); upcast(i, 4)",
    ),
    "odd columns": (lambda x: pn.sum(x, axis=0), (data(90, 35),), "local("),
    "matrix times vector": (lambda a, x: a @ x, (data(16, 256), data(256)), "group("),
    "product": (
        lambda a, b: a @ b,
        (data(32, 32), data(32, 64)),
        "stage(arg1, at=k.outer, buffers=2, pad=4, turned=true)",
    ),
    "product with a transposed operand": (
        lambda a, b: a.T @ b.T,
        (data(32, 32), data(64, 32)),
        "stage(arg1, at=k.outer, buffers=2); stage(arg2, at=k.outer, buffers=2, pad=4, turned=true)",
    ),
    "odd product": (lambda a, b: pn.tanh(a @ b), (data(33, 19), data(19, 21)), "buffers=2"),
    "products": (lambda a, b: a @ b, (data(2, 32, 32), data(2, 32, 32)), "stage(arg2, at="),
    "small product": (lambda a, b: a @ b, (data(20, 12), data(12, 24)), "local("),
    "transpose": (lambda x: x.T + 1.0, (data(64, 128),), "stage(arg1, at="),
    "odd transpose": (lambda x: x.T + 1.0, (data(50, 35),), "local("),
    "elements": (lambda x: x * 2.0 + 1.0, (data(32, 48),), "upcast("),
    "argmax": (lambda x: pn.argmax(x, axis=1), (data(3, 128),), "group("),
    "argmax of columns": (lambda x: pn.argmax(x, axis=0), (data(128, 64),), "group("),
    "argmax of ties, zeros of both signs, infinities and NaN": (
        lambda x: pn.argmax(x, axis=1),
        (EXTREMES,),
        "",
    ),
    "argmin of ties, zeros of both signs, infinities and NaN": (
        lambda x: pn.argmin(x, axis=1),
        (EXTREMES,),
        "",
    ),
    "argmin of unsigned": (
        lambda x: pn.argmin(x, axis=1),
        (np.array([[7, 2**32 - 1, 0, 0], [2**31, 1, 1, 5]], np.uint32),),
        "",
    ),
    "scan": (lambda x: pn.cumulative_sum(x, axis=1), (data(8, 20),), ""),
    "scan of rows": (
        lambda x: pn.cumulative_sum(x, axis=1),
        (data(4, 512),),
        "prefix(j, 4); relay(j.outer, 32); local(i, 4)",
    ),
    "scan of odd rows": (lambda x: pn.cumulative_sum(x * 2.0, axis=1), (data(3, 1000),), "relay("),
    "scan of products": (lambda x: pn.cumulative_prod(x * 0.2 + 1.0, axis=1), (data(2, 256),), "relay("),
    "scan of extrema": (lambda x: pn.cumulative_max(x, axis=1), (data(2, 256),), "relay("),
    "scan of logarithms": (lambda x: pn.cumulative_logsumexp(x, axis=1), (data(2, 256),), ""),
    "scan from the end": (
        lambda x: pn.flip(pn.cumulative_sum(pn.flip(x, axis=1), axis=1), axis=1),
        (data(2, 256),),
        "relay(",
    ),
    "scan of short rows": (lambda x: pn.cumulative_sum(x, axis=1), (data(70, 64),), "relay("),
    "scan of columns": (lambda x: pn.cumulative_sum(x, axis=0), (data(40, 256),), "local("),
    "gather": (lambda x, i: pn.take(x, i, axis=0), (data(9, 32), np.array([3, 1, 8])), "local("),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
def test_templates(name: str, target: str) -> None:
    function, arrays, expected = CASES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert expected in said
    wanted = compiler.compile(traced)(*arrays)
    for found, exact in zip(lowered.interpreted()(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=2e-5, atol=2e-5)


VECTORS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "scores of one query": (
        lambda q, k: q @ pn.matrix_transpose(k),
        (data(2, 1, 64), data(2, 127, 64)),
        "pad_to(j, 32); unroll(k, 4); upcast(j, 4); group(k.outer, 16); local(j.outer, 8)",
    ),
    "values of one query": (
        lambda w, v: w @ v,
        (data(64, 1, 256), data(64, 256, 64)),
        "upcast(j, 4); local(j.outer, 16); unroll(k, 4); group(k.outer, 32)",
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_one_query_reads_keys_and_values_sixteen_bytes_at_a_time(name: str) -> None:
    function, arrays, expected = VECTORS[name]
    lowered = compiler.lower(pn.jit(function).lower(*map(pn.asarray, arrays)).function, "sm_90")
    assert "; ".join(str(action) for choice in lowered.choices for action in choice.actions) == expected
    few = [x[:2] for x in arrays]  # of which the same schedule does the same
    with settings(schedule=expected):
        lowered = compiler.lower(pn.jit(function).lower(*map(pn.asarray, few)).function, "sm_90")
    (found,) = lowered.interpreted()(*few)
    np.testing.assert_allclose(found, np.asarray(function(*map(pn.asarray, few))), rtol=1e-4, atol=1e-4)


def test_values_that_heads_share_are_read_once() -> None:
    shapes = ((8, 32, 1, 128), (8, 8, 4096, 128), (8, 8, 4096, 128))
    specs = [pn.TensorSpec(shape, pn.bfloat16) for shape in shapes]
    traced = pn.jit(pn.nn.scaled_dot_product_attention).lower(*specs).function
    *_, values = compiler.lower(traced, "sm_90").choices
    assert "split(i, 4); pad_to(i.inner, 8); tensor_core(" in "; ".join(map(str, values.actions))


def test_few_queries_over_long_keys_share_them_out() -> None:
    """Otherwise as many multiprocessors work as there are heads."""
    specs = [pn.TensorSpec((1, 32, n, 128), pn.bfloat16) for n in (1, 32768, 32768)]
    traced = pn.jit(pn.nn.scaled_dot_product_attention).lower(*specs).function
    *_, values, together = compiler.lower(traced, "sm_90").plan.kernels
    assert values.name.startswith("reduce_8x32x128")
    assert together.name.startswith("reduce_32x128")


@pytest.mark.parametrize("axes", [pytest.param((2, 3), marks=pytest.mark.slow), (0, 2, 3)])
def test_pixels_of_a_convolution_are_summed_up_by_channel(axes: tuple[int, ...]) -> None:
    """Channels lie last there: the sum over pixels is one of columns, in a kernel of its own, whatever becomes of the sums."""
    plain = TARGETS["sm_90"]
    target = replace(plain, parts=replace(plain.parts, channels_last=1))
    graph = Graph("sums")
    x = graph.input("x", TensorType(dtypes.float32, (2, 4, 12, 12)))
    w = graph.input("w", TensorType(dtypes.float32, (32, 4, 3, 3)))
    image = x.convolution(w)
    sums = image.reduce_sum(list(axes), True)
    groups = sums.reshape((-1, 4, 8)).reduce_sum([2])
    traced = graph.build(groups, image.sub(sums.broadcast_to(image.dims)))
    arrays = data(2, 4, 12, 12), data(32, 4, 3, 3)
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    assert "group(" in "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    for found, exact in zip(lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)


def widened(w: Any, scale: Any, group: int) -> Any:
    """Weights that are stored as bytes, with a scale for each group of neighbours."""
    rows, depth = w.shape
    wide = (w.astype(pn.float16) - 7.0).reshape(rows, depth // group, group) * scale[:, :, None]
    return wide.reshape(rows, depth)


def unpacked(w: Any) -> Any:
    """Two numbers of four bits for each byte."""
    rows, depth = w.shape
    return pn.stack([w & 15, w >> 4], axis=2).reshape(rows, 2 * depth)


STORED: dict[str, tuple[Any, int, int, Any, str]] = {
    "bytes, one row": (
        lambda w: w,
        1,
        512,
        np.uint8,
        "spare(8); tensor_core(mma_m16n8k16_f16_f32, i, k, j, run=4); unroll(j.outer, 4); group(j.outer.outer, 8)",
    ),
    "bytes, three rows": (lambda w: w, 3, 512, np.uint8, "pad_to(i, 8); tensor_core("),
    "signed bytes": (lambda w: w, 1, 512, np.int8, "run=4"),
    "half bytes, one row": (unpacked, 1, 1024, np.uint8, "join(j.outer, j.inner); tensor_core("),
    "half bytes, two rows": (unpacked, 2, 1024, np.uint8, "j, i, k.outer, run=8"),
    "half bytes, sixteen rows, two": (unpacked, 16, 1024, np.uint8, "run=8, apart=4); unroll("),
    "bytes through a ring": (
        lambda w: w,
        1,
        2048,
        np.uint8,
        "stage(arg2, at=j.outer.outer.outer, buffers=3, pad=64)",
    ),
    "bytes and rows through a ring": (
        lambda w: w,
        5,
        2048,
        np.int8,
        "buffers=2, pad=64); stage(arg1, at=k.outer.outer.outer, buffers=2, swizzle=128)",
    ),
    "half bytes and rows through a ring": (
        unpacked,
        11,
        2048,
        np.uint8,
        "buffers=2, pad=64); stage(arg1, at=k.outer.outer.outer.outer, buffers=2, swizzle=128)",
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "two" in name else []) for name in STORED]
)
def test_few_rows_of_stored_weights(name: str) -> None:
    unpack, rows, depth, kind, expected = STORED[name]
    w = RNG.integers(0 if kind is np.uint8 else -128, 256 if kind is np.uint8 else 128, (64, depth)).astype(
        kind
    )
    x, packed = data(rows, depth).astype(np.float16), w[:, : depth // (2 if unpack is unpacked else 1)]
    scale = (RNG.random((64, depth // 64)) * 0.1).astype(np.float16)

    def product(x: Any, w: Any, s: Any) -> Any:
        return x @ widened(unpack(w), s, 64).T

    arrays = (x, packed, scale)
    traced = pn.jit(product).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    assert expected in "; ".join(str(action) for action in lowered.choices[0].actions)
    (found,) = lowered.interpreted()(*arrays)
    whole = packed if unpack is not unpacked else np.stack([packed & 15, packed >> 4], 2).reshape(64, depth)
    weights = ((whole.astype(np.float16) - np.float16(7)) * np.repeat(scale, 64, 1)).astype(np.float64)
    want = x.astype(np.float64) @ weights.T
    assert np.linalg.norm(found.astype(np.float64) - want) < 1e-3 * np.linalg.norm(want)
    ptx = lowered.as_text("ptx")
    assert not re.search(r"cvt\.rn\.f(16|32)\.[us]", ptx)  # bytes are widened two at a time, by moving bits
    taken = ptx.count("sub.rn.f16x2") + ptx.count("fma.rn.f16x2")
    assert taken == ptx.count("mul.rn.f16x2") > 0  # what makes them whole is taken off with the zero point
    assert ("cp.async.cg.shared.global" if "stage(" in expected else "ld.global.nc.v4.u32") in ptx
    assert ".local" not in ptx


def test_many_columns_share_what_is_read_of_many_rows() -> None:
    """Each thread fetches its weights itself; the same schedule for fewer columns computes the same."""

    def traced(columns: int, depth: int) -> Any:
        def product(x: Any, w: Any, s: Any) -> Any:
            return x @ widened(unpacked(w), s, 32).T

        shapes = ((16, depth), (columns, depth // 2), (columns, depth // 32))
        kinds = (pn.float16, pn.uint8, pn.float16)
        return pn.jit(product).lower(*map(pn.TensorSpec, shapes, kinds)).function

    actions = "; ".join(map(str, compiler.lower(traced(14336, 2048), "sm_90").choices[0].actions))
    assert "upcast(j.outer, 2)" in actions
    assert actions.endswith(
        "group(k.outer.outer.outer, 4); stage(arg2, at=k.outer.outer.outer.outer, buffers=2, own=true)"
    )
    with settings(schedule=actions, check="spec"):
        lowered = compiler.lower(traced(32, 2048), "sm_90")
    ptx = lowered.as_text("ptx")
    assert ".local" not in ptx
    assert ptx.count("bar.sync") == 1  # for the sums that warps share
    w, x = RNG.integers(0, 256, (32, 1024)).astype(np.uint8), data(16, 2048).astype(np.float16)
    scale = (RNG.random((32, 64)) * 0.1).astype(np.float16)
    (found,) = lowered.interpreted()(x, w, scale)
    whole = np.stack([w & 15, w >> 4], 2).reshape(32, 2048).astype(np.float16)
    weights = ((whole - np.float16(7)) * np.repeat(scale, 32, 1)).astype(np.float64)
    want = x.astype(np.float64) @ weights.T
    assert np.linalg.norm(found.astype(np.float64) - want) < 1e-3 * np.linalg.norm(want)


def test_stored_weights_in_float32_are_widened_without_a_conversion() -> None:
    specs = (
        pn.TensorSpec((1, 512), pn.float32),
        pn.TensorSpec((64, 512), pn.uint8),
        pn.TensorSpec((64, 8), pn.float32),
    )
    traced = pn.jit(lambda x, w, s: x @ (w.astype(pn.float32) - 7.0 * s[:, :1]).T).lower(*specs).function
    assert "cvt.rn.f32" not in compiler.lower(traced, "sm_90").as_text("ptx")


N = pn.Dim("n", 1, 5000)
NAMED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "elements": (lambda x: pn.tanh(x) * 2.0, (N,), "pad_to(i, 256); local(i, 256)"),
    "elements of rows": (
        lambda x: pn.tanh(x) * 2.0,
        (N, 8),
        "upcast(i, 4); pad_to(i.outer, 256); local(i.outer, 256)",
    ),
    "rows": (pn.nn.softmax, (N, 64), "group("),
    "softmax": (pn.nn.softmax, (3, N), "pad_to(k, 256); group(k, 256)"),
    "sums": (lambda x: pn.sum(x, axis=1), (3, N), "pad_to(j, 256); group(j, 256)"),
    "column sums": (lambda x: pn.sum(x, axis=0), (N, 64), "pad_to(j, 32); group(j, 32)"),
    "scan": (lambda x: pn.cumulative_sum(x, axis=1), (N, 128), "relay("),
    "transpose": (lambda x: x.T + 1.0, (N, 16), "local("),
}


@pytest.mark.parametrize("name", NAMED)
def test_sizes_that_are_told_when_the_code_runs_have_whole_blocks(name: str) -> None:
    function, dims, expected = NAMED[name]
    traced = pn.jit(function).lower(pn.TensorSpec(dims, pn.float32)).function
    lowered = compiler.lower(traced, "sm_90")
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert expected in said
    assert all(np.prod(grid_of(program).threads) >= 32 for program in lowered.programs)
    exact = compiler.compile(traced)
    for n in (1, 5, 300):
        x = data(*(n if dim is N else dim for dim in dims))
        for found, wanted in zip(lowered.interpreted()(x), exact(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("columns", [1024, 4096, 16384, 32768])
def test_rows_up_to_what_shared_memory_holds_are_one_kernel(columns: int) -> None:
    traced = pn.jit(pn.nn.softmax).lower(pn.TensorSpec((64, columns), pn.float32)).function
    (program,) = compiler.lower(traced, "sm_90").programs
    assert sum(b.nbytes for b in program.locals if b.space.name == "LOCAL") <= 227 << 10
    threads = np.prod(grid_of(program).threads)
    assert threads >= min(columns // 8, 1024)


def test_rows_beyond_that_are_several_kernels() -> None:
    traced = pn.jit(pn.nn.softmax).lower(pn.TensorSpec((64, 1 << 17), pn.float32)).function
    for program in compiler.lower(traced, "sm_80").programs:
        assert sum(b.nbytes for b in program.locals if b.space.name == "LOCAL") <= 163 << 10


SPLIT: dict[str, tuple[Any, Any, int]] = {
    "scan of one row": (lambda x: pn.cumulative_sum(x, axis=0), data(512), 3),
    "narrow scan": (lambda x: pn.cumulative_sum(x.astype(pn.bfloat16), axis=0), data(512), 3),
    "scan that something is made of": (lambda x: pn.cumulative_sum(x, axis=1) * 2.0, data(2, 512), 4),
    "parts of parts": (lambda x: pn.cumulative_sum(x, axis=0), data(1 << 12), 5),
    "no equal parts": (lambda x: pn.cumulative_prod(x * 0.01 + 1.0, axis=0), data(509), 4),
    "extrema": (lambda x: pn.cumulative_max(x, axis=0), data(512), 3),
    "products": (lambda x: pn.cumulative_prod(x * 0.1 + 1.0, axis=0), data(512), 3),
    "scan of columns": (lambda x: pn.cumulative_sum(x, axis=0), data(64, 32), 3),
    "column sums": (lambda x: pn.sum(x, axis=0), data(256, 32), 2),
    "column sums over two axes": (lambda x: pn.sum(x, axis=(0, 1)), data(8, 32, 32), 2),
    "column sums over axes apart": (lambda x: pn.sum(x, axis=(0, 2)), data(2, 3, 128, 32), 2),
    "two column sums": (lambda x: (pn.sum(x, axis=(0, 1)), pn.sum(x * x, axis=(0, 1))), data(8, 32, 32), 2),
}


@pytest.mark.parametrize("name", SPLIT)
def test_long_scans_and_few_columns_are_made_in_parts(name: str) -> None:
    plain = TARGETS["sm_90"]
    parts = replace(plain.parts, short_scan=60, column_scan=16, column_terms=32)
    target = replace(plain, part_worth=2**-16, parts=parts)
    function, x, kernels = SPLIT[name]
    traced = pn.jit(function).lower(pn.asarray(x)).function
    lowered = compiler.lower(traced, target)
    assert len(lowered.programs) == kernels
    close = 2e-2 if name == "narrow scan" else 2e-5
    exact = pn.jit(function).lower(pn.asarray(x.astype(np.float64))).function
    for found, wanted in zip(
        lowered.interpreted()(x), compiler.compile(exact)(x.astype(np.float64)), strict=True
    ):
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=close, atol=close
        )


@pytest.mark.parametrize("named", [1, 37, 128, 1000])
def test_sums_of_so_many_elements_as_are_told_are_made_by_many_blocks(named: int) -> None:
    target = replace(TARGETS["sm_90"], workers=4, part_worth=2**-16)
    for function, dims in (
        (lambda x: pn.sum(x * 2.0), (N,)),
        (lambda x: pn.max(x), (N,)),
        (lambda x: pn.sum(x, axis=1), (2, N)),
    ):
        traced = pn.jit(function).lower(pn.TensorSpec(dims, pn.float32)).function
        lowered = compiler.lower(traced, target)
        assert len(lowered.programs) == 2
        x = data(*(dim if isinstance(dim, int) else named for dim in dims))
        (found,) = lowered.interpreted()(x)
        (wanted,) = compiler.compile(traced)(x)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


COLUMN_SCANS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "sums": (
        lambda x: pn.cumulative_sum(x, axis=0),
        (data(64, 32),),
        "local(i, 32); prefix(j, 32); stage(arg1, at=j.outer, buffers=11)",
    ),
    "narrow": (lambda x: pn.cumulative_sum(x.astype(pn.bfloat16), axis=0), (data(24, 32),), "stage(arg1, "),
    "odd": (lambda x: pn.cumulative_sum(x, axis=0), (data(23, 60),), "pad_to(j, 8); pad_to(i, 64)"),
    "from the end": (
        lambda x: pn.flip(pn.cumulative_sum(pn.flip(x, axis=0), axis=0), axis=0),
        (data(24, 32),),
        "stage(arg1, ",
    ),
    "extrema": (lambda x: pn.cumulative_max(x, axis=0), (data(24, 32),), "stage(arg1, "),
    "of two": (lambda x, y: pn.cumulative_sum(x * y, axis=0), (data(24, 32), data(24, 32)), "stage(arg2, "),
    "in the middle": (lambda x: pn.cumulative_sum(x, axis=1), (data(2, 24, 32),), "stage(arg1, "),
}


@pytest.mark.parametrize("name", COLUMN_SCANS)
def test_columns_are_scanned_in_one_pass_that_fetches_ahead(name: str) -> None:
    function, arrays, expected = COLUMN_SCANS[name]
    target = replace(TARGETS["sm_90"], workers=1)
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, target)
    (choice,) = lowered.choices
    assert expected in "; ".join(str(action) for action in choice.actions)
    close = 2e-2 if name == "narrow" else 2e-5
    (wanted,) = compiler.compile(traced)(*arrays)
    (found,) = lowered.interpreted()(*arrays)
    turned = np.zeros(
        wanted.size, wanted.dtype
    )  # a barrier that is missing shows where threads take turns the other way round
    interpret(lowered.programs[0], [turned, *(x.reshape(-1) for x in arrays)], reverse=True)
    np.testing.assert_array_equal(turned.reshape(wanted.shape), found)
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=close, atol=close)
    assert ".local" not in lowered.as_text("ptx")


NARROW: dict[str, tuple[Any, bool]] = {
    "softmax": (pn.nn.softmax, True),
    "sigmoid": (lambda x: 1.0 / (1.0 + pn.exp(-x)), True),
    "gelu": (lambda x: 0.5 * x * (1.0 + pn.erf(x * 0.70710678)), True),
    "silu": (lambda x: x / (1.0 + pn.exp(-x)), True),
    "difference": (lambda x: pn.exp(x) - 1.0, False),
    "logarithm": (lambda x: pn.log(1.0 + pn.exp(x)), False),
    "two results": (lambda x: (pn.exp(x), pn.exp(x).astype(pn.float32)), False),
}


@pytest.mark.parametrize("name", NARROW)
def test_exponentials_that_are_rounded_to_16_bits_are_estimates(name: str) -> None:
    function, estimated = NARROW[name]

    def rounded(x: Any) -> Any:
        made = function(x.astype(pn.float32))
        return made if isinstance(made, tuple) else made.astype(pn.bfloat16)

    x = data(4, 256)
    traced = pn.jit(rounded).lower(pn.TensorSpec((4, 256), pn.bfloat16)).function
    lowered = compiler.lower(traced, "sm_90")
    assert ("exp2_estimate_f32" in lowered.as_text("cuda")) is estimated
    given = x.astype(pn.bfloat16.numpy)
    for found, wanted in zip(lowered.interpreted()(given), compiler.compile(traced)(given), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2)


ESTIMATED: dict[str, tuple[Any, Any]] = {
    "1 + erf": (lambda x: 1.0 + pn.erf(x), lambda x: math.erfc(-x)),
    "quotient": (lambda x: 3.0 / (pn.exp(x) + 1.0), lambda x: 3.0 / (math.exp(x) + 1.0)),
}


@pytest.mark.parametrize("name", ESTIMATED)
def test_estimates_are_off_by_less_than_rounding_hides(name: str) -> None:
    """A part in 2**16 of the value, also where it is close to nothing: 16 bits of it are right to their last place."""
    function, exact = ESTIMATED[name]
    x = np.concatenate([np.linspace(-9, 9, 4001), [-0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    traced = pn.jit(lambda x: function(x).astype(pn.float16)).lower(pn.asarray(x)).function
    lowered = compiler.lower(traced, "sm_90")
    text = lowered.as_text("cuda")
    assert "erf" not in text
    assert " / " not in text
    (found,) = lowered.interpreted()(x)
    wanted = np.array([exact(float(each)) if abs(each) < 50 else np.nan for each in x])
    inner = np.isfinite(wanted)
    with np.errstate(over="ignore"):
        last = np.spacing(wanted[inner].astype(np.float16)).astype(np.float64)
    assert (
        np.abs(found[inner].astype(np.float64) - wanted[inner])
        <= 0.51 * last + 2.0**-16 * np.abs(wanted[inner])
    ).all()
    assert np.isnan(found[-1])


def test_schedules_that_want_too_much_shared_memory_are_refused() -> None:
    traced = pn.jit(pn.nn.softmax).lower(pn.TensorSpec((64, 32768), pn.float32)).function
    (kernel,) = compiler.lower(traced, "sm_90").schedule.kernels
    target = TARGETS["sm_90"]
    machine = pipeline.Machine(target, lambda sink: [Group("l", 32, contiguous=True)])
    with pytest.raises(Refusal, match="262272 bytes of LOCAL memory are more than 231424"):
        pipeline.run(kernel.sink, machine)


LISTED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "rows": (
        lambda i, x: pn.zeros((100, 32)).at[i].add(x),
        (RNG.integers(-100, 100, 40), data(40, 32)),
        "local(j, 32); claim(i, 64)",
    ),
    "short rows": (
        lambda i, x: pn.zeros((100, 6)).at[i].add(x),
        (RNG.integers(-100, 100, 40), data(40, 6)),
        "pad_to(j, 32); local(j, 32); claim(i, 64)",
    ),
    "rows, the last of which counts": (
        lambda i, x: pn.zeros((100, 32)).at[i].set(x),
        (RNG.integers(0, 20, 40), data(40, 32)),
        "claim(i, 64)",
    ),
    "sums of rows": (
        lambda i, x: pn.zeros((100, 32)).at[i].add(pn.sum(x, axis=0)),
        (RNG.integers(0, 100, 40), data(3, 40, 32)),
        "unroll(k, 3); ",
    ),
    "rows, and places in them": (
        lambda i, j, x: pn.zeros((40, 30, 8)).at[i[:, None], j[None, :]].add(x),
        (RNG.integers(0, 40, 40), RNG.integers(0, 30, 33), data(40, 33, 8)),
        "claim(i, 32)",
    ),
    "elements": (
        lambda i: pn.zeros((300,), dtype=pn.int32).at[i].add(1),
        (RNG.integers(0, 300, 40),),
        "claim(i, 1, voters=32)",
    ),
    "a short list": (lambda i, x: pn.zeros((100, 32)).at[i].add(x), (np.arange(8), data(8, 32)), "local("),
}


@pytest.mark.parametrize("name", LISTED)
def test_blocks_claim_rows_that_data_chooses(name: str) -> None:
    function, arrays, expected = LISTED[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert expected in said
    assert ("claim(" in said) is (name != "a short list")
    (found,), (wanted,) = lowered.interpreted()(*arrays), compiler.compile(traced)(*arrays)
    if name == "sums of rows":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)  # the order of each row is that of the list


def test_threads_vote_on_lists() -> None:
    """Where whole warps agree on which rows are theirs, each thread looks at an entry."""
    for name, (function, arrays, _) in LISTED.items():
        lowered = compiler.lower(pn.jit(function).lower(*map(pn.asarray, arrays)).function, "sm_90")
        text = lowered.as_text("cuda")
        assert ("__ballot_sync" in text) is (name not in {"a short list", "rows, and places in them"}), name


def test_sums_of_channels_are_cut_where_channels_lie_together() -> None:
    """A gradient of a bias below a norm: images have their channels last, though their second axis is said."""

    def slopes(x: Any, mean: Any, scale: Any) -> Any:
        turned = pn.permute_dims(x.astype(pn.float32) * scale - mean[..., None], (0, 3, 1, 2))
        return pn.sum(turned * pn.exp(mean)[:, None], axis=(0, 2, 3))

    specs = [pn.TensorSpec(shape, pn.bfloat16) for shape in ((64, 56, 56, 96), (64, 56, 56), (96,))]
    lowered = compiler.lower(pn.jit(slopes).lower(*specs).function, "sm_90")
    grids = [grid_of(program) for program in lowered.programs]
    threads = [prod(map(int, grid.blocks)) * prod(map(int, grid.threads)) for grid in grids]
    assert max(threads) >= 132 * 256


def _scores(x: Any, t: Any) -> Any:
    return pn.nn.functional.cross_entropy(x, t)


def _resized(x: Any) -> Any:
    return pn.sum(pn.nn.functional.interpolate(x, scale_factor=2, mode="bilinear") ** 2)


APART: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "class scores of pictures": (_scores, (2, 5, 6, 7), (8, 21, 256, 256)),
    "resized pictures": (_resized, (2, 3, 5, 6), (32, 64, 56, 56)),
}


@pytest.mark.parametrize("name", APART)
def test_what_ranges_keep_apart_is_scattered_side_by_side(name: str) -> None:
    """Data decides where is added, and a remainder of the place tells who adds: nobody waits for another."""
    function, small, large = APART[name]
    gradient = pn.jit(pn.grad(function))

    def given(dims: tuple[int, ...]) -> tuple[Any, ...]:
        n, c, *space = dims
        labels = np.random.default_rng(1).integers(0, c, (n, *space))
        return (np.zeros(dims, np.float32), labels)[: 2 if function is _scores else 1]

    arrays = (data(*small), *given(small)[1:])
    traced = gradient.lower(*map(pn.asarray, arrays)).function
    (found,) = compiler.lower(traced, "sm_90").interpreted()(*arrays)
    np.testing.assert_allclose(found, compiler.compile(traced)(*arrays)[0], rtol=1e-5, atol=1e-6)
    specs = [pn.TensorSpec(x.shape, pn.int64 if x.dtype.kind == "i" else pn.float32) for x in given(large)]
    lowered = compiler.lower(gradient.lower(*specs).function, "sm_90")
    programs = [each for each in lowered.programs if each.name.startswith("scatter")]
    assert bool(programs) is (name == "resized pictures")  # of one update per pixel nothing is stored before
    for program in programs or [
        each for each in lowered.programs if max(b.elements for b in each.params) > 1 << 20
    ]:
        grid = grid_of(program)
        assert prod(map(int, grid.blocks)) * prod(map(int, grid.threads)) >= 132 * 128


@pytest.mark.parametrize("channels", [21, 64, 150, 1000])
@pytest.mark.parametrize("dtype", [pn.bfloat16, pn.float32, pn.float64])
def test_rows_that_threads_keep_have_room(channels: int, dtype: dtypes.DType) -> None:
    """A softmax over channels: each thread keeps those of its pixels, so that a block has as many threads as there is memory for."""
    spec = pn.TensorSpec((32, channels, 128, 128), dtype)
    for function in (
        pn.nn.softmax,
        pn.grad(lambda x, axis: pn.sum(pn.nn.softmax(x, axis=axis).astype(pn.float32) ** 2)),
    ):
        traced = pn.jit(lambda x, function=function: function(x, axis=1)).lower(spec).function
        for program in compiler.lower(traced, "sm_90").programs:
            assert sum(each.nbytes for each in program.locals if each.space is AddrSpace.LOCAL) <= TARGETS["sm_90"].local_bytes  # fmt: skip


CHANNELS = {
    "sums": lambda x: pn.sum(x, axis=(0, 2, 3)),
    "means and squares": lambda x: pn.stack([pn.mean(x, axis=(0, 2, 3)), pn.mean(x * x, axis=(0, 2, 3))]),
    "largest": lambda x: pn.max(x, axis=(0, 2, 3)),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("dims", [(16, 5, 7, 7), (32, 3, 6, 8), (4, 6, 20, 20), (7, 2, 30, 1)])
def test_threads_share_pictures_and_pixels(name: str, dims: tuple[int, ...]) -> None:
    x = data(*dims)
    traced = pn.jit(CHANNELS[name]).lower(pn.asarray(x)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    (found,), (wanted,) = lowered.interpreted()(x), compiler.compile(traced)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "dims", [(64, 24, 56, 56), (64, 96, 28, 28), (64, 512, 7, 7), (64, 72, 56, 56), (64, 64, 56, 56)]
)
@pytest.mark.parametrize("last", [False, True])
def test_no_sum_of_channels_is_left_to_few_threads(dims: tuple[int, ...], last: bool) -> None:
    """By what a thread does: all of them together have about as much to read as keeps memory busy."""

    def statistics(x: Any) -> Any:
        wide = (pn.permute_dims(x, (0, 3, 1, 2)) if last else x).astype(pn.float32)
        return pn.sum(wide, axis=(0, 2, 3)), pn.sum(wide * wide, axis=(0, 2, 3))

    n, c, h, w = dims
    spec = pn.TensorSpec((n, h, w, c) if last else dims, pn.bfloat16)
    lowered = compiler.lower(pn.jit(statistics).lower(spec).function, "sm_90")
    grid = grid_of(lowered.programs[0])
    threads = prod(map(int, grid.blocks)) * prod(map(int, grid.threads))
    assert n * c * h * w / threads <= 1024


def test_norms_of_rows_are_made_before_blocks_claim_them() -> None:
    """The gradient of an embedding below a norm: one block would make all norms, in the order of the list."""
    gradient = pn.grad(lambda w, i, x: pn.sum(pn.nn.rms_norm(pn.take(w, i, axis=0), (256,)) * x))
    given = (pn.zeros((1000, 256)), pn.zeros(512, dtype=pn.int32), pn.zeros((512, 256)))
    lowered = compiler.lower(pn.jit(gradient).lower(*given).function, "sm_90")
    kinds = {kernel.name.split("_")[0]: choice.actions for kernel, choice in zip(lowered.plan.kernels, lowered.choices, strict=True)}  # fmt: skip
    assert "rows" in kinds
    assert any(isinstance(action, Claim) for action in kinds["scatter"])


def test_rows_that_start_anywhere_are_stored_by_neighbouring_threads() -> None:
    for columns, wide in ((257, "uint16_t"), (264, "vec<uint32_t, 4>")):
        specs = pn.TensorSpec((256, 64), pn.bfloat16), pn.TensorSpec((columns, 64), pn.bfloat16)
        lowered = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90")
        (text,) = [line for line in lowered.as_text("cuda").splitlines() if "arg0 + " in line]
        assert "uint16_t *" in text
        assert (wide == "uint16_t") is ("put_words(" not in lowered.as_text("cuda").rpartition("arg0 + ")[2])


WARPS = {
    "halves": (np.float16, lambda a, b: a @ b, (48, 64), (64, 40)),
    "halves, both transposed": (np.float16, lambda a, b: a.T @ b.T, (64, 48), (40, 64)),
    "odd halves with an epilogue": (np.float16, lambda a, b: pn.maximum(a @ b.T, 0.0), (35, 37), (21, 37)),
    "products": (np.float16, lambda a, b: a @ b, (2, 32, 32), (2, 32, 32)),
    "a matrix times itself": (np.float16, lambda a, b: a @ a + b, (32, 32), (32, 32)),
    "doubles": (np.float64, lambda a, b: a @ b.T, (16, 24), (40, 24)),
    "bytes": (np.int8, lambda a, b: a.astype(pn.int32) @ b.astype(pn.int32).T, (32, 96), (24, 96)),
}


@pytest.mark.parametrize("name", WARPS)
def test_tensor_cores_of_a_warp_read_tiles(name: str) -> None:
    kind, function, *shapes = WARPS[name]
    arrays = [RNG.integers(-4, 5, shape).astype(kind) for shape in shapes]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_80")
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert "tensor_core(mma_" in said
    assert "swizzle=" in said
    dealt = [i for program in lowered.programs for i in program.body if isinstance(i, Deal)]
    assert bool(dealt) is (kind is not np.float64)
    wanted = compiler.compile(traced)(*arrays)
    for found, exact in zip(lowered.interpreted()(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=1e-3)


def chosen(size: int, steps: int = 4096) -> str:
    spec = pn.TensorSpec((size, steps), pn.float32), pn.TensorSpec((steps, size), pn.float32)
    (choice,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(*spec).function, "sm_90").choices
    return "; ".join(map(str, choice.actions))


def test_the_tile_of_a_product_is_chosen_by_its_rounds() -> None:
    """On 132 multiprocessors 1024 tiles of 128×128 are 8 rounds; 576 are 5, the last of them nearly empty, 1152 halves of them 9."""
    assert "upcast(i, 8); local(i.outer, 16)" in chosen(4096)
    assert "upcast(i, 8); local(i.outer, 8)" in chosen(3072)
    assert "upcast(i, 4); local(i.outer, 8)" in chosen(512, 512)
