"""Which Python's pip installs for this one: environments are made without a pip of their own."""

from __future__ import annotations

import importlib.util
import sys


def pip() -> list[str]:
    """The beginning of a command of pip's, for the Python that runs this."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    behind: str = sys._base_executable  # type: ignore[attr-defined]  # the Python that made the environment
    return [behind, "-m", "pip", "--python", sys.executable]
