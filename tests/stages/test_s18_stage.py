"""Stage 18 as a whole: what a target has is left alone, what it lacks is gone; contraction; conditions; goldens."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.stages.devectorizer.s11_remove_reduce import remove_reduce
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.linearizer.decompositions import coefficients
from planish.stages.linearizer.decompositions.reals import FUNCTIONS
from planish.stages.linearizer.decompositions.support import CPU, Support
from planish.stages.linearizer.s18_decompositions import decompositions, steps
from planish.uop.evaluate import evaluate
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, COMPARISONS, Ops
from planish.uop.rewrite import RewriteStats, rewrite
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.stages.s18_fit import tables
from tests.stages.s18_math import NO_FMA, SPARE, inputs, pairs, same_bits, specials

CONTRACT = Support(CPU.ops, contract=True)


def leaves(table: Table, dtype: DType, count: int = 3) -> list[UOp]:
    return [table.param(slot, dtype, 1).index(table.const(0)) for slot in range(count)]


def below(node: UOp, given: list[UOp]) -> list[UOp]:
    return [n for n in node.toposort(lambda n: n not in given) if n not in given]


def test_the_coefficients_are_those_that_the_fit_gives() -> None:
    for name, (single, double) in tables().items():
        assert getattr(coefficients, name) == (single, double), name


# -- what a target has ----------------------------------------------------------------------------------------------

FLOAT_ONLY = {op for op in ALU if op.law.name == "FLOAT"}
INTEGER_ONLY = {op for op in ALU if op.law.name == "INTEGRAL"}
MACHINE = (
    dtypes.float32,
    dtypes.float64,
    dtypes.int8,
    dtypes.uint16,
    dtypes.int32,
    dtypes.uint32,
    dtypes.int64,
    dtypes.uint64,
)


def _legal(op: Ops, dtype: DType) -> bool:
    if op is Ops.WHERE or (op is Ops.THREEFRY and dtype is not dtypes.uint64):
        return False
    if dtype.is_float:
        return op not in INTEGER_ONLY and op.law.name != "BITS"
    return op not in FLOAT_ONLY


@pytest.mark.parametrize("support", [CPU, NO_FMA, SPARE], ids=["cpu", "no_fma", "spare"])
@pytest.mark.parametrize("dtype", MACHINE, ids=str)
def test_what_is_left_is_what_the_target_has(dtype: DType, support: Support) -> None:
    for op in sorted(ALU):
        if not _legal(op, dtype) or (op is Ops.MULACC and dtype.is_float):
            continue
        for lanes in (1, 4):
            with Table() as table:
                given = leaves(table, dtype.vec(lanes), op.min_sources)
                after = decompositions(given[0].alu(op, *given[1:]), support)
                strange = (
                    {n.op.name for n in below(after, given)}
                    - {o.name for o in support.ops}
                    - {"CONST", "CAST", "BITCAST"}
                )
                assert not strange, (op.name, strange)
                assert after.dtype.lanes == lanes
                assert decompositions(after, support) is after, op.name


@pytest.mark.parametrize("op", sorted(FUNCTIONS), ids=lambda op: op.name)
def test_an_op_of_the_target_is_left_alone(op: Ops) -> None:
    with Table() as table:
        given = leaves(table, dtypes.float32, op.min_sources)
        before = given[0].alu(op, *given[1:])
        assert decompositions(before, Support(CPU.ops | {op})) is before
        assert decompositions(before, CPU.ops | {op}) is before, "a plain set of ops is a target too"
        whole = leaves(table, dtypes.int32, 2)
        for division in (whole[0] // 7, whole[0] % whole[1]):
            assert decompositions(division, CPU.ops | {division.op}) is division


def test_a_spare_machine_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    for dtype in (dtypes.float32, dtypes.int32, dtypes.uint8):
        if dtype.is_float:
            x, y = pairs(dtype, 3000)
        else:
            x, y = (rng.integers(0, 1 << 64, 3000, np.uint64).astype(dtype.numpy) for _ in range(2))
        ops = {Ops.NEG, Ops.ABS, Ops.MAX, Ops.MIN, Ops.CMPLE, Ops.CMPNE, Ops.SUB} | (
            {Ops.RECIP} if dtype.is_float else {Ops.NOT}
        )
        lacking = Support(SPARE.ops - {Ops.CMPNE, Ops.NOT})
        for op in sorted(ops):
            with Table() as table:
                given = leaves(table, dtype, op.min_sources)
                before = given[0].alu(op, *given[1:])
                if op in COMPARISONS and dtype.is_float:
                    before = before.where(given[0], given[1])  # NOT on bools is what the comparison needs
                after = decompositions(before, lacking)
                env = dict(zip(given, (x, y), strict=False))
                with np.errstate(all="ignore"):
                    found, wanted = evaluate(after, env), evaluate(before, env)
                if dtype.is_float:
                    assert same_bits(found, wanted), op.name
                else:
                    np.testing.assert_array_equal(found, wanted, err_msg=op.name)


def test_nothing_to_do_is_not_looked_at() -> None:
    with Table() as table:
        a, b, _ = leaves(table, dtypes.float32)
        before = (a + b) / a
        size = len(table)
        assert decompositions(before) is before
        assert len(table) == size


def test_functions_have_no_loops_and_calls_and_stay_small() -> None:
    """Counts of nodes, so that a change that makes a kernel larger is seen."""
    largest = {
        Ops.EXP: 60, Ops.LOG: 80, Ops.TANH: 80, Ops.ERF: 160, Ops.SIN: 250, Ops.POW: 340, Ops.FMOD: 230, Ops.RSQRT: 8
    }  # fmt: skip
    for op, most in largest.items():
        with Table() as table:
            given = leaves(table, dtypes.float32, op.min_sources)
            nodes = below(decompositions(given[0].alu(op, *given[1:])), given)
            assert {n.op for n in nodes} <= ALU | {Ops.CONST, Ops.CAST, Ops.BITCAST, Ops.RARE}
            assert len(nodes) <= most, (op.name, len(nodes))


def test_hot_float32_functions_stay_in_32_bits() -> None:
    for op in (Ops.EXP, Ops.EXP2, Ops.LOG, Ops.TANH, Ops.ERF, Ops.EXPM1, Ops.LOG1P):
        with Table() as table:
            given = leaves(table, dtypes.float32, 1)
            assert all(n.dtype.bits in {1, 32} for n in below(decompositions(given[0].alu(op)), given)), (
                op.name
            )


# -- contraction ----------------------------------------------------------------------------------------------------


def _reduction(table: Table, value: str) -> UOp:
    """out[i] = Σ_k f(a[k], b[k]) + a[i] b[i]: a product in the loop and one behind it."""
    out, a, b = (table.param(slot, dtypes.float32, 8) for slot in range(3))
    i, k = table.range(8, 0), table.range(8, 1)
    x, y = a.index(k), b.index(k)
    inside = {"product": x * y, "sum of products": x * y + x, "plain": x}[value]
    total = inside.reduce(Ops.ADD, k) + a.index(i) * b.index(i)
    sink = table.sink(out.index(i).store(total).end(i))
    return lower_index_dtype(add_loads(remove_reduce(sink)))


def _float_fused(sink: UOp) -> list[UOp]:
    return [n for n in sink.toposort() if n.op is Ops.MULACC and n.dtype.is_float]


def test_only_a_product_that_feeds_a_reduction_is_fused() -> None:
    with Table() as table:
        (fused,) = _float_fused(decompositions(_reduction(table, "product")))
        assert fused.src[2].op is Ops.LOAD
        users = [n for n in decompositions(_reduction(table, "product")).toposort() if fused in n.src]
        assert [n.op for n in users] == [Ops.STORE]
        # x*y + x is the program's own sum: it is rounded before it is added up
        assert not _float_fused(decompositions(_reduction(table, "sum of products")))
        assert not _float_fused(decompositions(_reduction(table, "plain")))
        assert not _float_fused(decompositions(_reduction(table, "product"), NO_FMA))


def test_a_chain_of_products_is_fused_along_the_accumulator_in_order() -> None:
    with Table() as table:
        a, b = (table.param(slot, dtypes.float32, 8) for slot in (1, 2))
        register = table.make(Ops.DEFINE_REG, dtypes.float32.ptr(1, dtypes.AddrSpace.REG), (), 0)
        zero = table.const(0, dtypes.int32)
        place = table.make(Ops.INDEX, register.dtype, (register, zero))
        acc = table.make(Ops.LOAD, dtypes.float32, (place,))
        products = [
            a.index(table.const(n, dtypes.int32)) * b.index(table.const(n, dtypes.int32)) for n in range(3)
        ]
        value = products[2] + ((acc + products[0]) + products[1])
        after = decompositions(table.sink(place.store(value)))
        stored = next(n for n in after.toposort() if n.op is Ops.STORE).src[1]
        for product in reversed(products):
            assert stored.op is Ops.MULACC
            assert stored.src[:2] == product.src
            stored = stored.src[2]
        assert stored is acc


def test_contract_fuses_what_the_program_says_but_not_inside_functions() -> None:
    with Table() as table:
        a, b, c = leaves(table, dtypes.float32)
        assert decompositions(a * b + c) is a * b + c
        assert decompositions(a * b + c, CONTRACT) is a.alu(Ops.MULACC, b, c)
        assert decompositions(c - a * b, CONTRACT) is (-a).alu(Ops.MULACC, b, c)
        assert decompositions(a * b - c, CONTRACT) is a.alu(Ops.MULACC, b, -c)
        for op in FUNCTIONS:
            if op.min_sources == 1:
                assert decompositions(a.alu(op), CONTRACT) is decompositions(a.alu(op)), op.name
        half = leaves(table, dtypes.float16)
        assert not _float_fused(decompositions(half[0] * half[1] + half[2], CONTRACT))


def test_integers_are_fused_wherever_the_target_can() -> None:
    with Table() as table:
        a, b, c = leaves(table, dtypes.int32)
        assert decompositions(a * b + c) is a.alu(Ops.MULACC, b, c)
        assert decompositions(c + a * 3) is a.alu(Ops.MULACC, a.const_like(3), c)
        assert decompositions(a * 4 + c) is (a << 2) + c
        assert decompositions(a.alu(Ops.MULACC, b, c), NO_FMA) is a * b + c


# -- conditions -----------------------------------------------------------------------------------------------------


def test_negations_move_to_where_they_cost_nothing() -> None:
    with Table() as table:
        a, b, c = leaves(table, dtypes.int32)
        x, y, _ = leaves(table, dtypes.float32)
        p, q = a < b, b < c
        assert decompositions((a < b).logical_not()) is (b <= a)
        assert decompositions((a <= b).logical_not()) is (b < a)
        assert decompositions((x < y).logical_not()) is (x < y).logical_not(), "NaN"
        assert decompositions(x.eq(y).logical_not()) is x.ne(y)
        assert decompositions(x.ne(y).logical_not()) is x.eq(y)
        assert decompositions((x < y).logical_not().where(a, b)) is (x < y).where(b, a)
        f, g = x < y, y < x * x
        assert decompositions(f.logical_not() & g.logical_not()) is (f | g).logical_not()
        assert decompositions(f.logical_not() | g.logical_not()) is (f & g).logical_not()
        assert decompositions((p & q).where(a, b)) is (p & q).where(a, b)


# -- the rules as such ----------------------------------------------------------------------------------------------


def test_every_rule_has_a_name_of_its_own() -> None:
    for support in (CPU, SPARE, CONTRACT, NO_FMA):
        names = [rule.name for step in steps(support) for rule in step.matcher]
        own = [name for name in names if names.count(name) > 1]
        assert not own


def test_random_integer_expressions_mean_the_same() -> None:
    rng = np.random.default_rng(1)
    binary = [Ops.ADD, Ops.SUB, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.SHL, Ops.SHR, Ops.MAX,
              Ops.MIN, Ops.AND, Ops.OR, Ops.XOR, Ops.POW]  # fmt: skip
    for number, dtype in itertools.product(
        range(12), (dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64)
    ):
        with Table() as table:
            given = leaves(table, dtype)
            pool = [
                *given,
                given[0].const_like(int(rng.integers(-9, 9))),
                given[0].const_like(int(rng.integers(1, 100))),
            ]
            for _ in range(14):
                op = binary[int(rng.integers(len(binary)))]
                left, right = (pool[int(k)] for k in rng.integers(0, len(pool), 2))
                pool.append(left.alu(op, right))
            before = pool[-1] ^ pool[-2] ^ pool[-3]
            env = {
                g: rng.integers(0, 1 << 64, 300, np.uint64).astype(f"u{dtype.itemsize}").view(dtype.numpy)
                for g in given
            }
            with np.errstate(all="ignore"):
                wanted = evaluate(before, env)
                for support in (CPU, SPARE):
                    after = decompositions(before, support)
                    np.testing.assert_array_equal(evaluate(after, env), wanted, err_msg=f"{number} {dtype}")


def test_the_work_is_linear_in_the_size_of_the_graph() -> None:
    counts = []
    for length in (20, 40):
        with Table() as table:
            value, _, _ = leaves(table, dtypes.float32)
            for _ in range(length):
                value = (value + 1.0).alu(Ops.EXP)
            stats = RewriteStats()
            rewrite(value, steps(CPU)[1].matcher, stats=stats)
            counts.append(stats.visits)
    assert counts[1] < 2.2 * counts[0]


def test_vectors_compute_lane_by_lane() -> None:
    for op in (Ops.EXP, Ops.SIN, Ops.ERFC):
        x = np.concatenate([specials(dtypes.float32), inputs(op, dtypes.float32, 2000)[-100:]])
        x = x[: len(x) // 4 * 4]
        with Table() as table:
            one = table.param(0, dtypes.float32, 1).index(table.const(0))
            four = table.make(Ops.NOOP, dtypes.float32.vec(4))
            single, vector = decompositions(one.alu(op)), decompositions(four.alu(op))
            with np.errstate(all="ignore"):
                assert same_bits(
                    evaluate(vector, {four: x.reshape(-1, 4)}).ravel(), evaluate(single, {one: x})
                )


@pytest.mark.parametrize("name", ["exp", "division", "shift", "accumulate"])
def test_before_and_after(name: str, golden: Golden) -> None:
    with Table() as table:
        out, given = table.param(0, dtypes.float32, 8), table.param(1, dtypes.float32, 8)
        i = table.range(8, 0)
        whole = table.param(2, dtypes.int32, 8)
        if name == "exp":
            sink = table.sink(out.index(i).store(given.index(i).alu(Ops.EXP)).end(i))
        elif name == "division":
            sink = table.sink(whole.index(i % 4 + i // 3).store(whole.index(i) // whole.index(i // 5)).end(i))
        elif name == "shift":
            sink = table.sink(whole.index(i).store((whole.index(i) << whole.index(i)) * 8).end(i))
        else:
            sink = _reduction(table, "product")
        before = sink if name == "accumulate" else lower_index_dtype(add_loads(sink))
        text = f"=== before\n{print_graph(before)}\n=== after\n{print_graph(decompositions(before))}"
        golden.check(f"stages/s18_decompositions/{name}.txt", text)
