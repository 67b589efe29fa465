"""The importer: control flow, cuts, sequences, functions, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from planish.errors import PlanishError
from planish.onnx import InferenceSession, Model, load
from planish.onnx.registry import Unsupported

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def parsed(text: str, *, native: bool = False, **constants: np.ndarray) -> Model:
    """A model in ONNX's own text form; named constants become initialisers."""
    proto = onnx.parser.parse_model(HEADER + text)
    proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return Model(proto, interpret=not native)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


IF = """
agraph (bool c, float[2] x) => (float[2] y) {
  y = If (c) <
    then_branch = yes () => (float[2] a) { a = Add(x, x) },
    else_branch = no () => (float[2] b) { b = Neg(x) }
  >
}
"""


@pytest.mark.parametrize("native", [False, True])
def test_both_branches_of_an_if_are_one_program(native: bool):
    model = parsed(IF, native=native)
    for flag, wanted in ((True, [2, 4]), (False, [-1, -2])):
        assert model.run(None, {"c": np.array(flag), "x": array(1, 2)})[0].tolist() == wanted
    assert model.compilations == 1


def test_branches_of_different_shapes_are_chosen_by_data():
    model = parsed("""
        agraph (bool c, float[2] x) => (float[n] y) {
          y = If (c) <
            then_branch = yes () => (float[4] a) { a = Concat<axis = 0>(x, x) },
            else_branch = no () => (float[2] b) { b = Neg(x) }
          >
        }""")
    assert model(c=np.array(True), x=array(1, 2))[0].tolist() == [1, 2, 1, 2]
    assert model(c=np.array(False), x=array(1, 2))[0].tolist() == [-1, -2]
    before = model.compilations
    assert model(c=np.array(True), x=array(3, 4))[0].tolist() == [3, 4, 3, 4]
    assert model.compilations == before


LOOP = """
agraph (int64 n, float[2] x) => (float[2] last, float[k, 2] all) {{
  last, all = Loop ({most}, {condition}, x) <
    body = step (int64 i, bool going, float[2] v) => (bool again, float[2] w, float[2] row) {{
      w = Add(v, v)
      row = Identity(v)
      again = {again}
    }}
  >
}}
"""


def test_a_loop_of_known_length_is_a_scan():
    text = LOOP.format(most="three", condition="", again="Identity(going)")
    model = parsed(text, three=np.array(3))
    last, rows = model(n=np.array(0), x=array(1, 2))
    assert last.tolist() == [8, 16]
    assert rows.tolist() == [[1, 2], [2, 4], [4, 8]]
    assert "scan" in model.lower().as_text("ptir")


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_loop_whose_length_is_data(count: int):
    model = parsed(LOOP.format(most="n", condition="", again="Identity(going)"))
    last, rows = model(n=np.array(count), x=array(1, 2))
    assert last.tolist() == [2**count, 2 ** (count + 1)]
    assert rows.shape == (count, 2)
    assert rows.tolist() == [[2**k, 2 ** (k + 1)] for k in range(count)]


@pytest.mark.parametrize("native", [False, True])
def test_a_loop_that_data_ends_stacks_what_it_made(native: bool):
    text = """
    agraph (float[2] x) => (float[2] last, float[k, 2] all) {
      last, all = Loop (most, yes, x) <
        body = step (int64 i, bool going, float[2] v) => (bool again, float[2] w, float[2] row) {
          w = Add(v, v)
          row = Identity(v)
          big = ReduceMax<keepdims = 0>(w)
          again = Less(big, limit)
        }
      >
    }"""
    model = parsed(text, native=native, most=np.array(50), yes=np.array(True), limit=np.array(20, np.float32))
    last, rows = model(x=array(1, 2))
    assert last.tolist() == [16, 32]
    assert rows.tolist() == [[1, 2], [2, 4], [4, 8], [8, 16]]
    steps = model.compilations
    assert model(x=array(0, 1))[1].shape == (5, 2)
    # the loop itself is not compiled again for another number of steps
    assert model.compilations == steps


