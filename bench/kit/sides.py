"""planish and its peers, each as the same few functions, and as something that can be called again and again.

A side is made in a process of its own (`cpu.py`), with the cores it may use already set. `prepare(workload, arrays)` gives
a callable without arguments that computes the result anew, finished when it returns, and `as_numpy` reads a result. What a side
cannot do, or is not meant for, it leaves out by raising `Left`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .workloads import Array, Workload


def peer(name: str) -> Any:
    """A module that may not be installed, and need not have types."""
    return importlib.import_module(name)


class Left(Exception):
    """This side does not do that workload."""


class Numpy:
    """The plain formulas. In float64 it is also the reference."""

    name = "numpy"

    def __init__(self, threads: int = 1) -> None:
        self.tanh: Any = np.tanh
        self.sqrt: Any = np.sqrt
        self.abs: Any = np.abs

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum(axis)

    def softmax(self, x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        o, c, r, s = w.shape
        x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (r, s), (2, 3))[:, :, ::stride, ::stride]
        if groups > 1:
            return np.einsum("nchwrs,crs->nchw", windows, w[:, 0], optimize=True)
        n, _, oh, ow = windows.shape[:4]
        columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, c * r * s, oh * ow)
        return (w.reshape(o, -1) @ columns).reshape(n, o, oh, ow)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.swapaxes(1, 2) * 0.125
        if causal:
            scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf).astype(scores.dtype)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def transpose(self, x: Any) -> Any:
        return np.ascontiguousarray(x.T)

    def take(self, t: Any, i: Any) -> Any:
        return t[i]

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def columns(self, x: Any, start: int, stop: int) -> Any:
        return x[:, start:stop]

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.transpose(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.dtype != "f32":
            raise Left
        if w.gradient:
            return lambda: mlp_gradient(*arrays)
        return lambda: w.formula(self, *arrays)

    def as_numpy(self, result: Any) -> list[Array]:
        return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else [np.asarray(result)]


def mlp_gradient(x: Array, w1: Array, b1: Array, w2: Array, b2: Array, w3: Array, b3: Array) -> list[Array]:
    """The gradient of the multi-layer perceptron's loss, by hand."""
    h1 = np.maximum(x @ w1 + b1, 0)
    h2 = np.maximum(h1 @ w2 + b2, 0)
    d3 = 2 * (h2 @ w3 + b3)
    d2 = (d3 @ w3.T) * (h2 > 0)
    d1 = (d2 @ w2.T) * (h1 > 0)
    return [x.T @ d1, d1.sum(0), h1.T @ d2, d2.sum(0), h2.T @ d3, d3.sum(0)]


