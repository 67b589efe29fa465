"""The text form: readable, exact, deterministic, and helpful when it does not parse."""

from __future__ import annotations

import math
import random
import struct
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import GraphError, ParseError
from planish.uop import Axis, AxisType, Ops, Table, UOp, parse, parse_lines, print_graph, print_lines
from planish.uop.argument_laws import ARGUMENTS
from planish.uop.argument_text import FORMS, number_text
from planish.uop.ops import axis_name, axis_path
from planish.uop.text import in_order
from tests.uop.graphs import CONSTANTS, chain, random_graph, specimens

EXAMPLE = """\
uop 1
%0 = define_global slot=0 : *f32[40]
%1 = range 10 axis=i:g : index
%2 = index %0, %1 : *f32[40]
%3 = mul %1, 4 : index
%4 = range 4 axis=j.outer:R : index
%5 = add %3, %4 : index
%6 = define_var name=n bounds=0..63 : index
%7 = cmplt %5, %6 : bool
%8 = where %7, %5, invalid : index
%9 = index %0, %8 : f32
%10 = mul %9, 0.1 : f32
%11 = reduce %10, %4 op=add : f32
%12 = store %2, %11
%13 = end %12, %1
%14 = sink %13
"""


def example(t: Table) -> UOp:
    buffer, r, k = (
        t.param(0, dtypes.float32, 40),
        t.range(10, 0, AxisType.GLOBAL),
        t.range(4, (1, 0), AxisType.REDUCE),
    )
    at = r * 4 + k
    value = buffer.index((at < t.variable("n", 0, 63)).where(at, t.invalid()))
    place = t.make(Ops.INDEX, dtypes.float32.ptr(40), (buffer, r))
    return t.sink(place.store((value * 0.1).reduce(Ops.ADD, k)).end(r))


def bits(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, complex):
        return bits(value.real), bits(value.imag)
    return type(value), value


def test_a_kernel_reads_like_this():
    assert print_graph(example(Table())) == EXAMPLE


def test_a_kernel_parses_back_to_the_same_node():
    t = Table()
    root = example(t)
    size = len(t)
    assert parse(EXAMPLE, t) is root
    assert len(t) == size


def test_the_specimens_cover_every_op():
    found = {node.op for each in specimens(Table()) for node in in_order(each)}
    assert found == set(Ops)


def test_every_argument_has_a_text_form():
    assert set(FORMS) == set(ARGUMENTS) - {Ops.CONST, Ops.VCONST}


def test_every_op_and_argument_round_trips():
    t = Table()
    for each in specimens(t):
        text = print_graph(each)
        assert parse(text, t) is each, text
        other = parse(text, Table())
        assert print_graph(other) == text
        assert other.key == each.key


@pytest.mark.parametrize("dtype", CONSTANTS, ids=str)
def test_constants_are_exact(dtype):
    t = Table()
    for value in CONSTANTS[dtype]:
        node = t.const(value, dtype)
        again = parse(print_graph(node), Table())
        assert bits(again.arg) == bits(node.arg)
        inline = (
            parse(print_graph(t.const(value, dtype).cast(dtypes.float64)), Table())
            if not dtype.is_complex
            else again
        )
        assert bits((inline.src[0] if inline.src else inline).arg) == bits(node.arg)


@given(st.floats(width=32), st.floats())
def test_floats_are_exact_and_short(narrow, wide):
    # a float32 below 1e16 is written without exponent: a sign, 16 digits and ".0"
    for value, dtype, longest in ((narrow, dtypes.float32, 19), (wide, dtypes.float64, 24)):
        text = number_text(value, dtype)
        assert bits(dtype.const(float(text))) == bits(value)
        assert len(text) <= longest


def test_a_float_reads_as_a_person_would_write_it():
    assert number_text(dtypes.float32.const(0.1), dtypes.float32) == "0.1"
    assert number_text(dtypes.bfloat16.const(0.1), dtypes.bfloat16) == "0.1"
    assert number_text(1.0, dtypes.float32) == "1.0"


