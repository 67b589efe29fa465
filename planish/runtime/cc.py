"""C made machine code by the system's compiler, and loaded: for those who want to see or change what is compiled."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from planish.errors import PlanishError

FLAGS: Final = ("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")
"""What the meaning of the code relies on. The C library's mathematics is linked with -lm."""


def find_compiler(*names: str) -> str | None:
    """The first of these C compilers (by default gcc, clang, cc) that is installed."""
    return next((path for name in names or ("gcc", "clang", "cc") if (path := shutil.which(name))), None)


class CModule:
    """A C file as a loaded library; it lives as long as this object."""

    def __init__(
        self, source: str, *, compiler: str | None = None, flags: Sequence[str] = ("-march=native",)
    ) -> None:
        compiler = compiler or find_compiler()
        if compiler is None:
            raise PlanishError(
                "no C compiler is installed", remedy="install gcc or clang, or use the LLVM back end"
            )
        # the library stays mapped when its file is gone
        with tempfile.TemporaryDirectory(prefix="planish-c-") as folder:
            file, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
            file.write_text(source)
            command = [compiler, *FLAGS, "-fPIC", "-shared", *flags, str(file), "-o", str(library), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 — our own words
            if done.returncode:
                first = next(
                    (line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200]
                )
                raise PlanishError(
                    f"{compiler} failed: {first}", remedy="this is a mistake in planish; please report it"
                )
            self.warnings: str = done.stderr
            """What the compiler had to say, empty if nothing."""
            self._library = ctypes.CDLL(str(library))

    def address(self, name: str) -> int:
        """Where a function is."""
        return ctypes.cast(self._library[name], ctypes.c_void_p).value or 0
