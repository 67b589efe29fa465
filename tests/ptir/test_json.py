"""The JSON form: round trips with ids, and errors that name the path to what is wrong."""

from __future__ import annotations

import json as standard
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish import dtypes
from planish.errors import GraphError, Location, ParseError
from planish.ptir import json, ops, text
from planish.ptir.function import Function, Program
from planish.ptir.interpret import interpret
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal
from planish.ptir.parser import MAX_NESTING
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.types import Dim, TensorType, tensor
from planish.ptir.verify import verify
from tests.ptir.generate import programs, random_inputs, random_program, same_results
from tests.ptir.test_text import NUMBERS, everything, nested, softmax


def through(item: Program | Function) -> Program:
    dumped = json.dumps(item)
    loaded = json.loads(dumped)
    assert json.dumps(loaded) == dumped
    return loaded


def ids(program: Program) -> list[tuple[list[int], list[int]]]:
    return [([v.id for v in f.values()], [i.id for i in f.walk()]) for f in program]


def test_what_it_looks_like(golden):
    golden.check("ptir/text/softmax.json", json.dumps(strip(softmax()), indent=1))
    golden.check("ptir/text/everything.json", json.dumps(strip(everything()), indent=1))


def strip(item: Program | Function) -> Program:
    """Without locations, which depend on where this file is."""
    program = item if isinstance(item, Program) else Program([item])
    for function in program:
        function.loc = None
        for inst in function.walk():
            inst.loc = None
    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_round_trip_with_ids_and_locations(seed):
    program = random_program(seed)
    loaded = through(program)
    verify(loaded)
    assert ids(program) == ids(loaded)
    assert text.print(program, locations=True, ids=True) == text.print(loaded, locations=True, ids=True)


@given(programs())
def test_shrinkable_programs_round_trip(program):
    assert text.print(through(program)) == text.print(program)


@pytest.mark.parametrize("seed", range(40, 50))
def test_a_round_trip_does_not_change_results(seed):
    program = random_program(seed)
    inputs = random_inputs(program, seed)
    assert same_results(interpret(program, inputs), interpret(through(program), inputs))


@pytest.mark.fuzz
@settings(max_examples=1000)
@given(st.integers(0, 2**32))
def test_many_random_programs_round_trip(seed):
    program = random_program(seed, size=40)
    assert text.print(program, locations=True) == text.print(through(program), locations=True)


def test_ids_with_gaps_and_counters_survive():
    f = softmax()
    rw = ProgramRewriter(f)
    first = next(iter(f))
    new = rw.insert_before(first, ops.neg, (f.params[0],))
    rw.erase_inst(new)
    loaded = through(f).entry
    assert (loaded._next_inst, loaded._next_value) == (f._next_inst, f._next_value)
    verify(loaded)


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_data_of_every_dtype_survives(dtype):
    raw = np.random.default_rng(1).integers(0, 256, 200 * dtype.itemsize, dtype=np.uint8)
    if dtype.is_bool or dtype.bits == 4:
        array = (raw % 2).astype(dtype.numpy)
    else:
        array = raw.view(dtype.numpy)
    for literal in (Literal(array), Literal(array[:20]), Literal(array[:1].reshape(())).with_shape((5,))):
        f = Function("f")
        f.body.set_results([f.body.append(ops.constant, (), ConstantAttrs(literal)).result])
        attrs = next(iter(through(f).entry)).attrs
        assert isinstance(attrs, ConstantAttrs)
        assert attrs.literal == literal


def test_numbers_that_json_lacks_are_words():
    f = Function("f")
    literal = Literal(np.array([math.inf, -math.inf, math.nan, -0.0], np.float32))
    f.body.set_results([f.body.append(ops.constant, (), ConstantAttrs(literal)).result])
    assert '"data": ["inf", "-inf", "nan", -0.0]' in json.dumps(f)


