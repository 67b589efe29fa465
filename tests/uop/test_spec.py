"""The laws of each phase: every one holds on a good graph, is broken by a bad one, and says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from planish import dtypes
from planish.errors import GraphError, VerifyError
from planish.uop import Matcher, Ops, Table, anything, parse, parse_lines, print_graph, rewrite, rule, spec
from planish.uop.spec import LINEAR_LAWS, PHASES, BrokenLaw, check, problems
from tests.uop.graphs import chain

# -- good graphs, one per phase --------------------------------------------------------------------------------

TENSOR = """uop 1
%0 = buffer slot=0 : f32
%1 = buffer slot=1 : f32
%2 = permute %1 order=(1, 0) : f32
%3 = reduce_axis %2 op=add axes=(0,) : f32
%4 = store %0, %3
%5 = sink %4
"""
KERNEL = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = range 8 axis=i:L : index
%2 = index %0, %1 : f32
%3 = define_global slot=1 : *f32[64]
%4 = reshape %3 shape=(8, 8) : *f32[64]
%5 = range 8 axis=j:R : index
%6 = cmplt %5, 7 : bool
%7 = where %6, %5, invalid : index
%8 = index %4, %1, %7 : f32
%9 = reduce %8, %5 op=add : f32
%10 = store %2, %9
%11 = end %10, %1
%12 = sink %11
"""
EXPANDED = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = range 8 axis=i:g : index
%2 = index %0, %1 : f32
%3 = define_global slot=1 : *f32[64]
%4 = range 2 axis=j:R : index
%5 = mul %1, 8 : index
%6 = mul %4, 4 : index
%7 = add %5, %6 : index
%8 = vectorize %7, %7, %7, %7 : indexx4
%9 = vconst [0, 1, 2, 3] : indexx4
%10 = add %8, %9 : indexx4
%11 = index %3, %10 : f32x4
%12 = reduce %11, %4 op=add : f32
%13 = store %2, %12
%14 = end %13, %1
%15 = sink %14
"""
UNROLLED = """uop 1
%0 = define_global slot=0 : *f32[32]
%1 = range 8 axis=i:L : index
%2 = mul %1, 4 : index
%3 = vectorize %2, %2, %2, %2 : indexx4
%4 = vconst [0, 1, 2, 3] : indexx4
%5 = add %3, %4 : indexx4
%6 = index %0, %5 : f32x4
%7 = define_global slot=1 : *f32[32]
%8 = range 8 axis=j:L : index
%9 = mul %8, 4 : index
%10 = vectorize %9, %9, %9, %9 : indexx4
%11 = add %10, %4 : indexx4
%12 = index %7, %11 : f32x4
%13 = bufferize %12, %11 space=local removable=true : f32x4
%14 = index %13, %5 : f32x4
%15 = store %6, %14
%16 = end %15, %1
%17 = sink %16
"""
REDUCED = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = special 8 name=gidx0 : index
%2 = index %0, %1 : f32
%3 = define_reg slot=0 : *reg f32[1]
%4 = index %3, 0 : f32
%5 = store %4, 0.0:f32
%6 = range 8 axis=j:R : index
%7 = after %3, %5, %6 : *reg f32[1]
%8 = index %7, 0 : f32
%9 = define_global slot=1 : *f32[64]
%10 = mul %1, 8 : index
%11 = add %10, %6 : index
%12 = index %9, %11 : f32
%13 = add %8, %12 : f32
%14 = store %8, %13
%15 = end %14, %6
%16 = after %3, %15 : *reg f32[1]
%17 = index %16, 0 : f32
%18 = store %2, %17
%19 = sink %18
"""
DEVECTORIZED = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = special 8 name=gidx0 : index
%2 = index %0, %1 : *f32[64]
%3 = define_reg slot=0 : *reg f32[1]
%4 = after %3, %1 : *reg f32[1]
%5 = index %4, 0 : *reg f32[1]
%6 = store %5, 0.0:f32
%7 = range 8 axis=j:R : index
%8 = after %3, %6, %7 : *reg f32[1]
%9 = index %8, 0 : *reg f32[1]
%10 = load %9 : f32
%11 = define_global slot=1 : *f32[64]
%12 = mul %1, 8 : index
%13 = add %12, %7 : index
%14 = index %11, %13 : *f32[64]
%15 = load %14 : f32
%16 = add %10, %15 : f32
%17 = store %9, %16
%25 = prefetch %14 locality=3
%26 = group %17, %25
%18 = end %26, %7
%19 = after %3, %18 : *reg f32[1]
%20 = index %19, 0 : *reg f32[1]
%21 = load %20 : f32
%22 = store %2, %21
%23 = sink %22
"""
LOWERED = (
    DEVECTORIZED.replace(": index", ": i32")
    .replace(", 0 :", ", 0:i32 :")
    .replace("%14 = index %11, %13", "%24 = cast %13 : i64\n%14 = index %11, %24")
)
PROGRAM = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = define_local slot=0 : *local f32[8]
%2 = const 8 : i32
%3 = special %2 name=lidx0 : i32
%4 = index %1, %3 : *local f32[8]
%5 = range %2 axis=i:L : i32
%6 = index %0, %5 : *f32[64]
%7 = load %6 : f32
%8 = store %4, %7
%9 = barrier %8
%10 = after %1, %9 : *local f32[8]
%11 = index %10, %5 : *local f32[8]
%12 = load %11 : f32
%13 = cmplt %3, %2 : bool
%14 = if %13
%15 = index %0, %3 : *f32[64]
%16 = store %15, %12
%17 = endif %14
%18 = barrier %16
%19 = end %18, %5
%20 = sink %19
"""
CACHED = """uop 1
%0 = define_global slot=0 : *f32[64]
%1 = define_var name=n bounds=1..8 : index
%2 = range %1 axis=i:L : index
%3 = index %0, %2 : f32
%4 = define_global slot=1 : *f32[8]
%5 = range 8 axis=j:L : index
%10 = after %4, %2 : *f32[8]
%6 = index %10, %5 : f32
%7 = scan %6, %5 op=max : f32
%8 = bufferize %7, %5 space=local removable=false : *local f32[8]
%9 = index %8, %2 : f32
%11 = store %3, %9
%12 = group %11
%13 = end %12, %2
%14 = sink %13
"""
GOOD = {
    "tensor": TENSOR,
    "kernel": KERNEL,
    "unrolled": UNROLLED,
    "expanded": EXPANDED,
    "reduced": REDUCED,
    "devectorized": DEVECTORIZED,
    "lowered": LOWERED,
    "program": PROGRAM,
}


