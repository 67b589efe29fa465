"""A model imported: for arrays, running it on the way, or as one function for types.

This is what needs the importer and all its handlers: a model that is found on disk as it was run before does without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

import planish.onnx.ops  # noqa: F401 - fills the registry
from planish.errors import PlanishError
from planish.onnx.attributes import Attributes
from planish.onnx.checking import check
from planish.onnx.engine import Importer
from planish.onnx.lengths import NamedLengths
from planish.onnx.ordering import put_in_order
from planish.onnx.preparing import prepared
from planish.onnx.scope import NameScope
from planish.onnx.site import CannotTrace, NodeSite
from planish.onnx.tape import Tape, TapeRecorder
from planish.onnx.tensors import letters_of, on_device
from planish.onnx.whole import WholeProgram
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import DimLike

if TYPE_CHECKING:
    from planish.onnx.model import Model

Array = NDArray[Any]


def ready(model: Model) -> None:
    """Look through a model before it is imported for the first time."""
    if not model.is_ready:
        put_in_order(model.proto)
        check(model.proto, model.functions, model.versions)
        model.is_ready = True


def record(
    model: Model, given: Mapping[str, Any], tape: Tape, flat: Sequence[Array]
) -> tuple[list[Any], bool]:
    """Import a model for these inputs, running it on the way; the outputs, and whether the tape can repeat that."""
    while True:
        recorder = TapeRecorder(tape, flat)
        engine = _engine(model, recorder)
        engine.lengths = NamedLengths(model.lengths)
        names = {name: _entered(engine, value) for name, value in given.items()}
        try:
            outputs = engine.outputs(engine.run_graph(model.proto.graph, NameScope(names)))
        except PlanishError as error:
            if not engine.lengths.used:
                raise
            model.lengths.reason = error.message  # something needs a length as a number: from now on all are
            continue
        return outputs, recorder.keeps


def whole(
    model: Model, given: Mapping[str, Array], dims: Mapping[str, Sequence[DimLike]] | None = None
) -> WholeProgram:
    """A model as one function of inputs of these types."""
    engine = _engine(model, None)
    names: dict[str, Any] = {}
    for name, array in given.items():
        names[name] = engine.segment.parameter(array, (dims or {}).get(name))
    outputs = engine.run_graph(model.proto.graph, NameScope(names))
    if any(not isinstance(v, np.ndarray | GraphValue) for v in outputs):
        raise CannotTrace("an output of the model is a sequence")
    if any(isinstance(v, np.ndarray) and not on_device(v.dtype) for v in outputs):
        raise CannotTrace("an output of the model is text, or of a dtype that programs do not have")
    values = [engine.segment.value(v) if isinstance(v, np.ndarray) else v for v in outputs]
    function, arrays = engine.segment.graph.build(*values), engine.segment.arrays
    fixed = [n >= len(given) for n in range(len(arrays))]
    function, arrays = prepared(function, arrays, fixed, model.prepared)
    return WholeProgram(function, arrays[len(given) :])


def _engine(model: Model, recorder: TapeRecorder | None) -> Importer:
    ready(model)
    engine = Importer(
        model.versions,
        model.functions,
        recorder,
        model.compiled,
        name_of(model.proto.graph.name),
        model.folder,
    )
    engine.give_initializers(model.proto.graph, model.initial)
    engine.prepared = model.prepared
    return engine


def site_of(node: NodeProto, version: int, attributes: Attributes | None = None) -> NodeSite:
    """A node by itself, outside any import, with names of its own."""
    engine = Importer({node.domain: version}, {}, None, None)
    return NodeSite(engine, node, attributes or Attributes(node), version, NameScope())


def _entered(engine: Importer, value: Any) -> Any:
    if isinstance(value, list):
        return [_entered(engine, item) for item in value]
    if isinstance(value, np.ndarray) and on_device(value.dtype):
        return engine.segment.parameter(value)
    return value


def name_of(graph: str) -> str:
    """The name of a graph, as a program can have it."""
    letters = letters_of(graph)[:60]
    return letters if letters and not letters[0].isdigit() else f"model_{letters}" if letters else "model"


__all__ = ["CannotTrace", "check", "ready", "record", "site_of", "whole"]