@pytest.mark.parametrize("native", [False, True])
def test_rows_of_a_loop_whose_length_is_data_are_one_program_per_doubling(native: bool):
    model = parsed(
        """
        agraph (int64 n, float[2] x) => (float[2] last, float[m, 2] rows) {
          last, rows = Loop (n, , x) <body = step (int64 i, bool c, float[2] a) => (bool d, float[2] b, float[2] r) {
            d = Identity(c)
            f = CastLike(i, a)
            b = Add(a, f)
            r = Mul(b, f)
          }>
        }""",
        native=native,
    )
    for count in (3, 1, 0, 7, 16, 2):
        last, rows = model.run(None, {"n": np.array(count), "x": array(1, 2)})
        sums = np.cumsum(np.arange(count, dtype=np.float32))
        assert last.tolist() == (array(1, 2) + (sums[-1] if count else 0)).tolist()
        wanted = (array(1, 2) + sums[:, None]) * np.arange(count, dtype=np.float32)[:, None]
        assert rows.shape == (count, 2)
        assert rows.tolist() == wanted.tolist()
    assert model.compilations == 1
    model.run(None, {"n": np.array(17), "x": array(1, 2)})
    model.run(None, {"n": np.array(32), "x": array(1, 2)})
    assert model.compilations == 2


def test_a_loop_that_grows_what_it_carries_is_run_step_by_step():
    model = parsed(
        """
        agraph (float[1] x) => (float[k] y) {
          y = Loop (three, , x) <
            body = step (int64 i, bool going, float[m] v) => (bool again, float[p] w) {
              w = Concat<axis = 0>(v, x)
              again = Identity(going)
            }
          >
        }""",
        three=np.array(3),
    )
    assert model(x=array(7))[0].tolist() == [7, 7, 7, 7]


def test_steps_of_a_loop_with_a_known_counter_are_one_program():
    """The counter decides where a slice begins, data decides when it ends: one compilation for all steps."""
    text = """
    agraph (float[32] x) => (float[1] y) {
      k, y = Loop (most, yes, zero, first) <
        body = step (int64 i, bool going, int64[1] at, float[1] v) => (bool again, int64[1] next, float[1] w) {
          next = Add(at, one)
          part = Slice(x, at, next)
          w = Add(v, part)
          big = ReduceMax<keepdims = 0>(w)
          again = Less(big, limit)
        }
      >
    }"""
    model = parsed(
        text,
        most=np.array(2**60),
        yes=np.array(True),
        zero=np.array([0]),
        one=np.array([1]),
        first=array(0),
        limit=np.array(25, np.float32),
    )
    x = np.ones(32, np.float32)
    assert model(x=x)[0].tolist() == [25]
    assert model.compilations <= 3


