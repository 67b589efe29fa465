"""dtypes: identity, printing, NumPy round trips, constants, wrapping, promotion, value preservation."""

from __future__ import annotations

import copy
import math
import pickle
import random
import threading
from itertools import pairwise, permutations, product

import ml_dtypes
import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import (
    AddrSpace,
    DType,
    Kind,
    PtrDType,
    from_numpy,
    parse,
    promote,
    result_type,
    value_preserving,
)
from planish.errors import DTypeError

NUMBERS = tuple(t for t in dtypes.ALL if t.kind not in (Kind.VOID, Kind.INDEX))
INTEGERS = dtypes.SIGNED + dtypes.UNSIGNED
NARROW_FLOATS = (dtypes.float8_e4m3fn, dtypes.float8_e5m2, dtypes.float16, dtypes.bfloat16)
POINTERS: tuple[DType, ...] = tuple(
    base.ptr(size, space)
    for base in (dtypes.float32, dtypes.bool_, dtypes.int4, dtypes.float16.vec(8))
    for size in (-1, 0, 1, 100, 2**40)
    for space in AddrSpace
)
PRINTABLE: tuple[DType, ...] = (
    *dtypes.ALL,
    *(t.vec(n) for t in (*NUMBERS, dtypes.index) for n in (2, 4, 16, 384)),
    *POINTERS,
    *(p.vec(4) for p in POINTERS),
)


def same(a: complex, b: complex) -> bool:
    """Equal as constants: same Python type, same sign of zero, NaN equals NaN."""
    if type(a) is not type(b):
        return False
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) is float:
        return (math.isnan(a) and math.isnan(b.real)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b.real)
        )
    return a == b


def every_value(dtype: DType) -> list[int | float]:
    """All values of a type of at most 16 bits, as Python numbers, in bit pattern order (one entry per pattern)."""
    if dtype.is_float:
        patterns = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return [float(v) for v in patterns.view(dtype.numpy).astype(np.float64)]
    assert isinstance(dtype.min, int)
    assert isinstance(dtype.max, int)
    return list(range(dtype.min, dtype.max + 1))


# --- identity and printing --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", PRINTABLE, ids=str)
def test_printed_pickled_and_copied_forms_give_the_same_object(dtype: DType):
    assert parse(str(dtype)) is dtype
    assert parse(dtype.short) is dtype
    assert parse(dtype.name) is dtype
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy([dtype, dtype]) == [dtype, dtype]
    assert copy.deepcopy({"t": dtype})["t"] is dtype
    assert eval(repr(dtype), {"dtypes": dtypes}) is dtype


def test_names_are_unique_and_types_differ():
    assert len({t.short for t in PRINTABLE}) == len({t.name for t in PRINTABLE}) == len(PRINTABLE)
    assert len(set(PRINTABLE)) == len(PRINTABLE)
    assert all((a == b) == (a is b) for a, b in product(dtypes.ALL, repeat=2))


def test_short_names_of_the_contract():
    shorts = "void index bool i4 i8 i16 i32 i64 u4 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128"
    assert [t.short for t in dtypes.ALL] == shorts.split()
    assert str(dtypes.float32.vec(4)) == "f32x4"
    assert str(dtypes.float32.ptr(100)) == "*f32[100]"
    assert str(dtypes.float32.ptr(16, AddrSpace.LOCAL)) == "*local f32[16]"
    assert str(dtypes.float32.ptr(4, AddrSpace.REG)) == "*reg f32[4]"
    assert str(dtypes.float32.ptr(-1)) == "*f32[?]"
    assert str(dtypes.float16.vec(8).ptr(2).vec(4)) == "*f16x8[2]x4"


def test_vectors_and_pointers_are_interned():
    assert dtypes.float32.vec(4) is dtypes.float32.vec(4)
    assert dtypes.float32.vec(1) is dtypes.float32
    assert dtypes.float32.vec(4) is not dtypes.float32.vec(8)
    assert dtypes.int8.ptr(3) is dtypes.int8.ptr(3, AddrSpace.GLOBAL)
    assert dtypes.int8.ptr(3) is not dtypes.int8.ptr(3, AddrSpace.LOCAL)
    assert parse("*global f32[8]") is dtypes.float32.ptr(8)
    assert parse(" f32x4 ") is dtypes.float32.vec(4)