def broken(text: str, phase: str) -> list[BrokenLaw]:
    t = Table()
    return problems(parse_lines(text, t) if phase == "program" else parse(text, t), phase)


@pytest.mark.parametrize("phase", PHASES)
def test_a_good_graph_is_legal(phase):
    assert broken(GOOD[phase], phase) == []


def test_phases_are_told_apart():
    graphs = [phase for phase in PHASES if phase != "program"]
    legal = {phase: {other for other in graphs if not broken(GOOD[phase], other)} for phase in graphs}
    assert legal == {
        "tensor": {"tensor"},
        "kernel": {"kernel"},
        "unrolled": {"kernel", "unrolled"},  # its lanes are legal before they are required
        "expanded": {"kernel", "unrolled", "expanded"},
        "reduced": {"reduced"},
        "devectorized": {"devectorized"},
        "lowered": {"devectorized", "lowered"},  # machine integers are legal before they are required
    }


# -- every law, broken once ------------------------------------------------------------------------------------

HEAD = "uop 1\n%0 = define_global slot=0 : *f32[64]\n%1 = range 8 axis=i:L : index\n%2 = index %0, %1 : f32\n"
LOW = "uop 1\n%0 = define_global slot=0 : *f32[64]\n%1 = special 8:i32 name=gidx0 : i32\n%2 = index %0, %1 : *f32[64]\n"