def test_scan_along_axes_and_backwards():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "v"], ["t"]), helper.make_node("Identity", ["t"], ["row"])],
        "body",
        [helper.make_tensor_value_info(n, F32, [2]) for n in ("s", "v")],
        [helper.make_tensor_value_info(n, F32, [2]) for n in ("t", "row")],
    )
    node = helper.make_node(
        "Scan", ["s0", "x"], ["s1", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[1],
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("s0", F32, [2]), helper.make_tensor_value_info("x", F32, [2, 3])],
        [helper.make_tensor_value_info("s1", F32, [2]), helper.make_tensor_value_info("y", F32, [2, 3])],
    )
    model = Model(helper.make_model(graph), interpret=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    state, rows = model(s0=array(0, 0), x=x)
    assert state.tolist() == [3, 12]
    assert rows.tolist() == np.cumsum(x[:, ::-1], 1).tolist()


def test_a_shape_that_is_data_cuts_the_model_and_is_cached():
    model = parsed(
        "agraph (float[a, b] x, int64[2] s) => (float[c, d] y) { z = Add(x, x) t = Reshape(z, s) y = Neg(t) }"
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shape in ((3, 2), (6, 1), (3, 2), (1, 6)):
        assert model(x=x, s=np.array(shape))[0].tolist() == (-2 * x).reshape(shape).tolist()
    assert model.compilations == 3
    with pytest.raises(PlanishError, match="Reshape"):
        model(x=x, s=np.array((4, 2)))


def test_sizes_found_on_the_way_are_used_further_on():
    model = parsed("""
        agraph (float[n] x) => (float[k] y, int64[1, k] where) {
          where = NonZero(x)
          shape = Constant<value_ints = [-1]>()
          flat = Reshape(where, shape)
          found = Gather<axis = 0>(x, flat)
          y = Mul(found, found)
        }""")
    for x in (array(0, 2, 0, 3), array(1, 0, 0, 0), array(0, 0, 0, 5)):
        y, where = model(x=x)
        assert y.tolist() == (x[x != 0] ** 2).tolist()
        assert where.tolist() == [np.nonzero(x)[0].tolist()]


def test_sequences_and_optionals():
    model = parsed("""
        agraph (float[2] x, float[3] y) => (float[5] joined, int64 length, float[3] second) {
          empty = SequenceEmpty()
          one = SequenceInsert(empty, x)
          two = SequenceInsert(one, y)
          same = Identity(two)
          length = SequenceLength(same)
          position = Constant<value_int = 1>()
          second = SequenceAt(same, position)
          joined = ConcatFromSequence<axis = 0>(two)
        }""")
    joined, length, second = model(x=array(1, 2), y=array(3, 4, 5))
    assert joined.tolist() == [1, 2, 3, 4, 5]
    assert length == 2
    assert second.tolist() == [3, 4, 5]


def test_a_position_that_is_data_takes_from_a_sequence():
    model = parsed("""
        agraph (float[2] x, int64 p) => (float[2] y) {
          a = Neg(x)
          s = SequenceConstruct(x, a)
          y = SequenceAt(s, p)
        }""")
    assert model(x=array(1, 2), p=np.array(0))[0].tolist() == [1, 2]
    assert model(x=array(1, 2), p=np.array(-1))[0].tolist() == [-1, -2]


def test_functions_of_the_model_and_of_onnx():
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        agraph (float[3] x) => (float[3] y, float[1] z) {
          y = own.scaled <by = 3.0> (x)
          z = own.reshaped (x)
        }
        <domain: "own", opset_import: ["" : 21]>
        scaled <by> (v) => (w) { f = Constant<value_float: float = @by>() w = Mul(v, f) }
        <domain: "own", opset_import: ["" : 21]>
        reshaped (v) => (w) {
          total = ReduceSum<keepdims = 0>(v)
          shape = Constant<value_ints = [-1]>()
          w = Reshape(total, shape)
        }""")
    model = Model(proto, interpret=True)
    y, z = model(x=array(1, 2, 3))
    assert y.tolist() == [3, 6, 9]
    assert z.tolist() == [6]


def test_a_cut_inside_a_function_keeps_what_its_caller_needs():
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        agraph (float[4] x, int64[2] s) => (float[4] y, float[a, b] z) {
          kept = Neg(x)
          t = Add(s, s)
          z = own.reshaped (x, t)
          y = Add(kept, x)
        }
        <domain: "own", opset_import: ["" : 21]>
        reshaped (v, s) => (w) { h = Constant<value_int = 2>() u = Div(s, h) w = Reshape(v, u) }""")
    y, z = Model(proto, interpret=True)(x=array(1, 2, 3, 4), s=np.array([2, 2]))
    assert y.tolist() == [0, 0, 0, 0]
    assert z.tolist() == [[1, 2], [3, 4]]


def test_outputs_may_be_inputs_and_constants():
    model = parsed("agraph (float[2] x) => (float[2] x, float[1] c, float[2] y) { y = Neg(x) }", c=array(5))
    x = array(1, 2)
    same, constant, negated = model(x=x)
    assert (same.tolist(), constant.tolist(), negated.tolist()) == ([1, 2], [5], [-1, -2])
    same[0] = constant[0] = 9
    assert x.tolist() == [1, 2]
    assert model(x=x)[1].tolist() == [5]


def test_initialisers_that_are_inputs_can_be_given():
    model = parsed("agraph (float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }", w=array(2, 3))
    assert [info.name for info in model.inputs] == ["x"]
    assert [info.name for info in model.optional_inputs] == ["w"]
    assert model(x=array(1, 1))[0].tolist() == [2, 3]
    assert model(x=array(1, 1), w=array(5, 7))[0].tolist() == [5, 7]
    assert model(x=array(1, 1))[0].tolist() == [2, 3]


def test_outputs_by_name_and_inputs_by_keyword():
    model = parsed("agraph (float[2] x) => (float[2] a, float[2] b) { a = Neg(x) b = Add(x, x) }")
    assert [r.tolist() for r in model.run(["b"], {"x": array(1, 2)})] == [[2, 4]]
    with pytest.raises(PlanishError, match="no output 'c'"):
        model.run(["c"], {"x": array(1, 2)})
    with pytest.raises(PlanishError, match="no input 'z'"):
        model(z=array(1))
    with pytest.raises(PlanishError, match=r"input x: float32\[2\] is missing"):
        model()
    with pytest.raises(PlanishError, match="astype"):
        model(x=np.array([1.0, 2.0]))
    with pytest.raises(PlanishError, match=r"is given float32\[3\]"):
        model(x=array(1, 2, 3))


def test_inputs_without_names_are_one_clear_error():
    text = "agraph (float[2] x) => (float[2] y) { y = Neg(x) }"
    session = InferenceSession(onnx.parser.parse_model(HEADER + text).SerializeToString())
    unnamed: Any = [array(1, 2)]
    for run in (parsed(text).run, session.run):
        with pytest.raises(PlanishError, match=r"inputs are given by name, not as a list.*a dict with x"):
            run(None, unnamed)
    with pytest.raises(PlanishError, match="by name"):
        session.run_async(None, unnamed, lambda *_: None)


def test_random_numbers_are_drawn_anew_on_every_run():
    model = parsed("agraph (float[2] x) => (float[100] y) { y = RandomNormal<shape = [100]>() }")
    first, second, third = (model(x=array(0, 0))[0] for _ in range(3))
    assert not np.array_equal(first, second)
    assert not np.array_equal(second, third)


def test_text_is_worked_on_by_the_host():
    model = parsed("""
        agraph (string[n] a, string[n] b) => (string[n] c, bool[n] m, string[n, k] parts, int64[n] count) {
          c = StringConcat(a, b)
          m = RegexFullMatch<pattern = "x.*">(c)
          parts, count = StringSplit<delimiter = "-">(c)
        }""")
    given = {"a": np.array(["x-", "y"], object), "b": np.array(["1-2", "z"], object)}
    c, matches, parts, count = model.run(None, given)
    assert c.tolist() == ["x-1-2", "yz"]
    assert matches.tolist() == [True, False]
    assert parts.tolist() == [["x", "1", "2"], ["yz", "", ""]]
    assert count.tolist() == [3, 1]


def test_everything_unsupported_is_told_at_once():
    proto = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21, "other" : 1]>
        agraph (float[2] x) => (float[2] y) {
          a = other.Foo(x) b = other.Foo(a) c = other.Bar(b) y = Neg(c)
        }""")
    with pytest.raises(Unsupported, match=r"other:Bar 1 \(1×: for c\); other:Foo 1 \(2×: for a, for b\)"):
        Model(proto)


def test_attributes_that_nobody_reads_are_an_error():
    node = helper.make_node("Neg", ["x"], ["y"], name="odd", strange=1)
    info = [helper.make_tensor_value_info(n, F32, [2]) for n in "xy"]
    model = Model(helper.make_model(helper.make_graph([node], "g", info[:1], info[1:])), interpret=True)
    with pytest.raises(Unsupported, match=r"node 'odd' \(Neg\): attribute strange is not understood"):
        model(x=array(1, 2))


def test_errors_name_the_node():
    model = parsed("agraph (float[2] x, float[3] y) => (float[2] z) { z = Add(x, y) }")
    with pytest.raises(PlanishError, match=r"Add node \(for z\)"):
        model(x=array(1, 2), y=array(1, 2, 3))


def test_one_compilation_for_a_bounded_dim():
    text = '<ir_version: 10, opset_import: ["" : 21]> agraph (float[batch, 3] x) => (float[batch, 3] y) { y = Relu(x) }'
    model = load(onnx.parser.parse_model(text), dims={"batch": (1, 8)})
    for size in (1, 5, 8):
        x = np.arange(-3, 3 * size - 3, dtype=np.float32).reshape(size, 3)
        assert np.array_equal(model(x=x)[0], np.maximum(x, 0))
    assert model.compilations == 1
    with pytest.raises(PlanishError, match="batch is 1 to 8"):
        model(x=np.zeros((9, 3), np.float32))
    fixed = load(onnx.parser.parse_model(text), dims={"batch": 4})
    assert "4x3" in fixed.lower().as_text("ptir")
    with pytest.raises(PlanishError, match="no input of the model has a dim 'n'"):
        load(onnx.parser.parse_model(text), dims={"n": 4})


def test_one_compilation_of_a_convolutional_network_for_all_batches():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        agraph (float[batch, 2, 6, 6] x) => (float[batch, 3] y)
        <float[4, 2, 3, 3] w, float[4] one, float[4] zero, float[8, 3] m> {
          a = Conv<pads = [1, 1, 1, 1]>(x, w)
          b = BatchNormalization(a, one, zero, zero, one)
          c = Relu(b)
          d = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
          e = GlobalAveragePool(d)
          f = Concat<axis = 1>(e, e)
          g = Flatten(f)
          h = MatMul(g, m)
          y = Softmax(h)
        }"""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.standard_normal((4, 2, 3, 3)),
        "one": np.ones(4),
        "zero": np.zeros(4),
        "m": np.eye(8, 3),
    }
    _agrees_for_all_batches(text, weights, lambda n: rng.standard_normal((n, 2, 6, 6)).astype(np.float32))


