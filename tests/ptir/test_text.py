"""The text form: what it looks like, that it round-trips, and what it says about text that is wrong."""

from __future__ import annotations

import contextlib
import enum
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import GraphError, InternalError, Location, ParseError, ShapeError
from planish.ptir import json, ops, text
from planish.ptir.builder import Graph
from planish.ptir.fields import codec_of, record_of
from planish.ptir.function import Function, Program
from planish.ptir.interpret import interpret
from planish.ptir.literal_text import MAX_LISTED, literal_text
from planish.ptir.ops.control import ConfigValue
from planish.ptir.ops.definition import ConstantAttrs, OpKey
from planish.ptir.ops.literal import Literal
from planish.ptir.parser import MAX_NESTING
from planish.ptir.reader import PtirReader
from planish.ptir.types import Dim, DimLike, Quant, TensorType, tensor
from planish.ptir.verify import verify
from tests.ptir.generate import programs, random_inputs, random_program, same_results

B = Dim.named("B", 1, 64)
NUMBERS = [d for d in dtypes.ALL if d not in (dtypes.void, dtypes.index)]


def assert_same(left: Program, right: Program) -> None:
    """Equal in everything the text form promises, ids included where they were given out in order."""
    assert left.entry_name == right.entry_name
    assert list(left.functions) == list(right.functions)
    for f, g in zip(left, right, strict=True):
        values, others = list(f.values()), list(g.values())
        assert [v.type for v in values] == [v.type for v in others]
        assert [v.name for v in values] == [v.name for v in others]
        number = {value: i for i, value in enumerate(values)}
        renumber = {value: i for i, value in enumerate(others)}
        for a, b in zip(f.walk(), g.walk(), strict=True):
            assert a.op is b.op
            assert repr(a.attrs) == repr(b.attrs)
            if isinstance(a.attrs, ConstantAttrs):
                assert isinstance(b.attrs, ConstantAttrs)
                assert a.attrs.literal == b.attrs.literal
            assert [number[v] for v in a.operands] == [renumber[v] for v in b.operands]
            assert [r.arg_types for r in a.regions] == [r.arg_types for r in b.regions]
        ends = [[number[v] for v in r.results] for i in f.walk() for r in i.regions]
        assert ends == [[renumber[v] for v in r.results] for i in g.walk() for r in i.regions]
        assert [number[v] for v in f.results] == [renumber[v] for v in g.results]


def order(function: Function) -> list[int]:
    """The rank of each value's id, in order of definition."""
    ids = [value.id for value in function.values()]
    return [sorted(ids).index(id) for id in ids]


def through(item: Program | Function, **options: bool) -> Program:
    """Printed, parsed, and printed again to the same text."""
    printed = text.print(item, **options)
    parsed = text.parse(printed)
    assert text.print(parsed, **options) == printed
    return parsed


def one(body: str, params: str = "%x: tensor<f32, 4>", result: str = "tensor<f32, 4>") -> Function:
    return text.parse_function(f"ptir 1\nfunc @f({params}) -> {result} {{\n{body}\n}}\n")


def error_of(source: str, **options: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        text.parse(source, **options)
    return caught.value


# --- what it looks like -----------------------------------------------------------------------------------


def softmax() -> Function:
    g = Graph("softmax")
    x = g.input("x", TensorType(dtypes.float32, (B, 8)))
    shifted = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x))
    e = shifted.exp().named("e")
    return g.build(e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e)))


def everything() -> Program:
    """A program that shows each part of the grammar once."""
    inner = Graph("double")
    a = inner.input("a", tensor("f32", (4,)))
    double = inner.build(a.add(a))
    g = Graph("main")
    x = g.input("x", tensor("f32", (4,)))
    y = g.input("a name", TensorType(dtypes.float32, (B, 2 * B + 1)))
    i = g.constant(0, "i64").named("i")
    c = g.constant(np.array([[1.5, np.nan], [0.1, -0.0]]), "bf16").named("c")
    z = g.constant(np.array([1 + 2j, complex(-0.0, -math.inf)]), "c64")
    big = g.constant(np.arange(100, dtype=np.int16))
    count, total = g.while_loop(lambda i, t: i.lt(5), lambda i, t: (i.add(1), t.mul(2.0)), i, x)
    (chosen,) = g.cond(i.eq(3), lambda: x.named("x"), lambda: total.neg())
    carry, stacked = g.scan(lambda c, s: (c.add(s), c), [g.full((), 0, "f32")], [x], reverse=True)
    (called,) = g.call(double, chosen)
    first, _ = g.custom_call("lib.split", [called], [x.type, x.type], 2, {"on": True, "rate": 0.5, "n": 3})
    q = x.quantize("i8", [0.5, 0.25, 1.0, 2.0], axis=0)
    conv = g.full((1, 2, 4), 1, "f32").convolution(
        g.full((2, 2, 3), 2, "f32"), padding=[(1, 1)], lhs_layout="NCW", rhs_layout="OIW"
    )
    k = x.nonzero(4)
    bound = g.emit(ops.bind_dim, (x, k[1]), ops.BindDimAttrs(0, "K", 0, 4))
    return g.build_program(count, carry, stacked, first, c, z, big, y, q, conv, bound)


