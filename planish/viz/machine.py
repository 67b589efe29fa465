"""The machine that a recording was made on: its name, and what it can do at most, for the roofline."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from planish import dtypes
from planish.config import current, default_folder
from planish.runtime.pool import wanted_threads
from planish.target import Target, calibration, find, host, model_name
from planish.viz.schema import Machine, Roofline

_USUAL_GHZ: Final = 3.0
"""Where the system does not tell."""


def clock_ghz() -> float:
    """The clock of the first core, as the system tells it now."""
    try:
        found = re.search(r"cpu MHz\s*:\s*([0-9.]+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return round(float(found.group(1)) / 1e3, 3) if found and float(found.group(1)) else _USUAL_GHZ


def this_machine() -> Machine:
    """The one that we run on."""
    target, ghz, threads = find(current().target), clock_ghz(), wanted_threads()
    return Machine(
        model_name(), target.name, threads, ghz, None if target.is_gpu else _roofline(target, ghz, threads)
    )


def _roofline(target: Target, ghz: float, threads: int) -> Roofline:
    cores = min(threads, os.cpu_count() or 1)
    gflops = {
        name: round(2 * target.multiplies * target.lanes(dtype) * ghz * cores, 1)
        for name, dtype in (("f32", dtypes.float32), ("f64", dtypes.float64))
    }
    near = min(target.loads, 2.0) * target.register_bytes
    levels = ("l2", "l3", "memory")[-len(target.bytes_per_cycle) :]
    gbs = {"l1": round(near * ghz * cores, 1)}
    for name, rate in zip(levels, target.bytes_per_cycle, strict=False):
        served = min(cores, target.memory_cores) if name == "memory" else cores
        gbs[name] = round(rate * ghz * served, 1)
    return Roofline(gflops, gbs, _is_calibrated())


def _is_calibrated() -> bool:
    chosen = current().cache_dir
    place = calibration.path_in(default_folder(os.environ) if chosen is None else Path(chosen))
    with_general = host()
    return bool(calibration.load(place, model_name(), len(with_general.bytes_per_cycle)))
