from __future__ import annotations

import gc
import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from planish import dtypes
from planish.errors import PassError, PlanishError, RewriteError, VerifyError
from planish.ptir import Program, ops, text, trace
from planish.ptir.function import Function, Inst, Region
from planish.ptir.interpret import interpret
from planish.ptir.ops.definition import NoAttrs, OpKey, define
from planish.ptir.passes import (
    PASSES,
    CanonicalizePass,
    CSEPass,
    DCEPass,
    DumpDir,
    InlinePass,
    Pass,
    PassManager,
    PassResult,
    PrintChanged,
    SymbolDCEPass,
    Timing,
    VerifyEach,
    canonicalize,
    pass_text,
    register,
)
from planish.ptir.passes.inline import call_order
from planish.ptir.passes.manager import DEFAULT_CONTEXT, PassContext
from planish.ptir.rewrite.pattern import Pattern, PatternSet
from planish.ptir.rewrite.reproducer import read_reproducer
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.rewrite.steplog import StepLog
from planish.ptir.types import tensor
from tests.ptir.engine_helpers import I64, Counter, assert_valid, build, const, names
from tests.ptir.test_engine_function import small, with_region

# Pipeline text.


@pytest.mark.parametrize(
    "pipeline",
    [
        "",
        "cse",
        "canonicalize,cse,dce",
        "canonicalize{max-iterations=3},cse,dce",
        "canonicalize{constant-fold=false expensive-checks=true disable=A,B},symbol-dce{keep=f,g},inline{max-size=4}",
        "canonicalize{enable=A}",
    ],
)
def test_pipelines_parse_and_print(pipeline):
    assert str(PassManager.parse(pipeline)) == pipeline


def test_pipelines_are_read_leniently_and_printed_one_way():
    assert (
        str(PassManager.parse(" cse , canonicalize{ max-iterations=none   dce=true } ")) == "cse,canonicalize"
    )
    assert str(PassManager.parse("canonicalize{expensive-checks}")) == "canonicalize{expensive-checks=true}"


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("csee", "no pass 'csee'; did you mean cse"),
        ("canonicalize{max-iteration=3}", "no option 'max-iteration'; did you mean max-iterations"),
        ("canonicalize{max-iterations=three}", "cannot be 'three'; it takes an integer or none"),
        ("canonicalize{dce=1}", "cannot be '1'; it takes true or false"),
        ("cse{", "cannot read the pipeline"),
        ("cse,,dce", "cannot read the pipeline"),
        ("cse dce", "cannot read the pipeline"),
    ],
)
def test_bad_pipelines_say_what_is_wrong(pipeline, message):
    with pytest.raises(PassError, match=message):
        PassManager.parse(pipeline)


def test_pass_names_match_their_modules():
    for name, cls in PASSES.items():
        if cls.__module__.startswith("planish."):
            assert cls.__module__.rpartition(".")[2] == name.replace("-", "_")
            assert cls.__name__.endswith("Pass")
            assert isinstance(cls(), Pass)


def test_only_frozen_kebab_case_passes_register():
    class Loose:
        """Not a dataclass."""

        name: ClassVar[str] = "loose"

        def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
            return PassResult()

    with pytest.raises(PassError, match="not a frozen dataclass"):
        register(Loose)

    @dataclass(frozen=True)
    class Shout(Loose):
        """Bad name."""

        name: ClassVar[str] = "SHOUT"

    with pytest.raises(PassError, match="not kebab-case"):
        register(Shout)


# CSE.


def test_equal_computations_are_shared_and_the_first_stays():
    function = Function("f", [I64, I64])
    x, y = function.params
    body = function.body
    one = body.append(ops.add, (x, y))
    two = body.append(ops.add, (x, y))
    swapped = body.append(ops.add, (y, x))
    less, more = body.append(ops.sub, (x, y)), body.append(ops.sub, (y, x))
    body.set_results([one.result, two.result, swapped.result, less.result, more.result])
    result = CSEPass().run(Program([function]))
    assert result == PassResult(True, {"merged": 2}, ("f",))
    assert [v.def_inst for v in function.results] == [one, one, one, less, more]
    assert_valid(function)
    assert not CSEPass().run(Program([function])).changed


def test_sharing_cascades_in_one_run():
    function = Function("f", [I64])
    ends = []
    for _ in range(2):
        value = function.params[0]
        for _ in range(10):
            value = function.body.append(ops.neg, (value,)).result
        ends.append(value)
    function.body.set_results(ends)
    assert CSEPass().run(Program([function])).statistics == {"merged": 10}
    assert function.results[0] is function.results[1]