def test_softmax_prints_as_the_specification_shows(golden):
    golden.check("ptir/text/softmax.ptir", text.print(softmax()))


def test_every_part_of_the_grammar_prints(golden):
    golden.check("ptir/text/everything.ptir", text.print(everything()))
    through(everything())
    verify(everything())


def test_the_example_of_the_module_parses():
    example = "\n".join(line[4:] for line in (text.__doc__ or "").splitlines() if line.startswith("    "))
    assert text.print(text.parse(example)) == example + "\n"


def test_the_examples_of_the_documentation_parse():
    document = (Path(__file__).parents[2] / "docs" / "ptir_text.md").read_text(encoding="utf-8")
    blocks = document.split("```")
    assert text.print(text.parse(blocks[1])) == blocks[1].lstrip("\n")
    control = next(block for block in blocks if "%n, %s = while" in block)
    params = "%x: tensor<f32, 4>, %p: tensor<bool>, %i: tensor<i64>, %limit: tensor<i64>, %one: tensor<i64>, %zero: tensor<f32>"
    parsed = one(f"{control}\nreturn %d", params)
    lines = [line.strip() for line in text.print(parsed).splitlines()]
    assert [line.strip() for line in control.strip().splitlines()] == lines[2:-2]
    data = next(block for block in blocks if block.startswith("json"))
    verify(json.loads(data.removeprefix("json")))


def test_text_shows_structure_not_history():
    f = softmax()
    g = softmax()
    for inst in list(g):
        inst.id += 100
        for value in inst.results:
            value.id += 50
    assert text.print(f) == text.print(g)
    assert "%53 = sub" in text.print(g, ids=True)


def test_names_that_are_taken_get_a_number_and_end_with_their_region():
    source = """ptir 1
func @f(%x: tensor<f32>, %p: tensor<bool>) -> (tensor<f32>, tensor<f32>) {
  %x#1 = neg %x : tensor<f32>
  %0 = cond %p : tensor<f32> {
    %x#2 = neg %x#1 : tensor<f32>
    %y = neg %x#2 : tensor<f32>
    return %y
  } {
    %x#2 = abs %x : tensor<f32>
    %y = neg %x#2 : tensor<f32>
    return %y
  }
  %y = add %0, %x : tensor<f32>
  return %y, %x#1
}
"""
    parsed = text.parse(source)
    assert text.print(parsed) == source
    assert [v.name for v in parsed.entry.values()] == ["x", "p", "x", None, "x", "y", "x", "y", "y"]


@pytest.mark.parametrize("name", ["a b", "7", "", "é", 'quo"te', "new\nline", "%", "x#1", "{", "//", "\\"])
def test_any_name_survives(name):
    f = Function("f", [tensor("f32")], [name])
    y = f.body.append(ops.neg, f.params, names=[name]).result
    f.body.set_results([y])
    parsed = through(f)
    assert [v.name for v in parsed.entry.values()] == [name, name]


def test_a_quoted_plain_name_is_the_plain_name():
    f = one('%"y" = neg %"x" : tensor<f32, 4>\nreturn %y')
    assert f.results[0].name == "y"


@pytest.mark.parametrize("name", ["main", "a.b", "two words", "1", 'q"'])
def test_any_function_name_survives(name):
    f = Function(name, [tensor("f32")])
    f.body.set_results(f.params)
    assert list(through(f).functions) == [name]