BAD: dict[str, tuple[str, str]] = {
    "an arithmetic op works on values, not on places or effects": (
        "kernel",
        "uop 1\n%0 = define_global slot=0 : *f32[64]\n%1 = add %0, %0 : *f32[64]\n",
    ),
    "one name, one variable": (
        "kernel",
        ("uop 1\n%0 = define_var name=n bounds=0..3 : index\n%1 = define_var name=n bounds=0..4 : index\n"
        "%2 = add %0, %1 : index\n"),
    ),
    "AND, OR and XOR combine integers and bools, not floats": (
        "kernel",
        HEAD + "%3 = reduce %2, %1 op=and : f32\n",
    ),
    "a tensor is stored to memory: a BUFFER, or a CONTIGUOUS": (
        "tensor",
        "uop 1\n%0 = buffer slot=0 : f32\n%1 = neg %0 : f32\n%2 = store %1, %0\n%3 = sink %2\n",
    ),
    "one axis, one RANGE": (
        "lowered",
        # the same loop counted in two widths: a register of two types in generated code
        LOW + "%3 = range 8:i32 axis=i:L : i32\n%4 = range 8:i64 axis=i:L : i64\n%5 = store %2, 1.0:f32\n"
        "%6 = end %5, %3\n%7 = end %5, %4\n%8 = sink %6, %7\n",
    ),
    "one RANGE, one END": (
        "reduced",
        HEAD + "%3 = store %2, 1.0:f32\n%4 = store %2, 2.0:f32\n%5 = end %3, %1\n%6 = end %4, %1\n%7 = sink %5, %6\n",
    ),
    "END and REDUCE close RANGEs": (
        "kernel",
        HEAD + "%3 = store %2, 1.0:f32\n%4 = mul %1, 2 : index\n%5 = end %3, %4\n%6 = sink %5\n",
    ),
    "BUFFERIZE stores at indices, whose ranges it closes": (
        "kernel",
        HEAD + "%3 = cast %1 : f32\n%4 = bufferize %2, %3 space=local removable=true : *f32[8]\n",
    ),
    "a REDUCE closes a range or takes lanes together": ("kernel", HEAD + "%3 = reduce %2 op=add : f32\n"),
    "a SCAN runs along a RANGE, or along one value": (
        "kernel",
        HEAD + "%3 = mul %1, 2 : index\n%4 = scan %2, %3 op=add : f32\n",
    ),
    "the SINK leaves no range open": ("kernel", HEAD + "%3 = store %2, 1.0:f32\n%4 = sink %3\n"),
    "AFTER waits for effects or ranges": ("kernel", HEAD + "%3 = after %0, %2 : *f32[64]\n"),
    "SINK, GROUP and BARRIER bundle effects": ("kernel", HEAD + "%3 = group %2\n"),
    "the body of an END is an effect": ("kernel", HEAD + "%3 = end %2, %1 : f32\n"),
    "INVALID is an index: it ends at an INDEX": (
        "kernel",
        HEAD + "%3 = cmplt %1, 4 : bool\n%4 = where %3, %1, invalid : index\n%5 = mul %4, 2 : index\n"
        "%6 = cast %5 : f32\n%7 = store %2, %6\n%8 = end %7, %1\n%9 = sink %8\n",
    ),
    "a STORE writes to a place": ("kernel", HEAD + "%3 = store %0, %2\n%4 = end %3, %1\n%5 = sink %4\n"),
    "a STORE writes the element type of its place": (
        "kernel",
        HEAD + "%3 = store %2, 1:i32\n%4 = end %3, %1\n%5 = sink %4\n",
    ),
    "the gate of a STORE is bool": (
        "kernel",
        HEAD + "%3 = store %2, 1.0:f32, %1\n%4 = end %3, %1\n%5 = sink %4\n",
    ),
    "a movement op is seen through INDEX only": (
        "kernel",
        HEAD + "%3 = expand %2 shape=(8,) : f32\n%4 = neg %3 : f32\n",
    ),
    "INDEX addresses memory: a DEFINE, possibly AFTER effects": (
        "expanded",
        HEAD + "%3 = neg %2 : f32\n%4 = index %3, %1 : f32\n",
    ),
    "UPCAST and UNROLL ranges have become lanes": ("expanded", HEAD.replace("axis=i:L", "axis=i:u")),
    "a GROUP_REDUCE range is finished through LOCAL memory, not by a REDUCE": (
        "expanded",
        HEAD.replace("axis=i:L", "axis=i:G") + "%3 = reduce %2, %1 op=add : f32\n",
    ),
    "INDEX is a place; a LOAD makes it a value": ("devectorized", HEAD),
    "a LOAD gives the element type of its place": ("lowered", LOW + "%3 = load %2 : i32\n"),
    "a PREFETCH names one place": ("lowered", LOW + "%3 = load %2 : f32\n%4 = prefetch %3 locality=0\n"),
    "LOCAL memory and registers are read AFTER what fills them": (
        "lowered",
        "uop 1\n%0 = define_reg slot=0 : *reg f32[1]\n%1 = index %0, 0:i32 : *reg f32[1]\n%2 = load %1 : f32\n",
    ),
    "a RANGE is a loop; other axes have become SPECIAL or lanes": (
        "lowered",
        "uop 1\n%0 = range 8 axis=i:g : i32\n",
    ),
    "one name, one SPECIAL": (
        "lowered",
        LOW + "%3 = special 9:i32 name=gidx0 : i32\n%4 = index %0, %3 : *f32[64]\n%5 = load %4 : f32\n%6 = store %2, %5\n",
    ),
    "LOCAL memory that threads share is read AFTER a BARRIER": (
        "lowered",
        ("uop 1\n%0 = define_local slot=0 : *local f32[8]\n%1 = special 8:i32 name=lidx0 : i32\n"
        "%2 = index %0, %1 : *local f32[8]\n%3 = store %2, 1.0:f32\n%4 = group %3\n%5 = after %0, %4 : *local f32[8]\n"
        "%6 = index %5, 0:i32 : *local f32[8]\n%7 = load %6 : f32\n"),
    ),
    "no dtype index is left after lowering": ("lowered", LOW + "%3 = index %0, 0 : *f32[64]\n%4 = vectorize %2, %3 : *f32[64]x2\n"),
    "no cast to or from index is left hanging": (
        "lowered",
        LOW + "%3 = cast %1 : index\n%4 = index %0, %3 : *f32[64]\n%5 = load %4 : f32\n%6 = store %2, %5\n",
    ),
    "the indices of an INDEX are all i32 or all i64": (
        "lowered",
        LOW + "%3 = cast %1 : i64\n%4 = index %0, %1, %3 : *f32[64]\n%5 = load %4 : f32\n%6 = store %2, %5\n",
    ),
    "every loop has its END": ("program", PROGRAM.replace("%19 = end %18, %5\n%20 = sink %19", "%20 = sink %18")),
    "an END closes one range": (
        "program",
        PROGRAM.replace("%19 = end %18, %5\n", "%19 = range %2 axis=j:L : i32\n%21 = end %18, %5, %19\n").replace(
            "sink %19", "sink %21"
        ),
    ),
    "the condition of an IF is bool": ("program", PROGRAM.replace("if %13", "if %3")),
    "an ENDIF closes an IF": ("program", PROGRAM.replace("endif %14", "endif %16")),
    LINEAR_LAWS["twice"]: ("program", PROGRAM.replace("%20 = sink", "%30 = const 8 : i32\n%20 = sink")),
    LINEAR_LAWS["scope"]: ("program", PROGRAM.replace("%20 = sink", "%30 = neg %7 : f32\n%20 = sink")),
    LINEAR_LAWS["nesting"]: (
        "program",
        PROGRAM.replace("%17 = endif %14\n%18 = barrier %16\n%19 = end %18, %5\n", "%18 = group %16\n%19 = end %18, %5\n%17 = endif %14\n"),
    ),
    LINEAR_LAWS["open"]: ("program", PROGRAM.replace("%17 = endif %14\n", "")),
    LINEAR_LAWS["barrier"]: ("program", PROGRAM.replace("%17 = endif %14\n%18 = barrier %16\n", "%18 = barrier %16\n%17 = endif %14\n")),
    LINEAR_LAWS["loop"]: ("program", PROGRAM.replace("%18 = barrier %16", "%18 = group %16")),
}  # fmt: skip


