"""Tensor cores as data: the tile a WMMA computes, and which bits of thread and register number its elements.

A core computes C[m, n] += A[m, k] @ B[k, n] on matrices that `threads` threads hold together, each the same number of
register lanes. Which element sits where is a permutation of bits: a layout lists, from the least significant bit of the
element's row-major number on, where that bit comes from: `r0`, `r1` … of the lane number in the register, `l0`, `l1` … of
the thread number in its group. NVIDIA's `mma.sync` and Intel's AMX tiles differ in these lists alone.

A matrix may also be read from LOCAL memory, by all threads of a group together (`wgmma`). Its layout is then one word, `@k` or
`@mn`, that says along which axis its rows of 128 bytes run (`place_in_memory`); what a thread holds of it is where it starts.

Everything that has to know where an element is (the rewrite of stage 7, the interpreters, code generation) reads it here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planish import dtypes
from planish.dtypes import DType
from planish.records import dataclass
from planish.uop.ops import Exchange, TensorCoreOp

Matrix = Literal["a", "b", "c"]
Order = Literal["k", "apart", "odd first"]
MATRICES: Final[tuple[Matrix, ...]] = ("a", "b", "c")
_BIT: Final = re.compile(r"[lr](0|[1-9][0-9]*)")
IN_MEMORY: Final = {"@k": True, "@mn": False}
"""Layouts of matrices in LOCAL memory: whether neighbours are along k."""
_MEMORY_LAYOUTS: Final = frozenset((word,) for word in IN_MEMORY)
_ROW_BYTES: Final = 128
_CHUNKS: Final = 8
"""Pieces of 16 bytes that make a row."""


def place_in_memory(across: Any, k: Any, size: int, *, along_k: bool) -> Any:
    """Where the element at `k` and `across` (a row of A, a column of B) of a matrix lies; numbers, arrays or expressions.

    Rows of 128 bytes (`size` elements) run along k, or across it; longer matrices have several blocks of `size` rows then. The 16-byte
    pieces of a row are in an order that differs from row to row, so that what is read together lies in different banks.
    """
    row, column = (across, k) if along_k else (k, across % size)
    start = 0 if along_k else across // size * (size * size)
    chunk = size // _CHUNKS
    return row * size + ((column // chunk) ^ (row % _CHUNKS)) * chunk + column % chunk + start


class BitField(NamedTuple):
    """Neighbouring bits that move together: `bits` bits of a number from `start` on are bits of a row or column from `to` on."""

    source: Literal["l", "r"]
    start: int
    bits: int
    row: bool
    to: int


@dataclass(frozen=True, slots=True)
class Core:
    """One tensor core instruction."""

    name: str
    m: int
    n: int
    k: int
    inputs: DType
    """The dtype of the elements of A, and of B unless that has its own."""
    output: DType
    """The dtype of C, in which products are summed."""
    threads: int
    a: tuple[str, ...]
    b: tuple[str, ...]
    c: tuple[str, ...]
    right: DType | None = None
    """The dtype of the elements of B, if it is another than that of A."""
    mantissa: int | None = None
    """How many explicit mantissa bits of an input count, if fewer than its dtype has; using it then changes results."""
    sum_bits: int | None = None
    """About how many bits of a sum are kept while k is added up, if fewer than its dtype has; using it then changes results."""
    order: Order = "k"
    """In which it adds: k in order, or one that flushes subnormals as well (`ORDERS`)."""
    widens: bool = False
    """Whether it is also used for operands of narrower integers, which are converted when they are staged."""
    shifts: bool = False
    """Whether integers of A that its dtype holds only when something is added to them are shifted; what that adds is taken off."""
    feature: str = ""
    """What a processor must have beyond what its target's name promises, in LLVM's words."""

    @property
    def is_rough(self) -> bool:
        """Whether results are not those of its dtypes, so that it is used by those alone who allow it."""
        return self.mantissa is not None or self.sum_bits is not None

    def seen(self, values: NDArray[Any]) -> NDArray[Any]:
        """Elements of an operand in memory as the core takes them: bits that do not count are dropped (in registers they are rounded before)."""
        if self.mantissa is None:
            return values
        dropped = 23 - self.mantissa
        return (values.view(np.uint32) >> dropped << dropped).view(np.float32)

    @property
    def dims(self) -> tuple[int, int, int]:
        """m, n, k."""
        return self.m, self.n, self.k

    @property
    def arg(self) -> TensorCoreOp:
        """How a WMMA node names it."""
        return TensorCoreOp(self.name, self.dims)

    def shape(self, matrix: Matrix) -> tuple[int, int]:
        """Rows and columns of a matrix."""
        return {"a": (self.m, self.k), "b": (self.k, self.n), "c": (self.m, self.n)}[matrix]

    def layout(self, matrix: Matrix) -> tuple[str, ...]:
        """Where the bits of an element's row-major number come from."""
        return {"a": self.a, "b": self.b, "c": self.c}[matrix]

    def in_memory(self, matrix: Matrix) -> bool:
        """Whether a matrix is read from LOCAL memory."""
        return self.layout(matrix)[:1] in _MEMORY_LAYOUTS

    @property
    def reads_memory(self) -> bool:
        """Whether its operands are in LOCAL memory."""
        return self.in_memory("a") or self.in_memory("b")

    def lanes(self, matrix: Matrix) -> int:
        """The register lanes that one thread holds of a matrix; of one in LOCAL memory the place."""
        if self.in_memory(matrix):
            return 1
        rows, columns = self.shape(matrix)
        return rows * columns // self.threads

    def dtype(self, matrix: Matrix) -> DType:
        """The dtype of what one thread holds of a matrix."""
        scalar = {"a": self.inputs, "b": self.right or self.inputs, "c": self.output}[matrix]
        return scalar.vec(self.lanes(matrix))

    def parts(self, matrix: Matrix) -> tuple[BitField, ...]:
        """The layout as runs of bits, each as long as possible; those of the registers by falling lane bit."""
        columns = (self.shape(matrix)[1] - 1).bit_length()
        fields: list[BitField] = []
        for place, bit in enumerate(self.layout(matrix)):
            row, number = place >= columns, int(bit[1:])
            last = fields[-1] if fields else None
            if (
                last is not None
                and last.source == bit[0]
                and last.row == row
                and last.start + last.bits == number
            ):
                fields[-1] = last._replace(bits=last.bits + 1)
            else:
                fields.append(
                    BitField("l" if bit[0] == "l" else "r", number, 1, row, place - columns if row else place)
                )
        return tuple(sorted(fields, key=lambda part: (part.source, -part.start)))

    def places(self, matrix: Matrix) -> NDArray[np.int64]:
        """The row-major number of the element that [thread, lane] holds."""
        shape = (self.threads, self.lanes(matrix))
        thread, lane = np.indices(shape)
        place = np.zeros(shape, np.int64)
        for position, bit in enumerate(self.layout(matrix)):
            source = thread if bit[0] == "l" else lane
            place |= (source >> int(bit[1:]) & 1) << position
        return closed_up(place, self.shape(matrix)[1])

    def memory_places(self, matrix: Matrix) -> NDArray[np.int64]:
        """How far behind its first element each element of a matrix in LOCAL memory lies, in row-major order."""
        return memory_places(matrix, self.shape(matrix), self.k, self.layout(matrix)[0])

    def problems(self) -> Iterator[str]:
        """What is wrong with the description."""
        n = 1 << (self.n - 1).bit_length() if self.reads_memory else self.n
        if any(size < 1 or size & (size - 1) for size in (self.m, n, self.k, self.threads)):
            yield f"{self.name}: sizes and threads must be powers of two"
            return
        for matrix in MATRICES:
            rows, columns = self.shape(matrix)
            columns = n if columns == self.n else columns
            bits = self.layout(matrix)
            if self.in_memory(matrix):
                continue
            threads = self.threads.bit_length() - 1
            registers = (rows * columns).bit_length() - 1 - threads
            expected = {f"l{i}" for i in range(threads)} | {f"r{i}" for i in range(registers)}
            if any(_BIT.fullmatch(bit) is None for bit in bits) or sorted(bits) != sorted(expected):
                yield f"{self.name}: the bits of {matrix} do not number its {rows}x{columns} elements once each"


