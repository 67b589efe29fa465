"""Graphs for the tests: a specimen of every op, random graphs of arithmetic, long chains."""

from __future__ import annotations

import math
import random

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.uop.access_hints import AccessHints
from planish.uop.hardware_index import index_named
from planish.uop.node import Table, UOp
from planish.uop.ops import (
    BINARY,
    COMPARISONS,
    UNARY,
    Axis,
    AxisType,
    Box,
    Bufferize,
    Combine,
    DTypeLaw,
    Exchange,
    Ops,
    ReduceAxes,
    TensorCoreOp,
    UnrolledLanes,
)

f32, i32, index = dtypes.float32, dtypes.int32, dtypes.index

CONSTANTS: dict[DType, tuple[bool | int | float | complex, ...]] = {
    dtypes.bool_: (True, False),
    dtypes.index: (0, 1, -1, 2**63 - 1, -(2**63), 2**63),
    dtypes.int8: (-128, 127, 0),
    dtypes.int32: (-(2**31), 2**31 - 1, 7),
    dtypes.int64: (-(2**63), 2**63 - 1),
    dtypes.uint64: (2**64 - 1, 0),
    dtypes.uint4: (15,),
    dtypes.float8_e4m3fn: (448.0, -0.0, math.nan),
    dtypes.bfloat16: (0.1, 3.0e38),
    dtypes.float16: (65504.0, 6e-8, math.inf, 0.1),
    dtypes.float32: (0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1e-45, 16777216.0, 3.4028234663852886e38),
    dtypes.float64: (0.1, 5e-324, 1.7976931348623157e308, 1 / 3, -0.0, math.nan),
    dtypes.complex64: (complex(0.1, -0.0), complex(math.nan, math.inf)),
    dtypes.complex128: (complex(-0.0, 0.0), complex(1 / 3, -math.inf)),
}


def specimens(t: Table) -> list[UOp]:
    """Nodes of every op, with arguments of every shape."""
    c, r = t.const(4), t.range(10, 0, AxisType.GLOBAL)
    n = t.variable("n", -4, 63)
    big = t.variable("big_1", -(2**63), 2**63 - 1, dtypes.int64)
    buffer = t.param(0, f32, 100)
    local = t.make(Ops.DEFINE_LOCAL, f32.ptr(16, AddrSpace.LOCAL), (), 0)
    reg = t.make(Ops.DEFINE_REG, f32.vec(4).ptr(1, AddrSpace.REG), (), 2)
    place = t.make(Ops.INDEX, f32.ptr(100), (buffer, r))
    value = buffer.index(r * 4, gate=r < n)
    wide = t.vconst([1.5, -0.0, math.nan, math.inf], f32)
    scalar, flag = t.const(0.1, f32), r < n
    store = place.store(value)
    condition = t.make(Ops.IF, dtypes.void, (flag, store))
    tensor = t.make(Ops.BUFFER, f32, (), 3)
    axes = UnrolledLanes((((0,), 2), ((1, 0), 2)))
    made = [
        t.sink(store),
        t.make(Ops.GROUP, dtypes.void, (store,)),
        t.make(Ops.NOOP, dtypes.void),
        t.make(Ops.NOOP, f32, (value,)),
        t.invalid(),
        t.invalid(i32),
        local,
        reg,
        big,
        t.make(Ops.SPECIAL, index, (c,), index_named("gidx0")),
        t.make(Ops.SPECIAL, i32, (t.const(4, i32),), index_named("lidx0")),
        tensor,
        t.make(Ops.RESHAPE, f32, (tensor,), (2, n, 0)),
        t.make(Ops.RESHAPE, f32, (tensor,), ()),
        t.make(Ops.RESHAPE, f32, (tensor,), (c, n + 1)),
        t.make(Ops.PERMUTE, f32, (tensor,), (1, 0)),
        t.make(Ops.EXPAND, f32, (tensor,), (5,)),
        t.make(Ops.PAD, f32, (tensor,), ((0, 1), (n, 0))),
        t.make(Ops.SHRINK, f32, (tensor,), ((1, n),)),
        t.make(Ops.FLIP, f32, (tensor,), (True, False)),
        t.make(Ops.CONTIGUOUS, f32, (tensor,)),
        t.make(Ops.CONTIGUOUS, f32, (tensor,), ("tile", (4, 2), 'a "b"\n#é')),
        t.make(Ops.REDUCE_AXIS, f32, (tensor,), ReduceAxes(Ops.MAX, (0, 2))),
        t.make(Ops.SCAN_AXIS, f32, (tensor,), ReduceAxes(Ops.ADD, (1,))),
        t.make(Ops.SCAN, f32, (value, r), Ops.MUL),
        t.make(Ops.RANGE, index, (n, r), Axis((2, 0, 1), AxisType.REDUCE)),
        *(t.range(3, 10 + i, kind) for i, kind in enumerate(AxisType)),
        store.end(r),
        value.reduce(Ops.ADD, r),
        t.make(Ops.REDUCE, f32, (wide,), Ops.MAX),
        t.make(Ops.BUFFERIZE, f32.ptr(10, AddrSpace.LOCAL), (value, r), Bufferize("local", removable=False)),
        t.make(Ops.BUFFERIZE, f32.ptr(10), (value, r), Bufferize()),
        buffer.after(store, r),
        t.make(Ops.BARRIER, dtypes.void, (store,)),
        t.make(Ops.COMMIT, dtypes.void, (store,)),
        t.make(Ops.EXCHANGE, f32.vec(2), (wide,), Exchange(2, transposed=False)),
        t.make(Ops.WAIT, dtypes.void, (store, r), 2),
        t.make(Ops.FETCH, f32, (value, r, c), Box(1, (40, 36), (1, 40), (32, 8))),
        t.make(Ops.FETCHED, dtypes.void, (local, c, r, c), Box(1, (8, 4), (1, 8), (32, 8), 2, 3, True)),
        t.make(
            Ops.FETCH,
            f32,
            (value, r, c, c, c, r),
            Box(1, (32, 9, 4), (1, 32, 288), (32, 8), lower=(-1,), upper=(-2,), steps=(2,)),
        ),
        t.make(Ops.BUFFERIZE, f32.ptr(10, AddrSpace.LOCAL), (value, r), Bufferize("local", buffers=3)),
        place,
        value,
        t.make(Ops.LOAD, f32, (place,)),
        t.make(Ops.LOAD, f32, (place, scalar, flag), AccessHints(nontemporal=True)),
        t.make(Ops.STORE, dtypes.void, (place, scalar, flag), AccessHints(0, True, True, align=16)),
        place.prefetch(2),
        t.make(Ops.UNROLL, f32, (wide,), axes),
        t.make(Ops.CONTRACT, f32.vec(4), (scalar,), axes),
        t.make(Ops.CONTRACT, f32, (scalar,), UnrolledLanes(())),
        wide.gep(3, 0),
        t.make(Ops.VECTORIZE, f32.vec(2), (scalar, value)),
        t.make(Ops.CAT, f32.vec(8), (wide, t.const(1.0, f32.vec(4)))),
        t.make(Ops.LOOKUP, f32.vec(2), (wide, t.vconst((3, 5), dtypes.int32))),
        t.make(Ops.RARE, f32, (scalar < 1.0, value, scalar)),
        t.make(Ops.ANY, dtypes.bool_, (wide < t.const(1.0, f32.vec(4)),)),
        t.make(Ops.COMBINE, f32, (value, t.range(32, 7, AxisType.WARP)), Combine(Ops.ADD, 32)),
        t.make(Ops.COMBINE, f32.vec(4), (wide,), Combine(Ops.MAX, 8)),
        t.make(Ops.WMMA, f32.vec(4), (wide, wide, wide), TensorCoreOp("mma.sync m16n8k16", (16, 8, 16))),
        t.make(Ops.WMMA, f32.vec(4), (value, value, wide, r), TensorCoreOp("wgmma", (64, 8, 64), 1)),
        t.make(Ops.FINISH, f32.vec(4), (wide,)),
        condition,
        t.make(Ops.ENDIF, dtypes.void, (condition,)),
        c.cast(f32),
        scalar.bitcast(i32),
        flag.where(r, t.invalid()),
        flag.where(value, 0.0),
        t.const(True, dtypes.bool_).where(c, n),
        t.make(Ops.MULACC, f32, (scalar, value, value)),
        t.const(1).eq(t.const(2)),
    ]
    made += [t.const(number, dtype) for dtype, numbers in CONSTANTS.items() for number in numbers]
    made += [t.const(numbers[0], dtype.vec(3)) for dtype, numbers in CONSTANTS.items()]
    made += [t.vconst(numbers, dtype) for dtype, numbers in CONSTANTS.items() if len(numbers) > 1]
    operand = {
        DTypeLaw.SAME: value,
        DTypeLaw.FLOAT: value,
        DTypeLaw.INTEGRAL: n,
        DTypeLaw.BITS: n,
        DTypeLaw.COMPARE: n,
    }
    made += [operand[op.law].alu(op) for op in sorted(UNARY)]
    made += [operand[op.law].alu(op, 3) for op in sorted(BINARY)]
    return made


