"""The DSL: one method per op, axes and dtypes checked at the call, the user's line remembered."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, GraphError, PlanishError, ShapeError
from planish.ptir import ops
from planish.ptir.builder import Graph, GraphValue
from planish.ptir.function import Program
from planish.ptir.interpret import interpret
from planish.ptir.types import Dim, Quant, TensorType, tensor


def next_line():
    return sys._getframe(1).f_lineno + 1


def graph(*types):
    g = Graph("test")
    return g, *(g.input(f"x{i}", t) for i, t in enumerate(types))


def evaluate(g, *results, inputs=()):
    return interpret(g.build(*results), inputs)


def test_softmax_as_in_the_seed():
    g = Graph("softmax")
    x = g.input("x", tensor("f32", (4, "B")))
    shifted = x.sub(x.reduce_max([1], keepdims=True).broadcast_like(x))
    e = shifted.exp()
    function = g.build(e.div(e.reduce_sum([1], keepdims=True).broadcast_like(e)))
    names = [inst.op.name for inst in function]
    assert names == ["reduce_max", "broadcast_to", "sub", "exp", "reduce_sum", "broadcast_to", "div"]
    assert str(function.results[0].type) == "tensor<f32, 4xB>"
    data = np.random.default_rng(0).standard_normal((4, 7)).astype(np.float32)
    (result,) = interpret(function, [data])
    wide = np.exp(data.astype(np.float64))
    np.testing.assert_allclose(result, wide / wide.sum(1, keepdims=True), rtol=1e-6)


def test_dot_general_as_in_the_seed():
    _g, a, b = graph(tensor("f32", (2, 3, 4)), tensor("f32", (2, 4, 5)))
    dims = ops.DotDims((0,), (2,), (1,))
    product = a.dot_general(b, dims, ops.DotAttrs())
    assert product.dims == (2, 3, 5)
    assert (a @ b).value.def_inst.attrs == product.value.def_inst.attrs
    narrow = a.cast("bf16").dot_general(b.cast("bf16"), dims, ops.DotAttrs(out_dtype=dtypes.float32))
    assert narrow.dtype is dtypes.float32
    assert narrow.value.def_inst.attrs.accum_dtype is dtypes.float32


def test_every_op_has_a_method():
    """Each op of the registry is a method of the handle or of the graph, under its own name."""
    renamed = {"while": "while_loop", "not": "not_", "and": "and_", "or": "or_"}
    for name in ops.REGISTRY:
        if name != "return":
            method = renamed.get(name, name)
            assert hasattr(GraphValue, method) or hasattr(Graph, method), name


@pytest.mark.parametrize(
    "name", [op.name for op in ops.REGISTRY.values() if op.elementwise and op.attrs_type is ops.NoAttrs]
)
def test_elementwise_methods_emit_their_op(name):
    """Called on the first dtype it takes, a method emits exactly the op of its name."""
    op = ops.REGISTRY[name]
    if name == "select":
        _, p, a = graph(tensor("bool", (2,)), tensor("f32", (2,)))
        assert p.select(a, 0.0).value.def_inst.op is op
        return
    method = {"not": "not_", "and": "and_", "or": "or_"}.get(name, name)
    for dtype in (dtypes.float32, dtypes.int32, dtypes.complex64):
        _g, *xs = graph(*[TensorType(dtype, (2, 3))] * op.min_operands)
        try:
            result = getattr(xs[0], method)(*xs[1:])
        except DTypeError:
            continue
        assert result.value.def_inst.op is op
        assert result.value.def_inst.operands == tuple(x.value for x in xs)
        return
    pytest.fail(f"{name} takes none of the dtypes tried")


def test_operators():
    g, x, y = graph(tensor("f32", (3,)), tensor("f32", (3,)))
    i = g.input("i", tensor("i32", (3,)))
    u = g.input("u", tensor("u8", (3,)))
    expressions = {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "floor_div": x // y, "floor_mod": x % y,
        "pow": x**y, "neg": -x, "abs": abs(x), "and": i & i, "or": i | i, "xor": i ^ i, "not": ~i, "shl": i << i,
        "shr_arithmetic": i >> i, "shr_logical": u >> u, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y,
    }  # fmt: skip
    for name, value in expressions.items():
        assert value.value.def_inst.op.name == name
    for reflected, name in (
        (1 + x, "add"),
        (1 - x, "sub"),
        (2 * x, "mul"),
        (1 / x, "div"),
        (2**x, "pow"),
        (7 // x, "floor_div"),
        (7 % x, "floor_mod"),
    ):
        inst = reflected.value.def_inst
        assert inst.op.name == name
        assert inst.operands[1] is x.value
        assert inst.operands[0].literal is not None


def test_numbers_take_the_dtype_and_shape_of_the_other_side():
    size = Dim.named("B", 1, 8)
    g, x, d = graph(tensor("bf16", (2, 2)), TensorType(dtypes.float32, (size,)))
    constant = (x + 0.1).value.def_inst.operands[1]
    assert constant.type == x.type
    assert constant.literal is not None
    assert constant.literal.splat
    stretched = (d * 2).value.def_inst.operands[1]
    assert stretched.type == d.type
    assert stretched.def_inst.op is ops.broadcast_to
    i = g.input("i", tensor("i8", (2,)))
    line = next_line()
    with pytest.raises(DTypeError, match=r"300.*i8") as caught:
        i + 300
    assert caught.value.location is not None
    assert caught.value.location.line == line + 1


def test_mistakes_raise_at_the_call_with_the_users_line():
    g, x, y = graph(tensor("f32", (2, 3)), tensor("f64", (2, 3)))
    turned = x.transpose()
    calls = [
        (lambda: x.reduce_max([2]), ShapeError, "axis 2 is out of range for tensor<f32, 2x3>"),
        (lambda: x.reduce_max([0, -2]), ShapeError, "twice"),
        (lambda: x.add(y), DTypeError, "cast one of them"),
        (lambda: x.add(turned), ShapeError, "broadcast"),
        (lambda: x.reshape(4, -1), ShapeError, "elements"),
        (lambda: x.reshape(-1, -1), ShapeError, "more than one -1"),
        (lambda: x.transpose([0, 0]), ShapeError, "permutation"),
        (lambda: x.slice([0, 0], [2, 4]), ShapeError, "not certain"),
        (lambda: x.matmul(x), ShapeError, "different sizes"),
        (lambda: x.and_(x), DTypeError, "bool or an integer"),
        (lambda: x.squeeze(0), ShapeError, "not 1"),
        (lambda: x.dequantize(), ShapeError, "not quantised"),
        (lambda: x.argmax(5), ShapeError, "axis 5"),
        (lambda: x.cast("f31"), DTypeError, "f31"),
        (lambda: x[5], ShapeError, "index 5"),
        (lambda: x[0, 0, 0], ShapeError, "does not fit"),
        (lambda: g.concat([]), GraphError, "nothing"),
        (lambda: g.input("x0", x.type), GraphError, "already"),
        (lambda: bool(x), GraphError, "truth value"),
        (lambda: list(x), GraphError, "iterated"),
        (lambda: g.iota((2, 3), 2), ShapeError, "axis 2"),
        (lambda: x.top_k(4), ShapeError, "k = 4"),
    ]
    before = len(g.function)
    for call, error, message in calls:
        with pytest.raises(error, match=message) as caught:
            call()
        assert isinstance(caught.value, PlanishError)
        assert caught.value.location is not None
        assert Path(caught.value.location.file).name == "test_builder.py"
        assert caught.value.location.line == call.__code__.co_firstlineno
    assert len(g.function) == before, "a mistake leaves nothing behind"


def test_locations_are_the_users_lines():
    _g, x = graph(tensor("f32", (2, 3)))
    line = next_line()
    y = x.exp()
    assert y.value.def_inst.loc.line == line
    assert y.value.def_inst.loc.function.endswith("test_locations_are_the_users_lines")


def test_metadata_and_names():
    _g, x = graph(tensor("f32", (4, "B"), B=(1, 64)))
    assert x.dtype is dtypes.float32
    assert x.rank == 2
    assert x.dims == (4, Dim.named("B", 1, 64))
    assert x.value.name == "x0"
    assert x.exp().named("e").value.name == "e"
    assert "x0" in repr(x)


def test_import_value():
    g, x = graph(tensor("f32", (2,)))
    y = x.exp()
    adopted = g.import_value(y.value, "y")
    assert adopted.value is y.value
    assert adopted.value.name == "y"
    fresh = g.import_value(tensor("i32", (3,)), "n")
    assert g.function.params[-1] is fresh.value
    other = Graph("other")
    with pytest.raises(GraphError, match="another graph"):
        other.import_value(y.value)
    more = Graph(function=g.function)
    function = more.build(more.import_value(y.value).neg())
    assert [inst.op.name for inst in function] == ["exp", "neg"]


def test_values_of_other_graphs_and_ended_regions_are_refused():
    g, x = graph(tensor("f32", ()))
    _other, z = graph(tensor("f32", ()))
    with pytest.raises(GraphError, match="another graph"):
        x.add(z)
    leaked: list[GraphValue] = []

    def leak():
        leaked.append(x.exp())
        return leaked[0]

    g.cond(x.gt(0), leak, lambda: x)
    with pytest.raises(GraphError, match="region that has ended"):
        leaked[0].neg()
    g.build(x)
    with pytest.raises(GraphError, match="finished"):
        x.neg()
    with pytest.raises(GraphError, match="not a value"):
        z.graph.emit(ops.neg, ["x"])


def test_constants():
    g = Graph("test")
    results = evaluate(
        g,
        g.constant(3),
        g.constant(2.5, "bf16"),
        g.constant([[1, 2], [3, 4]], "u8"),
        g.constant(np.arange(3, dtype=np.float32)),
        g.constant(True, dims=(2,)),
        g.constant([1.0, 2.0], "f16", dims=(3, 2)),
        g.full((2, 2), -0.0, "f32"),
        g.iota((2, 3), -1, "i32"),
    )
    assert [r.dtype.name for r in results] == [
        "int64",
        "bfloat16",
        "uint8",
        "float32",
        "bool",
        "float16",
        "float32",
        "int32",
    ]
    assert [r.tolist() for r in results[3:6]] == [[0, 1, 2], [True, True], [[1, 2]] * 3]
    assert np.signbit(results[6]).all()
    assert results[7].tolist() == [[0, 1, 2]] * 2
    with pytest.raises(DTypeError, match="does not fit"):
        Graph().constant([300], "u8")
    with pytest.raises(DTypeError, match="does not fit"):
        Graph().constant([0.5], "i32")


INDICES = [
    1, -1, slice(1, None), slice(None, None, -1), (slice(None), 2), (0, slice(3, 0, -2)), (..., 1), (None, 1, ..., None),
    (slice(0, 0), ...), (slice(-2, None), slice(None, -1)), (1, 2, None), ...,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_basic_indexing_is_numpys(index):
    data = np.arange(20, dtype=np.int32).reshape(4, 5)
    g, x = graph(tensor("i32", (4, 5)))
    (result,) = evaluate(g, x[index], inputs=[data])
    expected = data[index]
    assert result.shape == expected.shape
    assert np.array_equal(result, expected)


def test_movement_helpers():
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    g, x = graph(tensor("f32", (2, 3)))
    y = np.array([2, 0])
    results = evaluate(
        g,
        x.reshape(3, -1),
        x.expand_dims(-1),
        x.expand_dims(1).squeeze(1),
        x.transpose(),
        x.take(g.constant(y), 1),
        x.take(g.constant(y % 2), 0),
        x.pad([1, 0], [0, -1], value=9),
        x.reverse(-1),
        g.concat([x, x], -1),
        x.dynamic_slice([0, g.constant(1)], [1, 2]),
        x.clamp(1, 3),
        x.square(),
        inputs=[data],
    )
    expected = [
        data.reshape(3, 2),
        data[..., None],
        data,
        data.T,
        data[:, y],
        data[y % 2],
        np.pad(data, ((1, 0), (0, 0)), constant_values=9)[:, :2],
        data[:, ::-1],
        np.concatenate([data, data], 1),
        data[:1, 1:],
        data.clip(1, 3),
        data**2,
    ]
    for got, wanted in zip(results, expected, strict=True):
        assert np.array_equal(got, wanted)


def test_attributes_reach_the_op():
    """Every optional argument, set to something else than its default, arrives in the attributes."""
    g, x, i = graph(tensor("f32", (2, 4)), tensor("i32", (2,)))
    a = g.input("a", tensor("f32", (2, 2)))
    z = g.input("z", tensor("c64", (3, 3)))
    scalars = [g.constant(1), g.constant(2)]
    conv = {"strides": [2], "padding": [(1, 2)], "lhs_dilation": [3], "rhs_dilation": [2], "groups": 2}
    image, kernel = g.input("image", tensor("f32", (1, 9, 4))), g.input("kernel", tensor("f32", (3, 2, 6)))
    cases = {
        x.scatter(x, [i], [0], "max", True): ops.ScatterAttrs((0,), "max", True),
        x.reduce_sum(-1, True): ops.ReduceAttrs((1,), True),
        x.reduce_prod((-1, 0)): ops.ReduceAttrs((0, 1), False),
        x.argmax(-1, True, "i32"): ops.ArgReduceAttrs(1, True, dtypes.int32),
        x.argmin(-1, True, "u8"): ops.ArgReduceAttrs(1, True, dtypes.uint8),
        x.cumsum(-1, True, False): ops.CumulativeAttrs(1, True, False),
        x.cumprod(-1, False, True): ops.CumulativeAttrs(1, False, True),
        x.cummax(-1, True, True): ops.CumulativeAttrs(1, True, True),
        x.cummin(0, True, True): ops.CumulativeAttrs(0, True, True),
        x.reduce_window("min", [1, 2], [2, 1], [(1, 0), (0, 2)], [1, 2], [3, 1]): ops.ReduceWindowAttrs(
            "min", (1, 2), (2, 1), (1, 0), (0, 2), (1, 2), (3, 1)
        ),
        image.convolution(kernel, "NWC", "WIO", "NCW", **conv): ops.ConvolutionAttrs(
            (2,), (1,), (2,), (3,), (2,), 2, "NWC", "WIO", "NCW", dtypes.float32, dtypes.float32
        ),
        x.sort(0, True): ops.SortAttrs(0, True, 1),
        x.sort_with([x], 0, True, 2)[0]: ops.SortAttrs(0, True, 2),
        x.top_k(1, 0, False, "i32")[1]: ops.TopKAttrs(1, 0, False, dtypes.int32),
        x.pad([1, 0], [2, 0], [0, 3], scalars[0].cast("f32").reshape(())): ops.PadAttrs(
            (1, 0), (2, 0), (0, 3)
        ),
        x.dynamic_slice(scalars, [1, 2]): ops.DynamicSliceAttrs((1, 2)),
        x.unique(3, -1)[0]: ops.UniqueAttrs(3, 1),
        x.nonzero(3)[0]: ops.NonzeroAttrs(3),
        x.quantize("u8", [0.5, 1.0], [1, 2], -2): ops.QuantizeAttrs(
            dtypes.uint8, Quant(dtypes.float32, (0.5, 1.0), (1, 2), 0)
        ),
        a.cholesky(False): ops.CholeskyAttrs(False),
        a.qr(True)[0]: ops.QrAttrs(True),
        a.svd(True, False)[0]: ops.SvdAttrs(True, False),
        a.eigh(False)[0]: ops.EighAttrs(False),
        a.triangular_solve(a, False, False, "adjoint", True): ops.TriangularSolveAttrs(
            False, False, "adjoint", True
        ),
        z.fft([0, -1]): ops.FftAttrs((0, 1)),
        z.ifft(0): ops.FftAttrs((0,)),
        z.irfft(5, 0): ops.IrfftAttrs((0,), 5),
        a.rfft(0): ops.FftAttrs((0,)),
        g.scan(lambda c, row: (c, row), [scalars[0]], [x], reverse=True)[1]: ops.ScanAttrs(1, 2, True),
        x.nonzero()[0].bind_dim(scalars[0], 1, "K", 2, 5): ops.BindDimAttrs(1, "K", 2, 5),
    }
    for value, attrs in cases.items():
        assert value.value.def_inst.attrs == attrs
    boxes, scores = g.input("boxes", tensor("f32", (1, 5, 4))), g.input("scores", tensor("f32", (1, 2, 5)))
    rows, _ = boxes.non_max_suppression(scores, 3, 0.5, 0.25, scalars[0], True)
    assert rows.value.def_inst.attrs == ops.NonMaxSuppressionAttrs(3, True)
    literals = [operand.literal for operand in rows.value.def_inst.operands[2:]]
    assert [v.item for v in literals if v is not None] == [1, 0.5, 0.25]


def test_numpy_integers_become_plain_ones():
    """Attributes are compared, hashed and printed: they hold Python ints only."""
    n = np.int64
    g, x = graph(tensor("f32", (2, 4)))
    built = [
        x.reshape(n(4), n(2)),
        x.reduce_sum([n(1)]),
        x.slice([n(0), n(1)], [n(2), n(3)], [n(1), n(1)]),
        x.pad([n(1), n(0)], [n(0), n(0)]),
        x.transpose([n(1), n(0)]),
        x.reduce_window("max", [n(1), n(2)], padding=[(n(0), n(0)), (n(1), n(0))]),
        g.iota((n(2), n(3)), n(1)),
    ]
    for value in built:
        attrs = value.value.def_inst.attrs
        items = [getattr(attrs, f.name) for f in dataclasses.fields(attrs)]
        numbers = [v for item in items for v in (item if isinstance(item, tuple) else (item,))]
        assert not any(isinstance(v, np.generic) for v in numbers), attrs


def test_methods_with_several_results():
    data = np.array([[4.0, 1.0], [1.0, 3.0]], np.float32)
    g, x = graph(tensor("f32", (2, 2)))
    parts = [
        x.qr(),
        x.svd(),
        x.eigh(),
        x.lu(),
        x.top_k(1),
        x.nonzero(),
        x.unique(),
        g.sort([x, x]),
        x.sort_with([x]),
    ]
    assert [len(p) for p in parts] == [2, 3, 2, 2, 2, 2, 5, 2, 2]
    values, count = x.nonzero()
    kept = values.bind_dim(count, 1, "N")
    assert str(kept.type) == "tensor<i64, 2xN>"
    flat = [v for p in parts for v in p]
    results = evaluate(g, *flat, kept, kept.dimension_size(1), inputs=[data])
    assert results[-2].shape == (2, 4)
    assert results[-1] == 4


def test_convolution_and_windows():
    data = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    g, x = graph(tensor("f32", (1, 4, 4, 1)))
    k = g.constant(np.ones((2, 2, 1, 1), np.float32))
    conv = x.convolution(k, "NHWC", "HWIO", strides=[2, 2])
    pool = x.reduce_window("sum", [1, 2, 2, 1], [1, 2, 2, 1])
    best = x.reduce_window("max", [1, 3, 3, 1], padding=[(0, 0), (1, 1), (1, 1), (0, 0)])
    results = evaluate(g, conv, pool, best, inputs=[data])
    assert np.array_equal(results[0], results[1])
    assert results[0].ravel().tolist() == [10, 18, 42, 50]
    assert results[2].shape == data.shape


def test_cond_sees_outer_values():
    g, p, x = graph(tensor("bool", ()), tensor("f32", (2,)))
    (y,) = g.cond(p, lambda: x.add(1), lambda: x.mul(10))
    function = g.build(y)
    data = np.array([1, 2], np.float32)
    assert interpret(function, [True, data])[0].tolist() == [2, 3]
    assert interpret(function, [False, data])[0].tolist() == [10, 20]
    h, q, z = graph(tensor("bool", ()), tensor("f32", (2,)))
    with pytest.raises(ShapeError, match="second region"):
        h.cond(q, lambda: z, lambda: z.cast("f64"))


def test_while_loop():
    g, n = graph(tensor("i32", ()))
    i, total = g.while_loop(
        lambda i, total: i.lt(n),
        lambda i, total: (i.add(1), total.add(i)),
        g.constant(0, "i32"),
        g.constant(0, "i32"),
    )
    function = g.build(total, i)
    for count in (0, 1, 10):
        assert [int(r) for r in interpret(function, [np.int32(count)])] == [sum(range(count)), count]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    g, init, xs = graph(tensor("f32", ()), tensor("f32", (4,)))
    last, sums = g.scan(lambda c, x: (c.add(x), c.mul(2)), [init], [xs], reverse=reverse)
    function = g.build(last, sums)
    data = np.array([1, 2, 3, 4], np.float32)
    carry, outputs = 10.0, [0.0] * 4
    for i in reversed(range(4)) if reverse else range(4):
        outputs[i] = carry * 2
        carry += data[i]
    result = interpret(function, [np.float32(10), data])
    assert float(result[0]) == carry
    assert result[1].tolist() == outputs
    h, start = graph(tensor("i64", ()))
    final, steps = h.scan(lambda c: (c.add(1), c), [start], length=3)
    assert [r.tolist() for r in interpret(h.build(final, steps), [np.int64(5)])] == [8, [5, 6, 7]]
    with pytest.raises(GraphError, match="length"):
        Graph().scan(lambda: (), [])


def test_nested_regions_and_captures():
    """A loop in a branch in a scan, each reading values of all levels outside."""
    g, xs, scale = graph(tensor("i64", (3,)), tensor("i64", ()))

    def body(total, x):
        (y,) = g.cond(
            x.gt(scale),
            lambda: g.while_loop(lambda v: v.lt(total.add(100)), lambda v: v.add(scale).add(x), x),
            lambda: [x.neg()],
        )
        return total.add(y), y

    function = g.build(*g.scan(body, [g.constant(0)], [xs]))
    total, ys = 0, []
    for x in (1, 7, 5):
        y = -x
        if x > 3:
            y = x
            while y < total + 100:
                y += 3 + x
        total += y
        ys.append(y)
    result = interpret(function, [np.array([1, 7, 5]), np.int64(3)])
    assert int(result[0]) == total
    assert result[1].tolist() == ys


def test_calls():
    inner = Graph("double")
    v = inner.input("v", tensor("f32", ("N",)))
    double = inner.build(v.add(v))
    g, x = graph(tensor("f32", (3, "B in 1..64")))
    flat = x.reshape(-1)
    (y,) = g.call(double, flat)
    assert y.type == flat.type
    program = g.build_program(y)
    assert isinstance(program, Program)
    assert list(program.functions) == ["test", "double"]
    assert interpret(program, [np.ones((3, 2), np.float32)])[0].tolist() == [2.0] * 6
    with pytest.raises(GraphError, match="double takes"):
        Graph().call(double, *graph(tensor("f64", (3,)))[1:])


def test_random_numbers():
    g = Graph()
    key = g.constant(np.array([1, 2], np.uint32))
    wanted = ["f16", "bf16", "f32", "f64"]
    results = evaluate(
        g, *(g.uniform(key, (500,), d) for d in wanted), *(g.normal(key, (500,), d) for d in wanted)
    )
    for uniform in results[:4]:
        wide = uniform.astype(np.float64)
        assert wide.min() >= 0
        assert wide.max() < 1
        assert abs(wide.mean() - 0.5) < 0.05
    for normal in results[4:]:
        wide = normal.astype(np.float64)
        assert np.isfinite(wide).all()
        assert abs(wide.mean()) < 0.15
        assert abs(wide.std() - 1) < 0.1
    with pytest.raises(DTypeError, match="not defined"):
        Graph().uniform(key, (1,), "f8e5m2")


def test_a_call_keeps_to_the_bounds_of_the_callee():
    callee = Graph("callee")
    x = callee.input("x", tensor("f32", (Dim.named("B", 1, 4),)))
    function = callee.build(x.exp())
    caller = Graph("caller")
    too_long = caller.input("y", tensor("f32", (100,)))
    with pytest.raises(ShapeError, match=r"takes B in 1..4; 100"):
        caller.call(function, too_long)
