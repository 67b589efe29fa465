"""What this machine can do at most: multiply-adds in registers, and bytes read, copied and combined with non-temporal stores.

Loops in LLVM IR, compiled for this machine, run by as many threads as are asked for at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import llvmlite.binding as llvm
import numpy as np

LANES = 16
_SUMS = 24
_VECTOR = f"<{LANES} x float>"
_ARRAYS = {"read": 1, "copy": 2, "move": 2, "triad": 3}
"""How many arrays a loop walks over; `move` is a copy with plain stores."""


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
define void @fma(ptr %a, ptr %b, ptr %c, i64 %n) {{
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


def _stream(name: str, reads: int, writes: bool, hint: str = ", !nontemporal !0") -> str:
    unroll = 4
    body = []
    for k in range(unroll):
        body.append(f"  %i{k} = add i64 %i, {k}")
        for source in "ab"[:reads]:
            body.append(f"  %p{source}{k} = getelementptr {_VECTOR}, ptr %{source}, i64 %i{k}")
            body.append(f"  %{source}{k} = load {_VECTOR}, ptr %p{source}{k}, align 64")
        value = f"%a{k}"
        if reads == 2:
            body.append(f"  %v{k} = fadd {_VECTOR} %a{k}, %b{k}")
            value = f"%v{k}"
        if writes:
            body.append(f"  %pc{k} = getelementptr {_VECTOR}, ptr %c, i64 %i{k}")
            body.append(f"  store {_VECTOR} {value}, ptr %pc{k}, align 64{hint}")
        else:
            body.append(f"  %t{k} = fadd {_VECTOR} %s{k}, {value}")
    sums = (
        ""
        if writes
        else "\n".join(
            f"  %s{k} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %t{k}, %loop ]" for k in range(unroll)
        )
    )
    end = (
        ""
        if writes
        else "\n".join(
            f"  %pc{k} = getelementptr {_VECTOR}, ptr %c, i64 {k}\n  store {_VECTOR} %t{k}, ptr %pc{k}, align 64"
            for k in range(unroll)
        )
    )
    text = "\n".join(body)
    return f"""
define void @{name}(ptr %a, ptr %b, ptr %c, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{sums}
{text}
  %j = add i64 %i, {unroll}
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %out
out:
{end}
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
            _stream("read", 1, False), _stream("copy", 1, True), _stream("move", 1, True, ""), _stream("triad", 2, True),
        ]  # fmt: skip
        module = llvm.parse_assembly("".join([_fma(), *streams, "\n!0 = !{i32 1}\n"]))
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self.loops: dict[str, Callable[..., None]] = {
            name: kind(self.engine.get_function_address(name)) for name in ("fma", *_ARRAYS)
        }

    def multiply_adds(self, threads: int) -> float:
        """GF/s of multiplications and additions of vectors in registers."""
        rounds = 2_000_000
        memory = np.ones(4 * LANES * threads, np.float32)
        at = [memory[4 * LANES * t :].ctypes.data for t in range(threads)]
        seconds = _together([lambda p=p: self.loops["fma"](p, p, p + 64, rounds) for p in at])
        return threads * rounds * _SUMS * LANES * 2 / seconds / 1e9

    def rate(self, name: str, size: int, threads: int = 1) -> float:
        """GB/s over `size` bytes in all, walked over again and again."""
        arrays = _ARRAYS[name]
        share = max(size // (4 * LANES * arrays * threads) // 4 * 4, 4)  # vectors
        memory = np.ones((arrays * share * threads + 4 * threads + 1) * LANES, np.float32)
        start = memory.ctypes.data + -memory.ctypes.data % (4 * LANES)
        step = 4 * LANES * share
        repeats = max(1, (16 << 20) // size)

        def part(t: int) -> Callable[[], None]:
            a, b, c = (start + min(k, arrays - 1) * step * threads + t * step for k in range(3))
            if name == "read":
                c = start + step * threads + t * 256
            loop = self.loops[name]
            return lambda: [loop(a, b, c, share) for _ in range(repeats)] and None

        seconds = _together([part(t) for t in range(threads)])
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
