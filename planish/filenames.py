"""Files of users: whatever a function, size, kernel or output is called, its file stays in its folder, and is written as a whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
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


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and move it there, so that it is whole or absent. It is its user's alone.

    (`tempfile` would do it too, and brings compression and random numbers with it: 5 ms of the first call of a process.)
    """
    beside = path.with_name(f".new-{os.urandom(8).hex()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


__all__ = ["file_name", "write_whole"]
