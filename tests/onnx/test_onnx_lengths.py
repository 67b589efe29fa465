"""Lengths that data decides: from the third on one program serves them all, in this process and in the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import planish
from planish.onnx import load

RNG = np.random.default_rng(3)
WEIGHT = RNG.standard_normal((16, 8)).astype(np.float32)
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def port(name: str, kind: int, dims: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes: list[Any], inputs: list[Any], output: str, **weights: Any) -> bytes:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "lengths", inputs, [port(output, FLOAT)], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = made.SerializeToString()
    return data


def chosen_rows() -> bytes:
    """Rows that a mask chooses, multiplied."""
    nodes = [
        helper.make_node("Compress", ["x", "c"], ["r"], axis=0),
        helper.make_node("MatMul", ["r", "w"], ["p"]),
        helper.make_node("Softmax", ["p"], ["y"], axis=-1),
    ]
    return model_of(nodes, [port("x", FLOAT, [40, 16]), port("c", BOOL, [40])], "y", w=WEIGHT)


def rows(count: int) -> dict[str, Any]:
    mask = np.zeros(40, bool)
    mask[RNG.permutation(40)[:count]] = True
    return {"x": RNG.standard_normal((40, 16)).astype(np.float32), "c": mask}


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def compare_rows(model: Any, counts: list[int]) -> list[int]:
    compilations = []
    for count in counts:
        given = rows(count)
        (got,) = model.run(None, given)
        wide = given["x"][given["c"]].astype(np.float64) @ WEIGHT.astype(np.float64)
        np.testing.assert_allclose(got, softmax(wide) if count else wide, rtol=1e-5, atol=1e-6)
        compilations.append(model.compilations)
    return compilations


def test_the_third_number_of_rows_has_a_program_for_the_others():
    model = load(chosen_rows())
    assert compare_rows(model, [3, 5, 9, 7, 12, 30, 29, 1]) == [1, 2, 3, 3, 3, 3, 3, 3]
    assert compare_rows(model, [40, 39, 3, 5]) == [4, 4, 4, 4]  # the bound grows
    assert compare_rows(model, [0])[0] >= 4
    assert model.lengths.reason is None


def test_the_next_process_knows_the_names(tmp_path: Path):
    with planish.config.settings(cache_dir=str(tmp_path)):
        compare_rows(load(chosen_rows()), [3, 5, 9])
        again = load(chosen_rows())
        assert compare_rows(again, [8, 11])[-1] == compare_rows(again, [3])[-1]
        assert not again._compiled  # all of it was found


def test_what_is_not_zero_is_gathered():
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["m"]),
        helper.make_node("NonZero", ["m"], ["i"]),
        helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "t"], ["g"]),
        helper.make_node("Exp", ["g"], ["y"]),
    ]
    model = load(model_of(nodes, [port("x", FLOAT, [100])], "y", zero=np.float32(0)))
    counted = []
    for shift in range(7):
        x = (RNG.standard_normal(100) - 0.3 * shift).astype(np.float32)
        np.testing.assert_allclose(model.run(None, {"x": x})[0], np.exp(x[x > 0]), rtol=1e-5)
        counted.append(model.compilations)
    assert counted[3:] == [counted[2]] * 4


def test_an_end_that_data_says_is_no_part_of_the_program():
    nodes = [
        helper.make_node("ReduceSum", ["n", "axis"], ["end"], keepdims=1),
        helper.make_node("Slice", ["x", "begin", "end", "axis"], ["part"]),
        helper.make_node("Tanh", ["part"], ["y"]),
    ]
    begin, axis = np.array([1]), np.array([0])
    inputs = [port("x", FLOAT, [30, 4]), port("n", INT, [2])]
    model = load(model_of(nodes, inputs, "y", begin=begin, axis=axis))
    x = RNG.standard_normal((30, 4)).astype(np.float32)
    counted = []
    for first, second in [(2, 3), (9, 3), (4, 4), (-1, -3), (8, 8), (1, 2), (90, 1)]:
        (got,) = model.run(None, {"x": x, "n": np.array([first, second])})
        np.testing.assert_allclose(got, np.tanh(x[1 : first + second]), rtol=1e-5, atol=1e-6)
        counted.append(model.compilations)
    assert counted[4:] == [counted[3]] * 3


def test_rows_that_a_loop_stacks_until_data_ends_it():
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["s", "half"], ["t"]),
            helper.make_node("ReduceMax", ["t"], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "one"], ["on"]),
            helper.make_node("Identity", ["t"], ["row"]),
            helper.make_node("SequenceInsert", ["q", "t"], ["q2"]),
        ],
        "body",
        [port("k", INT, []), port("go", BOOL, []), port("s", FLOAT, [4]), onnx.ValueInfoProto(name="q")],
        [
            port("on", BOOL, []),
            port("t", FLOAT, [4]),
            onnx.ValueInfoProto(name="q2"),
            port("row", FLOAT, [4]),
        ],
    )
    for value in (body.input[3], body.output[2]):
        value.type.sequence_type.elem_type.tensor_type.elem_type = FLOAT
    nodes = [
        helper.make_node("SequenceEmpty", [], ["q0"]),
        helper.make_node("Loop", ["", "yes", "x", "q0"], ["last", "all", "rows"], body=body),
        helper.make_node("Exp", ["rows"], ["y"]),
    ]
    data = model_of(
        nodes, [port("x", FLOAT, [4])], "y", yes=np.array(True), half=np.float32(0.5), one=np.float32(1)
    )
    model = load(data)
    counted = []
    for power in (1, 3, 4, 6, 2, 5):
        x = np.full(4, 1.5 * 2.0**power, np.float32)
        wanted = np.exp(np.stack([x / 2.0 ** (n + 1) for n in range(power + 1)]))
        np.testing.assert_allclose(model.run(None, {"x": x})[0], wanted, rtol=1e-5)
        counted.append(model.compilations)
    assert counted[3:] == [counted[2]] * 3


def after_compress(*nodes: Any, **weights: Any) -> Any:
    first = helper.make_node("Compress", ["x", "c"], ["r"], axis=0)
    return load(
        model_of([first, *nodes], [port("x", FLOAT, [40, 16]), port("c", BOOL, [40])], "y", **weights)
    )


@pytest.mark.parametrize("place", [0, -1, -2])
def test_a_row_by_its_number_of_however_many(place: int):
    model = after_compress(helper.make_node("Gather", ["r", "i"], ["y"], axis=0), i=np.array([place, 0]))
    for count in (3, 5, 9, 7, 12, 2):
        given = rows(count)
        np.testing.assert_array_equal(model.run(None, given)[0], given["x"][given["c"]][[place, 0]])
    assert model.compilations == (3 if place > -2 else 6)  # not every length has a last but one


def test_where_a_number_is_needed_each_length_has_its_own():
    model = after_compress(
        helper.make_node("Unsqueeze", ["r", "front"], ["u"]),
        helper.make_node("Unsqueeze", ["u", "back"], ["v"]),
        helper.make_node("DFT", ["v"], ["y"], axis=1),
        front=np.array([0]),
        back=np.array([3]),
    )
    for count in (3, 5, 9, 7):
        given = rows(count)
        wanted = np.fft.fft(given["x"][given["c"]].astype(np.float64), axis=0)
        got = model.run(None, given)[0][0]
        np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], wanted, rtol=1e-4, atol=1e-4)
    assert "DFT" in (model.lengths.reason or "")


def scalar(name: str, kind: int) -> onnx.ValueInfoProto:
    return port(name, kind, [])


def of_sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


SQUARE = (RNG.standard_normal((8, 8)) / 3).astype(np.float32)


def growing_rows() -> bytes:
    """Each step adds a row made of all rows there are, until there are as many as an input says."""
    body = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["t"], ["mean"], axes=[0], keepdims=1),
            helper.make_node("MatMul", ["mean", "w"], ["row"]),
            helper.make_node("Concat", ["t", "row"], ["more"], axis=0),
            helper.make_node("Shape", ["more"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["count"]),
            helper.make_node("Cast", ["count"], ["reached"], to=FLOAT),
            helper.make_node("Less", ["reached", "end"], ["on"]),
        ],
        "step",
        [scalar("i", INT), scalar("going", BOOL), port("t", FLOAT, [None, 8])],
        [scalar("on", BOOL), port("more", FLOAT, [None, 8])],
    )
    nodes = [
        helper.make_node("Loop", ["", "yes", "x"], ["rows"], body=body),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    inputs = [port("x", FLOAT, [2, 8]), scalar("end", FLOAT)]
    return model_of(nodes, inputs, "y", w=SQUARE, yes=np.array(True), zero=np.array(0))


def test_what_grows_in_a_loop_has_one_program_for_its_steps():
    with planish.settings(cache=False):
        model = load(growing_rows())
        compilations = []
        for end in (5, 8, 15, 40, 3, 23):
            x = RNG.standard_normal((2, 8)).astype(np.float32)
            rows = x.astype(np.float64)
            while len(rows) < max(end, 3):
                rows = np.concatenate([rows, rows.mean(0, keepdims=True) @ SQUARE])
            (found,) = model.run(None, {"x": x, "end": np.array(end, np.float32)})
            np.testing.assert_allclose(found, rows @ SQUARE, rtol=1e-4, atol=1e-5)
            compilations.append(model.compilations)
        assert model.lengths.reason is None
        # up to two lengths alone, and one program up to each bound: not one per length
        assert compilations[-1] <= 10
        assert compilations[3:] == [compilations[3]] * 3


def sequence_of_steps(counted: bool) -> bytes:
    """Steps put what they have into a sequence: as many as an input says, or until the sequence is that long."""
    ends = (
        [helper.make_node("Identity", ["going"], ["on"])]
        if counted
        else [
            helper.make_node("SequenceLength", ["longer"], ["count"]),
            helper.make_node("Less", ["count", "end"], ["on"]),
        ]
    )
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["v", "w"], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
            helper.make_node("SequenceInsert", ["s", "next"], ["longer"]),
            *ends,
        ],
        "step",
        [scalar("i", INT), scalar("going", BOOL), port("v", FLOAT, [1, 8]), of_sequence("s")],
        [scalar("on", BOOL), port("next", FLOAT, [1, 8]), of_sequence("longer")],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["empty"]),
        helper.make_node("Loop", ["end" if counted else "", "yes", "x", "empty"], ["last", "all"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["rows"], axis=0),
        helper.make_node("Softmax", ["rows"], ["y"], axis=0),
    ]
    return model_of(nodes, [port("x", FLOAT, [1, 8]), scalar("end", INT)], "y", w=SQUARE, yes=np.array(True))


@pytest.mark.parametrize("counted", [False, True])
def test_sequences_of_any_length_have_one_program(counted: bool):
    with planish.settings(cache=False):
        model = load(sequence_of_steps(counted))
        compilations = []
        for end in (3, 5, 9, 12, 4, 15):
            x = RNG.standard_normal((1, 8)).astype(np.float32)
            rows = [x.astype(np.float64)]
            for _ in range(end):
                rows.append(np.tanh(rows[-1] @ SQUARE))
            (found,) = model.run(None, {"x": x, "end": np.array(end)})
            np.testing.assert_allclose(found, softmax(np.concatenate(rows[1:]).T).T, rtol=1e-4, atol=1e-5)
            compilations.append(model.compilations)
        assert compilations[2:] == [compilations[2]] * 4
        assert model.compilations <= 6
