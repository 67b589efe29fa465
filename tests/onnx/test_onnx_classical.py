"""Classical models (ai.onnx.ml) beside onnxruntime: random ensembles, machines and encoders; texts; lists of dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import planish.onnx as ours
from planish.errors import PlanishError
from planish.onnx.ops import ml_trees
from planish.onnx.status import InvalidArgument

RNG = np.random.default_rng(11)
X = RNG.standard_normal((17, 5)).astype(np.float32)


def model_of(
    op: str, kind: int, outputs: dict[str, int], inputs: tuple[str, ...] = ("x",), **attributes: Any
) -> Any:
    node = helper.make_node(op, list(inputs), list(outputs), domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], "m", [helper.make_tensor_value_info(name, kind, None) for name in inputs],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
    )  # fmt: skip
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()


def compare(data: bytes, feeds: dict[str, Any], close: float = 2e-5) -> None:
    theirs = pytest.importorskip("onnxruntime")
    wanted = theirs.InferenceSession(data).run(None, feeds)
    session = ours.InferenceSession(data)
    for _ in range(2):  # imported, and from the tape
        for got, want in zip(session.run(None, feeds), wanted, strict=True):
            a, b = (numbers(found) for found in (got, want))
            if b.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=close, atol=close)
            else:
                assert a.tolist() == b.tolist()
            if isinstance(want, list):
                assert [list(row) for row in got] == [list(row) for row in want]


def numbers(found: Any) -> Any:
    return np.asarray([list(row.values()) for row in found] if isinstance(found, list) else found)


def trees(kind: str, targets: list[int], modes: list[str], positive: bool, count: int = 4) -> dict[str, Any]:
    """Full trees of three levels; every leaf has a weight for each target."""
    nodes: dict[str, list[Any]] = {
        n: []
        for n in (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    held: dict[str, list[Any]] = {n: [] for n in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        for node in range(7):
            leaf = node > 2
            row = (
                tree, node, int(RNG.integers(5)), 0.0 if leaf else float(RNG.standard_normal()),
                "LEAF" if leaf else modes[int(RNG.integers(len(modes)))],
                0 if leaf else 2 * node + 1, 0 if leaf else 2 * node + 2, int(RNG.integers(2)),
            )  # fmt: skip
            for values, value in zip(nodes.values(), row, strict=True):
                values.append(value)
            for target in targets if leaf else []:
                weight = float(RNG.random() / count if positive else RNG.standard_normal())
                for values, value in zip(held.values(), (tree, node, target, weight), strict=True):
                    values.append(value)
    return {f"nodes_{n}": v for n, v in nodes.items()} | {f"{kind}_{n}": v for n, v in held.items()}


FLOAT, INT, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
ALL = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(("classes", "targets"), [(3, [0, 1, 2]), (2, [0]), (2, [1])])
@pytest.mark.parametrize("positive", [True, False])
def test_tree_classifiers(how: str, classes: int, targets: list[int], positive: bool):
    made = trees("class", targets, ALL[:1], positive)
    made["classlabels_int64s"] = [10 * n for n in range(classes)]
    compare(
        model_of("TreeEnsembleClassifier", FLOAT, {"l": INT, "p": FLOAT}, post_transform=how, **made),
        {"x": X},
    )


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [ALL[:1], ALL])
def test_tree_regressors(how: str, modes: list[str]):
    made = trees("target", [0, 1], modes, False)
    data = model_of(
        "TreeEnsembleRegressor", FLOAT, {"y": FLOAT}, n_targets=2, aggregate_function=how, base_values=[0.5, -1.0], **made
    )  # fmt: skip
    gaps = X.copy()
    gaps[::3, 1] = np.nan
    compare(data, {"x": X})
    compare(data, {"x": gaps})


def test_labels_may_be_text_and_shares_a_list_of_dictionaries():
    made = trees("class", [0, 1, 2], ALL[:1], True)
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"], **made
    )  # fmt: skip
    maps = helper.make_node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"])
    labels = helper.make_tensor_value_info("l", TEXT, None)
    zipped = onnx.ValueInfoProto(name="z")
    zipped.type.sequence_type.elem_type.map_type.key_type = TEXT
    zipped.type.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = FLOAT
    graph = helper.make_graph(
        [node, maps], "m", [helper.make_tensor_value_info("x", FLOAT, [None, 5])], [labels, zipped]
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    data = helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
    compare(data, {"x": X})
    session = ours.InferenceSession(data)
    assert [port.type for port in session.get_outputs()] == [
        "tensor(string)",
        "seq(map(string,tensor(float)))",
    ]
    first, second = (session.run(["l"], {"x": x})[0].tolist() for x in (X, X[::-1].copy()))
    assert first == second[::-1]


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_linear_models(how: str, rows: int):
    weights = RNG.standard_normal(5 * rows).astype(np.float32).tolist()
    shift = RNG.standard_normal(rows).astype(np.float32).tolist()
    if (rows, how) != (1, "SOFTMAX"):
        data = model_of(
            "LinearClassifier", FLOAT, {"l": INT, "p": FLOAT}, coefficients=weights, intercepts=shift,
            classlabels_ints=list(range(max(2, rows))), post_transform=how,
        )  # fmt: skip
        compare(data, {"x": X})
    data = model_of(
        "LinearRegressor", FLOAT, {"y": FLOAT}, coefficients=weights, intercepts=shift, targets=rows
    )
    compare(data, {"x": X})


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shares", [False, True])
def test_support_vector_machines(kernel: str, classes: int, shares: bool):
    pairs = classes * (classes - 1) // 2
    made: dict[str, Any] = {
        "kernel_type": kernel, "kernel_params": [0.3, 0.1, 2.0], "rho": RNG.standard_normal(pairs).tolist(),
        "support_vectors": RNG.standard_normal(classes * 2 * 5).tolist(),
    }  # fmt: skip
    weights = RNG.standard_normal((classes - 1) * classes * 2)
    more: dict[str, Any] = {"prob_a": [-1.0] * pairs, "prob_b": [0.1] * pairs} if shares else {}
    data = model_of(
        "SVMClassifier", FLOAT, {"l": INT, "p": FLOAT}, vectors_per_class=[2] * classes, coefficients=weights.tolist(),
        classlabels_ints=list(range(classes)), **made, **more,
    )  # fmt: skip
    compare(data, {"x": X}, 1e-3)
    made["rho"] = made["rho"][:1]
    machine = model_of(
        "SVMRegressor",
        FLOAT,
        {"y": FLOAT},
        n_supports=classes * 2,
        coefficients=weights.tolist()[: classes * 2],
        **made,
    )
    compare(machine, {"x": X}, 1e-3)


TEXTS = np.array([["red", "blue"], ["green", "none"]], object)
ENCODERS: dict[str, tuple[int, dict[str, int], Any, dict[str, Any]]] = {
    "OneHotEncoder": (TEXT, {"y": FLOAT}, TEXTS, {"cats_strings": ["red", "green", "blue"]}),
    "LabelEncoder": (
        TEXT, {"y": INT}, TEXTS, {"keys_strings": ["red", "green", "blue"], "values_int64s": [4, 5, 6], "default_int64": -7},
    ),
    "CategoryMapper": (TEXT, {"y": INT}, TEXTS, {"cats_strings": ["red", "green"], "cats_int64s": [3, 8]}),
    "Imputer": (
        FLOAT, {"y": FLOAT}, np.array([[np.nan, 1.0], [2.0, np.nan]], np.float32),
        {"imputed_value_floats": [5.0, 6.0], "replaced_value_float": float("nan")},
    ),
    "Scaler": (FLOAT, {"y": FLOAT}, X, {"offset": [1.0, 2.0, 3.0, 4.0, 5.0], "scale": [0.5] * 5}),
    "Binarizer": (FLOAT, {"y": FLOAT}, X, {"threshold": 0.25}),
    "Normalizer": (FLOAT, {"y": FLOAT}, X, {"norm": "L2"}),
}  # fmt: skip


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name: str):
    kind, outputs, x, attributes = ENCODERS[name]
    compare(model_of(name, kind, outputs, **attributes), {"x": x})


def test_features_side_by_side():
    data = model_of("FeatureVectorizer", FLOAT, {"y": FLOAT}, ("a", "b"), inputdimensions=[5, 5])
    compare(data, {"a": X, "b": X + 1})


def test_a_tree_that_leads_nowhere_is_refused():
    made = trees("class", [0, 1], ALL[:1], True)
    made["nodes_truenodeids"][0] = 99
    data = model_of(
        "TreeEnsembleClassifier", FLOAT, {"l": INT, "p": FLOAT}, classlabels_int64s=[0, 1], **made
    )
    with pytest.raises(PlanishError, match="no node 99 in tree 0"):
        ours.InferenceSession(data).run(None, {"x": X})


MOVED = """
<ir_version: 9, opset_import: ["" : 19]>
moved (string[n, 2] x, int64[k] at) => (string[k, 2] y, string[m, 2] twice, bool[n, 2] same, int64[2] s, string[n, 2] i)
{ y = Gather(x, at) twice = Concat<axis = 0>(x, y) t = Identity(x) same = Equal(x, t) s = Shape(twice) i = Cast<to = 8>(t) }
"""


def test_texts_are_moved_and_compared():
    data = onnx.parser.parse_model(MOVED).SerializeToString()
    model = ours.load(data)
    for _ in range(2):
        y, twice, same, shape, text = model.run(None, {"x": TEXTS, "at": np.array([1, 1, 0])})
        assert y.tolist() == TEXTS[[1, 1, 0]].tolist()
        assert twice.tolist() == [*TEXTS.tolist(), *TEXTS[[1, 1, 0]].tolist()]
        assert (same.all(), shape.tolist(), text.tolist()) == (True, [5, 2], TEXTS.tolist())
    for words in (TEXTS, TEXTS[::-1].copy()):
        y, *_ = model.run(None, {"x": words, "at": np.array([1])})
        assert y.tolist() == words[1:].tolist()


UNSORTED = """
<ir_version: 9, opset_import: ["" : 17]>
unsorted (float[3] x) => (float[3] y)
{ y = Add(b, c) c = Neg(b) b = Abs(a) a = Exp(x) }
"""


def test_nodes_may_stand_in_any_order():
    model = ours.load(onnx.parser.parse_model(UNSORTED))
    assert model(x=np.ones(3, np.float32))[0].tolist() == [0, 0, 0]
    with pytest.raises(PlanishError, match="'b'"):
        ours.load(onnx.parser.parse_model(UNSORTED.replace("Exp(x)", "Exp(y)")))


def reader(op: str, key: int, value: int, element: int, **attributes: Any) -> bytes:
    """A model of one node that reads a dictionary."""
    port = onnx.ValueInfoProto(name="x")
    port.type.map_type.key_type = key
    port.type.map_type.value_type.tensor_type.elem_type = value
    node = helper.make_node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([node], "m", [port], [helper.make_tensor_value_info("y", element, None)])
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    data: bytes = helper.make_model(graph, opset_imports=versions, ir_version=8).SerializeToString()
    return data


@pytest.mark.parametrize("given", [{"c": 2.5, "a": 1.0, "z": 3.0}, {"b": 2}])
def test_a_dictionary_is_an_input_by_its_words(given: dict[str, float]):
    data = reader("DictVectorizer", TEXT, FLOAT, FLOAT, string_vocabulary=["a", "b", "c"])
    compare(data, {"x": given})
    assert ours.InferenceSession(data).get_inputs()[0].type == "map(string,tensor(float))"


def test_a_dictionary_is_an_input_by_its_numbers():
    compare(reader("DictVectorizer", INT, FLOAT, FLOAT, int64_vocabulary=[9, 5, 7]), {"x": {5: 1.0, 9: 2.5}})


@pytest.mark.parametrize("form", ["DENSE", "SPARSE"])
@pytest.mark.parametrize(("to", "element"), [("TO_FLOAT", FLOAT), ("TO_INT64", INT), ("TO_STRING", TEXT)])
def test_what_a_dictionary_has_is_cast(form: str, to: str, element: int):
    data = reader("CastMap", INT, FLOAT, element, cast_to=to, map_form=form, max_map=5)
    compare(data, {"x": {3: 2.75, 1: 1.0}})
    compare(data, {"x": {7: -2.5, 0: 4.0} if form == "SPARSE" else {7: -2.5, -2: 1.0}})


def test_rows_of_a_dictionary_are_what_later_nodes_read():
    words = helper.make_node(
        "DictVectorizer", ["x"], ["v"], domain="ai.onnx.ml", string_vocabulary=["a", "b"]
    )
    scaled = helper.make_node(
        "Scaler", ["v"], ["y"], domain="ai.onnx.ml", offset=[1.0, 2.0], scale=[2.0, 3.0]
    )
    model = onnx.load_from_string(reader("DictVectorizer", TEXT, FLOAT, FLOAT, string_vocabulary=["a", "b"]))
    del model.graph.node[:]
    model.graph.node.extend([words, scaled])
    compare(model.SerializeToString(), {"x": {"a": 5.0}})
    compare(model.SerializeToString(), {"x": {"b": -1.0, "q": 2.0}})


def test_what_is_no_such_dictionary_is_told():
    session = ours.InferenceSession(
        reader("DictVectorizer", TEXT, FLOAT, FLOAT, string_vocabulary=["a", "b"])
    )
    for wrong in (X, {1: 2.0}, {"a": "word"}, [1.0]):
        with pytest.raises(InvalidArgument, match="input x"):
            session.run(None, {"x": wrong})
    with pytest.raises(ValueError, match="missing"):
        session.run(None, {})
    places = ours.InferenceSession(reader("CastMap", INT, FLOAT, FLOAT, map_form="SPARSE", max_map=3))
    with pytest.raises(InvalidArgument, match="no place"):
        places.run(None, {"x": {-2: 1.0}})
    with pytest.raises(PlanishError, match="elements"):
        ours.InferenceSession(reader("CastMap", INT, FLOAT, FLOAT, map_form="SPARSE", max_map=1 << 40))


@pytest.mark.parametrize("mode", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_machine_code_walks_as_numpy_does(mode: str, dtype: str, monkeypatch: pytest.MonkeyPatch):
    made = trees("target", [0, 2], [mode], False, count=9)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    data = model_of("TreeEnsembleRegressor", element, {"y": FLOAT}, n_targets=3, **made)
    x = X.astype(dtype)
    x[::3, 1] = np.nan
    x[1] = made["nodes_values"][:5]  # on the edge
    walked = ours.InferenceSession(data).run(None, {"x": x})[0]
    monkeypatch.setattr(ml_trees, "call_routine", lambda *_: False)
    np.testing.assert_allclose(walked, ours.InferenceSession(data).run(None, {"x": x})[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [("nodes_truenodeids", 70), ("nodes_falsenodeids", -9), ("tree_roots", 5), ("leaf_targetids", -4)],
)
def test_trees_that_lead_out_of_their_tables_are_no_memory_fault(name: str, value: int):
    whole: dict[str, Any] = {
        "nodes_featureids": [0],
        "nodes_truenodeids": [0],
        "nodes_falsenodeids": [1],
        "nodes_trueleafs": [1],
    }
    whole |= {
        "nodes_falseleafs": [1],
        "tree_roots": [0],
        "leaf_targetids": [0, 0],
        name: [value, 0][: 1 + (name[0] == "l")],
    }
    floats = {"nodes_splits": np.zeros(1, np.float32), "leaf_weights": np.ones(2, np.float32)}
    tensors = {n: onnx.numpy_helper.from_array(v, n) for n, v in floats.items()}
    modes = onnx.numpy_helper.from_array(np.zeros(1, np.uint8), "modes")
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_modes=modes, **whole, **tensors
    )
    graph = helper.make_graph(
        [node],
        "m",
        [helper.make_tensor_value_info("x", FLOAT, [None, 5])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 5)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    with pytest.raises(PlanishError):
        ours.InferenceSession(model.SerializeToString()).run(None, {"x": X})
