"""Devices: where tensors live and their expressions run.

`"cpu"` runs compiled machine code, `"interpreter"` the reference interpreter of PTIR: slow, obvious, and what every other
device is measured against. Both keep their data in NumPy arrays, so moving between them copies nothing.
"""

from __future__ import annotations

from typing import Final

from planish.config import current
from planish.errors import Location, PlanishError, did_you_mean

CPU: Final = "cpu"
INTERPRETER: Final = "interpreter"
_DEVICES: Final = (CPU, INTERPRETER)


def devices() -> tuple[str, ...]:
    """The devices there are."""
    return _DEVICES


def default_device() -> str:
    """Where tensors live that nothing puts elsewhere: the setting `device`."""
    return checked(current().device)


def checked(device: str) -> str:
    """A device that exists, or an error."""
    if device in _DEVICES:
        return device
    close = did_you_mean(str(device), _DEVICES)
    hint = "" if close is None else f"did you mean {close!r}? "
    raise PlanishError(
        f"there is no device {device!r}",
        location=Location.caller(),
        remedy=f"{hint}devices: {', '.join(_DEVICES)}",
    )


def common_device(op: str, found: set[str]) -> str | None:
    """The one device of several tensors; None if none of them is tied to one."""
    if len(found) < 2:
        return next(iter(found), None)
    raise PlanishError(
        f"{op}: operands live on different devices, {' and '.join(sorted(found))}",
        op=op,
        location=Location.caller(),
        remedy="move one of them with x.to_device(…)",
    )
