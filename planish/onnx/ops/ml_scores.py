"""What classical classifiers make of their scores (ai.onnx.ml): transforms, the second class of two, the label.

Where the specification is silent, this is what onnxruntime does: converters were tested against it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from planish.onnx.ops.common import Array
from planish.onnx.site import NodeSite


def labels_of(at: NodeSite, ints: str) -> Array:
    """The labels of the classes, numbers or texts."""

    def make() -> Array:
        texts, numbers = at.attr("classlabels_strings"), at.attr(ints)
        return np.array(texts, object) if texts else np.array(numbers or [], np.int64)

    return at.once("labels", make)


def logistic(x: Array) -> Array:
    """1 / (1 + e^-x)."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def transformed(at: NodeSite, scores: Array, how: str) -> Array:
    """Scores after the transform that a node asks for, along the last axis."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return logistic(scores)
    if how in ("SOFTMAX", "SOFTMAX_ZERO"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        if how == "SOFTMAX_ZERO":
            powers = np.where(np.abs(scores) > 1e-7, powers, 0.0)
        total = powers.sum(-1, keepdims=True)
        return np.asarray(powers / np.where(total == 0, 1, total))
    if how == "PROBIT":
        return _probit(scores)
    raise at.refuse(f"there is no transform {how!r}")


def second_class(at: NodeSite, score: Array, how: str, positive: bool) -> Array:
    """Both classes, of the score of one: its complement if scores are shares, else its opposite."""
    if how == "PROBIT":
        return _probit(score)[:, None]
    if how == "LOGISTIC":
        return logistic(np.stack([-score, score], -1))
    return np.stack([1.0 - score if positive else -score, score], -1)


def _probit(x: Array) -> Array:
    """The inverse of the normal distribution, by way of an approximation of the inverse error function, as onnxruntime has it."""
    y = 2.0 * x - 1.0
    log = np.log((1.0 - y) * (1.0 + y))
    first = 2.0 / (np.pi * 0.147) + 0.5 * log
    root = np.sqrt(np.sqrt(first * first - log / 0.147) - first)
    return np.asarray(np.sqrt(2.0) * np.where(y < 0, -root, root))


def one_of(labels: Array, chosen: Any) -> Array:
    """Labels by the numbers of classes."""
    return np.asarray(labels[np.asarray(chosen)])
