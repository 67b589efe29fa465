"""Encoders, scalers and their like (ai.onnx.ml), on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from planish.onnx.ops.common import Array
from planish.onnx.registry import op
from planish.onnx.site import NodeSite

_DOMAIN = "ai.onnx.ml"


def _given(at: NodeSite, *names: str) -> Any:
    """The attribute that is there, of several that say the same."""
    lists = [at.attr(name) for name in names]
    return next((value for value in lists if value is not None), None)


@op("LabelEncoder", domain=_DOMAIN, since=2, host=True)
def label_encoder(at: NodeSite, x: Array) -> Array:
    keys = _given(at, "keys_tensor", "keys_int64s", "keys_strings", "keys_floats")
    values = _given(at, "values_tensor", "values_int64s", "values_strings", "values_floats")
    other = at.attr("default_tensor")
    texts, whole, broken = (
        at.attr("default_string", "_Unused"),
        at.attr("default_int64", -1),
        at.attr("default_float", -0.0),
    )
    if keys is None or values is None:
        raise at.refuse("has no keys or values")
    if isinstance(values, np.ndarray):
        dtype: Any = values.dtype
        default = (
            other.reshape(-1)[0] if other is not None else {"O": texts, "i": whole}.get(dtype.kind, broken)
        )
    else:
        kind = type(values[0])
        dtype, default = {str: (object, texts), int: (np.int64, whole)}.get(kind, (np.float32, broken))
    table = at.once("table", lambda: {_key(k): v for k, v in zip(list(keys), list(values), strict=True)})
    flat = [table.get(_key(v), default) for v in x.reshape(-1).tolist()]
    result = np.empty(len(flat), dtype)
    result[:] = flat
    return result.reshape(x.shape)


def _key(value: Any) -> Any:
    """NaN equals NaN here; bytes are text."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and np.isnan(value):
        return "nan of a number"
    return value.decode() if isinstance(value, bytes) else value


@op("ArrayFeatureExtractor", domain=_DOMAIN, host=True)
def array_feature_extractor(at: NodeSite, x: Array, index: Array) -> Array:
    chosen = index.reshape(-1)
    picked = x[..., chosen]
    return picked.reshape((1, chosen.size) if x.ndim == 1 else (*x.shape[:-1], chosen.size))


@op("Binarizer", domain=_DOMAIN, host=True)
def binarizer(at: NodeSite, x: Array) -> Array:
    return np.asarray(x > at.attr("threshold", 0.0)).astype(x.dtype)


@op("Scaler", domain=_DOMAIN, host=True)
def scaler(at: NodeSite, x: Array) -> Array:
    def table(name: str) -> Array:
        return at.once(name, lambda: np.array(at.attr(name) or [], np.float32))

    offset, scale = table("offset"), table("scale")
    return np.asarray((x - offset) * scale, np.float32)


@op("Normalizer", domain=_DOMAIN, host=True)
def normalizer(at: NodeSite, x: Array) -> Array:
    norm = at.attr("norm", "MAX")
    wide = x.astype(np.float64)
    if norm == "MAX":
        size = np.max(np.abs(wide), -1, keepdims=True)
    elif norm == "L1":
        size = np.abs(wide).sum(-1, keepdims=True)
    elif norm == "L2":
        size = np.sqrt((wide * wide).sum(-1, keepdims=True))
    else:
        raise at.refuse(f"there is no norm {norm!r}")
    return (wide / np.where(size == 0, 1, size)).astype(np.float32)


@op("LabelEncoder", domain=_DOMAIN, host=True)
def label_encoder_early(at: NodeSite, x: Array) -> Array:
    """The old form: texts to their places in a list, or back."""
    classes = at.attr("classes_strings") or []
    texts, whole = at.attr("default_string", "_Unused"), at.attr("default_int64", -1)
    table = at.once("table", lambda: _both_ways(classes, range(len(classes))))
    return _mapped(x, table, whole, texts)


@op("CategoryMapper", domain=_DOMAIN, host=True)
def category_mapper(at: NodeSite, x: Array) -> Array:
    names, numbers = at.attr("cats_strings") or [], at.attr("cats_int64s") or []
    texts, whole = at.attr("default_string", "_Unused"), at.attr("default_int64", -1)
    return _mapped(x, at.once("table", lambda: _both_ways(names, numbers)), whole, texts)


_Tables: TypeAlias = tuple[dict[str, int], dict[int, str]]


def _both_ways(names: Sequence[str], numbers: Sequence[int]) -> _Tables:
    """Numbers by texts, and texts by numbers."""
    table = dict(zip(names, numbers, strict=True))
    return table, {number: name for name, number in table.items()}


def _mapped(x: Array, tables: _Tables, whole: int, texts: str) -> Array:
    """Texts as numbers by a table, or numbers as texts by the other."""
    flat, (table, back) = x.reshape(-1).tolist(), tables
    if x.dtype == object:
        return np.array([table.get(_key(v), whole) for v in flat], np.int64).reshape(x.shape)
    result = np.empty(len(flat), object)
    result[:] = [back.get(v, texts) for v in flat]
    return result.reshape(x.shape)


@op("OneHotEncoder", domain=_DOMAIN, host=True)
def one_hot_encoder(at: NodeSite, x: Array) -> Array:
    names, numbers = at.attr("cats_strings"), at.attr("cats_int64s")
    if not at.attr("zeros", 1):
        known = {_key(c) for c in names or numbers or []}
        other = next((v for v in x.reshape(-1).tolist() if _category(v) not in known), None)
        if other is not None:
            raise at.refuse(f"{other!r} is none of its categories")
    place = at.once("place", lambda: {_key(c): n for n, c in enumerate(names or numbers or [])})
    result = np.zeros((x.size, len(place)), np.float32)
    for row, value in enumerate(x.reshape(-1).tolist()):
        column = place.get(_category(value))
        if column is not None:
            result[row, column] = 1
    return result.reshape(*x.shape, len(place))


def _category(value: Any) -> Any:
    return int(value) if isinstance(value, float) else _key(value)


@op("FeatureVectorizer", domain=_DOMAIN, host=True)
def feature_vectorizer(at: NodeSite, *xs: Array) -> Array:
    """Columns side by side, as many of each input as it says."""
    widths = at.attr("inputdimensions") or [x.shape[-1] for x in xs]
    rows = [(x.reshape(1, -1) if x.ndim == 1 else x.reshape(len(x), -1)).astype(np.float32) for x in xs]
    parts = []
    for row, width in zip(rows, widths, strict=True):
        missing = max(0, width - row.shape[1])
        parts.append(np.pad(row[:, :width], ((0, 0), (0, missing))))
    return np.concatenate(parts, 1)


@op("Imputer", domain=_DOMAIN, host=True)
def imputer(at: NodeSite, x: Array) -> Array:
    """Other values in place of one, which may be NaN."""
    floats, ints = at.attr("imputed_value_floats"), at.attr("imputed_value_int64s")
    gone_float, gone_int = at.attr("replaced_value_float", 0.0), at.attr("replaced_value_int64", 0)
    whole = x.dtype.kind in "iu"
    put, gone = (ints, gone_int) if whole else (floats, gone_float)
    if not put:
        raise at.refuse("has nothing to put in place")
    there = np.isnan(x) if not whole and np.isnan(gone) else x == gone
    return np.where(there, np.array(put, x.dtype), x).astype(x.dtype)