@given(st.randoms(use_true_random=False), st.integers(0, 60))
def test_random_graphs_round_trip(rng, size):
    t = Table()
    root = random_graph(t, rng, size)
    text = print_graph(root)
    assert parse(text, t) is root
    assert print_graph(parse(text, Table())) == text


@pytest.mark.fuzz
@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 1000))
def test_large_random_graphs_round_trip(rng, size):
    t = Table()
    root = random_graph(t, rng, size)
    assert parse(print_graph(root), t) is root


def test_the_text_does_not_depend_on_what_was_built_first():
    first, second = Table(), Table()
    second.const(99)
    b = second.variable("b", 0, 3) * 2  # here the right operand is older than the left
    a = second.variable("a", 0, 3) * 2
    here = first.variable("a", 0, 3) * 2 + first.variable("b", 0, 3) * 2
    assert print_graph(a + b) == print_graph(here)


def test_a_constant_shows_its_dtype_only_where_it_does_not_follow():
    t = Table()
    place = t.make(Ops.INDEX, dtypes.float32.ptr(4), (t.param(0, dtypes.float32, 4), t.const(3)))
    assert print_graph(place.store(t.const(1.0, dtypes.float32))).splitlines()[-2:] == [
        "%1 = index %0, 3 : *f32[4]",
        "%2 = store %1, 1.0:f32",
    ]
    low = t.const(3, dtypes.int32)
    assert "%1 = index %0, 3:i32 : f32" in print_graph(t.param(0, dtypes.float32, 4).index(low))
    assert "cmplt 1:i32, 3:i32 : bool" in print_graph(t.const(1, dtypes.int32) < low)


def test_symbolic_dims_are_nodes_of_the_graph():
    t = Table()
    n = t.variable("n", 1, 8)
    node = t.make(
        Ops.RESHAPE, dtypes.float32, (t.make(Ops.BUFFER, dtypes.float32, (), 0),), (2, n * 2, t.const(4))
    )
    text = print_graph(node)
    assert text.splitlines()[-1] == "%4 = reshape %0 shape=(2, %2, %3) : f32"
    assert parse(text, t) is node


def test_comments_blank_lines_and_space_are_free():
    text = "# a kernel\n\n  uop  1  # header\n %7=const 5:index # five\n\n%9 = neg   %7 :index\r\n"
    t = Table()
    assert parse(text, t) is -t.const(5)


def test_a_long_chain_prints_and_parses():
    limit = sys.getrecursionlimit()
    t = Table()
    root = chain(t, 20_000)
    text = print_graph(root)
    assert text.count("\n") == 20_002
    other = Table()
    again = parse(text, other)
    assert len(other) == 20_008  # the sums, the variable, seven constants
    assert print_graph(again) == text
    assert sys.getrecursionlimit() == limit


# -- linear programs -------------------------------------------------------------------------------------------

PROGRAM = """\
uop 1
%0 = const 8 : i32
%1 = range %0 axis=i:L : i32
%2 = define_global slot=0 : *f32[8]
%3 = index %2, %1 : *f32[8]
%4 = const 1.0 : f32
%5 = store %3, %4
%6 = end %5, %1
"""


def test_a_linear_program_keeps_its_order_and_its_constants():
    t = Table()
    lines = parse_lines(PROGRAM, t)
    assert [line.op for line in lines][:3] == [Ops.CONST, Ops.RANGE, Ops.DEFINE_GLOBAL]
    assert print_lines(lines) == PROGRAM
    assert parse_lines(print_lines(lines), t) == lines


def test_a_constant_that_is_no_line_stays_inline():
    t = Table()
    lines = parse_lines(PROGRAM, t)
    without = [line for line in lines if line.op is not Ops.CONST]
    text = print_lines(without)
    assert "%0 = range 8 axis=i:L : i32" in text
    assert parse_lines(text, t) == without


def test_lines_out_of_order_have_no_text():
    lines = parse_lines(PROGRAM, Table())
    with pytest.raises(GraphError, match="INDEX: its source DEFINE_GLOBAL does not come before it"):
        print_lines([lines[0], lines[1], lines[3], lines[2]])


# -- errors ----------------------------------------------------------------------------------------------------