def test_bounds_and_named_sizes_survive():
    b = Dim.named("B", 1, 64)
    f = Function("f", [TensorType(dtypes.float32, (b, (b + 3) // 2))])
    f.body.set_results(f.params)
    assert through(f).entry.param_types == f.param_types
    f.body.add_arg(TensorType(dtypes.float32, (Dim.named("B", 1, 8),)))
    with pytest.raises(GraphError, match="the dimension B has two pairs of bounds"):
        json.dumps(f)


def test_the_entry_survives():
    assert through(Program([Function("a"), Function("b")], "b")).entry.name == "b"
    assert through(Program()).entry_name is None


def test_locations_and_makers_survive():
    f = Function("f", [tensor("f32")], loc=Location("a.py", 1))
    inst = f.body.append(ops.neg, f.params, loc=Location("a.py", 2, 3, "g"))
    inst.made_by = "Pattern"
    f.body.end.loc = Location("a.py", 4)
    f.body.set_results(inst.results)
    (loaded,) = through(f).entry
    assert (loaded.loc, loaded.made_by) == (inst.loc, "Pattern")
    assert through(f).entry.body.end.loc == Location("a.py", 4)


def test_nesting_is_bounded():
    deep = text.parse(nested(MAX_NESTING))
    assert text.print(through(deep)) == text.print(deep)
    with pytest.raises(ParseError, match=r"nests too deep|nest more than"):
        json.loads('{"ptir": 1, "functions": ' + "[" * 100_000)


# --- errors -----------------------------------------------------------------------------------------------


def record() -> dict[str, Any]:
    f = Function("f", [tensor("f32", (4,))], ["x"])
    g = f.body.append(ops.reduce_max, f.params, ops.ReduceAttrs((0,)))
    f.body.set_results(g.results)
    return dict(standard.loads(json.dumps(f)))


def change(path: str, value: object) -> str:
    root = record()
    target: Any = root
    *steps, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    for step in steps:
        target = target[step]
    if value is KeyError:
        del target[last]
    else:
        target[last] = value
    return standard.dumps(root)


INST = "functions.0.body.0"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("ptir", 2, "this program is of version 2; this planish reads version 1"),
        ("ptir", KeyError, "this program is of version null"),
        ("entry", "g", 'entry: there is no function "g"'),
        ("functions", {}, "functions: expected an array, found {}"),
        ("functions.0.name", 3, "functions[0].name: expected a string, found 3"),
        ("functions.0.dims", {"B": [1]}, "functions[0].dims.B: expected a lower and an upper bound"),
        ("functions.0.dims", {"B": [3, 1]}, "functions[0].dims.B: dimension B has bounds 3..1"),
        ("functions.0.args.0.type", "tensor<f33>", "functions[0].args[0].type: unknown dtype 'f33'"),
        ("functions.0.args.0.type", "tensor<f32> 4", "functions[0].args[0].type: found '4', expected the end"),
        ("functions.0.args.0.id", True, "functions[0].args[0].id: expected an integer, found true"),
        ("functions.0.args.0.id", 1, "functions[0].body[0].operands[0]: value 0 is not defined here"),
        ("functions.0.next", [0, 0], "functions[0].next: ids are taken up to 1 and 1"),
        ("functions.0.end", KeyError, "functions[0].end: expected an object, found null"),
        ("functions.0.end.operands", [7], "functions[0].end.operands[0]: value 7 is not defined here"),
        ("functions.0.end.id", 1, "functions[0].end.id: instruction 1 is there twice"),
        (f"{INST}.op", "reduce_mux", "functions[0].body[0].op: there is no op 'reduce_mux'; did you mean 'reduce_max'?"),
        (f"{INST}.op", "return", "there is no op 'return'"),
        (f"{INST}.attrs", {}, "functions[0].body[0].attrs: attribute 'axes' is missing"),
        (f"{INST}.attrs", {"axis": 1}, "there is no attribute 'axis'; known: axes, keepdims"),
        (f"{INST}.attrs.axes", [0.5], "functions[0].body[0].attrs.axes[0]: expected an integer, found 0.5"),
        (f"{INST}.attrs.axes", [True], "expected an integer, found true"),
        (f"{INST}.attrs.axes", [4], "functions[0].body[0]: axis 4 is out of range for rank 1; in reduce_max"),
        (f"{INST}.results.0.type", "tensor<f64>", "functions[0].body[0].results: reduce_max gives tensor<f32>, not tensor<f64>"),
        (f"{INST}.results", [], "reduce_max gives tensor<f32>, not nothing"),
        (f"{INST}.results.0.id", 0, "functions[0].body[0].results[0].id: value 0 is defined twice"),
        (f"{INST}.loc", [1], "functions[0].body[0].loc: expected file, line, column and function"),
        (f"{INST}.regions", [{"end": {"id": 9}}], "reduce_max takes 0 regions, not 1"),
    ],
)  # fmt: skip
def test_errors_name_the_path(path, value, message):
    with pytest.raises(ParseError) as caught:
        json.loads(change(path, value))
    assert message in str(caught.value)


def test_bad_json_shows_its_place():
    with pytest.raises(ParseError) as caught:
        json.loads('{"ptir": 1,\n oops}')
    assert (caught.value.line, caught.value.column) == (2, 2)


@pytest.mark.parametrize(
    ("literal", "message"),
    [
        ({"dtype": "i8", "shape": [2], "data": [1]}, "1 elements do not have shape (2,)"),
        ({"dtype": "i8", "shape": [1], "data": [300]}, "300 does not fit dtype i8"),
        ({"dtype": "i8", "shape": [1], "data": [1.5]}, "expected an integer, found 1.5"),
        ({"dtype": "i8", "shape": [-1], "data": []}, "a size is negative"),
        ({"dtype": "bool", "shape": [1], "data": [1]}, "1 is not true or false"),
        ({"dtype": "c64", "shape": [1], "data": [[1]]}, "a complex number is a pair"),
        ({"dtype": "f32", "shape": [1], "base64": "??"}, "these are no base64 data"),
        ({"dtype": "f32", "shape": []}, "expected an array, found null"),
    ],
)
def test_errors_of_data(literal, message):
    f = Function("f")
    f.body.append(ops.constant, (), ConstantAttrs(Literal.full(dtypes.float32, (1,), 0)))
    root = standard.loads(json.dumps(f))
    root["functions"][0]["body"][0]["attrs"]["literal"] = literal
    with pytest.raises(ParseError) as caught:
        json.loads(standard.dumps(root))
    assert message in str(caught.value)
    assert "functions[0].body[0].attrs.literal" in str(caught.value)


def test_values_of_ended_regions_are_not_visible():
    program = standard.loads(json.dumps(text.parse(nested(1))))
    body = program["functions"][0]["body"]
    inner = {"id": 90, "op": "neg", "operands": [1], "results": [{"id": 91, "type": "tensor<f32>"}]}
    body[0]["regions"][0]["body"].append(inner)
    json.loads(standard.dumps(program | {"functions": [program["functions"][0] | {"next": [99, 99]}]}))
    body[0]["regions"][1]["end"]["operands"] = [91]
    with pytest.raises(ParseError, match="value 91 is not defined here"):
        json.loads(standard.dumps(program))