def test_one_compilation_of_attention_whose_shapes_are_computed():
    """As exporters write it: the batch is asked for, and put in front of what a reshape says."""
    text = """<ir_version: 10, opset_import: ["" : 17]>
        agraph (float[batch, 5, 8] x) => (float[batch, 5, 8] y)
        <float[8, 8] w, float[8] scale, int64[3] apart = {5, 2, 4}, int64[1] all = {-1}, int64[1] width = {8},
         int64 first = {0}, int64[1] front = {0}, int64[1] two = {2}, int64 one = {1}> {
          shape = Shape(x)
          size = Gather(shape, first)
          batch = Unsqueeze(size, front)
          split = Concat<axis = 0>(batch, apart)
          n = LayerNormalization(x, scale)
          p = MatMul(n, w)
          q = Reshape(p, split)
          k = Transpose<perm = [0, 2, 1, 3]>(q)
          t = Transpose<perm = [0, 2, 3, 1]>(q)
          s = MatMul(k, t)
          a = Softmax(s)
          v = MatMul(a, k)
          u = Transpose<perm = [0, 2, 1, 3]>(v)
          lead = Slice(shape, front, two)
          joined = Concat<axis = 0>(lead, all)
          r = Reshape(u, joined)
          y = Add(r, x)
        }"""
    rng = np.random.default_rng(4)
    weights = {"w": 0.3 * rng.standard_normal((8, 8)), "scale": np.ones(8)}
    _agrees_for_all_batches(text, weights, lambda n: rng.standard_normal((n, 5, 8)).astype(np.float32))