def test_interning_is_safe_between_threads():
    found: list[list[DType]] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        found.append([dtypes.uint16.vec(n).ptr(n, AddrSpace.LOCAL) for n in range(1000, 1200)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(a is b for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_types_are_immutable_and_slotted():
    for dtype in (dtypes.float32, dtypes.float32.vec(2), dtypes.float32.ptr(2)):
        with pytest.raises(AttributeError, match="immutable"):
            dtype.bits = 3
        with pytest.raises(AttributeError, match="immutable"):
            dtype.anything = 3
        with pytest.raises(AttributeError, match="immutable"):
            del dtype.bits
        assert not hasattr(dtype, "__dict__")


def test_attributes_of_every_number():
    for t in NUMBERS:
        assert t.lanes == 1
        assert t.scalar is t
        assert not t.is_pointer
        assert [t.is_bool, t.is_int, t.is_float, t.is_complex, t.is_index].count(True) == 1
        assert t.is_int == (t.is_signed or t.is_unsigned)
        assert t.is_integral == t.is_int
        if t.bits >= 8:
            assert t.itemsize * 8 == t.bits
        else:
            assert t.itemsize == 1
    assert dtypes.index.is_integral
    assert not dtypes.index.is_int
    assert (dtypes.index.bits, dtypes.index.itemsize, dtypes.void.bits, dtypes.void.itemsize) == (0, 0, 0, 0)


def test_attributes_of_vectors_and_pointers():
    v = dtypes.int16.vec(8)
    assert (v.lanes, v.scalar, v.bits, v.itemsize, v.kind) == (8, dtypes.int16, 16, 2, Kind.INT)
    assert (v.is_int, v.is_signed, v.min, v.max, v.numpy) == (True, True, -32768, 32767, np.dtype(np.int16))
    p = v.ptr(5, AddrSpace.REG)
    assert isinstance(p, PtrDType)
    assert (p.base, p.size, p.space, p.is_pointer, p.is_int, p.lanes) == (v, 5, AddrSpace.REG, True, False, 1)
    q = p.vec(2)
    assert isinstance(q, PtrDType)
    assert (q.scalar, q.lanes, q.base, q.size, q.space) == (p, 2, v, 5, AddrSpace.REG)


def test_bounds_are_numpys_and_are_constants_of_their_type():
    for t in INTEGERS:
        info = ml_dtypes.iinfo(t.numpy)
        assert (t.min, t.max) == (int(info.min), int(info.max))
        assert type(t.min) is type(t.max) is int
    assert (dtypes.bool_.min, dtypes.bool_.max) == (0, 1)
    for t in dtypes.FLOATS:
        largest = math.inf if t is not dtypes.float8_e4m3fn else 448.0
        assert (t.min, t.max) == (-largest, largest)
    for t in (dtypes.index, dtypes.void, dtypes.complex64, dtypes.float32.ptr(1)):
        assert t.min is t.max is None
    for t in NUMBERS:
        if t.min is not None and t.max is not None:
            assert t.const(t.min) == t.min
            assert t.const(t.max) == t.max


def test_float_formats_agree_with_finfo():
    for t in (*dtypes.FLOATS, *dtypes.COMPLEXES):
        info = ml_dtypes.finfo(t.numpy)
        form = dtypes.float_format(t)
        assert form.eps == float(info.eps)
        assert form.largest == float(info.max)
        assert form.smallest_normal == float(info.smallest_normal)
        assert math.ldexp(1.0, form.least) == float(info.smallest_subnormal)
    with pytest.raises(DTypeError, match="i32 is not a float"):
        dtypes.float_format(dtypes.int32)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dtypes.float32.vec(0), "0 lanes"),
        (lambda: dtypes.float32.vec(-4), "-4 lanes"),
        (lambda: dtypes.float32.vec(True), "True lanes"),
        (lambda: dtypes.float32.vec(2).vec(2), "already has 2 lanes"),
        (lambda: dtypes.void.vec(2), "void has no vectors"),
        (lambda: dtypes.float32.ptr(-2), "-2 elements"),
        (lambda: dtypes.float32.ptr(4).ptr(4), r"cannot point to \*f32\[4\]"),
        (lambda: dtypes.void.ptr(4), "cannot point to void"),
        (lambda: dtypes.index.ptr(4), "cannot point to index"),
        (lambda: parse("*float99[3]"), "unknown dtype 'float99'"),
        (lambda: parse("f32x0"), "unknown dtype 'f32x0'"),
        (lambda: parse("*f32[-3]"), "unknown dtype"),
        (lambda: parse(""), "unknown dtype ''"),
        (lambda: parse("x4"), "unknown dtype 'x4'"),
        (lambda: parse(np.float32), "parsed from text"),  # type: ignore[arg-type]
    ],
)
def test_mistakes_are_named(make, message: str):
    with pytest.raises(DTypeError, match=message):
        make()


