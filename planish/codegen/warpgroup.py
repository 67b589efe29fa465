"""`wgmma` in CUDA C++: 128 threads multiply matrices that lie in shared memory, by inline PTX.

An operand is told by a descriptor of 64 bits: its address, the distances between groups of eight rows and between blocks of columns,
and that its rows are 128 bytes whose pieces are in another order in each row (`planish.uop.tensor_cores.place_in_memory`). One tile of
LLIR is a group of four instructions, each of which takes 32 bytes along k; it is waited for, or the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planish import dtypes
from planish.dtypes import DType, PtrDType
from planish.llir.tiles import TileOp

FENCE: Final = """asm volatile("fence.proxy.async.shared::cta;" ::: "memory");"""
"""What threads have stored, for those who do not read as threads do: tensor cores and the copy engine."""


def wait(pending: int) -> str:
    """All products that were begun are done, but for so many of the last."""
    return f'asm volatile("wgmma.wait_group.sync.aligned {pending};" ::: "memory");'


DESCRIPTOR: Final = """// a matrix in shared memory: address, and how far apart its blocks of columns and groups of rows are, in bytes
static inline uint32_t descriptor(const void *start, uint32_t blocks) {
  return ((uint32_t)__cvta_generic_to_shared(start) & 0x3ffff) >> 4 | (blocks >> 4) << 16;
}
static inline uint64_t described(uint32_t low, uint32_t rows) { return (uint64_t)(rows >> 4 | 1u << 30) << 32 | low; }"""

_KINDS: Final = {
    dtypes.bfloat16: "bf16",
    dtypes.float16: "f16",
    dtypes.float32: "tf32",
    dtypes.tfloat32: "tf32",
    dtypes.float8_e4m3fn: "e4m3",
    dtypes.float8_e5m2: "e5m2",
    dtypes.int8: "s8",
    dtypes.uint8: "u8",
}
_ROW: Final = 128
_STEPS: Final = 4
"""Instructions that one row takes: 32 bytes each."""


def element(dtype: DType) -> DType:
    """Of an operand, the dtype that its address leads to."""
    scalar = dtype.scalar
    return scalar.base.scalar if isinstance(scalar, PtrDType) else scalar


def settled(names: Sequence[str], dtype: DType) -> str:
    """Values that nobody looks at before this: behind a wait for products, they are what came of them."""
    held = ", ".join(f'"+{"r" if dtype.is_int else "f"}"({name})' for name in names)
    return f'asm volatile("" : {held} :: "memory");'


def helper(name: str, tile: TileOp, operand: DType, pending: int, *, anew: bool) -> str:
    """The function that does one tile, and waits for all products but the last few; A is in shared memory, or in words of registers.

    `anew`: sums start from 0. Nobody writes that to their registers, in which products before this one may still be under way.
    """
    kind = _KINDS[element(operand)]
    count, held = tile.lanes("c"), not tile.in_memory("a")
    words = tile.lanes("a") // 2 // _STEPS if held else 1
    sums = ", ".join(f"%{k}" for k in range(count))
    whole = element(operand).is_int
    letter, total, sums_of = ("r", "int32_t", "s32") if whole else ("f", "float", "f32")
    outs = ", ".join(f'"+{letter}"(c.at[{k}])' for k in range(count))
    first = outs.replace("+", "=") if anew else outs
    across = [tile.fragments[matrix][2] == ("@mn",) for matrix in "ab"]
    turns = across[held:]
    turned = "".join(f", {int(each)}" for each in turns) if kind in {"bf16", "f16"} else ""
    slab = tile.k * _ROW
    # of rows along k the next 32 bytes; of rows across k the next k rows
    steps = [tile.k // _STEPS * _ROW // 16 if each else 32 // 16 for each in across]
    spread = [f"descriptor({name}, {slab if each else 16})" for name, each in zip("ab", across, strict=True)]
    instruction = f"wgmma.mma_async.sync.aligned.m64n{tile.n}k{tile.k // _STEPS}.{sums_of}.{kind}.{kind}"
    scales = "" if whole else f", 1, 1{turned}"
    left = ", ".join(f"%{count + k}" for k in range(words))
    left = f"{{{left}}}" if held else left
    lines = []
    for k in range(_STEPS):
        a = (
            [f'"r"(a.at[{k * words + word}])' for word in range(words)]
            if held
            else [f'"l"(described(left + {k * steps[0]}, {8 * _ROW}))']
        )
        ins = ", ".join([*a, f'"l"(described(right + {k * steps[1]}, {8 * _ROW}))'])
        lines.append(
            f'  asm volatile("{instruction} {{{sums}}}, {left}, %{count + words}, {int(k > 0 or not anew)}{scales};" : {outs if k else first} : {ins});'
        )
    given = f"vec<uint32_t, {words * _STEPS}> a" if held else "const void *a"
    places = f"right = {spread[1]}" if held else f"left = {spread[0]}, right = {spread[1]}"
    return "\n".join(
        [
            f"// C[{tile.m}, {tile.n}] += A[{tile.m}, {tile.k}] @ B[{tile.k}, {tile.n}], by {tile.threads} threads, "
            + ("A in registers and B in shared memory" if held else "from shared memory"),
            f"static inline void {name}(vec<{total}, {count}> &c, {given}, const void *b) {{",
            f"  const uint32_t {places};",
            '  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
            *lines,
            '  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
            f"  {wait(pending)}",
            "}",
        ]
    )
