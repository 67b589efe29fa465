"""Names of users as names of files: whatever a function, size, kernel or output is called, its file stays in its folder."""

from __future__ import annotations

import hashlib
import re
from typing import Final

_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]|\A[.-]")
_LONGEST: Final = 100
"""Of the 255 bytes that file systems have: numbers, suffixes and endings come on top."""
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Devices, for some systems that a folder may be copied to."""


def file_name(name: str) -> str:
    """The name itself where it is fit for a file; else its letters, and a digest that tells it from others."""
    fit = _ODD.sub("_", name)[:_LONGEST]
    if fit == name and name and _RESERVED.fullmatch(name) is None:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"_{fit}"[: _LONGEST - 9] + f"-{digest}"


__all__ = ["file_name"]
