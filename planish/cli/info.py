"""`planish info`: what a bug report should say about versions, machine and settings; on request what the machine can do.

planish info --json
planish info --measure               peak GFLOP/s by dtype, GB/s by cache, of the cores and of every GPU
planish info --calibrate             measure what schedules are chosen by, and keep it
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from planish._version import __version__
from planish.cli.console import OK, CommandParser, Console, examples
from planish.compiler.device_kinds import kind_of
from planish.compiler.progress import ProgressLine, report
from planish.config import Settings, cache_folder, current, from_environment, settings
from planish.frontend.devices import DEVICES, devices
from planish.runtime.calibrate import measure
from planish.runtime.memory import available_memory, wanted_limit
from planish.runtime.pool import wanted_threads
from planish.runtime.processors import why_nothing_runs
from planish.target import calibration, host, model_name
from planish.target import host_features as features

REQUIRED: Final = ("numpy", "llvmlite", "ml_dtypes")
OPTIONAL: Final = ("onnx", "pillow", "rich", "matplotlib", "torch", "jax", "onnxruntime", "cuda-bindings")
# The instruction sets that code generation looks at; a host has a hundred more.
FEATURES: Final = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
    *("avx512vnni", "avx512bf16", "avx512fp16", "avxvnni", "amx-tile", "amx-int8", "amx-bf16"),
    *("neon", "fullfp16", "dotprod", "bf16", "i8mm", "sve", "sve2", "sme"),
)


def parser() -> CommandParser:
    parser = CommandParser(
        "planish info", "Versions, machine and settings, as bug reports want them.", examples(__doc__)
    )
    parser.flag(
        "--measure",
        "measure what the machine can do: GFLOP/s by dtype, GB/s by cache, of cores and GPUs (some seconds)",
    )
    parser.flag(
        "--calibrate",
        "measure first what schedules are chosen by on this machine, and keep it (a few seconds)",
    )
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    if args.calibrate:
        calibrate()
    record: dict[str, Any] = {
        "versions": versions(),
        "machine": machine(),
        "calibration": calibrated(),
        **numbers_of_devices(),
        "settings": settings_in_force(os.environ),
        "cache_dir": str(cache_directory(os.environ)),
    }
    if args.measure:
        from planish.cli.capability import measure as measure_rates
        from planish.viz.machine import keep

        with ProgressLine("measuring this machine", counted="rates"):
            record["measured"] = measure_rates()
        keep(record["measured"])
    console.product(record, _text(record))
    return OK


def versions() -> dict[str, str | None]:
    """The versions of planish and what it stands on; None for what is not installed."""
    installed: dict[str, str | None] = {"planish": __version__, "python": platform.python_version()}
    for name in (*REQUIRED, *OPTIONAL):
        # From the metadata: nothing has to be imported for it, and a broken package still has a version.
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def machine() -> dict[str, str | int | list[str]]:
    """The host as planish compiles for it."""
    facts: dict[str, str | int | list[str]] = {
        "platform": platform.platform(), "cores": os.cpu_count() or 1, "threads": wanted_threads(), "devices": list(devices()),
        "memory": f"{available_memory() >> 20} MiB, up to {wanted_limit() >> 20} MiB kept between calls",
    }  # fmt: skip
    try:
        from llvmlite import binding
    except (ImportError, OSError) as error:
        return {**facts, "llvm": f"cannot be loaded: {error}"}
    has = binding.get_host_cpu_features()
    return {
        **facts,
        "llvm": ".".join(map(str, binding.llvm_version_info)),
        "triple": (triple := binding.get_process_triple()),
        "runs": why_nothing_runs(triple) or "compiled code",
        "cpu": binding.get_host_cpu_name(),
        "features": [name for name in FEATURES if has.get(name)],
        "amx": str(features.amx()),
    }


def calibrate() -> None:
    """Measure this machine, and write what compiling for it goes by."""
    with settings(calibration=False):
        plain = host()
    with ProgressLine("measuring this machine", counted="runs"):
        numbers = measure(plain, report)
    calibration.save(calibration.path_in(cache_directory(os.environ)), model_name(), numbers)


def calibrated() -> dict[str, str]:
    """The numbers that schedules are chosen by, and where they are from."""
    place = calibration.path_in(cache_directory(os.environ))
    with settings(calibration=False):
        plain = host()
    numbers = calibration.load(place, model_name(), len(plain.bytes_per_cycle))
    used = bool(numbers) and current().calibration
    facts = {
        "source": str(place) if used else f"those of any {plain.name}; `planish info --calibrate` measures"
    }
    for name in (*calibration.RATES, calibration.LEVELS):
        value = numbers.get(name) if used else None
        facts[name] = str(getattr(plain, name) if value is None else value)
    return {**facts, **{name: str(value) for name, value in calibration.timed(plain).items()}}


def numbers_of_devices() -> dict[str, dict[str, str]]:
    """What timing whole kernels has set of each other machine that is here."""
    others = (kind_of(device) for device in devices() if device not in DEVICES)
    targets = {target.name: target for target in (kind.target(number) for kind, number in others)}
    return {
        f"numbers of {name}": {each: str(value) for each, value in calibration.timed(target).items()}
        for name, target in targets.items()
    }


def settings_in_force(environment: Mapping[str, str]) -> dict[str, dict[str, str | int | bool | None]]:
    """Every setting with its value and where that comes from."""
    now, outside = current(), from_environment(environment)
    settings: dict[str, dict[str, str | int | bool | None]] = {}
    for item in dataclasses.fields(Settings):
        value = getattr(now, item.name)
        variable = f"PLANISH_{item.name.upper()}"
        if value != getattr(outside, item.name):
            origin = "set in this process"
        else:
            origin = variable if variable in environment else "default"
        settings[item.name] = {"value": value, "source": origin}
    return settings


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where compiled code is kept: the setting, or the user's cache directory."""
    return cache_folder(environment)


def _text(record: Mapping[str, Any]) -> str:
    lines: list[str] = []
    nested = {f"measured on {name}": rates for name, rates in record.get("measured", {}).items()}
    for title, part in {**{k: v for k, v in record.items() if k != "measured"}, **nested}.items():
        if not isinstance(part, Mapping):
            lines.append(f"{title}: {part}")
            continue
        lines.append(f"{title}:")
        width = max(len(name) for name in part)
        for name, value in part.items():
            shown = "not installed" if title == "versions" and value is None else _value(value)
            lines.append(f"  {name:<{width}}  {shown}")
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping) and "source" not in value:
        return ", ".join(f"{name} {_value(part)}" for name, part in value.items())
    if isinstance(value, Mapping):
        return f"{_value(value['value']):<10} ({value['source']})"
    if isinstance(value, list):
        return " ".join(value) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