def test_the_entry_is_the_first_function_unless_marked():
    a, b = Function("a"), Function("b")
    assert (
        text.print(Program([a, b]))
        == "ptir 1\nfunc @a() -> () {\n  return\n}\nfunc @b() -> () {\n  return\n}\n"
    )
    marked = Program([a, b], "b")
    assert "\nentry func @b" in text.print(marked)
    assert through(marked).entry.name == "b"


def test_an_empty_program_is_its_header():
    assert text.print(Program()) == "ptir 1\n"
    assert len(text.parse("ptir 1\n")) == 0


def test_layout_is_free():
    source = """// a comment
ptir 1 // another
func @f ( %x : tensor < f32 , 4 > , // first
          %y: tensor<f32,4> )
  -> tensor<f32, 4> {
  %0 =
    add %x,  // left
        %y // right
      : tensor<f32, 4>
  %1 = reduce_max %0 { keepdims = true , axes = [ 0 ] } : tensor<f32, 1> %2, %3 = top_k %0 {k=1,axis=0}:tensor<f32,1>
     , tensor<i64, 1>
  return %0 }"""
    printed = text.print(text.parse(source))
    assert "%0 = add %x, %y : tensor<f32, 4>\n" in printed
    assert "%1 = reduce_max %0 {axes=[0], keepdims=true} : tensor<f32, 1>\n" in printed
    assert text.print(text.parse(printed)) == printed


def test_result_types_may_be_left_out():
    f = one("%m = reduce_max %x {axes=[0], keepdims=true}\n%b = broadcast_to %m {dims=[4]}\nreturn %b")
    assert f.results[0].type == tensor("f32", (4,))
    g = one(
        "%p = lt %x, %x\n%s = reduce_and %p {axes=[0]}\n%r = cond %s {\nreturn %x\n} {\nreturn %x\n}\nreturn %r"
    )
    assert [i.op.name for i in g] == ["lt", "reduce_and", "cond"]


def test_a_function_alone_may_call_what_is_not_there():
    f = one("%0 = call @elsewhere %x : tensor<f32, 4>\nreturn %0")
    (inst,) = f
    assert inst.attrs == ops.CallAttrs("elsewhere", (tensor("f32", (4,)),))
    assert "%0 = call @elsewhere %x : tensor<f32, 4>" in text.print(f)


def test_print_inst_shows_one_instruction_by_ids():
    f = softmax()
    insts = list(f)
    assert text.print_inst(insts[0]) == "%1 = reduce_max %0 {axes=[1], keepdims=true} : tensor<f32, Bx1>"


# --- round trips ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_round_trip(seed):
    program = random_program(seed)
    parsed = through(program)
    assert_same(program, parsed)
    verify(parsed)
    # Ids come in the same order, and a second trip keeps them exactly.
    assert [order(f) for f in program] == [order(f) for f in parsed]
    again = through(parsed)
    assert [[v.id for v in f.values()] for f in parsed] == [[v.id for v in f.values()] for f in again]
    assert [[i.id for i in f.walk()] for f in parsed] == [[i.id for i in f.walk()] for f in again]


@pytest.mark.parametrize("seed", range(40, 60))
def test_locations_round_trip_on_request(seed):
    program = random_program(seed)
    for position, inst in enumerate(inst for f in program for inst in f.walk()):
        inst.made_by = "FoldAdd" if position % 5 == 0 else None
    program.entry.body.end.loc = Location("a file.py", 7, 2, "f")
    parsed = through(program, locations=True)
    places = [(i.loc, i.made_by) for f in program for i in f.walk()]
    assert places == [(i.loc, i.made_by) for f in parsed for i in f.walk()]
    assert [f.loc for f in program] == [f.loc for f in parsed]
    assert parsed.entry.body.end.loc == program.entry.body.end.loc
    assert all(i.loc is None for f in through(program) for i in f.walk())


@pytest.mark.parametrize("seed", range(60, 75))
def test_a_round_trip_does_not_change_results(seed):
    program = random_program(seed)
    inputs = random_inputs(program, seed)
    assert same_results(interpret(program, inputs), interpret(through(program), inputs))


@given(programs())
def test_shrinkable_programs_round_trip(program):
    verify(program)
    assert_same(program, through(program))