def test_unknown_name_lists_the_valid_ones_and_the_closest():
    with pytest.raises(DTypeError) as caught:
        parse("flaot32")
    text = str(caught.value)
    assert "did you mean 'float32'?" in text
    assert all(t.short in text for t in dtypes.ALL)


# --- NumPy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numpy_round_trip(dtype: DType):
    assert from_numpy(dtype.numpy) is dtype
    assert from_numpy(dtype.numpy.type) is dtype
    assert from_numpy(np.zeros(3, dtype.numpy).dtype) is dtype
    assert dtype.numpy.name == dtype.name
    assert dtype.numpy.itemsize == dtype.itemsize


def test_python_types_as_numpy_reads_them():
    assert [from_numpy(t) for t in (bool, int, float, complex)] == [
        dtypes.bool_,
        dtypes.int64,
        dtypes.float64,
        dtypes.complex128,
    ]
    assert from_numpy(np.longlong) is dtypes.int64


@pytest.mark.parametrize("dtype", [dtypes.void, dtypes.index, dtypes.float32.ptr(3)], ids=str)
def test_types_without_numpy_counterpart(dtype: DType):
    with pytest.raises(DTypeError, match="no NumPy counterpart"):
        _ = dtype.numpy


@pytest.mark.parametrize("numpy", ["datetime64[s]", "U4", "O", "longdouble", "S3"])
def test_numpy_types_without_counterpart(numpy: str):
    with pytest.raises(DTypeError, match="has no planish counterpart"):
        from_numpy(np.dtype(numpy))


def test_foreign_byte_order_is_refused_with_a_remedy():
    with pytest.raises(DTypeError, match=r"foreign byte order.*newbyteorder"):
        from_numpy(np.dtype(">f4" if np.little_endian else "<f4"))


# --- constants --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_every_narrow_float_is_its_own_constant(dtype: DType):
    for value in every_value(dtype):
        assert same(dtype.const(value), value)
        assert same(dtype.vec(4).const(value), value)


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_rounding_between_all_neighbours_is_to_nearest_even(dtype: DType):
    """Walks every gap of the format: just below, at, and just above each midpoint, both signs."""
    half = 1 << (dtype.bits - 1)
    positive = [v for v in every_value(dtype)[:half] if math.isfinite(v)]
    assert positive == sorted(positive)
    for pattern, (low, high) in enumerate(pairwise(positive)):
        middle = (low + high) / 2
        even = low if pattern % 2 == 0 else high
        for sign in (1.0, -1.0):
            assert same(dtype.const(sign * middle), sign * even)
            assert same(dtype.const(sign * math.nextafter(middle, 0)), sign * low)
            assert same(dtype.const(sign * math.nextafter(middle, math.inf)), sign * high)


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=str)
def test_constants_agree_with_the_converters_on_float32_inputs(dtype: DType):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 20_000, dtype=np.uint64).astype(np.uint32)
    near = rng.normal(size=20_000).astype(np.float32) * np.float32(2.0) ** rng.integers(
        -20, 20, 20_000
    ).astype(np.float32)
    given = np.concatenate([bits.view(np.float32), near])
    with np.errstate(all="ignore"):
        expected = given.astype(dtype.numpy).astype(np.float64)
        wide = given.astype(np.float64)
    for value, want in zip(wide.tolist(), expected.tolist(), strict=True):
        assert same(dtype.const(value), want), (value, want)


def test_float32_constants_agree_with_numpy():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 64, 20_000, dtype=np.uint64)
    near = rng.normal(size=20_000) * 2.0 ** rng.integers(-150, 128, 20_000)
    edges = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4028235677973366e38, 3.4028235677973362e38, 1e-46, 7e-46]
    )
    given = np.concatenate([bits.view(np.float64), near, edges, -edges])
    with np.errstate(all="ignore"):
        expected = given.astype(np.float32).astype(np.float64)
    for value, want in zip(given.tolist(), expected.tolist(), strict=True):
        assert same(dtypes.float32.const(value), want), (value, want)