def all_laws() -> dict[str, list[str]]:
    found = {text: ["program"] for text in LINEAR_LAWS.values()}
    for phase in PHASES.values():
        for row in phase.laws:
            found.setdefault(row.name, []).append(phase.name)
    return found


def test_every_law_has_its_case():
    assert set(BAD) | {LINEAR_LAWS["order"]} == set(all_laws())


@pytest.mark.parametrize("law", BAD)
def test_a_broken_law_is_found(law):
    phase, text = BAD[law]
    found = broken(text, phase)
    assert law in [problem.law for problem in found]
    assert phase in all_laws()[law]
    t = Table()
    what = parse_lines(text, t) if phase == "program" else parse(text, t)
    with pytest.raises(VerifyError) as caught:
        check(what, phase)
    assert law in str(caught.value)


@pytest.mark.parametrize("law", all_laws())
def test_a_law_is_tried_and_kept_by_a_good_graph(law):
    phases = all_laws()[law]
    if law in LINEAR_LAWS.values():
        speaks_of = {
            Ops.RANGE,
            Ops.END,
            Ops.IF,
            Ops.ENDIF,
            Ops.BARRIER,
            Ops.DEFINE_LOCAL,
            Ops.LOAD,
            Ops.STORE,
        }
        assert speaks_of <= {line.op for line in parse_lines(PROGRAM, Table())}
        assert broken(PROGRAM, "program") == []
        return
    row = next(row for phase in phases for row in PHASES[phase].laws if row.name == law)
    texts = [(phase, GOOD[phase]) for phase in phases] + [("kernel", CACHED)] * ("kernel" in phases)
    tried = []
    for phase, text in texts:
        assert broken(text, phase) == []
        tried += [
            each for each in parse_lines(text, Table()) if row.left.ops is None or each.op in row.left.ops
        ]
    assert tried


