"""The instructions of a cubin, by NVIDIA's disassembler, if one is there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from planish.errors import PlanishError

_TOOLS: Final = ("nvdisasm", "cuobjdump")
_FOLDERS: Final = (("triton", "backends/nvidia/bin"), ("nvidia", "cu13/bin"), ("nvidia", "cuda_nvcc/bin"))
"""Packages that bring one."""
_SECONDS: Final = 60


@cache
def _tool() -> Path | None:
    for name in _TOOLS:
        tool = shutil.which(name)
        if tool is not None:
            return Path(tool)
    for package, folder in _FOLDERS:
        spec = find_spec(package)
        for root in () if spec is None else spec.submodule_search_locations or ():
            for name in _TOOLS:
                path = Path(root) / folder / name
                if path.is_file():
                    return path
    return None


def sass_of(cubin: bytes) -> str:
    """The instructions of the GPU, as text."""
    tool = _tool()
    if tool is None:
        raise PlanishError(
            "to read SASS, NVIDIA's disassembler is needed, and there is none",
            remedy="put nvdisasm or cuobjdump of the CUDA toolkit on the PATH, or read ptx",
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        options = [] if tool.name == "nvdisasm" else ["--dump-sass"]
        done = subprocess.run(  # noqa: S603 - NVIDIA's tool on a file of ours
            [tool, *options, file.name], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    if done.returncode:
        raise PlanishError(f"{tool.name} failed: {done.stderr.strip()[:500]}")
    return done.stdout
