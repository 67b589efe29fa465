"""Kernels written by hand that several tests look at."""

from __future__ import annotations

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.llir.builder import Builder
from planish.llir.layout import MemoryLayout, strides
from planish.llir.program import (
    Acquire,
    AwaitBoxes,
    Buffer,
    CombineThreads,
    CommitCopies,
    CopyAsync,
    CopyBox,
    Deal,
    EndFetcher,
    Fetcher,
    Finish,
    Immediate,
    Ops,
    Program,
    Register,
    Release,
    Tile,
    WaitCopies,
)
from planish.llir.tiles import MMA_M16N8K16, TileOp
from planish.uop.hardware_index import index_named
from planish.uop.tensor_cores import CORES

f32, i32 = dtypes.float32, dtypes.int32


def add(rows: int = 4, columns: int = 5, layout: MemoryLayout = MemoryLayout.ROW_MAJOR) -> Program:
    """c = a + b."""
    b = Builder("add")
    out, left, right = (b.param(name, f32, rows * columns) for name in "cab")
    steps = strides((rows, columns), layout)
    with b.loop(rows) as i, b.loop(columns) as j:
        x, y = (b.load(b.address_nd(p, (i, j), steps)) for p in (left, right))
        b.store(b.address_nd(out, (i, j), steps), b.add(x, y))
    return b.program()


def matmul(m: int, n: int, k: int, dtype: DType = f32) -> Program:
    """C = A @ B, row-major."""
    b = Builder("matmul")
    c, a, bb = b.param("c", dtype, m * n), b.param("a", dtype, m * k), b.param("b", dtype, k * n)
    acc = b.memory("acc", dtype, 1)
    with b.loop(m) as i, b.loop(n) as j:
        b.store(b.address(acc, 0), 0)
        with b.loop(k, unroll=4) as r:
            x = b.load(b.address_nd(a, (i, r), (k, 1)))
            y = b.load(b.address_nd(bb, (r, j), (n, 1)))
            place = b.address(acc, 0)
            b.store(place, b.fma(x, y, b.load(place)))
        b.store(b.address_nd(c, (i, j), (n, 1)), b.load(b.address(acc, 0)))
    return b.program()