HEAD = "uop 1\n%0 = define_var name=n bounds=0..63 : index\n"
ERRORS = [
    ("", "the text is empty, expected the header 'uop 1'", 1, 1),
    ("   \n# nothing\n", "the text is empty", 3, 1),
    ("uop 2\n%0 = const 1 : index", "this text has version 2, expected version 1", 1, 5),
    ("%0 = const 1 : index", "this is not a uop text, expected the header", 1, 1),
    ("uop 1 and more\n", "this is not a uop text", 1, 1),
    ("uop 1\n", "the text ends, expected a line such as", 2, 1),
    (HEAD + "%1 = adds %0, %0 : index", "unknown op 'adds'; at line 3, column 6; did you mean 'add'?", 3, 6),
    (HEAD + "%1 = frobnicate %0 : index", "unknown op 'frobnicate'; at line 3, column 6; docs/uop.md", 3, 6),
    (HEAD + "%1 = add %0, %7 : index", "%7 is not defined above", 3, 14),
    (HEAD + "%1 = add %0 %0 : index", "found '%0', expected ',' or the end of the line", 3, 13),
    (HEAD + "%1 = add %0, : index", "found ':', expected %n, a number", 3, 14),
    (HEAD + "%1 = add %0, %0 : index extra", "found 'extra', expected the end of the line", 3, 25),
    (HEAD + "%1 = add %0, %0", "sources of dtype index, index do not make void", 3, 6),
    (HEAD + "%1 = add %0 : index", "given 1 sources (index)", 3, 6),
    (HEAD + "%1 = add %0, 1.5 : index", "1.5 is not a constant of dtype index", 3, 14),
    (HEAD + "%1 = add %0, 1:i32 : index", "sources of dtype index, i32 do not make index", 3, 6),
    (HEAD + "%1 = add %0, 1 : indx", "unknown dtype 'indx'", 3, 18),
    (HEAD + "%1 = cast 1 : f32", "the dtype of this constant does not follow from its place", 3, 11),
    (HEAD + "%0 = neg %0 : index", "%0 is defined twice", 3, 1),
    (HEAD + "neg %0 : index", "found 'neg', expected a line such as", 3, 1),
    (HEAD + "%1 neg %0 : index", "found 'neg', expected '='", 3, 4),
    (HEAD + "%1 = range 10 : index", "range lacks an attribute: found ':', expected axis=", 3, 15),
    (HEAD + "%1 = range 10 axis=x0 : index", "found 'x0', expected an axis such as i:g", 3, 20),
    (HEAD + "%1 = range 10 axis=i:g axis=j:g : index", "axis= is given twice", 3, 24),
    (HEAD + "%1 = range 10 end=3 : index", "range has no attribute 'end'; at line 3, column 15; it takes axis=", 3, 15),
    (HEAD + "%1 = neg %0 axis=i:g : index", "neg has no attribute 'axis'; at line 3, column 13; it takes none", 3, 13),
    (HEAD + "%1 = reduce %0 op=ad : index", "unknown op 'ad'", 3, 19),
    (HEAD + "%1 = reduce %0 op=sub : index", "arg must be one of", 3, 6),
    (HEAD + "%1 = define_var name=m bounds=0:3 : index", "found '0', expected bounds such as 0..63", 3, 31),
    (HEAD + "%1 = define_var name=m bounds=3..0 : index", "bounds 3..0 are empty", 3, 6),
    (HEAD + "%1 = const invalid : index", "invalid is not a number", 3, 12),
    (HEAD + "%1 = const 12ab : index", "found '12ab', expected %n, a number", 3, 12),
    (HEAD + "%1 = const complex(1.0 2.0) : c64", "found '2.0', expected ','", 3, 24),
    (HEAD + "%1 = const " + "9" * 5000 + " : index", "too many digits", 3, 12),
    (HEAD + "%1 = vconst [1, invalid] : indexx2", "invalid is not a number", 3, 17),
    (HEAD + "%1 = vconst [1, 2] : indexx3", "arg must hold a number per lane", 3, 6),
    (HEAD + "%1 = gep %0 lanes=(0, ", "the line ends, expected a number", 3, 23),
    (HEAD + "%1 = reshape %0 shape=" + "(" * 40, "tuples nest more than 16 deep", 3, 39),
    (HEAD + "%1 = contiguous %0 hints=(1, nan) : index", "an argument cannot hold NaN", 3, 30),
    (HEAD + '%1 = special 4 name="a\\q" : index', "bad escape", 3, 21),
    (HEAD + '%1 = special 4 name="0" : index', "'0' is no identifier, expected an index such as gidx0", 3, 21),
    (HEAD + "%1 = special 4 name=? : index", "found '?', expected a name or a quoted string", 3, 21),
    (HEAD + "%1 = store %0, 1 hint=nontemporall", "unknown hint 'nontemporall'; at line 3, column 23; did you mean 'nontemporal'?", 3, 23),
    (HEAD + '%1 = store %0, 1 hint="async align0"', "unknown hint 'align0'", 3, 23),
    (HEAD + "%1 = unroll %0 axes=(0;4) : index", "expected axis:size such as 0:4", 3, 22),
    (HEAD + "%1 = neg %0 : index\n%2 = abs %0 : index", "%1 is not part of the last line, the root", 3, 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "line", "column"), ERRORS, ids=[e[1][:40] for e in ERRORS])