def test_attributes_and_constants_tell_apart():
    function = Function("f", [tensor("i64", (2, 2))])
    x = function.params[0]
    body = function.body
    flips = [body.append(ops.transpose, (x,), ops.TransposeAttrs(p)).result for p in ((1, 0), (0, 1), (1, 0))]
    numbers = [const(body, n) for n in (1, 2, 1)]
    zeros = [const(body, z, tensor("f32")) for z in (0.0, -0.0)]
    body.set_results([*flips, *numbers, *zeros])
    assert CSEPass().run(Program([function])).statistics == {"merged": 2}
    assert function.results[0] is function.results[2]
    assert function.results[3] is function.results[5]
    assert function.results[6] is not function.results[7]


def cond_program(first, second) -> Function:
    """Two conds with those bodies; each body gets a region and the outer parameters."""
    function = Function("f", [tensor("bool"), I64, I64])
    conds = []
    for fill in (first, second):
        regions = []
        for branch in (0, 1):
            region = Region(function)
            region.set_results([fill(region, function.params[1], function.params[2], branch)])
            regions.append(region)
        conds.append(function.body.append(ops.cond, function.params[:1], regions=regions))
    function.body.set_results([c.result for c in conds])
    return function


def add_in_first(region, x, y, branch):
    return region.append(ops.add if branch == 0 else ops.mul, (x, y)).result


def sub_in_first(region, x, y, branch):
    return region.append(ops.sub if branch == 0 else ops.mul, (x, y)).result


def test_regions_are_compared_by_what_they_compute():
    function = cond_program(add_in_first, add_in_first)
    assert CSEPass().run(Program([function])).statistics == {"merged": 1}
    assert function.results[0] is function.results[1]
    assert_valid(function)
    function = cond_program(add_in_first, sub_in_first)
    assert CSEPass().run(Program([function])).statistics == {"merged": 0}


def test_regions_see_outer_equals_but_not_those_of_siblings():
    function = cond_program(add_in_first, sub_in_first)
    first = next(iter(function))
    assert sum(1 for inst in function.walk() if inst.op is ops.mul) == 2
    rw_free = function.body.append(ops.mul, function.params[1:])
    function.body.set_results([*function.results, rw_free.result])
    assert CSEPass().run(Program([function])).statistics == {"merged": 0}
    outer = Function("g", [tensor("bool"), I64, I64])
    product = outer.body.append(ops.mul, outer.params[1:])
    regions = []
    for _ in range(2):
        region = Region(outer)
        region.set_results([region.append(ops.mul, outer.params[1:]).result])
        regions.append(region)
    chosen = outer.body.append(ops.cond, outer.params[:1], regions=regions)
    outer.body.set_results([product.result, chosen.result])
    assert CSEPass().run(Program([outer])).statistics == {"merged": 2}
    assert all(region.results == (product.result,) for region in regions)
    assert_valid(outer)
    assert first.parent is function.body


def test_impure_and_undetermined_ops_are_left_alone():
    def infer(types, attrs, regions):
        return (I64,)

    impure = define("test_impure", OpKey.OTHER, NoAttrs, arity=0, infer=infer, pure=False)
    dice = define("test_dice", OpKey.OTHER, NoAttrs, arity=0, infer=infer, deterministic=False)
    try:
        function = Function("f")
        values = [function.body.append(op).result for op in (impure, impure, dice, dice)]
        function.body.set_results(values[2:])
        program = Program([function])
        assert not CSEPass().run(program).changed
        assert not DCEPass().run(program).changed
        function.body.set_results([])
        assert DCEPass().run(program).statistics == {"erased": 2}
        assert names(function) == ["test_impure", "test_impure"]
    finally:
        del ops.REGISTRY["test_impure"], ops.REGISTRY["test_dice"]


def test_random_numbers_are_shared_only_for_equal_keys():
    key_type = tensor("u32", (2,))
    function = Function("f", [key_type, key_type])
    one, two = function.params
    attrs = ops.RngBitsAttrs(dtypes.uint32, (4,))
    drawn = [function.body.append(ops.rng_bits, (key,), attrs).result for key in (one, one, two)]
    function.body.set_results(drawn)
    assert CSEPass().run(Program([function])).statistics == {"merged": 1}


# DCE.


