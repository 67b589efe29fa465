"""Every scalar law that PTIR has, one row at a time: it fires on its own left side, and keeps every bit."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from planish import dtypes
from planish.algebra.kinds import FLOAT, INTEGERS
from planish.algebra.law import Apply, Expression, Law, Letter, Number, law
from planish.algebra.scalar import LAWS
from planish.dtypes import DType
from planish.errors import PlanishError
from planish.ptir import Program, ops, parse
from planish.ptir.function import Function, Value
from planish.ptir.ops import numerics
from planish.ptir.ops.literal import Literal
from planish.ptir.rewrite import GreedyConfig, PatternSet, apply_patterns_and_fold_greedily
from planish.ptir.rules.lawful import named_ops, pattern_of
from planish.ptir.rules.numbers import all_ones, top_bit
from planish.ptir.types import TensorType
from tests.ptir import golden_cases as golden
from tests.ptir.ops_testing import same, samples

SIZE = 64
SHOWN = (dtypes.int8, dtypes.uint8, dtypes.bool_, dtypes.float32, dtypes.float16, dtypes.complex64)
CERTAIN = {"ones": all_ones, "top": top_bit, "lowest": numerics.lowest, "highest": numerics.highest}
LITTLE = (0, 1, -1, 2, 3, 4, 6, 7, 8, 12, -5)
ROWS = [each for each in LAWS if each.pattern is not None]


class Instance:
    """The left side of a law as a function of its letters, with constants drawn."""

    def __init__(self, of: Law, dtype: DType, rng: np.random.Generator) -> None:
        self.dtype, self.rng = dtype, rng
        self.types: dict[str, DType] = {}
        self._note(of.left, dtype)
        self.function = Function("f", [TensorType(each, (SIZE,)) for each in self.types.values()])
        self.values: dict[Expression, Value] = dict(
            zip(map(Letter, self.types), self.function.params, strict=True)
        )
        self.function.body.set_results([self._value(of.left)])

    def _note(self, expression: Expression, dtype: DType) -> None:
        """The dtypes of the letters: of `complex` they are the parts', bools are bools."""
        if isinstance(expression, Apply):
            for part in expression.of:
                joined = expression.op == "complex" and isinstance(part, Letter)
                self._note(part, dtypes.float32 if joined and dtype.is_complex else dtype)
        elif isinstance(expression, Letter) and not expression.is_constant:
            self.types.setdefault(expression.name, dtypes.bool_ if expression.name in "pq" else dtype)

    def _value(self, expression: Expression) -> Value:
        if isinstance(expression, Apply):
            known = [self._value(part) for part in expression.of]
            return self.function.body.append(named_ops((expression.op,))[0], known).result
        if expression not in self.values:
            number = expression.value if isinstance(expression, Number) else self._drawn(expression)
            dtype = dtypes.bool_ if isinstance(number, bool) else self.dtype
            literal = Literal.full(dtype, (SIZE,), number)
            constant = self.function.body.append(ops.constant, (), ops.ConstantAttrs(literal, None))
            self.values[expression] = constant.result
        return self.values[expression]

    def _drawn(self, letter: Expression) -> bool | int | float | complex:
        assert isinstance(letter, Letter)
        if letter.is_named:
            return CERTAIN[letter.name](self.dtype)
        if self.dtype.is_int:
            return self.dtype.wrap(int(self.rng.choice(LITTLE)))
        drawn = self.rng.choice([0.0, 1.0, 3.0] if self.dtype.is_bool else [0.0, -0.0, 1.5, -2.0, np.inf])
        return bool(drawn) if self.dtype.is_bool else float(drawn)

    def inputs(self) -> list[np.ndarray]:
        return [self.rng.choice(samples(each), SIZE).astype(each.numpy) for each in self.types.values()]


def fires_and_keeps(row: Law, attempts: int) -> int:
    """How often a law fired; every time, the bits must be those of before."""
    pattern, fired = pattern_of("Row", [row]), 0
    rng = np.random.default_rng(zlib.crc32(row.says.encode()))
    for dtype in [each for each in SHOWN if row.on is None or each.kind in row.on]:
        for _ in range(attempts):
            try:
                instance = Instance(row, dtype, rng)
            except PlanishError:
                break  # the ops do not have this dtype
            before = Program([instance.function])
            after = before.clone()
            stats = apply_patterns_and_fold_greedily(
                after.entry, PatternSet([pattern]), GreedyConfig(enable_constant_fold=False, max_rewrites=1)
            )
            if stats.rewrites:
                fired += 1
                inputs = instance.inputs()
                wanted, given = golden.run(before, inputs), golden.run(after, inputs)
                assert same(wanted[0], given[0]), f"{row.says} of {dtype}:\n{golden.show(before)}"
    return fired


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.pattern}: {row.says}")
def test_law(row: Law):
    assert fires_and_keeps(row, 60 if row.when else 3)


@pytest.mark.fuzz
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.pattern}: {row.says}")
def test_law_at_length(row: Law):
    assert fires_and_keeps(row, 200)


@pytest.mark.parametrize(
    "wrong",
    [
        law("x - x -> 0", FLOAT),
        law("x + 0 -> x", FLOAT),
        law("x - y -> y - x", INTEGERS),
        law("abs(-x) -> abs(x)", INTEGERS),
        law(
            "truncdiv(truncdiv(x, a), b) -> truncdiv(x, a * b) when nothing",
            INTEGERS,
            when=lambda a, b: a and b,
        ),
        law("max(min(x, a), b) -> min(max(x, b), a) when nothing", FLOAT, when=lambda a, b: True),
    ],
    ids=lambda row: row.says,
)
def test_a_wrong_law_is_found(wrong: Law):
    with pytest.raises(AssertionError):
        fires_and_keeps(wrong, 60)


def test_a_law_is_compiled_when_it_is_first_tried():
    def tried(text: str) -> bool:
        pattern = pattern_of("Row", [law("x - (x & y) -> x & ~y", INTEGERS, "Row")])
        one = "tensor<i32, 4>"
        body = "".join(f"  {line} : {one}\n" for line in text.splitlines())
        function = parse(f"ptir 1\nfunc @f(%a: {one}, %b: {one}) -> {one} {{\n{body}  return %0\n}}\n").entry
        apply_patterns_and_fold_greedily(function, PatternSet([pattern]))
        return "match_and_rewrite" in vars(pattern)

    assert not tried("%0 = sub %a, %b")  # a difference, but of nothing that the law speaks of
    assert tried("%c = and %a, %b\n%0 = sub %a, %c")
