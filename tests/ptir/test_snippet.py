"""Snippets: placeholders of every kind, results, errors, and that a failed snippet leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.errors import GraphError, ParseError
from planish.ptir import text
from planish.ptir.builder import Graph
from planish.ptir.interpret import interpret
from planish.ptir.snippet import Snippet, fill
from planish.ptir.types import Dim, TensorType, tensor
from planish.ptir.verify import verify

B = Dim.named("B", 1, 64)

SHIFT = Snippet("""
  %m = reduce_max {{x}} {axes=[{{axis}}], keepdims={{keep}}}
  %b = broadcast_to %m {dims={{dims}}} : tensor<{{dtype}}, {{dims}}>
  %d = sub %x, %b
  return %d, %m
""")


def graph(dims=(B, 8), dtype="f32"):
    g = Graph("f")
    return g, g.input("x", tensor(dtype, dims))


def test_a_snippet_adds_what_the_builder_would(golden):
    g, x = graph()
    results = SHIFT(g, x=x, axis=1, keep=True, dims=x.dims, dtype=x.dtype)
    f = g.build(results.tuple_element(0).exp())
    verify(f)
    golden.check("ptir/text/snippet.ptir", text.print(f))
    h, y = graph()
    m = y.reduce_max([1], keepdims=True)
    by_hand = h.build(y.sub(m.broadcast_like(y)).exp())
    array = np.arange(24, dtype=np.float32).reshape(3, 8)
    assert np.array_equal(interpret(f, [array])[0], interpret(by_hand, [array])[0])


def test_results_are_taken_one_or_several():
    g, x = graph()
    results = SHIFT(g, x=x, axis=1, keep=True, dims=x.dims, dtype=x.dtype)
    assert len(results) == 2
    assert [value.type for value in results] == [x.type, TensorType(dtypes.float32, (B, 1))]
    with pytest.raises(GraphError, match=r"the snippet has 2 results, not one.*test_snippet.py"):
        results.into_value()
    with pytest.raises(GraphError, match="the snippet has no result 2: it has 2"):
        results.tuple_element(2)
    with pytest.raises(GraphError, match="no result -1"):
        results.tuple_element(-1)
    assert Snippet("%y = neg %x\nreturn %y")(g, x=x).into_value().type == x.type


def test_instructions_get_the_line_of_the_call():
    g, x = graph()
    (result,) = Snippet("%y = neg %x\nreturn %y")(g, x=x)
    inst = result.value.def_inst
    assert inst is not None
    assert inst.loc is not None
    assert inst.loc.file.endswith("test_snippet.py")
    assert result.value.name == "y"


@pytest.mark.parametrize(
    ("source", "arguments", "filled"),
    [
        ("{{a}}", {"a": 3}, "3"),
        ("{{a}}", {"a": True}, "true"),
        ("{{ a }}", {"a": 0.5}, "0.5"),
        ("{{a}}", {"a": float("inf")}, "inf"),
        ("{{a}}", {"a": dtypes.bfloat16}, "bf16"),
        ("{{a}}", {"a": 'say "x"'}, '"say \\"x\\""'),
        ("{{a}}", {"a": B * 2 + 1}, "2*B+1"),
        ("{{a}}", {"a": (4, B)}, "[4, B]"),
        ("{{a}}", {"a": []}, "[]"),
        ("{{a}}", {"a": [True, False]}, "[true, false]"),
        ("tensor<f32, {{a}}>", {"a": (4, B, B + 1)}, "tensor<f32, 4x(B)x(B+1)>"),
        ("tensor<f32, {{a}}x{{b}}>", {"a": 2, "b": B}, "tensor<f32, 2x(B)>"),
        ("tensor<f32, {{a}}>", {"a": ()}, "tensor<f32, >"),
        ("tensor<i8, {{a}}, quant<f32, scale={{s}}>> {{a}}", {"a": (2,), "s": (0.5, 1.0)}, "tensor<i8, 2, quant<f32, scale=[0.5, 1.0]>> [2]"),
        ("{{a}} {{a}}", {"a": TensorType(dtypes.float32, (B,))}, "tensor<f32, B> tensor<f32, B>"),
    ],
)  # fmt: skip
def test_placeholders_are_written_as_their_place_asks(source, arguments, filled):
    assert fill(source, **arguments) == filled


def test_several_values_in_one_placeholder():
    g, x = graph((2,))
    joined = Snippet("%j = concat {{xs}} {axis=0}\nreturn %j, %xs.1")
    a, b = joined(g, xs=[x, x.neg(), x.abs()])
    assert a.dims == (6,)
    assert b.value.def_inst is not None
    assert b.value.def_inst.op.name == "neg"


def test_snippets_inside_regions_see_outer_values():
    g, x = graph((4,))
    twice = Snippet("%y = add {{x}}, %x\nreturn %y")
    (total,) = g.cond(x.eq(x).reduce_and([0]), lambda: twice(g, x=x).into_value(), lambda: x)
    f = g.build(total)
    verify(f)
    array = np.arange(4, dtype=np.float32)
    assert interpret(f, [array])[0].tolist() == [0, 2, 4, 6]


def test_snippets_may_hold_regions():
    g, x = graph((4,))
    loop = Snippet("""
      %i = constant 0 : tensor<i64>
      %n, %r = while %i, {{x}} (%j: tensor<i64>, %s: {{type}}) {
        %limit = constant {{steps}} : tensor<i64>
        %more = lt %j, %limit
        return %more
      } (%j: tensor<i64>, %s: {{type}}) {
        %one = constant 1 : tensor<i64>
        %next = add %j, %one
        %sum = add %s, %x
        return %next, %sum
      }
      return %r
    """)
    f = g.build(loop(g, x=x, type=x.type, steps=3).into_value())
    verify(f)
    assert interpret(f, [np.ones(4, np.float32)])[0].tolist() == [4, 4, 4, 4]


def test_a_failed_snippet_leaves_the_graph_as_it_was():
    g, x = graph((4,))
    before = text.print(g.function)
    bad = Snippet("""
      %y = neg {{x}}
      %z = cond %p {
        %w = neg %x
        return %w
      } {
        %v = reshape %x {dims=[{{n}}]}
        return %v
      }
      return %z
    """)
    p = x.eq(x).reduce_and([0])
    before = text.print(g.function)
    with pytest.raises(ParseError) as caught:
        bad(g, x=x, p=p, n=5)
    assert "tensor<f32, 4> has 4 elements, shape (5) has 5" in str(caught.value)
    assert "test_snippet.py" in str(caught.value)
    assert caught.value.line == 7
    assert text.print(g.function) == before
    verify(g.build(p))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"axis": 1, "keep": True, "dims": (B, 8)}, "the snippet needs dtype"),
        ({"axs": 1}, "the snippet has no placeholder 'axs'; at .*did you mean 'axis'"),
        (
            {"axis": object(), "keep": True, "dims": (), "dtype": "f32"},
            "placeholder 'axis' cannot be <object",
        ),
    ],
)
def test_arguments_are_checked(arguments, message):
    g, x = graph()
    with pytest.raises(GraphError, match=message):
        SHIFT(g, x=x, **arguments)


def test_values_must_belong_to_the_graph():
    g, _ = graph()
    _, y = graph()
    with pytest.raises(GraphError, match="belongs to another graph"):
        Snippet("%z = neg {{y}}\nreturn %z")(g, y=y)


def test_a_finished_graph_takes_no_snippet():
    g, x = graph()
    g.build(x)
    with pytest.raises(GraphError, match="graph f is finished"):
        Snippet("return %x")(g, x=x)


def test_a_snippet_as_a_function_of_its_own():
    double = Snippet("%y = add %x, %x\n%z = cast %y {dtype={{to}}}\nreturn %z")
    f = double.function("double", x=tensor("f32", (B,)), to=dtypes.float64)
    verify(f)
    assert f.name == "double"
    assert [p.name for p in f.params] == ["x"]
    assert f.result_types == (TensorType(dtypes.float64, (B,)),)


def test_text_behind_return_is_an_error():
    g, x = graph()
    with pytest.raises(ParseError, match="expected the end"):
        Snippet("return %x\n}")(g, x=x)
