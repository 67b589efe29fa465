"""Models on a GPU, on an emulated driver: providers, the backend of ONNX's suite, the command line, and where weights are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import planish.onnx
from planish.cli import main
from planish.errors import PlanishError
from planish.onnx.backend import Backend
from planish.onnx.gpu_calls import gpus
from tests.runtime.emulated_cuda import EmulatedDriver, emulated

WEIGHT = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedDriver]:
    with emulated(monkeypatch) as found:
        yield found


def _model() -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def _x(rows: int) -> Any:
    return np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)


def test_a_session_with_the_provider_of_cuda(gpu: EmulatedDriver) -> None:
    assert planish.onnx.get_available_providers() == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = planish.onnx.InferenceSession(_model().SerializeToString(), providers=["CUDAExecutionProvider"])
    assert session.get_providers() == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    x = _x(2)
    for rows in (2, 5, 2):
        x = _x(rows)
        np.testing.assert_allclose(
            session.run(None, {"x": x})[0], np.maximum(x @ WEIGHT, 0), rtol=1e-5, atol=1e-6
        )
    moved, kernels = gpu.calls["cuMemcpyHtoD"], len(gpu.ran)
    session.run(None, {"x": x})
    assert gpu.calls["cuMemcpyHtoD"] == moved + 1  # the input; the weight is there
    assert len(gpu.ran) > kernels
    session.set_providers(["CPUExecutionProvider"])
    kernels = len(gpu.ran)
    np.testing.assert_allclose(
        session.run(None, {"x": x})[0], np.maximum(x @ WEIGHT, 0), rtol=1e-5, atol=1e-6
    )
    assert len(gpu.ran) == kernels


def test_the_backend_supports_the_gpus_there_are(gpu: EmulatedDriver) -> None:
    assert Backend.supports_device("CUDA")
    assert Backend.supports_device("CUDA:0")
    assert not Backend.supports_device("CUDA:1")
    (y,) = Backend.run_model(_model(), [_x(3)], device="CUDA")
    np.testing.assert_allclose(y, np.maximum(_x(3) @ WEIGHT, 0), rtol=1e-5, atol=1e-6)
    assert gpu.ran


def test_the_command_line(gpu: EmulatedDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_model(), path)
    assert (
        main(["run", str(path), "--random", "--dim", "n=2", "--device", "cuda", "--profile", "--repeat", "2"])
        == 0
    )
    assert "on the GPU" in capsys.readouterr().out
    assert gpu.ran


def test_without_a_gpu_nothing_is_promised() -> None:
    if not gpus():
        assert not Backend.supports_device("CUDA")
        assert planish.onnx.get_available_providers() == ["CPUExecutionProvider"]


# -- values that stay on the GPU ----------------------------------------------------------------------------------------


def _session() -> Any:
    return planish.onnx.InferenceSession(_model().SerializeToString(), providers=["CUDAExecutionProvider"])


def test_what_is_bound_on_the_gpu_never_comes_to_the_host(gpu: EmulatedDriver) -> None:
    session, x = _session(), np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    (want,) = session.run(None, {"x": x})
    name = session.get_outputs()[0].name
    binding = session.io_binding()
    value = planish.onnx.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    assert value.device_name() == "cuda"
    assert value.shape() == [3, 4]
    binding.bind_ortvalue_input("x", value)
    binding.bind_output(name, "cuda")
    before = gpu.calls.copy()
    session.run_with_iobinding(binding)
    (found,) = binding.get_outputs()
    moved = {"cuMemcpyHtoD", "cuMemcpyDtoH"}
    assert all(gpu.calls[copy] == before[copy] for copy in moved)
    assert found.device_name() == "cuda"
    np.testing.assert_array_equal(found.numpy(), want)
    assert binding.copy_outputs_to_cpu()[0].tolist() == want.tolist()
    (also,) = session.run_with_ort_values([name], {"x": value})
    np.testing.assert_array_equal(np.asarray(also), want)


def test_outputs_are_written_where_they_are_bound(gpu: EmulatedDriver) -> None:
    session, x = _session(), np.ones((3, 4), np.float32)
    (want,) = session.run(None, {"x": x})
    name = session.get_outputs()[0].name
    place = planish.onnx.OrtValue.ortvalue_from_shape_and_type(want.shape, want.dtype, "cuda", 0)
    given = planish.onnx.OrtValue.ortvalue_from_numpy(np.zeros_like(x), "cuda", 0)
    given.update_inplace(x)
    binding = session.io_binding()
    binding.bind_input("x", "cuda", 0, np.float32, x.shape, given.data_ptr())
    binding.bind_output(name, "cuda", 0, want.dtype, want.shape, place.data_ptr())
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(place.numpy(), want)
    here = np.zeros_like(want)
    binding.bind_ortvalue_output(name, planish.onnx.OrtValue.ortvalue_from_numpy(here))
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(here, want)


def test_a_value_on_no_gpu_is_refused(gpu: EmulatedDriver) -> None:
    with pytest.raises(PlanishError, match="cuda:3"):
        planish.onnx.OrtValue.ortvalue_from_numpy(np.zeros(3), "cuda", 3)
    with pytest.raises(PlanishError, match="values on npu"):
        planish.onnx.OrtDevice.make("npu")


def test_weights_of_four_bits_stay_packed_on_a_gpu(gpu: EmulatedDriver) -> None:
    """MatMulNBits reads its bytes as they are in the file, in one kernel; on the CPU they are widened once."""
    rng, depth, width, block = np.random.default_rng(0), 1024, 64, 32
    packed = rng.integers(0, 256, (width, depth // block, block // 2)).astype(np.uint8)
    scales = rng.random(width * (depth // block)).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["x", "b", "s"],
        ["y"],
        domain="com.microsoft",
        K=depth,
        N=width,
        bits=4,
        block_size=block,
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, depth])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [numpy_helper.from_array(packed, "b"), numpy_helper.from_array(scales, "s")],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains).SerializeToString()
    x = rng.standard_normal((1, depth)).astype(np.float32)
    (want,) = planish.onnx.load(model).run(None, {"x": x})
    there = planish.onnx.load(model, device="cuda")
    kernels = len(gpu.ran)
    (found,) = there.run(None, {"x": x})
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
    assert len(gpu.ran) == kernels + 1
    assert max(map(len, gpu.blocks.values())) == packed.nbytes  # nothing wider than the bytes is there
