"""planish under the name of onnxruntime, for programs that cannot be edited; and the calls that onnxruntime's module has.

The calls about devices, logs and telemetry are answered: there is a processor, nothing is logged, nothing is sent.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any, Final

from planish.onnx.providers import get_all_providers, get_available_providers

INTERFACE: Final = "1.31.1"
"""The version of onnxruntime whose interface this is: programs compare it with the one they need."""
_PARTS: Final = (
    "capi",
    "capi.onnxruntime_pybind11_state",
    "capi._pybind_state",
    "capi.onnxruntime_inference_collection",
)


def get_device() -> str:
    """The kind of device that models run on."""
    return "CPU" if get_available_providers() == ["CPUExecutionProvider"] else "GPU"


def get_version_string() -> str:
    """The version of onnxruntime whose interface this is."""
    return INTERFACE


def get_build_info() -> str:
    """What answers."""
    return f"planish, with the interface of onnxruntime {INTERFACE}"


def set_seed(seed: int) -> None:
    """Ops without a seed of their own draw anew on every run: a seed for all of them is not to be had."""
    warnings.warn("random ops draw anew on every run: set the attribute seed of the node", stacklevel=2)


def set_default_logger_severity(severity: int) -> None:
    """Nothing is logged: errors are raised, notes are warnings."""


def set_default_logger_verbosity(verbosity: int) -> None:
    """Nothing is logged: errors are raised, notes are warnings."""


def enable_telemetry_events() -> None:
    """Nothing is sent, whatever is asked."""


def disable_telemetry_events() -> None:
    """Nothing is sent, whatever is asked."""


def has_collective_ops() -> bool:
    """Whether there are ops that speak with other machines."""
    return False


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None) -> None:
    """There are no libraries to load beforehand."""


def print_debug_info() -> None:
    """Tell what answers, and where it can run."""
    sys.stdout.write(f"{get_build_info()}\n{', '.join(get_available_providers())}\n")


class _Distribution(importlib.metadata.Distribution):
    """Says that onnxruntime is installed, to programs that ask before they import."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {INTERFACE}\n"

    def locate_file(self, path: Any) -> Any:
        return path


class _Finder:
    """Answers for onnxruntime before any installed one does."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        return None

    def find_distributions(self, context: Any = None) -> Iterator[_Distribution]:
        if context is not None and context.name == "onnxruntime":
            yield _Distribution()


def install_as_onnxruntime() -> None:
    """From now on `import onnxruntime`, anywhere in this process, gives planish's."""
    import planish.onnx as ours

    present = sys.modules.get("onnxruntime")
    if present is not None and getattr(present, "InferenceSession", None) is ours.InferenceSession:
        return
    if present is not None:
        warnings.warn("onnxruntime is imported already: modules that hold it keep it", stacklevel=2)
        for name in [name for name in sys.modules if name.partition(".")[0] == "onnxruntime"]:
            del sys.modules[name]
    for part in ("", *_PARTS):
        full = f"{ours.__name__}.{part}".rstrip(".")
        source = importlib.import_module(full)
        alias = types.ModuleType(f"onnxruntime.{part}".rstrip("."), source.__doc__)
        public = {name: value for name, value in vars(source).items() if not name.startswith("_")}
        alias.__dict__.update(public, __version__=INTERFACE, __file__=source.__file__, __path__=[])
        alias.__spec__ = importlib.machinery.ModuleSpec(alias.__name__, None, is_package=True)
        sys.modules[alias.__name__] = alias
        if part:
            parent, _, last = alias.__name__.rpartition(".")
            setattr(sys.modules[parent], last, alias)
    sys.meta_path.insert(0, _Finder())


__all__ = [
    "disable_telemetry_events", "enable_telemetry_events", "get_all_providers", "get_available_providers",
    "get_build_info", "get_device", "get_version_string", "has_collective_ops", "install_as_onnxruntime",
    "preload_dlls", "print_debug_info", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_seed",
]  # fmt: skip