@pytest.mark.fuzz
@settings(max_examples=1000)
@given(st.integers(0, 2**32))
def test_many_random_programs_round_trip(seed):
    program = random_program(seed, size=40)
    verify(program)
    parsed = through(program, locations=True)
    verify(parsed)
    assert_same(program, parsed)
    inputs = random_inputs(program, seed)
    assert same_results(interpret(program, inputs), interpret(parsed, inputs))


def test_a_round_trip_keeps_ids_of_a_built_function():
    program = everything()
    parsed = through(program)
    for f, g in zip(program, parsed, strict=True):
        assert [v.id for v in f.values()] == [v.id for v in g.values()]
        assert [i.id for i in f.walk()] == [i.id for i in g.walk()]


# --- literals ---------------------------------------------------------------------------------------------


def literal_through(literal: Literal, quant: Quant | None = None) -> Literal:
    f = Function("f")
    value = f.body.append(ops.constant, (), ConstantAttrs(literal, quant)).result
    f.body.set_results([value])
    attrs = next(iter(through(f).entry)).attrs
    assert isinstance(attrs, ConstantAttrs)
    assert attrs.quant == quant
    return attrs.literal


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_bit_pattern_of_narrow_dtypes_survives(dtype):
    if dtype.is_bool:
        array = np.array([False, True])
    elif dtype.bits == 4:
        array = np.arange(int(dtype.min or 0), int(dtype.max or 0) + 1).astype(dtype.numpy)
    elif dtype.bits == 8:
        array = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    else:
        raw = np.random.default_rng(0).integers(0, 256, 512 * dtype.itemsize, dtype=np.uint8)
        array = raw.view(dtype.numpy)
    for start in range(0, array.size, MAX_LISTED):
        part = Literal(array[start : start + MAX_LISTED])
        assert "base64" not in literal_text(part)
        assert literal_through(part) == part
    whole = Literal(np.concatenate([array] * 40))
    assert "base64" in literal_text(whole)
    assert literal_through(whole) == whole
    for item in array[:64]:
        splat = Literal(np.asarray(item, dtype.numpy)).with_shape((3, 2))
        assert splat.splat
        assert literal_through(splat) == splat


@pytest.mark.parametrize("dtype", dtypes.FLOATS, ids=str)
def test_special_floats_are_words(dtype):
    array = np.array([0.0, -0.0, math.nan, 1.5, 0.1]).astype(dtype.numpy)
    words = literal_text(Literal(array))
    assert words.startswith("[0.0, -0.0, nan, 1.5, 0.")
    if dtype is not dtypes.float8_e4m3fn:
        infinite = Literal(np.array([math.inf, -math.inf]).astype(dtype.numpy))
        assert literal_text(infinite) == "[inf, -inf]"


def test_floats_are_as_short_as_they_can_be():
    assert literal_text(Literal(np.array([0.1, 1e-8], np.float32))) == "[0.1, 1e-08]"
    assert literal_text(Literal(np.array(0.1, np.float64))) == "0.1"
    assert literal_text(Literal(np.array(1 / 3, np.float64))) == repr(1 / 3)
    assert literal_text(Literal(np.array(1 / 3, np.float32).astype(dtypes.bfloat16.numpy))) == "0.334"


def test_a_nan_with_unusual_bits_shows_them():
    odd = np.array([0x7FC00001, 0xFFC00000, 0x7FC00000], np.uint32).view(np.float32)
    assert literal_text(Literal(odd)) == "[nan(0x7fc00001), nan(0xffc00000), nan]"
    assert literal_through(Literal(odd)) == Literal(odd)


def test_a_splat_is_one_number_whatever_its_size():
    literal = Literal.full(dtypes.float32, (1000, 1000), 2.5)
    assert literal_text(literal) == "2.5"
    assert literal_through(literal) == literal


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (1,), (1, 1, 1), (2, 1, 3)])
def test_shapes_of_data_survive(shape):
    literal = Literal(np.arange(math.prod(shape), dtype=np.int32).reshape(shape))
    assert literal_through(literal) == literal


def test_a_quantised_constant_keeps_its_meaning():
    quant = Quant(dtypes.float32, (0.1, 3e-5), (0, -7), 1)
    literal = Literal(np.array([[1, 2], [3, 4]], np.int8))
    assert literal_through(literal, quant) == literal


