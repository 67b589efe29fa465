"""Damaged ONNX models, and models whose sizes no machine has: a result or a `PlanishError`, in little time and memory."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from planish.errors import PlanishError
from planish.onnx import load
from tests.damage import damaging, models
from tests.damage.damaging import Trial


@pytest.mark.parametrize("rounds", [2000, pytest.param(30_000, marks=pytest.mark.fuzz)])
def test_damaged_models(rounds: int) -> None:
    given = models.stored() if rounds < 10_000 else models.corpus()
    assert len(given) > 50
    trial = Trial()
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        trial(models.run, models.damaged(rng.choice(given), rng, rng.choice(given)))
    trial.check()


def made(
    nodes: Sequence[onnx.NodeProto], shape: Sequence[int] | None = None, **initial: Any
) -> onnx.ModelProto:
    inputs = [] if shape is None else [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(
        list(nodes), "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in initial.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


node = helper.make_node


@pytest.mark.parametrize(
    "field", ["op_type", "domain", "name", "input", "output", "graph", "dim", "attribute", "opset"]
)
def test_names_that_are_no_text(field: str) -> None:
    """Protobuf does not mind bytes that are no UTF-8 in a name, and hands them out as such."""
    mark = "qqqqqqq"
    model = made([node("Relu", ["x"], ["z"], name="n"), node("Flatten", ["z"], ["y"], axis=0)], [2])
    first = model.graph.node[0]
    if field in ("op_type", "domain", "name"):
        setattr(first, field, mark)
    elif field == "input":
        first.input[0] = model.graph.input[0].name = mark
    elif field == "output":
        first.output[0] = model.graph.node[1].input[0] = mark
    elif field == "graph":
        model.graph.name = mark
    elif field == "dim":
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = mark
    elif field == "attribute":
        model.graph.node[1].attribute[0].name = mark
    else:
        model.opset_import.add(domain=mark, version=1)
    raw = model.SerializeToString().replace(mark.encode(), b"\xff\xfe\x80abc\xc0")
    with pytest.raises(PlanishError, match="no text"):
        models.run(raw)


@pytest.mark.parametrize("version", [-1, 0, 2**31, 2**62])
def test_versions_that_there_are_not(version: int) -> None:
    model = made([node("NoSuchOp", ["x"], ["y"])], [2])
    model.opset_import[0].version = version
    with pytest.raises(PlanishError, match="opset"):
        load(model.SerializeToString())


SIZES = {
    "large": [2**40],
    "overflows": [2**32, 2**32],
    "wraps": [2**62, 4],
    "last": [2**63 - 1],
    "axes": [1] * 65,
}


def too_large(shape: list[int]) -> dict[str, onnx.ModelProto]:
    first, count = shape[0], len(shape)
    ones = [1] * count
    return {
        "constant": made([node("ConstantOfShape", ["s"], ["y"])], s=shape),
        "expand": made([node("Expand", ["x", "s"], ["y"])], [1], s=shape),
        "sum": made([node("Expand", ["x", "s"], ["z"]), node("ReduceSum", ["z"], ["y"], keepdims=0)], [1], s=shape),
        "tile": made([node("Tile", ["x", "s"], ["y"])], ones if count <= 64 else [1], s=shape),
        "unsqueeze": made([node("Unsqueeze", ["x", "s"], ["y"])], [1], s=np.arange(count)),
        "random": made([node("RandomNormal", [], ["y"], shape=shape)]),
        "onehot": made([node("OneHot", ["i", "s", "v"], ["y"])], i=[1], s=first, v=np.array([0, 1], "f4")),
        "pad": made([node("Pad", ["x", "s"], ["y"])], [1], s=[first, 0]),
        "reflect": made([node("Pad", ["x", "s"], ["y"], mode="reflect")], [3], s=[first, 0]),
        "range": made([node("Range", ["a", "s", "b"], ["y"])], a=0, s=first, b=1),
        "resize": made([node("Resize", ["x", "", "", "s"], ["y"])], [1, 1, 2, 2], s=[1, 1, first, 2]),
        "split": made([node("Split", ["x"], ["y"], num_outputs=first)], [4]),
        "window": made([node("HannWindow", ["s"], ["y"])], s=first),
        "conv": made([node("Conv", ["x", "w"], ["y"], pads=[first, 0, 0, 0])], [1, 1, 3, 3], w=np.ones((1, 1, 2, 2), "f4")),
        "input": made([node("Neg", ["x"], ["y"])], shape),
    }  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_checked_before_memory_is_asked_for(size: str) -> None:
    trial = Trial()
    for model in too_large(SIZES[size]).values():
        trial(models.run, model.SerializeToString(), 5)
        # as one program, whose inputs need not be there
        trial(lambda raw: load(raw).program(), model.SerializeToString(), 5)
    assert not trial.failures, trial.report()
    assert trial.refused > 10 or size == "axes"


def test_a_model_that_wants_more_memory_than_there_is() -> None:
    model = made([node("ConstantOfShape", ["s"], ["z"]), node("Exp", ["z"], ["y"])], s=[2**29])
    for interpret in (False, True):
        given = load(model.SerializeToString())
        if interpret:
            given.make = models._INTERPRETED
        with damaging.limited(60, 1 << 30), pytest.raises(PlanishError, match=r"memory|takes too much"):
            given.run(None, {})


@pytest.mark.parametrize(
    "attribute", ["max_gram_length", "max_skip_count", "min_gram_length", "ngram_counts", "ngram_indexes"]
)
@pytest.mark.parametrize("amount", [2**62, -(2**63), 10**9])
def test_n_grams_of_any_amount_come_to_an_end(attribute: str, amount: int) -> None:
    given: dict[str, Any] = {
        "max_gram_length": 2, "min_gram_length": 1, "max_skip_count": 1, "mode": "TF", "ngram_counts": [0, 2],
        "ngram_indexes": [0, 1, 2], "pool_int64s": [1, 2, 1, 2],
    }  # fmt: skip
    given[attribute] = (
        [0, amount, 2][: len(given[attribute])] if isinstance(given[attribute], list) else amount
    )
    trial = Trial()
    model = made([node("TfIdfVectorizer", ["w"], ["y"], **given)], w=[1, 2, 1, 2, 3])
    trial(models.run, model.SerializeToString(), 5)
    assert not trial.failures, trial.report()
