"""What an action answers that does not fit a kernel."""

from __future__ import annotations

from planish.errors import LoweringError


class Refusal(LoweringError):
    """An action that does not fit the kernel; the message says why, and nothing has changed."""