def test_data_may_be_hexadecimal_and_numbers_may_be_integers():
    f = one(
        '%a = constant hex"00 00 80 3f" : tensor<f32, 1>\n%b = constant [1, -2] : tensor<f32, 2>\nreturn %a, %b',
        result="(tensor<f32, 1>, tensor<f32, 2>)",
    )
    a, b = (value.literal for value in f.results)
    assert a is not None
    assert b is not None
    assert a.array().tolist() == [1.0]
    assert b.array().tolist() == [1.0, -2.0]


# --- attributes -------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


@dataclass(frozen=True)
class Inner:
    depth: int
    label: str = "none"


@dataclass(frozen=True)
class Outer:
    colour: Colour
    inner: Inner
    pair: tuple[int, str]
    sizes: tuple[DimLike, ...]
    maybe: Inner | None
    size: int | Dim | None
    mixed: tuple[ConfigValue, ...]
    type: TensorType
    quant: Quant | None
    data: Literal
    dtype: dtypes.DType | None = None
    rate: float = 1.0
    nested: tuple[tuple[int, ...], ...] = ((1,),)


def an_outer(**changes: object) -> Outer:
    fields: dict[str, object] = {
        "colour": Colour.GREEN,
        "inner": Inner(3, 'a "quoted"\n{label}'),
        "pair": (1, "]"),
        "sizes": (4, B, B * 2 + 1),
        "maybe": None,
        "size": None,
        "mixed": (True, 1, 1.0, "1", -0.0, math.inf, False, 0),
        "type": TensorType(dtypes.int8, (B, 2), Quant(dtypes.float32, (0.5,), (1,))),
        "quant": Quant(dtypes.float16, (math.inf, 1e-300), (0, 1), 0),
        "data": Literal(np.array([[1, 2]], np.int8)),
    }
    return Outer(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "outer",
    [
        an_outer(),
        an_outer(maybe=Inner(-1), size=B, dtype=dtypes.bfloat16, rate=-0.0),
        an_outer(size=0, sizes=(), mixed=(), rate=math.nan, nested=((), (1, 2))),
        an_outer(data=Literal.full(dtypes.complex64, (2,), 1 - 2j), quant=None, nested=()),
    ],
)
def test_attributes_of_every_type_round_trip(outer):
    record = record_of(Outer)
    written = record.write(outer)
    reader = PtirReader(written + " after", dims={"B": B})
    back = record.read(reader)
    assert reader.text[reader.position :] == " after"
    assert repr(back) == repr(outer)
    assert record.write(back) == written
    assert record.wrong_fields(back) == []
    dumped = record.dump(outer)
    assert repr(record.load(dumped, {"B": B}, "a")) == repr(outer)


def test_fields_at_their_default_are_not_written():
    assert "rate" not in record_of(Outer).write(an_outer())
    assert "rate=2.0" in record_of(Outer).write(an_outer(rate=2.0))
    assert record_of(Inner).write(Inner(1)) == "{depth=1}"


def test_a_field_without_a_text_form_is_named():
    with pytest.raises(InternalError, match="have no text form"):
        codec_of(bytes)


def test_every_attribute_record_of_the_ops_has_a_codec():
    for op in ops.REGISTRY.values():
        record_of(op.attrs_type)


def test_equal_but_different_attributes_are_told_apart():
    x = tensor("f32", (2,))
    f = Function("f", [x])
    configs = (True, 1, 1.0, 0.0, -0.0)
    for value in configs:
        f.body.append(ops.custom_call, f.params, ops.CustomCallAttrs("t", (x,), config=(("c", value),)))
    f.body.set_results(f.params)
    parsed = [i.attrs.config[0][1] for i in through(f).entry if isinstance(i.attrs, ops.CustomCallAttrs)]
    assert list(map(repr, parsed)) == list(map(repr, configs))