def test_lines_out_of_order_are_found():
    lines = parse_lines(PROGRAM, Table())
    swapped = [
        lines[0],
        lines[2],
        lines[4],
        *(line for line in lines if line not in {lines[0], lines[2], lines[4]}),
    ]
    assert (lines[4], LINEAR_LAWS["order"]) in problems(swapped, "program")


@pytest.mark.parametrize("phase", PHASES)
def test_an_op_of_another_phase_is_named(phase):
    foreign = {"tensor": "%0 = range 8 axis=i:L : index", "program": "%0 = noop"}.get(
        phase, "%0 = buffer slot=0 : f32"
    )
    found = broken(f"uop 1\n{foreign}\n", phase)
    assert [problem.law for problem in found] == [f"{found[0].node.op.name} has no place in phase {phase}"]


# -- index lowering: the ways to get it wrong -------------------------------------------------------------------


def test_an_index_that_was_passed_over_is_found():
    """A rule that lowers constants but takes `index` operands as they are leaves the ops above untouched."""
    text = LOW.replace("special 8:i32 name=gidx0 : i32", "special 8 name=gidx0 : index")
    laws = [problem.law for problem in broken(text + "%3 = load %2 : f32\n", "lowered")]
    assert laws.count("no dtype index is left after lowering") == 2  # the SPECIAL and its bound


def test_wrappers_that_no_cleanup_stripped_are_found():
    """Lowering and clean-up run apart: the cast to index stays between a machine integer and its INDEX."""
    law = "no cast to or from index is left hanging"
    phase, text = BAD[law]
    assert [problem.node.op for problem in broken(text, phase) if problem.law == law] == [Ops.CAST]


def test_vectors_of_mixed_widths_cannot_be_built():
    """VECTORIZE of i32 and i64 elements, or of one whose wrapper was stripped too early, is refused at once."""
    t = Table()
    i, j, k = t.variable("i", 0, 3, dtypes.int32), t.variable("j", 0, 3, dtypes.int64), t.variable("k", 0, 3)
    for lanes in ((i, j), (i, k)):
        with pytest.raises(GraphError, match="joins values of one dtype into i32x2"):
            t.make(Ops.VECTORIZE, dtypes.int32.vec(2), lanes)
        with pytest.raises(GraphError, match="do not make i32"):
            t.make(Ops.ADD, dtypes.int32, lanes)
        with pytest.raises(GraphError, match="compares values of one dtype"):
            _ = lanes[0] < lanes[1]


def test_one_loop_counted_in_two_widths_is_found():
    law = "one axis, one RANGE"
    found = [problem.node.dtype for problem in broken(BAD[law][1], "lowered") if problem.law == law]
    assert found == [dtypes.int32, dtypes.int64]


def test_vectors_of_index_are_found():
    text = (
        LOW
        + "%3 = vconst [0, 1] : indexx2\n%4 = index %0, %3 : *f32[64]\n%5 = vectorize %2, %4 : *f32[64]x2\n"
    )
    assert "no dtype index is left after lowering" in [problem.law for problem in broken(text, "lowered")]


# -- other corners ---------------------------------------------------------------------------------------------


def test_what_closes_a_range_may_share_it_before_it_is_one_loop():
    shared = KERNEL.replace(
        "%10 = store %2, %9", "%13 = reduce %8, %5 op=max : f32\n%14 = add %9, %13 : f32\n%10 = store %2, %14"
    )
    assert broken(shared, "kernel") == []
    both = KERNEL.replace("%11 = end %10, %1", "%11 = end %10, %1, %5")
    assert broken(both, "kernel") == []
    twice = REDUCED.replace("%19 = sink %18", "%20 = end %18, %6\n%19 = sink %20")
    assert "one RANGE, one END" in [problem.law for problem in broken(twice, "reduced")]


def test_threads_may_be_listed_by_any_number_of_ends():
    text = BAD["one RANGE, one END"][1]
    assert broken(text.replace("axis=i:L", "axis=i:l"), "reduced") == []