class Planish(Numpy):
    name = "planish"

    def __init__(self, threads: int | None = None) -> None:
        import planish

        self.pn = planish
        self.tanh, self.sqrt, self.abs = planish.tanh, planish.sqrt, planish.abs
        if threads is not None:
            planish.settings(threads=threads, beam=int(os.environ.get("BENCH_BEAM", "0"))).__enter__()

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return self.pn.sum(x, axis=axis)

    def softmax(self, x: Any) -> Any:
        return self.pn.nn.softmax(x, axis=-1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.pn.nn.functional.layer_norm(x, (x.shape[-1],), g, b)

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return self.pn.nn.functional.conv2d(x, w, stride=stride, padding=padding, groups=groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.mT * 0.125
        if causal:
            i = self.pn.arange(scores.shape[-1])
            scores = self.pn.where(i[:, None] >= i[None, :], scores, -self.pn.inf)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return self.pn.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.pn.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    def transpose(self, x: Any) -> Any:
        return x.mT

    def take(self, t: Any, i: Any) -> Any:
        return self.pn.take(t, i, axis=0)

    def cumsum(self, x: Any) -> Any:
        return self.pn.cumulative_sum(x, axis=1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.pn.permute_dims(x, axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.pn.asarray(a) for a in arrays]
        if w.dtype == "bf16":
            given = [self.pn.astype(a, self.pn.bfloat16) for a in given]
            self.pn.realize(*given)
        formula = lambda *a: w.formula(self, *a)  # noqa: E731 - a parameter is needed
        if w.gradient:
            formula = self.pn.grad(formula, argnums=tuple(range(1, len(given))))
        function = self.pn.jit(formula)
        return lambda: function(*given)

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(self.pn.astype(r, self.pn.float32).numpy()) for r in results]


class Numexpr(Numpy):
    name = "numexpr"
    FORMULAS = {"a*b+c": "a*b+c", "tanh_chain": "tanh(a*b+c)*sqrt(abs(a)+1)-c", "sum_all": "sum(a)"}

    def __init__(self, threads: int) -> None:
        numexpr = peer("numexpr")
        numexpr.set_num_threads(threads)
        self.evaluate = numexpr.evaluate

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.name not in self.FORMULAS:
            raise Left
        names = dict(zip("abc", arrays, strict=False))
        return lambda: self.evaluate(self.FORMULAS[w.name], local_dict=names)


class Numba(Numpy):
    name = "numba"

    def __init__(self, threads: int) -> None:
        self.numba = peer("numba")
        self.numba.set_num_threads(threads)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        import math

        prange, one = self.numba.prange, np.float32(1)

        def fma(a: Any, b: Any, c: Any) -> Any:
            out = np.empty_like(a)
            for i in prange(a.size):
                out[i] = a[i] * b[i] + c[i]
            return out

        def chain(a: Any, b: Any, c: Any) -> Any:
            out = np.empty_like(a)
            for i in prange(a.size):
                out[i] = math.tanh(a[i] * b[i] + c[i]) * math.sqrt(abs(a[i]) + one) - c[i]
            return out

        def total(a: Any) -> Any:
            s = np.float32(0)
            for i in prange(a.size):
                s += a[i]
            return s

        body = {"a*b+c": fma, "tanh_chain": chain, "sum_all": total}.get(w.name)
        if body is None:
            raise Left
        function = self.numba.njit(body, parallel=True, fastmath=True)
        return lambda: function(*arrays)


class Torch(Numpy):
    name = "torch"
    compiled = False

    def __init__(self, threads: int) -> None:
        self.t = peer("torch")
        self.t.set_num_threads(threads)
        self.tanh, self.sqrt, self.abs = self.t.tanh, self.t.sqrt, self.t.abs

    def relu(self, x: Any) -> Any:
        return self.t.relu(x)

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum() if axis is None else x.sum(axis)

    def softmax(self, x: Any) -> Any:
        return self.t.softmax(x, -1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.t.nn.functional.layer_norm(x, g.shape, g, b)

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return self.t.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        f = self.t.nn.functional.scaled_dot_product_attention
        return f(q[None], k[None], v[None], is_causal=causal)[0]

    def gelu(self, x: Any) -> Any:
        return self.t.nn.functional.gelu(x, approximate="tanh")

    def transpose(self, x: Any) -> Any:
        return x.T.contiguous()

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.t.from_numpy(a) for a in arrays]
        if w.dtype == "bf16":
            given = [a.to(self.t.bfloat16) for a in given]
        formula: Any = lambda *a: w.formula(self, *a)  # noqa: E731
        if self.compiled:
            formula = self.t.compile(formula)
        if w.gradient:
            wanted = [a.requires_grad_() for a in given[1:]]
            return lambda: self.t.autograd.grad(formula(given[0], *wanted), wanted)

        def run() -> Any:
            with self.t.inference_mode():
                return formula(*given)

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [r.detach().float().numpy() for r in results]


class Inductor(Torch):
    name = "inductor"
    compiled = True


class Jax(Numpy):
    name = "jax"

    def __init__(self, threads: int) -> None:
        self.j, self.np = peer("jax"), peer("jax.numpy")
        self.tanh, self.sqrt, self.abs = self.np.tanh, self.np.sqrt, self.np.abs

    def softmax(self, x: Any) -> Any:
        return self.j.nn.softmax(x, -1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d * self.j.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        pads = ((padding, padding), (padding, padding))
        return self.j.lax.conv_general_dilated(x, w, (stride, stride), pads, feature_group_count=groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = q @ k.swapaxes(1, 2) * 0.125
        if causal:
            scores = self.np.where(self.np.tri(scores.shape[-1], dtype=bool), scores, -self.np.inf)
        return self.softmax(scores) @ v

    def relu(self, x: Any) -> Any:
        return self.j.nn.relu(x)

    def gelu(self, x: Any) -> Any:
        return self.j.nn.gelu(x, approximate=True)

    def transpose(self, x: Any) -> Any:
        return x.T

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.np.asarray(a) for a in arrays]
        if w.dtype == "bf16":
            given = [a.astype(self.np.bfloat16) for a in given]
        formula = lambda *a: w.formula(self, *a)  # noqa: E731
        if w.gradient:
            formula = self.j.grad(formula, argnums=tuple(range(1, len(given))))
        function = self.j.jit(formula)
        return lambda: self.j.block_until_ready(function(*given))

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(r.astype(self.np.float32)) for r in results]


class Tinygrad(Numpy):
    name = "tinygrad"

    def __init__(self, threads: int) -> None:
        self.tiny = peer("tinygrad")
        self.tensor, self.jit, self.dtypes = self.tiny.Tensor, self.tiny.TinyJit, self.tiny.dtypes
        self.tanh, self.sqrt, self.abs = self.tensor.tanh, self.tensor.sqrt, self.tensor.abs

    def relu(self, x: Any) -> Any:
        return x.relu()

    def sum(self, x: Any, axis: int | None = None) -> Any:
        return x.sum(axis)

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return x.layernorm(eps=1e-5) * g + b

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return x.conv2d(w, groups=groups, stride=stride, padding=padding)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x * x * x)).tanh())

    def transpose(self, x: Any) -> Any:
        return x.transpose().contiguous()

    def cumsum(self, x: Any) -> Any:
        return x.cumsum(1)

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.permute(axes)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        given = [self.tensor(a).realize() for a in arrays]
        if w.dtype == "bf16":
            given = [a.cast(self.dtypes.bfloat16).contiguous().realize() for a in given]
        if w.gradient:

            def gradient(*a: Any) -> Any:
                found = w.formula(self, *a).gradient(*a[1:])
                self.tensor.realize(*found)
                return found

            function = self.jit(gradient)
        else:
            function = self.jit(lambda *a: w.formula(self, *a).realize())

        def run() -> Any:
            result = function(*given)
            self.tiny.Device["CPU"].synchronize()
            return result

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        results = result if isinstance(result, (tuple, list)) else [result]
        return [r.cast(self.dtypes.float32).numpy() for r in results]


