"""What this machine can do at most, measured: multiply-adds in registers, and bytes read from memory, on so many threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planish.runtime import cpu
from planish.runtime.sandbox import Kernel, Place, Sandbox

_ACCUMULATORS: Final = 12
_ITERATIONS: Final = 200_000
_READ: Final = 128 << 20
"""Bytes that are read: more than caches hold."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most of this machine."""

    flops: float
    """Float32 operations per second, a multiply-add being two."""
    bandwidth: float
    """Bytes per second."""

    def seconds(self, flops: float, nbytes: float) -> float:
        """The least time for so much of both."""
        return max(flops / self.flops, nbytes / self.bandwidth)


def _loop(lanes: int, count: int, head: str, body: Callable[[int], str], step: int, bound: int) -> str:
    """A loop over accumulators, which are stored in the end so that nothing of it can be left out."""
    kind = f"<{lanes} x float>"
    phis = "".join(
        f"  %a{n} = phi {kind} [ zeroinitializer, %entry ], [ %b{n}, %loop ]\n" for n in range(count)
    )
    work = "".join(body(n) for n in range(count))
    sums = [f"  %s0 = fadd {kind} %b0, %b0\n"]
    sums += [f"  %s{n} = fadd {kind} %s{n - 1}, %b{n}\n" for n in range(1, count)]
    return (
        f"{head}entry:\n  br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n{phis}{work}"
        f"  %next = add i64 %i, {step}\n  %more = icmp slt i64 %next, {bound}\n  br i1 %more, label %loop, label %end\n"
        f"end:\n{''.join(sums)}  %at = mul i64 %core, 64\n  %out = getelementptr i8, ptr %o, i64 %at\n"
        f"  store {kind} %s{count - 1}, ptr %out, align 4\n  ret void\n}}\n"
    )


def _fma_source(lanes: int) -> str:
    kind = f"<{lanes} x float>"
    name = f"@llvm.fma.v{lanes}f32"
    head = f"declare {kind} {name}({kind}, {kind}, {kind})\ndefine void @kernel(ptr %o, i64 %core) {{\n"

    def body(n: int) -> str:
        return f"  %b{n} = call {kind} {name}({kind} %a{n}, {kind} %a{n}, {kind} %a{n})\n"

    return _loop(lanes, _ACCUMULATORS, head, body, 1, _ITERATIONS)


def _read_source(lanes: int, threads: int) -> str:
    kind, count = f"<{lanes} x float>", 4
    piece = _READ // threads // (lanes * 4 * count) * (lanes * 4 * count)
    head = "define void @kernel(ptr %o, ptr %x, i64 %core) {\n"

    def body(n: int) -> str:
        return (
            f"  %p{n}a = mul i64 %core, {piece}\n  %p{n}b = add i64 %p{n}a, %i\n  %p{n}c = add i64 %p{n}b, {n * lanes * 4}\n"
            f"  %p{n} = getelementptr i8, ptr %x, i64 %p{n}c\n  %v{n} = load {kind}, ptr %p{n}, align 4\n"
            f"  %b{n} = fadd {kind} %a{n}, %v{n}\n"
        )

    return _loop(lanes, count, head, body, count * lanes * 4, piece)


def measure(sandbox: Sandbox, lanes: int) -> Limits:
    """The limits of the threads that a sandbox uses, by vectors of so many float32."""
    threads = sandbox.setup.threads
    out = Place("out", "float32", 16 * max(threads, 1) + lanes, True)
    read = Place("in", "float32", _READ // 4, False)
    sandbox.use((out, read))
    grid, host = (threads,), cpu.host()
    work = Kernel(_fma_source(lanes), host, (0,), (), grid, 0, 1_000_000_000)
    stream = Kernel(_read_source(lanes, threads), host, (0, 1), (), grid, 0, 1_000_000_000)
    seconds = [report.seconds for report in sandbox.time([work, stream])]
    flops = 2.0 * lanes * _ACCUMULATORS * _ITERATIONS * threads
    return Limits(flops / seconds[0], _READ / seconds[1])
