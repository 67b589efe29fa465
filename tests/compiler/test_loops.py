"""Counted loops as loops of a kernel: what is launched, what a turn does, and that results are those of the interpreter."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import planish as pn
from planish import compiler, llir, ptir
from planish.compiler import loop_kernels, loops
from planish.llir.counters import Counters
from planish.llir.program import Load, Loop, Store
from planish.schedule.plan import For, walk
from tests.compiler.counted_loops import random_loop

Array = NDArray[Any]
RNG = np.random.default_rng(7)


def f32(*shape: int) -> Array:
    return RNG.uniform(-0.5, 0.5, shape).astype(np.float32)


def lowered(function: Callable[..., Any], *arrays: Any) -> compiler.Lowered:
    return pn.jit(function).lower(*arrays)._lowered


def ran(low: compiler.Lowered, *arrays: Any) -> tuple[list[Array], list[Counters]]:
    """The results of the LLIR interpreter, and what every launch did."""
    seen: list[Counters] = []
    found = low.interpreted(lambda program, counters: seen.append(counters))(*arrays)
    return list(found), seen


def agree(low: compiler.Lowered, *arrays: Any, exact: bool = False) -> None:
    """Machine code, C and the LLIR interpreter give what the PTIR interpreter gives."""
    for program in low.programs:
        llir.verify(program)
        assert llir.parse(llir.print(program)) == program
    wanted = ptir.interpret(low.function, arrays)
    ways = (low.compile(), low.interpreted(), low.compile("c"))
    for run in ways:
        for a, b in zip(wanted, run(*[array.copy() for array in arrays]), strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            if exact:
                np.testing.assert_array_equal(a, b)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def ways_of(low: compiler.Lowered) -> list[str]:
    return [each.way for each in low.rolled]


# -- carried in registers ----------------------------------------------------------------------------------------------


def recurrence(turns: int) -> Callable[[Any], Any]:
    return lambda x: pn.fori_loop(0, turns, lambda i, c: c * 0.999 + 1.0, x)


def test_a_loop_of_many_cheap_steps_is_one_launch_and_a_few_instructions_each():
    low = lowered(recurrence(100_000), f32())
    assert len(low.plan.launches) == 1
    assert not any(isinstance(step, For) for step in walk(low.plan.steps))
    (program,) = low.programs
    inside = [i for i in program.body if not isinstance(i, Load | Store)]
    assert len(inside) <= 14  # two for the arithmetic; addresses of the register, the loop and its end
    low = lowered(recurrence(1000), f32())
    _, (counters,) = ran(low, f32())
    assert (counters.bytes_read, counters.bytes_written) == (4, 4)


@pytest.mark.parametrize("size", [1, 8, 20, 37, 64, 1000, 70_001])
def test_what_is_carried_is_read_and_written_once(size):
    x = f32(size)
    low = lowered(lambda x: pn.fori_loop(0, 9, lambda i, c: c * 0.9 + i, x), x)
    assert ways_of(low) == ["registers"]
    agree(low, x)
    _, seen = ran(low, x)
    assert sum(each.bytes_read for each in seen) == sum(each.bytes_written for each in seen) == 4 * size


@pytest.mark.parametrize("reverse", [False, True])
def test_slices_are_read_and_written_where_they_are(reverse):
    def average(h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            last, h = h, h * 0.9 + x * 0.1
            return h, (h, last)

        return pn.scan(step, h, xs, reverse=reverse)

    h, xs = f32(24), f32(11, 24)
    low = lowered(average, h, xs)
    assert ways_of(low) == ["registers"]
    agree(low, h, xs)
    _, (counters,) = ran(low, h, xs)
    assert counters.bytes_read == h.nbytes + xs.nbytes
    assert counters.bytes_written == h.nbytes + 2 * xs.nbytes


def test_carried_values_may_be_each_other():
    def fibonacci(a: Any, b: Any) -> Any:
        return pn.fori_loop(0, 20, lambda i, c: (c[1], c[0] + c[1]), (a, b))

    for shape in ((), (5,)):
        a, b = RNG.integers(0, 9, (2, *shape))
        low = lowered(fibonacci, a, b)
        assert ways_of(low) == ["registers"]
        agree(low, a, b, exact=True)


def test_chains_of_arithmetic_run_side_by_side():
    function = lowered(recurrence(50), f32(64)).function
    (program,) = compiler.lower(function, "x86-64-v4").programs
    assert sum(isinstance(i, Loop) for i in program.body) == 1  # over turns: all four vectors go around in it
    assert len(program.locals) == 64 // 16


def test_no_more_go_side_by_side_than_there_are_registers():
    def step(i: Any, c: Any) -> Any:
        return [each * 0.5 + c[0] for each in c]

    arrays = [f32(128) for _ in range(6)]
    function = lowered(lambda *xs: pn.fori_loop(0, 5, step, list(xs)), *arrays).function
    for target in ("x86-64-v4", "x86-64-v3"):
        low = compiler.lower(function, target)
        assert ways_of(low) == ["registers"]
        registers = low.target.registers
        assert llir.pressure(low.programs[0], low.target.register_bytes).vector <= registers
        assert f"of {registers} vectors" in low.rolled[0].because
        agree(low, *arrays)


def test_cores_divide_the_elements():
    low = lowered(recurrence(10), f32(300_000))
    assert ways_of(low) == ["registers"]
    assert len(low.programs[0].specials) == 1


# -- carried in memory -------------------------------------------------------------------------------------------------


def network(w: Any, u: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = pn.tanh(w @ h + u @ x)
        return h, h

    return pn.scan(step, h, xs)


def test_a_recurrent_network_is_one_launch():
    arrays = f32(16, 16), f32(16, 8), f32(16), f32(30, 8)
    low = lowered(network, *arrays)
    assert ways_of(low) == ["memory"]
    assert len(low.plan.launches) == 1
    agree(low, *arrays)


@pytest.mark.parametrize("turns", [10, 400])
def test_the_gradient_of_a_network_launches_as_often_for_many_turns_as_for_few(turns):
    grad = pn.grad(lambda w, u, h, xs: pn.sum(network(w, u, h, xs)[1] ** 2), argnums=(0, 1, 2))
    arrays = f32(16, 16), f32(16, 8), f32(16), f32(turns, 8)
    low = lowered(grad, *arrays)
    assert ways_of(low) == ["memory", "memory"]
    assert not any(isinstance(step, For) for step in walk(low.plan.steps))
    assert len(low.plan.launches) <= 6
    if turns == 10:
        agree(low, *arrays)


def blur(turns: int) -> Callable[[Any], Any]:
    def step(i: Any, c: Any) -> Any:
        return pn.concat([c[:1], 0.25 * c[:-2] + 0.5 * c[1:-1] + 0.25 * c[2:], c[-1:]])

    return lambda x: pn.fori_loop(0, turns, step, x)


@pytest.mark.parametrize("copies", [-(10**9), 10**9])
@pytest.mark.parametrize("turns", [0, 1, 2, 7, 8])
def test_neighbours_are_read_before_they_are_overwritten(turns, copies, monkeypatch):
    # carried back by a copy, or by two turns at a time
    monkeypatch.setattr(loop_kernels, "_COPIES", copies)
    x = f32(40)
    low = lowered(blur(turns), x)
    agree(low, x)
    y, n = f32(40), np.int64(turns)
    low = lowered(lambda x, n: pn.fori_loop(0, n, lambda i, c: pn.flip(c) * 0.5 + i, x), y, n)
    assert ways_of(low) == ["memory"]
    agree(low, y, n)


def test_loops_stand_in_loops_and_around_branches():
    def run(x: Any, xs: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            c = pn.fori_loop(0, 5, lambda j, d: d * 0.9 + row, c)
            c = pn.cond(pn.sum(c) > 0.0, lambda: pn.flip(c) * 0.5, lambda: c + 1.0)
            return c, pn.sum(c)

        return pn.scan(step, x, xs)

    arrays = f32(10), f32(7, 10)
    low = lowered(run, *arrays)
    assert ways_of(low) == ["registers", "memory"]
    assert len(low.plan.launches) == 1
    agree(low, *arrays)


# -- how many turns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [-3, 0, 1, 2, 13])
def test_turns_may_be_read_from_memory(turns):
    x, n = f32(9), np.int64(turns)
    low = lowered(lambda x, n: pn.fori_loop(2, n, lambda i, c: c * 0.9 + i, x), x, n)
    assert ways_of(low) == ["registers"]
    agree(low, x, n)


WHILE = """ptir 1
func @main(%x: tensor<f32, 5>, %start: tensor<DTYPE>, %n: tensor<DTYPE>) -> (tensor<DTYPE>, tensor<f32, 5>) {
  %step = constant STEP : tensor<DTYPE>
  %end = constant END : tensor<DTYPE>
  %one = constant 1.0 : tensor<f32, 5>
  %i, %c = while %start, %x (%i: tensor<DTYPE>, %c: tensor<f32, 5>) {
    %t = TEST %i, LIMIT
    return %t
  } (%i: tensor<DTYPE>, %c: tensor<f32, 5>) {
    %j = add %i, %step
    %d = add %c, %one
    return %j, %d
  }
  return %i, %c
}"""


@pytest.mark.parametrize("limit", ["%n", "%end"])
@pytest.mark.parametrize(
    ("dtype", "test", "step", "start", "end"),
    [
        ("i64", "lt", 1, -4, 5), ("i64", "lt", 3, -4, 5), ("i64", "le", 1, 2, 5), ("i64", "le", 2, 2, 5),
        ("i64", "gt", -1, 5, -2), ("i64", "gt", -2, 5, -2), ("i64", "ge", -1, 5, 5), ("i64", "ge", -3, 5, -4),
        ("i64", "lt", 1, 7, 3), ("i32", "lt", 1, 2**31 - 5, 2**31 - 1), ("i8", "lt", 1, 100, 127),
        ("i8", "lt", 3, 0, 127), ("i8", "le", 1, 120, 126), ("u8", "lt", 7, 0, 255), ("u8", "gt", -1, 9, 0),
        ("i64", "lt", 1, 2**63 - 4, 2**63 - 1), ("i64", "gt", -1, -(2**63) + 3, -(2**63)),
        ("i64", "lt", 1, -(2**63), -(2**63) + 2), ("u64", "lt", 1, 2**64 - 3, 2**64 - 1),
    ],
)  # fmt: skip
def test_a_while_that_counts_has_as_many_turns_as_its_condition_says(dtype, test, step, start, end, limit):
    # with a step of 3 and 8 bits it wraps around, and goes on until it meets the end
    if dtype.startswith("u") and step < 0:
        step %= 2 ** int(dtype[1:])
    text = WHILE.replace("DTYPE", dtype).replace("STEP", str(step)).replace("END", str(end))
    program = ptir.parse(text.replace("TEST", test).replace("LIMIT", limit))
    kind = {"i": np.signedinteger, "u": np.unsignedinteger}[dtype[0]]
    number = np.dtype(f"{'int' if kind is np.signedinteger else 'uint'}{dtype[1:]}").type
    arrays = f32(5), np.asarray(number(start)), np.asarray(number(end))
    wanted = ptir.interpret(program, arrays)
    low = compiler.lower(program)
    assert ways_of(low) == ["registers"]
    for run in (low.compile(), low.interpreted()):
        for a, b in zip(wanted, run(*arrays), strict=True):
            np.testing.assert_array_equal(a, b)


NAMED = """ptir 1
func @main<T in 0..20>(%h: tensor<f32, 3>, %xs: tensor<f32, Tx3>) -> (tensor<f32, 3>, tensor<f32, Tx3>) {
  %half = constant 0.5 : tensor<f32, 3>
  %c, %ys = scan %h, %xs {num_carries=1, length=T, reverse=REVERSE} (%s: tensor<f32, 3>, %x: tensor<f32, 3>) {
    %t = mul %s, %half
    %u = BODY
    return %u, %s
  }
  return %c, %ys
}"""


@pytest.mark.parametrize("reverse", ["false", "true"])
@pytest.mark.parametrize("body", ["add %t, %x", "cumsum %t {axis=0}"])
def test_a_named_size_is_a_number_of_turns(reverse, body):
    low = compiler.lower(ptir.parse(NAMED.replace("REVERSE", reverse).replace("BODY", body)))
    assert ways_of(low) == ["registers" if "add" in body else "memory"]
    for turns in (0, 1, 2, 20):
        agree(low, f32(3), f32(turns, 3))


def test_what_counts_is_not_carried():
    low = lowered(lambda x: pn.fori_loop(3, 90, lambda i, c: c + i * i, x), np.int64(5))
    agree(low, np.int64(5), exact=True)
    assert all(len(program.params) == 1 for program in low.programs)


# -- what decides ------------------------------------------------------------------------------------------------------


def test_a_body_that_outweighs_its_launches_keeps_its_launches():
    arrays = f32(256, 256), f32(256, 256)
    low = lowered(lambda w, x: pn.fori_loop(0, 4, lambda i, c: pn.tanh(w @ c), x), *arrays)
    assert not low.rolled
    assert len(low.kept) == 1
    assert any(isinstance(step, For) for step in low.plan.steps)
    assert "a loop of launches" in low.compile().why()


def test_why_says_which_loops_are_kernels():
    run = pn.jit(recurrence(100)).lower(f32(8)).compile()
    assert "one kernel, what is carried in registers" in run.why()
    assert "launches would add 25 ns to each" in run.why()
    (info,) = run.kernels
    assert info.why.parts
    assert info.cost.flops == 100 * 2 * 8


def test_a_long_loop_runs_in_pieces_so_that_it_can_be_ended(monkeypatch):
    low = lowered(recurrence(10**9), f32())
    (loop,) = [step for step in low.plan.steps if isinstance(step, For)]
    assert 1 < loop.stride < 10**8
    monkeypatch.setattr(loops, "_LONG_NS", 0)
    monkeypatch.setattr(loops, "_RUN_NS", 30)
    for turns in (1, 2, 9, 10, 11):
        for x in (f32(), f32(12)):
            low = lowered(lambda x, n=turns: pn.fori_loop(0, n, lambda i, c: c * 0.9 + i, x), x)
            assert any(isinstance(step, For) and step.stride > 1 for step in low.plan.steps) or turns == 1
            agree(low, x)
        arrays = f32(4), f32(turns, 4)
        low = lowered(lambda h, xs: pn.scan(lambda c, y: (pn.flip(c) + y, c), h, xs, reverse=True), *arrays)
        agree(low, *arrays)


def test_a_loop_without_end_ends_with_an_interrupt():
    run = pn.jit(recurrence(10**13)).lower(f32()).compile()

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            run(f32())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_loops_may_stay_loops_of_launches():
    program = ptir.parse(
        WHILE.replace("DTYPE", "i64")
        .replace("STEP", "1")
        .replace("END", "5")
        .replace("TEST", "lt")
        .replace("LIMIT", "%n")
    )
    low = compiler.lower(program, loops=False)
    assert not low.rolled
    arrays = f32(5), np.int64(0), np.int64(4)
    for a, b in zip(ptir.interpret(program, arrays), low.compile()(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_cache_keeps_loops(tmp_path):
    x = f32(12)
    with pn.settings(cache_dir=str(tmp_path)):
        program = lowered(recurrence(30), x).function
        first, again = (compiler.compile(program) for _ in range(2))
        np.testing.assert_array_equal(first(x)[0], again(x)[0])
        assert again.why() == first.why()


# -- random loops ------------------------------------------------------------------------------------------------------


def check(seed: int, monkeypatch: pytest.MonkeyPatch, *, interpreted: bool = False) -> list[str]:
    """A random loop gives what the interpreter gives; by its seed carried back by copies, and in pieces."""
    function, arrays = random_loop(seed)
    monkeypatch.setattr(loop_kernels, "_COPIES", -(10**9) if seed % 2 else 4)
    monkeypatch.setattr(loops, "_LONG_NS", 0 if seed % 3 == 0 else 20_000_000)
    monkeypatch.setattr(loops, "_RUN_NS", 60 if seed % 3 == 0 else 10_000_000)
    low = compiler.lower(function)
    for program in low.programs:
        llir.verify(program)
    wanted = ptir.interpret(function, arrays)
    runs = [low.compile(), *([low.interpreted()] if interpreted else [])]
    for run in runs:
        found = run(*[array.copy() for array in arrays])
        for a, b in zip(wanted, found, strict=True):
            np.testing.assert_allclose(
                np.asarray(a, np.float64),
                np.asarray(b, np.float64),
                rtol=1e-4,
                atol=1e-5,
                err_msg=f"seed {seed}",
            )
    return ways_of(low)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_counted_loops(start, monkeypatch):
    seen = [
        way
        for seed in range(start, start + 10)
        for way in check(seed, monkeypatch, interpreted=seed % 5 == 0)
    ]
    assert set(seen) <= {"registers", "memory"}
    assert seen


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_counted_loops(start, monkeypatch):
    for seed in range(start, start + 100):
        check(seed, monkeypatch, interpreted=seed % 5 == 0)


def all_ways(seeds: Sequence[int]) -> set[str]:
    return {way for seed in seeds for way in ways_of(compiler.lower(random_loop(seed)[0]))}


def test_the_loops_have_what_they_are_for():
    assert all_ways(range(20)) == {"registers", "memory"}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_flag_of_the_sequence_decides_a_branch(reverse: bool) -> None:
    """The condition of a branch is read where the turn's part of the sequence is."""
    x = np.array([4.0, 0.0, 1.0])
    flags, rows = np.array([True, False, True, True]), np.arange(12.0).reshape(4, 3)

    def run(x: pn.Tensor, flags: pn.Tensor, rows: pn.Tensor) -> object:
        def turn(carry: pn.Tensor, given: tuple[pn.Tensor, pn.Tensor]) -> tuple[pn.Tensor, None]:
            return pn.cond(given[0], lambda: carry * given[1], lambda: carry), None

        return pn.scan(turn, x, (flags, rows), reverse=reverse)[0]

    expected = x.copy()
    for flag, row in sorted(zip(flags, rows, strict=True), key=lambda pair: pair[1][0], reverse=reverse):
        expected = expected * row if flag else expected
    found = pn.jit(run)(pn.asarray(x), pn.asarray(flags), pn.asarray(rows))
    np.testing.assert_array_equal(np.asarray(found), expected)
