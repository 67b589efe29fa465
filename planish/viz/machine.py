"""The machine that a recording was made on: its name, and for each target what it can do at most, for the roofline.

What was measured here counts most (`planish info --measure` keeps it beside the cache), else what the cost model was calibrated
to, else what such machines do in general. A roofline says which it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from planish import dtypes
from planish.compiler.device_kinds import kind_for
from planish.config import cache_folder, current
from planish.errors import PlanishError
from planish.filenames import write_whole
from planish.runtime.pool import wanted_threads
from planish.target import Target, calibration, find, host, model_name
from planish.viz.schema import MachineEntry, Roofline

MEASURED: Final = "measured on this machine"
CALIBRATED: Final = "reckoned from what the cost model was calibrated to"
GENERAL: Final = "those of such machines in general"
_USUAL_GHZ: Final = 3.0
"""Where the system does not tell."""
_USUAL_GPU_GHZ: Final = 1.7
_SHORT: Final = {
    each.name: each.short
    for each in (dtypes.float64, dtypes.float32, dtypes.bfloat16, dtypes.float16, dtypes.int8)
}


def clock_ghz() -> float:
    """The clock of the first core, as the system tells it now."""
    try:
        match = re.search(r"cpu MHz\s*:\s*([0-9.]+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        match = None
    return round(float(match.group(1)) / 1e3, 3) if match and float(match.group(1)) else _USUAL_GHZ


def this_machine(targets: Iterable[Target] = ()) -> MachineEntry:
    """The one that we run on, and the roofs of these targets."""
    target, threads = find(current().target), wanted_threads()
    return MachineEntry(
        model_name(),
        target.name,
        threads,
        {each.name: _roofline(each, threads) for each in (target, *targets)},
    )


def cycle_us(machine: MachineEntry, target: str) -> float:
    """How long a cycle of a target takes, for estimates that are told as time."""
    known = machine.rooflines.get(target)
    return 1e-3 / (_USUAL_GHZ if known is None else known.ghz)


def _roofline(target: Target, threads: int) -> Roofline:
    return _gpu(target) if target.is_gpu else _cores(target, threads)


def _cores(target: Target, threads: int) -> Roofline:
    ghz, cores = clock_ghz(), min(threads, os.cpu_count() or 1)
    rates = kept().get(_cores_key(threads), {}) if target.name == host().name else {}
    if rates:
        gflops = {_SHORT[name]: rate for name, rate in rates["peak_gflops"].items()}
        caches = {name.lower(): rate * cores for name, rate in rates["core_read_gbytes"].items()}
        return Roofline(gflops, {**caches, "memory": rates["memory_gbytes"]}, ghz, MEASURED)
    gflops = {
        each.short: round(2 * target.multiplies * target.lanes(each) * ghz * cores, 1)
        for each in (dtypes.float32, dtypes.float64)
    }
    near = min(target.loads, 2.0) * target.register_bytes
    levels = ("l2", "l3", "memory")[-len(target.bytes_per_cycle) :]
    gbs = {"l1": round(near * ghz * cores, 1)}
    for name, rate in zip(levels, target.bytes_per_cycle, strict=False):
        served = min(cores, target.memory_cores) if name == "memory" else cores
        gbs[name] = round(rate * ghz * served, 1)
    return Roofline(gflops, gbs, ghz, CALIBRATED if _is_calibrated() else GENERAL)


def _gpu(target: Target) -> Roofline:
    """The roofs of a GPU: its own if it is here."""
    model, ghz = _gpu_here(target)
    rates = kept().get(model, {}) if model else {}
    if rates:
        products = rates["product_gflops"].items()
        gflops = {_SHORT[name]: rate for name, rate in products if rate is not None}
        return Roofline(gflops, {"memory": rates["stream_gbytes"]}, ghz, MEASURED)
    workers = max(1, target.workers)
    gflops = {"f32": round(2 * target.multiplies * workers * ghz, 1)}
    levels = ("l2", "memory")[-len(target.bytes_per_cycle) :]
    gbs = {n: round(r * workers * ghz, 1) for n, r in zip(levels, target.bytes_per_cycle, strict=False)}
    return Roofline(gflops, gbs, ghz, GENERAL)


def _gpu_here(target: Target) -> tuple[str, float]:
    """The model of the GPU that a target is, and its clock."""
    try:
        number = kind_for(target).number_for(target)
        if number is None:
            return "", _USUAL_GPU_GHZ
        gpu = kind_for(target).properties(number)
        return gpu.model, gpu.ghz or _USUAL_GPU_GHZ
    except PlanishError:  # no driver
        return "", _USUAL_GPU_GHZ


def _is_calibrated() -> bool:
    place = calibration.path_in(cache_folder(os.environ))
    return bool(calibration.load(place, model_name(), len(host().bytes_per_cycle)))


# -- what was measured ---------------------------------------------------------------------------------------------------


def _place() -> Path:
    return cache_folder(os.environ) / "capability.json"


def _cores_key(threads: int) -> str:
    return f"{model_name()}, {threads} threads"


def keep(record: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep what devices were measured to do, each under what it is."""
    named = {
        rates.get("model") or _cores_key(rates["threads"]): dict(rates)
        for rates in record.values()
        if "model" in rates or "threads" in rates
    }
    try:
        _place().parent.mkdir(parents=True, exist_ok=True)
        write_whole(_place(), json.dumps({**kept(), **named}, indent=1).encode())
    except OSError as error:
        raise PlanishError(f"cannot write {_place()}: {error.strerror or error}") from None


def kept() -> dict[str, dict[str, Any]]:
    """What was measured, by machine; nothing if the file is not there or not ours."""
    try:
        rates = json.loads(_place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in rates.items() if isinstance(v, dict)} if isinstance(rates, dict) else {}
