"""Linear models and support vector machines (ai.onnx.ml), on the host."""

from __future__ import annotations

import numpy as np

from planish.onnx.ops.common import Array
from planish.onnx.ops.ml_scores import labels_of, logistic, one_of, second_class, transformed
from planish.onnx.registry import op
from planish.onnx.site import NodeSite

_DOMAIN = "ai.onnx.ml"


def _table(at: NodeSite, name: str) -> Array:
    return at.once(name, lambda: np.array(at.attr(name) or [], np.float64))


def _samples(x: Array) -> Array:
    return (x.reshape(1, -1) if x.ndim == 1 else x).astype(np.float64)


@op("LinearRegressor", domain=_DOMAIN, host=True)
def linear_regressor(at: NodeSite, x: Array) -> Array:
    targets = at.attr("targets", 1)
    weights, shift = _table(at, "coefficients").reshape(targets, -1), _table(at, "intercepts")
    scores = _samples(x) @ weights.T + (shift if shift.size else 0.0)
    return transformed(at, scores, at.attr("post_transform", "NONE")).astype(np.float32)


@op("LinearClassifier", domain=_DOMAIN, host=True)
def linear_classifier(at: NodeSite, x: Array) -> tuple[Array, Array]:
    shift, labels = _table(at, "intercepts"), labels_of(at, "classlabels_ints")
    weights = _table(at, "coefficients")
    rows = _samples(x)
    scores = rows @ weights.reshape(-1, rows.shape[1]).T + (shift if shift.size else 0.0)
    how = at.attr("post_transform", "NONE")
    at.attr("multi_class", 0)
    if scores.shape[1] > 1:
        return one_of(labels, scores.argmax(-1)), transformed(at, scores, how).astype(np.float32)
    score = scores[:, 0]
    if len(labels) < 2:
        return one_of(labels, np.zeros(len(score), np.int64)), transformed(at, scores, how).astype(np.float32)
    share = logistic(score) if how == "LOGISTIC" else score
    chosen = (score > 0).astype(np.int64)
    return one_of(labels, chosen), second_class(at, share, "NONE", True).astype(np.float32)


# -- support vectors -------------------------------------------------------------------------------------------------


def _kernel(at: NodeSite, x: Array, vectors: Array) -> Array:
    """How like its support vectors each sample is."""
    gamma, offset, degree = _table(at, "kernel_params").tolist() or [0.0, 0.0, 0.0]
    kind = at.attr("kernel_type", "LINEAR")
    products = x @ vectors.T
    if kind == "LINEAR":
        return np.asarray(products)
    if kind == "POLY":
        return np.asarray((gamma * products + offset) ** degree)
    if kind == "SIGMOID":
        return np.asarray(np.tanh(gamma * products + offset))
    if kind == "RBF":
        apart = (x * x).sum(-1)[:, None] - 2 * products + (vectors * vectors).sum(-1)[None]
        return np.asarray(np.exp(-gamma * np.maximum(apart, 0.0)))
    raise at.refuse(f"there is no kernel {kind!r}")


@op("SVMRegressor", domain=_DOMAIN, host=True)
def svm_regressor(at: NodeSite, x: Array) -> Array:
    count, rows = at.attr("n_supports", 0), _samples(x)
    weights, vectors = _table(at, "coefficients"), _table(at, "support_vectors").reshape(count or 0, -1)
    if count:
        scores = _kernel(at, rows, vectors) @ weights.reshape(-1, count).T
    else:
        scores = _kernel(at, rows, weights.reshape(1, -1))
    scores = scores + _table(at, "rho")
    if at.attr("one_class", 0):
        scores = np.where(scores > 0, 1.0, -1.0)
    return transformed(at, scores, at.attr("post_transform", "NONE")).astype(np.float32)


