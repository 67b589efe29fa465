"""Ops that ONNX defines by other ops: their bodies, from the schemas that the onnx package carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto, defs

Kind = tuple[np.dtype[Any], Sequence[int | None]] | None


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether an op is defined by a function."""
    schema = _schema(domain, name, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def body_of(domain: str, node: NodeProto, version: int, inputs: Sequence[Kind]) -> FunctionProto | None:
    """The function that an op stands for, given the types of its inputs."""
    schema = _schema(domain, node.op_type, version)
    if schema is None:
        return None
    if schema.has_function:
        versions = [
            v for v in schema.function_opset_versions if v <= version
        ] or schema.function_opset_versions
        raw: bytes = schema.get_function_with_opset_version(max(versions))
        return onnx.FunctionProto.FromString(raw) if raw else None
    if schema.has_context_dependent_function:
        known = schema.context_dependent_function_opset_versions
        versions = [v for v in known if v <= version] or known
        types = [_type(kind).SerializeToString() for kind in inputs]
        raw = schema.get_context_dependent_function_with_opset_version(
            max(versions), node.SerializeToString(), types
        )
        return onnx.FunctionProto.FromString(raw) if raw else None
    return None


def defaults_of(domain: str, node: NodeProto, version: int) -> list[AttributeProto]:
    """What the attributes of an op are where a node does not say."""
    schema = _schema(domain, node.op_type, version)
    return [kind.default_value for kind in schema.attributes.values() if kind.default_value.name]


def _schema(domain: str, name: str, version: int) -> Any:
    try:
        return defs.get_schema(name, version, domain)
    except defs.SchemaError:
        return None


def _type(kind: Kind) -> TypeProto:
    if kind is None:
        return TypeProto()
    dtype, dims = kind
    number = (
        onnx.TensorProto.STRING
        if dtype.kind == "O"
        else onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    )
    return onnx.helper.make_tensor_type_proto(number, list(dims))
