"""Calibration: the numbers of a `Target` that only measuring tells, for the machine that we run on.

Each number has a loop of its own, in LLVM IR: of operations that wait for each other (latency), of independent ones (throughput), of
loads and stores in the first cache, of reads from end to end of memory that one cache holds and the one before does not. A chain of
integer operations, one cycle each, tells how long a cycle is. Loops run on one core in the sandbox of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Final, NamedTuple

from planish.runtime import cpu
from planish.runtime.limits import loop_of
from planish.runtime.pool import available_cores
from planish.runtime.sandbox import Sandbox, TimedKernel, TrialBuffer
from planish.target import Target
from planish.target.calibration import Numbers

_TURNS: Final = 20_000
"""Iterations of a loop that touches no more than the first cache."""
_READ: Final = 16 << 20
"""The fewest bytes of a loop through memory, however often it goes over them."""
_ROUNDS: Final = 3
"""Times that all loops are measured; of each the fastest counts."""
_PATIENCE: Final = 8.0
"""Seconds after which no other round is begun."""
_SHIFTS: Final = (13, 7, 17)
_CHAIN: Final = 2 * len(_SHIFTS)
"""Cycles of one iteration of the chain that tells the clock."""
_CYCLES: Final = ("latency", "gathers", "launch")
"""Numbers that are cycles, not rates."""
_SUMS: Final = 12
"""Independent operations: more than any machine has on the way, fewer than it has registers."""


class Probe(NamedTuple):
    """A loop, and how many of what it measures it does."""

    source: str
    amount: float
    nbytes: int = 1 << 12
    """Of memory that it reads or writes."""


def probes(target: Target) -> Iterator[tuple[str, Probe]]:
    """The loops of a target, by what they measure."""
    lanes = target.register_bytes // 4
    vector = f"<{lanes} x float>"
    yield "clock", Probe(_loop("i64", 1, _chained, join="xor"), _CHAIN * _TURNS)
    yield "latency", Probe(_loop(vector, 1, _fused(lanes)), _TURNS)
    yield "multiplies", Probe(_loop(vector, _SUMS, _fused(lanes)), _SUMS * _TURNS)
    yield "ports", Probe(_loop(vector, _SUMS, _mixed(vector)), _SUMS * _TURNS)
    yield "loads", Probe(_loop(vector, _SUMS, _loaded(vector)), _SUMS * _TURNS)
    yield "stores", Probe(_loop(vector, _SUMS, _stored(vector)), _SUMS * _TURNS)
    yield "gathers", Probe(_loop(vector, 4, _gathered(lanes)), 4 * lanes * _TURNS)
    yield "shuffles", Probe(_loop(vector, _SUMS, _shuffled(lanes)), _SUMS * _TURNS)
    for level, nbytes in enumerate(working_sets(target)):
        yield f"bytes_per_cycle {level}", _reading(lanes, nbytes)


def working_sets(target: Target) -> list[int]:
    """Bytes that each level but the first holds, and the one before does not."""
    levels = [
        max(2 * near, min(far // 2, 8 * near))
        for near, far in zip(target.caches, target.caches[1:], strict=False)
    ]
    return [*levels, 4 * target.caches[-1]]


def measure(target: Target, report: Callable[[int, int, str], None], *, rounds: int = _ROUNDS) -> Numbers:
    """The numbers of this machine, under the names of the fields of `Target`; `report` hears how far it is."""
    known, threads = dict(probes(target)), available_cores()
    best, begun = dict.fromkeys(known, float("inf")), monotonic()
    with Sandbox(_places(0), 1, workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox:
        for turn in range(rounds):
            if turn and monotonic() - begun > _PATIENCE:
                break
            for number, (name, probe) in enumerate(known.items()):
                report(turn * len(known) + number, rounds * len(known), name.split()[0].replace("_", " "))
                sandbox.use(_places(probe.nbytes))
                kernel = TimedKernel(probe.source, cpu.host(), (0, 1), (), (1,), 0, 1_000_000_000)
                (timing,) = sandbox.time([kernel])
                best[name] = min(best[name], timing.seconds / probe.amount)
    if threads > 1:
        with Sandbox(_places(0), threads, workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox:
            # as many pieces as make two turns of all cores
            empty = TimedKernel(_EMPTY, cpu.host(), (0, 1), (), (2 * threads,), 0, 1_000_000_000)
            best["launch"] = min(each.seconds for each in sandbox.time([empty] * rounds)) / 2
    return numbers(best)


def read_rates(target: Target, *, rounds: int = _ROUNDS) -> list[float]:
    """Bytes per second that one core reads from each cache, and from memory."""
    known = dict(probes(target))
    loads = known["loads"]
    reads = [name for name in sorted(known) if name.startswith("bytes_per_cycle")]
    wanted = [loads._replace(amount=loads.amount * target.register_bytes), *(known[name] for name in reads)]
    best = [float("inf")] * len(wanted)
    with Sandbox(_places(0), 1, workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox:
        for _ in range(rounds):
            for number, probe in enumerate(wanted):
                sandbox.use(_places(probe.nbytes))
                kernel = TimedKernel(probe.source, cpu.host(), (0, 1), (), (1,), 0, 1_000_000_000)
                (timing,) = sandbox.time([kernel])
                best[number] = min(best[number], timing.seconds / probe.amount)
    return [1.0 / seconds for seconds in best]


def numbers(seconds: Mapping[str, float]) -> Numbers:
    """Of the seconds of each probe: rates per cycle, or cycles."""
    cycle = seconds["clock"]
    rates: Numbers = {name: _round(seconds[name] / cycle) for name in _CYCLES if name in seconds}
    for name in ("ports", "multiplies", "loads", "stores", "shuffles"):
        rates[name] = _round(cycle / seconds[name])
    rates["cycle_ns"] = _round(cycle * 1e9)
    levels = [name for name in seconds if name.startswith("bytes_per_cycle")]
    rates["bytes_per_cycle"] = tuple(_round(cycle / seconds[name]) for name in sorted(levels))
    return rates


def _round(number: float) -> float:
    return float(f"{number:.3g}")


def _places(nbytes: int) -> tuple[TrialBuffer, TrialBuffer]:
    return TrialBuffer("out", "float32", 1024, True), TrialBuffer(
        "in", "float32", max(nbytes // 4, 1024), False
    )


_HEAD: Final = "define void @kernel(ptr %o, ptr %x, i64 %core) {\n"
_EMPTY: Final = _HEAD + "  ret void\n}\n"
Body = Callable[[int], str]


def _loop(kind: str, count: int, body: Body | tuple[str, Body], join: str = "fadd") -> str:
    declared, inside = body if isinstance(body, tuple) else ("", body)
    return loop_of(kind, count, declared + _HEAD, inside, 1, _TURNS, join)


def _chained(n: int) -> str:
    """Shifts and exclusive ors, each of which waits for the one before."""
    text, value = "", f"%a{n}"
    for number, shift in enumerate(_SHIFTS):
        how, result = ("shl" if number != 1 else "lshr"), f"%b{n}" if shift == _SHIFTS[-1] else f"%y{number}"
        text += f"  %x{number} = {how} i64 {value}, {shift}\n  {result} = xor i64 {value}, %x{number}\n"
        value = result
    return text


def _fused(lanes: int) -> tuple[str, Body]:
    kind, name = f"<{lanes} x float>", f"@llvm.fma.v{lanes}f32"
    return (
        f"declare {kind} {name}({kind}, {kind}, {kind})\n",
        lambda n: f"  %b{n} = call {kind} {name}({kind} %a{n}, {kind} %a{n}, {kind} %a{n})\n",
    )


def _mixed(kind: str) -> Body:
    """Sums and products in turn, which may have ports of their own."""
    return lambda n: f"  %b{n} = {'fmul' if n % 2 else 'fadd'} {kind} %a{n}, %a{n}\n"


def _loaded(kind: str) -> Body:
    return lambda n: (
        f"  %p{n} = getelementptr {kind}, ptr %x, i64 {n}\n  %b{n} = load volatile {kind}, ptr %p{n}, align 4\n"
    )


def _stored(kind: str) -> Body:
    return lambda n: (
        f"  %b{n} = bitcast {kind} %a{n} to {kind}\n  %p{n} = getelementptr {kind}, ptr %o, i64 {n}\n"
        f"  store volatile {kind} %a{n}, ptr %p{n}, align 4\n"
    )


def _gathered(lanes: int) -> Body:
    """Elements that are put into lanes one by one."""
    kind = f"<{lanes} x float>"

    def body(n: int) -> str:
        text = ""
        for lane in range(lanes):
            before = "poison" if lane == 0 else f"%g{n}_{lane - 1}"
            result = f"%b{n}" if lane == lanes - 1 else f"%g{n}_{lane}"
            text += f"  %p{n}_{lane} = getelementptr float, ptr %x, i64 {(n * lanes + lane) * 5 % 1024}\n"
            text += f"  %e{n}_{lane} = load volatile float, ptr %p{n}_{lane}, align 4\n"
            text += f"  {result} = insertelement {kind} {before}, float %e{n}_{lane}, i64 {lane}\n"
        return text

    return body


def _shuffled(lanes: int) -> Body:
    """Lanes in an order that takes a shuffle across all of a register."""
    kind = f"<{lanes} x float>"
    order = ", ".join(f"i32 {(5 * lane + 3) % lanes}" for lane in range(lanes))
    return lambda n: f"  %b{n} = shufflevector {kind} %a{n}, {kind} poison, <{lanes} x i32> <{order}>\n"


def _reading(lanes: int, nbytes: int) -> Probe:
    """From end to end, four vectors at a time, as often as it takes to have read enough."""
    kind, step = f"<{lanes} x float>", 16 * lanes
    size = 1 << nbytes.bit_length() - 1  # so that a mask wraps it around
    times = max(1, _READ // size)

    def body(n: int) -> str:
        return (
            f"  %r{n} = and i64 %i, {size - 1}\n  %q{n} = add i64 %r{n}, {n * lanes * 4}\n"
            f"  %p{n} = getelementptr i8, ptr %x, i64 %q{n}\n  %v{n} = load {kind}, ptr %p{n}, align 4\n"
            f"  %b{n} = fadd {kind} %a{n}, %v{n}\n"
        )

    return Probe(loop_of(kind, 4, _HEAD, body, step, size * times), size * times, nbytes)
