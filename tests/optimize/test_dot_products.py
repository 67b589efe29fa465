"""Products in pairs and quads: the schedule, the same bits by interpreter and machine code, and the instructions of the inner loop."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.actions.base import Action
from planish.actions.tensor_core import TensorCore
from planish.actions.thread import Thread
from planish.errors import PlanishError
from planish.llir.interpret import interpret
from planish.runtime import cpu
from planish.target import TARGETS

Array = NDArray[Any]
V3, V4, VNNI = TARGETS["x86-64-v3"], TARGETS["x86-64-v4"], TARGETS["x86-64-vnni"]
HAS_VNNI = cpu.host().has("avx512vnni")
HAS_BF16 = cpu.host().has("avx512bf16")


def product(
    m: int, n: int, k: int, kinds: tuple[str, str] = ("i8", "i8"), *, zero: int = 0, turned: bool = False
) -> ptir.Function:
    """(a - zero) @ b in int32."""
    g = ptir.Graph("product")
    a = g.input("a", ptir.tensor(kinds[0], (m, k))).cast("i32")
    b = g.input("b", ptir.tensor(kinds[1], (n, k) if turned else (k, n))).cast("i32")
    if zero:
        point = g.input("zero", ptir.tensor(kinds[0], ())).cast("i32")
        a = a.sub(point.broadcast_to((m, k)))
    return g.build(a.matmul(b.transpose((1, 0)) if turned else b))


def numbers(kind: str, *dims: int, seed: int) -> Array:
    bounds = {"i8": (-128, 128), "u8": (0, 256), "i16": (-(1 << 15), 1 << 15)}
    dtype = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}[kind]
    return np.random.default_rng(seed).integers(*bounds[kind], dims).astype(dtype)


@pytest.mark.parametrize(
    ("m", "n", "k", "kinds", "zero", "turned"),
    [
        (40, 64, 64, ("i8", "i8"), 0, False),
        (37, 50, 33, ("u8", "i8"), 0, False),
        (40, 64, 64, ("u8", "i8"), 9, False),
        (33, 48, 51, ("u8", "u8"), 9, False),
        (40, 64, 64, ("i8", "i8"), 0, True),
        (24, 64, 40, ("i16", "i16"), 0, False),  # sums wrap
        (20, 400, 24, ("i8", "i8"), 0, False),  # many panels
    ],
)  # fmt: skip
def test_products_are_exact(m: int, n: int, k: int, kinds: tuple[str, str], zero: int, turned: bool) -> None:
    lowered = compiler.lower(
        product(m, n, k, kinds, zero=zero, turned=turned),
        "host" if cpu.host().triple.startswith("x86") else V4,
    )
    assert TensorCore in {type(action) for choice in lowered.choices for action in choice.actions}
    a = numbers(kinds[0], m, k, seed=1)
    b = numbers(kinds[1], *((n, k) if turned else (k, n)), seed=2)
    arrays = [a, b] + ([np.array(zero, a.dtype)] if zero else [])
    wide = b.astype(np.int64).T if turned else b.astype(np.int64)
    expected = ((a.astype(np.int64) - zero) @ wide).astype(np.int32)
    runs = [lowered.interpreted()]
    if lowered.target.native:
        runs += [lowered.compile(), lowered.compile("c")]
    for run in runs:
        (found,) = run(*arrays)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("target", "register"), [(V4, "zmm"), (V3, "ymm")], ids=["x86-64-v4", "x86-64-v3"])
def test_the_inner_loop_multiplies_pairs(target: Any, register: str) -> None:
    text = compiler.lower(product(512, 512, 512, ("u8", "i8"), zero=3), target).as_text("asm")
    assert "vpmulld" not in text
    blocks = re.split(r"^\.?LBB\w+:", text, flags=re.MULTILINE)
    inner = max(blocks, key=lambda block: len(re.findall("vpmaddwd", block)))
    loop = inner.split("\tj")[0]
    assert len(re.findall(f"vpmaddwd.*{register}", loop)) >= 8
    assert not re.search(
        "vpmovsx|vpmovzx|vpsub", loop
    )  # what is narrow was converted and shifted when it was staged


@pytest.mark.skipif(not HAS_VNNI, reason="this machine has no dot products of its own: not executed")
def test_dot_products_add_up_in_one_instruction() -> None:
    text = compiler.lower(product(512, 512, 512, ("i16", "i16")), "host").as_text("asm")
    words = {word: len(re.findall(word, text)) for word in ("vpdpwssd", "vpmaddwd")}
    assert words["vpdpwssd"] >= 16
    assert words["vpmaddwd"] == 0


QUADS = [
    (40, 64, 64, ("u8", "i8"), 0, False),
    (37, 50, 33, ("u8", "i8"), 9, False),  # less than a zero point that is data
    (40, 64, 64, ("i8", "i8"), 0, False),
    (37, 50, 33, ("i8", "i8"), 0, False),  # no multiple of anything
    (37, 50, 35, ("i8", "i8"), -7, True),
    (37, 50, 33, ("i8", "u8"), 0, False),  # the other one has no sign
    pytest.param(9, 300, 1030, ("i8", "i8"), 0, True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("m", "n", "k", "kinds", "zero", "turned"), QUADS)
def test_quads_of_bytes_are_exact(
    m: int, n: int, k: int, kinds: tuple[str, str], zero: int, turned: bool
) -> None:
    """Signed bytes are shifted to where they have no sign, and what that adds is taken off: the same in every oracle."""
    lowered = compiler.lower(product(m, n, k, kinds, zero=zero, turned=turned), VNNI)
    assert [core_of(choice.actions) for choice in lowered.choices] == [
        f"quads_{'i8u8' if kinds == ('i8', 'u8') else 'u8i8'}_n16"
    ]
    a = numbers(kinds[0], m, k, seed=1)
    b = numbers(kinds[1], *((n, k) if turned else (k, n)), seed=2)
    a[0], b[0] = np.iinfo(a.dtype).min, np.iinfo(b.dtype).min
    arrays = [a, b] + ([np.array(zero, a.dtype)] if zero else [])
    wide = b.astype(np.int64).T if turned else b.astype(np.int64)
    expected = ((a.astype(np.int64) - zero) @ wide).astype(np.int32)
    for run in [lowered.interpreted(), *([lowered.compile(), lowered.compile("c")] if HAS_VNNI else [])]:
        (found,) = run(*arrays)
        np.testing.assert_array_equal(found, expected)


def core_of(actions: Iterable[Action]) -> str:
    """The tensor core of a schedule."""
    return str(next(a.core for a in actions if isinstance(a, TensorCore)))


def test_the_inner_loop_multiplies_quads() -> None:
    """24 products of 64 bytes for 4 vectors and 6 quads that are loaded, and nothing else; the sums of columns apart."""
    text = compiler.lower(product(512, 512, 512), VNNI).as_text("asm")
    blocks = re.split(r"^\.?LBB\w+:", text, flags=re.MULTILINE)
    loop = max(blocks, key=lambda block: len(re.findall("vpdpbusd", block))).split("\tj")[0]
    products, spread = len(re.findall("vpdpbusd", loop)), len(re.findall("vpbroadcastd", loop))
    loaded = len(re.findall("vmovdqa", loop))
    assert products % 24 == 0
    steps = products // 24
    assert (spread, loaded) <= (6 * steps, 4 * steps)
    assert len(re.findall(r"^\tv", loop, flags=re.MULTILINE)) == products + spread + loaded


def test_the_sums_that_an_offset_adds_are_made_once_for_all_rows() -> None:
    """A row of ones for all rows of a piece: the panel is read once more."""
    a, b = numbers("i8", 96, 64, seed=1), numbers("i8", 64, 64, seed=2)
    shifted, pieces = tiles_run(product(96, 64, 64), a, b)
    plain, _ = tiles_run(product(96, 64, 64, ("u8", "i8")), a.view(np.uint8), b)
    assert plain >= 96 * 4 * 16
    assert shifted == plain + 4 * 16 * pieces


def tiles_run(function: ptir.Function, *arrays: Array) -> tuple[int, int]:
    """How many times a tensor core multiplies, and how many pieces of work there are."""
    lowered = compiler.lower(function, VNNI)
    (program,), (choice,) = lowered.programs, lowered.choices
    buffers = [np.zeros(96 * 64, np.int32), *(a.reshape(-1) for a in arrays)]
    pieces = [action.amount for action in choice.actions if isinstance(action, Thread)]
    return interpret(program, buffers).instructions["tile"], pieces[0] if pieces else 1


@pytest.mark.parametrize(("m", "once"), [(64, True), (2048, False)])
def test_rows_that_the_second_cache_holds_are_staged_once_for_all_panels(m: int, once: bool) -> None:
    steps = compiler.lower(product(m, 12288, 1024, ("u8", "i8")), VNNI).as_text("schedule")
    assert ("rows, converted once for all panels" in steps) is once
    assert ("rows, converted once for all columns of a panel" in steps) is not once


def test_bytes_that_do_not_fit_quads_go_in_pairs() -> None:
    lowered = compiler.lower(product(64, 64, 64, ("u8", "u8")), VNNI)
    assert [core_of(choice.actions) for choice in lowered.choices] == ["pairs_i16_n16"]


def test_little_work_is_left_to_vectors() -> None:
    for m, n, k in ((1, 512, 512), (8, 8, 8)):
        lowered = compiler.lower(product(m, n, k), V4)
        assert TensorCore not in {type(action) for choice in lowered.choices for action in choice.actions}


# -- pairs of bfloat16 -------------------------------------------------------------------------------------------------


def halves(m: int, n: int, k: int, *, turned: bool = False, out: str = "f32") -> ptir.Function:
    g = ptir.Graph("product")
    a = g.input("a", ptir.tensor("bf16", (m, k))).cast("f32")
    b = g.input("b", ptir.tensor("bf16", (n, k) if turned else (k, n))).cast("f32")
    return g.build(a.matmul(b.transpose((1, 0)) if turned else b).cast(out))


def bfloats(*dims: int, seed: int, powers: tuple[int, int]) -> Array:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(dims) * 2.0 ** rng.integers(*powers, dims)).astype(bfloat16)


@pytest.mark.parametrize(("m", "n", "k", "turned"), [(24, 32, 34, False), (40, 50, 41, True)])
@pytest.mark.parametrize("powers", [(-3, 3), (-70, -58), (-134, -120)], ids=["plain", "small", "subnormal"])
def test_pairs_of_bfloat16_are_the_same_bits_everywhere(
    m: int, n: int, k: int, turned: bool, powers: tuple[int, int]
) -> None:
    """Odd first, fused, subnormals flushed: interpreters, C and the processor agree, and all are as near as they promise."""
    lowered = compiler.lower(halves(m, n, k, turned=turned), "x86-64-bf16")
    assert [core_of(choice.actions) for choice in lowered.choices] == ["pairs_bf16_n16"]
    a = bfloats(m, k, seed=1, powers=powers)
    b = bfloats(*((n, k) if turned else (k, n)), seed=2, powers=powers if powers[0] > -100 else (-3, 3))
    (expected,) = lowered.interpreted()(a, b)
    for run in [lowered.compile(), lowered.compile("c")] if HAS_BF16 else []:
        (found,) = run(a, b)
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    left, right = a.astype(np.float64), b.astype(np.float64).T if turned else b.astype(np.float64)
    bound = 2.0**-23 * k * (np.abs(left) @ np.abs(right)) + 3 * k * 2.0**-126 * (
        1 + np.abs(right).sum(axis=0)
    )
    assert (np.abs(expected - left @ right) <= bound).all()


@pytest.mark.skipif(not HAS_BF16, reason="the processor has no dot products of bfloat16")
def test_the_instruction_adds_as_described() -> None:
    """One pair of every kind of number: what is rounded half-way, cancels, overflows, is subnormal, infinite or no number."""
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0**-126,
        2.0**-133,
        -(2.0**-130),
        3.0e38,
        -3.0e38,
        np.inf,
        -np.inf,
        np.nan,
        1.0078125,
        2.0**-63,
    ]
    rng = np.random.default_rng(0)
    lowered = compiler.lower(halves(16, 64, 64), "x86-64-bf16")
    run, oracle = lowered.compile(), lowered.interpreted()
    for _ in range(4):
        a, b = (np.zeros(dims, bfloat16) for dims in ((16, 64), (64, 64)))
        for x in (a, b):  # two pairs of special values in each sum
            x.T[:4] = rng.choice(special, (4, 16)) if x is a else 0
        b[:4] = rng.choice(special, (4, 64))
        b[4:], a[:, 4:] = 1.0, rng.choice(special[:9], (16, 60)) * (rng.random((16, 60)) < 0.05)
        (found,), (expected,) = run(a, b), oracle(a, b)
        same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
        assert same.all()


def test_the_inner_loop_multiplies_pairs_of_bfloat16() -> None:
    """24 products for 4 vectors and 6 pairs that are loaded."""
    text = compiler.lower(halves(512, 512, 512), "x86-64-bf16").as_text("asm")
    blocks = re.split(r"^\.?LBB\w+:", text, flags=re.MULTILINE)
    loop = max(blocks, key=lambda block: len(re.findall("vdpbf16ps", block))).split("\tj")[0]
    products = len(re.findall("vdpbf16ps", loop))
    assert products
    assert products % 24 == 0
    assert len(re.findall(r"^\tv", loop, flags=re.MULTILINE)) <= products + 10 * (products // 24)


def test_source_for_other_processors_is_refused() -> None:
    source = (
        "declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)"
    )
    with pytest.raises(PlanishError, match="needs avx512bf16, which x86-64-v4 does not have"):
        cpu.emit_object(source, cpu.Processor(cpu.host().triple, "x86-64-v4"))
