"""Ensembles of trees (ai.onnx.ml), on the host: by machine code, or, if nodes ask various things, all samples walk at once in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from planish.compiler.object_code import call_routine
from planish.onnx.ops.common import Array
from planish.onnx.ops.ml_scores import labels_of, one_of, second_class, transformed
from planish.onnx.registry import op
from planish.onnx.site import NodeSite
from planish.records import dataclass

_DOMAIN = "ai.onnx.ml"
_MODES: Final = {
    "BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4, "BRANCH_NEQ": 5, "BRANCH_MEMBER": 6,
}  # fmt: skip
_TESTS: Final = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)
_WORDS: Final = ("le", "lt", "ge", "gt", "eq", "ne")
"""The same, as the routine that walks down trees calls them."""
_MEMBER: Final = 6
_AT_ONCE: Final = 1 << 20
"""Pairs of a sample and a tree that walk together."""


class _Tables(NamedTuple):
    """A forest as machine code walks through it, and how much it asks of samples and sums."""

    nodes: Array
    roots: Array
    start: Array
    target: Array
    weight: Array
    test: str
    width: int


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees in one table; a leaf leads to itself."""

    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    missing: Array
    roots: Array
    members: dict[int, Array]
    start: Array
    """Where the entries of each leaf begin; one more than there are nodes."""
    target: Array
    weight: Array

    @cached_property
    def features(self) -> int:
        """How many a sample needs."""
        return int(self.feature.max(initial=-1)) + 1

    @cached_property
    def targets(self) -> frozenset[int]:
        """Those that leaves have weights for."""
        return frozenset(self.target.tolist())

    @cached_property
    def is_positive(self) -> bool:
        return bool((self.weight >= 0).all())

    @cached_property
    def _mode(self) -> int | None:
        """What all nodes ask, if they ask the same."""
        modes = set(np.unique(self.mode[self.yes != np.arange(len(self.yes))]).tolist())
        return modes.pop() if len(modes) == 1 and _MEMBER not in modes else None

    @cached_property
    def _tables(self) -> _Tables | None:
        """For machine code, which trusts every number in them: None if one leads out of a table."""
        count, held = len(self.yes), len(self.weight)
        places = np.concatenate([self.yes, self.no, self.roots])
        inside = (
            max(count, self.features) < 1 << 31
            and places.min(initial=0) >= 0
            and places.max(initial=0) < count
        )
        entries = len(self.start) == count + 1 and self.start[0] >= 0 and self.start[-1] <= held
        entries = entries and len(self.target) == held and bool((np.diff(self.start) >= 0).all())
        same = len({len(each) for each in (self.feature, self.split, self.no, self.missing, self.yes)}) == 1
        least = min(self.feature.min(initial=0), self.target.min(initial=0))
        if not (inside and entries and same and least >= 0) or self._mode is None or not count:
            return None
        nodes = np.stack([self.feature, self.no, self.yes, self.missing], 1).astype(np.int32)
        roots, start, target = (
            np.ascontiguousarray(each, np.int64) for each in (self.roots, self.start, self.target)
        )
        weight = np.ascontiguousarray(self.weight, np.float64)
        test = f"{_WORDS[self._mode]}.{'gaps' if self.missing.any() else 'whole'}"
        return _Tables(nodes, roots, start, target, weight, test, int(self.target.max(initial=-1)) + 1)

    @cached_property
    def _splits(self) -> dict[str, Array]:
        """What features are compared with, by dtype."""
        return {kind: np.ascontiguousarray(self.split, kind) for kind in ("float32", "float64")}

    def leaves(self, x: Array) -> Array:
        """The leaf of each sample in each tree."""
        here = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        rows, simple = np.arange(len(x))[:, None], self._mode
        for _ in range(len(self.feature) + 1):
            value, split = x[rows, self.feature[here]], self.split[here]
            yes = self._tests(here, value, split) if simple is None else _TESTS[simple](value, split)
            if self.missing.any():
                yes = yes | (self.missing[here] & np.isnan(value))
            following = np.where(yes, self.yes[here], self.no[here])
            if np.array_equal(following, here):
                break
            here = following
        return here

    def _tests(self, here: Array, value: Array, split: Array) -> Array:
        mode = self.mode[here]
        yes = np.zeros(here.shape, bool)
        for number, test in enumerate(_TESTS):
            np.copyto(yes, test(value, split), where=mode == number)
        for node, members in self.members.items():
            there = here == node
            yes[there] = np.isin(value[there], members)
        return yes

    def scores(self, x: Array, width: int, how: str) -> Array:
        """What the leaves say, added up (or the extreme taken) for each target; 0 where nothing is said."""
        sums = self._sums(x, width) if how in ("SUM", "AVERAGE") else None
        if sums is None:
            sums = self._walked(x, width, how)
        return sums / len(self.roots) if how == "AVERAGE" else sums

    def _sums(self, x: Array, width: int) -> Array | None:
        """The sums, by machine code, if it knows what the nodes ask."""
        tables = self._tables
        if tables is None or width < tables.width or not 0 < self.features <= x.shape[1]:
            return None
        wide = "float64" if np.float64 in (x.dtype, self.split.dtype) else "float32"
        result = np.zeros((len(x), width))
        given = (np.ascontiguousarray(x, wide), tables.nodes, self._splits[wide])
        buffers = (*given, tables.roots, tables.start, tables.target, tables.weight, result)
        integers = (len(x), x.shape[1], len(tables.roots), width, len(tables.nodes))
        return result if call_routine(f"trees.{wide}.{tables.test}", buffers, integers) else None

    def _walked(self, x: Array, width: int, how: str) -> Array:
        extreme = {"MIN": np.inf, "MAX": -np.inf}.get(how, 0.0)
        result = np.full((len(x), width), extreme, np.float64)
        said = np.zeros((len(x), width), bool)
        step = max(1, _AT_ONCE // max(1, len(self.roots)))
        most = int(np.diff(self.start).max(initial=0))
        for first in range(0, len(x), step):
            leaves = self.leaves(x[first : first + step])
            rows = np.broadcast_to(np.arange(first, first + len(leaves))[:, None], leaves.shape)
            for k in range(most):
                entry = self.start[leaves] + k
                there = entry < self.start[leaves + 1]
                place = (rows[there], self.target[entry[there]])
                weight = self.weight[entry[there]]
                {"MIN": np.minimum, "MAX": np.maximum}.get(how, np.add).at(result, place, weight)
                said[place] = True
        return np.where(said, result, 0.0)


def _forest(at: NodeSite, kind: str) -> Forest:
    """The ensemble of a node that names its nodes by tree and number."""
    trees, numbers = (np.array(at.attributes.require(f"nodes_{n}")) for n in ("treeids", "nodeids"))
    place = {pair: n for n, pair in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    modes = at.attributes.require("nodes_modes")
    own = np.arange(len(numbers))
    leaf = np.array([mode == "LEAF" for mode in modes], bool)
    sides: list[Array] = []
    for side in ("true", "false"):
        nexts = at.attributes.require(f"nodes_{side}nodeids")
        pairs = zip(trees.tolist(), nexts, own.tolist(), leaf.tolist(), strict=True)
        try:
            sides.append(np.array([n if ends else place[tree, to] for tree, to, n, ends in pairs], np.int64))
        except KeyError as error:
            raise at.refuse(f"there is no node {error.args[0][1]} in tree {error.args[0][0]}") from None
    led_to = set(sides[0][~leaf].tolist()) | set(sides[1][~leaf].tolist())
    roots = [n for n in range(len(numbers)) if n not in led_to]
    if len(roots) != len(set(trees.tolist())):
        firsts = dict.fromkeys(trees.tolist())
        roots = [int(np.flatnonzero(trees == tree)[0]) for tree in firsts]
    leaf_of = [
        place.get(pair)
        for pair in zip(at.attr(f"{kind}_treeids") or [], at.attr(f"{kind}_nodeids") or [], strict=True)
    ]
    if None in leaf_of:
        raise at.refuse("a leaf that there is none has a weight")
    holders = np.array(leaf_of, np.int64)
    order = np.argsort(holders, kind="stable")
    weights = _floats(at, f"{kind}_weights")
    at.attr("nodes_hitrates"), at.attr("nodes_hitrates_as_tensor")
    tracks = np.array(at.attr("nodes_missing_value_tracks_true") or [0] * len(numbers), bool)
    return Forest(
        np.where(leaf, 0, np.array(at.attributes.require("nodes_featureids"))),
        _floats(at, "nodes_values"),
        np.array([_MODES.get(mode, 0) for mode in modes]),
        sides[0], sides[1], tracks, np.array(roots), {},
        np.searchsorted(holders[order], np.arange(len(numbers) + 1)),
        np.array(at.attr(f"{kind}_ids") or [], np.int64)[order],
        weights[order].astype(np.float64),
    )  # fmt: skip


def _floats(at: NodeSite, name: str) -> Array:
    def make() -> Array:
        listed, held = at.attr(name), at.attr(f"{name}_as_tensor")
        return np.asarray(held) if held is not None else np.array(listed or [], np.float32)

    return at.once(name, make)


def _samples(at: NodeSite, x: Array, forest: Forest) -> Array:
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    rows = rows if rows.dtype.kind == "f" else rows.astype(np.float32)
    if forest.features > rows.shape[1]:
        raise at.refuse(f"it asks for feature {forest.features - 1} of {rows.shape[1]}")
    return rows


@op("TreeEnsembleRegressor", domain=_DOMAIN, host=True)
def tree_ensemble_regressor(at: NodeSite, x: Array) -> Array:
    forest = at.once("forest", lambda: _forest(at, "target"))
    base, width = _floats(at, "base_values"), at.attr("n_targets", 1)
    scores = forest.scores(_samples(at, x, forest), width, at.attr("aggregate_function", "SUM"))
    if base.size:
        scores = scores + base
    return transformed(at, scores, at.attr("post_transform", "NONE")).astype(np.float32)


@op("TreeEnsembleClassifier", domain=_DOMAIN, host=True)
def tree_ensemble_classifier(at: NodeSite, x: Array) -> tuple[Array, Array]:
    forest = at.once("forest", lambda: _forest(at, "class"))
    labels, base = labels_of(at, "classlabels_int64s"), _floats(at, "base_values")
    how = at.attr("post_transform", "NONE")
    rows = _samples(at, x, forest)
    one = len(labels) == 2 and len(forest.targets) == 1
    if not one:
        scores = forest.scores(rows, len(labels), "SUM")
        scores = scores + base if base.size else scores
        return one_of(labels, scores.argmax(-1)), transformed(at, scores, how).astype(np.float32)
    # the weights are those of one class: the other has what is left, if they are the first one's
    (which,) = forest.targets
    held = forest.scores(rows, 2, "SUM")
    score = held[:, which] + (base[-1] if base.size else 0.0)
    positive = forest.is_positive
    chosen = (score > (0.5 if positive else 0.0)).astype(np.int64)
    if which:
        both = transformed(at, np.stack([np.zeros_like(score), score], -1), how)
    else:
        both = second_class(at, score, how, positive)
    return one_of(labels, chosen), both.astype(np.float32)


_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@op("TreeEnsemble", domain=_DOMAIN, since=5, host=True)
def tree_ensemble(at: NodeSite, x: Array) -> Array:
    """The newer form: nodes and leaves in tables of their own."""
    forest = at.once("forest", lambda: _numbered_forest(at))
    width = at.attr("n_targets")
    width = int(forest.target.max()) + 1 if width is None else width
    scores = forest.scores(_samples(at, x, forest), width, _AGGREGATES[at.attr("aggregate_function", 1)])
    return transformed(at, scores, _TRANSFORMS[at.attr("post_transform", 0)]).astype(x.dtype)


def _numbered_forest(at: NodeSite) -> Forest:
    features = np.array(at.attributes.require("nodes_featureids"))
    modes = np.asarray(at.attributes.require("nodes_modes"))
    splits = np.asarray(at.attributes.require("nodes_splits"))
    weights = np.asarray(at.attributes.require("leaf_weights"))
    count, leaves = len(features), len(weights)
    sides: list[Array] = []
    for side in ("true", "false"):
        nexts = np.array(at.attributes.require(f"nodes_{side}nodeids"), np.int64)
        # leaves follow the nodes in the table, and lead to themselves
        inner = nexts + np.where(np.array(at.attributes.require(f"nodes_{side}leafs"), bool), count, 0)
        sides.append(np.concatenate([inner, np.arange(count, count + leaves)]))
    roots = [
        int(sides[0][root]) if sides[0][root] == sides[1][root] else root
        for root in at.attributes.require("tree_roots")
    ]
    missing = np.array(at.attr("nodes_missing_value_tracks_true") or [0] * count, bool)
    at.attr("nodes_hitrates")
    members = _members(np.asarray(at.attr("membership_values", np.zeros(0))), modes.tolist())
    start = np.concatenate([np.zeros(count, np.int64), np.arange(leaves + 1)])
    return Forest(
        _padded(features, leaves), _padded(splits, leaves), _padded(modes, leaves), sides[0], sides[1], _padded(missing, leaves),
        np.array(roots), members, start, np.array(at.attributes.require("leaf_targetids")), weights.astype(np.float64),
    )  # fmt: skip


def _padded(values: Array, more: int) -> Array:
    return np.concatenate([values, np.zeros(more, values.dtype)])


def _members(values: Array, modes: Sequence[int]) -> dict[int, Array]:
    """The sets of the nodes that ask for membership; NaN ends each."""
    ends = np.flatnonzero(np.isnan(values.astype(np.float64)))
    asking = [n for n, mode in enumerate(modes) if mode == _MEMBER]
    starts = [0, *(ends + 1).tolist()]
    return {node: values[starts[k] : end] for k, (node, end) in enumerate(zip(asking, ends, strict=False))}