def test_constants_round_once_where_going_through_float32_rounds_twice():
    # 1 + 2**-8 is a tie in bfloat16; the last bit of a double lifts it above, and float32 loses that bit.
    above = 1.0 + 2.0**-8 + 2.0**-40
    assert dtypes.bfloat16.const(above) == 1.0 + 2.0**-7
    # The same for an integer too wide for a double: 2**24 + 1 is a tie in float32.
    assert dtypes.float32.const((2**24 + 1) << 60) == float(2**84)
    assert dtypes.float32.const(((2**24 + 1) << 60) + 1) == float((2**24 + 2) << 60)
    assert dtypes.float32.const(-((2**24 + 1) << 60) - 1) == -float((2**24 + 2) << 60)


def test_integers_become_floats_as_exact_ratios_do():
    rng = random.Random(2)
    for _ in range(5000):
        value = rng.getrandbits(rng.randrange(1, 140)) * rng.choice((1, -1))
        assert same(dtypes.float64.const(value), float(value))
        if abs(value) < 1 << 53:
            assert same(dtypes.float32.const(value), float(np.float32(float(value))))


def test_special_constants():
    for t in dtypes.FLOATS:
        assert math.isnan(t.const(math.nan).real)
        assert t.const(-math.nan) is t.const(
            math.nan
        )  # one object, so that tables keyed by constants find it
        assert same(t.const(-0.0), -0.0)
        assert same(t.const(0), 0.0)
        assert same(t.const(True), 1.0)
        assert same(t.const(-1e-300), -1e-300 if t is dtypes.float64 else -0.0)
        for huge in (math.inf, 10**400):
            for sign in (1, -1):
                want = math.nan if t is dtypes.float8_e4m3fn else sign * math.inf
                assert same(t.const(sign * huge), want)
    assert same(dtypes.float8_e4m3fn.const(464.0), 448.0)  # the tie with the absent 480 goes to even
    assert same(dtypes.float8_e4m3fn.const(464.0000001), math.nan)
    assert same(dtypes.float8_e5m2.const(61440.0), math.inf)
    assert same(dtypes.float64.const(5e-324), 5e-324)


def test_complex_constants():
    assert same(dtypes.complex64.const(0.1 - 0.2j), complex(float(np.float32(0.1)), float(np.float32(-0.2))))
    assert same(dtypes.complex128.const(complex(-0.0, -0.0)), complex(-0.0, -0.0))
    assert same(dtypes.complex128.const(complex(math.nan, math.inf)), complex(math.nan, math.inf))
    assert same(dtypes.complex64.const(2), complex(2.0, 0.0))
    assert same(dtypes.complex64.const(1e300j), complex(0.0, math.inf))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_constants_are_exact_or_refused(dtype: DType):
    low, high = dtype.min, dtype.max
    assert isinstance(low, int)
    assert isinstance(high, int)
    for value in (low, low + 1, 0, 1, high - 1, high):
        assert same(dtype.const(value), value)
    for value in (low - 1, high + 1, 1 << 200, -(1 << 200)):
        with pytest.raises(DTypeError, match=f"its range is {low} .. {high}"):
            dtype.const(value)
    assert same(dtype.const(True), 1)
    assert same(dtype.const(3.0), 3)
    for bad in (0.5, math.nan, math.inf, 1j, "1", None):
        with pytest.raises(DTypeError, match=f"not a constant of dtype {dtype}"):
            dtype.const(bad)  # type: ignore[arg-type]


def test_bool_and_index_constants():
    for given, want in ((0, False), (1, True), (False, False), (True, True), (1.0, True), (-0.0, False)):
        assert same(dtypes.bool_.const(given), want)
    for bad in (2, -1, 0.5, math.nan, 1j):
        with pytest.raises(DTypeError, match="not a constant of dtype bool"):
            dtypes.bool_.const(bad)
    assert same(dtypes.index.const(1 << 100), 1 << 100)
    assert same(dtypes.index.const(True), 1)
    with pytest.raises(DTypeError, match="not a constant of dtype index"):
        dtypes.index.const(1.5)


@pytest.mark.parametrize("dtype", [dtypes.void, dtypes.float32.ptr(2)], ids=str)
def test_types_without_constants(dtype: DType):
    with pytest.raises(DTypeError, match="is not a constant of dtype"):
        dtype.const(0)


