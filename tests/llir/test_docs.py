"""docs/llir.md: its examples run, its text parses, and it names what exists."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from planish import llir

TEXT = (Path(__file__).parents[2] / "docs" / "llir.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)


def test_the_example_prints_what_it_says() -> None:
    (code,) = blocks("python")
    wanted = re.findall(r"print\(.*\)\s+# (.*)", code)
    with redirect_stdout(StringIO()) as out:
        exec(compile(code, "docs/llir.md", "exec"), {})
    assert out.getvalue().splitlines() == wanted


def test_the_program_is_one() -> None:
    (text,) = blocks("text")
    program = llir.parse(text)
    llir.verify(program)
    assert llir.print(program) == text
    memory = [np.zeros(6, np.float32), np.arange(6, dtype=np.float32)]
    llir.interpret(program, memory)
    assert memory[0].tolist() == [0, 2, 4, 6, 8, 10]


def test_names_exist() -> None:
    for name in re.findall(r"`llir\.(\w+)", TEXT):
        assert hasattr(llir, name), name
    for name in re.findall(r"`\.(\w+)`", TEXT):
        assert name in llir.Allocation.__dataclass_fields__, name
