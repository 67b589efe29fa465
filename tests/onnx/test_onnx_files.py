"""Files: weights where they lie, and models that mean no good."""

from __future__ import annotations

import gc
import os
import re
import resource
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, ModelProto, TensorProto, helper, numpy_helper

from planish.config import settings
from planish.errors import PlanishError
from planish.onnx import Model, load
from planish.onnx.wire import slim

F32 = TensorProto.FLOAT


def value(name: str, dims: list[int | str], kind: int = F32) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def adding(weights: np.ndarray, name: str = "w") -> ModelProto:
    """y = x + w."""
    node = helper.make_node("Add", ["x", name], ["y"], name="sum")
    dims = list(weights.shape)
    return helper.make_model(
        helper.make_graph(
            [node], "g", [value("x", dims)], [value("y", dims)], [numpy_helper.from_array(weights, name)]
        )
    )


def chain(nodes: list[onnx.NodeProto], inputs: list[str] = ["x"], outputs: list[str] = ["y"]) -> ModelProto:  # noqa: B006
    return helper.make_model(
        helper.make_graph(nodes, "g", [value(n, [2]) for n in inputs], [value(n, [2]) for n in outputs]),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("own", 1)],
    )


# -- where weights are -------------------------------------------------------------------------------------------------


def test_weights_stay_in_the_file(tmp_path: Path):
    weights = np.arange(5000, dtype=np.float32)
    proto = adding(weights)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    found = slim(memoryview(proto.SerializeToString()))
    assert len(found.message) < 500
    assert list(found.weights) == [0]
    model = load(tmp_path / "m.onnx")
    model.make = Model(proto, interpret=True).make
    assert np.array_equal(model(x=np.ones(5000, np.float32))[0], weights + 1)


def test_small_models_are_not_touched():
    raw = adding(np.zeros(4, np.float32)).SerializeToString()
    assert slim(memoryview(raw)).message == raw


@pytest.fixture
def external(tmp_path: Path) -> Callable[..., Path]:
    """A model whose weight is in another file."""

    def write(location: str = "w.bin", **told: str) -> Path:
        proto = adding(np.zeros(4, np.float32))
        tensor = proto.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in {"location": location, **told}.items():
            tensor.external_data.add(key=key, value=text)
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        (folder / "w.bin").write_bytes(b"\0" * 64 + np.arange(4, dtype=np.float32).tobytes())
        (tmp_path / "secret.bin").write_bytes(np.ones(4, np.float32).tobytes())
        (folder / "m.onnx").write_bytes(proto.SerializeToString())
        return folder / "m.onnx"

    return write


def test_external_weights_are_mapped(external: Callable[..., Path]):
    model = load(external(offset="64", length="16"))
    assert not model.initial["w"].flags.owndata
    assert model.initial["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "location", ["../secret.bin", "a/../../secret.bin", "link.bin", "/etc/passwd", "", "no.bin", "sub"]
)
def test_nothing_outside_the_folder_is_read(external: Callable[..., Path], location: str):
    path = external(location)
    (path.parent / "link.bin").symlink_to(path.parent.parent / "secret.bin")
    (path.parent / "sub").mkdir()
    with pytest.raises(PlanishError, match="tensor 'w'"):
        load(path)


def test_an_absolute_path_of_a_file_in_the_folder_is_refused_too(external: Callable[..., Path]):
    path = external()
    path = external(str(path.parent / "w.bin"))
    with pytest.raises(PlanishError, match="no file of the model's folder"):
        load(path)


@pytest.mark.parametrize(
    "told", [{"offset": "80"}, {"length": "999"}, {"offset": "-4"}, {"offset": "x"}, {"length": "8"}]
)
def test_external_weights_that_do_not_fit(external: Callable[..., Path], told: dict[str, str]):
    with pytest.raises(PlanishError, match="tensor 'w'"):
        load(external(**told))


def test_external_weights_need_a_folder(external: Callable[..., Path]):
    with pytest.raises(PlanishError, match="load the model by its path"):
        load(external().read_bytes())


# -- models that mean no good --------------------------------------------------------------------------------------------


def truncated() -> bytes:
    return bytes(adding(np.zeros(9000, np.float32)).SerializeToString()[:-100])


def cyclic() -> ModelProto:
    return chain(
        [helper.make_node("Neg", ["b"], ["a"], name="first"), helper.make_node("Neg", ["a"], ["b"], name="second"),
         helper.make_node("Neg", ["b"], ["y"])]
    )  # fmt: skip


