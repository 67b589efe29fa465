"""Files that are called after something of the user's stay where they belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.cli import main
from planish.cli.console import tamed
from planish.cli.models import write_outputs
from planish.config import settings
from planish.filenames import file_name
from planish.ptir import trace

NAMES = [
    "..", ".", "", "../../x", "/etc/passwd", "a/b", "a\\b", "C:\\x", "a\0b", "x" * 3000, "é" * 200, "-rf", ".hidden", "con", "NUL.txt",
    "\ud800", "a\nb", "<script>", "$(id)", "%s", "*", "~", "file", "a:b",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_becomes_the_name_of_a_file_in_its_folder(name: str, tmp_path: Path) -> None:
    found = file_name(name)
    assert found
    assert (tmp_path / found).resolve().parent == tmp_path
    assert not found.startswith((".", "-"))
    (tmp_path / f"00001_{found}.uop").write_text("")
    assert file_name(found) == found


def test_different_names_are_different_files() -> None:
    assert len({file_name(name).lower() for name in NAMES}) == len(NAMES)
    assert file_name("matmul_2x3") == "matmul_2x3"


def inside(root: Path, work: Path) -> None:
    """Nothing was written but below a folder."""
    assert {path for path in root.rglob("*") if path.is_file()} == {
        path for path in work.rglob("*") if path.is_file()
    }


def test_dumps_of_odd_names_stay_in_their_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    name = "n" * 300
    text = f"""ptir 1
func @"../../f"<{name} in 1..9>(%"../x": tensor<f32, {name}>) -> tensor<f32, {name}> {{
  %0 = exp %"../x" : tensor<f32, {name}>
  return %0
}}
"""
    program = ptir.parse(text)
    with settings(dump_dir=str(work / "dump"), cache=False):
        compiler.lower(program)
    assert len(list((work / "dump").glob("*/*.uop"))) > 20
    (tmp_path / "work" / "p.ptir").write_text(text)
    assert main(["lower", str(work / "p.ptir"), "--to", "llir", "--dump-dir", str(work / "cli")]) == 0
    with trace.install_global_sink(trace.FileTraceSink(work / "trace")):
        with trace.execution(program, backend="x", kind="../../kind"):
            pass
        pn.jit(lambda x: x + 1)(pn.ones(3))
    inside(tmp_path, work)


def test_outputs_of_odd_names_are_members_of_one_folder(tmp_path: Path) -> None:
    names = [name for name in NAMES if name.isprintable() or name in {"a\0b", "a\nb"}]
    names += ["allow_pickle", "args", "a_b"]
    write_outputs(str(tmp_path / "o.npz"), names, [np.full(2, n) for n in range(len(names))])
    with np.load(tmp_path / "o.npz") as found:
        assert [int(found[key][0]) for key in found] == list(range(len(names)))
        for key in found:
            assert "/" not in key
            assert "\\" not in key
            assert not key.startswith(".")
        assert found["file"][0] == names.index("file")
        assert found["a_b"][0] == names.index("a/b")


def test_names_do_not_steer_a_terminal() -> None:
    assert tamed("a\x1b]0;title\x07b\x1b[2Jc\r\x9b") == "a\\x1b]0;title\\x07b\\x1b[2Jc\\r\\x9b"
    assert tamed("\x1b[1;31merror:\x1b[0m é\tx\n") == "\x1b[1;31merror:\x1b[0m é\tx\n"
