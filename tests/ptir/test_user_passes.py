"""Passes, patterns and cost models of the user's own: in a pass, in a pipeline's text, and to a joint fixpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from planish import ptir
from planish.config import settings
from planish.errors import PassError, RewriteError
from planish.ptir import ops
from planish.ptir.passes import COST_MODELS, PASSES, PATTERNS, PassContext, Passes, register
from planish.ptir.passes.definition import DEFAULT_CONTEXT
from tests.ptir.generate import random_program


class ExpToTanh(ptir.Pattern[ptir.Inst]):
    """exp(x) -> tanh(x), which no pattern that ships would do."""

    roots = (ops.exp,)

    def match_and_rewrite(self, op: ptir.Inst, rw: ptir.ProgramRewriter) -> bool:
        rw.replace_with(op, ops.tanh, op.operands)
        return True


class ExpToSin(ExpToTanh):
    """exp(x) -> sin(x)."""

    def match_and_rewrite(self, op: ptir.Inst, rw: ptir.ProgramRewriter) -> bool:
        rw.replace_with(op, ops.sin, op.operands)
        return True


@dataclass(frozen=True)
class Nothing:
    """Does nothing, and counts how often."""

    name: ClassVar[str] = "nothing-at-all"
    ran: ClassVar[list[str]] = []
    word: str = "done"

    def run(self, program: ptir.Program, context: PassContext = DEFAULT_CONTEXT) -> ptir.PassResult:
        self.ran.append(self.word)
        return ptir.PassResult()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    tables: list[dict[str, Any]] = [PASSES, PATTERNS, COST_MODELS]
    before = [dict(table) for table in tables]
    yield
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)
    Nothing.ran.clear()


def one_exp() -> ptir.Program:
    g = ptir.Graph("f")
    return ptir.Program([g.build(g.input("x", ptir.tensor("f32", (4,))).exp().neg().neg())])


def names(program: ptir.Program) -> list[str]:
    return [inst.op.name for inst in program.entry]


# Canonicalisation with other patterns.


@pytest.mark.parametrize(
    "patterns", [(ExpToTanh,), (ExpToTanh(),), [ExpToTanh], ptir.PatternSet([ExpToTanh]), ptir.PatternSet([ExpToTanh]).freeze()]
)  # fmt: skip
def test_a_pass_rewrites_with_the_patterns_it_is_given_alone(patterns):
    program = one_exp()
    ptir.CanonicalizePass(patterns=patterns).run(program)
    assert names(program) == ["tanh", "neg", "neg"]


def test_patterns_may_come_beside_those_that_ship():
    program = one_exp()
    result = ptir.CanonicalizePass(extra_patterns=(ExpToTanh,)).run(program)
    assert names(program) == ["tanh"]
    assert result.statistics["pattern.ExpToTanh.hits"] == 1


def test_registered_patterns_are_known_to_pipelines_by_name():
    with pytest.raises(RewriteError, match="no pattern 'ExpToTanh'"):
        ptir.PassManager.parse("canonicalize{extra-patterns=ExpToTanh}").run(one_exp())
    assert ptir.register_pattern(ExpToTanh) is ExpToTanh
    for pipeline, left in (
        ("canonicalize{extra-patterns=ExpToTanh}", ["tanh"]),
        ("canonicalize{patterns=ExpToTanh}", ["tanh", "neg", "neg"]),
        ("canonicalize", ["exp"]),  # known is not used: nothing changes behind anybody's back
    ):
        program = one_exp()
        manager = ptir.PassManager.parse(pipeline)
        manager.run(program)
        assert names(program) == left
        assert str(manager) == pipeline


def test_a_pass_made_of_objects_prints_the_names_of_its_patterns():
    step = ptir.CanonicalizePass(extra_patterns=[ExpToTanh, ExpToSin()], cost_model=_prefer_sin)
    assert (
        str(ptir.PassManager([step]))
        == "canonicalize{extra-patterns=ExpToTanh,ExpToSin cost-model=_prefer_sin}"
    )


def _prefer_sin(inst: ptir.Inst, pattern: object, rw: ptir.ProgramRewriter) -> int:
    return 2 if isinstance(pattern, ExpToSin) else 1


def test_a_cost_model_decides_which_pattern_is_tried_first():
    both = (ExpToTanh, ExpToSin)
    for model, left in ((None, "tanh"), (_prefer_sin, "sin")):
        program = one_exp()
        ptir.CanonicalizePass(patterns=both, cost_model=model).run(program)
        assert names(program)[0] == left
    ptir.register_cost_model(_prefer_sin)
    for pattern in both:
        ptir.register_pattern(pattern)
    program = one_exp()
    ptir.PassManager.parse("canonicalize{patterns=ExpToTanh,ExpToSin cost-model=_prefer_sin}").run(program)
    assert names(program)[0] == "sin"
    with pytest.raises(RewriteError, match="no cost model 'other'; valid: _prefer_sin"):
        ptir.PassManager.parse("canonicalize{cost-model=other}").run(one_exp())


def test_what_is_no_pattern_is_refused():
    with pytest.raises(RewriteError, match="is no pattern; give a pattern, its class or its name"):
        ptir.CanonicalizePass(patterns=(int,)).run(one_exp())  # type: ignore[arg-type]
    with pytest.raises(RewriteError, match="has no root ops"):
        ptir.register_pattern(ptir.Pattern)


# A pattern says what it did.


@pytest.mark.parametrize(
    ("said", "changes", "message"),
    [
        (None, True, "returned None and changed the function"),
        (None, False, "returned None and changed nothing"),
        (1, True, "returned 1 and changed the function"),
        (True, False, "returned True but changed nothing"),
        (False, True, "returned False but changed the function"),
    ],
)
def test_a_pattern_that_does_not_say_what_it_did_is_an_error(said, changes, message):
    class Odd(ptir.Pattern[ptir.Inst]):
        """Says one thing and does another."""

        roots = (ops.exp,)

        def match_and_rewrite(self, op, rw):
            if changes:
                rw.replace_with(op, ops.tanh, op.operands)
            return said

    with settings(check="none"), pytest.raises(RewriteError, match=message) as caught:
        ptir.CanonicalizePass(patterns=(Odd,)).run(one_exp())
    assert caught.value.remedy is not None
    assert "return True after a rewrite" in caught.value.remedy


# Pipelines from text, from passes, from both.


def test_pipelines_are_made_of_text_passes_and_both():
    register(Nothing)
    pipelines: list[tuple[Passes, str]] = [
        ("cse,nothing-at-all", "cse,nothing-at-all"),
        (Nothing("a"), "nothing-at-all{word=a}"),
        (["cse,dce", Nothing("a")], "cse,dce,nothing-at-all{word=a}"),
        (ptir.PassManager.parse("dce"), "dce"),
    ]
    for given, text in pipelines:
        assert str(ptir.PassManager.of(given)) == text
    with pytest.raises(PassError, match=r"is no pass; write Nothing\(\)"):
        ptir.PassManager.of([Nothing])  # type: ignore[list-item]
    assert ptir.PassManager.of("canonicalize,cse").ships
    assert not ptir.PassManager.of(["cse", Nothing()]).ships
    assert not ptir.PassManager.of(ptir.CanonicalizePass(extra_patterns=(ExpToTanh,))).ships
    assert not ptir.PassManager.of(ptir.FixpointPass((Nothing(),))).ships


def test_a_pass_that_returns_nothing_is_an_error():
    @dataclass(frozen=True)
    class Silent(Nothing):
        """Forgets to say what it did."""

        name: ClassVar[str] = "silent"

        def run(self, program, context=DEFAULT_CONTEXT):
            return None

    with pytest.raises(PassError, match="pass silent returned None; return a PassResult"):
        ptir.PassManager([Silent()]).run(one_exp())


def test_a_name_is_taken_once_but_a_class_may_be_defined_again():
    register(Nothing)
    register(Nothing)

    @dataclass(frozen=True)
    class Other(Nothing):
        """Another pass of that name."""

    with pytest.raises(PassError, match=r"there is a pass 'nothing-at-all' already: .*Nothing"):
        register(Other)


# Fixpoints.


def test_one_pass_leaves_work_for_another_until_both_are_done():
    program = ptir.parse("""ptir 1
