"""What this machine can do at most: multiply-adds in registers, and bytes read, copied and combined with non-temporal stores.

Four loops in LLVM IR, compiled for this machine, run by as many threads as are asked for at once.
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


def _stream(name: str, reads: int, writes: bool) -> str:
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
            body.append(f"  store {_VECTOR} {value}, ptr %pc{k}, align 64, !nontemporal !0")
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
        text = _fma() + _stream("read", 1, False) + _stream("copy", 1, True) + _stream("triad", 2, True)
        module = llvm.parse_assembly(text + "\n!0 = !{i32 1}\n")
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self.loops: dict[str, Callable[..., None]] = {
            name: kind(self.engine.get_function_address(name)) for name in ("fma", "read", "copy", "triad")
        }

    def measure(self, threads: int, mib: int = 512) -> dict[str, float]:
        """GF/s and GB/s: the median of nine rounds."""
        count = (mib << 20) // 4
        memory = np.ones(3 * count + 32, np.float32)
        start = (-memory.ctypes.data // 4) % LANES
        at = [memory[start + k * count :].ctypes.data for k in range(3)]
        share = count // LANES // threads
        found = {}
        with ThreadPoolExecutor(threads) as pool:
            for name, loop in self.loops.items():
                n = 2_000_000 if name == "fma" else share
                done = (
                    n * _SUMS * LANES * 2
                    if name == "fma"
                    else share * LANES * 4 * {"read": 1, "copy": 2, "triad": 3}[name]
                )
                times = []
                for _ in range(9):
                    begin = perf_counter()
                    list(
                        pool.map(
                            lambda t, loop=loop, n=n: loop(*(p + t * share * LANES * 4 for p in at), n),
                            range(threads),
                        )
                    )
                    times.append(perf_counter() - begin)
                found[name] = threads * done / float(np.median(times)) / 1e9
        return found


if __name__ == "__main__":
    for threads in (1, 2):
        print(threads, {name: round(v, 1) for name, v in Limits().measure(threads).items()})
