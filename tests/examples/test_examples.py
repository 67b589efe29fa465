"""The examples run at small sizes and do what they say."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

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
        [*sizes, "--steps", "120", "--lr", "0.01", "--write", "20", "--limit", "4000", "--prompt", "The "]
    )
    shown = capsys.readouterr().out
    assert loss < 3.4  # 4.2 at the start, of 66 letters
    assert text.startswith("The ")
    assert len(text) == 24
    assert text in shown
    assert "the step was compiled once" in shown
    assert "letters per second" in shown


def test_heat_spreads_as_it_should(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    error = example("heat").main(["--size", "32", "--steps", "200", "--out", str(tmp_path / "plate")])
    shown = capsys.readouterr().out
    # what finite differences lose of a wave is known too: the rest is rounding
    spacing, factor, steps = 1 / 33, 0.2, 200
    made = (1 - 8 * factor * math.sin(math.pi * spacing / 2) ** 2) ** steps
    lost = abs(made / math.exp(-2 * math.pi**2 * factor * spacing**2 * steps) - 1)
    assert abs(error - lost) < 1e-5
    (picture,) = tmp_path.iterdir()
    assert picture.suffix in (".ppm", ".png")
    assert str(picture) in shown
    if picture.suffix == ".ppm":
        assert picture.read_bytes().startswith(b"P6 128 64 255\n")
        assert picture.stat().st_size == len(b"P6 128 64 255\n") + 128 * 64 * 3
    assert "@" in shown
