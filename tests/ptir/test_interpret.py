"""The interpreter: inputs, dynamic sizes, regions, calls and its error messages."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, GraphError, InternalError, ShapeError
from planish.ptir import ops
from planish.ptir.builder import Graph
from planish.ptir.function import Program
from planish.ptir.interpret import interpret, resolve_attrs
from planish.ptir.types import Dim, TensorType, tensor


def build(make, *types):
    g = Graph("f")
    return g.build(make(g, *(g.input(f"x{i}", t) for i, t in enumerate(types))))


def test_inputs_in_order_or_by_name():
    f = build(lambda g, x, y: x.sub(y), tensor("i32", ()), tensor("i32", ()))
    assert interpret(f, [np.int32(5), np.int32(3)])[0] == 2
    assert interpret(f, {"x1": np.int32(5), "x0": np.int32(3)})[0] == -2
    with pytest.raises(GraphError, match="takes 2 inputs"):
        interpret(f, [np.int32(5)])
    with pytest.raises(GraphError, match="takes x0, x1"):
        interpret(f, {"x0": np.int32(5), "z": np.int32(5)})


def test_inputs_must_have_the_declared_type():
    f = build(lambda g, x: x.exp(), tensor("f32", (2, 3)))
    with pytest.raises(DTypeError, match="x0 has dtype float64, not float32"):
        interpret(f, [np.zeros((2, 3))])
    with pytest.raises(ShapeError, match="axis 1 of input of f x0"):
        interpret(f, [np.zeros((2, 4), np.float32)])
    with pytest.raises(ShapeError, match="rank"):
        interpret(f, [np.zeros(6, np.float32)])


def test_results_are_the_callers_own():
    x = np.ones(3, np.float32)
    f = build(lambda g, v: [v, v.broadcast_to(2, 3), v.reshape(3, 1)], tensor("f32", (3,)))
    results = interpret(f, [x])
    for result in results:
        result[...] = 7
    assert x.tolist() == [1, 1, 1]


def test_dynamic_sizes_are_bound_from_inputs():
    f = build(
        lambda g, x, y: [
            x.add(y),
            x.reshape(-1).dimension_size(0),
            g.iota(x.dims, 1, "i32"),
            g.full(x.dims, 7, "i8"),
        ],
        tensor("f32", ("A", "B"), B=(2, 4)),
        tensor("f32", ("A", "B"), B=(2, 4)),
    )
    total, size, count, full = interpret(f, [np.ones((5, 3), np.float32)] * 2)
    assert total.shape == count.shape == full.shape == (5, 3)
    assert size == 15
    assert count.tolist() == [[0, 1, 2]] * 5
    with pytest.raises(ShapeError, match=r"B = 5 is outside 2\.\.4"):
        interpret(f, [np.ones((5, 5), np.float32)] * 2)
    with pytest.raises(ShapeError, match="has size 2, not 3"):
        interpret(f, [np.ones((5, 3), np.float32), np.ones((5, 2), np.float32)])


def test_sizes_are_solved_from_expressions():
    n = Dim.named("N", 1, 9)
    f = build(lambda g, x: x.slice([n], [3 * n]), TensorType(dtypes.int32, (3 * n + 1,)))
    assert interpret(f, [np.arange(7, dtype=np.int32)])[0].tolist() == [2, 3, 4, 5]
    with pytest.raises(ShapeError, match="does not determine"):
        interpret(f, [np.arange(6, dtype=np.int32)])
    m = Dim.named("M", 1, 9)
    f = build(lambda g, x, y: x, TensorType(dtypes.int32, (n * m,)), TensorType(dtypes.int32, (n, m)))
    assert interpret(f, [np.zeros(6, np.int32), np.zeros((2, 3), np.int32)])[0].shape == (6,)
    with pytest.raises(ShapeError, match="N = 2"):
        interpret(f, [np.zeros(5, np.int32), np.zeros((2, 3), np.int32)])


def test_attributes_are_resolved():
    n = Dim.named("N", 1, 9)
    attrs = ops.SliceAttrs((0, n), (4, n + 2), (1, 1))
    assert resolve_attrs(attrs, {"N": 3}) == ops.SliceAttrs((0, 3), (4, 5), (1, 1))
    fixed = ops.SliceAttrs((0,), (4,), (1,))
    assert resolve_attrs(fixed, {"N": 3}) is fixed
    f = build(
        lambda g, x: [
            x.pad([n], [0]),
            x.dynamic_slice([0], [1]),
            x.top_k(n)[0],
            *g.scan(lambda c, v: (c.add(v), c), [g.constant(0)], [x]),
        ],
        TensorType(dtypes.int64, (n,)),
    )
    padded, _first, best, total, sums = interpret(f, [np.array([3, 1, 2])])
    assert padded.tolist() == [0, 0, 0, 3, 1, 2]
    assert best.tolist() == [3, 2, 1]
    assert (int(total), sums.tolist()) == (6, [0, 3, 4])


@pytest.mark.parametrize("size", [2, 3, 5])
def test_inference_with_dynamic_sizes_agrees_with_evaluation(size):
    """One graph over most families; the interpreter checks every result against the resolved type."""
    b = Dim.named("B", 2, 8)

    def everything(g, x, i):
        z = x.complex(x)
        key = g.constant(np.zeros(2, np.uint32))
        return [
            x.reshape(2, -1).transpose(),
            x.slice([0, 0], [b, 3], [2, 1]),
            x.slice([b - 2, 0], [b, 4]),
            x.pad([1, 0], [b, 1], [2, 0]),
            g.concat([x, x, x.slice([0, 0], [1, 4])], 0),
            x.reverse(),
            x.gather([i], 0),
            x.scatter(x, [i], 0, "add"),
            x.dynamic_slice([1, i.slice([0], [1]).reshape(())], [2, 2]),
            x.dynamic_update_slice(x.slice([0, 0], [2, 4]), [i.slice([0], [1]).reshape(()), 0]),
            x.reduce_sum(0),
            x.reduce_max(1, keepdims=True),
            x.argmin(0),
            x.cumsum(0, exclusive=True),
            x.reduce_window("sum", [2, 2], [1, 2], [(0, 1), (0, 0)]),
            x @ x.transpose(),
            x.reshape(1, 4, b).convolution(
                g.full((6, 4, 2), 1.0, "f64"), "NCW", "OIW", strides=[2], padding=[(1, 1)]
            ),
            *x.top_k(2, 0),
            x.sort(0),
            *x.unique(),
            *x.nonzero(),
            key.rng_bits((b, 3), "u8"),
            *x.qr(full_matrices=True),
            (x @ x.transpose()).cholesky(),
            z.fft(0),
            x.rfft(0),
            x.rfft(0).irfft(b, 0),
            x.quantize("i8", 0.1).transpose().dequantize(),
            x.bitcast("u8"),
            *g.scan(
                lambda c, row: (c.add(row.reduce_sum()), row.mul(c.broadcast_to(4))), [g.constant(0.0)], [x]
            ),
            *g.cond(x.reduce_sum().gt(0), lambda: x.neg(), lambda: x),
            x.take(i, 0),
        ]

    f = build(everything, TensorType(dtypes.float64, (b, 4)), TensorType(dtypes.int64, (b,)))
    data = np.random.default_rng(size).standard_normal((size, 4))
    results = interpret(f, [data, np.arange(size)[::-1].copy()])
    assert len(results) == len(f.results)
    np.testing.assert_array_equal(results[-1], data[::-1])


def test_counts_bind_fresh_dims():
    def positive(g, x):
        where, count = x.gt(0).nonzero()
        index = where.bind_dim(count, 1, "K").reshape(-1)
        picked = x.gather([index], 0)
        return [picked, picked.dimension_size(0), picked.add(picked)]

    f = build(positive, tensor("f32", (6,)))
    assert str(f.results[0].type) == "tensor<f32, K>"
    for data in ([1, -1, 2, 0, 3, -4], [-1] * 6, [5] * 6):
        picked, size, doubled = interpret(f, [np.array(data, np.float32)])
        wanted = [v for v in data if v > 0]
        assert picked.tolist() == wanted
        assert size == len(wanted)
        assert doubled.tolist() == [2 * v for v in wanted]


def test_counts_of_dynamic_buffers():
    b = Dim.named("B", 1, 8)

    def nonzeros(g, x):
        where, count = x.nonzero()
        return where.bind_dim(count, 1, "K")

    f = build(nonzeros, TensorType(dtypes.int32, (b,)))
    assert f.results[0].type.dims == (1, Dim.named("K", 0, 8))
    for data in ([1] * 8, [0], [0, 1, 1]):
        assert interpret(f, [np.array(data, np.int32)])[0].tolist() == [list(np.flatnonzero(data))]


def test_counts_in_a_loop_are_bound_anew():
    def body(g, rows):
        def step(total, row):
            where, count = row.nonzero()
            return total.add(where.bind_dim(count, 1, "K").reduce_sum()), count

        return g.scan(step, [g.constant(0)], [rows])

    f = build(body, tensor("i32", (3, 4)))
    total, counts = interpret(f, [np.array([[0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], np.int32)])
    assert counts.tolist() == [2, 0, 4]
    assert total == 3 + 0 + 6


def test_narrow_dtypes_pass_through():
    for dtype, array in (
        ("bf16", np.array([1.5], ml_dtypes.bfloat16)),
        ("f8e4m3fn", np.array([1.5], ml_dtypes.float8_e4m3fn)),
        ("i4", np.array([-3], ml_dtypes.int4)),
    ):
        f = build(lambda g, x: x.add(x), tensor(dtype, (1,)))
        (result,) = interpret(f, [array])
        assert result.dtype == array.dtype
        assert float(result[0]) == 2 * float(array[0])


def test_calls_need_a_program():
    inner = Graph("inner")
    x = inner.input("x", tensor("f32", ("N",)))
    callee = inner.build(x.neg(), x.dimension_size(0))
    g = Graph("outer")
    y = g.input("y", tensor("f32", (3,)))
    caller = g.build(*g.call(callee, y))
    with pytest.raises(GraphError, match="no function 'inner'"):
        interpret(caller, [np.ones(3, np.float32)])
    program = Program([caller, callee])
    for results in (
        interpret(program, [np.ones(3, np.float32)]),
        interpret(caller, [np.ones(3, np.float32)], program),
    ):
        assert results[0].tolist() == [-1, -1, -1]
        assert results[1] == 3


def test_endless_recursion_is_an_error():
    g = Graph("loop")
    x = g.input("x", tensor("f32", ()))
    (y,) = g.emit_many(ops.call, (x,), ops.CallAttrs("loop", (x.type,)))
    function = g.build(y)
    with pytest.raises(GraphError, match="nest"):
        interpret(Program([function]), [np.float32(1)])


def test_deep_graphs_do_not_recurse():
    g = Graph("deep")
    x = g.input("x", tensor("i64", ()))
    y = x
    for _ in range(5000):
        y = y.add(x)
    assert interpret(g.build(y), [np.int64(1)])[0] == 5001


def test_custom_calls():
    g = Graph("f")
    x = g.input("x", tensor("f32", (2,)))
    line_of_call = "custom_call"
    (y,) = g.custom_call("test.scale", [x], [x.type], config={"by": 3.0})
    function = g.build(y)
    with pytest.raises(GraphError, match=r"no custom call 'test\.scale'") as caught:
        interpret(function, [np.ones(2, np.float32)])
    assert caught.value.location is not None
    assert caught.value.op == line_of_call
    ops.register_custom_call("test.scale", lambda xs, attrs: (xs[0] * np.float32(dict(attrs.config)["by"]),))
    assert interpret(function, [np.ones(2, np.float32)])[0].tolist() == [3, 3]
    ops.register_custom_call("test.scale", lambda xs, attrs: (xs[0][:1],))
    with pytest.raises(ShapeError, match="result of custom_call"):
        interpret(function, [np.ones(2, np.float32)])


def test_a_wrong_evaluation_is_our_bug(monkeypatch):
    f = build(lambda g, x: x.exp(), tensor("f32", (2,)))
    monkeypatch.setattr(ops.exp, "evaluate", lambda arrays, attrs, types: (arrays[0][:1],))
    with pytest.raises(InternalError, match="exp gave a wrong result"):
        interpret(f, [np.ones(2, np.float32)])
