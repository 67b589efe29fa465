"""Where a model can run, in onnxruntime's words."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

CPU: Final = "CPUExecutionProvider"
CUDA: Final = "CUDAExecutionProvider"
_DRIVERS: Final = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""What a driver for GPUs puts there: without any, nobody need load what looks for them."""


def get_available_providers() -> list[str]:
    """The places where a model can run on this machine."""
    if "planish.onnx.gpu_calls" not in sys.modules and not any(Path(place).exists() for place in _DRIVERS):
        return [CPU]
    from planish.onnx.gpu_calls import gpus

    return [CUDA, CPU] if gpus() else [CPU]


def get_all_providers() -> list[str]:
    """The places where a model can run on some machine."""
    return [CUDA, CPU]


def device_of(places: Mapping[str, Mapping[str, str]]) -> str:
    """The device that a model runs on, of those that were chosen."""
    first = next(iter(places))
    return f"cuda:{places[first].get('device_id', 0)}" if first == CUDA else "cpu"


def chosen(
    providers: Sequence[Any] | None, options: Sequence[Mapping[str, Any]] | None = None
) -> dict[str, dict[str, str]]:
    """Those asked for that there are, best first, with their options; the processor stands at the end of every list."""
    wanted: dict[str, dict[str, str]] = {}
    available = get_available_providers()
    for position, entry in enumerate(providers or available):
        name, said = (entry, {}) if isinstance(entry, str) else (entry[0], entry[1])
        if options and position < len(options):
            said = options[position]
        if name in available:
            wanted[name] = {key: str(value) for key, value in said.items()}
        else:
            warnings.warn(f"{name} is not available here, {', '.join(available)} is", stacklevel=4)
    wanted.setdefault(CPU, {})
    return wanted


__all__ = ["CPU", "CUDA", "chosen", "device_of", "get_all_providers", "get_available_providers"]
