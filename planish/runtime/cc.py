"""C made machine code by the system's compiler, and loaded: for those who want to see or change what is compiled."""

from __future__ import annotations

import _ctypes
import ctypes
import platform
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from planish.errors import PlanishError

FLAGS: Final = ("-std=gnu11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")
"""What the meaning of the code relies on. The C library's mathematics is linked with -lm."""
NATIVE: Final = ("-march=native",)


def find_compiler(*names: str) -> str | None:
    """The first of these C compilers (by default gcc, clang, cc) that is installed."""
    return next((path for name in names or ("gcc", "clang", "cc") if (path := shutil.which(name))), None)


def _required(compiler: str | None) -> str:
    path = compiler or find_compiler()
    if path is None:
        raise PlanishError(
            "no C compiler is installed", remedy="install gcc or clang, or use the LLVM back end"
        )
    return path


@cache
def version(compiler: str | None = None) -> str:
    """The compiler, as it names itself."""
    path = _required(compiler)
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 — our own words
    return f"{path} {told.stdout.splitlines()[0] if told.stdout else ''} on {platform.machine()}"


def build(
    sources: Sequence[str], compiler: str | None = None, flags: Sequence[str] = NATIVE
) -> tuple[bytes, str]:
    """C files as the bytes of one shared library, and what the compiler had to say."""
    compiler = _required(compiler)
    with tempfile.TemporaryDirectory(prefix="planish-c-") as folder:
        files = [Path(folder, f"kernel{number}.c") for number in range(len(sources))]
        for file, source in zip(files, sources, strict=True):
            file.write_text(source)
        library = Path(folder, "kernels.so")
        command = [compiler, *FLAGS, "-fPIC", "-shared", *flags, *map(str, files), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 — our own words
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise PlanishError(
                f"{compiler} failed: {first}", remedy="this is a mistake in planish; please report it"
            )
        return library.read_bytes(), done.stderr


class CModule:
    """C files as a loaded library; it lives as long as this object."""

    def __init__(
        self, source: str | Sequence[str], *, compiler: str | None = None, flags: Sequence[str] = NATIVE
    ) -> None:
        image, warnings = build([source] if isinstance(source, str) else source, compiler, flags)
        self._load(image)
        self.warnings: str = warnings
        """What the compiler had to say, empty if nothing."""

    @classmethod
    def from_image(cls, image: bytes) -> CModule:
        """A library that was built before."""
        module = cls.__new__(cls)
        module._load(image)
        module.warnings = ""
        return module

    def _load(self, image: bytes) -> None:
        # the library stays mapped when its file is gone
        with tempfile.NamedTemporaryFile(prefix="planish-c-", suffix=".so") as file:
            file.write(image)
            file.flush()
            self._library = ctypes.CDLL(file.name)
        weakref.finalize(self, _ctypes.dlclose, self._library._handle).atexit = False

    def address(self, name: str) -> int:
        """Where a function is."""
        return ctypes.cast(self._library[name], ctypes.c_void_p).value or 0
