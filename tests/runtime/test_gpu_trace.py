"""Random plans with loops, branches, slices and exchanges: what the trace launches leaves what the plan leaves, step by step."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import dtypes
from planish.compiler.assemble import Assembled, assemble
from planish.runtime.cuda import trace
from planish.runtime.cuda.trace import COPY, Choice, Item, KernelLaunch, LaunchLoop, Word, follow
from planish.runtime.plan import PlanState, Unless, run
from planish.schedule import plan as planned
from planish.schedule.plan import Plan, PlanBuffer, Role

Words = NDArray[np.int64]
_SIZE, _TURNS = 3, 4
VALUES = (0, 2, 4, 6)
"""Buffers of values; the next is what a turn of a loop writes."""
COUNTER, NEXT, FLAG, OTHER, SEQUENCE, VIEW = 8, 9, 10, 11, 12, 13
_SIZES = [_SIZE] * 8 + [1, 1, 1, 1, _SIZE * _TURNS, _SIZE]
_MIX, _ZERO, _COUNT, _BELOW, _ODD = range(5)
KERNELS: dict[int, Callable[..., object]] = {
    _MIX: lambda to, a, b: to.__setitem__(slice(None), (a * 3 + b) % 1009),
    _ZERO: lambda to: to.fill(0),
    _COUNT: lambda to, a: to.__setitem__(0, a[0] + 1),
    _BELOW: lambda to, a, b: to.__setitem__(0, a[0] < b[0] % 6),
    _ODD: lambda to, a: to.__setitem__(0, a[1] % 2),
}


def _steps(rng: random.Random, depth: int, inside: bool) -> list[planned.Step]:
    """Some steps; inside of loops and branches nothing may count."""
    found: list[planned.Step] = []
    for _ in range(rng.choice((1, 2, 3))):
        kind = rng.choice(("mix", "mix", "copy", "for", "while", "branch") if depth else ("mix", "copy"))
        a, b, c = (rng.choice(VALUES) for _ in range(3))
        body: list[planned.Step]
        if kind == "mix":
            found.append(planned.Launch(_MIX, (a, b, c)))
        elif kind == "copy":
            found.append(planned.Copy(a, b))
        elif kind == "for":
            body = [
                planned.View(VIEW, SEQUENCE, f"i{depth}"),
                planned.Launch(_MIX, (a + 1, a, VIEW)),
                planned.SwapPointers(a, a + 1),
            ]
            body += _steps(rng, 0, inside=True)
            found.append(
                planned.For(rng.choice((1, 2, _TURNS)), f"i{depth}", rng.random() < 0.5, tuple(body))
            )
        elif kind == "while" and not inside:
            body = [
                *_steps(rng, depth - 1, inside=True),
                planned.Launch(_COUNT, (NEXT, COUNTER)),
                planned.SwapPointers(COUNTER, NEXT),
            ]
            if rng.random() < 0.5:
                body += [planned.Launch(_MIX, (a + 1, a, b)), planned.SwapPointers(a, a + 1)]
            found += [
                planned.Launch(_ZERO, (COUNTER,)),
                planned.While((planned.Launch(_BELOW, (FLAG, COUNTER, SEQUENCE)),), FLAG, tuple(body)),
            ]
        elif kind == "branch":
            otherwise = _steps(rng, depth - 1, inside=True) if rng.random() < 0.6 else []
            then = _steps(rng, depth - 1, inside=True)
            found += [planned.Launch(_ODD, (OTHER, a)), planned.Branch(OTHER, tuple(then), tuple(otherwise))]
    return found


def _assembled(rng: random.Random) -> Assembled:
    buffers = tuple(PlanBuffer(dtypes.int64, size, Role.ARENA) for size in _SIZES)
    plan = Plan(tuple(_steps(rng, 2, inside=False)), (), buffers, (), ())
    return assemble(plan, [()] * len(KERNELS), ())


class _Memory:
    """Words of which addresses are the numbers."""

    def __init__(self, before: Sequence[Words]) -> None:
        self.words = np.concatenate(before)
        self.starts = [int(n) * 8 for n in np.cumsum([0, *map(len, before)])[:-1]]

    def at(self, word: Word, memory: Sequence[int], count: int) -> Words:
        start = (memory[word.root] + word.offset) // 8
        return self.words[start : start + count]

    def launch(self, items: Sequence[Item], memory: Sequence[int]) -> None:
        for item in items:
            match item:
                case KernelLaunch(kernel, (nbytes,), (to, source, _)) if kernel == COPY:
                    self.at(to, memory, nbytes // 8)[:] = self.at(source, memory, nbytes // 8).copy()
                case KernelLaunch(kernel, _, words):
                    size = _SIZE if kernel in {_MIX, _ODD} else 1
                    KERNELS[kernel](*(self.at(word, memory, size) for word in words))
                case Choice(flag, then, otherwise):
                    self.launch(then if self.at(flag, memory, 1)[0] else otherwise, memory)
                case LaunchLoop(flag, turns, flags, back):
                    number, more = 0, self.at(flag, memory, 1)[0]
                    while more:
                        self.launch(turns[number], memory)
                        more = self.at(flags[number], memory, 1)[0]
                        if number == 0 and len(turns) == 2 and not more:
                            self.launch(back, memory)
                        number = (number + 1) % len(turns)


def _traced(
    code: Assembled, before: Sequence[Words], *, decides: bool, longest: int
) -> tuple[list[Words], int]:
    """What is left, and how often the host had to look at a flag."""
    flat, found, looked = code.code, _Memory(before), 0
    memory, slots, position = list(found.starts), list(flat.slots), 0
    nbytes = [size * 8 for size in _SIZES]
    while position < len(flat.instructions):
        stretch = follow(flat, position, slots, nbytes, [8] * len(_SIZES), decides=decides, longest=longest)
        found.launch(stretch.items, memory)
        memory = [memory[root] + offset for root, offset in stretch.memory]
        slots[:], position = stretch.slots, stretch.end  # type: ignore[assignment]
        i = flat.instructions[position] if position < len(flat.instructions) else None
        if isinstance(i, Unless) and (not decides or not stretch.items or longest > 1):
            looked += 1
            position = position + 1 if found.words[memory[i.flag] // 8] else i.to
    return [found.at(Word(n, 0), memory, _SIZE) for n in VALUES], looked


def _check(seed: int, *, decides: bool, longest: int = 4096) -> int:
    rng = random.Random(seed)
    code = _assembled(rng)
    before = [np.random.default_rng(seed).integers(0, 50, size) for size in _SIZES]
    memory = [array.copy() for array in before]
    calls = [lambda arrays, values, scratch, k=k: KERNELS[k](*arrays) for k in KERNELS]
    state = PlanState(memory, list(code.code.slots), calls, [None] * len(code.code.sites))
    run(code.code, state)
    found, looked = _traced(code, before, decides=decides, longest=longest)
    assert [x.tolist() for x in found] == [memory[n].tolist() for n in VALUES], seed
    return looked


@pytest.mark.parametrize(("decides", "longest"), [(True, 4096), (False, 4096), (False, 1), (True, 5)])
def test_a_trace_does_what_the_plan_does(decides: bool, longest: int) -> None:
    looked = [_check(seed, decides=decides, longest=longest) for seed in range(150)]
    if decides and longest == 4096:  # nearly everything is decided on the device
        assert sum(n == 0 for n in looked) > 140
        assert any(_check(seed, decides=False) for seed in range(150))


@pytest.mark.fuzz
def test_many_traces_do_what_plans_do() -> None:
    for seed in range(150, 6000):
        for decides, longest in ((True, 4096), (False, 4096), (True, 7)):
            _check(seed, decides=decides, longest=longest)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("brought_back", lambda walker, *_: ()),
        ("copy", lambda walker, items, source, target, nbytes: None),
    ],
)
def test_a_mistake_in_the_trace_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., object]
) -> None:
    monkeypatch.setattr(trace._Walker, name, wrong)
    with pytest.raises(AssertionError):
        all(_check(seed, decides=True) >= 0 for seed in range(150))