def closed_up(places: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """Row-major numbers of elements whose rows are as long as the next power of two, as they are without what is too many."""
    bits = (columns - 1).bit_length()
    return places if columns == 1 << bits else (places >> bits) * columns + (places & (1 << bits) - 1)


def memory_places(matrix: str, shape: tuple[int, int], size: int, layout: str) -> NDArray[np.int64]:
    """`Core.memory_places`, told what it needs."""
    row, column = np.indices(shape)
    across, k = (row, column) if matrix == "a" else (column, row)
    return np.asarray(place_in_memory(across, k, size, along_k=IN_MEMORY[layout]), np.int64).reshape(-1)


def _bits(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ACCUMULATOR: Final = _bits("r0 l0 l1  l2 l3 l4 r1")
"""C of every `mma.sync` with 16 rows and 8 columns."""
_K16: Final = (
    _bits("r0 l0 l1 r2  l2 l3 l4 r1"),
    _bits("l2 l3 l4  r0 l0 l1 r1"),
    _ACCUMULATOR,
)
_K8: Final = (_bits("l0 l1 r1  l2 l3 l4 r0"), _bits("l2 l3 l4  l0 l1 r0"), _ACCUMULATOR)
_K32: Final = (_bits("r0 r1 l0 l1 r3  l2 l3 l4 r2"), _bits("l2 l3 l4  r0 r1 l0 l1 r2"), _ACCUMULATOR)
_F64: Final = (_bits("l0 l1  l2 l3 l4"), _bits("l2 l3 l4  l0 l1"), _bits("r0 l0 l1  l2 l3 l4"))
_ROWS: Final = _bits("r0 r1 r2 r3 r4 r5 r6 r7 r8 r9")
# AMX holds A and C by rows; B in rows of pairs (16-bit) or quads (8-bit) of neighbours along k.
_PAIRS: Final = (_ROWS[:9], _bits("r1 r2 r3 r4  r0 r5 r6 r7 r8"), _ROWS[:8])
_QUADS: Final = (_ROWS[:10], _bits("r2 r3 r4 r5  r0 r1 r6 r7 r8 r9"), _ROWS[:8])

NVIDIA: Final = (
    Core("mma_m16n8k16_f16_f32", 16, 8, 16, dtypes.float16, dtypes.float32, 32, *_K16),
    Core("mma_m16n8k16_bf16_f32", 16, 8, 16, dtypes.bfloat16, dtypes.float32, 32, *_K16),
    Core("mma_m16n8k8_tf32_f32", 16, 8, 8, dtypes.float32, dtypes.float32, 32, *_K8, mantissa=10),
    Core("mma_m16n8k8_tfloat32_f32", 16, 8, 8, dtypes.tfloat32, dtypes.float32, 32, *_K8),
    Core("mma_m16n8k32_s8_s32", 16, 8, 32, dtypes.int8, dtypes.int32, 32, *_K32),
    Core("mma_m16n8k32_u8_s32", 16, 8, 32, dtypes.uint8, dtypes.int32, 32, *_K32),
    Core("mma_m8n8k4_f64_f64", 8, 8, 4, dtypes.float64, dtypes.float64, 32, *_F64),
)
"""`mma.sync` as an H100 has it. Of f32 inputs it reads 10 mantissa bits, which are all that tfloat32 has."""

AMX: Final = (
    Core(
        "amx_tdpbf16ps",
        16,
        16,
        32,
        dtypes.bfloat16,
        dtypes.float32,
        1,
        *_PAIRS,
        order="apart",
        feature="amx-bf16",
    ),
    Core("amx_tdpbssd", 16, 16, 64, dtypes.int8, dtypes.int32, 1, *_QUADS, feature="amx-int8"),
    Core(
        "amx_tdpbusd",
        16,
        16,
        64,
        dtypes.uint8,
        dtypes.int32,
        1,
        *_QUADS,
        right=dtypes.int8,
        feature="amx-int8",
    ),
    Core(
        "amx_tdpbsud",
        16,
        16,
        64,
        dtypes.int8,
        dtypes.int32,
        1,
        *_QUADS,
        right=dtypes.uint8,
        feature="amx-int8",
    ),
    Core("amx_tdpbuud", 16, 16, 64, dtypes.uint8, dtypes.int32, 1, *_QUADS, feature="amx-int8"),
)
"""Intel AMX: tiles of 16 rows of 64 bytes, held by one core."""


def _pairs(n: int) -> Core:
    """c[n] += a[0]·b[0, n] + a[1]·b[1, n]: a vector of dot products of pairs of 16-bit integers."""
    bits = [f"r{bit}" for bit in range(n.bit_length())]
    return Core(
        f"pairs_i16_n{n}", 1, n, 2, dtypes.int16, dtypes.int32, 1, ("r0",), (*bits[1:], bits[0]), tuple(bits[:-1]), widens=True
    )  # fmt: skip


def _quads(n: int, left: DType, right: DType) -> Core:
    """c[n] += a[0]·b[0, n] + … + a[3]·b[3, n]: a vector of dot products of four 8-bit integers, those of a or of b without a sign."""
    bits = [f"r{bit}" for bit in range(n.bit_length() + 1)]
    name = f"quads_{left.short}{right.short}_n{n}"
    return Core(
        name, 1, n, 4, left, dtypes.int32, 1, ("r0", "r1"), (*bits[2:], *bits[:2]), tuple(bits[:-2]),
        right=right, widens=True, shifts=left is dtypes.uint8, feature="avx512vnni",
    )  # fmt: skip


def _halves(n: int) -> Core:
    """c[n] += a[1]·b[1, n], then a[0]·b[0, n]: a vector of dot products of pairs of bfloat16."""
    bits = [f"r{bit}" for bit in range(n.bit_length())]
    return Core(
        f"pairs_bf16_n{n}", 1, n, 2, dtypes.bfloat16, dtypes.float32, 1, ("r0",), (*bits[1:], bits[0]), tuple(bits[:-1]),
        order="odd first", feature="avx512bf16",
    )  # fmt: skip


PAIRS: Final = {n: (_pairs(n),) for n in (8, 16)}
"""Integer dot products in vector registers (`vpmaddwd`, `vpdpwssd`), by how many lanes of 32 bits these have."""
QUADS: Final = (_quads(16, dtypes.uint8, dtypes.int8), _quads(16, dtypes.int8, dtypes.uint8))
"""The same of four bytes each (`vpdpbusd`)."""
BF16: Final = (_halves(16),)
"""The same of pairs of bfloat16 (`vdpbf16ps`)."""


_HELD: Final = _bits("r0 l0 l1 r2 r3 r4  l2 l3 l4 r1 l5 l6")
"""A in registers, of so many columns as are 128 bytes of 16-bit elements: what a thread holds of them is what it holds of C."""


def _warpgroup(
    n: int,
    inputs: DType,
    layouts: tuple[str, str],
    kind: str,
    exactness: tuple[int | None, int | None] = (None, None),
) -> Core:
    """C[64, n] += A[64, k] @ B[k, n] by 128 threads; B is in LOCAL memory, and A as well or in registers; k is what 128 bytes hold."""
    columns = ["r0", "l0", "l1", *(f"r{bit}" for bit in range(2, (n - 1).bit_length() - 1))]
    output, short = (dtypes.int32, "s32") if inputs.is_int else (dtypes.float32, "f32")
    name = f"wgmma_m64n{n}_{kind}_{short}_{''.join(layout.strip('@')[0] for layout in layouts)}"
    a = _HELD if layouts[0] == "registers" else (layouts[0],)
    return Core(
        name, 64, n, _ROW_BYTES // inputs.itemsize, inputs, output, 128, a, (layouts[1],),
        (*columns, "l2", "l3", "l4", "r1", "l5", "l6"), mantissa=exactness[0], sum_bits=exactness[1],
    )  # fmt: skip


WARPGROUP_COLUMNS: Final = (256, 224, 192, 160, 128, 112, 96, 80, 64, 32, 16, 8)
_HALVES: Final = ((dtypes.bfloat16, "bf16"), (dtypes.float16, "f16"))


def _columns(layout: str, inputs: DType) -> tuple[int, ...]:
    """How many columns C may have: rows of B that run along them are whole rows of 128 bytes."""
    return tuple(n for n in WARPGROUP_COLUMNS if layout == "@k" or n * inputs.itemsize % _ROW_BYTES == 0)


HOPPER: Final = tuple(
    _warpgroup(n, inputs, layouts, kind)
    for inputs, kind in _HALVES
    for layouts in (("@k", "@k"), ("@k", "@mn"), ("@mn", "@k"), ("@mn", "@mn"))
    for n in _columns(layouts[1], inputs)
) + tuple(
    _warpgroup(n, inputs, ("@k", "@k"), kind, exactness)
    for inputs, kind, exactness in (
        (dtypes.tfloat32, "tfloat32", (None, None)),
        (dtypes.float32, "tf32", (10, None)),
        (dtypes.float8_e4m3fn, "e4m3", (None, 13)),
        (dtypes.float8_e5m2, "e5m2", (None, 13)),
        (dtypes.int8, "s8", (None, None)),
        (dtypes.uint8, "u8", (None, None)),
    )
    for n in WARPGROUP_COLUMNS
)
"""`wgmma` of sm_90a: the names end in the axes, k or m/n, along which A and B have neighbours. Only 16-bit elements may lie both ways."""


CHAINED: Final = tuple(
    _warpgroup(n, inputs, ("registers", layout), kind)
    for inputs, kind in _HALVES
    for layout in ("@k", "@mn")
    for n in _columns(layout, inputs)
)
"""`wgmma` whose left operand is in registers, made of the sums of another one; machines that have `HOPPER` have them."""

CORES: Final[dict[str, Core]] = {
    core.name: core
    for core in (
        *NVIDIA,
        *HOPPER,
        *CHAINED,
        *AMX,
        *BF16,
        *QUADS,
        *(core for cores in PAIRS.values() for core in cores),
    )
}
"""Every tensor core there is, by the name its WMMA nodes carry."""


def core_of(arg: TensorCoreOp) -> Core | None:
    """The description of the core that a WMMA names; None if nobody described it."""
    return CORES.get(arg.name)


def multiply_pairs(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """a @ b + c in float32 as Intel documents `tdpbf16ps`, on […, m, k], […, k, n] and […, m, n] of values of bfloat16.

    Products of even k are added up in order, fused, those of odd k likewise; both sums together, and that to c. Whatever is
    subnormal, on the way in or on the way out of an addition, counts as 0 of its sign.
    """
    a, b = _flushed(a).astype(np.float64), _flushed(b).astype(np.float64)
    sums = []
    with np.errstate(all="ignore"):
        for first in (0, 1):
            total = np.zeros(np.broadcast_shapes((*a.shape[:-1], 1), c.shape), np.float32)
            for k in range(first, a.shape[-1], 2):
                # exact enough: a product has 16 bits, so rounding it to float64 first never changes what is rounded to float32
                wide = total.astype(np.float64) + a[..., :, k, None] * b[..., None, k, :]
                total = _flushed(wide.astype(np.float32))
            sums.append(total)
        return _flushed(_flushed(c) + _flushed(sums[0] + sums[1]))


def _flushed(x: NDArray[Any]) -> NDArray[Any]:
    """float32 values, those that are subnormal as 0."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def multiply_odd_first(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """The same as Intel documents `vdpbf16ps`, and as processors of AMD compute it, too.

    Of each pair the product of the odd k is added first, then that of the even one, both fused; subnormals count as 0 as above.
    """
    a, b = _flushed(a).astype(np.float64), _flushed(b).astype(np.float64)
    total = _flushed(c)
    with np.errstate(all="ignore"):
        for k in (each ^ 1 for each in range(a.shape[-1])):
            total = _flushed(_fused(a[..., :, k, None] * b[..., None, k, :], total))
    return total


def _fused(product: NDArray[Any], total: NDArray[Any]) -> NDArray[Any]:
    """The sum of an exact product and a float32, rounded once: rounding to float64 must not decide what is half-way."""
    total = np.broadcast_to(total.astype(np.float64), np.broadcast_shapes(product.shape, total.shape))
    wide = product + total
    back = wide - product
    lost = (product - (wide - back)) + (total - back)
    # where something was lost, the last bit says so: round to odd
    inexact = (lost != 0) & np.isfinite(wide)
    bits = wide.view(np.int64)
    toward = np.where((lost > 0) == (wide > 0), bits, bits - 1)
    odd: NDArray[Any] = np.where(inexact, (toward | 1).view(np.float64), wide)
    return odd.astype(np.float32)


ORDERS: Final = {"apart": multiply_pairs, "odd first": multiply_odd_first}
"""How cores add that do not take k in order."""


WARP: Final = 32
ROW: Final = 16
"""Bytes of a row that the threads of a warp deal out."""


def exchanged(how: Exchange, itemsize: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each [thread, lane] of what an EXCHANGE gives: whose row it is from, and which element of it."""
    word = 4 // itemsize
    thread, matrix, element = np.indices((WARP, how.matrices, word))
    if how.transposed:
        row, column = thread % 4 * word + element, thread // 4
    else:
        row, column = thread // 4, thread % 4 * word + element
    return (matrix * 8 + row).reshape(WARP, -1), column.reshape(WARP, -1)
