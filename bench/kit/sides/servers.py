"""onnxruntime and openvino: servers of models, which know the weights beforehand and give no gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..workloads import Array, Workload
from .plain import Left, Numpy, peer


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
    graph_proto = helper.make_graph(graph.nodes, "work", inputs, [result], [*kept, *graph.constants])
    model = helper.make_model(graph_proto, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
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
        name = session.get_outputs()[0].name
        binding.bind_output(name)
        session.run_with_iobinding(binding)
        result = binding.get_outputs()[0]
        binding.bind_ortvalue_output(name, result)  # from now on always there

        def run() -> Any:
            session.run_with_iobinding(binding)
            return result

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