def _agrees_for_all_batches(
    text: str, weights: dict[str, np.ndarray], make: Callable[[int], np.ndarray]
) -> None:
    """One program for 1, 7 and 64 samples, with the answers of the interpreter for each."""
    proto = onnx.parser.parse_model(text)
    for tensor in proto.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name].astype(np.float32), tensor.name))
    missing = [info for info in proto.graph.value_info if info.name in weights]
    for info in missing:
        proto.graph.value_info.remove(info)
        proto.graph.initializer.append(
            numpy_helper.from_array(weights[info.name].astype(np.float32), info.name)
        )
    model, plain = load(proto, dims={"batch": (1, 64)}), Model(proto, interpret=True)
    for size in (1, 7, 64):
        x = make(size)
        np.testing.assert_allclose(model(x=x)[0], plain(x=x)[0], rtol=1e-5, atol=1e-6)
    assert model.compilations == 1


def test_work_on_weights_alone_is_done_once():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        agraph (float[3, 80] x) => (float[3, 80] y) { b = Sqrt(w) c = Add(b, w) d = Mul(x, c) y = Add(d, x) }"""
    proto = onnx.parser.parse_model(text)
    weights = np.arange(1, 81, dtype=np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    lines = Model(proto).lower().as_text("ptir")
    assert "sqrt" not in lines


def test_what_a_handler_makes_of_weights_is_done_once():
    """The factor of a normalisation is a weight, and the raw ones are not given to the program."""
    text = """<ir_version: 10, opset_import: ["" : 17]>
        agraph (float[1, 80, 2] x) => (float[1, 80, 2] y) { y = BatchNormalization(x, s, b, m, v) }"""
    proto = onnx.parser.parse_model(text)
    numbers = np.arange(1, 81, dtype=np.float32)
    for name in "sbmv":
        proto.graph.initializer.append(numpy_helper.from_array(numbers, name))
    program = Model(proto).program()
    assert len(program.weights) == 2
    names = [inst.op.name for inst in program.function.walk()]
    assert "rsqrt" not in names
    x = np.ones((1, 80, 2), np.float32)
    (y,) = Model(proto, interpret=True)(x=x)
    wanted = (1 - numbers) / np.sqrt(numbers + 1e-5) * numbers + numbers
    np.testing.assert_allclose(y[0, :, 0], wanted, rtol=1e-4, atol=1e-4)


def test_where_an_op_needs_the_size_there_is_one_compilation_per_size():
    text = """<ir_version: 10, opset_import: ["" : 21]>
        agraph (float[batch, 3] x) => (float[n] y) { z = NonZero(x) s = Shape(z) y = Cast<to = 1>(s) }"""
    model = load(onnx.parser.parse_model(text), dims={"batch": (1, 8)})
    with pytest.warns(UserWarning, match="no one program for all sizes of batch: a NonZero node"):
        model(x=np.ones((1, 3), np.float32))
    for size in (1, 5):
        assert model(x=np.ones((size, 3), np.float32))[0].tolist() == [2, 3 * size]


def test_a_loop_that_a_counter_of_its_own_ends_is_a_scan():
    """As other frameworks export them: no trip count, a carried counter, a condition on it."""
    model = parsed(
        """
        agraph (float[4] x) => (float[1] y, float[k, 1] all) {
          n, y, all = Loop (, yes, zero, first) <
            body = step (int64 i, bool going, int64 at, float[1] v)
                => (bool again, int64 next, float[1] w, float[1] row) {
              next = Add(at, one)
              part = Gather(x, at)
              w = Add(v, part)
              row = Identity(w)
              again = Less(next, four)
            }
          >
        }""",
        yes=np.array(True),
        zero=np.array(0),
        one=np.array(1),
        four=np.array(4),
        first=array(0),
    )
    last, rows = model(x=array(1, 2, 3, 4))
    assert last.tolist() == [10]
    assert rows.tolist() == [[1], [3], [6], [10]]
    assert model.lower().as_text("ptir").count("scan") == 1


def test_an_op_that_onnx_defines_by_others_has_the_defaults_of_its_schema():
    model = parsed("agraph (float[3, 2, 2, 2] x) => (float[n] w, float[3, 2, 2, 2] y) { s = Constant<value_int = 5>() w = HannWindow(s) y = MeanVarianceNormalization(x) }")  # fmt: skip
    x = np.arange(24, dtype=np.float32).reshape(3, 2, 2, 2)
    window, normal = model(x=x)
    np.testing.assert_allclose(window, np.sin(np.pi * np.arange(5) / 5) ** 2, atol=1e-6)
    wanted = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(normal, wanted, atol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_such_an_op_inside_a_function_sees_the_attributes_of_the_call(reduction: str):
    text = f"""<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
        agraph (float[4, 3] x, int64[4] t) => (float[n] y) {{ y = own.loss<reduction = "{reduction}">(x, t) }}
        <opset_import: ["" : 21], domain: "own"> loss<reduction>(x, t) => (y) {{
          y = NegativeLogLikelihoodLoss<reduction: string = @reduction>(x, t)
        }}"""
    model = Model(onnx.parser.parse_model(text), interpret=True)
    x, t = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.array([2, 0, 1, 1])
    each = -x[np.arange(4), t]
    wanted = {"none": each, "sum": each.sum(), "mean": each.mean()}[reduction]
    np.testing.assert_allclose(model(x=x, t=t)[0], wanted, rtol=1e-6)


def test_an_output_that_nobody_asks_for_need_not_be_computed():
    model = parsed("agraph (float[4, 3] x, int64[4] t) => (float y) { y = SoftmaxCrossEntropyLoss(x, t) }")
    x, t = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.array([2, 0, 1, 1])
    shares = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    np.testing.assert_allclose(model(x=x, t=t)[0], -np.log(shares[np.arange(4), t]).mean(), rtol=1e-5)
