"""What a public object prints as at a prompt is one short line, however large the thing is."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import compiler, nn, optim, ptir, target
from planish.data import Loader
from planish.uop import Table

LONGEST = 200


def _objects() -> dict[str, object]:
    x = pn.asarray(np.zeros((64, 48), np.float32))
    step = pn.jit(lambda x: [pn.tanh(x @ x.T + number) for number in range(40)])
    low = step.lower(x)
    exe = low.compile()
    lowered = compiler.lower(low.function)
    table = Table()
    total = table.variable("i", 0, 7)
    for number in range(200):
        total += table.variable(f"v{number}", 0, 5) * number
    graph = ptir.Graph("large")
    function = graph.build(graph.constant(np.arange(10_000, dtype=np.float32)).exp())
    first = next(iter(function.walk()))
    return {
        "jitted": step,
        "lowered": low,
        "compiled": exe,
        "kernel": exe.kernels[0],
        "memory": exe.memory,
        "cost": exe.cost,
        "why": exe.kernels[0].why,
        "compiler.Lowered": lowered,
        "compiler.Executable": lowered.compile(),
        "plan": lowered.plan,
        "sharing": lowered.sharing,
        "program": lowered.programs[0],
        "choice": lowered.choices[0],
        "uop": total,
        "table": table,
        "graph": graph,
        "function": function,
        "inst": first,
        "region": function.body,
        "patterns": ptir.canonicalization_patterns(),
        "pass manager": ptir.PassManager.parse(compiler.PIPELINE),
        "module": nn.Linear(1000, 1000, key=pn.random.key(0)),
        "cache info": step.cache_info(),
        "profile": exe.profile(repeat=1),
        "settings": pn.settings(beam=3, fastmath=True),
        "loader": Loader(np.zeros((1000, 64)), 32, shuffle=True),
        "custom": pn.custom_vjp(pn.sin),
        "optimizer": optim.Adam(1e-3),
        "state": optim.Adam(1e-3).init([x] * 100),
        "structure": pn.tree.flatten({"a": [1] * 500})[1],
        "target": target.host(),
        "gpu": target.find("sm_90"),
        "passes": ptir.PassManager.parse("canonicalize,cse").run(low.function.clone()),
    }


@pytest.fixture(name="objects", scope="module")
def _made() -> dict[str, object]:
    return _objects()


@pytest.mark.parametrize(
    "name",
    ["jitted", "lowered", "compiled", "kernel", "memory", "cost", "why", "compiler.Lowered", "compiler.Executable",
     "plan", "sharing", "program", "choice", "uop", "table", "graph", "function", "inst", "region", "patterns",
     "pass manager", "module", "cache info", "profile", "settings", "loader", "custom", "optimizer",
     "state", "structure", "target", "gpu", "passes"],
)  # fmt: skip
def test_a_repr_is_one_short_line(name: str, objects: dict[str, object]) -> None:
    shown = repr(objects[name])
    assert len(shown) <= LONGEST
    assert "\n" not in shown
    assert " object at 0x" not in shown


@pytest.mark.parametrize("shape", [(300, 300), (300, 300, 30), (30, 30, 30, 30)])
def test_a_large_array_fits_a_screen(shape: tuple[int, ...]) -> None:
    assert len(repr(pn.ones(shape)).splitlines()) <= 50


def test_targets_that_differ_in_anything_have_other_texts() -> None:
    one = target.host()
    assert one.in_full() != replace(one, registers=one.registers + 1).in_full()
    assert repr(one.name) in one.in_full()


def test_a_lowered_function_from_the_cache_prints_without_reading_the_rest(tmp_path) -> None:
    graph = ptir.Graph("f")
    function = graph.build(graph.input("x", ptir.tensor("f32", (8,))).exp())
    with pn.settings(cache=True, cache_dir=str(tmp_path)):
        compiler.compile(function)
        again = compiler.compile(function).lowered
    repr(again)
    assert "programs" not in again.__dict__


def test_every_public_class_says_what_its_objects_are():
    bare = []
    for line in (Path(__file__).parent / "public_api.txt").read_text(encoding="utf-8").splitlines():
        name = re.split(r"[^\w.]", line)[0]
        module, _, attribute = name.rpartition(".")
        found = getattr(sys.modules.get(module), attribute, None)
        if (
            inspect.isclass(found)
            and found.__repr__ is object.__repr__
            and not issubclass(found, BaseException)
            and found.__module__ != "numpy"
            and not getattr(found, "_is_protocol", False)
        ):
            bare.append((name, found.__module__))
    assert bare == []


def test_a_large_module_fits_a_screen():
    key = pn.random.key(0)
    alike = nn.Sequential(*[nn.Linear(4, 4, key=key) for _ in range(100)])
    assert repr(alike).split("\n") == [
        "Sequential(",
        "  (0-99): 100 x Linear(in_features=4, out_features=4)",
        ")",
    ]
    different = nn.Sequential(*[nn.Linear(4, 4 + number, key=key) for number in range(100)])
    lines = repr(different).split("\n")
    assert len(lines) == 40
    assert lines[-2:] == ["  … 63 lines more: print its children()", ")"]
    assert len(repr(pn.zeros((1000, 1000)))) < 1000
