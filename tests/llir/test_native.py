"""Machine code against the interpreter: every instruction form, op and dtype, scalar and vector, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.codegen import llvm
from planish.dtypes import AddrSpace, DType
from planish.errors import LoweringError
from planish.llir.builder import Builder
from planish.llir.interpret import interpret
from planish.llir.program import COMPARISONS, Immediate, Ops, Program, Register
from planish.llir.regalloc import allocate
from planish.llir.tiles import MMA_M16N8K16, TileOp
from planish.runtime.cpu import CompiledModule, host
from planish.uop.hardware_index import index_named
from tests.llir import kernels
from tests.llir.generate import arguments, random_program
from tests.llir.helpers import Array, assert_native_agrees, copies, native, numbers

FLOATS = dtypes.FLOATS
INTEGERS = (*dtypes.SIGNED, *dtypes.UNSIGNED)
ALL = (*FLOATS, *INTEGERS, dtypes.bool_)
COUNT = 64

EXACT_FLOAT = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.FMOD, Ops.MAX, Ops.MIN, Ops.NEG, Ops.ABS, Ops.RECIP, Ops.SQRT, Ops.FLOOR, Ops.CEIL,
    Ops.TRUNC, Ops.ROUND, Ops.MULACC, Ops.SCALE,
)  # fmt: skip
SMOOTH = (
    Ops.EXP, Ops.EXP2, Ops.LOG, Ops.LOG2, Ops.SIN, Ops.COS, Ops.TAN, Ops.ASIN, Ops.ACOS, Ops.ATAN, Ops.SINH, Ops.COSH, Ops.TANH,
    Ops.POW,
)  # fmt: skip
INTEGER = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.NEG, Ops.NOT, Ops.ABS, Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR,
    Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.POPCOUNT, Ops.CLZ, Ops.MULACC,
)  # fmt: skip
BOOL = (Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.MAX, Ops.MIN)


def ops_of(dtype: DType) -> tuple[Ops, ...]:
    own = EXACT_FLOAT if dtype.is_float else BOOL if dtype.is_bool else INTEGER
    return (*own, *sorted(COMPARISONS), Ops.WHERE)


def kernel_of_ops(dtype: DType, ops: tuple[Ops, ...], lanes: int) -> Program:
    """z_op[i] = op(x[i], y[i], w[i]) for every op."""
    b = Builder("ops")
    inputs = [b.param(name, dtype, COUNT) for name in ("x", "y", "w")]
    outs = [b.param(f"z{op.name}", dtypes.bool_ if op in COMPARISONS else dtype, COUNT) for op in ops]
    with b.loop(COUNT // lanes) as i:
        at = b.mul(i, lanes)
        x, y, w = (b.load(b.address(buffer, at), dtype.vec(lanes)) for buffer in inputs)
        condition = b.compute(Ops.CMPLT, x, y)
        for op, out in zip(ops, outs, strict=True):
            operands: list[Register] = [condition, x, y] if op is Ops.WHERE else [x, y, w][: op.min_sources]
            b.store(b.address(out, at), b.compute(op, *operands))
    return b.program()


def arrays_for(program: Program) -> list[Array]:
    return [
        numbers(b.dtype, b.elements, seed) if b.name in "xyw" else np.zeros(b.elements, b.dtype.numpy)
        for seed, b in enumerate(program.params)
    ]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_exact_op_is_bit_equal(dtype: DType, lanes: int) -> None:
    program = kernel_of_ops(dtype, ops_of(dtype), lanes)
    result = assert_native_agrees(program, arrays_for(program))
    assert any(array.any() for array in result[3:])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_other_functions_are_close(dtype: DType) -> None:
    program = kernel_of_ops(dtype, SMOOTH, 4)
    arrays = arrays_for(program)
    expected, found = copies(arrays), copies(arrays)
    interpret(program, expected)
    native(program, found)
    eps = 2.0 ** (1 - dtypes.float_format(dtype).precision)
    for a, b in zip(expected[3:], found[3:], strict=True):
        np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=4 * eps, atol=1e-40)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", ALL, ids=str)
def test_every_conversion_is_bit_equal(source: DType, lanes: int) -> None:
    b = Builder("conversions")
    x = b.param("x", source, 4 * COUNT)
    outs = {target: b.param(f"z{target}", target, 4 * COUNT) for target in ALL}
    with b.loop(4 * COUNT // lanes) as i:
        at = b.mul(i, lanes)
        value = b.load(b.address(x, at), source.vec(lanes))
        for target, out in outs.items():
            b.store(b.address(out, at), b.cast(value, target))
    program = b.program()
    given = numbers(source, 4 * COUNT, 7)
    if source.is_float:
        # around every power of two, where rounding and saturation happen
        powers = 2.0 ** np.arange(-30, 65)
        with np.errstate(all="ignore"):
            edges = np.concatenate([powers, -powers, powers * 1.003, powers - 0.5]).astype(source.numpy)
        given[20 : 20 + 200] = edges[:200]
        # beside the middle between two narrow floats, where rounding twice goes wrong
        beside = [
            (1 + odd * 2.0**-p + d) * s
            for p in (8, 11)
            for odd in (1, 3)
            for d in (-1e-12, 1e-12)
            for s in (1, -(2.0**9))
        ]
        given[220 : 220 + len(beside)] = np.asarray(beside).astype(source.numpy)
    elif source.bits == 64:
        middles = [(1 << n) + (1 << n - 8) + d for n in range(20, 63) for d in (-1, 0, 1)]
        given[20 : 20 + len(middles)] = np.asarray(middles, source.numpy)
    assert_native_agrees(program, [given, *(np.zeros(4 * COUNT, t.numpy) for t in outs)])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(
    ("dtype", "x", "y", "tiny"),
    [(dtypes.float16, 1 + 2**-5, 1 + 2**-6, 2**-24), (dtypes.bfloat16, 1 + 2**-3, 1 + 2**-5, 2.0**-100)],
)
def test_a_narrow_fma_rounds_once(dtype: DType, x: float, y: float, tiny: float, lanes: int) -> None:
    """x·y lies in the middle between two values; what is added, however small, decides."""
    program = kernel_of_ops(dtype, (Ops.MULACC,), lanes)
    signs = np.resize([1, 1, -1, -1], COUNT)
    given = [np.full(COUNT, x) * signs, np.full(COUNT, y), np.resize([tiny, -tiny], COUNT)]
    result = assert_native_agrees(
        program, [*(g.astype(dtype.numpy) for g in given), np.zeros(COUNT, dtype.numpy)]
    )
    assert len(set(np.abs(result[3].astype(np.float64)).tolist())) == 2


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32", "i32"), ("i32", "f32"), ("f64x2", "u32x4"), ("u8x8", "f32x2"), ("bf16x2", "i32"), ("f16", "u16"), ("i4x4", "u16"),
     ("u16x2", "u4x8"), ("i64", "f32x2")],
)  # fmt: skip
def test_bitcast_keeps_every_bit(source: str, target: str) -> None:
    a, c = dtypes.parse(source), dtypes.parse(target)
    b = Builder("bits")
    x, z = b.param("x", a.scalar, 16 * a.lanes), b.param("z", c.scalar, 16 * c.lanes)
    with b.loop(16) as i:
        value = b.load(b.address(x, b.mul(i, a.lanes)), a)
        b.store(b.address(z, b.mul(i, c.lanes)), b.bitcast(value, c))
    given = numbers(a.scalar, 16 * a.lanes)
    arrays = [given, np.zeros(16 * c.lanes, c.numpy)]
    expected, found = copies(arrays), copies(arrays)
    interpret(b.program(), expected)
    native(b.program(), found)
    assert expected[1].tobytes() == found[1].tobytes()
    if 4 not in (a.bits, c.bits):
        assert expected[1].tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_gates_leave_alone_what_is_closed(dtype: DType) -> None:
    b = Builder("gates")
    x, z = b.param("x", dtype, 32), b.param("z", dtype, 32)
    base = Immediate(tuple(range(8)), dtypes.int32.vec(8))
    with b.loop(5) as i:
        # the last vector reaches beyond the buffer
        at = b.mul(i, 8)
        lane = b.add(b.splat(at, 8), base)
        gate = b.less(lane, 29)
        value = b.load(b.address(x, at), dtype.vec(8), gate=gate, alternative=1)
        b.store(b.address(z, at), value, gate=gate)
        one = b.less(at, 24)
        single = b.load(b.address(x, b.add(at, 7)), gate=one, alternative=0)
        b.store(b.address(z, b.add(at, 7)), single, gate=one)
        whole = b.load(b.address(x, at), dtype.vec(8), gate=one)
        b.store(b.address(z, at), whole, gate=one)
    given = numbers(dtype, 32)
    result = assert_native_agrees(b.program(), [given, np.zeros(32, dtype.numpy)])
    assert result[1][:29].tobytes() == given[:29].tobytes()
    assert not result[1][29:].any()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_gather_and_scatter(dtype: DType) -> None:
    b = Builder("gather")
    x, p, z = b.param("x", dtype, 16), b.param("p", dtypes.int64, 16), b.param("z", dtype, 16)
    with b.loop(4) as i:
        at = b.mul(i, 4)
        places = b.load(b.address(p, at), dtypes.int64.vec(4))
        value = b.load(b.address(x, places))
        gate = b.less(places, 12)
        other = b.load(b.address(x, places), gate=gate, alternative=1)
        b.store(b.address(z, places), b.select(gate, value, other))
        b.store(b.address(z, b.splat(at, 4)), value, gate=b.less(at, 4))
    order = np.random.default_rng(0).permutation(16)
    assert_native_agrees(b.program(), [numbers(dtype, 16), order, np.zeros(16, dtype.numpy)])


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.int8, dtypes.float64, dtypes.bool_, dtypes.bfloat16], ids=str
)
def test_lanes_are_selected_built_and_joined(dtype: DType) -> None:
    b = Builder("lanes")
    x, z = b.param("x", dtype, 16), b.param("z", dtype, 64)
    v = b.load(b.address(x, 0), dtype.vec(8))
    s = b.load(b.address(x, 9))
    made = [
        b.lanes(v, 3), b.lanes(v, 7, 0, 0, 5), b.lanes(s, 0), b.lanes(s, 0, 0, 0), b.build(s, b.lanes(v, 1), s),
        b.splat(s, 5), b.concat(v, s), b.concat(s, b.lanes(v, 1, 2), v, s), b.concat(s, s), b.concat(v),
        b.build(s), b.build(*(Immediate(dtype.const(n), dtype) for n in (0, 1, 0))),
    ]  # fmt: skip
    at = 0
    for value in made:
        b.store(b.address(z, at), value)
        at += value.dtype.lanes
    assert_native_agrees(b.program(), [numbers(dtype, 16), np.zeros(64, dtype.numpy)])


def test_a_lookup_is_one_permutation_instruction() -> None:
    b = Builder("lookup")
    t, p, z = (
        b.param("t", dtypes.float32, 16),
        b.param("p", dtypes.int32, 16),
        b.param("z", dtypes.float32, 17),
    )
    table = b.load(b.address(t, 0), dtypes.float32.vec(16))
    places = b.load(b.address(p, 0), dtypes.int32.vec(16))
    b.store(b.address(z, 0), b.lookup(table, places))
    b.store(b.address(z, 16), b.lookup(table, b.lanes(places, 2)))
    order = np.random.default_rng(0).integers(-64, 64, 16).astype(np.int32)
    arrays = [numbers(dtypes.float32, 16), order, np.zeros(17, np.float32)]
    result = assert_native_agrees(b.program(), arrays)
    assert result[2][:16].tobytes() == arrays[0][order % 16].tobytes()
    for wide in {False, host().avx512}:
        assembly = CompiledModule(llvm.render(b.program(), avx512=wide)).assembly
        if "zmm" in assembly:
            assert "vpermps" in assembly
            assert wide or "vand" in assembly
            assert "vand" not in assembly or not wide


def test_accumulators_of_a_register_tile_stay_in_registers() -> None:
    assembly = CompiledModule(llvm.render(kernels.register_tile(6, 4, 64))).assembly
    if "zmm" in assembly:
        assert assembly.count("vfmadd") == 24
        assert "(%rsp)" not in assembly


def test_hints_reach_llvm() -> None:
    b = Builder("hints")
    x, z = b.param("x", dtypes.float32, 64, align=64), b.param("z", dtypes.float32, 64, align=64)
    with b.loop(4, unroll=4) as i, b.loop(1, unroll=1):
        at = b.mul(i, 16)
        b.prefetch(b.address(x, b.add(at, 999)), locality=1)
        b.prefetch(b.address(z, at), write=True)
        value = b.load(b.address(x, at), dtypes.float32.vec(16), align=64, nontemporal=True)
        b.store(b.address(z, at), value, align=64, nontemporal=True)
    text = llvm.render(b.program())
    for word in (
        "align 64, !nontemporal !", "!{i32 1}", "llvm.loop.unroll.count\", i32 4", "llvm.loop.unroll.disable",
        "@llvm.prefetch.p0(ptr %r4, i32 0, i32 1, i32 1)", "ptr noalias align 64 %u_x",
    ):  # fmt: skip
        assert word in text
    assert "movnt" in CompiledModule(text).assembly
    arrays = [_aligned(numbers(dtypes.float32, 64)), _aligned(np.zeros(64, np.float32))]
    native(b.program(), arrays)
    assert arrays[0].tobytes() == arrays[1].tobytes()


def _aligned(array: Array) -> Array:
    raw = np.zeros(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    found = raw[start : start + array.nbytes].view(array.dtype)
    found[:] = array
    return found


def test_conditions_and_loops_of_no_iteration() -> None:
    b = Builder("control")
    n = b.variable("n", 0, 8)
    z = b.param("z", dtypes.int32, 16)
    total = b.memory("total", dtypes.int32, 1)
    b.store(b.address(total, 0), 0)
    with b.loop(n) as i, b.when(b.compute(Ops.CMPNE, i, 3)), b.loop(i) as j:
        place = b.address(total, 0)
        b.store(place, b.add(b.load(place), j))
    b.store(b.address(z, n), b.load(b.address(total, 0)))
    for size in (0, 1, 5, 8):
        result = assert_native_agrees(b.program(), [np.full(16, -1, np.int32)], {"n": size})
        assert result[0][size] == sum(j for i in range(size) if i != 3 for j in range(i))


def test_the_grid_is_the_callers() -> None:
    b = Builder("grid")
    z = b.param("z", dtypes.int64, 12)
    core, block = b.special(index_named("core"), 3), b.special(index_named("gidx0"), 4, dtypes.int64)
    at = b.add(b.mul(b.cast(core, dtypes.int64), 4), block)
    b.store(b.address(z, at), b.add(at, 100))
    b.barrier()
    expected, found = np.zeros(12, np.int64), np.zeros(12, np.int64)
    interpret(b.program(), [expected])
    for c in range(3):
        for g in range(4):
            native(b.program(), [found], core=c, gidx0=g)
    np.testing.assert_array_equal(expected, np.arange(100, 112))
    np.testing.assert_array_equal(found, expected)


def test_own_memory_may_hold_vectors_and_overlap() -> None:
    b = Builder("memory")
    x, z = b.param("x", dtypes.float32, 12), b.param("z", dtypes.float32, 12)
    held = b.memory("held", dtypes.float32.vec(3), 4)
    first = b.memory("first", dtypes.int32, 4, AddrSpace.LOCAL, offset=64)
    b.memory("hole", dtypes.int8, 3, AddrSpace.LOCAL)
    second = b.memory("second", dtypes.float32, 4, AddrSpace.LOCAL, offset=64)
    with b.loop(4) as i:
        value = b.load(b.address(x, b.mul(i, 3)), dtypes.float32.vec(3))
        b.store(b.address(held, i), value)
        b.store(b.address(first, i), b.bitcast(b.lanes(value, 1), dtypes.int32))
    with b.loop(4) as i:
        value = b.load(b.address(held, i))
        b.store(b.address(z, b.mul(i, 3)), value)
        b.store(b.address(z, b.mul(i, 3)), b.load(b.address(second, i)))
    given = numbers(dtypes.float32, 12)
    result = assert_native_agrees(b.program(), [given, np.zeros(12, np.float32)])
    wanted = given.reshape(4, 3)[:, [1, 1, 2]]
    assert result[1].tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize(
    ("tile", "narrow", "wide"),
    [
        (TileOp("plain", 3, 4, 5), dtypes.float32, dtypes.float32),
        (TileOp("plain", 2, 4, 3), dtypes.bfloat16, dtypes.float32),
        (TileOp("plain", 2, 1, 1), dtypes.float16, dtypes.float16),
        (TileOp("plain", 1, 3, 2), dtypes.int8, dtypes.int32),
        (
            TileOp("swapped", 2, 4, 4, 1, ("r2", "r1", "r0"), (), ("r1", "r0", "r2")),
            dtypes.float64,
            dtypes.float64,
        ),
    ],
    ids=lambda value: value.name if isinstance(value, TileOp) else str(value),
)
def test_tiles_of_one_thread(tile: TileOp, narrow: DType, wide: DType) -> None:
    b = Builder("tile")
    shapes = {"a": narrow, "b": narrow, "c": wide}
    params = [b.param(name, dtype, tile.lanes(name)) for name, dtype in shapes.items()]
    z = b.param("z", wide, tile.lanes("c"))
    fragments = [b.load(b.address(p, 0), p.dtype.vec(p.size)) for p in params]
    b.store(b.address(z, 0), b.tile(tile, *fragments))
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 8, p.size).astype(p.dtype.numpy) for p in params]
    result = assert_native_agrees(b.program(), [*arrays, np.zeros(z.size, wide.numpy)])
    whole = [tile.gather(n, array[None]).astype(np.float64) for n, array in zip("abc", arrays, strict=True)]
    np.testing.assert_array_equal(
        tile.gather("c", result[3][None]).astype(np.float64), whole[0] @ whole[1] + whole[2]
    )


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_agree(seed: int) -> None:
    program = random_program(seed, 25)
    assert_native_agrees(program, arguments(program, seed))


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_many_random_programs_agree(start: int) -> None:
    for seed in range(start, start + 50):
        print("seed", seed)
        program = random_program(seed, 60)
        assert_native_agrees(program, arguments(program, seed))


def test_what_a_cpu_core_cannot_do_is_refused() -> None:
    b = Builder("threads")
    b.special(index_named("lidx0"), 4)
    b.barrier()
    with pytest.raises(LoweringError, match="a block on a CPU core is one thread"):
        llvm.render(b.program())
    b = Builder("group")
    zero = [Immediate(0.0, dtypes.float16.vec(n)) for n in (8, 4, 4)]
    b.tile(MMA_M16N8K16, *zero)
    with pytest.raises(LoweringError, match="32 threads"):
        llvm.render(b.program())
    with pytest.raises(LoweringError, match="physical registers"):
        llvm.render(allocate(random_program(0), 8).program)
    b = Builder("large")
    b.memory("big", dtypes.float32, 1 << 24, AddrSpace.LOCAL)
    with pytest.raises(LoweringError, match="stack"):
        llvm.render(b.program())
    b = Builder("pair")
    x = b.param("x", dtypes.complex64, 1)
    b.load(b.address(x, 0))
    with pytest.raises(LoweringError, match="c64"):
        llvm.render(b.program())
