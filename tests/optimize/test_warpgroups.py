"""Products on a GPU whose tensor cores read LOCAL memory: which tile is chosen, and that results are right in the interpreter."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.config import settings
from planish.dtypes import AddrSpace
from planish.target import TARGETS, rounds

RNG = np.random.default_rng(3)


def data(*shape: int, dtype: Any = ml_dtypes.bfloat16) -> Any:
    return RNG.integers(-3, 4, shape).astype(dtype)


CASES: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "product": (lambda a, b: a @ b, (data(64, 128), data(128, 64)), "n64_bf16_f32_km, i, j, k, buffers=2"),
    "right operand turned": (lambda a, b: a @ b.T, (data(64, 64), data(64, 64)), "_kk, i, j, k"),
    "left operand turned": (lambda a, b: a.T @ b, (data(64, 64), data(64, 64)), "_mm, i, j, k"),
    "odd sizes": (lambda a, b: a @ b, (data(70, 72), data(72, 40)), "pad_to(i, 128)"),
    "few rows": (lambda a, b: a @ b.T, (data(3, 64), data(128, 64)), "_kk, j, i, k"),
    "batches": (lambda a, b: a @ b, (data(2, 64, 64), data(2, 64, 64)), "wgmma"),
    "epilogue": (
        lambda a, b, c, d: pn.maximum(a @ b + c, 0) + d,
        (data(64, 64), data(64, 64), data(64), data(64, 64)),
        "wgmma",
    ),
    "operand computed": (lambda a, b: (a * 2 + 1) @ b, (data(64, 64), data(64, 64)), ""),
    "f32 sums kept": (
        lambda a, b: a.astype(pn.float32) @ b.astype(pn.float32),
        (data(64, 64), data(64, 64)),
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_products(name: str) -> None:
    function, arrays, expected = CASES[name]
    traced = pn.jit(function).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        lowered = compiler.lower(traced, "sm_90")
    said = "; ".join(str(action) for choice in lowered.choices for action in choice.actions)
    assert expected in said
    wanted = compiler.compile(traced)(*arrays)
    for found, exact in zip(lowered.interpreted()(*arrays), wanted, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact.astype(np.float64), rtol=1e-2)


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((4096, 4096, 4096), "n256_bf16_f32_km, i, j, k, groups=2, buffers=4"),
        ((1024, 1024, 1024), "n128_bf16_f32_km, i, j, k, buffers=8"),
        ((12544, 256, 1024), "n128_bf16_f32_km, i, j, k, groups=3, buffers=4"),  # one round of 132 blocks
        # all rows in a tile: no two blocks read the same of the long operand
        ((128, 4096, 4096), "n64_bf16_f32_km"),
        ((4, 8192, 4096), "n8_bf16_f32_mk, j, i, k"),
    ],
)
def test_tiles_follow_from_sizes(sizes: tuple[int, int, int], tile: str) -> None:
    m, n, k = sizes
    specs = pn.TensorSpec((m, k), pn.bfloat16), pn.TensorSpec((k, n), pn.bfloat16)
    (choice,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(*specs).function, "sm_90").choices
    assert tile in "; ".join(map(str, choice.actions))


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        (
            (512, 1280, 1280),
            "n80_bf16_f32_kk, i, j, k, buffers=5",
        ),  # sixteen whole tiles of columns, none of them padded
        (
            (32768, 320, 960),
            "n160_bf16_f32_kk, i, j, k, groups=2",
        ),  # not 256 x 80, whose groups all read the right operand
        (
            (8192, 1120, 1024),
            "n192_bf16_f32_kk, i, j, k, groups=2",
        ),  # not 128 x 112: measured 35 us, these 31.5
    ],
)
def test_tiles_of_odd_columns(sizes: tuple[int, int, int], tile: str) -> None:
    m, n, k = sizes
    specs = pn.TensorSpec((m, k), pn.bfloat16), pn.TensorSpec((n, k), pn.bfloat16)
    (choice,) = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90").choices
    assert tile in "; ".join(map(str, choice.actions))


@pytest.mark.parametrize(
    ("images", "side", "channels", "tile"),
    [
        (8, 64, 128, "n128_bf16_f32_kk, i, l, m, groups=2, buffers=6, engine=true, stay=132"),
        (64, 56, 64, "n64_bf16_f32_kk, i, l, m, groups=4, buffers=4, engine=true, stay=132"),
    ],
)
def test_windows_come_from_memory_once(images: int, side: int, channels: int, tile: str) -> None:
    """Nine taps read what one of them does: such a product does not wait for memory."""

    def convolved(x: Any, w: Any) -> Any:
        x, w = (pn.permute_dims(each, (0, 3, 1, 2)) for each in (x, w))
        return pn.permute_dims(pn.nn.conv2d(x, w, padding=1), (0, 2, 3, 1))

    given = [
        pn.TensorSpec(shape, pn.bfloat16)
        for shape in ((images, side, side, channels), (channels, 3, 3, channels))
    ]
    (choice,) = compiler.lower(pn.jit(convolved).lower(*given).function, "sm_90").choices
    assert tile in "; ".join(map(str, choice.actions))


@pytest.mark.parametrize(
    ("sizes", "order", "blocks"),
    [
        ((4096, 4096, 4096), "split(i.outer, 16); swap(i.outer.inner, j.outer)", ("16", "16", "2")),
        (
            (3000, 3072, 512),
            "split(i.outer, 8); swap(i.outer.inner, j.outer)",
            ("132", "1", "1"),
        ),  # they stay
        ((1024, 1024, 512), "", ("8", "16", "1")),
    ],
)
def test_blocks_that_run_at_once_do_about_a_square(
    sizes: tuple[int, int, int], order: str, blocks: tuple[str, ...]
) -> None:
    m, n, k = sizes
    specs = pn.TensorSpec((m, k), pn.bfloat16), pn.TensorSpec((n, k), pn.bfloat16)
    lowered = compiler.lower(pn.jit(lambda a, b: a @ b.T).lower(*specs).function, "sm_90")
    assert (
        "; ".join(map(str, lowered.choices[-1].actions))
        .partition("engine=true")[2]
        .partition(")")[2]
        .strip("; ")
        == order
    )
    assert lowered.launches[-1].grid.blocks == blocks


def test_what_is_stored_in_eight_bits_is_multiplied_so() -> None:
    specs = [pn.TensorSpec((512, 512), pn.float8_e4m3fn)] * 2
    for dtype in (pn.float32, pn.float16):
        with settings(fastmath=True):
            traced = pn.jit(lambda a, b, dtype=dtype: a.astype(dtype) @ b.astype(dtype).T).lower(*specs)
            (choice,) = compiler.lower(traced.function, "sm_90").choices
        assert "e4m3_f32_kk" in str(choice.actions[0])


def test_rough_cores_are_for_those_who_allow_them() -> None:
    spec = pn.TensorSpec((128, 128), pn.float32)
    for fastmath in (False, True):
        with settings(fastmath=fastmath):
            (choice,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(spec, spec).function, "sm_90").choices
        assert ("tf32" in str(choice.actions)) is fastmath


def test_an_epilogue_is_written_once_per_vector() -> None:
    """What is done with sums is a loop over vectors of a row: the code does not grow with the tile."""
    specs = [pn.TensorSpec(shape, pn.bfloat16) for shape in ((512, 512), (512, 512), (512,))]
    lines = []
    for function in (lambda a, b, c: a @ b + c, lambda a, b, c: pn.nn.gelu(a @ b + c)):
        (program,) = compiler.lower(pn.jit(function).lower(*specs).function, "sm_90").programs
        lines.append(len(program.body))
    assert lines[1] < 2 * lines[0]


def test_operands_that_the_cache_does_not_hold_want_tiles_in_strips() -> None:
    """43 rows of tiles of 192 would end a round sooner, but fit no strip: everything would come from memory row by row."""
    target = TARGETS["sm_90"]
    sizes = rounds.ProductSizes(8192, 8192, 8192, 1, 2)
    best = min(rounds.WARPGROUP_TILES, key=lambda tile: rounds.cycles(target, sizes, tile, rounds.WARPGROUPS))
    assert best[:2] == (128, 256)
    assert rounds.strip_of(target, best, 64, 32) == 16
    assert rounds.strip_of(target, rounds.BlockTile(192, 128), 43, 64) == 0
    cached = rounds.ProductSizes(2048, 2048, 2048, 1, 2)
    assert rounds._delay(target, cached, best, 1) == 0
    assert rounds._delay(target, sizes, best, 1) < rounds._delay(target, sizes, rounds.BlockTile(192, 128), 1)


def test_a_bias_is_added_before_sums_are_put_down() -> None:
    """So they are put down as short as they are written, and take half of the LOCAL memory."""

    def linear(a: Any, b: Any, bias: Any) -> Any:
        wide = a.astype(pn.float32) @ b.T.astype(pn.float32) + bias.astype(pn.float32)
        return pn.maximum(wide.astype(pn.bfloat16), 0)

    shapes = (12608, 768), (3072, 768), (3072,)
    specs = [pn.TensorSpec(shape, pn.bfloat16) for shape in shapes]
    (program,) = compiler.lower(pn.jit(linear).lower(*specs).function, "sm_90").programs
    kept = [b for b in program.locals if b.space is AddrSpace.LOCAL]
    assert {b.dtype for b in kept} == {pn.bfloat16}
