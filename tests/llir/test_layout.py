"""Sizes, strides and offsets: complete address chains, 64-bit sizes, overflow an error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish import dtypes
from planish.dtypes import AddrSpace
from planish.errors import LoweringError
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.layout import MemoryLayout, alignment, byte_size, element_count, pack, strides
from planish.llir.program import Buffer

ROW, COLUMN = MemoryLayout.ROW_MAJOR, MemoryLayout.COLUMN_MAJOR


@given(st.lists(st.integers(1, 6), max_size=4))
def test_strides_are_numpys(shape: list[int]) -> None:
    for layout, order in ((ROW, "C"), (COLUMN, "F")):
        array = np.zeros(shape, np.int8, order=order)  # type: ignore[call-overload]
        expected = tuple(s if n > 1 else None for s, n in zip(array.strides, shape, strict=True))
        found = tuple(s if n > 1 else None for s, n in zip(strides(shape, layout), shape, strict=True))
        assert found == expected


def test_sizes() -> None:
    assert strides((2, 3, 4)) == (12, 4, 1)
    assert strides((2, 3, 4), COLUMN) == (1, 2, 6)
    assert strides(()) == ()
    assert element_count(()) == 1
    assert element_count((2, 0, 4)) == 0  # 0 is a legal size
    assert strides((2, 0, 4)) == (4, 4, 1)
    assert byte_size((2, 3), dtypes.bfloat16) == 12
    assert byte_size((2**40, 2), dtypes.float64) == 2**44
    assert byte_size((3,), dtypes.float32.vec(4)) == 48


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("bool", 1), ("i4", 1), ("u8", 1), ("i16", 2), ("u16", 2), ("f16", 2), ("bf16", 2), ("f32", 4), ("i32", 4), ("f64", 8),
     ("u64", 8), ("c128", 16)],
)  # fmt: skip
def test_every_element_size(dtype: str, size: int) -> None:
    assert byte_size((5,), dtypes.parse(dtype)) == 5 * size
    assert alignment(dtypes.parse(dtype)) == 64


def test_what_is_too_large_or_negative_is_refused() -> None:
    with pytest.raises(LoweringError, match="axis 1 of shape"):
        element_count((2, -1))
    with pytest.raises(LoweringError, match="beyond 64 bits"):
        byte_size((2**31, 2**31), dtypes.float64)
    large = Buffer("a", dtypes.int8, 2**62, AddrSpace.LOCAL)
    with pytest.raises(LoweringError, match="beyond 64 bits"):
        pack([large, large])


def test_packing_aligns_and_keeps_what_is_placed() -> None:
    a, b, c = (Buffer(n, dtypes.int8, 3, AddrSpace.LOCAL) for n in "abc")
    placed = Buffer("d", dtypes.int8, 10, AddrSpace.LOCAL, None, 64)
    arena = pack([a, placed, b, c])
    assert [x.offset for x in arena.buffers] == [128, 64, 192, 256]
    assert (arena.nbytes, arena.alignment) == (259, 64)
    assert pack([]).nbytes == 0


@pytest.mark.parametrize("layout", MemoryLayout)
@pytest.mark.parametrize("width", [dtypes.int32, dtypes.int64])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 4), (2, 1, 3, 2)])
def test_addresses_have_every_term(shape: tuple[int, ...], width: dtypes.DType, layout: MemoryLayout) -> None:
    """z[i, j, …] = x[i, j, …] with z always row-major."""
    b = Builder("copy")
    size = element_count(shape)
    x, z = b.param("x", dtypes.float32, size), b.param("z", dtypes.float32, size)
    counters = []
    loops = []
    for extent in shape:
        loops.append(b.loop(extent, dtype=width))
        counters.append(loops[-1].__enter__())
    value = b.load(b.address_nd(x, counters, strides(shape, layout), width))
    b.store(b.address_nd(z, counters, strides(shape), width), value)
    for each in reversed(loops):
        each.__exit__(None, None, None)
    given = np.arange(size, dtype=np.float32).reshape(shape)
    out = np.zeros(size, np.float32)
    interpret(b.program(), [given.ravel("C" if layout is ROW else "F"), out])
    np.testing.assert_array_equal(out.reshape(shape), given)
