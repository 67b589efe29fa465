"""Tapes on disk: a model that was run before is run again without being looked at or imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from planish.compiler import compilation_cache
from planish.config import settings
from planish.onnx import importing, kept_tapes, load
from planish.onnx.model import Model
from planish.runtime.cache import disk_cache

DENSE = """
<ir_version: 9, opset_import: ["" : 17]>
dense (float[n, 80] x) => (float[n, 96] y, int64[2] s)
<float[96, 80] w, float[96] b>
{ t = Transpose<perm = [1, 0]>(w) m = MatMul(x, t) y = Add(m, b) s = Shape(y) }
"""
FORKED = """
<ir_version: 9, opset_import: ["" : 17]>
forked (float[n] x, bool c) => (float[k] y)
{
  y = If (c) <
    then_branch = then () => (float[k] a) { a = Abs(x) },
    else_branch = other () => (float[j] b) { z = Compress<axis = 0>(x, keep) b = Neg(z) }
  >
}
"""
COUNTED = """
<ir_version: 9, opset_import: ["" : 17]>
counted (float[n] x) => (int64[1, k] y, seq(float[n]) parts)
{ y = NonZero(x) parts = SplitToSequence<axis = 0>(x) }
"""
HOSTED = """
<ir_version: 9, opset_import: ["" : 20]>
hosted (float[n] x) => (bool[n] y)
{ t = Cast<to = 8>(x) y = RegexFullMatch<pattern = "1.*">(t) }
"""
RNG = np.random.default_rng(5)


def dense(seed: int = 0) -> Any:
    model = onnx.parser.parse_model(DENSE.replace("<float[96, 80] w, float[96] b>", ""))
    rng = np.random.default_rng(seed)
    for name, shape in (("w", (96, 80)), ("b", (96,))):
        array = rng.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model.SerializeToString()


def forked() -> Any:
    model = onnx.parser.parse_model(FORKED)
    keep = onnx.numpy_helper.from_array(np.array([True, False, True]), "keep")
    model.graph.initializer.append(keep)
    return model.SerializeToString()


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    with settings(cache=True, cache_dir=str(tmp_path / "cache")):
        yield tmp_path


def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> Any:
        raise AssertionError("the model was looked at again")

    monkeypatch.setattr(importing, "record", refuse)
    monkeypatch.setattr(importing, "check", refuse)
    monkeypatch.setattr(importing, "whole", refuse)


def same(got: list[Any], wanted: list[Any]) -> None:
    for a, b in zip(got, wanted, strict=True):
        for x, y in zip(a, b, strict=True) if isinstance(b, list) else [(a, b)]:
            assert x.dtype == y.dtype
            np.testing.assert_array_equal(x, y)


X = RNG.standard_normal((3, 80)).astype(np.float32)
FEEDS: dict[str, tuple[bytes, list[dict[str, Any]]]] = {
    "dense": (dense(), [{"x": X}, {"x": X[:2]}]),
    "forked": (forked(), [{"x": X[0, :3], "c": np.array(c)} for c in (True, False)]),
    "counted": (
        onnx.parser.parse_model(COUNTED).SerializeToString(),
        [{"x": np.array(row, np.float32)} for row in ([0, 1, 2], [0, 0, 2], [1, 0, 0])],
    ),
}


@pytest.mark.parametrize("name", FEEDS)
def test_a_second_process_imports_nothing(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    data, feeds = FEEDS[name]
    first = load(data)
    wanted = [first.run(None, feed) for feed in feeds]
    untouched(monkeypatch)
    second = load(data)
    for feed, results in zip(feeds, wanted, strict=True):
        same(second.run(None, feed), results)
    assert 0 < second.compilations <= first.compilations


def test_a_program_for_bounds_is_kept_too(folder: Path, monkeypatch: pytest.MonkeyPatch):
    first = load(dense(), {"n": (1, 8)})
    wanted = first.run(None, {"x": X})
    untouched(monkeypatch)
    second = load(dense(), {"n": (1, 8)})
    same(second.run(None, {"x": X}), wanted)
    same(second.run(None, {"x": X[:1]}), [wanted[0][:1], np.array([1, 96])])
    assert second.compilations == 1


def test_other_weights_are_another_model(folder: Path):
    load(dense(0)).run(None, {"x": X})
    y, _ = load(dense(1)).run(None, {"x": X})
    w, b = (onnx.numpy_helper.to_array(t) for t in onnx.load_from_string(dense(1)).graph.initializer)
    np.testing.assert_allclose(y, X @ w.T + b, rtol=1e-4, atol=1e-4)


def test_what_only_this_process_can_do_is_not_kept(folder: Path):
    data = onnx.parser.parse_model(HOSTED).SerializeToString()
    for _ in range(2):
        assert load(data).run(None, {"x": np.array([1, 2], np.float32)})[0].tolist() == [True, False]


def test_weights_that_lie_in_the_model_are_not_copied(folder: Path):
    text = DENSE.replace("t = Transpose<perm = [1, 0]>(w) m = MatMul(x, t)", "m = Gemm<transB = 1>(x, w, b)")
    model = onnx.parser.parse_model(text.replace("<float[96, 80] w, float[96] b>", ""))
    model.graph.initializer.extend(onnx.load_from_string(dense()).graph.initializer)
    model.graph.initializer[0].raw_data = bytes(96 * 80 * 4)
    loaded = load(model.SerializeToString())
    loaded.run(None, {"x": X})
    (tape,) = loaded._tapes.values()
    data = kept_tapes._TapeWriter(loaded._signatures, loaded.initial, loaded.prepared.layouts).pack(tape)
    assert len(data) < 96 * 80


@pytest.mark.parametrize("damage", ["tape", "code"])
def test_what_is_damaged_or_gone_is_imported_again(
    damage: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    wanted = load(dense()).run(None, {"x": X})
    places: list[str] = []
    key_for = kept_tapes.key_for

    def remembered(*told: Any) -> str:
        places.append(key_for(*told))
        return places[-1]

    monkeypatch.setattr(kept_tapes, "key_for", remembered)
    if damage == "tape":
        load(dense()).run(None, {"x": X})
        disk_cache().put(places[-1], b"no tape at all, and longer than its head")
    else:
        monkeypatch.setattr(compilation_cache, "revive", lambda *told: None)
    counted: list[int] = []
    record = importing.record

    def counting(*given: Any) -> Any:
        counted.append(1)
        return record(*given)

    monkeypatch.setattr(importing, "record", counting)
    same(load(dense()).run(None, {"x": X}), wanted)
    assert counted == [1]


def test_without_a_cache_nothing_is_kept():
    with settings(cache=False):
        model = load(dense())
        assert isinstance(model, Model)
        model.run(None, {"x": X})
