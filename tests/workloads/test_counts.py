"""What the workloads of `bench/cpu.py` are compiled to, as numbers that are not times.

Per workload and target a file holds the kernels, the bytes they read and write, vector widths, spills, and the instructions of
innermost loops. A figure may fall; if one rises, somebody has to decide that it may, with `pytest --update-golden`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planish as pn
from bench.kit.sides import Planish
from bench.kit.workloads import WORKLOADS, Workload
from planish.frontend.ahead_of_time import LoweredCall
from tests.workloads.assembly import Code, count, functions

FOLDER = Path(__file__).parents[1] / "golden" / "workloads"
TARGETS = ("x86-64-v4", "x86-64-v3")
Counts = dict[str, Any]


def lowered(w: Workload, target: str) -> LoweredCall:
    """A workload, compiled as far as text goes."""
    with pn.settings(target=target):
        side = Planish()
        kind = pn.bfloat16 if w.dtype == "bf16" else pn.float32
        formula = lambda *a: w.formula(side, *a)  # noqa: E731 - a parameter is needed
        if w.gradient:
            formula = pn.grad(formula, argnums=tuple(range(1, len(w.inputs))))
        specs = [pn.TensorSpec(i.shape, kind if i.below is None else pn.int64) for i in w.inputs]
        return pn.jit(formula).lower(*specs)


def counts(low: LoweredCall) -> Counts:
    codes: list[Code] = [count(lines) for lines in functions(low.as_text("asm"))]
    return {
        "kernels": len(codes),
        "bytes": sum(sum(buffer.nbytes for buffer in program.params) for program in low.programs),
        "code": [{"width": c.width, "spills": c.spills, "loops": list(c.loops)} for c in codes],
    }


def risen(before: Counts, now: Counts) -> Iterator[str]:
    """What got worse, in words."""
    for what in ("kernels", "bytes"):
        if now[what] > before[what]:
            yield f"{what}: {before[what]} -> {now[what]}"
    if now["kernels"] != before["kernels"]:
        return
    for k, (old, new) in enumerate(zip(before["code"], now["code"], strict=True)):
        if new["width"] < old["width"]:
            yield f"kernel {k}: vectors of {old['width']} bytes -> {new['width']}"
        if new["spills"] > old["spills"]:
            yield f"kernel {k}: {old['spills']} spills -> {new['spills']}"
        if sum(new["loops"]) > sum(old["loops"]):
            yield f"kernel {k}: instructions of innermost loops {old['loops']} -> {new['loops']}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_nothing_rises(name: str, target: str, request: pytest.FixtureRequest) -> None:
    low = lowered(WORKLOADS[name], target)
    now = counts(low)
    path = FOLDER / target / f"{name.replace('*', 'x')}.json"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(now) + "\n")
        return
    worse = list(risen(json.loads(path.read_text()), now))
    assert not worse, "\n".join(worse)


def test_a_rise_is_seen() -> None:
    code = {"width": 64, "spills": 0, "loops": [30, 4]}
    before: Counts = {"kernels": 1, "bytes": 100, "code": [code]}
    assert not list(risen(before, before))
    assert not list(risen(before, before | {"bytes": 90}))
    assert list(risen(before, before | {"bytes": 101}))
    assert list(risen(before, before | {"kernels": 2, "code": [code, code]}))
    for worse in ({"width": 32}, {"spills": 1}, {"loops": [31, 4]}, {"loops": [30, 4, 1]}):
        assert list(risen(before, before | {"code": [code | worse]}))


ASSEMBLY = """\
\t.type\tf,@function
f:
\tmovq\t%rax, %rbx
.LBB0_1:
\txorl\t%eax, %eax
.LBB0_2:
\tvmovups\t(%rdx), %ymm0
\tvaddps\t%ymm0, %ymm1, %ymm1
\tincl\t%eax
\tjl\t.LBB0_2
\tvmovaps\t%zmm3, 64(%rsp)
\tjne\t.LBB0_1
\tretq
"""


def test_loops_are_found_in_assembly() -> None:
    (lines,) = functions(ASSEMBLY)
    assert count(lines) == Code(loops=(4,), width=32, spills=1)