# --- types ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type",
    [
        tensor("f32"),
        tensor("i4", (0, 4)),
        TensorType(dtypes.complex128, (B, B * B - 3, (B + 3) // 2)),
        TensorType(dtypes.bool_, (Dim.named("x", 0, 1), Dim.named("exact", 2, 3))),
        TensorType(dtypes.uint8, (4,), Quant(dtypes.bfloat16, (0.1, 1e-30, 2.0, 3.0), (0, 1, 2, 3), 0)),
        TensorType(dtypes.int8, (), Quant(dtypes.float32, (0.1,), (-7,))),
    ],
    ids=str,
)
def test_types_parse_alone(type):
    dims = {symbol.name: Dim.named(symbol.name, symbol.lo, symbol.hi) for symbol in type.symbols()}
    assert text.parse_type(str(type), dims) == type


def test_bounds_of_names_are_given_beside_the_type():
    assert text.parse_type("tensor<f32, Bx8>", {"B": (1, 64)}) == TensorType(dtypes.float32, (B, 8))
    with pytest.raises(ShapeError, match="B is declared as 2"):
        text.parse_type("tensor<f32, B>", {"B": 2 * B})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("source", "message", "column"),
    [
        ("tensor<f33, 4>", "unknown dtype 'f33'", 8),
        ("tensor<f32, 4y8>", "this is not a size", 14),
        ("tensor<f32, 4x>", "a size is missing, expected an integer or a dimension", 15),
        ("tensor<f32, x4>", "a size is missing", 13),
        ("tensor<f32, H>", "this is not a size, expected a declared dimension", 13),
        ("tensor<f32, 4%0>", "this is not a size", 13),
        ("tensor<f32, -4>", "axis 0 of a tensor has size -4", 8),
        ("tensor<f32, 4", "this type is not closed", 8),
        ("tensor<void, 4>", "a tensor cannot hold void", 8),
        ("tensor<f32, 4, 5>", "expected quant<…>", 16),
        ("tensor<i8, 4, quant<f32, scale=[1.0]>>", "expected ','", 37),
        ("vector<f32>", "expected a type such as tensor<f32, 4x8>", 1),
        ("tensor<f32> x", "expected the end", 13),
    ],
)
def test_errors_of_types(source, message, column):
    with pytest.raises(ParseError) as caught:
        text.parse_type(source)
    assert message in str(caught.value)
    assert caught.value.column == column


# --- errors -----------------------------------------------------------------------------------------------

FUNC = "ptir 1\nfunc @f(%x: tensor<f32, 4>, %p: tensor<bool>) -> tensor<f32, 4> {\n"


