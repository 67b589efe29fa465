"""The options of onnxruntime: all can be set and read; those that mean something here are heeded.

Heeded are the number of threads, the sizes of free dims, profiling and the file for the model. Optimisation levels, arenas and
log levels are taken in silence, for what they ask for is the compiler's own affair; a name that no option has is taken with a
note. What cannot be left out without another answer (libraries of custom ops, other initialisers) is refused.
"""

from __future__ import annotations

import enum
import warnings
from typing import Any, Final

from planish.errors import spelt_like
from planish.onnx.status import NotImplemented as Refused


class _Named(enum.IntEnum):
    """Numbers that print their names."""

    __str__ = enum.Enum.__str__


class GraphOptimizationLevel(_Named):
    """How much onnxruntime rewrites a graph; planish compiles it whatever is asked."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_Named):
    """Whether nodes run beside each other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_Named):
    """In which order nodes run."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class Options:
    """Options by name, and entries by key."""

    KIND: str
    DEFAULTS: dict[str, Any]

    def __init__(self) -> None:
        self.__dict__.update(self.DEFAULTS)
        self.__dict__["_entries"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.DEFAULTS:
            warnings.warn(
                f"{self.KIND} have no option {name!r}: it is ignored{spelt_like(name, self.DEFAULTS)}",
                stacklevel=2,
            )
        self.__dict__[name] = value

    def __repr__(self) -> str:
        said = [
            f"{n}={getattr(self, n)!r}" for n, value in self.DEFAULTS.items() if getattr(self, n) != value
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{self.KIND} have no entry {key!r}")
        return str(self._entries[key])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.KIND} have no option {name!r}{spelt_like(name, self.DEFAULTS)}")


_LOGGING: Final = {"log_severity_level": -1, "log_verbosity_level": 0, "logid": ""}


class SessionOptions(Options):
    """How a model is to be run."""

    KIND = "session options"
    DEFAULTS: dict[str, Any] = {
        **_LOGGING,
        "intra_op_num_threads": 0,
        "inter_op_num_threads": 0,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "profile_file_prefix": "onnxruntime_profile_",
        "optimized_model_filepath": "",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["free_dimension_overrides"] = {}
        self.__dict__["providers"] = []

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """The size of a named dim."""
        self.free_dimension_overrides[name] = int(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Denotations say nothing of sizes here; those that are given are found out from the inputs."""

    def add_session_config_entry(self, key: str, value: str) -> None:
        """An entry; kept, and not looked at."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry that was added."""
        return self._entry(key)

    def add_provider(self, name: str, options: dict[str, str] | None = None) -> None:
        """A place where the model may run."""
        self.providers.append((name, dict(options or {})))

    def has_providers(self) -> bool:
        """Whether places were named."""
        return bool(self.providers)

    def register_custom_ops_library(self, path: str) -> None:
        """Machine code for ops that onnxruntime does not have: nothing here could call it."""
        raise Refused(f"ops in {path} are made for onnxruntime itself", remedy="write them as ONNX functions")

    def add_initializer(self, name: str, value: object) -> None:
        """Another array for an initialiser."""
        raise Refused(
            f"initialiser {name!r} is the model's own", remedy="save the model with the other array"
        )

    def add_external_initializers(self, names: object, values: object) -> None:
        """Other arrays for initialisers."""
        raise Refused("initialisers are read from the files that the model names", remedy="keep them there")


class RunOptions(Options):
    """How one run is to be done."""

    KIND = "run options"
    DEFAULTS: dict[str, Any] = {**_LOGGING, "only_execute_path_to_fetches": False, "terminate": False}

    def add_run_config_entry(self, key: str, value: str) -> None:
        """An entry; kept, and not looked at."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry that was added."""
        return self._entry(key)


__all__ = ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "RunOptions", "SessionOptions"]
