"""Integer decompositions: what they compute is what the op means, and no machine instruction can trap."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import z3

from planish import dtypes
from planish.dtypes import DType
from planish.stages.linearizer.decompositions.division import Magic, divide_by_magic, magic
from planish.stages.linearizer.decompositions.support import CPU, Support
from planish.stages.linearizer.s18_decompositions import decompositions
from planish.uop.evaluate import evaluate
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.stages.s18_math import SPARE, compiled

DIVISIONS = (Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD)
BYTES = (dtypes.int8, dtypes.uint8)
WORDS = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)


def low(dtype: DType) -> int:
    assert dtype.min is not None
    return int(dtype.min)


def high(dtype: DType) -> int:
    assert dtype.max is not None
    return int(dtype.max)


def every(dtype: DType) -> np.ndarray:
    return np.arange(low(dtype), high(dtype) + 1).astype(dtype.numpy)


def some(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Random patterns, small numbers and both ends."""
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 1 << 64, count, np.uint64).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    small = np.arange(-40, 40).astype(dtype.numpy)
    least, most = low(dtype), high(dtype)
    ends = np.array([least, least + 1, most, most - 1, 0, 1, most // 2, most // 2 + 1], dtype.numpy)
    shifted = patterns >> rng.integers(0, dtype.bits, count).astype(dtype.numpy)
    return np.concatenate([patterns, small, ends, shifted])


def leaf(table: Table, dtype: DType, slot: int = 0) -> UOp:
    return table.param(slot, dtype, 1).index(table.const(0))


def check(build: Callable[..., UOp], arrays: list[np.ndarray], dtype: DType, support: Support = CPU) -> UOp:
    """What `build` makes means the same after decomposition; returns that."""
    with Table() as table:
        leaves = [leaf(table, dtype, slot) for slot in range(len(arrays))]
        before = build(*leaves)
        after = decompositions(before, support)
        env = dict(zip(leaves, arrays, strict=True))
        with np.errstate(all="ignore"):
            wanted, found = evaluate(before, env), evaluate(after, env)
        np.testing.assert_array_equal(found, wanted)
        assert decompositions(after, support) is after, "not idempotent"
        return after


def ops_of(node: UOp) -> set[Ops]:
    return {n.op for n in node.toposort()}


# -- magic numbers --------------------------------------------------------------------------------------------------


def test_magic_numbers_are_exact_for_every_divisor_and_dividend_below_512() -> None:
    for divisor in range(1, 512):
        for limit in {0, 1, divisor - 1, divisor, 100, 255, 256, 511}:
            factor, shift = magic(divisor, limit)
            n = np.arange(limit + 1, dtype=object)
            assert (((n * factor) >> shift) == n // divisor).all(), (divisor, limit)


def test_magic_numbers_are_the_smallest() -> None:
    for divisor, limit in itertools.product((3, 5, 7, 10, 100, 641), (9, 100, 255, 1000, 65535)):
        n = np.arange(limit + 1, dtype=object)
        factor, shift = magic(divisor, limit)
        for smaller in range(shift):
            guess = -(-(1 << smaller) // divisor)
            assert ((n * guess) >> smaller != n // divisor).any(), (
                divisor,
                limit,
                Magic(factor, shift),
                smaller,
            )


@pytest.mark.parametrize("bits", [31, 32, 63, 64])
def test_magic_numbers_hold_at_the_hardest_dividends(bits: int) -> None:
    limit = (1 << bits) - 1
    rng = np.random.default_rng(bits)
    divisors = [
        3,
        5,
        6,
        7,
        9,
        10,
        11,
        25,
        100,
        641,
        1000,
        10**9,
        limit,
        limit - 1,
        limit // 2,
        limit // 2 + 1,
        limit // 3,
    ]
    divisors += [int(d) for d in rng.integers(2, min(limit, (1 << 63) - 1), 200)]
    for divisor in divisors:
        factor, shift = magic(divisor, limit)
        top = limit // divisor
        for quotient in {0, 1, 2, top // 2, top - 1, top}:
            for n in (quotient * divisor - 1, quotient * divisor, quotient * divisor + 1, limit):
                if 0 <= n <= limit:
                    assert (n * factor) >> shift == n // divisor, (divisor, n)


@pytest.mark.parametrize("divisor", [3, 7, 10, 641, 1_000_003])
def test_magic_division_of_32_bits_is_proved(divisor: int) -> None:
    """For all n at once, n = q·d + r: q·2**s <= n·m < (q + 1)·2**s."""
    for limit in ((1 << 31) - 1, (1 << 32) - 1):
        factor, shift = magic(divisor, limit)
        n, q, r = z3.Ints("n q r")
        solver = z3.Solver()
        solver.set("timeout", 20_000)
        solver.add(n >= 0, n <= limit, n == q * divisor + r, r >= 0, r < divisor)
        solver.add(z3.Or(n * factor < q * (1 << shift), n * factor >= (q + 1) * (1 << shift)))
        assert solver.check() == z3.unsat


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_division_by_magic_in_the_widths_of_machines(dtype: DType) -> None:
    x = np.abs(some(dtype, 300, 1).astype(object)) & high(dtype)
    x = x.astype(dtype.numpy)
    with Table() as table:
        given = leaf(table, dtype)
        for divisor in (3, 6, 7, 10, 14, 28, 641, 1_000_003, high(dtype), high(dtype) - 1):
            found = evaluate(divide_by_magic(given, divisor, high(dtype)), {given: x})
            np.testing.assert_array_equal(found, x // dtype.numpy.type(divisor), err_msg=str(divisor))


def test_a_magic_product_stays_narrow_where_the_bounds_allow() -> None:
    with Table() as table:
        i = table.variable("i", 0, 1028, dtypes.int32)
        after = decompositions(i // 10)
        assert {n.dtype for n in after.toposort()} == {dtypes.int32}
        assert [n.arg for n in after.toposort() if n.op is Ops.CONST] == [205, 11]
        wide = decompositions(leaf(table, dtypes.uint32) // 10)
        assert dtypes.uint64 in {n.dtype for n in wide.toposort()}


# -- division -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_bytes_divided_by_every_constant(dtype: DType, op: Ops) -> None:
    x = every(dtype)
    for divisor in range(low(dtype), high(dtype) + 1):
        after = check(lambda x, d=divisor: x.alu(op, d), [x], dtype)
        assert not ops_of(after) & set(DIVISIONS) or divisor < 0, divisor


@pytest.mark.parametrize("support", [CPU, SPARE], ids=["cpu", "spare"])
@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_bytes_divided_by_bytes(dtype: DType, op: Ops, support: Support) -> None:
    x, y = (a.ravel() for a in np.meshgrid(every(dtype), every(dtype)))
    after = check(lambda x, y: x.alu(op, y), [x, y], dtype, support)
    assert Ops.FLOORDIV not in ops_of(after)
    assert Ops.FLOORMOD not in ops_of(after)


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words_divided_by_constants(dtype: DType, op: Ops) -> None:
    x = some(dtype, 200, 2)
    least, most = low(dtype), high(dtype)
    divisors = {
        0,
        1,
        2,
        3,
        5,
        6,
        7,
        8,
        10,
        12,
        100,
        641,
        1 << 20,
        most,
        most - 1,
        most // 2 + 1,
        -1,
        -2,
        -3,
        -7,
        -8,
        least,
        least + 1,
    }
    for divisor in divisors:
        if least <= divisor <= most:
            check(lambda x, d=divisor: x.alu(op, d), [x], dtype)


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words_divided_by_words(dtype: DType, op: Ops) -> None:
    ends = some(dtype, 10, 3)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    check(lambda x, y: x.alu(op, y), [x, y], dtype)


@pytest.mark.parametrize(
    "bounds", [(0, 9, 1, 7), (-9, 9, 1, 7), (-9, 9, -7, -1), (-9, -1, 1, 7), (0, 9, 0, 7), (-9, 0, -7, 0)]
)
@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
def test_corrections_and_guards_follow_the_bounds(op: Ops, bounds: tuple[int, int, int, int]) -> None:
    a, b, c, d = bounds
    with Table() as table:
        x, y = table.variable("x", a, b, dtypes.int32), table.variable("y", c, d, dtypes.int32)
        before = x.alu(op, y)
        after = decompositions(before)
        points = np.array(list(itertools.product(range(a, b + 1), range(c, d + 1))), np.int32)
        env = {x: points[:, 0], y: points[:, 1]}
        np.testing.assert_array_equal(evaluate(after, env), evaluate(before, env))
        agree = (a >= 0 and c >= 0) or (b <= 0 and d <= 0) or op in {Ops.TRUNCDIV, Ops.TRUNCMOD}
        divisor_safe = not c <= 0 <= d
        assert (Ops.WHERE not in ops_of(after)) == (agree and divisor_safe)


def _traps(node: UOp, x: np.ndarray, y: np.ndarray, leaves: list[UOp]) -> bool:
    env = dict(zip(leaves, (x, y), strict=True))
    for n in node.toposort():
        if n.op in {Ops.TRUNCDIV, Ops.TRUNCMOD}:
            left, right = (evaluate(s, env) for s in n.src)
            least = low(n.dtype)
            if (right == 0).any() or (n.dtype.is_signed and ((left == least) & (right == -1)).any()):
                return True
    return False


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [*BYTES, *WORDS], ids=str)
def test_no_machine_division_can_trap(dtype: DType, op: Ops) -> None:
    ends = np.array([low(dtype), high(dtype), 0, 1, 5], np.int64 if dtype is not dtypes.uint64 else np.uint64)
    ends = ends.astype(dtype.numpy)
    ends = np.concatenate([ends, np.array([-1], np.int64).astype(dtype.numpy)])
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    with Table() as table:
        leaves = [leaf(table, dtype, 0), leaf(table, dtype, 1)]
        before = leaves[0].alu(op, leaves[1])
        assert _traps(before, x, y, leaves) or op in {Ops.FLOORDIV, Ops.FLOORMOD}
        assert not _traps(decompositions(before), x, y, leaves)


@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint64], ids=str)
def test_native_division_agrees(dtype: DType, op: Ops) -> None:
    ends = some(dtype, 20, 5)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    found = compiled(lambda x, y: x.alu(op, y), dtype, 2, len(x), CPU)(x, y)
    with Table() as table:
        leaves = [leaf(table, dtype, 0), leaf(table, dtype, 1)]
        wanted = evaluate(leaves[0].alu(op, leaves[1]), dict(zip(leaves, (x, y), strict=True)))
    np.testing.assert_array_equal(found, wanted)
    constants = compiled(lambda x: x.alu(op, 7) + x.alu(op, 12) * 3, dtype, 1, len(x), CPU)(x)
    with Table() as table:
        given = leaf(table, dtype)
        wanted = evaluate(given.alu(op, 7) + given.alu(op, 12) * 3, {given: x})
    np.testing.assert_array_equal(constants, wanted)


# -- bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [Ops.SHL, Ops.SHR], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [*BYTES, *WORDS], ids=str)
def test_shifts_by_any_amount(dtype: DType, op: Ops) -> None:
    amounts = np.array([0, 1, 2, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100, high(dtype)], dtype.numpy)
    if dtype.is_signed:
        amounts = np.concatenate([amounts, np.array([-1, -dtype.bits, low(dtype)], dtype.numpy)])
    x, y = (a.ravel() for a in np.meshgrid(some(dtype, 20, 6), amounts))
    after = check(lambda x, y: x.alu(op, y), [x, y], dtype)
    for n in after.toposort():
        if n.op in {Ops.SHL, Ops.SHR}:
            assert 0 <= n.src[1].vmin <= n.src[1].vmax < dtype.bits


def test_shifts_within_the_width_need_no_guard() -> None:
    with Table() as table:
        x, n = leaf(table, dtypes.uint32), table.variable("n", 0, 31, dtypes.uint32)
        assert decompositions(x << n) is x << n
        assert decompositions(x >> 5) is x >> 5


@pytest.mark.parametrize("dtype", [*BYTES, *WORDS], ids=str)
def test_products_with_powers_of_two_are_shifts(dtype: DType) -> None:
    for k in range(1, dtype.bits):
        factors = [1 << k, -(1 << k)]
        for factor in (f for f in factors if low(dtype) <= f <= high(dtype)):
            after = check(lambda x, f=factor: x * f, [some(dtype, 30, 7)], dtype)
            assert Ops.SHL in ops_of(after)
            assert Ops.MUL not in ops_of(after)
    assert Ops.MUL in ops_of(check(lambda x: x * 6, [some(dtype, 30, 7)], dtype))


@pytest.mark.parametrize("dtype", [*BYTES, dtypes.int16, *WORDS], ids=str)
def test_counting_bits_without_an_instruction(dtype: DType) -> None:
    x = some(dtype, 300, 8)
    for op in (Ops.POPCOUNT, Ops.CLZ):
        after = check(lambda x, op=op: x.alu(op), [x], dtype, SPARE)
        assert op not in ops_of(after)
        assert check(lambda x, op=op: x.alu(op), [x], dtype).op is op


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_powers_of_bytes(dtype: DType) -> None:
    x, y = (a.ravel() for a in np.meshgrid(every(dtype), every(dtype)))
    assert Ops.POW not in ops_of(check(lambda x, y: x.alu(Ops.POW, y), [x, y], dtype))
    for exponent in (0, 1, 2, 3, 7, 100):
        assert Ops.POW not in ops_of(check(lambda x, e=exponent: x.alu(Ops.POW, e), [every(dtype)], dtype))


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_powers_of_words(dtype: DType) -> None:
    x, y = some(dtype, 200, 9), np.resize(some(dtype, 40, 10), len(some(dtype, 200, 9)))
    check(lambda x, y: x.alu(Ops.POW, y), [x, y], dtype)


def test_threefry_is_rounds_of_32_bits_and_agrees_natively() -> None:
    rng = np.random.default_rng(0)
    x, key = (rng.integers(0, 1 << 64, 500, np.uint64) for _ in range(2))
    after = check(lambda x, y: x.alu(Ops.THREEFRY, y), [x, key], dtypes.uint64)
    assert Ops.THREEFRY not in ops_of(after)
    found = compiled(lambda x, y: x.alu(Ops.THREEFRY, y), dtypes.uint64, 2, 500, CPU)(x, key)
    with Table() as table:
        leaves = [leaf(table, dtypes.uint64, 0), leaf(table, dtypes.uint64, 1)]
        wanted = evaluate(leaves[0].alu(Ops.THREEFRY, leaves[1]), dict(zip(leaves, (x, key), strict=True)))
    np.testing.assert_array_equal(found, wanted)
