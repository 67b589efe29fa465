"""`planish info --measure`: what the machine can do. Rates of loops that do nothing else, and of products as planish compiles them.

The peak is that of multiply-adds in registers, which exist for float32 and float64; a product of matrices tells what of it, or of units
that work on tiles, a program gets. One core reads as many bytes as a cache holds again and again; all of them read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from planish import compiler, ptir
from planish.compiler.device_kinds import kind_of
from planish.compiler.progress import report
from planish.config import settings
from planish.dtypes import DType, bfloat16, float16, float32, float64, int8, int32
from planish.errors import PlanishError
from planish.frontend.devices import CPU, INTERPRETER, devices
from planish.runtime.calibrate import read_rates
from planish.runtime.limits import Meter
from planish.runtime.pool import wanted_threads
from planish.runtime.sandbox import Sandbox
from planish.target import host

Begin = Callable[[int, str], None]
"""Hears of each rate of a device before it is measured: its number and name."""
PRODUCTS: Final = (
    (float64, float64),
    (float32, float32),
    (bfloat16, float32),
    (float16, float32),
    (int8, int32),
)
"""Elements, and what their products are added up in."""
_OTHER_RATES: Final = 3
"""What is measured of a device before its products, at most."""
_SIDE: Final = {CPU: 768}
_GPU_SIDE: Final = 4096
_STREAM: Final = 64 << 20
"""Elements that a GPU reads and writes to tell how fast its memory is."""


def measure(among: Sequence[str] | None = None) -> dict[str, Any]:
    """The rates of every device, those of cores first; a few seconds each."""
    names = [d for d in devices() if d != INTERPRETER] if among is None else among
    each = _OTHER_RATES + len(PRODUCTS)
    record: dict[str, Any] = {}
    for number, device in enumerate(names):

        def begin(step: int, what: str, before: int = number * each) -> None:
            report(before + step, len(names) * each, what)

        rates: dict[str, Any] = _cores(begin) if device == CPU else _gpu(device, begin)
        rates["product_gflops"] = {}
        for step, (dtype, total) in enumerate(PRODUCTS, _OTHER_RATES):
            begin(step, f"products of {dtype.name} on {device}")
            rates["product_gflops"][dtype.name] = _product_rate(device, dtype, total)
        record[device] = rates
    return record


def _cores(begin: Begin) -> dict[str, Any]:
    threads = wanted_threads()
    machine = host()
    with Sandbox((), threads, workers=1, environment={"PLANISH_CACHE": "0"}) as sandbox:
        meter = Meter(sandbox, machine.lanes(float32))
        begin(0, "multiply-adds")
        peak = {f"float{bits}": _round(meter.flops(bits) / 1e9) for bits in (32, 64)}
        begin(1, "memory")
        memory = _round(meter.limits().bandwidth / 1e9)
    begin(2, "caches")
    caches = {f"L{level}": size for level, size in enumerate(machine.caches, 1)}
    reads = {
        name: _round(rate / 1e9) for name, rate in zip((*caches, "memory"), read_rates(machine), strict=True)
    }
    return {
        "target": machine.name, "threads": threads, "caches": caches, "peak_gflops": peak,
        "core_read_gbytes": reads, "memory_gbytes": max(memory, reads["memory"]),  # no less than one core alone
    }  # fmt: skip


def _gpu(device: str, begin: Begin) -> dict[str, Any]:
    kind, number = kind_of(device)
    card = kind.properties(number)
    begin(0, f"memory of {device}")
    graph = ptir.Graph("stream")
    x = graph.input("x", ptir.tensor("f32", (_STREAM,)))
    streamed = compiler.compile(graph.build(x + x), device=device).profile(repeat=5)
    moved = max(launch.gbytes for launch in streamed)
    return {
        "model": card.model,
        "arch": card.arch,
        "memory_bytes": card.memory_bytes,
        "stream_gbytes": _round(moved),
    }


def _product_rate(device: str, dtype: DType, total: DType) -> float | None:
    """GFLOP/s of square products; None where the device has none of the type."""
    try:
        with settings(beam=0):
            return _round(_product(device, dtype, total, _SIDE.get(device, _GPU_SIDE)))
    except PlanishError:
        return None


def _product(device: str, dtype: DType, total: DType, side: int) -> float:
    graph = ptir.Graph("product")
    a, b = (graph.input(name, ptir.tensor(dtype.short, (side, side))) for name in "ab")
    dims = ptir.ops.DotDims(lhs_contract=(1,), rhs_contract=(0,))
    out = a.dot_general(b, dims, ptir.ops.DotAttrs(total, total))
    profile = compiler.compile(graph.build(out), device=device).profile(repeat=5)
    best = sum(launch.best for launch in profile)
    return 2.0 * side**3 / best / 1e9


def _round(rate: float) -> float:
    """Three digits: more is noise."""
    return float(np.format_float_positional(rate, precision=3, fractional=False))
