"""What the movement rules lean on: the table of casts, axis groups, drafts; and proof that the checks can fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from planish import dtypes
from planish.ptir import ops
from planish.ptir.builder import Graph
from planish.ptir.dims import Dim
from planish.ptir.function import Program
from planish.ptir.ops import numerics
from planish.ptir.ops.checking import ALL
from planish.ptir.rewrite.pattern import PatternSet
from planish.ptir.rewrite.prelude import OpRewritePattern, ProgramRewriter, ReverseView, TransposeView
from planish.ptir.rewrite.rewriter import ProgramRewriter as Rewriter
from planish.ptir.rules import draft as d
from planish.ptir.rules import populate_canonicalization
from planish.ptir.rules.cast import may_skip
from planish.ptir.rules.shapes import match_axes
from planish.ptir.types import tensor
from tests.ptir import golden_cases as golden
from tests.ptir import test_golden
from tests.ptir.ops_testing import samples

DTYPES = [dtype for dtype in dtypes.ALL if dtype in ALL]


def values_of(dtype):
    """Every value up to 16 bits; the interesting ones of wider types, and the edges of every narrower integer."""
    if dtype.bits <= 16 and not dtype.is_bool and not dtype.is_complex:
        bits = np.arange(2**dtype.bits, dtype=np.uint16 if dtype.bits == 16 else np.uint8)
        return numerics.from_bits(bits, dtype) if dtype.bits == 4 else bits.view(dtype.numpy)
    edges = [
        sign * 2**k + e
        for k in (3, 4, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63)
        for sign in (1, -1)
        for e in (-1, 0, 1)
    ]
    if dtype.is_int:
        wide = np.array([dtype.wrap(e) for e in edges], np.int64 if dtype.is_signed else np.uint64)
        return np.concatenate([samples(dtype), wide.astype(dtype.numpy)])
    if dtype.is_float:
        return np.concatenate([samples(dtype), np.array(edges, np.float64).astype(dtype.numpy)])
    return samples(dtype)


def castable(source, target):
    return not source.is_complex or target.is_complex or target.is_bool


@pytest.mark.parametrize("first", DTYPES, ids=lambda dtype: dtype.short)
def test_a_cast_is_skipped_only_if_no_value_can_tell(first):
    x = values_of(first)
    with np.errstate(all="ignore"):
        direct = {last: numerics.convert(x, last) for last in DTYPES if castable(first, last)}
        for middle, through in direct.items():
            for last in DTYPES:
                if not castable(middle, last) or not may_skip(first, middle, last):
                    continue
                assert last in direct, f"{first} cannot be cast to {last} at all"
                found = golden.difference(direct[last], numerics.convert(through, last), close=False)
                assert found is None, f"{first} to {middle} to {last}:\n{found}"


def test_casts_that_keep_values_are_skipped():
    skipped = [
        t
        for t in itertools.product(DTYPES, repeat=3)
        if castable(*t[:2]) and castable(*t[1:]) and may_skip(*t)
    ]
    assert (dtypes.int8, dtypes.float32, dtypes.int16) in skipped
    assert (dtypes.int64, dtypes.int32, dtypes.uint8) in skipped
    assert (dtypes.int8, dtypes.float32, dtypes.uint8) not in skipped
    assert (dtypes.float32, dtypes.bfloat16, dtypes.float32) not in skipped


B, N = Dim.named("B", 1, 64), Dim.named("N", 2, 8)


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((6,), (2, 3), [((0,), (0, 1))]),
        ((2, 3), (6,), [((0, 1), (0,))]),
        ((2, B), (2, 1, B), [((0,), (0,)), ((1,), (2,))]),
        ((4, 6), (2, 12), [((0, 1), (0, 1))]),
        ((B, N), (B * N,), [((0, 1), (0,))]),
        ((B, 6, N), (B, 2, 3, N), [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]),
        ((1, 1), (1,), []),
        ((), (1, 1), []),
        ((0, 3), (3, 0), None),
    ],
)
def test_axes_are_grouped_as_finely_as_the_reshape_keeps_them_apart(source, target, groups):
    found = match_axes(source, target)
    assert (None if found is None else [(g.source, g.target) for g in found]) == groups


def test_reversing_a_whole_group_reverses_the_elements_on_both_sides():
    # The property that grouping stands for, on every pair of shapes with 24 elements.
    shapes = [
        s
        for n in range(1, 4)
        for s in itertools.product((1, 2, 3, 4, 6, 8, 12, 24), repeat=n)
        if np.prod(s) == 24
    ]
    x = np.arange(24)
    for source, target in itertools.product(shapes, repeat=2):
        for group in match_axes(source, target) or ():
            one = np.flip(x.reshape(source), group.source).reshape(target)
            assert np.array_equal(one, np.flip(x.reshape(target), group.target)), (source, target, group)


def test_a_draft_that_cannot_be_typed_leaves_the_function_alone():
    g = Graph("f")
    x = g.input("x", tensor("f32", (2, 3)))
    function = g.build(x.transpose())
    rw = Rewriter(function)
    inst = function.results[0].def_inst
    assert inst is not None
    before = golden.show(Program([function]))
    assert d.reshaped(x.value, (7,)) is None
    assert d.transposed(d.reshaped(x.value, (7,)), (0,)) is None
    assert not d.replace(rw, inst, d.transposed(d.reshaped(x.value, (7,)), (0,)))
    assert not d.replace(rw, inst, d.reshaped(x.value, (6,))), "a replacement of another type"
    assert rw.changes == 0
    assert golden.show(Program([function])) == before


def test_movement_of_values_scaled_per_axis_is_rewritten_or_left_but_never_breaks():
    g = Graph("f")
    x = g.input("x", tensor("f32", (2, 3, 4)))
    q = x.quantize("i8", (0.5, 0.25, 2.0), (0, 1, -1), axis=1)
    function = g.build(
        q.transpose((1, 0, 2)).reshape(3, 8).dequantize(),
        q.transpose((1, 0, 2)).transpose((2, 1, 0)).dequantize(),
        q.reshape(2, 3, 2, 2).transpose((1, 0, 2, 3)).dequantize(),
        q.reverse(0).slice((1, 0, 0), (2, 3, 4)).dequantize(),
    )
    program = Program([function])
    original = program.clone()
    golden.canonicalize(program)
    assert not golden.problems(program)
    inputs = [np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4)]
    for left, right in zip(golden.run(original, inputs), golden.run(program, inputs), strict=True):
        assert golden.difference(left, right, close=False) is None


# --- the golden runner fails where it should ----------------------------------------------------------------


class ForgetReverse(OpRewritePattern[ReverseView]):
    """reverse(x) -> x, which is wrong."""

    def match_and_rewrite(self, op: ReverseView, rw: ProgramRewriter) -> bool:
        rw.replace_op(op.inst, op.source)
        return True


class ShiftForever(OpRewritePattern[TransposeView]):
    """transpose(x, p) -> transpose(transpose(x, p), identity), which never ends and is undone by another."""

    benefit = 9

    def match_and_rewrite(self, op: TransposeView, rw: ProgramRewriter) -> bool:
        if op.inst.made_by is not None:
            return False
        inner = rw.insert_before(op.inst, ops.transpose, op.operands, op.attrs)
        attrs = ops.TransposeAttrs(tuple(range(len(op.dims))))
        rw.replace_with(op.inst, ops.transpose, inner.results, attrs)
        return True


SOURCE = """\
ptir 1
func @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {
  %0 = reverse %x {axes=[0]} : tensor<f32, 4>
  return %0
}
"""
DROPPED = """\
ptir 1
func @f(%x: tensor<f32, 4>) -> tensor<f32, 4> {
  return %x
}
"""


class Request:
    """As much of a pytest request as the runner asks for."""

    def __init__(self):
        self.config = self

    def getoption(self, name):
        return False


@pytest.fixture
def planted(monkeypatch):
    """Run a case with one more pattern than ships."""

    def run(pattern, case):
        patterns = PatternSet([pattern])
        populate_canonicalization(patterns)
        frozen = patterns.freeze()
        monkeypatch.setattr(golden, "canonicalization_patterns", lambda: frozen)
        monkeypatch.setattr(test_golden, "PATTERNS", [p.label for p in frozen.patterns])
        test_golden.test_case(case, Request())

    return run


def case(name, pattern, expected):
    return golden.Case(golden.RULES / "planted.ptir", name, pattern, SOURCE, expected)


def test_a_wrong_pattern_is_caught_by_interpretation(planted):
    with pytest.raises(AssertionError, match="result 0 for inputs"):
        planted(ForgetReverse, case("forget", "ForgetReverse", DROPPED))


def test_a_pattern_that_fires_where_it_must_not_is_caught(planted):
    with pytest.raises(pytest.fail.Exception, match="--update-golden"):
        planted(ForgetReverse, case("not-forget", "ForgetReverse", SOURCE))


def test_a_pattern_that_does_not_fire_is_caught(planted):
    with pytest.raises(AssertionError, match="FoldReverseOfReverse did not fire"):
        planted(ShiftForever, case("fold", "FoldReverseOfReverse", SOURCE))


def test_a_case_that_other_patterns_decide_is_caught(planted):
    source = SOURCE.replace("reverse %x {axes=[0]}", "transpose %x {perm=[0]}")
    given = golden.Case(golden.RULES / "planted.ptir", "shift", "ShiftForever", source, DROPPED)
    with pytest.raises(AssertionError, match="the result is the same without ShiftForever"):
        planted(ShiftForever, given)


def test_a_changed_expectation_is_caught(planted):
    with pytest.raises(pytest.fail.Exception, match="--update-golden"):
        planted(ShiftForever, case("not-reverse", "FoldReverseOfReverse", DROPPED))


def test_a_malformed_file_is_caught(tmp_path):
    path = tmp_path / "bad.ptir"
    path.write_text("// case: lonely\n" + SOURCE, encoding="utf-8")
    with pytest.raises(golden.CaseError, match="needs `// case:` and `// pattern:`"):
        golden.read_cases(path)
    path.write_text(
        f"// case: a\n// pattern: P\n{SOURCE}// -----\n// case: a\n// pattern: P\n{SOURCE}", encoding="utf-8"
    )
    with pytest.raises(golden.CaseError, match="two cases are called a"):
        golden.read_cases(path)


def test_blessing_rewrites_one_expectation_and_nothing_else(tmp_path):
    path = tmp_path / "family.ptir"
    cases = [
        golden.Case(path, "one", "P", SOURCE, SOURCE, settings="fastmath=true"),
        golden.Case(path, "not-two", "Q", SOURCE, SOURCE, compare="close", inputs="tame"),
    ]
    golden.write_cases(path, cases)
    assert golden.read_cases(path) == cases
    golden.bless(cases[0], DROPPED)
    one, two = golden.read_cases(path)
    assert (one.expected, one.settings, two) == (DROPPED, "fastmath=true", cases[1])