@pytest.mark.parametrize(
    ("body", "message", "line", "column"),
    [
        ("  %0 = addd %x : tensor<f32, 4>\n", "there is no op 'addd'; at line 3, column 8; did you mean 'add'?", 3, 8),
        ("  %0 = qqq %x\n", "ptir.ops.REGISTRY lists the ops", 3, 8),
        ("  %0 = add %x, %y : tensor<f32, 4>\n", "%y is not defined here", 3, 16),
        ("  %0 = add %x, : tensor<f32, 4>\n", "found ':', expected a value such as %x", 3, 16),
        ("  %0, = add %x, %x\n", "found '=', expected a value such as %x", 3, 7),
        ("  %0 add %x, %x\n", "found 'add', expected '=' or ','", 3, 6),
        ("  %0 = add %x, %x : tensor<f32, 5>\n", "add gives tensor<f32, 4>, not tensor<f32, 5>", 3, 21),
        ("  %0 = add %x, %x\n  %0 = add %x, %x\n", "%0 is defined already", 4, 3),
        ("  %p = add %x, %x\n", "%p is defined already", 3, 3),
        ("  %0 = add %x, %p\n", "operands have different dtypes: tensor<f32, 4>, tensor<bool>; in add", 3, 3),
        ("  %0 = add %x\n", "add takes 2 operands, not 1", 3, 3),
        ("  add %x, %x\n", "add has 1 result, not 0", 3, 3),
        ("  %0, %1 = add %x, %x\n", "add has 1 result, not 2", 3, 3),
        ("  %0 = reduce_max %x {axis=[0]}\n", "there is no attribute 'axis' here; at line 3, column 23; did you mean 'axes'?", 3, 23),
        ("  %0 = reduce_max %x {keepdims=true}\n", "attribute axes is missing", 3, 22),
        ("  %0 = reduce_max %x {axes=[0], axes=[1]}\n", "attribute 'axes' is given twice", 3, 33),
        ("  %0 = reduce_max %x {axes=[a]}\n", "found 'a', expected an integer", 3, 29),
        ("  %0 = reduce_max %x {axes=[0] keepdims=true}\n", "found 'keepdims', expected ','", 3, 32),
        ("  %0 = reduce_max %x {axes=[0], keepdims=1}\n", "found '1', expected true or false", 3, 42),
        ("  %0 = reduce_max %x {axes=[7]}\n", "axis 7 is out of range for rank 1", 3, 3),
        ("  %0 = constant 1.0\n", "constant needs the type of its data", 4, 3),
        ("  %0 = constant [1.0, 2.0] : tensor<f32, 3>\n", "a list has 2 items, not 3", 3, 26),
        ("  %0 = constant [1.0, 2.0] : tensor<f32, 1>\n", "a list has more than 1 items", 3, 21),
        ("  %0 = constant 300 : tensor<i8>\n", "300 does not fit dtype i8", 3, 17),
        ("  %0 = constant 1.5 : tensor<i8>\n", "1.5 is not an integer", 3, 17),
        ("  %0 = constant yes : tensor<bool>\n", "yes is not true or false", 3, 17),
        ('  %0 = constant base64"AAA=" : tensor<f32>\n', "2 bytes are not 1 elements of dtype f32", 3, 17),
        ('  %0 = constant base64"?" : tensor<f32>\n', "these are no base64 data", 3, 17),
        ('  %0 = constant hex"02" : tensor<bool>\n', "a byte is not 0 or 1", 3, 17),
        ('  %0 = constant hex"7f" : tensor<i4>\n', "a byte lies outside dtype i4", 3, 17),
        ("  %0 = constant nan(0x3f800000) : tensor<f32>\n", "0x3f800000 are not the bits of a NaN of dtype f32", 3, 17),
        ("  %0 = constant : tensor<i8, 2>\n", "attribute literal is missing", 3, 3),
        ("  %0 = constant [1, 2 : tensor<i8, 2>\n", "this list is not closed", 3, 17),
        ("  %0 = neg %x : tensor<f32, 4> {\n", "neg has no regions", 3, 32),
        ("  %0 = cond %p : tensor<f32, 4> {\n    return %x\n  }\n", "cond takes 2 regions, not 1", 3, 3),
        ("  %0 = cond %p {\n    %1 = neg %x\n    return %1\n  } {\n    return %1\n  }\n", "%1 is defined inside a region that has ended", 7, 12),
        ("  %0 = neg %x : tensor<f32, 4> loc(3)\n", "expected a quoted string", 3, 36),
        ("  %0 = neg %x : tensor<f32, B>\n", "expected a declared dimension (none is declared)", 3, 29),
        ('  %"a\\q" = neg %x\n', "this name has a bad escape", 3, 3),
        ("  %0#1 = neg %x\n", "%0#1 is not a name", 3, 3),
        ("  = neg %x\n", "found '=', expected an instruction or return", 3, 3),
        ("  %0 = return %x\n", "return has no results", 3, 3),
        ("  return %x\n  %1 = neg %x\n", "found '%1', expected '}'", 4, 3),
        ("  %0 = neg %x : tensor<f32, (4>\n", "this is not a size, expected ')'", 3, 31),
        ("  %0 = broadcast_to %x {dims=[" + "(" * 5000 + "]}\n", "this size nests too deep", 3, 31),
        ("  %0 = constant " + "9" * 5000 + " : tensor<i8>\n", "this integer has more than 1000 digits", 3, 17),
    ],
)  # fmt: skip
def test_errors_show_where_and_what_was_expected(body, message, line, column):
    error = error_of(FUNC + body + "  return %x\n}\n")
    assert message in str(error).replace("\n", " ")
    assert (error.line, error.column) == (line, column)
    source = (FUNC + body + "  return %x\n}\n").splitlines()[line - 1]
    assert error.source_line == source
    assert str(error).splitlines()[-1].index("^") - str(error).splitlines()[-2].index(source) == column - 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("func @f() -> () {\n return\n}\n", "found 'func', expected the header 'ptir 1'"),
        ("", "the text ends, expected the header 'ptir 1'"),
        ("ptir 2\n", "this text is of version 2; at line 1, column 1; this planish reads version 1"),
        ("ptir 1\nfn", "found 'fn', expected func or the end"),
        ("ptir 1\nfunc f", "found 'f', expected '@'"),
        ("ptir 1\nfunc @f(%x) -> ()", "found ')', expected ':'"),
        ("ptir 1\nfunc @f<B>() -> ()", "expected a declaration such as B in 1..64"),
        ("ptir 1\nfunc @f<B in 4..1>() -> ()", "dimension B has bounds 4..1"),
        ("ptir 1\nfunc @f<B in 1..4, B in 1..4>() -> ()", "dimension B is declared twice"),
        ("ptir 1\nfunc @f() -> () {", "the text ends, expected an instruction or return"),
        ("ptir 1\nfunc @f() -> () {\n return\n}\nfunc @f() -> () {\n return\n}", "there are two functions @f"),
        ("ptir 1\nentry func @f() -> () {\n return\n}\nentry func @g() -> () {\n return\n}", "@f is the entry already"),
    ],
)  # fmt: skip
def test_errors_around_functions(source, message):
    assert message in str(error_of(source))


