"""Sequences and optionals: Python lists and None, while importing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from planish.onnx.registry import OWN, op
from planish.onnx.scope import NameScope
from planish.onnx.site import NodeSite

Array = NDArray[Any]
Value = Any


def _number(at: NodeSite, position: int, value: Value) -> int:
    return int(
        np.asarray(at.engine.known(at, [position], _inputs(at, position, value))[position]).reshape(-1)[0]
    )


def _inputs(at: NodeSite, position: int, value: Value) -> list[Value]:
    return [at.scope.find(name) if name else None for name in at.node.input]


@op("SequenceEmpty", since=11, sequences=True)
def sequence_empty(at: NodeSite) -> tuple[list[Value]]:
    at.attr("dtype")
    return ([],)


@op("SequenceConstruct", since=11, sequences=True)
def sequence_construct(at: NodeSite, *values: Value) -> tuple[list[Value]]:
    return (list(values),)


@op("SequenceInsert", since=11, sequences=True)
def sequence_insert(
    at: NodeSite, sequence: list[Value], value: Value, position: Value = None
) -> tuple[list[Value]]:
    place = len(sequence) if position is None else _number(at, 2, position)
    sequence, value = (at.scope.find(name) for name in at.node.input[:2])
    place += len(sequence) if place < 0 else 0
    return ([*sequence[:place], value, *sequence[place:]],)


@op("SequenceErase", since=11, sequences=True)
def sequence_erase(at: NodeSite, sequence: list[Value], position: Value = None) -> tuple[list[Value]]:
    place = len(sequence) - 1 if position is None else _number(at, 1, position)
    sequence = list(at.scope.find(at.node.input[0]))
    del sequence[place]
    return (sequence,)


@op("SequenceAt", since=11, sequences=True)
def sequence_at(at: NodeSite, sequence: list[Value], position: Value) -> tuple[Value]:
    place = _number(at, 1, position)
    return (at.scope.find(at.node.input[0])[place],)


@op("SequenceLength", since=11, sequences=True)
def sequence_length(at: NodeSite, sequence: list[Value]) -> tuple[Array]:
    count = np.array(len(sequence), np.int64)
    if at.engine.varying:
        at.engine.vary([count])  # in a loop, it may be another in the next step
    return (count,)


@op("SplitToSequence", since=11, sequences=True)
def split_to_sequence(at: NodeSite, value: Value, split: Value = None) -> tuple[list[Value]]:
    axis, keep = at.attr("axis", 0), at.attr("keepdims", 1)
    if split is not None:
        split = at.engine.known(at, [1], _inputs(at, 1, split))[1]
        value = at.scope.find(at.node.input[0])
    dims = value.shape if isinstance(value, np.ndarray) else value.dims
    axis = axis + len(dims) if axis < 0 else axis
    size = dims[axis]
    if not isinstance(size, int):
        raise at.refuse("an axis whose size is not known")
    squeeze = split is None and not keep
    if split is None:
        sizes = [1] * size
    elif split.ndim == 0:
        step = int(split)
        if step < 1:
            raise at.refuse(f"parts of {step}")
        sizes = [min(step, size - start) for start in range(0, size, step)]
    else:
        sizes = [int(n) for n in split]
        if sum(sizes) != size or min(sizes, default=0) < 0:
            raise at.refuse(f"parts {sizes} do not add up to {size}")
    parts, start = [], 0
    for count in sizes:
        chosen: list[Any] = [slice(None)] * len(dims)
        chosen[axis] = start if squeeze else slice(start, start + count)
        parts.append(value[tuple(chosen)])
        start += count
    return (parts,)


@op("ConcatFromSequence", since=11, sequences=True)
def concat_from_sequence(at: NodeSite, sequence: list[Value]) -> tuple[Value]:
    axis, new = at.attributes.require("axis"), at.attr("new_axis", 0)
    if not sequence:
        raise at.refuse("the sequence is empty")
    if all(isinstance(value, np.ndarray) for value in sequence):
        return (np.stack(sequence, axis) if new else np.concatenate(sequence, axis),)
    if _is_computed(at, sequence):
        return (_joined_by_host(at, sequence),)
    values = [at.value(value) for value in sequence]
    rank = values[0].rank + bool(new)
    if new:
        values = [value.expand_dims(axis % rank) for value in values]
    return (values[0].concat(values[1:], axis % rank) if len(values) > 1 else values[0],)


def _is_computed(at: NodeSite, sequence: Sequence[Value]) -> bool:
    """Whether everything in a sequence was made by steps that have been run: how many there are is data."""
    recorder, data = at.engine.recorder, at.engine.segment.data
    if recorder is None or at.engine.depth:
        return False
    lazy = [value for value in sequence if not isinstance(value, np.ndarray)]
    return bool(lazy) and all(value.id in data and not recorder.is_input(data[value.id]) for value in lazy)


def _joined_by_host(at: NodeSite, sequence: Sequence[Value]) -> Value:
    """By the host, so that the number of parts is not written into the program that goes on."""
    inner = NameScope({f"$part{n}": value for n, value in enumerate(sequence)}, at.scope)
    node = helper.make_node(
        "Join", list(inner.names), ["$joined"], domain=OWN, axis=at.attr("axis"), new=at.attr("new_axis", 0)
    )
    at.engine.run_nodes([node], inner, ["$joined"])
    return inner.find("$joined")


@op("Join", domain=OWN, host=True)
def join(at: NodeSite, *parts: Array) -> Array:
    """Parts along an axis, or along a new one."""
    axis = at.attr("axis")
    return np.stack(parts, axis) if at.attr("new") else np.concatenate(parts, axis)


@op("SequenceMap", since=17, sequences=True)
def sequence_map(at: NodeSite, sequence: list[Value], *others: Value) -> tuple[list[Value], ...]:
    body = at.attr("body")
    names = [i.name for i in body.input]
    # in a scope of its own, where a cut inside the body finds what is still needed
    own = NameScope({"$given": [sequence, *others], "$made": [[] for _ in body.output]}, at.scope)
    for k in range(len(sequence)):
        first, *rest = own.names["$given"]
        given = [first[k], *(other[k] if isinstance(other, list) else other for other in rest)]
        results = at.engine.run_graph(body, NameScope(dict(zip(names, given, strict=True)), own))
        own.names["$made"] = [
            [*items, result] for items, result in zip(own.names["$made"], results, strict=True)
        ]
    return tuple(own.names["$made"])


@op("Optional", since=15, sequences=True)
def optional(at: NodeSite, value: Value = None) -> tuple[Value]:
    at.attr("type")
    return (value,)


@op("OptionalHasElement", since=15, sequences=True)
def optional_has_element(at: NodeSite, value: Value = None) -> tuple[Array]:
    return (np.array(value is not None),)


@op("OptionalGetElement", since=15, sequences=True)
def optional_get_element(at: NodeSite, value: Value) -> tuple[Value]:
    if value is None:
        raise at.refuse("the optional is empty")
    return (value,)
