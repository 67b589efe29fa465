"""The same input gives the same text at every level: in every process, for every hash seed, whatever was compiled before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from planish import compiler, ptir
from planish.config import settings
from tests.schedule.programs import attention, data, gelu, layernorm, program, softmax

ROOT = Path(__file__).parents[2]
LEVELS = ("ptir", "plan", "llir", "llvm")
NAMES = frozenset({"elementwise", "matmul", "rows", "attention", "moved", "scans", "integers"})


def functions() -> dict[str, ptir.Function]:
    """A few programs that have all kinds of kernels."""
    made = {
        "elementwise": program(lambda g, a, b: a.mul(b).add(a).tanh(), data(5, 12), data(5, 12)),
        "matmul": program(lambda g, a, b, c: gelu((a @ b).add(c.broadcast_to((6, 16)))), data(6, 8), data(8, 16), data(16)),
        "rows": program(lambda g, x, s, t: layernorm(softmax(x), s, t), data(4, 24), data(24), data(24)),
        "attention": program(lambda g, q, k, v: attention(q, k, v), data(2, 8, 4), data(2, 8, 4), data(2, 8, 4)),
        "moved": program(lambda g, x: x.transpose((1, 0)).reshape((4, 15)).reverse([1]).pad((1, 0), (2, 3)), data(12, 5)),
        "scans": program(lambda g, x: (x.cumsum(1), x.argmax(0)), data(6, 7)),
        "integers": program(lambda g, x: x.floor_div(7).mul(x), data(33, dtype="int32")),
    }  # fmt: skip
    return {name: each.function for name, each in made.items()}


def texts(target: str) -> str:
    """Everything that is generated for the programs."""
    found: list[str] = []
    with settings(check="none"):
        for name, function in functions().items():
            lowered = compiler.lower(function, target)
            for kernel in lowered.stages:
                found += [f"{name} {stage}\n{text}" for stage, text in kernel]
            found += [f"{name} {level}\n{lowered.as_text(level)}" for level in LEVELS if target != "cuda" or level != "llvm"]  # fmt: skip
    return "\n".join(found)


TARGETS = ("x86-64-v3", "cuda")


def all_texts() -> str:
    """For a CPU and a GPU."""
    return "\n".join(map(texts, TARGETS))


def elsewhere(seed: str) -> str:
    """The same, made by another process."""
    code = "from tests.stages.test_determinism import all_texts; print(all_texts(), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment, cwd=ROOT
    )
    return ran.stdout


def test_every_level_is_the_same_in_every_process():
    here = all_texts()
    for seed in ("0", "4711"):
        assert first_difference(here, elsewhere(seed)) is None


def test_every_level_is_the_same_whatever_was_compiled_before():
    """Nodes are numbered on; nothing may depend on the numbers."""
    assert first_difference(texts("x86-64"), texts("x86-64")) is None


def first_difference(left: str, right: str) -> str | None:
    """The first line that differs, with its number and what level it belongs to."""
    level = ""
    for number, (x, y) in enumerate(zip(left.splitlines(), right.splitlines(), strict=False)):
        if x.split(" ")[0] in NAMES:
            level = x
        if x != y:
            return f"line {number}, in {level}: {x!r} and {y!r}"
    return None if left == right else "one is longer"