def test_an_error_of_an_op_is_kept_as_the_cause():
    error = error_of(FUNC + "  %0 = reshape %x {dims=[5]}\n  return %x\n}")
    assert isinstance(error.__cause__, ShapeError)
    assert error.op == "reshape"
    assert error.remedy == "a reshape keeps the number of elements"


def test_a_file_name_shows_in_errors_and_becomes_the_location():
    error = error_of(FUNC + "  %0 = addd %x\n", file="prog.ptir")
    assert "at prog.ptir:3:8" in str(error)
    source = text.print(softmax())
    parsed = text.parse(source, file="prog.ptir")
    assert [i.loc for i in parsed.entry] == [Location("prog.ptir", line) for line in range(3, 10)]
    assert parsed.entry.loc == Location("prog.ptir", 2)


def test_what_a_function_returns_is_what_it_says():
    error = error_of(FUNC + "  return %p\n}\n")
    assert "@f returns tensor<bool>, not tensor<f32, 4>" in str(error)
    assert (error.line, error.column) == (2, 50)


def test_several_functions_are_not_one():
    with pytest.raises(GraphError, match="the text has 0 functions, not one"):
        text.parse_function("ptir 1\n")


# --- size -------------------------------------------------------------------------------------------------


def test_length_meets_no_recursion_limit():
    f = Function("long", [tensor("i64")])
    value = f.params[0]
    for _ in range(5000):
        value = f.body.append(ops.add, (value, f.params[0])).result
    f.body.set_results([value])
    assert len(through(f).entry) == 5000


def nested(depth: int) -> str:
    opening = "".join(f"%{i} = cond %p : tensor<f32> {{\n" for i in range(depth))
    closing = "".join(
        f"return %{'x' if i == depth else i}\n}} {{\nreturn %x\n}}\n" for i in range(depth, 0, -1)
    )
    return f"ptir 1\nfunc @f(%p: tensor<bool>, %x: tensor<f32>) -> tensor<f32> {{\n{opening}{closing}return %0\n}}\n"


def test_regions_nest_deep_but_not_endlessly():
    through(text.parse(nested(MAX_NESTING)))
    assert f"regions nest more than {MAX_NESTING} deep" in str(error_of(nested(MAX_NESTING + 1)))
    assert f"regions nest more than {MAX_NESTING} deep" in str(error_of(nested(20_000)))


@pytest.mark.parametrize("seed", range(12))
def test_broken_text_never_ends_in_another_error(seed):
    """Text cut, doubled or altered at random either parses or raises ParseError."""
    rng = np.random.default_rng(seed)
    printed = text.print(random_program(seed, size=8), locations=True)
    for _ in range(60):
        at = int(rng.integers(0, len(printed)))
        length = int(rng.integers(0, 6))
        junk = "".join(rng.choice(list('%@#{}[]()<>:,="/\\x0 1.-aBn'), int(rng.integers(0, 3))))
        with contextlib.suppress(ParseError):
            text.parse(printed[:at] + junk + printed[at + length :])


def test_kinds_of_ops_are_an_enum_that_prints_by_name():
    codec = codec_of(OpKey)
    assert codec.write(OpKey.CAST) == "CAST"
    assert codec.read(PtirReader("CAST")) is OpKey.CAST
    with pytest.raises(ParseError, match="expected RETURN, CONSTANT"):
        codec.read(PtirReader("CUST"))


def test_sizes_without_bounds_are_read_back_and_larger_ones_refused():
    g = Graph("f")
    written = text.print(g.build(g.input("x", tensor("f32", ("B", 4))).neg()))
    assert f"<B in 1..{2**63 - 1}>" in written
    assert text.print(text.parse(written)) == written
    with pytest.raises(ParseError, match="dimension B has a bound that 64 bits do not hold"):
        text.parse(written.replace(str(2**63 - 1), str(2**63)))
