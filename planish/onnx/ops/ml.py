"""Classical models (ai.onnx.ml), on the host: encoders, scalers, linear models and trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    table = {_key(k): v for k, v in zip(list(keys), list(values), strict=True)}
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
    offset, scale = (np.array(at.attr(name) or [], np.float32) for name in ("offset", "scale"))
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


@op("LinearRegressor", domain=_DOMAIN, host=True)
def linear_regressor(at: NodeSite, x: Array) -> Array:
    targets = at.attr("targets", 1)
    weights = np.array(at.attr("coefficients") or [], np.float64).reshape(targets, -1)
    shift = np.array(at.attr("intercepts") or [0.0] * targets, np.float64)
    if at.attr("post_transform", "NONE") != "NONE":
        raise at.refuse("transforms its results")
    return (x.astype(np.float64) @ weights.T + shift).astype(np.float32)


# -- trees -----------------------------------------------------------------------------------------------------------

_TESTS: dict[int, Callable[[Array, Array], Array]] = {
    0: np.less_equal, 1: np.less, 2: np.greater_equal, 3: np.greater, 4: np.equal, 5: np.not_equal,
}  # fmt: skip
_MEMBER = 6
_AVERAGE, _SUM, _LEAST, _MOST = range(4)


@op("TreeEnsemble", domain=_DOMAIN, since=5, host=True)
def tree_ensemble(at: NodeSite, x: Array) -> Array:
    """Every sample walks down every tree; what its leaves say is added up (or averaged, or the extreme taken)."""
    features, modes = (
        np.array(at.attributes.require("nodes_featureids")),
        at.attributes.require("nodes_modes"),
    )
    splits = np.asarray(at.attributes.require("nodes_splits"))
    ends = [np.array(at.attributes.require(f"nodes_{side}leafs"), bool) for side in ("true", "false")]
    nexts = [np.array(at.attributes.require(f"nodes_{side}nodeids")) for side in ("true", "false")]
    missing = np.array(at.attr("nodes_missing_value_tracks_true") or [0] * len(features), bool)
    weights = np.asarray(at.attributes.require("leaf_weights"))
    targets = np.array(at.attributes.require("leaf_targetids"))
    roots, count = at.attributes.require("tree_roots"), at.attr("n_targets")
    at.attr("nodes_hitrates")
    how = at.attr("aggregate_function", _SUM)
    if at.attr("post_transform", 0) != 0:
        raise at.refuse("transforms its results")
    members = _members(np.asarray(at.attr("membership_values", np.zeros(0))), list(modes))
    width = count if count is not None else int(targets.max()) + 1
    start = {_LEAST: np.inf, _MOST: -np.inf}.get(how, 0.0)
    result = np.full((len(x), width), start, np.float64)
    rows = np.arange(len(x))
    for root in roots:
        leaf = _walk(x, int(root), (features, np.asarray(modes), splits, missing), (nexts, ends), members)
        column, weight = targets[leaf], weights[leaf].astype(np.float64)
        if how in (_SUM, _AVERAGE):
            result[rows, column] += weight / (len(roots) if how == _AVERAGE else 1)
        else:
            choose = np.minimum if how == _LEAST else np.maximum
            result[rows, column] = choose(result[rows, column], weight)
    return result.astype(x.dtype)


def _members(values: Array, modes: list[int]) -> dict[int, Array]:
    """The sets of the nodes that ask for membership; NaN ends each."""
    members: dict[int, Array] = {}
    ends = np.flatnonzero(np.isnan(values.astype(np.float64)))
    asking = [n for n, mode in enumerate(modes) if mode == _MEMBER]
    start = 0
    for node, end in zip(asking, ends, strict=False):
        members[node] = values[start:end]
        start = int(end) + 1
    return members


def _walk(
    x: Array,
    root: int,
    nodes: tuple[Array, Array, Array, Array],
    edges: tuple[list[Array], list[Array]],
    members: dict[int, Array],
) -> Array:
    """The leaf that each sample ends in."""
    features, modes, splits, missing = nodes
    nexts, ends = edges
    if ends[0][root] and ends[1][root] and nexts[0][root] == nexts[1][root]:
        return np.full(len(x), nexts[0][root])
    here = np.full(len(x), root)
    leaf = np.full(len(x), -1)
    moving = np.ones(len(x), bool)
    for _ in range(len(features) + 1):
        if not moving.any():
            break
        for node in np.unique(here[moving]):
            at_node = moving & (here == node)
            value = x[at_node, features[node]]
            mode = int(modes[node])
            yes = np.isin(value, members[int(node)]) if mode == _MEMBER else _TESTS[mode](value, splits[node])
            yes = yes | (missing[node] & np.isnan(value))
            where = np.flatnonzero(at_node)
            for side, chosen in ((0, yes), (1, ~yes)):
                if ends[side][node]:
                    leaf[where[chosen]] = nexts[side][node]
                    moving[where[chosen]] = False
                else:
                    here[where[chosen]] = nexts[side][node]
    return leaf