class _Value:
    """A value of an ONNX graph in the making; operators make nodes."""

    def __init__(self, graph: OnnxGraph, name: str) -> None:
        self.graph, self.name = graph, name

    def __mul__(self, other: Any) -> _Value:
        return self.graph.node("Mul", self, other)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> _Value:
        return self.graph.node("Add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> _Value:
        return self.graph.node("Sub", self, other)

    def __matmul__(self, other: Any) -> _Value:
        return self.graph.node("MatMul", self, other)


class OnnxGraph(Numpy):
    """The formulas as ONNX nodes."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.tanh = lambda x: self.node("Tanh", x)
        self.sqrt = lambda x: self.node("Sqrt", x)
        self.abs = lambda x: self.node("Abs", x)

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op: str, *inputs: Any, **attributes: Any) -> _Value:
        from onnx import helper

        names = [i.name if isinstance(i, _Value) else self.constant(np.asarray(i)) for i in inputs]
        names = [
            self.constant(np.float32(i)) if isinstance(i, float) else name
            for i, name in zip(inputs, names, strict=True)
        ]
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, [out], **attributes))
        return _Value(self, out)

    def sum(self, x: Any, axis: int | None = None) -> Any:
        if axis is None:
            return self.node("ReduceSum", x, keepdims=0)
        return self.node("ReduceSum", x, np.asarray([axis], np.int64), keepdims=0)

    def softmax(self, x: Any) -> Any:
        return self.node("Softmax", x, axis=-1)

    def layernorm(self, x: Any, g: Any, b: Any) -> Any:
        return self.node("LayerNormalization", x, g, b, axis=-1, epsilon=1e-5)

    def conv(self, x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
        return self.node("Conv", x, w, strides=[stride] * 2, pads=[padding] * 4, group=groups)

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        scores = self.node("MatMul", q, self.permute(k, (0, 2, 1))) * 0.125
        if causal:
            mask = np.where(np.tri(self.tokens, dtype=bool), 0, -np.inf).astype(np.float32)
            scores = self.node("Add", scores, mask)
        return self.node("MatMul", self.softmax(scores), v)

    def relu(self, x: Any) -> Any:
        return self.node("Relu", x)

    def gelu(self, x: Any) -> Any:
        return self.node("Gelu", x, approximate="tanh")

    def transpose(self, x: Any) -> Any:
        return self.permute(x, (1, 0))

    def take(self, t: Any, i: Any) -> Any:
        return self.node("Gather", t, i, axis=0)

    def cumsum(self, x: Any) -> Any:
        return self.node("CumSum", x, np.asarray(1, np.int64))

    def columns(self, x: Any, start: int, stop: int) -> Any:
        return self.node("Slice", x, *(np.asarray([n], np.int64) for n in (start, stop, 1)))

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self.node("Reshape", x, np.asarray(shape, np.int64))

    def permute(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.node("Transpose", x, perm=list(axes))


def onnx_model(w: Workload, arrays: Sequence[Array]) -> bytes:
    """The workload as a model; its weights are part of it."""
    from onnx import TensorProto, helper, numpy_helper

    graph = OnnxGraph(len(arrays[0]))
    values = [_Value(graph, f"x{k}") for k in range(len(arrays))]
    out = w.formula(graph, *values)
    inputs = [
        helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for k, a in enumerate(arrays)
        if k not in w.weights
    ]
    kept = [numpy_helper.from_array(arrays[k], f"x{k}") for k in w.weights]
    result = helper.make_tensor_value_info(out.name, TensorProto.FLOAT, None)
    made = helper.make_graph(graph.nodes, "work", inputs, [result], [*kept, *graph.constants])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return bytes(model.SerializeToString())


class Onnxruntime(Numpy):
    name = "onnxruntime"

    def __init__(self, threads: int) -> None:
        self.o, self.threads = peer("onnxruntime"), threads

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.dtype != "f32" or w.gradient:
            raise Left
        options = self.o.SessionOptions()
        options.intra_op_num_threads = self.threads
        session = self.o.InferenceSession(onnx_model(w, arrays), options, ["CPUExecutionProvider"])
        binding = session.io_binding()
        for k, a in enumerate(arrays):
            if k not in w.weights:
                binding.bind_ortvalue_input(f"x{k}", self.o.OrtValue.ortvalue_from_numpy(a))
        binding.bind_output(session.get_outputs()[0].name)

        def run() -> Any:
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0]

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        return [result.numpy()]


class Openvino(Numpy):
    name = "openvino"

    def __init__(self, threads: int) -> None:
        openvino = peer("openvino")
        self.core, self.threads = openvino.Core(), threads
        self.tensor = openvino.Tensor

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.dtype != "f32" or w.gradient:
            raise Left
        options = {
            "INFERENCE_NUM_THREADS": self.threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1,
        }  # fmt: skip
        compiled = self.core.compile_model(self.core.read_model(onnx_model(w, arrays)), "CPU", options)
        request = compiled.create_infer_request()
        for k, a in enumerate(arrays):
            if k not in w.weights:
                request.set_tensor(f"x{k}", self.tensor(a, shared_memory=True))

        def run() -> Any:
            request.infer()
            return request.get_output_tensor(0)

        return run

    def as_numpy(self, result: Any) -> list[Array]:
        return [np.array(result.data)]


class Reference(Numpy):
    """float64, for what the others are compared with."""

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        rounded = arrays
        if w.dtype == "bf16":
            import ml_dtypes

            rounded = [a.astype(ml_dtypes.bfloat16) for a in arrays]
        given = [a.astype(np.float64) if a.dtype != np.int64 else a for a in rounded]
        return (lambda: mlp_gradient(*given)) if w.gradient else lambda: w.formula(self, *given)


SIDES: dict[str, Any] = {
    side.name: side
    for side in (Planish, Numpy, Numexpr, Numba, Torch, Inductor, Jax, Tinygrad, Onnxruntime, Openvino)
}
MODULES = {"inductor": "torch"}
"""What has to be installed for a side, where it is not called like the side."""