def test_a_loop_in_place_needs_no_barrier():
    """Each thread replaces an element of its own; one that others read needs the barrier."""
    text = PROGRAM.replace("%11 = index %10, %5", "%11 = index %10, %3").replace(
        "%18 = barrier %16", "%18 = group %16"
    )
    assert broken(text, "program") == []


def test_local_memory_of_one_core_needs_no_barrier():
    text = BAD["LOCAL memory that threads share is read AFTER a BARRIER"][1].replace(
        "name=lidx0", "name=core"
    )
    assert broken(text, "lowered") == []


def test_a_barrier_between_store_and_read_is_enough():
    text = BAD["LOCAL memory that threads share is read AFTER a BARRIER"][1].replace(
        "%4 = group", "%4 = barrier"
    )
    assert broken(text, "lowered") == []


def test_invalid_may_pass_through_index_arithmetic():
    text = KERNEL.replace("%8 = index %4, %1, %7", "%13 = add %7, 1 : index\n%8 = index %4, %1, %13")
    assert broken(text, "kernel") == []


def test_a_phase_is_named_right():
    t = Table()
    with pytest.raises(GraphError, match="unknown phase 'kernal'; did you mean 'kernel'"):
        check(t.sink(), "kernal")
    with pytest.raises(
        GraphError, match="phase program is checked on the lines of a linear program, not on UOp"
    ):
        check(t.sink(), "program")
    with pytest.raises(GraphError, match="phase kernel is checked on the root of a graph, not on list"):
        check([t.sink()], "kernel")


def test_a_long_chain_is_checked():
    t = Table()
    check(chain(t, 20_000), "kernel")


def test_checking_builds_no_node_and_rewrites_nothing():
    t = Table()
    root = parse(KERNEL, t)
    nodes = len(t)
    check(root, "kernel")
    assert len(t) == nodes
    x = anything("x")
    assert rewrite(root, Matcher("m", [rule(x + 0, x)])) is root


# -- what the error shows --------------------------------------------------------------------------------------


def test_the_error_shows_the_node_in_its_surroundings():
    with pytest.raises(VerifyError) as caught:
        check(parse(KERNEL.replace("store %2, %9", "store %2, %9, %1"), Table()), "kernel")
    assert (
        str(caught.value)
        == """\
the kernel spec is broken once
  - the gate of a STORE is bool
        …
        %1 = range 8 axis=i:L : index
        %2 = index %0, %1 : f32
        …
        %8 = index %4, %1, %7 : f32
        %9 = reduce %8, %5 op=add : f32
      > %10 = store %2, %9, %1
              ^^^^^
        %11 = end %10, %1
        %12 = sink %11"""
    )


def test_a_constant_gets_a_line_where_it_is_the_offender():
    text = LOW + "%3 = index %0, 0 : *f32[64]\n%4 = load %3 : f32\n%5 = store %2, %4\n"
    with pytest.raises(VerifyError) as caught:
        check(parse(text, Table()), "lowered")
    assert "      > %3 = const 0 : index\n" in str(caught.value)


def test_all_problems_are_collected_and_the_rest_counted():
    t = Table()
    effects = [t.param(slot, dtypes.float32, 4).store(t.const(1.0, dtypes.float32)) for slot in range(30)]
    root = t.sink(*effects)
    assert len(problems(root, "kernel")) == 30
    with pytest.raises(VerifyError, match="the kernel spec is broken 30 times") as caught:
        check(root, "kernel")
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1] == "and 10 more"


# -- documentation ---------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs" / "uop.md"
GENERATED = {
    "ops": spec.ops_markdown,
    "phases": spec.phase_ops_markdown,
    "laws": spec.phases_markdown,
    "axes": spec.axes_markdown,
}


def test_the_documented_tables_are_current(request: pytest.FixtureRequest):
    text = DOCS.read_text(encoding="utf-8")
    current = text
    for name, table in GENERATED.items():
        begin, end = f"<!-- {name}: generated -->\n", f"\n<!-- {name}: end -->"
        before, rest = current.split(begin)
        current = before + begin + table() + end + rest.split(end)[1]
    if request.config.getoption("--update-golden"):
        DOCS.write_text(current, encoding="utf-8")
        return
    assert text == current, "docs/uop.md is out of date; rewrite its tables with: pytest --update-golden"


def test_the_documented_example_parses():
    text = DOCS.read_text(encoding="utf-8")
    example = next(block for block in text.split("```text\n")[1:] if block.startswith("uop 1")).split("```")[
        0
    ]
    root = parse(example, Table())
    assert print_graph(root) == example
    check(root, "kernel")
