"""Text, on the host: no kernel knows it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.onnx.registry import op
from planish.onnx.regular import RegularExpression
from planish.onnx.site import NodeSite

Array = NDArray[Any]


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _texts(values: Sequence[str], shape: Sequence[int]) -> Array:
    result = np.empty(len(values), object)
    result[:] = list(values)
    return result.reshape(tuple(shape))


@op("StringConcat", since=20, host=True)
def string_concat(at: NodeSite, x: Array, y: Array) -> Array:
    first, second = np.broadcast_arrays(x, y)
    pairs = zip(first.reshape(-1), second.reshape(-1), strict=True)
    return _texts([_text(a) + _text(b) for a, b in pairs], first.shape)


@op("StringSplit", since=20, host=True)
def string_split(at: NodeSite, x: Array) -> tuple[Array, Array]:
    """Parts, padded with empty ones to the longest row, and how many there are of each."""
    delimiter, most = at.attr("delimiter"), at.attr("maxsplit", -1)
    rows = [
        _text(value).split(delimiter or None, most) if value != "" else [] for value in x.reshape(-1)
    ]  # fmt: skip
    width = max(map(len, rows), default=0)
    padded = [part for row in rows for part in (*row, *[""] * (width - len(row)))]
    counts = np.array([len(row) for row in rows], np.int64).reshape(x.shape)
    return _texts(padded, (*x.shape, width)), counts


@op("StringNormalizer", since=10, host=True)
def string_normalizer(at: NodeSite, x: Array) -> Array:
    action, sensitive = at.attr("case_change_action", "NONE"), at.attr("is_case_sensitive", 0)
    at.attr("locale")
    stop = at.attr("stopwords") or []
    if action not in ("NONE", "LOWER", "UPPER"):
        raise at.refuse(f"there is no case change {action!r}")
    if x.ndim > 2 or (x.ndim == 2 and x.shape[0] != 1):
        raise at.refuse(f"text of shape {list(x.shape)}")
    words = [_text(value) for value in x.reshape(-1)]
    banned = set(stop) if sensitive else {word.lower() for word in stop}
    kept = [word for word in words if (word if sensitive else word.lower()) not in banned]
    changed = [
        word.lower() if action == "LOWER" else word.upper() if action == "UPPER" else word for word in kept
    ]
    results = changed or [""]
    return _texts(results, (1, len(results)) if x.ndim == 2 else (len(results),))


@op("RegexFullMatch", since=20, host=True)
def regex_full_match(at: NodeSite, x: Array) -> Array:
    try:
        pattern = RegularExpression(at.attributes.require("pattern"))
    except re.error as error:
        raise at.refuse(f"its pattern is none: {error}") from None
    matches = [pattern.fullmatch(_text(value)) for value in x.reshape(-1)]
    return np.array(matches, bool).reshape(x.shape)


@op("TfIdfVectorizer", since=9, host=True)
def tf_idf_vectorizer(at: NodeSite, x: Array) -> Array:
    """How often n-grams of a pool occur, with gaps of up to `max_skip_count` between their words."""
    require = at.attributes.require
    longest, shortest, gaps = (
        require("max_gram_length"),
        require("min_gram_length"),
        require("max_skip_count"),
    )
    mode, counts, indexes = require("mode"), require("ngram_counts"), require("ngram_indexes")
    pool = at.attr("pool_strings") or at.attr("pool_int64s") or []
    weights = at.attr("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise at.refuse(f"there is no mode {mode!r}")
    if list(counts) != sorted(counts) or not all(0 <= start <= len(pool) for start in counts):
        raise at.refuse(f"ngram_counts {list(counts)[:9]} are no places in a pool of {len(pool)}")
    places: dict[tuple[Any, ...], int] = {}
    for length, start in enumerate(counts, 1):
        stop = counts[length] if length < len(counts) else len(pool)
        for begin in range(start, stop, length):
            places[tuple(pool[begin : begin + length])] = len(places)
    width = max(indexes, default=-1) + 1
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    at.room(len(rows) * width, 4)
    result = np.zeros((len(rows), width), np.float32)
    for row, words in zip(result, rows, strict=True):
        tokens = [_text(w) if isinstance(w, str | bytes) else int(w) for w in words.tolist()]
        for number, count in _grams(tokens, places, shortest, longest, gaps).items():
            weight = 1.0 if weights is None else weights[number]
            row[indexes[number]] = {"TF": float(count), "IDF": weight, "TFIDF": count * weight}[mode]
    return result if x.ndim == 2 else result.reshape(-1)


def _grams(
    tokens: Sequence[Any], places: dict[tuple[Any, ...], int], shortest: int, longest: int, gaps: int
) -> Counter[int]:
    counts: Counter[int] = Counter()
    for length in sorted({len(words) for words in places}):
        if not shortest <= length <= longest:
            continue
        # single words have no gaps between them, and no gap is longer than the text
        for gap in range(1, min(gaps + 1, len(tokens)) + 1 if length > 1 else 2):
            reach = (length - 1) * gap
            for begin in range(len(tokens) - reach):
                number = places.get(tuple(tokens[begin : begin + reach + 1 : gap]))
                if number is not None:
                    counts[number] += 1
    return counts