func @f(%x: tensor<i64, 4>, %y: tensor<i64, 4>) -> tensor<i64, 4> {
  %0 = floor_mod %x, %y
  %1 = floor_mod %x, %y
  %2 = sub %0, %1
  %3 = add %2, %x
  return %3
}
""")
    once = program.clone()
    ptir.PassManager.parse("canonicalize,cse,dce").run(once)
    assert names(once) == ["floor_mod", "sub", "add"]
    result = ptir.PassManager.parse(ptir.DEFAULT_PIPELINE).run(program)
    assert names(program) == []
    assert [run.text for run in result.runs] == ["canonicalize", "cse", "canonicalize", "cse", "dce"]


def test_a_settled_pass_is_not_asked_again():
    result = ptir.PassManager.parse(ptir.DEFAULT_PIPELINE).run(one_exp())
    assert [(run.text, run.result.changed) for run in result.runs] == [
        ("canonicalize", True), ("cse", False), ("dce", False),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(200, 260))
def test_nothing_is_left_to_do_after_a_joint_fixpoint(seed: int):
    program = random_program(seed, size=25)
    ptir.PassManager.parse(ptir.DEFAULT_PIPELINE).run(program)
    assert not ptir.PassManager.parse("canonicalize,cse,dce").run(program).changed


@dataclass(frozen=True)
class Flip:
    """exp -> tanh, or tanh -> exp: it never ends."""

    name: ClassVar[str] = "flip"

    def run(self, program: ptir.Program, context: PassContext = DEFAULT_CONTEXT) -> ptir.PassResult:
        inst = next(iter(program.entry))
        inst.op = ops.tanh if inst.op is ops.exp else ops.exp
        return ptir.PassResult(changed=True)


def test_passes_that_undo_each_other_end_and_are_told_of_where_checks_are_on():
    pipeline = ptir.PassManager([ptir.FixpointPass((Flip(), Nothing()), max_rounds=3)])
    assert str(pipeline) == "fixpoint{max-rounds=3}(flip,nothing-at-all)"
    with settings(check="none"):
        assert len(pipeline.run(one_exp()).runs) == 6
    with (
        settings(check="expensive"),
        pytest.raises(PassError, match=r"flip, nothing-at-all still change .* 3 rounds"),
    ):
        pipeline.run(one_exp())


@pytest.mark.parametrize(
    "pipeline",
    ["fixpoint(canonicalize,cse),dce", "inline,fixpoint(fixpoint(cse,dce),canonicalize{max-iterations=2})", "fixpoint{max-rounds=4}(cse)"],
)  # fmt: skip
def test_fixpoints_parse_and_print(pipeline: str):
    manager = ptir.PassManager.parse(pipeline)
    assert str(manager) == pipeline
    manager.run(one_exp())


@pytest.mark.parametrize(
    "pipeline", ["fixpoint(cse", "fixpoint(cse))", "cse(dce)", "fixpoint()", "fixpoint(cse,)", "(cse)"]
)
def test_bad_fixpoints_say_where(pipeline: str):
    with pytest.raises(PassError, match=r"cannot read the pipeline .* at column \d+"):
        ptir.PassManager.parse(pipeline)


def test_a_fixpoint_runs_by_itself_and_adds_up_its_counters():
    program = one_exp()
    result = ptir.FixpointPass((ptir.CanonicalizePass(), ptir.CSEPass())).run(program)
    assert (result.changed, result.settled, result.functions) == (True, True, ("f",))
    assert result.statistics["canonicalize.rewrites"] == 1
    assert result.statistics["cse.merged"] == 0


def test_a_reproducer_of_a_pass_in_a_fixpoint_repeats_the_rest(tmp_path):
    @dataclass(frozen=True)
    class Fails(Nothing):
        """Fails the second time."""

        name: ClassVar[str] = "fails"

        def run(self, program, context=DEFAULT_CONTEXT):
            raise ValueError("no")

    manager = ptir.PassManager(
        [ptir.FixpointPass((ptir.CSEPass(), Fails())), ptir.DCEPass()], reproducer_dir=tmp_path
    )
    with pytest.raises(ValueError, match="no"):
        manager.run(one_exp())
    (file,) = tmp_path.iterdir()
    assert "// run: fails,fixpoint(cse,fails),dce\n" in file.read_text()
