"""Stage 15: nine patterns and their siblings, the widths they choose, and the ways to get them wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from planish import dtypes
from planish.dtypes import DType
from planish.errors import GraphError, LoweringError, PlanishError
from planish.llir.lower import lower
from planish.stages import pipeline
from planish.stages.devectorizer import s15_lower_index_dtype as s15
from planish.stages.devectorizer.s13_add_loads import add_loads
from planish.stages.devectorizer.s15_lower_index_dtype import lower_index_dtype
from planish.stages.gates import pm_gate_of_index
from planish.target import TARGETS
from planish.uop import spec
from planish.uop.evaluate import evaluate
from planish.uop.hardware_index import index_named
from planish.uop.matcher import Matcher, Rule, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import ALU, COMPARISONS, AxisType, Ops
from planish.uop.pattern import INDEX, node
from planish.uop.rewrite import rewrite
from planish.uop.text import print_graph
from tests.conftest import Golden
from tests.llir.helpers import assert_native_agrees
from tests.placed import Action, ActionKind

i32, i64, u64, f32 = dtypes.int32, dtypes.int64, dtypes.uint64, dtypes.float32
HUGE = 3_000_000_000
COUNT = 48
"""How many values a random expression is compared at."""


@pytest.fixture
def t() -> Iterator[Table]:
    with Table() as table:
        yield table


def used(index: UOp) -> UOp:
    """A kernel that stores at this index (of any number of lanes)."""
    t = index.table
    place = t.make(Ops.INDEX, f32.ptr(1 << 40).vec(index.dtype.lanes), (t.param(0, f32, 1 << 40), index))
    return t.sink(place.store(t.const(1.0, f32.vec(index.dtype.lanes))))


def lowered(index: UOp) -> UOp:
    """What becomes of an index."""
    after = lower_index_dtype(used(index))
    assert not any(n.dtype.is_index for n in after.toposort())
    assert lower_index_dtype(after) is after
    return after.src[0].src[0].src[1]


def data(t: Table, dtype: DType, slot: int = 1) -> UOp:
    """An index that comes out of memory."""
    place = t.param(slot, dtype, 16)
    loaded = t.make(Ops.LOAD, dtype, (t.make(Ops.INDEX, place.dtype, (place, t.variable("place", 0, 15))),))
    return loaded.cast(dtypes.index)


# -- the patterns ------------------------------------------------------------------------------------------------


def test_1_binary_ops_join_their_own_bounds_and_both_operands(t: Table) -> None:
    small, large = t.variable("n", 0, 9), t.variable("m", 0, HUGE)
    assert lowered(small + 1).dtype is i32
    assert lowered(small * 70000 * 70000).dtype is i64
    for mixed in (small + large, large + small):
        found = lowered(mixed)
        assert found.dtype is i64
        assert sorted(s.op.name for s in found.src) == ["CAST", "DEFINE_VAR"]


def test_1_intermediates_have_their_own_width(t: Table) -> None:
    i = t.variable("i", 0, 100_000)
    found = lowered((i * 70000) // 70000)
    assert found.dtype is i64  # the quotient fits 32 bits, the product does not
    assert [s.dtype for s in found.src] == [i64, i64]
    onwards = lowered((i * 70000) // 70000 + t.variable("j", 0, 9))
    assert onwards.dtype is i32
    assert onwards.src[0].op is Ops.CAST
    assert onwards.src[0].src[0].dtype is i64


def test_1_unary_ops_and_mulacc(t: Table) -> None:
    n = t.variable("n", -(2**31), 9)
    assert lowered(-n).dtype is i64  # of the least int32
    assert lowered(n.alu(Ops.ABS)).dtype is i64
    assert lowered(~n).dtype is i32
    m = t.variable("m", 0, 9)
    assert lowered(t.make(Ops.MULACC, dtypes.index, (m, m, m))).dtype is i32


def test_1_counts_of_bits_are_those_of_64(t: Table) -> None:
    n, m = t.variable("n", 1, 9), t.variable("m", -5, 9)
    assert lowered(n.alu(Ops.CLZ)).dtype is i64
    assert lowered(n.alu(Ops.POPCOUNT)).dtype is i32
    assert lowered(m.alu(Ops.POPCOUNT)).dtype is i64


@pytest.mark.parametrize(("value", "width"), [(2**31 - 1, i32), (2**31, i64), (-(2**31), i32), (-(2**31) - 1, i64)])  # fmt: skip
def test_2_constants(t: Table, value: int, width: DType) -> None:
    assert lowered(t.const(value)) is t.const(value, width)
    lanes = t.vconst((value, 0))
    assert lowered(lanes) is t.vconst((value, 0), width)


def test_2_constants_are_wrapped_for_the_others(t: Table) -> None:
    found = s15.pm_lower_index_dtype(t.const(5))
    assert found is t.const(5, i32).cast(dtypes.index)


def test_3_where_unifies_its_branches(t: Table) -> None:
    small, large = t.variable("n", 0, 9), t.variable("m", 0, HUGE)
    found = lowered((small < 3).where(small, large))
    assert found.dtype is i64
    assert found.src[0].src[0].dtype is i32  # the condition has a width of its own


@pytest.mark.parametrize(("bound", "width"), [(256, i32), (2**31 - 1, i32), (HUGE, i64)])
def test_4_special_and_6_range_count_in_the_width_of_their_bound(t: Table, bound: int, width: DType) -> None:
    special = t.make(Ops.SPECIAL, dtypes.index, (t.const(bound),), index_named("gidx0"))
    assert lowered(special) is t.make(Ops.SPECIAL, width, (t.const(bound, width),), index_named("gidx0"))
    r = t.range(bound, 0)
    sink = lower_index_dtype(t.sink(used(r).src[0].end(r)))
    counter = sink.src[0].src[1]
    assert (counter.op, counter.dtype, counter.src[0].dtype) == (Ops.RANGE, width, width)


def test_6_a_range_takes_the_unwrapped_bound(t: Table) -> None:
    n = t.variable("n", 0, HUGE)
    r = t.range((n + 3) // 4, 0)
    counter = lower_index_dtype(t.sink(used(r).src[0].end(r))).src[0].src[1]
    assert counter.dtype is i32  # a quarter of it fits again
    assert counter.src[0].op is Ops.CAST


@pytest.mark.parametrize(("low", "high", "width"), [(0, 100, i32), (0, HUGE, i64), (-HUGE, 0, i64)])
def test_5_variables_go_by_their_bounds(t: Table, low: int, high: int, width: DType) -> None:
    found = lowered(t.variable("n", low, high))
    assert found is t.variable("n", low, high, width)


def test_7_vectors_have_one_width(t: Table) -> None:
    small, large = t.variable("n", 0, 9), t.variable("m", 0, HUGE)
    for lanes, width in (((small, small + 1), i32), ((small, large), i64), ((large, small), i64)):
        found = lowered(t.make(Ops.VECTORIZE, dtypes.index.vec(2), lanes))
        assert found.dtype is width.vec(2)
    joined = t.make(Ops.CAT, dtypes.index.vec(4), (t.vconst((0, 1)), t.vconst((HUGE, 1))))
    assert lowered(joined).dtype is i64.vec(4)
    assert lowered(joined.gep(1)).dtype is i64


def test_7_one_bare_element_declines(t: Table) -> None:
    wrapped = t.const(3, i32).cast(dtypes.index)
    lanes = t.make(Ops.VECTORIZE, dtypes.index.vec(2), (wrapped, t.variable("n", 0, 9)))
    assert s15.pm_lower_index_dtype(lanes) is None
    assert s15.pm_lower_index_dtype(wrapped + t.variable("n", 0, 9)) is None
    assert s15.unwrap_cast_index(t.variable("n", 0, 9)) is None
    assert s15.unwrap_cast_index(t.const(True, dtypes.bool_).cast(dtypes.index)) is None


def test_8_a_variable_is_as_wide_as_its_bounds(t: Table) -> None:
    """A kernel knows the variable alone; its value comes with the launch."""
    for high, wide in ((100, i32), (HUGE, dtypes.int64)):
        found = lowered(t.variable("n", 0, high))
        assert found.op is Ops.DEFINE_VAR
        assert found.dtype is wide


def test_9_places_lose_wrappers_and_keep_their_element(t: Table) -> None:
    n = t.variable("n", 0, 9)
    place = lower_index_dtype(used(n)).src[0].src[0]
    assert place.src[1].op is Ops.DEFINE_VAR
    assert place.dtype is f32.ptr(1 << 40)  # a place is a pointer since stage 13, not the element


def test_9_gated_and_several_indices(t: Table) -> None:
    small, large, byte = t.variable("n", 0, 9), t.variable("m", 0, HUGE), t.variable("b", 0, 9, dtypes.uint8)
    buffer = t.param(0, f32, 64)
    for indices, width in (
        ((small, small), i32),
        ((small, large), i64),
        ((small, byte), i32),
        ((t.variable("w", 0, 9, i64), small), i32),  # its values fit
        ((data(t, dtypes.uint32), small), i64),
    ):
        place = t.make(Ops.INDEX, buffer.dtype, (buffer, *indices, small < 3))
        after = lower_index_dtype(t.sink(place.store(t.const(1.0, f32)))).src[0].src[0]
        assert [s.dtype for s in after.src[1:]] == [width, width, dtypes.bool_]


def test_comparisons_unify_and_stay_bool(t: Table) -> None:
    small, large = t.variable("n", 0, 9), t.variable("m", 0, HUGE)
    gate = lowered((small < large).where(small, 0)).src[0]
    assert gate.dtype is dtypes.bool_
    assert [s.dtype for s in gate.src] == [i64, i64]


def test_casts_to_and_from_other_types(t: Table) -> None:
    n = t.variable("n", 0, HUGE)
    for to in (dtypes.int8, dtypes.uint32, f32, dtypes.bool_, i64):
        stored = t.sink(t.make(Ops.STORE, dtypes.void, (
            t.make(Ops.INDEX, to.ptr(4), (t.param(0, to, 4), t.const(0))), n.cast(to))))  # fmt: skip
        value = lower_index_dtype(stored).src[0].src[1]
        assert value.dtype is to
        assert not any(s.dtype.is_index for s in value.toposort())
    assert lowered((n < 3).cast(dtypes.index)).dtype is i32
    x = t.make(Ops.LOAD, f32, (t.make(Ops.INDEX, f32.ptr(4), (t.param(1, f32, 4), t.const(0))),))
    assert lowered(x.cast(dtypes.index)).dtype is i64


@pytest.mark.parametrize(
    ("dtype", "width"),
    [(dtypes.uint8, i32), (dtypes.int16, i32), (i32, i32), (dtypes.uint32, i64), (i64, i64), (u64, u64)],
)
def test_indices_from_memory_are_as_wide_as_their_dtype(t: Table, dtype: DType, width: DType) -> None:
    found = lowered(data(t, dtype))
    assert found.dtype is (width if dtype not in {i64, i32, u64} else dtype)
    quarter = lowered(data(t, dtype) // 4)  # the quotient of an uint32 fits int32, the dividend does not
    assert quarter.dtype is width


def test_indices_from_memory_may_wrap_but_their_gates_are_right(t: Table) -> None:
    n = t.variable("n", 0, 9)
    assert lowered(data(t, i64) * 8 + n).dtype is i64
    compared = lowered((data(t, u64) < n).where(n, 0)).src[0]
    assert [s.dtype for s in compared.src] == [u64, u64]


def test_an_index_beyond_64_bits_is_refused(t: Table) -> None:
    n = t.variable("n", 0, 2**62)
    with pytest.raises(LoweringError, match="beyond 64 bits"):
        lower_index_dtype(used(n * 4))
    with pytest.raises(LoweringError, match="beyond 64 bits"):
        lower_index_dtype(used(t.variable("m", 0, 2**63)))


def test_effects_and_order_keep_nothing_of_index(t: Table) -> None:
    i, j = t.range(4, 0), t.range(HUGE, 1, AxisType.REDUCE)
    register = t.make(Ops.DEFINE_REG, f32.ptr(1, dtypes.AddrSpace.REG), (), 0)

    def element(*effects: UOp) -> UOp:
        return t.make(Ops.INDEX, register.dtype, (register.after(*effects), t.const(0)))

    first = element(i).store(t.const(0.0, f32))
    update = element(first, j).store(t.const(1.0, f32)).end(j)
    value = t.make(Ops.LOAD, f32, (element(update),))
    place = t.make(Ops.INDEX, f32.ptr(4), (t.param(0, f32, 4), i.after(update)))
    after = lower_index_dtype(t.sink(t.make(Ops.GROUP, dtypes.void, (place.store(value).end(i),))))
    assert not any(n.dtype.is_index for n in after.toposort())
    spec.check(after, "lowered")


# -- INVALID -----------------------------------------------------------------------------------------------------


def test_every_form_of_nowhere_becomes_a_gate(t: Table) -> None:
    n, m = t.variable("n", 0, 9), t.variable("m", 0, 9)
    p, q = n < 4, m < 5
    nowhere = t.invalid()
    for index, wanted in (
        (p.where(n, nowhere), lambda n, m: n < 4),
        (p.where(nowhere, n), lambda n, m: n >= 4),
        (p.where(q.where(n, nowhere), nowhere), lambda n, m: n < 4 and m < 5),
        (p.where(q.where(n, nowhere), m), lambda n, m: n >= 4 or m < 5),
        (p.where(n, nowhere) * 3 + m, lambda n, m: n < 4),
        (nowhere, lambda n, m: False),
    ):
        place = lower_index_dtype(used(index)).src[0].src[0]
        assert len(place.src) == 3
        assert not any(node.op is Ops.INVALID for node in place.toposort())
        for a in range(10):
            for b in range(10):
                env = {t.variable("n", 0, 9, i32): a, t.variable("m", 0, 9, i32): b}
                assert bool(evaluate(place.src[2], env)) is wanted(a, b)
                if wanted(a, b):
                    env_before = {n: a, m: b}
                    assert evaluate(place.src[1], env) == evaluate(index, env_before)


def test_two_gated_indices_share_one_gate(t: Table) -> None:
    n, m = t.variable("n", 0, 9), t.variable("m", 0, HUGE)
    buffer = t.param(0, f32, 64)
    indices = ((n < 4).where(n, t.invalid()), (m < 5).where(m, t.invalid()))
    place = t.make(Ops.INDEX, buffer.dtype, (buffer, *indices))
    after = lower_index_dtype(t.sink(place.store(t.const(1.0, f32)))).src[0].src[0]
    assert [s.dtype for s in after.src[1:]] == [i64, i64, dtypes.bool_]
    assert after.src[3].op is Ops.AND


def test_lanes_may_be_nowhere(t: Table) -> None:
    lanes = t.vconst((0, 1, 2, 3)) + t.make(Ops.VECTORIZE, dtypes.index.vec(4), (t.variable("n", 0, 9),) * 4)
    gate = lanes < t.const(7, dtypes.index.vec(4))
    place = lower_index_dtype(used(gate.where(lanes, t.invalid(dtypes.index.vec(4))))).src[0].src[0]
    assert place.src[1].dtype is i32.vec(4)
    assert place.src[2].dtype is dtypes.bool_.vec(4)


# -- what must be found ------------------------------------------------------------------------------------------
# Four ways to build this stage wrongly. Each is built here, and each is caught: by the laws of the nodes while it runs, or
# by the spec of what it leaves.


def matcher(rules: Sequence[Rule]) -> Matcher:
    return Matcher("planted", rules)


def replaced(op: Ops, made: Callable[[UOp], UOp | None], says: str) -> Matcher:
    """The real rules after one that is wrong."""
    return matcher([rule(node(op), made, says=says, on=INDEX)]) + s15.pm_lower_index_dtype_full


def is_caught(sink: UOp, wrong: Matcher, *more: Matcher) -> bool:
    try:
        for each in (wrong, *more):
            sink = rewrite(sink, each)
        spec.check(sink, "lowered")
    except PlanishError:
        return True
    return False


def kernel(t: Table) -> UOp:
    """c[⟨i, m, i+1, m⟩] = 1: lanes of two widths, a constant, a loop."""
    i, m = t.range(8, 0), t.variable("m", 0, HUGE)
    lanes = t.make(Ops.VECTORIZE, dtypes.index.vec(4), (i, m, i + 1, m))
    return t.sink(used(lanes).src[0].end(i))


def test_the_right_rules_are_not_caught(t: Table) -> None:
    assert not is_caught(kernel(t), s15.pm_lower_index_dtype_full)


def test_rules_that_take_a_bare_index_are_caught(t: Table) -> None:
    def permissive(root: UOp) -> UOp:
        return root.replace(dtype=i32, src=tuple(s15._stripped(s) for s in root.src)).cast(dtypes.index)

    n = t.variable("n", 0, 9)
    rules = s15.pm_lower_index_dtype_full.rules
    without_variables = [r for r in rules if not r.name.startswith("DEFINE_VAR")]
    wrong = matcher(
        [rule(node(Ops.ADD), permissive, says="x + y: index -> i32, whatever they are", on=INDEX)]
    )
    with pytest.raises(GraphError, match="do not make i32"):
        rewrite(used(n + 1), wrong + matcher(without_variables))
    assert is_caught(used(n + 1), matcher(without_variables))  # and what is passed over stays index


def test_cleaning_up_apart_from_lowering_is_caught(t: Table) -> None:
    lowering = s15.pm_lower_index_dtype + pm_gate_of_index
    assert is_caught(kernel(t), lowering)  # wrappers are left hanging
    assert is_caught(
        kernel(t), s15.load_store_indexing, lowering
    )  # cleaned before there is something to clean
    places = rewrite(kernel(t), lowering)
    laws = {problem.law for problem in spec.problems(places, "lowered")}
    assert "no cast to or from index is left hanging" in laws


def test_lanes_without_a_common_width_are_caught(t: Table) -> None:
    def as_they_are(root: UOp) -> UOp | None:
        inner = [s15.unwrap_cast_index(s) for s in root.src]
        if None in inner:
            return None
        values = tuple(v for v in inner if v is not None)
        return root.replace(dtype=values[0].dtype.vec(len(values)), src=values).cast(dtypes.index)

    wrong = replaced(Ops.VECTORIZE, as_they_are, "VECTORIZE: index -> of the elements' own widths")
    with pytest.raises(GraphError, match="joins values of one dtype"):
        rewrite(kernel(t), wrong)


def test_stripping_before_vectors_see_the_wrapper_is_caught(t: Table) -> None:
    def eager(root: UOp) -> UOp | None:
        stripped = tuple(s15._stripped(s) for s in root.src)
        return None if stripped == root.src else root.replace(src=stripped)

    wrong = replaced(Ops.VECTORIZE, eager, "VECTORIZE(wrapped) -> VECTORIZE(concrete), still index")
    with pytest.raises(GraphError, match="joins values of one dtype"):
        rewrite(kernel(t), wrong)


def test_a_width_from_the_result_alone_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = s15.select_concrete_dtype
    monkeypatch.setattr(s15, "select_concrete_dtype", lambda *values: right(values[0]))
    assert disagreements(range(400))


def test_a_width_of_32_bits_for_everything_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s15, "select_concrete_dtype", lambda *values: i32)
    assert disagreements(range(100))


# -- random expressions ------------------------------------------------------------------------------------------

VARIABLES = {
    "a": (0, 7), "b": (-5, 40), "c": (0, 70_000), "d": (0, 2**31 - 1), "e": (-(2**31), 2**31 - 1), "f": (0, HUGE),
    "g": (-(2**40), 2**40), "h": (1, 9),
}  # fmt: skip
_BINARY = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD, Ops.MAX, Ops.MIN,
    Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR)  # fmt: skip
_UNARY = (Ops.NEG, Ops.NOT, Ops.ABS, Ops.CLZ, Ops.POPCOUNT)
_DIVISIONS = {Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD}
_DATA = (dtypes.uint8, dtypes.int16, i32, dtypes.uint32)


def fits(value: UOp) -> bool:
    return value.vmin >= -(2**63) and value.vmax < 2**63


def random_index(rng: random.Random, t: Table) -> UOp:
    """An index expression without overflow beyond 64 bits and without division by zero."""
    pool: list[UOp] = [t.variable(name, *VARIABLES[name]) for name in rng.sample(list(VARIABLES), 4)]
    pool += [t.const(rng.choice((1, 2, 3, 7, 70_000, -1, -6, 2**31, 2**33 + 1))) for _ in range(3)]
    pool.append(data(t, rng.choice(_DATA)))
    for _ in range(rng.randint(2, 9)):
        x, y = rng.choice(pool), rng.choice(pool)
        kind = rng.random()
        if kind < 0.68:
            op = rng.choice(_BINARY)
            if op in _DIVISIONS and y.vmin <= 0 <= y.vmax:
                y = t.const(rng.choice((3, -4, 70_000)))
            if op in {Ops.SHL, Ops.SHR}:
                y = t.const(rng.randint(0, 40)) if rng.random() < 0.5 else t.variable("a", 0, 7)
            made = x.alu(op, y)
        elif kind < 0.78:
            made = x.alu(rng.choice(_UNARY))
        elif kind < 0.9:
            made = x.alu(rng.choice(tuple(COMPARISONS)), y).where(rng.choice(pool), rng.choice(pool))
        elif kind < 0.95:
            made = (x < y).cast(dtypes.index)
        else:
            made = x.cast(rng.choice((dtypes.int8, dtypes.uint16))).cast(dtypes.index)
        if fits(made):
            pool.append(made)
    chosen = [v for v in pool[-3:] if fits(v)] or pool[:1]
    if len(chosen) > 1 and rng.random() < 0.4:
        lanes = t.make(Ops.VECTORIZE, dtypes.index.vec(len(chosen)), tuple(chosen))
        wide = lanes.alu(rng.choice((Ops.ADD, Ops.MAX)), t.vconst([rng.randint(0, 9) for _ in chosen]))
        return wide if rng.random() < 0.5 or not fits(wide) else wide.gep(*reversed(range(len(chosen))))
    return chosen[-1]


def environment(rng: random.Random, count: int = COUNT) -> dict[str, list[int]]:
    found = {}
    for name, (low, high) in VARIABLES.items():
        corners = [low, high, max(low, min(high, 0)), max(low, min(high, 1)), (low + high) // 2]
        found[name] = [rng.choice(corners) if rng.random() < 0.5 else rng.randint(low, high) for _ in range(count)]  # fmt: skip
    return found


def contents(dtype: DType) -> Any:
    low, high = int(dtype.min or 0), int(dtype.max or 0)
    rng = np.random.default_rng(7)
    values = rng.integers(low, high, 16, dtype=np.int64, endpoint=True)
    values[:4] = low, high, 0, 1
    return values.astype(dtype.numpy)


def values_of(index: UOp, given: dict[str, list[int]]) -> Any:
    """The values of an expression before or after the stage, exact."""
    env: dict[UOp, Any] = {}
    for each in index.toposort():
        if each.op is Ops.DEFINE_VAR:
            name = each.arg.name  # type: ignore[attr-defined]
            values = given["a" if name == "place" else name]
            env[each] = np.array(values, object if each.dtype.is_index else each.dtype.numpy)
        elif each.op is Ops.DEFINE_GLOBAL:
            env[each] = contents(each.dtype.base)  # type: ignore[attr-defined]
    found = np.asarray(evaluate(index, env), object)
    lanes = index.dtype.lanes
    whole = np.broadcast_to(found, (COUNT, lanes) if lanes > 1 else (COUNT,))
    return [int(v) for v in np.ravel(whole)]


def narrow_enough(index: UOp) -> bool:
    """Whether every op of 64 bits needs them: for its result, an operand, or to count bits."""
    for each in index.toposort():
        if each.op not in ALU or each.dtype.is_bool or each.dtype.scalar is i32 or each.op is Ops.CLZ:
            continue
        values = (each, *(s for s in each.src if not s.dtype.is_bool))
        if each.op is Ops.POPCOUNT and each.src[0].vmin < 0:
            continue
        if all(v.vmin >= -(2**31) and v.vmax < 2**31 for v in values):
            return False
    return True


def disagreements(seeds: range) -> list[int]:
    """Expressions that the stage makes illegal, wrong, or wider than they have to be."""
    found = []
    for seed in seeds:
        rng = random.Random(seed)
        with Table() as t:
            index = random_index(rng, t)
            given = environment(rng)
            try:
                after = lower_index_dtype(used(index))
                spec.check(after, "lowered")
                place = after.src[0].src[0].src[1]
                right = values_of(index, given) == values_of(place, given) and narrow_enough(place)
            except PlanishError:
                right = False
        if not right:
            found.append(seed)
    return found


def test_random_expressions_keep_their_values() -> None:
    assert disagreements(range(400)) == []


@pytest.mark.fuzz
def test_many_random_expressions_keep_their_values() -> None:
    assert disagreements(range(1000, 12_000)) == []


# -- a kernel ----------------------------------------------------------------------------------------------------


def test_an_access_pattern_before_and_after(t: Table, golden: Golden) -> None:
    i, j = t.range(1000, 0), t.range(70_000, 1)
    n = t.variable("n", 0, 63)
    x = t.param(1, f32, 1 << 33).index((j < n).where(i * 70_000 + j * 64 + n, t.invalid()))
    before = add_loads(t.sink(t.param(0, f32, 70_000_000).index(i * 70_000 + j).store(x).end(i, j)))
    after = lower_index_dtype(before)
    spec.check(after, "lowered")
    golden.check(
        "stages/s15_lower_index_dtype/widths.txt",
        f"=== before\n{print_graph(before)}=== after\n{print_graph(after)}",
    )


def test_matmul_validated_3x3(t: Table, golden: Golden) -> None:
    """A 3x3 product whose rows and columns are lanes: vectors of indices become vectors of int32, and so does all code."""
    i, j, k = t.range(3, 0), t.range(3, 1), t.range(3, 2, AxisType.REDUCE)
    a, b = t.param(1, f32, 9).index(i * 3 + k), t.param(2, f32, 9).index(k * 3 + j)
    kernel = t.sink(t.param(0, f32, 9).index(i * 3 + j).store((a * b).reduce(Ops.ADD, k)).end(i, j))
    # whole vectors up to the end, as if nothing had to be cut: the case that goes wrong if lanes get widths of their own
    actions = [Action(ActionKind.UPCAST, 1, 3), Action(ActionKind.UPCAST, 0, 3)]
    machine = pipeline.Machine(TARGETS["x86-64-v3"], lambda sink: actions)
    forms = {step.stage.number: step.form for step in pipeline.steps(kernel, machine)}
    after, lines = forms[15], forms[22]
    assert isinstance(after, UOp)
    assert isinstance(lines, list)
    spec.check(after, "lowered")
    golden.check("stages/s15_lower_index_dtype/matmul_3x3.txt", print_graph(after))
    program = lower("matmul_3x3", lines)
    integers = {r.target.dtype.scalar for r in program.body if r.target is not None and r.target.dtype.is_int}
    assert integers <= {i32}
    x, y = np.arange(9, dtype=np.float32) - 4, np.arange(9, dtype=np.float32) * 2 + 1
    (found, _, _) = assert_native_agrees(program, [np.zeros(9, np.float32), x, y])
    np.testing.assert_array_equal(found.reshape(3, 3), x.reshape(3, 3) @ y.reshape(3, 3))


def test_vectors_of_indices_are_lowered_where_nothing_cuts_them(t: Table) -> None:
    lanes = t.make(Ops.VECTORIZE, dtypes.index.vec(3), tuple(t.variable("n", 0, 9) + k for k in range(3)))
    buffer = t.param(1, f32, 64)
    loaded = t.make(Ops.LOAD, f32.vec(3), (t.make(Ops.INDEX, buffer.dtype.vec(3), (buffer, lanes)),))
    after = lower_index_dtype(t.sink(used(lanes).src[0].src[0].store(loaded)))
    places = [n for n in after.toposort() if n.op is Ops.INDEX]
    assert [n.src[1].dtype for n in places] == [i32.vec(3)] * 2
    spec.check(after, "lowered")


def test_a_kernel_without_indices_stays(t: Table) -> None:
    lines = pipeline.run(t.sink(t.param(0, f32, 1).index(t.const(0)).store(t.const(2.0, f32))))
    assert not any(line.dtype.is_index for line in lines)