@op("SVMClassifier", domain=_DOMAIN, host=True)
def svm_classifier(at: NodeSite, x: Array) -> tuple[Array, Array]:
    labels, rows = labels_of(at, "classlabels_ints"), _samples(x)
    counts = at.attr("vectors_per_class") or []
    rho, weights = _table(at, "rho"), _table(at, "coefficients")
    first, second = _table(at, "prob_a"), _table(at, "prob_b")
    how = at.attr("post_transform", "NONE")
    vectors = _table(at, "support_vectors")
    if not sum(counts):
        # a linear machine: a row of weights for each class
        scores = _kernel(at, rows, weights.reshape(len(labels), -1)) + rho[0]
        return one_of(labels, scores.argmax(-1)), transformed(at, scores, how).astype(np.float32)
    scores, votes = _duels(_kernel(at, rows, vectors.reshape(sum(counts), -1)), counts, weights, rho)
    if first.size:
        shares = _coupled(_shares(scores, first, second, len(counts)))
        return one_of(labels, votes.argmax(-1)), transformed(at, shares, how).astype(np.float32)
    if len(labels) > 2:
        return one_of(labels, votes.argmax(-1)), transformed(at, scores, how).astype(np.float32)
    # of two classes, one duel decides: a positive score is the first one's
    positive = bool((weights >= 0).all())
    score = scores[:, 0]
    chosen = (score > (0.5 if positive else 0.0)).astype(np.int64)
    return one_of(labels, votes.argmax(-1) if not positive else chosen), second_class(
        at, score, how, positive
    ).astype(np.float32)


def _duels(kernel: Array, counts: list[int], weights: Array, rho: Array) -> tuple[Array, Array]:
    """The score of each pair of classes, and how many duels each class has won."""
    ends = np.cumsum([0, *counts])
    table = weights.reshape(len(counts) - 1, -1)
    scores: list[Array] = []
    votes = np.zeros((len(kernel), len(counts)))
    for i in range(len(counts)):
        for j in range(i + 1, len(counts)):
            mine, theirs = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
            score = (
                kernel[:, mine] @ table[j - 1, mine] + kernel[:, theirs] @ table[i, theirs] + rho[len(scores)]
            )
            votes[:, i] += score > 0
            votes[:, j] += score <= 0
            scores.append(score)
    return np.stack(scores, -1), votes


def _shares(scores: Array, first: Array, second: Array, classes: int) -> Array:
    """The probability that the first of two classes is the right one, for each pair."""
    pairs = np.zeros((len(scores), classes, classes))
    n = 0
    for i in range(classes):
        for j in range(i + 1, classes):
            share = np.clip(1.0 - logistic(scores[:, n] * first[n] + second[n]), 1e-7, 1 - 1e-7)
            pairs[:, i, j], pairs[:, j, i] = share, 1.0 - share
            n += 1
    return pairs


def _coupled(pairs: Array) -> Array:
    """Probabilities of classes from those of pairs: the least squares of how they disagree, by iteration (Wu, Lin and Weng).

    Each sample stops where LIBSVM stops, which is early: its answers, not the limit, are what models were fitted to.
    """
    samples, classes, _ = pairs.shape
    matrix = -pairs * np.swapaxes(pairs, 1, 2)
    diagonal = np.arange(classes)
    matrix[:, diagonal, diagonal] = (np.swapaxes(pairs, 1, 2) ** 2).sum(-1)
    result = np.full((samples, classes), 1.0 / classes)
    going = np.arange(samples)
    for _ in range(max(100, classes)):
        shares, table = result[going], matrix[going]
        product = np.einsum("nij,nj->ni", table, shares)
        total = (shares * product).sum(-1)
        far = np.abs(product - total[:, None]).max(-1) >= 0.005 / classes
        going, shares, table, product, total = going[far], shares[far], table[far], product[far], total[far]
        if not going.size:
            break
        for t in range(classes):
            step = (total - product[:, t]) / table[:, t, t]
            shares[:, t] += step
            total = (total + step * (step * table[:, t, t] + 2 * product[:, t])) / (1 + step) ** 2
            product = (product + step[:, None] * table[:, t]) / (1 + step)[:, None]
            shares = shares / (1 + step)[:, None]
        result[going] = shares
    return result
