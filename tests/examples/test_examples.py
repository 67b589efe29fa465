"""The examples run at small sizes and do what they say."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import planish as pn

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_digits_learns_to_read(capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sklearn")
    accuracy = example("digits").main(["--epochs", "3", "--batch", "32", "--limit", "640"])
    shown = capsys.readouterr().out
    assert accuracy > 0.9
    assert shown.count("epoch") == 3
    assert "640 to train on, 359 to test with, 9,978 parameters" in shown
    assert "% of 359 test images are read right" in shown
    assert "\033" not in shown  # no colours where nobody looks


@pytest.mark.slow
def test_digits_reaches_98_percent():
    pytest.importorskip("sklearn")
    assert example("digits").main([]) >= 0.98


def test_gpt_learns_and_writes_with_a_growing_cache(capsys: pytest.CaptureFixture[str]):
    sizes = ["--layers", "1", "--width", "16", "--heads", "2", "--context", "12", "--batch", "8"]
    loss, text = example("gpt").main(
        [
            *sizes,
            "--steps",
            "120",
            "--lr",
            "0.01",
            "--write",
            "20",
            "--limit",
            "4000",
            "--prompt",
            "The ",
            "--words",
            "0",
        ]
    )
    shown = capsys.readouterr().out
    assert loss < 3.4  # 4.2 at the start, of 66 letters
    assert text.startswith("The ")
    assert len(text) == 24
    assert text in shown
    assert "the step was compiled once" in shown
    assert "tokens per second" in shown


def test_heat_spreads_as_it_should(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    error = example("heat").main(["--size", "32", "--steps", "200", "--out", str(tmp_path / "plate")])
    shown = capsys.readouterr().out
    # what finite differences lose of a wave is known too: the rest is rounding
    spacing, factor, steps = 1 / 33, 0.2, 200
    made = (1 - 8 * factor * math.sin(math.pi * spacing / 2) ** 2) ** steps
    lost = abs(made / math.exp(-2 * math.pi**2 * factor * spacing**2 * steps) - 1)
    assert abs(error - lost) < 1e-5
    (picture,) = tmp_path.iterdir()
    assert picture.suffix == ".png"
    assert str(picture) in shown
    assert example("pictures").read_picture(picture).shape == (64, 128, 3)
    assert "@" in shown


def test_gpt_that_was_interrupted_goes_on_as_if_it_was_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = tmp_path / "words.txt"
    words.write_text("the hare saw the lynx and the lynx saw the hare; " * 40, encoding="utf-8")
    sizes = [
        "--layers",
        "1",
        "--width",
        "16",
        "--heads",
        "2",
        "--context",
        "12",
        "--batch",
        "8",
        "--lr",
        "0.02",
    ]
    given = [*sizes, "--text", str(words), "--write", "24", "--prompt", "the ", "--temperature", "0.2"]
    gpt = example("gpt")
    _, whole = gpt.main([*given, "--steps", "240"])
    split = [*given, "--steps", "240", "--run", str(tmp_path / "run"), "--every", "60"]
    gpt.main([*split, "--stop", "100"])
    assert pn.io.checkpoints(tmp_path / "run") == [60, 100]
    _, resumed = gpt.main(split)
    assert "goes on after step 100" in capsys.readouterr().out
    assert resumed == whole
    assert pn.io.checkpoints(tmp_path / "run") == [180, 240]
    _, sampled = gpt.main(split)
    assert sampled == whole
    # it writes words of the text, not letters
    assert set(whole.split()[:-1]) <= {"the", "hare", "saw", "lynx", "and", "hare;"}


def test_a_picture_is_classified_by_an_onnx_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sklearn")
    pytest.importorskip("onnx")
    classify = example("classify")
    folder = tmp_path / "not" / "there"
    found = classify.main(["--out", str(folder), "--top", "3"])
    assert found[0][0] == "digit 8"
    (picture,) = folder.glob("digit-8.png")
    again = classify.main([str(picture), "--model", str(folder / "digits.onnx")])
    assert [share for _, share in again[:3]] == pytest.approx([share for _, share in found], rel=1e-6)
    assert again[0][0] == "class 8"
    assert "█" in capsys.readouterr().out


def tiny_bert(folder: Path) -> dict[str, Any]:
    """A folder like Hugging Face's, with weights by a seed."""
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "the",
        "hare",
        "lynx",
        "run",
        "##s",
        "##ning",
        "a",
        "comp",
        "##iler",
        "loop",
        ".",
        "?",
    ]
    config = {"vocab_size": len(words), "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
    config |= {"num_hidden_layers": 2, "max_position_embeddings": 32, "type_vocab_size": 2}
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    generator = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        f"embeddings.{n}_embeddings.weight": (s, 16)
        for n, s in (("word", 16), ("position", 32), ("token_type", 2))
    }
    shapes |= {f"embeddings.LayerNorm.{kind}": (16,) for kind in ("weight", "bias")}
    for n in range(2):
        layer = f"encoder.layer.{n}"
        for part in (
            "attention.self.query",
            "attention.self.key",
            "attention.self.value",
            "attention.output.dense",
        ):
            shapes |= {f"{layer}.{part}.weight": (16, 16), f"{layer}.{part}.bias": (16,)}
        shapes |= {f"{layer}.intermediate.dense.weight": (24, 16), f"{layer}.intermediate.dense.bias": (24,)}
        shapes |= {f"{layer}.output.dense.weight": (16, 24), f"{layer}.output.dense.bias": (16,)}
        for part in ("attention.output", "output"):
            shapes |= {f"{layer}.{part}.LayerNorm.{kind}": (16,) for kind in ("weight", "bias")}
    weights = {
        name: (0.4 * generator.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()
    }
    pn.io.save(folder / "model.safetensors", {name: pn.asarray(x) for name, x in weights.items()})
    return weights


def reference_vector(weights: dict[str, Any], pieces: list[int]) -> Any:
    """BERT by its paper, in NumPy."""

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def dense(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    words, places, kinds = (
        weights[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type")
    )
    x = norm(words[pieces] + places[: len(pieces)] + kinds[0], "embeddings.LayerNorm")
    erf = np.vectorize(math.erf)
    for n in range(2):
        layer = f"encoder.layer.{n}"
        q, k, v = (
            dense(x, f"{layer}.attention.self.{part}").reshape(-1, 4, 4).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = np.exp(q @ k.swapaxes(1, 2) / 2)
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(-1, 16)
        x = norm(x + dense(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        wide = dense(x, f"{layer}.intermediate.dense")
        wide = wide * (1 + erf(wide / math.sqrt(2))) / 2
        x = norm(x + dense(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def test_sentences_are_found_by_a_bert(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    weights = tiny_bert(tmp_path)
    search = example("search")
    pieces = search.Pieces((tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines())
    assert pieces.of("The hare runs.", 32) == [2, 4, 5, 7, 8, 14, 3]
    assert pieces.of("Compiler zebra?", 32) == [2, 11, 12, 1, 15, 3]
    ready = search.Search(tmp_path)
    texts = ["The hare runs.", "a compiler loop", "running lynx?", "The lynx runs."]
    vectors = ready.vectors(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(
            vector, reference_vector(weights, pieces.of(text, 32)), rtol=2e-4, atol=2e-5
        )
    assert ready.encode.cache_info().misses == 1  # one program for sentences of any length
    lines = tmp_path / "lines.txt"
    lines.write_text(
        "The hare runs the loop.\nA compiler runs the loop.\nThe lynx runs and runs\n", encoding="utf-8"
    )
    found = search.main([str(tmp_path), "The hare runs the loop.", "--lines", str(lines), "--top", "2"])
    assert found[0] == (pytest.approx(1.0, abs=1e-5), "The hare runs the loop.")
    assert "1 compilation" in capsys.readouterr().out


def test_a_solver_finds_the_rates_it_was_made_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    solver = example("solver")
    found = solver.main(["--steps", "160", "--noise", "0", "--out", str(tmp_path / "solver.svg")])
    for name, value in solver.TRUTH.items():
        assert found[name] == pytest.approx(value, rel=1e-3), name
    assert "truth    found" in capsys.readouterr().out
    assert (tmp_path / "solver.svg").read_text(encoding="utf-8").count("<polyline") == 3


def test_three_libraries_agree_on_a_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    given = ["--walks", "20000", "--days", "16", "--repeats", "1", "--out", str(tmp_path / "walks.svg")]
    results = example("montecarlo").main(given)
    prices = [price for price, _, _ in results.values()]
    error = max(error for _, error, _ in results.values())
    assert len(prices) >= 2
    assert max(prices) - min(prices) < 6 * error
    assert "one more in the share's price is 0." in capsys.readouterr().out


def test_a_pass_saves_a_product(capsys: pytest.CaptureFixture[str]):
    assert example("compiler_pass").main(["--size", "32", "--repeats", "1"]) == (2, 1)
    shown = capsys.readouterr().out
    assert "with the pass: 1 product" in shown
    assert float(shown.rsplit("differ by", 1)[1]) < 1e-5
    source = (
        (EXAMPLES / "compiler_pass.py")
        .read_text(encoding="utf-8")
        .split("# ---")[1]
        .split("class FactorProducts")[1]
    )
    assert len([line for line in source.splitlines() if line.strip()]) <= 12


def test_pictures_come_back(tmp_path: Path):
    pictures = example("pictures")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
    assert np.array_equal(
        pictures.read_picture(pictures.write_png(tmp_path / "new" / "a.png", pixels)), pixels
    )
    image: Any = pytest.importorskip("PIL.Image")
    for mode in ("L", "RGB", "RGBA", "LA"):
        path = tmp_path / f"{mode}.png"
        smooth = np.add.outer(np.arange(40), np.arange(30)).astype(np.uint8) * 3
        image.fromarray(smooth).convert(mode).save(path, optimize=True)
        wanted = np.asarray(image.open(path).convert("RGB"))
        assert np.array_equal(pictures.read_picture(path), wanted), mode
    image.fromarray(pixels).save(tmp_path / "b.jpg", quality=100)
    assert pictures.read_picture(tmp_path / "b.jpg").shape == (5, 7, 3)


def test_the_tour_runs_cell_by_cell(capsys: pytest.CaptureFixture[str]):
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"tour.ipynb cell {number}", "exec"), names)
            assert not cell["outputs"]
    shown = capsys.readouterr().out
    assert "is near 1.77" in shown
    assert "(5, 3) (3, 3)" in shown
    assert "exp" not in shown.rsplit("func @", 1)[1]


def test_the_page_of_examples_names_them_all():
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.glob("*.py"):
        if path.name != "pictures.py":
            assert f"{path.name}]" in page, path.name
    for link in re.findall(r"\]\(([^)]*)\)", page):
        assert (EXAMPLES / link).exists(), link
