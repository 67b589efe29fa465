"""The replay tool: it says nothing of what has not changed, shows what has, and accepts it. What is in the corpus is not judged here."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from planish import ptir
from planish.ptir import Graph, tensor

ROOT = Path(__file__).parent.parent


@pytest.fixture(name="replay")
def _replay() -> ModuleType:
    spec = importlib.util.spec_from_file_location("replay", ROOT / "tools" / "replay.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(name="corpus")
def _corpus(replay: ModuleType, tmp_path: Path) -> Path:
    for name in ("neg", "exp"):
        g = Graph("f")
        x = g.input("x", tensor("f32", (8,)))
        function = g.build(x.neg() if name == "neg" else x.exp())
        (tmp_path / f"{name}.txt").write_text(replay.entry(ptir.print(function)))
    return tmp_path


def test_what_has_not_changed_is_not_shown(
    replay: ModuleType, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay.main([], corpus) == 0
    assert capsys.readouterr().out == "2 functions, 0 differ\n"


def test_a_change_is_shown_and_accepted(
    replay: ModuleType, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = corpus / "neg.txt"
    before = path.read_text()
    line = next(line for line in before.partition(replay.LLIR)[2].splitlines() if "neg" in line)
    path.write_text(before.replace(line, line.replace("neg", "abs")))
    assert replay.main([], corpus) == 1
    shown = capsys.readouterr().out
    assert "neg.txt (stored)" in shown
    assert f"\n+{line}\n" in shown
    assert shown.endswith("2 functions, 1 differ\n")
    assert replay.main(["--only", "exp"], corpus) == 0
    assert replay.main(["--update"], corpus) == 0
    assert path.read_text() == before


def test_an_error_is_part_of_what_may_change(replay: ModuleType) -> None:
    g = Graph("f")
    x = g.input("x", tensor("f32", ("B", 4)))
    assert replay.generated(ptir.print(g.build(x.neg()))).startswith("error: LoweringError")


def test_the_corpus_is_whole_and_small(replay: ModuleType) -> None:
    files = replay.files(replay.CORPUS, "*")
    assert len(files) >= 250
    assert sum(Path(file).stat().st_size for file in files) < 3 << 20
    assert all(replay.LLIR in Path(file).read_text() for file in files)
    for group in ("ops", "sizes", "composites", "networks"):
        assert replay.files(replay.CORPUS, f"{group}/*")