def test_unused_chains_go_in_one_walk():
    function = build("mixed", 240)
    unused_literals = sum(1 for inst in function if inst.op is ops.constant and inst.is_dead)
    result = DCEPass().run(Program([function]))
    assert result.statistics["erased"] == 240 // 12 + unused_literals
    assert_valid(function)
    assert not DCEPass().run(Program([function])).changed


def test_what_only_an_unused_region_uses_goes_too():
    function = with_region()
    function.body.set_results(function.params)
    assert DCEPass().run(Program([function])).statistics == {"erased": 3}
    assert len(function) == 0
    assert_valid(function)


def test_unused_code_inside_regions_goes():
    function = with_region()
    loop = function.body.last
    assert loop is not None
    body = loop.regions[1]
    extra = const(function.body, 9)
    extra_inst = extra.def_inst
    assert extra_inst is not None
    ProgramRewriter(function).move_before(extra_inst, loop)
    body.append(ops.mul, (body.args[0], extra))
    assert DCEPass().run(Program([function])).statistics == {"erased": 2}
    assert_valid(function)


# Inlining and symbols.


def calls(*graph: tuple[str, list[str]]) -> Program:
    """Functions of one i64 that negate and then call each of the given ones in turn."""
    functions = []
    for name, callees in graph:
        function = Function(name, [I64])
        value = function.body.append(ops.neg, function.params).result
        for callee in callees:
            value = function.body.append(ops.call, (value,), ops.CallAttrs(callee, (I64,))).result
        function.body.set_results([value])
        functions.append(function)
    return Program(functions)


def test_calls_become_bodies():
    program = calls(("main", ["a", "b"]), ("a", ["b"]), ("b", []))
    result = InlinePass().run(program)
    assert result.statistics == {"inlined": 3}
    assert names(program["main"]) == ["neg"] * 4
    assert names(program["a"]) == ["neg"] * 2
    for function in program:
        assert_valid(function)
        assert len({inst.id for inst in function.walk()}) == len(function)
    removed = SymbolDCEPass().run(program)
    assert removed.statistics == {"removed": 2}
    assert list(program.functions) == ["main"]


def test_cycles_of_calls_stay():
    program = calls(("main", ["a"]), ("a", ["b"]), ("b", ["a", "c"]), ("c", ["c"]), ("d", []))
    order, cyclic = call_order(program)
    assert cyclic == {("a", "b"), ("b", "a"), ("c", "c")}
    assert order.index("a") < order.index("main")
    InlinePass().run(program)
    assert "call" in names(program["main"])
    for function in program:
        assert_valid(function)
    SymbolDCEPass(keep=("d",)).run(program)
    assert "d" in program.functions
    SymbolDCEPass().run(program)
    assert "d" not in program.functions


def test_large_functions_called_often_stay_calls():
    program = calls(("main", ["big", "big", "once"]), ("big", []), ("once", []))
    result = InlinePass(max_size=0).run(program)
    assert result.statistics == {"inlined": 1}
    assert names(program["main"]) == ["neg", "call", "call", "neg"]


def test_regions_are_inlined_too():
    callee = with_region()
    callee.name = "loop"
    main = Function("main", [I64])
    call = main.body.append(ops.call, main.params, ops.CallAttrs("loop", (I64,)))
    main.body.set_results(call.results)
    program = Program([main, callee])
    counter = Counter()
    PassManager([InlinePass()], listener=counter, instruments=[VerifyEach()]).run(program)
    assert names(main) == ["constant", "constant", "while"]
    assert counter.counts["inserted"] == 5


# The manager.


def test_the_default_pipeline_reaches_a_fixpoint():
    program = Program([build("mixed", 240)])
    manager = PassManager.parse("canonicalize,cse,dce").watch(VerifyEach())
    first = manager.run(program)
    assert first.changed
    assert not manager.run(program).changed
    assert [run.text for run in first.runs] == ["canonicalize", "cse", "dce"]
    assert first.statistics()["cse.merged"] > 0
    assert first.seconds > 0
    assert "canonicalize: changed" in str(first)


def test_a_function_runs_as_a_program_of_its_own():
    function = build("mixed", 24)
    assert PassManager([DCEPass()]).run(function).changed