def random_graph(t: Table, rng: random.Random, size: int) -> UOp:
    """A random graph of arithmetic on several dtypes, of about this many nodes, under a SINK."""
    kinds = [dtypes.index, dtypes.int32, dtypes.uint64, dtypes.float32, dtypes.complex64, f32.vec(4)]
    pool: dict[DType, list[UOp]] = {dtypes.bool_: [t.const(True, dtypes.bool_)]}
    for dtype in kinds:
        pool[dtype] = [t.const(1, dtype), t.param(len(pool), dtype.scalar, 8).index(t.const(0)) if dtype is f32
                       else t.const(0, dtype)]  # fmt: skip
    pool[dtypes.index] += [t.variable("a", -3, 9), t.range(8, 0), t.range(4, (1, 0), AxisType.REDUCE)]
    arithmetic = sorted(UNARY | BINARY)
    for _ in range(size):
        dtype = rng.choice(kinds)
        choices = pool[dtype]
        op = rng.choice(arithmetic)
        x = rng.choice(choices)
        fits = {
            DTypeLaw.SAME: True,
            DTypeLaw.FLOAT: dtype.is_float or dtype.is_complex,
            DTypeLaw.INTEGRAL: dtype.is_integral,
            DTypeLaw.BITS: dtype.is_integral,
            DTypeLaw.COMPARE: dtype.lanes == 1,
        }[op.law]
        if not fits:
            made = rng.choice(pool[dtypes.bool_]).where(x, rng.choice(choices)) if dtype.lanes == 1 else -x
        else:
            made = x.alu(op) if op in UNARY else x.alu(op, rng.choice(choices))
        pool[dtypes.bool_ if op in COMPARISONS and fits else dtype].append(made)
    leaves = [nodes[-1] for nodes in pool.values()]
    return t.sink(*(t.make(Ops.NOOP, dtypes.void, (leaf,)) for leaf in leaves))


def chain(t: Table, length: int) -> UOp:
    """A sum of so many terms, one inside the other."""
    node = t.variable("a", 0, 3)
    for number in range(length):
        node = node + (number % 7 + 1)
    return node
