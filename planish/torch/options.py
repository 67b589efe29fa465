"""What a user may ask of the compiler: one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from planish.errors import PlanishError, did_you_mean


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """Options of `torch.compile(..., backend="planish", options=...)`."""

    threads: int | None = None
    """CPU threads per call; None: planish's setting."""
    beam: int = 0
    """Width of the schedule search."""
    device: str | None = None
    """`interpreter` for the reference interpreter; else the device of the tensors: given by name, they must be there."""
    check: bool = False
    """Compare every node with eager torch, and name the first that differs."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> BackendOptions:
        """The options in a dict; a name that is none is an error."""
        known = [field.name for field in fields(cls)]
        for name in given or ():
            if name not in known:
                close = did_you_mean(name, known)
                raise PlanishError(
                    f"there is no option {name!r}",
                    remedy=f"did you mean {close!r}?" if close else f"options: {', '.join(known)}",
                )
        options = cls(**(given or {}))
        for name, is_right, takes in (
            ("threads", options.threads is None or _is_count(options.threads, 1), "an integer >= 1 or None"),
            ("beam", _is_count(options.beam, 0), "an integer >= 0"),
            ("device", _is_device(options.device), "'interpreter', or where the tensors are: 'cpu', 'cuda'"),
            ("check", isinstance(options.check, bool), "True or False"),
        ):
            if not is_right:
                raise PlanishError(
                    f"option {name} cannot be {getattr(options, name)!r}", remedy=f"it takes {takes}"
                )
        return options

    def settings(self) -> dict[str, Any]:
        """The settings that compiling is done under."""
        return {"beam": self.beam} if self.beam else {}


def _is_device(given: object) -> bool:
    return given is None or (
        isinstance(given, str) and given.partition(":")[0] in ("interpreter", "cpu", "cuda")
    )


def _is_count(given: object, least: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= least