def test_the_collector_is_held_off_and_comes_back():
    @dataclass(frozen=True)
    class Look:
        """Looks at the collector."""

        name: ClassVar[str] = "look"

        def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
            seen.append(gc.isenabled())
            raise ValueError("stop")

    seen: list[bool] = []
    assert gc.isenabled()
    with pytest.raises(ValueError, match="stop") as caught:
        PassManager([Look()]).run(Program([small()]))
    assert seen == [False]
    assert gc.isenabled()
    assert "in pass 1 of the pipeline look" in caught.value.__notes__[0]
    gc.disable()
    try:
        PassManager([DCEPass()]).run(Program([small()]))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_dumps_are_numbered_and_written_on_change_only(tmp_path):
    program = Program([build("mixed", 48)])
    before = text.print(program)
    manager = PassManager.parse("dce,dce,cse,dce").watch(DumpDir(tmp_path))
    manager.run(program)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_input.ptir", "001_dce.ptir", "003_cse.ptir"]
    assert text.print(text.parse((tmp_path / "000_input.ptir").read_text())) == before
    assert text.print(text.parse((tmp_path / "003_cse.ptir").read_text())) == text.print(program)


def test_changes_are_printed_and_time_is_kept():
    program = Program([build("mixed", 48)])
    lines: list[str] = []
    timing = Timing()
    PassManager.parse("dce,dce").watch(PrintChanged(lines.append), timing).run(program)
    assert lines[0].startswith("// after dce")
    assert lines[1] == "// dce changed nothing"
    assert set(timing.seconds) == {"dce"}
    assert "total" in str(timing)


@dataclass(frozen=True)
class Break:
    """Breaks the first function behind the rewriter's back."""

    name: ClassVar[str] = "break"
    honest: bool = True

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        function = program.entry
        next(iter(function)).result.type = tensor("f64")
        return PassResult(True, {}, (function.name,))


def test_verification_names_the_pass():
    with pytest.raises(VerifyError, match="the output of break is invalid") as caught:
        PassManager([DCEPass(), Break()], instruments=[VerifyEach()]).run(Program([small()]))
    assert any("types:" in problem for problem in caught.value.problems)
    broken = small()
    next(iter(broken)).result.type = tensor("f64")
    with pytest.raises(VerifyError, match="the input is invalid"):
        PassManager([DCEPass()], instruments=[VerifyEach()]).run(Program([broken]))


@dataclass(frozen=True)
class Retype:
    """Gives the last function another signature, and tells the truth about what it changed."""

    name: ClassVar[str] = "retype"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        *_, name = program.functions
        other = Function(name, [tensor("f32")])
        other.body.set_results(other.params)
        program.functions[name] = other
        return PassResult(True, {}, (name,))


def test_calls_from_functions_that_did_not_change_are_verified_too():
    program = calls(("main", ["leaf"]), ("other", ["leaf"]), ("leaf", []))
    with pytest.raises(VerifyError, match="the output of retype is invalid") as caught:
        PassManager([Retype()], instruments=[VerifyEach()]).run(program)
    assert len([problem for problem in caught.value.problems if "calls:" in problem]) == 2


def test_expensive_checks_verify_calls(monkeypatch):
    class Redirect(Pattern[Inst]):
        """call @a -> call @nowhere: nonsense that only the program can see."""

        roots = (ops.call,)

        def match_and_rewrite(self, op: Inst, rw: ProgramRewriter) -> bool:
            if op.attrs == ops.CallAttrs("nowhere", (I64,)):
                return False
            rw.set_attrs(op, ops.CallAttrs("nowhere", (I64,)))
            return True

    patterns = PatternSet([Redirect]).freeze()
    monkeypatch.setattr(canonicalize, "canonicalization_patterns", lambda: patterns)
    with pytest.raises(VerifyError) as caught:
        CanonicalizePass(expensive_checks=True).run(calls(("main", ["a"]), ("a", [])))
    assert "no function @nowhere" in str(caught.value)
    CanonicalizePass(expensive_checks=False).run(calls(("main", ["a"]), ("a", [])))
    # A function alone may call what is not there.
    CanonicalizePass(expensive_checks=True).run(Program([calls(("main", ["a"]), ("a", [])).entry]))


def test_a_failing_pass_leaves_a_reproducer_of_what_it_was_given(tmp_path):
    @dataclass(frozen=True)
    class Fail:
        """Spoils the program, then fails."""

        name: ClassVar[str] = "fail"
        hard: bool = False

        def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
            DCEPass().run(program)
            raise RewriteError("no way")

    program = Program([build("mixed", 48)])
    manager = PassManager([CSEPass(), Fail(hard=True), DCEPass()], reproducer_dir=tmp_path)
    with pytest.raises(RewriteError) as caught:
        manager.run(program)
    [path] = tmp_path.iterdir()
    assert f"reproducer: {path}" in caught.value.__notes__
    found = read_reproducer(path.read_text())
    assert found.pipeline == "fail{hard=true},dce"
    again = text.parse(found.text)
    expected = Program([build("mixed", 48)])
    CSEPass().run(expected)
    assert text.print(again) == text.print(expected)