def itself() -> ModelProto:
    return chain([helper.make_node("Add", ["x", "y"], ["y"], name="snake")])


def twice() -> ModelProto:
    return chain(
        [helper.make_node("Neg", ["x"], ["y"], name="a"), helper.make_node("Neg", ["x"], ["y"], name="b")]
    )


def nothing_makes_it() -> ModelProto:
    return chain([helper.make_node("Neg", ["x"], ["z"])])


def function(name: str, body: list[onnx.NodeProto]) -> FunctionProto:
    return helper.make_function(
        "own", name, ["v"], ["w"], body, [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    )


def recursive() -> ModelProto:
    proto = chain([helper.make_node("f", ["x"], ["y"], domain="own")])
    proto.functions.append(function("f", [helper.make_node("g", ["v"], ["w"], domain="own")]))
    proto.functions.append(function("g", [helper.make_node("f", ["v"], ["w"], domain="own")]))
    return proto


def laughing() -> ModelProto:
    """Each function calls the next one ten times: 10**20 nodes."""
    proto = chain([helper.make_node("f0", ["x"], ["y"], domain="own")])
    for k in range(20):
        callee = {"op_type": f"f{k + 1}", "domain": "own"} if k < 19 else {"op_type": "Neg"}
        names = ["v", *(f"t{i}" for i in range(9)), "w"]
        body = [helper.make_node(inputs=[a], outputs=[b], **callee) for a, b in pairwise(names)]
        proto.functions.append(function(f"f{k}", body))
    return proto


def too_deep() -> ModelProto:
    proto = chain([helper.make_node("f0", ["x"], ["y"], domain="own")])
    for k in range(3000):
        inner = (
            helper.make_node(f"f{k + 1}", ["v"], ["w"], domain="own")
            if k < 2999
            else helper.make_node("Neg", ["v"], ["w"])
        )
        proto.functions.append(function(f"f{k}", [inner]))
    return proto


def wrong_size() -> ModelProto:
    proto = adding(np.zeros(4, np.float32))
    proto.graph.initializer[0].dims[0] = 2**40
    return proto


def negative_size() -> ModelProto:
    proto = adding(np.zeros(4, np.float32))
    proto.graph.initializer[0].dims[0] = -4
    return proto


def no_type() -> ModelProto:
    proto = adding(np.zeros(4, np.float32))
    proto.graph.initializer[0].data_type = 99
    return proto


def sparse_and_huge() -> ModelProto:
    proto = adding(np.zeros(4, np.float32))
    sparse = proto.graph.sparse_initializer.add(dims=[2**20, 2**20])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64), "i"))
    return proto


def many_nodes() -> bytes:
    """Written as bytes: what a message holds twice is held one after the other."""
    node: bytes = onnx.GraphProto(node=[helper.make_node("Neg", ["x"], ["x"])]).SerializeToString()
    graph = node * 260_000
    length = bytes(
        [len(graph) & 127 | 128, len(graph) >> 7 & 127 | 128, len(graph) >> 14 & 127 | 128, len(graph) >> 21]
    )
    return b"\x3a" + length + graph


def no_graph() -> bytes:
    return bytes(ModelProto(ir_version=10).SerializeToString())


HOSTILE: dict[Callable[[], ModelProto | bytes], str] = {
    truncated: "ends too early",
    lambda: b"this is no model": "not an ONNX model",
    lambda: b"\xff" * 1000: "not an ONNX model",
    lambda: b"": "not an ONNX model",
    no_graph: "no graph",
    cyclic: r"'first' \(Neg\) uses 'b', which node 'second'",
    itself: "'snake'",
    twice: "'b' .* defines 'y'",
    nothing_makes_it: "nothing computes 'y'",
    recursive: "calls itself",
    laughing: r"nodes in \d+ levels",
    too_deep: "levels",
    wrong_size: "tensor 'w'",
    negative_size: "tensor 'w'",
    no_type: "tensor 'w'",
    sparse_and_huge: "sparse tensor 's'",
    many_nodes: "more than 250000 nodes",
}


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_bad_models_end_in_one_error(make: Callable[[], ModelProto | bytes]):
    made = make()
    raw = made if isinstance(made, bytes) else made.SerializeToString()
    assert re.search(HOSTILE[make], confined(lambda: load(raw), len(raw)))


