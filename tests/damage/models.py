"""Damaged ONNX models: messages with other bytes, or with other values in their fields."""

from __future__ import annotations

import random
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import ModelProto

from planish.onnx import Model, load
from tests.damage import damaging

_MOST: Final = 1 << 16
"""Elements of an input that is made up."""


@cache
def stored() -> list[bytes]:
    """Small models that the onnx package has as files."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    found = sorted(path.read_bytes() for path in folder.rglob("*.onnx") if path.stat().st_size < 4000)
    return [*found, *(model.SerializeToString() for model in _shaped())]


def _shaped() -> list[ModelProto]:
    """Models whose shapes are data."""
    shapes = {
        "ConstantOfShape": (["s"], [2, 3]), "Expand": (["x", "s"], [3, 4]), "Reshape": (["x", "s"], [4, 1]), "Tile": (["x", "s"], [2]),
        "Pad": (["x", "s"], [1, 2]), "Unsqueeze": (["x", "s"], [0]), "TopK": (["x", "s"], [2]), "Gather": (["x", "s"], [1, 0]),
    }  # fmt: skip
    return [
        onnx.helper.make_model(
            onnx.helper.make_graph(
                [onnx.helper.make_node(op, inputs, ["y", "i"][: 1 + (op == "TopK")])],
                "g",
                [onnx.helper.make_tensor_value_info("x", 1, [4])] if "x" in inputs else [],
                [onnx.helper.make_tensor_value_info("y", 1, None)],
                [onnx.numpy_helper.from_array(np.array(data), "s")],
            ),
            opset_imports=[onnx.helper.make_opsetid("", 21)],
        )
        for op, (inputs, data) in shapes.items()
    ]


@cache
def corpus() -> list[bytes]:
    """Small models with many ops: those that ONNX tests its ops with, without their expectations.

    What is given to them as integers (shapes, axes, indices) is part of the model, to be damaged too.
    """
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)  # type: ignore[arg-type, unused-ignore]
    found = set()
    for case in cases:
        if case.model is None or not case.data_sets:
            continue
        model = ModelProto()
        model.CopyFrom(case.model)
        for info, value in zip(case.model.graph.input, case.data_sets[0][0], strict=False):
            array: object = value  # or a list, or nothing
            if isinstance(array, np.ndarray) and array.dtype.kind in "iub" and array.size <= 64:
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, info.name))
        found.add(model.SerializeToString())
    return sorted(raw for raw in found if len(raw) < 4000)


def run(given: bytes) -> None:
    """Load a model and run it on inputs as it describes them, by the interpreter."""
    model = load(given)
    model.make = _INTERPRETED
    feeds: dict[str, Any] = {}
    for info in model.inputs:
        if info.kind != "tensor" or info.dtype in ("unknown",):
            return
        shape = [d if isinstance(d, int) else 2 for d in info.dims or ()]
        if np.prod(shape, dtype=float) > _MOST or len(shape) > 32:
            return
        if info.dtype == "string":
            feeds[info.name] = np.full(shape, "a", object)
        else:
            kind = onnx.helper.tensor_dtype_to_np_dtype(_number(info.dtype))
            feeds[info.name] = np.ones(shape, kind)
    model.run(None, feeds)


def _number(dtype: str) -> int:
    for number in onnx.TensorProto.DataType.values():
        try:
            if number and str(onnx.helper.tensor_dtype_to_np_dtype(number)) == dtype:
                return int(number)
        except KeyError:
            continue
    raise AssertionError(dtype)


_INTERPRETED: Final = Model(
    ModelProto(graph=onnx.GraphProto(name="g"), opset_import=[onnx.helper.make_opsetid("", 21)]),
    interpret=True,
).make


def damaged(raw: bytes, rng: random.Random, other: bytes) -> bytes:
    """A model with damage of one kind or another."""
    if rng.random() < 0.5:
        return damaging.damaged_bytes(raw, rng, other)
    model = ModelProto.FromString(raw)
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            _field(model, rng)
        except (ValueError, TypeError, UnicodeEncodeError):
            continue  # protobuf does not take such a value
    return bytes(model.SerializeToString())


def _field(message: Any, rng: random.Random) -> None:
    """Change a field of a message, or of one inside it."""
    present = message.ListFields()
    if not present or rng.random() < 0.05:
        field = rng.choice(message.DESCRIPTOR.fields)
    else:
        field = rng.choice(present)[0]
    name = field.name
    value = getattr(message, name)
    repeated = hasattr(value, "append") or hasattr(value, "add")
    if field.message_type is not None:
        if not repeated:
            if rng.random() < 0.05:
                message.ClearField(name)
            else:
                _field(value, rng)
            return
        if not value:
            value.add()
        at = rng.randrange(len(value))
        match rng.randrange(12):
            case 0:
                del value[at]
            case 1:
                value.add().CopyFrom(value[at])
            case 2:
                other = rng.randrange(len(value))
                kept = type(value[at])()
                kept.CopyFrom(value[at])
                value[at].CopyFrom(value[other])
                value[other].CopyFrom(kept)
            case _:
                _field(value[at], rng)
        return
    if repeated:
        at = rng.randrange(len(value)) if len(value) else -1
        match rng.randrange(5):
            case 0 if at >= 0:
                del value[at]
            case 1 if at >= 0:
                value.append(value[at])
            case 2 if at >= 0:
                for _ in range(rng.choice((8, 70))):
                    value.append(value[at])
            case _:
                new = _scalar(field, value[at] if at >= 0 else None, rng)
                if at >= 0:
                    value[at] = new
                else:
                    value.append(new)
        return
    if rng.random() < 0.05:
        message.ClearField(name)
    else:
        setattr(message, name, _scalar(field, value, rng))


def _scalar(field: Any, old: Any, rng: random.Random) -> Any:
    if field.type == field.TYPE_BYTES:
        return damaging.damaged_bytes(old or b"", rng)
    if field.type == field.TYPE_STRING:
        return damaging.text(rng, old if isinstance(old, str) else "")
    if field.type == field.TYPE_FLOAT:
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e30, -(old or 1.0)])
    if field.type == field.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    return damaging.number(rng, old or 0)