def test_numpy_scalars_are_taken_by_value():
    assert same(dtypes.float64.const(ml_dtypes.bfloat16(1.5)), 1.5)
    assert same(dtypes.int8.const(ml_dtypes.int4(-3)), -3)
    assert same(dtypes.float32.const(np.float64(0.1)), float(np.float32(0.1)))
    assert same(dtypes.uint64.const(np.uint64(2**64 - 1)), 2**64 - 1)
    assert same(dtypes.int64.const(np.int64(-(2**63))), -(2**63))
    assert same(dtypes.bool_.const(np.True_), True)
    assert same(dtypes.complex64.const(np.complex64(1 + 2j)), 1 + 2j)
    assert same(dtypes.float64.const(np.uint64(2**64 - 1)), 2.0**64)
    with pytest.raises(DTypeError, match="rounded twice"):
        dtypes.float32.const(np.longdouble(1))
    with pytest.raises(DTypeError, match="not a constant"):
        dtypes.int64.const(np.datetime64(1, "s"))


def test_floats_refuse_complex_constants():
    with pytest.raises(DTypeError, match="real part"):
        dtypes.float32.const(1 + 0j)


# --- wrapping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [t for t in INTEGERS if t.bits >= 8], ids=str)
def test_wrap_agrees_with_numpy(dtype: DType):
    rng = random.Random(3)
    values = [rng.getrandbits(64) for _ in range(2000)] + [0, 2**63, 2**63 - 1, 2**64 - 1]
    expected = np.array(values, np.uint64).astype(dtype.numpy)
    for value, want in zip(values, expected.tolist(), strict=True):
        for shifted in (value, value - 2**64, value + 2**64):
            assert same(dtype.wrap(shifted), want)


@pytest.mark.parametrize("dtype", [*INTEGERS, dtypes.int4.vec(8)], ids=str)
def test_wrap_lands_in_range_and_keeps_the_residue(dtype: DType):
    assert isinstance(dtype.min, int)
    assert isinstance(dtype.max, int)
    for value in [*range(-300, 300), 10**30, -(10**30)]:
        wrapped = dtype.wrap(value)
        assert dtype.min <= wrapped <= dtype.max
        assert (wrapped - value) % (1 << dtype.bits) == 0


def test_wrap_of_the_other_kinds():
    assert [dtypes.bool_.wrap(v) for v in (0, 1, 2, 3, -1)] == [False, True, False, True, True]
    assert dtypes.index.wrap(-(1 << 90)) == -(1 << 90)
    for t in (dtypes.float32, dtypes.complex64, dtypes.void, dtypes.float32.ptr(1)):
        with pytest.raises(DTypeError, match="does not wrap"):
            t.wrap(1)


# --- promotion --------------------------------------------------------------------------------------------

# The tables of the Array API standard; "-" where it defines nothing.
STANDARD = """
       i8   i16  i32  i64  u8   u16  u32  u64
i8     i8   i16  i32  i64  i16  i32  i64  -
i16    i16  i16  i32  i64  i16  i32  i64  -
i32    i32  i32  i32  i64  i32  i32  i64  -
i64    i64  i64  i64  i64  i64  i64  i64  -
u8     i16  i16  i32  i64  u8   u16  u32  u64
u16    i32  i32  i32  i64  u16  u16  u32  u64
u32    i64  i64  i64  i64  u32  u32  u32  u64
u64    -    -    -    -    u64  u64  u64  u64

       f32  f64  c64  c128
f32    f32  f64  c64  c128
f64    f64  f64  c128 c128
c64    c64  c128 c64  c128
c128   c128 c128 c128 c128

       bool
bool   bool
"""

# Beyond the standard: 4-bit integers and narrow floats.
EXTENDED = """
       i4   i8   i16  u4   u8   u16
i4     i4   i8   i16  i8   i16  i32
u4     i8   i8   i16  u4   u8   u16
i8     i8   i8   i16  i8   i16  i32
u8     i16  i16  i16  u8   u8   u16

          f8e4m3fn f8e5m2 f16  bf16 f32  f64  c64  c128
f8e4m3fn  f8e4m3fn f16    f16  bf16 f32  f64  c64  c128
f8e5m2    f16      f8e5m2 f16  bf16 f32  f64  c64  c128
f16       f16      f16    f16  f32  f32  f64  c64  c128
bf16      bf16     bf16   f32  bf16 f32  f64  c64  c128
"""