def register_tile(rows: int = 6, vectors: int = 4, k: int = 8, lanes: int = 16) -> Program:
    """The inner loop of a blocked matmul: rows x vectors accumulators, one broadcast per row."""
    b = Builder("register_tile")
    n = vectors * lanes
    c, a, bb = b.param("c", f32, rows * n), b.param("a", f32, rows * k), b.param("b", f32, k * n)
    wide = f32.vec(lanes)
    acc = b.memory("acc", wide, rows * vectors)
    for t in range(rows * vectors):
        b.store(b.address(acc, t), Immediate(0.0, wide))
    with b.loop(k) as r:
        line = [b.load(b.address_nd(bb, (r, v * lanes), (n, 1)), wide) for v in range(vectors)]
        for row in range(rows):
            x = b.splat(b.load(b.address_nd(a, (row * k, r), (1, 1))), lanes)
            for v in range(vectors):
                place = b.address(acc, row * vectors + v)
                b.store(place, b.fma(x, line[v], b.load(place)))
    for t in range(rows * vectors):
        b.store(b.address(c, t // vectors * n + t % vectors * lanes), b.load(b.address(acc, t)))
    return b.program()


def block_sum(blocks: int, threads: int, fenced: bool = True) -> Program:
    """out[block] = the sum of `threads` elements, halved again and again in LOCAL memory."""
    b = Builder("block_sum")
    out, x = b.param("out", f32, blocks), b.param("x", f32, blocks * threads)
    shared = b.memory("shared", f32, threads, AddrSpace.LOCAL)
    g, t = b.special(index_named("gidx0"), blocks), b.special(index_named("lidx0"), threads)
    b.store(b.address(shared, t), b.load(b.address_nd(x, (g, t), (threads, 1))))
    half = threads // 2
    while half:
        if fenced:
            b.barrier()
        with b.when(b.less(t, half)):
            mine = b.address(shared, t)
            b.store(mine, b.add(b.load(mine), b.load(b.address(shared, b.add(t, half)))))
        half //= 2
    if fenced:
        b.barrier()
    with b.when(b.compute(Ops.CMPEQ, t, 0)):
        b.store(b.address(out, g), b.load(b.address(shared, 0)))
    return b.program()


def tiled_matmul(size: int, tile: int, fenced: bool = True) -> Program:
    """C = A @ B of square matrices: a block of tile x tile threads stages tiles of A and B in LOCAL memory."""
    b = Builder("tiled_matmul")
    c, a, bb = (b.param(name, f32, size * size) for name in "cab")
    ta, tb = (b.memory(name, f32, tile * tile, AddrSpace.LOCAL) for name in ("ta", "tb"))
    acc = b.memory("acc", f32, 1)
    gy, gx = b.special(index_named("gidx0"), size // tile), b.special(index_named("gidx1"), size // tile)
    x, y = b.special(index_named("lidx0"), tile), b.special(index_named("lidx1"), tile)
    row, column = b.add(b.mul(gy, tile), y), b.add(b.mul(gx, tile), x)
    b.store(b.address(acc, 0), 0.0)
    with b.loop(size // tile) as block:
        start = b.mul(block, tile)
        b.store(
            b.address_nd(ta, (y, x), (tile, 1)), b.load(b.address_nd(a, (row, b.add(start, x)), (size, 1)))
        )
        b.store(
            b.address_nd(tb, (y, x), (tile, 1)),
            b.load(b.address_nd(bb, (b.add(start, y), column), (size, 1))),
        )
        if fenced:
            b.barrier()
        with b.loop(tile) as k:
            p, q = b.load(b.address_nd(ta, (y, k), (tile, 1))), b.load(b.address_nd(tb, (k, x), (tile, 1)))
            place = b.address(acc, 0)
            b.store(place, b.fma(p, q, b.load(place)))
        if fenced:
            b.barrier()
    b.store(b.address_nd(c, (row, column), (size, 1)), b.load(b.address(acc, 0)))
    return b.program()


def tensor_core() -> Program:
    """C[16, 8] = A[16, 16] @ B[16, 8] + C by one group of 32 threads."""
    b = Builder("tensor_core")
    tile, half = MMA_M16N8K16, dtypes.float16
    c, a, bb = b.param("c", f32, 16 * 8), b.param("a", half, 16 * 16), b.param("b", half, 16 * 8)
    lane = b.special(index_named("lidx0"), 32)
    t, g = b.compute(Ops.AND, lane, 3), b.compute(Ops.SHR, lane, 2)
    t2 = b.mul(t, 2)

    def pick(buffer: Buffer, rows: list[Register], columns: list[Register], width: int) -> Register:
        return b.build(
            *(b.load(b.address_nd(buffer, (r, k), (width, 1))) for r, k in zip(rows, columns, strict=True))
        )

    low, high, near, far = g, b.add(g, 8), t2, b.add(t2, 8)
    one, nine = b.add(t2, 1), b.add(t2, 9)
    av = pick(
        a, [low, low, high, high, low, low, high, high], [near, one, near, one, far, nine, far, nine], 16
    )
    bv = pick(bb, [near, one, far, nine], [g] * 4, 8)
    rows, columns = [low, low, high, high], [near, one, near, one]
    cv = pick(c, rows, columns, 8)
    result = b.tile(tile, av, bv, cv)
    for number, (r, k) in enumerate(zip(rows, columns, strict=True)):
        b.store(b.address_nd(c, (r, k), (8, 1)), b.lanes(result, number))
    return b.program()


def product_under_way() -> Program:
    """C[64, 8] = A[64, 64] @ B[64, 8] by 128 threads, both operands in LOCAL memory; the product is finished before it is stored."""
    b = Builder("product_under_way")
    tile, half = (
        TileOp("wgmma", 64, 8, 64, 128, a=("@k",), b=("@k",), c=CORES["wgmma_m64n8_f16_f32_kk"].c),
        dtypes.float16,
    )
    c, x, y = b.param("c", f32, 64 * 8), b.param("x", half, 64 * 64), b.param("y", half, 64 * 8)
    left, right = (
        b.memory(name, half, size, AddrSpace.LOCAL) for name, size in (("left", 4096), ("right", 512))
    )
    at = b.special(index_named("lidx0"), 128)
    for source, target, count in ((x, left, 32), (y, right, 4)):
        for n in range(count):
            place = b.add(at, 128 * n)
            b.store(b.address(target, place), b.load(b.address(source, place)))
    b.barrier()
    begun, done = b.fresh(f32.vec(4)), b.fresh(f32.vec(4))
    b.body.append(Tile(begun, b.address(left, 0), b.address(right, 0), Immediate(0.0, f32.vec(4)), tile, 1))
    b.body.append(Finish(done, begun))
    for n in range(4):
        b.store(b.address(c, b.add(b.mul(at, 4), n)), b.lanes(done, n))
    return b.program()


def warp_sum() -> Program:
    """out[i] = the sum of x over the eight neighbours of i."""
    b = Builder("warp_sum")
    x, out = b.param("x", dtypes.float32, 32), b.param("out", dtypes.float32, 32)
    at = b.special(index_named("lidx0"), 32)
    total = b.fresh(dtypes.float32)
    b.body.append(CombineThreads(total, "add", b.load(b.address(x, at)), 8))
    b.store(b.address(out, at), total)
    return b.program()


def copied_tile() -> Program:
    """out = x backwards, by way of memory that eight threads fill in the background; what is beyond the end of x is 0."""
    b = Builder("copied_tile")
    x, out = b.param("x", dtypes.float32, 28), b.param("out", dtypes.float32, 32)
    tile = b.memory("tile", dtypes.float32, 32, AddrSpace.LOCAL)
    at = b.special(index_named("lidx0"), 8)
    first = b.mul(at, 4)
    b.body.append(CopyAsync(b.address(tile, first), b.address(x, first), b.less(at, 7), 4))
    b.body += [CommitCopies(), WaitCopies(0)]
    b.barrier()
    for n in range(4):
        place = b.add(b.mul(first, -1), 31 - n)
        b.store(b.address(out, b.add(first, n)), b.load(b.address(tile, place)))
    return b.program()


def fetched_boxes() -> Program:
    """out = columns 8 to 39 of 36 rows of x, eight rows at a time: a copy engine brings them to three buffers in turns, and zeros from beyond the end."""
    b = Builder("fetched_boxes")
    x, out = b.param("x", f32, 36 * 40), b.param("out", f32, 40 * 32)
    tile = b.memory("tile", f32, 3 * 256, AddrSpace.LOCAL)
    b.body.append(Fetcher())
    with b.loop(5) as step:
        b.body.append(Acquire(step, 0, 3, 1024))
        place = b.address(tile, b.mul(b.compute(Ops.TRUNCMOD, step, 3), 256))
        at = Immediate(8, i32), b.mul(step, 8)
        b.body.append(CopyBox(place, step, x, at, (40, 36), (1, 40), (32, 8), 0, 3))
    b.body.append(EndFetcher())
    thread = b.special(index_named("lidx0"), 128)
    with b.loop(5) as step:
        b.body.append(AwaitBoxes(step, 0, 3))
        begin = b.mul(b.compute(Ops.TRUNCMOD, step, 3), 256)
        for part in range(2):
            number = b.add(thread, 128 * part)
            row, column = b.compute(Ops.SHR, number, 5), b.compute(Ops.AND, number, 31)
            chunk = b.compute(Ops.XOR, b.compute(Ops.SHR, column, 2), b.compute(Ops.AND, row, 7))
            inside = b.add(b.mul(row, 32), b.add(b.mul(chunk, 4), b.compute(Ops.AND, column, 3)))
            value = b.load(b.address(tile, b.add(begin, inside)))
            b.store(b.address(out, b.add(b.mul(step, 256), number)), value)
        b.barrier()
        b.body.append(Release(step, 0, 3))
    return b.program()


def dealt_rows(*, transposed: bool = False) -> Program:
    """out[thread, lane] = elements of four 8×8 matrices of halves, one below the other, as tensor cores hold them."""
    b = Builder("dealt_rows")
    half = dtypes.float16
    x, out = b.param("x", half, 256), b.param("out", half, 256)
    tile = b.memory("tile", half, 256, AddrSpace.LOCAL)
    at = b.special(index_named("lidx0"), 32)
    first = b.mul(at, 8)
    place = b.address(tile, first)
    b.body += [CopyAsync(place, b.address(x, first), None, 8), CommitCopies(), WaitCopies(0)]
    b.barrier()
    held = b.fresh(half.vec(8))
    b.body.append(Deal(held, b.load(place, half.vec(8), align=16), 4, transposed))
    b.store(b.address(out, first), held)
    return b.program()
