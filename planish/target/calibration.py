"""The calibration of this machine: the numbers of its `Target` that were measured, as a file of the user's.

`planish info --calibrate` measures (`runtime/calibrate.py`) and writes `calibration.json` to the cache folder; whoever compiles for
`host` uses it, unless the setting `calibration` is off. Plain JSON::

    {"format": 1, "machine": "AMD EPYC", "numbers": {"ports": 1.0, "bytes_per_cycle": [32.3, 27.5, 5.0], …}}

A file of another machine or format says nothing here; one that is damaged, or has a number that cannot be, is told of in a warning.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from planish.filenames import write_whole

FORMAT: Final = 1
RATES: Final = (
    "ports", "multiplies", "loads", "stores", "shuffles", "gathers", "latency", "launch", "cycle_ns",
)  # fmt: skip
"""The fields of `Target` that are one number, and are measured."""
TIMED: Final = (
    "memory_cores", "branches", "spills", "hidden", "window", "gather_ops", "pack_ops", "masks", "wake", "launch_ns", "copy_ns", "share_ns", "small_elements",
    "piece_steps", "least_piece_steps", "alias_bytes", "alias_window", "streams", "read_streams", "kept_bytes", "reread_bytes",
    "core_products", "core_work", "core_piece", "staged_products", "turned_rows", "crosswise_terms",
    "part_worth", "narrow_terms", "row_terms", "packed_again", "packed_rows", "crosswise_added", "far_stride",
    "register_tiles", "panels", "ready_products",
)  # fmt: skip
"""Those that timing whole kernels has set, alone or several in a record: no loop tells one of them."""
TIMED_ON_GPUS: Final = ("block_elements", "rates", "shares", "parts", "lists", "tiles", "few_rows")
"""The same of a GPU."""
LEVELS: Final = "bytes_per_cycle"
"""The field that has a number for each cache but the first, and for memory."""
_MOST: Final = 1e6
Numbers = dict[str, float | tuple[float, ...]]


class CalibrationWarning(UserWarning):
    """A calibration that is not used: schedules are chosen for such machines in general."""


def path_in(folder: Path) -> Path:
    """Where a calibration is, in the folder of the cache."""
    return folder / "calibration.json"


def save(path: Path, machine: str, numbers: Numbers) -> None:
    """Write a calibration beside its place and move it there, so that it is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    record = {"format": FORMAT, "machine": machine, "numbers": numbers}
    write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


def load(path: Path, machine: str, levels: int) -> Numbers:
    """The numbers of this machine, which has so many levels behind the first cache; none if there is no file of it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        return _unused(path, str(error))
    try:
        record = json.loads(text)
        if record["format"] != FORMAT or record["machine"] != machine:
            return {}
        return _checked(dict(record["numbers"]), levels)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return _unused(path, f"{type(error).__name__}: {error}")


def timed(target: object) -> dict[str, object]:
    """What timing whole kernels has set of a target, by field; of a record, each of its fields (`ready_products.tile`)."""
    numbers: dict[str, object] = {}
    for name in TIMED_ON_GPUS if getattr(target, "is_gpu", False) else TIMED:
        value = getattr(target, name)
        if is_dataclass(value):
            numbers.update({f"{name}.{each.name}": getattr(value, each.name) for each in fields(value)})
        elif hasattr(value, "_asdict"):
            numbers.update({f"{name}.{each}": number for each, number in value._asdict().items()})
        else:
            numbers[name] = value
    return numbers


def _checked(numbers: Mapping[str, Any], levels: int) -> Numbers:
    """The numbers, if each is a field of `Target` and can be; ValueError if not."""
    checked: Numbers = {}
    for name, value in numbers.items():
        several = value if isinstance(value, list) else [value]
        expected = levels if name == LEVELS else 1
        if name not in (*RATES, LEVELS) or isinstance(value, list) != (name == LEVELS):
            raise ValueError(f"{name} is no number of a machine")
        if len(several) != expected or not all(_can_be(each) for each in several):
            raise ValueError(f"{name} cannot be {value}")
        checked[name] = tuple(map(float, several)) if name == LEVELS else float(several[0])
    return checked


def _can_be(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    return math.isfinite(number) and 0 < number <= _MOST


def _unused(path: Path, why: str) -> Numbers:
    warnings.warn(
        f"{path} is not used ({why}); `planish info --calibrate` writes a new one",
        CalibrationWarning,
        stacklevel=3,
    )
    return {}
