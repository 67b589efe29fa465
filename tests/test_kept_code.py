"""Bytecode of texts: compiled by the first process, read by the next; whatever lies there, a process runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SMALL = """
import numpy as np, planish as pn
from planish.kept_code import _texts
x = pn.asarray(np.ones((4, 4), np.float32))
assert np.asarray(pn.jit(lambda a, b: a * b + 1)(x, x)).sum() == 32
print(_texts.compiled, len(_texts.used))
"""


def _run(folder: Path, *flags: str) -> tuple[int, int]:
    """How many texts a process compiled, and how many it used."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {
        "PYTHONPYCACHEPREFIX": str(folder),
        "PLANISH_CACHE_DIR": str(folder / "planish"),
        "PLANISH_CACHE": "0",
    }
    done = subprocess.run(
        [sys.executable, *flags, "-c", _SMALL], env=env, capture_output=True, text=True, check=True
    )
    compiled, used = map(int, done.stdout.split())
    return compiled, used


def _files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.texts"))


def test_a_second_process_compiles_no_text(tmp_path: Path) -> None:
    compiled, used = _run(tmp_path)
    assert compiled == used > 100
    assert _run(tmp_path) == (0, used)


@pytest.mark.parametrize("ending", [b"", b"not bytecode", b"\xe3\xff"])
def test_what_cannot_be_read_is_compiled_again(tmp_path: Path, ending: bytes) -> None:
    compiled, _ = _run(tmp_path)
    (place,) = _files(tmp_path)
    head = place.read_bytes().partition(b"\n")[0]
    place.write_bytes(head + b"\n" + ending if ending else b"planish of another day")
    assert _run(tmp_path)[0] == compiled
    assert _run(tmp_path)[0] == 0


def test_nothing_is_written_where_bytecode_is_not_to_be(tmp_path: Path) -> None:
    assert _run(tmp_path, "-B")[0] > 100
    assert _files(tmp_path) == []
