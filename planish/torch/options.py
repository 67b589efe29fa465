"""What a user may ask of the compiler: one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from planish.errors import PlanishError, did_you_mean


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `torch.compile(..., backend="planish", options=...)`."""

    threads: int | None = None
    """CPU threads per call; None: planish's setting."""
    beam: int = 0
    """Width of the schedule search."""
    device: str | None = None
    """`interpreter` for the reference interpreter; else the device of the tensors."""
    check: bool = False
    """Compare every node with eager torch, and name the first that differs."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """The options in a dict; a name that is none is an error."""
        known = [field.name for field in fields(cls)]
        for name in given or ():
            if name not in known:
                raise PlanishError(
                    f"there is no option {name!r}",
                    remedy=did_you_mean(name, known) or f"options: {', '.join(known)}",
                )
        return cls(**(given or {}))

    def settings(self) -> dict[str, Any]:
        """The settings that compiling is done under."""
        return {"beam": self.beam} if self.beam else {}