def confined(act: Callable[[], object], allowed: int = 0) -> str:
    """The message of the error that something ends in, within 5 s of work and 512 MiB above what there is and is allowed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            gc.freeze()  # what the tests before left is none of this work
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            room = pages * os.sysconf("SC_PAGE_SIZE") + (512 << 20) + allowed
            resource.setrlimit(resource.RLIMIT_AS, (room, room))
            resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
            try:
                act()
                message = "no error"
            except PlanishError as error:
                message = f"PlanishError: {error}"
            except BaseException as error:  # noqa: BLE001 - told to the parent
                message = f"another error: {type(error).__name__} {error}"
            os.write(writing, message.encode()[:60000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert told.startswith("PlanishError"), told
    return told


ENORMOUS = {
    "ConstantOfShape": "s = Constant<value_ints = [1000000, 1000000]>() y = ConstantOfShape(s)",
    "Expand": "s = Constant<value_ints = [1000000, 1000000, 2]>() y = Expand(x, s)",
    "Tile": "s = Constant<value_ints = [1000000000000]>() y = Tile(x, s)",
    "Range": "a = Constant<value_int = 0>() b = Constant<value_int = 1000000000000>() "
    "c = Constant<value_int = 1>() y = Range(a, b, c)",
    "Pad": "s = Constant<value_ints = [1000000000000, 0]>() y = Pad(x, s)",
    "Reshape": "s = Constant<value_ints = [1000000000000, -1]>() y = Reshape(x, s)",
    "OneHot": "i = Constant<value_ints = [0, 1]>() d = Constant<value_int = 1000000000000>() "
    "v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(i, d, v)",
    "Resize": "s = Constant<value_floats = [1e12]>() y = Resize(x, , s)",
    "RandomNormal": "y = RandomNormal<shape = [1000000, 1000000]>()",
    "Conv": "s = Constant<value_ints = [1, 1, 2]>() z = Reshape(x, s) "
    "y = Conv<pads = [1000000000000, 0], kernel_shape = [2]>(z, z)",
    "MaxPool": "s = Constant<value_ints = [1, 1, 2]>() z = Reshape(x, s) "
    "y = MaxPool<pads = [999999999999, 0], kernel_shape = [1000000000000]>(z)",
    "EyeLike": "s = Constant<value_ints = [1000000, 1000000]>() z = Expand(x, s) y = EyeLike(z)",
    "BlackmanWindow": "s = Constant<value_int = 1000000000000>() y = BlackmanWindow(s)",
    "Einsum": 'y = Einsum<equation = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z,A,B,C,D,E,F,G,H,I,J,K,L,M,N->'
    'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN">(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, '
    "x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x)",
}


@pytest.mark.parametrize("op", ENORMOUS)
def test_values_no_machine_holds_are_refused(op: str):
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> agraph (float[2] x) => (float y) {{ {ENORMOUS[op]} }}'
    )
    wanted = "Expand" if op == "EyeLike" else op
    assert wanted in confined(lambda: load(proto)(x=np.zeros(2, np.float32)))


_LINE = "s = Constant<value_ints = [1, 1, 2]>() z = Reshape(x, s) "
_PLANE = (
    "s = Constant<value_ints = [1, 1, 1, 2]>() z = Reshape(x, s) b = Constant<value_ints = [0]>() "
    "q = Constant<value_ints = [1, 4]>() r = Constant<value_floats = [0.0, 0.0, 1.0, 1.0]>() rr = Reshape(r, q) "
)
LABORIOUS = {
    "MaxPool": _LINE + "y = MaxPool<pads = [99999999, 0], kernel_shape = [100000000]>(z)",
    "MaxPool both sides": _LINE + "y = MaxPool<pads = [999999, 999999], kernel_shape = [1000000]>(z)",
    "MaxPool places": _LINE + "y, i = MaxPool<pads = [99999, 99999], kernel_shape = [100000]>(z)",
    "AveragePool": _LINE + "y = AveragePool<pads = [99999999, 0], kernel_shape = [100000000]>(z)",
    "LpPool": _LINE + "y = LpPool<pads = [99999999, 0], kernel_shape = [100000000]>(z)",
    "Resize": 's = Constant<value_ints = [100000000]>() y = Resize<mode = "linear">(x, , , s)',
    "RoiAlign": _PLANE + "y = RoiAlign<sampling_ratio = 100000000>(z, rr, b)",
    "RoiAlign far": _PLANE
    + "f = Constant<value_float = 1e9>() ff = Mul(rr, f) y = RoiAlign<sampling_ratio = 0>(z, ff, b)",
    "MaxRoiPool": _PLANE.replace("[1, 4]", "[1, 5]").replace("1.0, 1.0]", "1.0, 1.0, 1.0]")
    + "y = MaxRoiPool<pooled_shape = [10000, 10000]>(z, rr)",
}
"""Little to read, little to hold, and much to do for it."""


@pytest.mark.parametrize("name", LABORIOUS)
def test_work_that_follows_from_a_number_alone_is_refused(name: str):
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> agraph (float[2] x) => (float y) {{ {LABORIOUS[name]} }}'
    )
    told = confined(lambda: load(proto)(x=np.zeros(2, np.float32)))
    assert f"a {name.split(maxsplit=1)[0]} node" in told
    assert "`work_limit`" in told


def test_the_limit_of_work_is_a_setting_and_counts_what_is_there():
    text = '<ir_version: 10, opset_import: ["" : 21]> agraph (float[n] x) => (float y) {{ {} }}'
    wide = "s = Constant<value_ints = [1, 1, -1]>() z = Reshape(x, s) y = MaxPool<kernel_shape = [300], strides = [300]>(z)"
    line = np.arange(3_000_000, dtype=np.float32)
    with settings(work_limit=2):  # once over all of it is what it is
        assert np.asarray(load(onnx.parser.parse_model(text.format(wide)))(x=line)[0]).size == 10_000
    overlapping = wide.replace(", strides = [300]", "")
    with settings(work_limit=100), pytest.raises(PlanishError, match="work_limit"):
        load(onnx.parser.parse_model(text.format(overlapping)))(x=line)


def test_a_loop_without_end_is_not_written_out():
    text = """<ir_version: 10, opset_import: ["" : 21]>
    agraph (float[1] x) => (float[k] y) {
      most = Constant<value_int = 1000000000000>()
      y = Loop (most, , x) <
        body = step (int64 i, bool going, float[m] v) => (bool again, float[p] w) {
          w = Concat<axis = 0>(v, v)
          again = Identity(going)
        }
      >
    }"""
    proto = onnx.parser.parse_model(text)
    assert re.search(r"Loop|Concat", confined(lambda: load(proto)(x=np.zeros(1, np.float32))))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_files_are_errors_not_crashes(seed: int):
    """A byte changed anywhere: an answer, or one of our errors."""
    raw = bytearray(adding(np.arange(6, dtype=np.float32)).SerializeToString())
    rng = np.random.default_rng(seed)
    for place in rng.integers(0, len(raw), 3):
        raw[place] = rng.integers(0, 256)
    try:
        model = load(bytes(raw))
        model.make = Model(adding(np.zeros(1, np.float32)), interpret=True).make
        feeds = {
            info.name: np.zeros([d if isinstance(d, int) else 1 for d in info.dims or ()], np.float32)
            for info in model.inputs
        }
        if all(array.size < 1000 for array in feeds.values()):
            model.run(None, feeds)
    except PlanishError:
        pass


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(PlanishError, match="cannot read"):
        load(tmp_path / "none.onnx")
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(PlanishError, match="is empty"):
        load(tmp_path / "empty.onnx")
    assert os.listdir(tmp_path) == ["empty.onnx"]  # noqa: PTH208 - nothing was written


def test_weights_over_two_gibibytes_are_mapped_not_read(tmp_path: Path) -> None:
    rows, columns = 600_000, 1024  # 2.3 GiB, of which a sparse file takes three rows
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, columns])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(4 * rows * columns))):
        weights.external_data.add(key=key, value=value)
    chosen = np.array([0, 5, rows - 1])
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * rows * columns)
        for row in chosen.tolist():
            file.seek(4 * row * columns)
            file.write(np.full(columns, row + 1, np.float32).tobytes())
    nodes = [helper.make_node("Gather", ["w", "i"], ["g"]), helper.make_node("Relu", ["g"], ["y"])]
    taken = helper.make_tensor_value_info("i", TensorProto.INT64, [3])
    given = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, columns])
    graph = helper.make_graph(nodes, "g", [taken], [given], [weights])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (found,) = load(tmp_path / "m.onnx")(i=chosen)
    assert found.tolist() == np.repeat(chosen[:, None] + 1.0, columns, 1).tolist()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