def test_listeners_hear_of_passes_changes():
    log = StepLog()
    counter = Counter()
    program = Program([build("mixed", 48)])
    PassManager.parse("canonicalize").run(program.clone())
    PassManager([CanonicalizePass()], listener=log).run(program.clone())
    assert log.steps
    result = PassManager([CSEPass(), DCEPass()], listener=counter).run(program)
    assert result.statistics()["cse.merged"] >= 4
    assert counter.counts["erased"] == result.statistics()["cse.merged"] + result.statistics()["dce.erased"]


def test_options_reach_the_driver():
    config = CanonicalizePass(max_iterations=3, constant_fold=False, dce=False, disable=("A",)).config()
    assert config.max_iterations == 3
    assert not config.enable_constant_fold
    assert not config.enable_dce
    assert config.disable == ("A",)
    assert pass_text(CanonicalizePass(max_rewrites=4)) == "canonicalize{max-rewrites=4}"


# Tracing.


class Sink:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []

    def before_run(self, context):
        self.events.append(("before", context.graph_id))

    def after_run(self, context, stats):
        self.events.append(("after", stats.error))

    def pass_event(self, event):
        self.events.append(("pass", event.text))


def test_sinks_nest_and_come_back():
    assert trace.current_sink() is None
    outer, inner = Sink(), Sink()
    with trace.install_global_sink(outer):
        guard = trace.install_global_sink(inner)
        assert trace.current_sink() is inner
        guard.close()
        guard.close()
        assert trace.current_sink() is outer
        PassManager.parse("cse,dce").run(Program([small()]))
        with trace.execution(Program([small()]), graph_id="g", backend="interpreter") as run:
            run.counters["kernels"] = 2
        with (
            pytest.raises(ZeroDivisionError),
            trace.execution(Program([small()]), graph_id="h", backend="interpreter"),
        ):
            raise ZeroDivisionError("x")
    assert trace.current_sink() is None
    assert outer.events == [
        ("pass", "cse"),
        ("pass", "dce"),
        ("before", "g"),
        ("after", None),
        ("before", "h"),
        ("after", "ZeroDivisionError: x"),
    ]
    assert inner.events == []
    with trace.execution(Program([small()]), graph_id="g", backend="none") as run:
        assert run.context is None


def test_the_interpreter_tells_of_its_runs():
    sink = Sink()
    function, same = small(), small()
    inputs = [np.array(3)] * len(function.params)
    interpret(function, inputs)
    with trace.install_global_sink(sink):
        interpret(function, inputs)
        interpret(Program([same]), inputs)
        with pytest.raises(PlanishError):
            interpret(function, [np.array(3.5)] * len(function.params))
    ids = [what for kind, what in sink.events if kind == "before"]
    assert [kind for kind, _ in sink.events] == ["before", "after"] * 3
    assert len(set(ids)) == 1
    assert str(sink.events[-1][1]).startswith("DTypeError")


def test_file_sinks_write_one_folder_per_execution(tmp_path):
    program = Program([small()])
    with trace.install_global_sink(trace.FileTraceSink(tmp_path)):
        PassManager.parse("canonicalize").run(program)
        for _ in range(2):
            with trace.execution(program, graph_id="g1", targets=[3], backend="interpreter") as run:
                run.counters["kernels"] = 1
    folders = sorted(p for p in tmp_path.iterdir() if p.is_dir())
    assert len(folders) == 2
    for folder in folders:
        assert folder.name.endswith("_run")
        assert {p.name for p in folder.iterdir()} == {
            "program.ptir",
            "program.json",
            "meta.json",
            "stats.json",
        }
        assert text.print(text.parse((folder / "program.ptir").read_text())) == text.print(program)
        meta = json.loads((folder / "meta.json").read_text())
        assert (meta["graph_id"], meta["targets"], meta["backend"]) == ("g1", [3], "interpreter")
        stats = json.loads((folder / "stats.json").read_text())
        assert stats["seconds"] >= 0
        assert stats["kernels"] == 1
    assert len((tmp_path / "executions.jsonl").read_text().splitlines()) == 2
    [event] = (tmp_path / "passes.jsonl").read_text().splitlines()
    assert json.loads(event)["text"] == "canonicalize"