def test_a_malformed_text_names_place_and_expectation(text, message, line, column):
    t = Table()
    t.variable("n", 0, 63)
    before = len(t)
    with pytest.raises(ParseError) as caught:
        parse(text, t)
    error = caught.value
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    assert len(t) == before  # nothing half-built


def test_the_error_points_at_the_column():
    with pytest.raises(ParseError) as caught:
        parse(HEAD + "%1 = add %0, %7 : index\n", Table())
    assert str(caught.value).splitlines()[1:] == [
        "  3 | %1 = add %0, %7 : index",
        "    |              ^",
    ]


@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_a_damaged_text_never_fails_otherwise(rng, seed):
    t = Table()
    text = print_graph(specimens(t)[rng.randrange(60)])
    noise = random.Random(seed)
    for _ in range(3):
        at = noise.randrange(len(text))
        text = text[:at] + noise.choice('%=:,()[]0x9-"#\n e.') + text[at + noise.randrange(3) :]
    other = Table()
    try:
        again = parse(text, other)
    except ParseError:
        assert len(other) == 0
    else:
        assert parse(print_graph(again), other) is again


@pytest.mark.parametrize("hint", [frozenset(), 0.5, float("nan"), None, True])
def test_an_argument_without_text_form_never_enters_a_table(hint: object):
    t = Table()
    buffer = t.make(Ops.BUFFER, dtypes.float32, (), 0)
    with pytest.raises(GraphError, match="hints"):
        t.make(Ops.CONTIGUOUS, dtypes.float32, (buffer,), (hint,))
    assert len(t) == 1


def test_axes_print_with_letter_and_path():
    assert [str(Axis((1, 0), kind)) for kind in AxisType] == [
        "g1_0", "t1_0", "c1_0", "l1_0", "w1_0", "L1_0", "u1_0", "G1_0", "R1_0", "r1_0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name"),
    [((0,), "i"), ((2,), "k"), ((1, 0), "j.outer"), ((1, 1, 0), "j.inner.outer"), ((0, 3, 1), "i.last.inner"), ((0, 4, 1), "i.4.inner"), ((26,), "i1")],
)  # fmt: skip
def test_an_axis_is_named_by_the_dim_and_the_splits_that_it_comes_from(path: tuple[int, ...], name: str):
    assert axis_name(path) == name
    assert axis_path(name) == path


def test_an_axis_keeps_its_name_wherever_it_is_moved():
    axis = Axis((1,), AxisType.LOOP).moved((0,))
    assert (axis.name, axis.path, axis.text) == ("j", (0,), "j:L@0")
    assert (axis.part(1).name, axis.part(1).path) == ("j.inner", (0, 1))
    assert axis.moved((1,)) == Axis((1,), AxisType.LOOP)
    table = Table()
    moved = table.range(10, axis.part(0))
    assert parse(print_graph(moved), table) is moved
