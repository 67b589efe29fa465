"""CUDA C++ to machine code: NVRTC makes a cubin of one file, and the disk cache keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final, Literal

from planish.errors import LoweringError
from planish.records import dataclass
from planish.runtime.cache import disk_cache, key_of
from planish.runtime.cuda.driver import nvrtc

_SHOWN: Final = 4000


@dataclass(slots=True)
class BuildCounts:
    """What this process had compiled."""

    compiled: int = 0
    found: int = 0


@dataclass(slots=True)
class _Built:
    cubins: dict[str, bytes] = field(default_factory=dict)


COUNTERS: Final = BuildCounts()
_KNOWN: Final = _Built()


def version() -> str:
    """Of NVRTC."""
    _, major, minor = nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


def cubin_key(source: str, arch: str, flags: Sequence[str]) -> str:
    """Under which the machine code of a file is kept."""
    return key_of("cubin", version(), arch, *flags, source)


def kept_cubin(key: str) -> bytes | None:
    """What is kept under a key."""
    cubin = _KNOWN.cubins.get(key) or disk_cache().get(key)
    if cubin is not None:
        COUNTERS.found += 1
        _KNOWN.cubins[key] = cubin
    return cubin


def cubin_of(source: str, arch: str, flags: Sequence[str]) -> bytes:
    """The machine code of a file, for an architecture such as `sm_90a`: from the cache, or made and kept."""
    key = cubin_key(source, arch, flags)
    cubin = kept_cubin(key)
    if cubin is None:
        cubin = _KNOWN.cubins[key] = translate(source, arch, flags, "cubin")
        COUNTERS.compiled += 1
        disk_cache().put(key, cubin)
    return cubin


def translate(source: str, arch: str, flags: Sequence[str], into: Literal["cubin", "ptx"]) -> bytes:
    """A file as a cubin or as PTX, without any cache."""
    rtc = nvrtc()
    _, program = rtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    try:
        options = [f"--gpu-architecture={arch}".encode(), *(flag.encode() for flag in flags)]
        (status,) = rtc.nvrtcCompileProgram(program, len(options), options)
        if int(status):
            raise LoweringError(
                f"NVRTC refused a kernel for {arch} ({status.name}):\n{_log(program)[:_SHOWN]}",
                remedy="this is a fault of planish: please report it with the program",
            )
        read = (
            (rtc.nvrtcGetCUBINSize, rtc.nvrtcGetCUBIN)
            if into == "cubin"
            else (rtc.nvrtcGetPTXSize, rtc.nvrtcGetPTX)
        )
        _, size = read[0](program)
        code: bytes = b" " * size
        read[1](program, code)
        return code
    finally:
        rtc.nvrtcDestroyProgram(program)


def _log(program: object) -> str:
    rtc = nvrtc()
    _, size = rtc.nvrtcGetProgramLogSize(program)
    text: bytes = b" " * size
    rtc.nvrtcGetProgramLog(program, text)
    return text.decode(errors="replace").strip("\0 \n")
