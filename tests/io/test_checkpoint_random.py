"""Random trees come back from checkpoints; a damaged index is refused or read, and never anything else."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import planish as pn
from planish.errors import PlanishError

DTYPES = ["float32", "float64", "int8", "int64", "uint32", "bool", "complex64", "float16"]
NAMES = st.text("abcXYZ_019 é", min_size=1, max_size=5)


@st.composite
def tensors(draw: Any) -> Any:
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    data = (
        np.random.default_rng(draw(st.integers(0, 9)))
        .integers(0, 5, shape)
        .astype(draw(st.sampled_from(DTYPES)))
    )
    return data if draw(st.booleans()) else pn.asarray(data)


LEAVES = st.one_of(
    tensors(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.text(max_size=8).filter(lambda text: text.isprintable()),
    st.none(),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(st.integers(0, 5), inner, max_size=2),
    ),
    max_leaves=8,
)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, pn.Tensor | np.ndarray):
        one, two = np.asarray(a), np.asarray(b)
        return (
            type(a) is type(b)
            and one.dtype == two.dtype
            and one.shape == two.shape
            and one.tobytes() == two.tobytes()
        )
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    tree=TREES,
    where=st.sampled_from(["run", "run.safetensors", "run.npz"]),
    shard=st.sampled_from([8, 1 << 30]),
)
def test_any_tree_comes_back(tree: Any, where: str, shard: int):
    with tempfile.TemporaryDirectory() as folder:
        path = pn.io.save_checkpoint(Path(folder) / where, tree, shard_bytes=shard)
        assert equal(pn.io.load_checkpoint(path), tree)
        assert equal(pn.io.load_checkpoint(path, tree), tree)


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_index_is_refused_or_read(data: Any):
    with tempfile.TemporaryDirectory() as folder:
        path = pn.io.save_checkpoint(
            Path(folder) / "a", {"x": pn.ones(2), "n": 1, "list": [pn.zeros(1), "text"]}
        )
        text = bytearray((path / "index.json").read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(
                st.sampled_from(b'{}[]",:0a\xc39tnf \\/.-')
            )
        (path / "index.json").write_bytes(text)
        for like in (None, {"x": pn.ones(2), "n": 1, "list": [pn.zeros(1), "text"]}):
            try:
                pn.io.load_checkpoint(path, like)
            except PlanishError:
                continue


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_described_tree_of_anything_is_refused_or_read(data: Any):
    values = st.recursive(
        st.one_of(st.none(), st.integers(), st.text("xnabc", max_size=2), st.booleans()),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["leaf", "array", "dict", "items", "list", "tuple", "record", "fields"]),
                inner,
                max_size=2,
            ),
        ),
        max_leaves=6,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pn.io.save_checkpoint(Path(folder) / "a", {"x": pn.ones(2), "n": 1})
        content = json.loads((path / "index.json").read_text())
        content[data.draw(st.sampled_from(["tree", "files", "values", "version"]))] = data.draw(values)
        (path / "index.json").write_text(json.dumps(content))
        for like in (None, {"x": pn.ones(2), "n": 1}):
            try:
                pn.io.load_checkpoint(path, like)
            except PlanishError:
                continue
