"""What this machine can do at most: multiply-adds in registers, and bytes read, copied and combined with non-temporal stores.

Loops in LLVM IR, compiled for this machine, run by as many threads as are asked for at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter

import llvmlite.binding as llvm
import numpy as np

LANES = 16
_SUMS = 24
_VECTOR = f"<{LANES} x float>"
_ARRAYS = {"read": 1, "copy": 2, "move": 2, "triad": 3, "combine": 4}
"""How many arrays a loop walks over; `move` is a copy with plain stores, `combine` reads three and writes one."""
_PARTS = (1, 4)
"""In how many parts at once: one core alone gets more out of memory where it reads several streams."""


def _fma() -> str:
    first = "\n".join(
        f"  %s{k} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %t{k}, %loop ]" for k in range(_SUMS)
    )
    step = "\n".join(
        f"  %t{k} = call {_VECTOR} @llvm.fma.v{LANES}f32({_VECTOR} %x, {_VECTOR} %x, {_VECTOR} %s{k})"
        for k in range(_SUMS)
    )
    last = "\n".join(f"  %u{k + 1} = fadd {_VECTOR} %u{k}, %t{k}" for k in range(_SUMS))
    return f"""
declare {_VECTOR} @llvm.fma.v{LANES}f32({_VECTOR}, {_VECTOR}, {_VECTOR})
define void @fma(ptr %a, ptr %b, ptr %c, ptr %d, i64 %n) {{
entry:
  %x = load {_VECTOR}, ptr %a, align 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{first}
{step}
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %out
out:
  %u0 = fadd {_VECTOR} %x, %x
{last}
  store {_VECTOR} %u{_SUMS}, ptr %c, align 4
  ret void
}}"""


def _stream(name: str, reads: int, writes: bool, parts: int, hint: str = ", !nontemporal !0") -> str:
    """A loop over memory in so many parts at once; `n` vectors in all. Reading in one part, several sums hide the additions."""
    unroll = max(4, parts)
    body, sums, end = [], [], []
    for k in range(unroll):
        part, within = (k, 0) if parts > 1 else (0, k)
        body.append(f"  %u{k} = mul i64 %step, {part}")
        body.append(f"  %o{k} = add i64 %u{k}, {within}")
        body.append(f"  %i{k} = add i64 %i, %o{k}")
        for source in "abd"[:reads]:
            body.append(f"  %p{source}{k} = getelementptr {_VECTOR}, ptr %{source}, i64 %i{k}")
            body.append(f"  %{source}{k} = load {_VECTOR}, ptr %p{source}{k}, align 64")
        value = f"%a{k}"
        for number, other in enumerate("bd"[: reads - 1]):
            body.append(f"  %v{k}{number} = fadd {_VECTOR} {value}, %{other}{k}")
            value = f"%v{k}{number}"
        if writes:
            body.append(f"  %pc{k} = getelementptr {_VECTOR}, ptr %c, i64 %i{k}")
            body.append(f"  store {_VECTOR} {value}, ptr %pc{k}, align 64{hint}")
        else:
            sums.append(f"  %s{k} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %t{k}, %loop ]")
            body.append(f"  %t{k} = fadd {_VECTOR} %s{k}, {value}")
            end.append(f"  %pc{k} = getelementptr {_VECTOR}, ptr %c, i64 {k}")
            end.append(f"  store {_VECTOR} %t{k}, ptr %pc{k}, align 64")
    head, text, tail = ("\n".join(lines) for lines in (sums, body, end))
    return f"""
define void @{name}(ptr %a, ptr %b, ptr %c, ptr %d, i64 %n) {{
entry:
  %step = udiv i64 %n, {parts}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{head}
{text}
  %j = add i64 %i, {1 if parts > 1 else unroll}
  %more = icmp slt i64 %j, %step
  br i1 %more, label %loop, label %out
out:
{tail}
  ret void
}}"""


class Limits:
    """The loops, ready to run."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
        )
        streams = [
            loop
            for parts in _PARTS
            for loop in (
                _stream(f"read{parts}", 1, False, parts),
                _stream(f"copy{parts}", 1, True, parts),
                _stream(f"move{parts}", 1, True, parts, ""),
                _stream(f"triad{parts}", 2, True, parts),
                _stream(f"combine{parts}", 3, True, parts),
            )
        ]
        module = llvm.parse_assembly("".join([_fma(), *streams, "\n!0 = !{i32 1}\n"]))
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
        names = ("fma", *(f"{name}{parts}" for name in _ARRAYS for parts in _PARTS))
        self.loops: dict[str, Callable[..., None]] = {
            name: kind(self.engine.get_function_address(name)) for name in names
        }

    def multiply_adds(self, threads: int) -> float:
        """GF/s of multiplications and additions of vectors in registers."""
        rounds = 2_000_000
        memory = np.ones(4 * LANES * threads, np.float32)
        at = [memory[4 * LANES * t :].ctypes.data for t in range(threads)]
        seconds = _together([partial(self.loops["fma"], p, p, p + 64, p, rounds) for p in at])
        return threads * rounds * _SUMS * LANES * 2 / seconds / 1e9

    def rate(self, name: str, size: int, threads: int = 1) -> float:
        """GB/s over `size` bytes in all, walked over again and again, in the best of ways."""
        arrays = _ARRAYS[name]
        share = max(size // (4 * LANES * arrays * threads) // 16 * 16, 16)  # vectors
        memory = np.ones((arrays * share * threads + 16 * threads + 1) * LANES, np.float32)
        start = memory.ctypes.data + -memory.ctypes.data % (4 * LANES)
        step = 4 * LANES * share
        repeats = max(1, (16 << 20) // size)

        def part(t: int, loop: Callable[..., None]) -> Callable[[], None]:
            # what is written comes last
            a, b, d, c = (start + min(k, arrays - 1) * step * threads + t * step for k in (0, 1, 2, 3))
            if name == "read":
                c = start + step * threads + t * 1024

            def run() -> None:
                for _ in range(repeats):
                    loop(a, b, c, d, share)

            return run

        seconds = min(
            _together([part(t, self.loops[f"{name}{parts}"]) for t in range(threads)]) for parts in _PARTS
        )
        return repeats * arrays * share * threads * 4 * LANES / seconds / 1e9

    def measure(self, threads: int) -> dict[str, float]:
        """GF/s, and GB/s from memory beyond all caches."""
        return {"fma": self.multiply_adds(threads)} | {
            name: self.rate(name, 512 << 20, threads) for name in _ARRAYS
        }


def _together(parts: list[Callable[[], None]]) -> float:
    """The median of nine times that threads of their own take."""
    times = []
    with ThreadPoolExecutor(len(parts)) as pool:
        for _ in range(9):
            begin = perf_counter()
            if len(parts) == 1:
                parts[0]()
            else:
                list(pool.map(lambda part: part(), parts))
            times.append(perf_counter() - begin)
    return float(np.median(times))
