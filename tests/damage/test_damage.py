"""Damaged inputs: every reader gives a result or a `PlanishError`, in little time and memory, whatever it is given."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from planish import ptir
from planish.actions.stage import Stage
from planish.actions.thread import Thread
from planish.actions.upcast import Upcast
from planish.codegen import c, llvm
from planish.llir import text as llir
from planish.optimize import winners
from planish.optimize.winners import Where, Winner
from planish.ptir import json as ptir_json
from planish.ptir.verify import problems
from planish.uop import text as uop
from planish.uop.interpret import interpret
from planish.uop.node import Table
from planish.uop.ops import Ops
from planish.uop.spec import PHASES
from planish.uop.spec import problems as uop_problems
from tests.damage import corpora, damaging
from tests.damage.damaging import TooLong, Trial

verify = importlib.import_module("planish.llir.verify")
run_llir = importlib.import_module("planish.llir.interpret").interpret
LONG = pytest.param(20_000, marks=pytest.mark.fuzz)
SMALL = 1 << 18


def read_ptir(text: str) -> None:
    program = ptir.parse(text)
    problems(program)
    assert ptir.print(ptir.parse(ptir.print(program))) == ptir.print(program)


def read_json(text: str) -> None:
    program = ptir_json.loads(text)
    problems(program)
    assert ptir_json.dumps(ptir_json.loads(ptir_json.dumps(program))) == ptir_json.dumps(program)


def read_llir(text: str) -> None:
    for program in llir.parse_programs(text):
        assert llir.parse(llir.print_program(program)) == program
        if not verify.problems(program):
            llvm.render(program, avx512=True)
            c.render(program)


def execute_llir(text: str) -> None:
    for program in llir.parse_programs(text):
        if all(buffer.nbytes < SMALL for buffer in program.params):
            arrays = [np.zeros(b.elements, b.dtype.scalar.numpy) for b in program.params]
            run_llir(program, arrays, {v.name: v.low for v in program.variables})


def read_uop(given: tuple[str, bool]) -> None:
    text, is_linear = given
    with Table() as table:
        if is_linear:
            lines = uop.parse_lines(text, table)
            uop_problems(lines, "program")
            uop.print_lines(lines)
        else:
            root = uop.parse(text, table)
            for phase in list(PHASES)[:-1]:
                uop_problems(root, phase)
            uop.print_graph(root)


def execute_uop(given: tuple[str, bool]) -> None:
    text, is_linear = given
    with Table() as table:
        kernel: Any = uop.parse_lines(text, table) if is_linear else uop.parse(text, table)
        buffers = {}
        for node in kernel if is_linear else kernel.toposort():
            if node.op is Ops.DEFINE_GLOBAL:
                if not 0 <= node.dtype.size < SMALL:
                    return
                base = node.dtype.base
                buffers[node.arg] = np.zeros(node.dtype.size * base.lanes, base.scalar.numpy)
        interpret(kernel, buffers, {})


def damaged(text: str, rng: random.Random, words: list[str], texts: list[str], line: str = "") -> str:
    """Text with other tokens, at times only in a line that has a word, or with other bytes."""
    kind = rng.random()
    if kind < 0.2:
        raw = damaging.damaged_bytes(text.encode(), rng, rng.choice(texts).encode())
        return raw.decode("utf-8", "replace")
    lines = text.split("\n")
    places = [n for n, each in enumerate(lines) if line and line in each]
    if kind < 0.6 and places:
        place = rng.choice((places[0], rng.choice(places)))
        lines[place] = damaging.damaged_text(lines[place], rng, words)
        return "\n".join(lines)
    return damaging.damaged_text(text, rng, words)


@pytest.mark.parametrize(
    ("reader", "texts", "line"),
    [
        (read_ptir, corpora.ptir_texts, ""),
        (read_llir, corpora.llir_texts, "tile"),
        (execute_llir, corpora.llir_texts, "tile"),
    ],
)
@pytest.mark.parametrize("rounds", [240, LONG])
def test_text(reader: Callable[[str], None], texts: Callable[[], list[str]], line: str, rounds: int) -> None:
    given = texts()
    words = damaging.words_of(given[::5])
    # what runs may take long: that is not the reader's fault
    trial = Trial(TooLong) if reader is execute_llir else Trial()
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        trial(
            reader, damaged(rng.choice(given), rng, words, given, line), 2 if reader is execute_llir else 10
        )
    trial.check()


@pytest.mark.parametrize("reader", [read_uop, execute_uop])
@pytest.mark.parametrize("rounds", [200, LONG])
def test_uop_text(reader: Callable[[tuple[str, bool]], None], rounds: int) -> None:
    given = corpora.uop_texts()
    texts = [text for text, _ in given]
    words = damaging.words_of(texts[::3])
    trial = Trial(TooLong) if reader is execute_uop else Trial()
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        text, is_linear = rng.choice(given)
        trial(
            reader, (damaged(text, rng, words, texts, "wmma"), is_linear), 2 if reader is execute_uop else 10
        )
    trial.check()


@pytest.mark.parametrize("rounds", [600, LONG])
def test_json(rounds: int) -> None:
    given = corpora.json_texts()
    trial = Trial()
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        text = rng.choice(given)
        if rng.random() < 0.8:
            text = json.dumps(damaging.damaged_json(json.loads(text), rng))
        else:
            text = damaging.damaged_bytes(text.encode(), rng).decode("utf-8", "replace")
        if rng.random() < 0.02:
            text = text.replace(rng.choice("0123"), "9" * 5000, 1)
        trial(read_json, text)
    trial.check()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"entry": "f"', '"entry": ["f"]'),
        ('"entry": "f"', '"entry": {}'),
        ('"id": 0', f'"id": {"9" * 5000}'),
        ('"ptir": 1', f'"ptir": {"1" * 5000}'),
        ("f32, B", f"f32, {2**63}xB"),
        ("f32, B", f"f32, {'9' * 5000}xB"),
        ('"B": [1, 64]', f'"B": [1, {2**70}]'),
        ('"B": [1, 64]', f'"B": [1, {10**400}]'),
        ('"axis": 0', f'"axis": {10**400}'),
        ('"name": "f"', '"name": ["f"]'),
    ],
)
def test_json_that_means_no_good(old: str, new: str) -> None:
    text = ptir_json.dumps(ptir.parse(corpora.SIZES))
    assert old in text
    trial = Trial()
    trial(read_json, text.replace(old, new))
    assert not trial.failures, trial.report()


# -- schedules -------------------------------------------------------------------------------------------------


def winner() -> Winner:
    actions = (
        Upcast("j", 16),
        Stage(2, None, pad=8),
        Thread("i"),
    )
    return Winner(Where("k", "m", "r", "s"), actions, 1e-6, 2e-6, "matmul")


@pytest.mark.parametrize("rounds", [500, LONG])
def test_winners(rounds: int) -> None:
    trial = Trial()
    for number in range(rounds):
        rng = random.Random(f"{rounds} {number}")
        whole = json.loads(winners.dumps([winner(), winner()]))
        if rng.random() < 0.7:  # with a checksum that fits
            records = damaging.damaged_json(whole["winners"], rng)
            if rng.random() < 0.5 and isinstance(records, list) and records and isinstance(records[0], dict):
                schedule = "upcast(j, 16); stage(arg2, at=k.outer, pad=4)"
                records[0]["schedule"] = damaging.damaged_text(schedule, rng, ["-", "9", ";", "(", "="])
            whole["winners"] = records
            whole["checksum"] = winners._checksum(records)
        text = json.dumps(whole)
        if rng.random() < 0.3:
            text = damaging.damaged_bytes(text.encode(), rng).decode("utf-8", "replace")
        trial(winners.loads, text)
    trial.check()
