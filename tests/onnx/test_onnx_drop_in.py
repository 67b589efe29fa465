"""Everyday calls of programs written for onnxruntime, made on both: the same answers, and errors of the same names."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import planish.onnx as ours

theirs = pytest.importorskip("onnxruntime")

TEXT = """
<ir_version: 10, opset_import: ["" : 21], producer_name: "tests">
small (float[batch, 3] x, float[3] w) => (float[batch, 3] y, int64[2] s)
<float[3] w = {1, 2, 3}>
{ y = Mul(x, w) s = Shape(y) }
"""
DATA = onnx.parser.parse_model(TEXT).SerializeToString()
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def run(feed: Any, names: Any = None) -> Callable[[Any], Any]:
    return lambda ort: ort.InferenceSession(DATA).run(names, feed)


def option(name: str, value: Any) -> Callable[[Any], Any]:
    def call(ort: Any) -> Any:
        options = ort.SessionOptions()
        before = getattr(options, name)
        setattr(options, name, value(ort) if callable(value) else value)
        session = ort.InferenceSession(DATA, options, providers=["CPUExecutionProvider"])
        return str(before), str(getattr(session.get_session_options(), name)), session.run(["y"], {"x": X})

    return call


def value(*names: str) -> Callable[[Any], Any]:
    return lambda ort: [getattr(ort.OrtValue.ortvalue_from_numpy(X), name)() for name in names]


def entries(ort: Any) -> Any:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.a", "1")
    return options.get_session_config_entry("session.a"), options.get_session_config_entry("session.b")


def updated(ort: Any) -> Any:
    array = X.copy()
    held = ort.OrtValue.ortvalue_from_numpy(array)
    held.update_inplace(X + 1)
    return held.numpy(), array


def bound(ort: Any) -> Any:
    session = ort.InferenceSession(DATA)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    binding.bind_output("s", "cpu")
    session.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu(), [v.numpy() for v in binding.get_outputs()]


def bound_memory(ort: Any) -> Any:
    session, place = ort.InferenceSession(DATA), np.zeros((2, 3), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, place.shape, place.ctypes.data)
    session.run_with_iobinding(binding)
    return place


def bound_value(ort: Any) -> Any:
    session = ort.InferenceSession(DATA)
    binding, room = session.io_binding(), ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X))
    binding.bind_ortvalue_output("y", room)
    session.run_with_iobinding(binding)
    binding.clear_binding_inputs()
    return room.numpy()


def later(ort: Any) -> Any:
    done, got = threading.Event(), []

    def callback(results: Any, data: Any, error: str) -> None:
        got.append((results, data, error))
        done.set()

    ort.InferenceSession(DATA).run_async(["y"], {"x": X}, callback, "mine")
    assert done.wait(60)
    return got


def run_options(ort: Any) -> Any:
    options = ort.RunOptions()
    options.log_severity_level, options.logid = 3, "me"
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    entry = options.get_run_config_entry("memory.enable_memory_arena_shrinkage")
    return entry, ort.InferenceSession(DATA).run(["y"], {"x": X}, options)


def metadata(ort: Any) -> Any:
    meta = ort.InferenceSession(DATA).get_modelmeta()
    fields = ("producer_name", "graph_name", "domain", "description", "graph_description", "version")
    return [getattr(meta, name) for name in fields], meta.custom_metadata_map


def ports(ort: Any) -> Any:
    session = ort.InferenceSession(DATA)
    nodes = (*session.get_inputs(), *session.get_outputs(), *session.get_overridable_initializers())
    return [(node.name, node.type, node.shape, str(node)) for node in nodes]


def unknown_op(ort: Any) -> Any:
    model = onnx.parser.parse_model(TEXT.replace("Mul", "Frob"))
    return ort.InferenceSession(model.SerializeToString())


CALLS: dict[str, Callable[[Any], Any]] = {
    "run": run({"x": X}),
    "run some": run({"x": X}, ["s"]),
    "run with no names": run({"x": X}, []),
    "run with lists": run({"x": X.tolist()}),
    "run with lists of whole numbers": run({"x": [[1, 2, 3]]}),
    "run with an initialiser": run({"x": X, "w": np.ones(3, np.float32)}),
    "an input is missing": run({}),
    "an input has another name": run({"other": X}),
    "an input too many": run({"x": X, "z": X}),
    "another dtype": run({"x": X.astype(np.float64)}),
    "another rank": run({"x": X[0]}),
    "another size": run({"x": X[:, :2]}),
    "no such output": run({"x": X}, ["q"]),
    "no such file": lambda ort: ort.InferenceSession("no-such-file.onnx"),
    "no model": lambda ort: ort.InferenceSession(b"abc"),
    "neither path nor bytes": lambda ort: ort.InferenceSession(3),
    "inputs and outputs": ports,
    "metadata": metadata,
    "providers": lambda ort: ort.InferenceSession(
        DATA, providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
    ).get_providers(),
    "providers with options": lambda ort: ort.InferenceSession(
        DATA, providers=[("CPUExecutionProvider", {})]
    ).get_provider_options(),
    "set_providers": lambda ort: ort.InferenceSession(DATA).set_providers(["CPUExecutionProvider"]),
    "more keywords": lambda ort: ort.InferenceSession(DATA, disabled_optimizers=["ConstantFolding"]).run(
        None, {"x": X}
    ),
    "graph_optimization_level": option(
        "graph_optimization_level", lambda ort: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    ),
    "execution_mode": option("execution_mode", lambda ort: ort.ExecutionMode.ORT_PARALLEL),
    "execution_order": option("execution_order", lambda ort: ort.ExecutionOrder.PRIORITY_BASED),
    "intra_op_num_threads": option("intra_op_num_threads", 1),
    "inter_op_num_threads": option("inter_op_num_threads", 1),
    "log_severity_level": option("log_severity_level", 3),
    "log_verbosity_level": option("log_verbosity_level", 0),
    "logid": option("logid", "me"),
    "enable_cpu_mem_arena": option("enable_cpu_mem_arena", False),
    "enable_mem_pattern": option("enable_mem_pattern", False),
    "enable_mem_reuse": option("enable_mem_reuse", False),
    "use_deterministic_compute": option("use_deterministic_compute", True),
    "entries": entries,
    "run options": run_options,
    "OrtValue": value("data_type", "device_name", "element_type", "has_value", "is_tensor", "numpy", "shape"),
    "OrtValue, more": value("is_sparse_tensor", "is_tensor_sequence", "tensor_size_in_bytes"),
    "OrtValue by type": lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([2, 2], 7).data_type(),
    "OrtValue, updated": updated,
    "OrtValue as an array": lambda ort: np.asarray(ort.OrtValue.ortvalue_from_numpy(X)),
    "OrtValue from another library": lambda ort: ort.OrtValue.from_dlpack(X.copy()).numpy(),
    "OrtValue to another library": lambda ort: np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(X.copy())),
    "run_with_ort_values": lambda ort: [
        v.numpy()
        for v in ort.InferenceSession(DATA).run_with_ort_values(
            ["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)}
        )
    ],
    "run with an OrtValue": lambda ort: ort.InferenceSession(DATA).run(
        None, {"x": ort.OrtValue.ortvalue_from_numpy(X)}
    ),
    "binding": bound,
    "binding of memory": bound_memory,
    "binding of a value": bound_value,
    "binding of no input": lambda ort: ort.InferenceSession(DATA).io_binding().bind_cpu_input("q", X),
    "binding without outputs": lambda ort: (s := ort.InferenceSession(DATA)).run_with_iobinding(
        s.io_binding()
    ),
    "run_async": later,
    "end_profiling": lambda ort: ort.InferenceSession(DATA).end_profiling(),
    "get_device": lambda ort: ort.get_device(),
    "the processor is there": lambda ort: "CPUExecutionProvider" in ort.get_available_providers(),
    "version": lambda ort: int(ort.__version__.split(".")[1]) >= 20,
    "version string": lambda ort: ort.get_version_string() == ort.__version__,
    "log severity": lambda ort: ort.set_default_logger_severity(3),
    "log verbosity": lambda ort: ort.set_default_logger_verbosity(0),
    "telemetry": lambda ort: (ort.disable_telemetry_events(), ort.enable_telemetry_events()),
    "levels": lambda ort: [
        (name, int(level)) for name, level in ort.GraphOptimizationLevel.__members__.items()
    ],
    "a level": lambda ort: repr(ort.GraphOptimizationLevel(99)),
    "memory": lambda ort: (
        ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT).name
    ),
    "device": lambda ort: ort.OrtDevice.make("cpu", 0).device_type(),
}


def outcome(call: Callable[[Any], Any], ort: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plain(call(ort))
        except Exception as error:  # noqa: BLE001 - its names are what is compared
            return {kind.__name__ for kind in type(error).__mro__}


def plain(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return [plain(item) for item in result]
    return (str(result.dtype), result.tolist()) if isinstance(result, np.ndarray) else result


@pytest.mark.parametrize("name", CALLS)
def test_calls_answer_as_onnxruntime_does(name: str):
    got, wanted = outcome(CALLS[name], ours), outcome(CALLS[name], theirs)
    if isinstance(wanted, set):
        kind = next(n for n in ("ValueError", "RuntimeError", "TypeError", *sorted(wanted)) if n in wanted)
        assert isinstance(got, set), f"{kind} is raised there, this is given here: {got}"
        assert kind in got
    else:
        assert got == wanted


ABSENT = {
    # LoRA adapters, plug-ins of providers and their contexts, sparse tensors, other people's allocators
    "AdapterFormat", "LoraAdapter", "ModelCompiler", "OrtArenaCfg", "OrtCompileApiFlags", "OrtDeviceMemoryType",
    "OrtDeviceVendorId", "OrtEpAssignedNode", "OrtEpAssignedSubgraph", "OrtEpContextData", "OrtEpContextDataBuffer",
    "OrtEpDevice", "OrtExecutionProviderDevicePolicy", "OrtExternalInitializerInfo", "OrtHardwareDevice",
    "OrtHardwareDeviceType", "OrtMemoryInfoDeviceType", "OrtSparseFormat", "OrtSyncStream", "SparseTensor",
    "copy_tensors", "create_and_register_allocator", "create_and_register_allocator_v2", "get_ep_devices",
    "register_execution_provider_library", "set_global_thread_pool_sizes", "unregister_execution_provider_library",
    # what its module imports for itself
    "contextlib", "cuda_version", "import_capi_exception", "onnxruntime_validation", "package_name", "version",
}  # fmt: skip


def test_the_names_of_its_module_are_here_but_for_those_listed():
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert {name for name in names if not hasattr(ours, name)} <= ABSENT
    errors = (
        "Fail",
        "InvalidArgument",
        "NoSuchFile",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
    )
    state = ours.capi.onnxruntime_pybind11_state
    assert all(issubclass(getattr(state, name), Exception) for name in errors)


def test_an_unknown_op_is_an_error_that_names_it():
    with pytest.raises(ours.capi.onnxruntime_pybind11_state.NotImplemented, match="Frob"):
        unknown_op(ours)


def test_unknown_options_are_ignored_with_a_note():
    with pytest.warns(UserWarning, match="no option 'speed'"):
        ours.SessionOptions().speed = 11
    with pytest.warns(UserWarning, match="NopeProvider"):
        session = ours.InferenceSession(DATA, providers=["NopeProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_profiles_and_models_are_written(tmp_path: Path):
    options = ours.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p_")
    options.optimized_model_filepath = str(tmp_path / "m.onnx")
    session = ours.InferenceSession(DATA, options)
    session.run(None, {"x": X})
    assert "model_run" in Path(session.end_profiling()).read_text()
    assert (tmp_path / "m.onnx").read_bytes() == DATA


def test_a_run_that_is_told_to_end_does():
    options = ours.RunOptions()
    options.terminate = True
    with pytest.raises(ours.capi.onnxruntime_pybind11_state.Fail, match="told to end"):
        ours.InferenceSession(DATA).run(None, {"x": X}, options)


PROGRAM = """
import importlib.metadata, importlib.util, planish.onnx
planish.onnx.install_as_onnxruntime()
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime import InferenceSession
assert InferenceSession is planish.onnx.InferenceSession
assert importlib.util.find_spec("onnxruntime") is not None
assert importlib.metadata.version("onnxruntime") == ort.__version__
assert issubclass(InvalidArgument, Exception)
import onnxruntime.capi._pybind_state as state
print(state.get_device())
"""


def test_programs_that_cannot_be_edited_get_it_under_the_other_name():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("CPU\n", "")


def test_a_size_that_is_overridden_is_shown_and_foreign_bytes_are_turned():
    text = '<ir_version: 9, opset_import: ["" : 17]>\nm (float[b, 4] x) => (float[b, 4] y) { y = Neg(x) }'
    data = onnx.parser.parse_model(text).SerializeToString()
    shown = []
    for module in (theirs, ours):
        options = module.SessionOptions()
        options.add_free_dimension_override_by_name("b", 3)
        session = module.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        shown.append([port.shape for port in (*session.get_inputs(), *session.get_outputs())])
    assert shown[0] == shown[1]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    (found,) = ours.InferenceSession(data).run(None, {"x": x.astype(">f4")})
    np.testing.assert_array_equal(found, -x)


@pytest.mark.parametrize(
    "x", [np.array([["a", "b", "c"]]), np.array([["a", "b", "c"]], object), np.array([[1, None, 2]])]
)
def test_text_for_numbers_is_refused_at_the_input(x: Any) -> None:
    with pytest.raises(
        ours.capi.onnxruntime_pybind11_state.InvalidArgument,
        match=r"input x: float32\[batch, 3\] is given text",
    ):
        ours.InferenceSession(DATA).run(None, {"x": x})


def test_numbers_for_text_are_refused_at_the_input() -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]>\nm (string[b] x) => (string[b] y) { y = Identity(x) }'
    session = ours.InferenceSession(onnx.parser.parse_model(text).SerializeToString())
    with pytest.raises(ours.capi.onnxruntime_pybind11_state.InvalidArgument, match="is given float32"):
        session.run(None, {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(session.run(None, {"x": np.array(["a", "b"])})[0], ["a", "b"])


def test_names_that_are_not_there_have_near_ones() -> None:
    with pytest.raises(AttributeError, match="did you mean InferenceSession"):
        ours.InferenceSesion  # type: ignore[attr-defined] # noqa: B018
    with pytest.warns(UserWarning, match="did you mean intra_op_num_threads"):
        ours.SessionOptions().intra_op_threads = 1
