"""What this machine can do at most, measured: multiply-adds in registers, and bytes read, on so many threads.

The limit of a kernel is measured under its own conditions: the width of its floats, and as many bytes as it touches, read again and
again, so that they come from the cache that the kernel has them in. What has no such loop (tiles, narrow floats) has no limit here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from planish.runtime import cpu
from planish.runtime.sandbox import Sandbox, TimedKernel, TrialBuffer

_ACCUMULATORS: Final = 12
_ITERATIONS: Final = 200_000
_LEAST_READ: Final = 4 << 10
_MOST_READ: Final = 128 << 20
"""Bytes that are read for the limit of memory: more than caches hold."""
_AGAIN: Final = 3
"""Measurements of a limit that a kernel has beaten, which then was measured while something else ran."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most of this machine."""

    flops: float
    """Float32 operations per second, a multiply-add being two."""
    bandwidth: float
    """Bytes per second, from memory."""

    def seconds(self, flops: float, nbytes: float) -> float:
        """The least time for so much of both."""
        return max(flops / self.flops, nbytes / self.bandwidth)


class Meter:
    """Measures limits when they are asked for, and keeps the best of what it has seen."""

    def __init__(self, sandbox: Sandbox, lanes: int) -> None:
        """On the threads that a sandbox uses, by vectors of so many float32."""
        self.sandbox = sandbox
        self.lanes = lanes
        self._flops: dict[int, float] = {}
        self._bandwidth: dict[int, float] = {}

    def limits(self) -> Limits:
        """Of float32 and of memory."""
        return Limits(self.flops(32), self.bandwidth(_MOST_READ))

    def flops(self, bits: int) -> float:
        """Operations per second on floats of so many bits, 32 or 64."""
        if bits not in self._flops:
            self._measure_flops(bits)
        return self._flops[bits]

    def bandwidth(self, nbytes: int) -> float:
        """Bytes per second of whoever reads about so many, again and again."""
        size = _bucket(nbytes)
        if size not in self._bandwidth:
            self._measure_bandwidth(size)
        return self._bandwidth[size]

    def share(self, flops: Mapping[int, int], nbytes: int, seconds: float) -> float | None:
        """How near a kernel comes to the limit: 1 is at it. None if the limit of what it does cannot be measured."""
        if any(bits not in _KINDS for bits in flops):
            return None
        for attempt in range(1 + _AGAIN):
            needed = max(
                nbytes / self.bandwidth(nbytes), sum(n / self.flops(bits) for bits, n in flops.items())
            )
            if needed <= seconds:
                return needed / seconds
            if attempt < _AGAIN:
                self._measure_bandwidth(_bucket(nbytes))
                for bits in flops:
                    self._measure_flops(bits)
        return None

    def _measure_flops(self, bits: int) -> None:
        threads = self.sandbox.setup.threads
        lanes = self.lanes * 32 // bits
        self.sandbox.use((_out(threads),))
        work = TimedKernel(
            _fma_source(lanes, _KINDS[bits]), cpu.host(), (0,), (), (threads,), 0, 1_000_000_000
        )
        (report,) = self.sandbox.time([work])
        flops = 2.0 * lanes * _ACCUMULATORS * _ITERATIONS * threads / report.seconds
        self._flops[bits] = max(flops, self._flops.get(bits, 0.0))

    def _measure_bandwidth(self, size: int) -> None:
        self.sandbox.use((_out(self.sandbox.setup.threads), TrialBuffer("in", "float32", size // 4, False)))
        best = self._bandwidth.get(size, 0.0)
        # few bytes are read fastest by one thread alone
        for threads in {1, self.sandbox.setup.threads}:
            piece = size // threads // (self.lanes * 16) * (self.lanes * 16)
            if piece:
                source = _read_source(self.lanes, piece)
                stream = TimedKernel(source, cpu.host(), (0, 1), (), (threads,), 0, 1_000_000_000)
                (report,) = self.sandbox.time([stream])
                best = max(best, piece * threads / report.seconds)
        self._bandwidth[size] = best


def _bucket(nbytes: int) -> int:
    """The sizes that are measured: the power of two below, whose bytes come from a cache no slower."""
    return min(max(1 << max(nbytes, 1).bit_length() - 1, _LEAST_READ), _MOST_READ)


def _out(threads: int) -> TrialBuffer:
    return TrialBuffer("out", "float32", 16 * max(threads, 1) + 64, True)


_KINDS: Final = {32: "float", 64: "double"}


def loop_of(
    kind: str, count: int, head: str, body: Callable[[int], str], step: int, bound: int, join: str = "fadd"
) -> str:
    """A loop over accumulators, which are joined and stored in the end so that nothing of it can be left out."""
    phis = "".join(
        f"  %a{n} = phi {kind} [ zeroinitializer, %entry ], [ %b{n}, %loop ]\n" for n in range(count)
    )
    work = "".join(body(n) for n in range(count))
    sums = [f"  %s0 = {join} {kind} %b0, %b0\n"]
    sums += [f"  %s{n} = {join} {kind} %s{n - 1}, %b{n}\n" for n in range(1, count)]
    return (
        f"{head}entry:\n  br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n{phis}{work}"
        f"  %next = add i64 %i, {step}\n  %more = icmp slt i64 %next, {bound}\n  br i1 %more, label %loop, label %end\n"
        f"end:\n{''.join(sums)}  %at = mul i64 %core, 64\n  %out = getelementptr i8, ptr %o, i64 %at\n"
        f"  store {kind} %s{count - 1}, ptr %out, align 4\n  ret void\n}}\n"
    )


def _fma_source(lanes: int, scalar: str) -> str:
    kind = f"<{lanes} x {scalar}>"
    name = f"@llvm.fma.v{lanes}f{32 if scalar == 'float' else 64}"
    head = f"declare {kind} {name}({kind}, {kind}, {kind})\ndefine void @kernel(ptr %o, i64 %core) {{\n"

    def body(n: int) -> str:
        return f"  %b{n} = call {kind} {name}({kind} %a{n}, {kind} %a{n}, {kind} %a{n})\n"

    return loop_of(kind, _ACCUMULATORS, head, body, 1, _ITERATIONS)


def _read_source(lanes: int, piece: int) -> str:
    """Every thread reads a piece of its own, four vectors at a time."""
    kind, count = f"<{lanes} x float>", 4
    head = "define void @kernel(ptr %o, ptr %x, i64 %core) {\n"

    def body(n: int) -> str:
        return (
            f"  %p{n}a = mul i64 %core, {piece}\n  %p{n}b = add i64 %p{n}a, %i\n  %p{n}c = add i64 %p{n}b, {n * lanes * 4}\n"
            f"  %p{n} = getelementptr i8, ptr %x, i64 %p{n}c\n  %v{n} = load {kind}, ptr %p{n}, align 4\n"
            f"  %b{n} = fadd {kind} %a{n}, %v{n}\n"
        )

    return loop_of(kind, count, head, body, count * lanes * 4, piece)


def measure(sandbox: Sandbox, lanes: int) -> Limits:
    """The limits of the threads that a sandbox uses, by vectors of so many float32."""
    return Meter(sandbox, lanes).limits()