def read_table(text: str) -> dict[tuple[DType, DType], DType | None]:
    table: dict[tuple[DType, DType], DType | None] = {}
    for block in text.strip("\n").split("\n\n"):
        header, *rows = (line.split() for line in block.splitlines())
        for name, *cells in rows:
            for column, cell in zip(header, cells, strict=True):
                table[parse(name), parse(column)] = None if cell == "-" else parse(cell)
    return table


STANDARD_TYPES = tuple(dict.fromkeys(a for a, _ in read_table(STANDARD)))


@pytest.mark.parametrize("strict", [False, True])
def test_promotion_table_of_the_standard(strict: bool):
    for (a, b), want in read_table(STANDARD).items():
        if want is None:
            with pytest.raises(DTypeError, match=r"cannot promote .* cast explicitly"):
                promote(a, b, strict=strict)
        else:
            assert promote(a, b, strict=strict) is want
            assert np.result_type(a.numpy, b.numpy) == want.numpy
            assert result_type(a, b) is want
            if a is not b:
                assert promote(a.vec(4), b.vec(4), strict=strict) is want.vec(4)


def test_strict_promotion_defines_exactly_the_standard():
    table = read_table(STANDARD)
    for a, b in product(STANDARD_TYPES, repeat=2):
        if table.get((a, b)) is None:
            with pytest.raises(DTypeError):
                promote(a, b, strict=True)


def test_promotion_beyond_the_standard():
    for (a, b), want in read_table(EXTENDED).items():
        assert want is not None
        assert promote(a, b) is promote(b, a) is want


def test_bool_and_integers_take_the_other_type():
    for t in NUMBERS:
        assert promote(dtypes.bool_, t) is t
    for integer, inexact in product(INTEGERS, (*dtypes.FLOATS, *dtypes.COMPLEXES)):
        assert promote(integer, inexact) is inexact
    assert promote(dtypes.uint64, dtypes.int8, dtypes.float32) is dtypes.float32


def attempt(*types: DType) -> DType | None:
    try:
        return promote(*types)
    except DTypeError:
        return None


def test_promotion_never_depends_on_the_order():
    for triple in product(NUMBERS, repeat=3):
        assert len({attempt(*order) for order in permutations(triple)}) == 1, triple


def test_promotion_within_a_kind_is_the_narrowest_that_holds_both():
    for family in (INTEGERS, dtypes.FLOATS):
        for a, b in product(family, repeat=2):
            joined = attempt(a, b)
            holding = [t for t in family if value_preserving(a, t) and value_preserving(b, t)]
            if joined is None:
                assert not holding
            else:
                assert joined in holding
                assert joined.bits == min(t.bits for t in holding)


def test_promotion_of_one_type_and_of_types_that_only_go_with_themselves():
    for t in PRINTABLE:
        assert promote(t) is promote(t, t) is result_type(t) is t
    others = (dtypes.void, dtypes.index, dtypes.float32.ptr(4), dtypes.float32.ptr(4).vec(2))
    for a, b in product(others, (*dtypes.ALL, dtypes.float32.vec(2), dtypes.float32.ptr(5))):
        if a is not b:
            with pytest.raises(DTypeError, match="cannot promote"):
                promote(a, b)
            with pytest.raises(DTypeError, match="cannot promote"):
                promote(b, a)
    with pytest.raises(DTypeError, match="lanes"):
        promote(dtypes.float32, dtypes.float32.vec(4))
    with pytest.raises(DTypeError, match="nothing to promote"):
        promote()


# --- weak Python numbers ----------------------------------------------------------------------------------


def test_weak_numbers_take_the_type_they_meet():
    for t in NUMBERS:
        assert result_type(t, True) is result_type(True, t) is t
    for t in (*INTEGERS, *dtypes.FLOATS, *dtypes.COMPLEXES):
        assert result_type(t, 1) is result_type(1, t) is t
        assert result_type(t.vec(4), 10**30) is t.vec(4)
    for t in (*dtypes.FLOATS, *dtypes.COMPLEXES):
        assert result_type(t, 1.5) is result_type(1.5, True, t, 2) is t
    for t in dtypes.COMPLEXES:
        assert result_type(t, 1j) is t
    assert result_type(dtypes.index, 3) is result_type(3, dtypes.index) is dtypes.index


