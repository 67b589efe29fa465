"""The command line in this process: `cli("opt", "-", stdin=text)` gives status and both streams."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from planish.cli import main

SMALL = """\
ptir 1
func @f(%x: tensor<f32, 4x8>) -> tensor<f32, 8x4> {
  %0 = slice %x {starts=[0, 0], limits=[4, 8], strides=[1, 1]} : tensor<f32, 4x8>
  %1 = transpose %0 {perm=[1, 0]} : tensor<f32, 8x4>
  %a = add %1, %1 : tensor<f32, 8x4>
  %b = add %1, %1 : tensor<f32, 8x4>
  %c = mul %a, %b : tensor<f32, 8x4>
  %d = neg %c : tensor<f32, 8x4>
  return %c
}
"""


@dataclass(frozen=True)
class Ran:
    """What a command line did."""

    status: int
    out: str
    err: str


class Cli(Protocol):
    def __call__(self, *arguments: str | Path, stdin: str = "") -> Ran: ...


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    def run(*arguments: str | Path, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The small program as a file in the working directory, so that messages name no machine's path."""
    monkeypatch.chdir(tmp_path)
    Path("small.ptir").write_text(SMALL, encoding="utf-8")
    return "small.ptir"