def test_weak_numbers_agree_with_numpy_where_the_standard_defines_them():
    defined = [
        *((t, 1) for t in STANDARD_TYPES if not t.is_bool),
        *((t, 1.5) for t in STANDARD_TYPES if t.is_float or t.is_complex),
        *((t, 1j) for t in STANDARD_TYPES if t.is_float or t.is_complex),
        (dtypes.bool_, True),
    ]
    for t, number in defined:
        assert result_type(t, number).numpy == np.result_type(t.numpy, number)


def test_weak_numbers_of_a_higher_kind_lift():
    assert result_type(dtypes.bool_, 1) is dtypes.int64
    assert result_type(dtypes.bool_.vec(2), 1) is dtypes.int64.vec(2)
    for t in (dtypes.bool_, *INTEGERS):
        assert result_type(t, 1.5) is dtypes.float32
        assert result_type(t, 1j) is dtypes.complex64
    assert result_type(dtypes.float64, 1j) is dtypes.complex128
    for t in (dtypes.float32, *NARROW_FLOATS):
        assert result_type(t, 1j) is dtypes.complex64
    assert [result_type(v) for v in (True, 1, 1.5, 1j)] == [
        dtypes.bool_,
        dtypes.int64,
        dtypes.float32,
        dtypes.complex64,
    ]
    assert result_type(True, 1, 1.5) is dtypes.float32


def test_weak_numbers_that_fit_nothing():
    for t, number in ((dtypes.index, 1.5), (dtypes.void, 1), (dtypes.float32.ptr(2), 1)):
        with pytest.raises(DTypeError, match="cannot promote"):
            result_type(t, number)
    with pytest.raises(DTypeError, match="Python numbers, not 'f32'"):
        result_type("f32")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="nothing to promote"):
        result_type()


# --- value preservation -----------------------------------------------------------------------------------


def holds(dst: DType, values: list[int | float]) -> bool:
    """Whether NumPy carries every value to `dst` and back unchanged."""
    given = np.array(values, np.float64)  # exact for everything up to 16 bits
    if dst.is_bool or dst.is_int:
        if not np.isfinite(given).all() or (np.signbit(given) & (given == 0)).any():
            return False
        return bool((given >= float(dst.min or 0)).all() and (given <= float(dst.max or 0)).all()) and bool(
            (given == np.floor(given)).all()
        )
    with np.errstate(all="ignore"):
        back = given.astype(dst.numpy)
        back = back.real.astype(np.float64) if dst.is_complex else back.astype(np.float64)
    return bool(
        np.array_equal(back, given, equal_nan=True)
        and (np.signbit(back) == np.signbit(given))[~np.isnan(given)].all()
    )


@pytest.mark.parametrize("src", [t for t in NUMBERS if t.bits <= 16], ids=str)
def test_value_preserving_is_what_numpy_carries(src: DType):
    values = every_value(src)
    for dst in NUMBERS:
        assert value_preserving(src, dst) == holds(dst, values), dst


def test_value_preserving_of_wide_types():
    """Each type of 32 bits or more with the complete list of types that hold it."""
    holders = {
        "i32": "i32 i64 f64 c128 index",
        "u32": "u32 u64 i64 f64 c128 index",
        "i64": "i64 index",
        "u64": "u64 index",
        "f32": "f32 f64 c64 c128",
        "f64": "f64 c128",
        "c64": "c64 c128",
        "c128": "c128",
        "index": "index",
        "void": "void",
    }
    for src, names in holders.items():
        assert {t for t in dtypes.ALL if value_preserving(parse(src), t)} == {
            parse(name) for name in names.split()
        }


def test_value_preserving_with_index_vectors_and_pointers():
    for t in (*INTEGERS, dtypes.bool_):
        assert value_preserving(t, dtypes.index)
    assert not value_preserving(dtypes.float16, dtypes.index)
    assert value_preserving(dtypes.int8.vec(4), dtypes.int16.vec(4))
    assert not value_preserving(dtypes.int16.vec(4), dtypes.int8.vec(4))
    assert not value_preserving(dtypes.int8, dtypes.int16.vec(4))
    assert not value_preserving(dtypes.float32.ptr(4), dtypes.float32.ptr(8))
    assert value_preserving(dtypes.float32.ptr(4), dtypes.float32.ptr(4))
