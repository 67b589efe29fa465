"""A compiled model in a folder: what `planish compile` writes and `planish run` runs without the onnx package.

    out/model.json     inputs, outputs, and where each weight lies
    out/program.ptir   the program
    out/weights.bin    the weights, mapped when it runs
    out/code/          plan and object code, as in the compilation cache

The code is that of one processor and one version of planish; elsewhere it is compiled again from the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish.cli.console import CommandError
from planish.compiler import Executable, compile
from planish.compiler.objects import support
from planish.config import settings
from planish.errors import PlanishError

Array = NDArray[Any]
FORMAT: Final = 1
_MANIFEST: Final = "model.json"
_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: dims are numbers, names, or null where nothing is known."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dims = "…" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype}[{dims}]"


@dataclass(slots=True)
class Deployment:
    """A model as it comes out of a folder."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    executable: Executable
    weights: list[Array]

    def run(self, names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """The outputs named (None: all)."""
        for name in feeds:
            if name not in [port.name for port in self.inputs]:
                raise PlanishError(f"the model has no input {name!r}")
        missing = [str(port) for port in self.inputs if port.name not in feeds]
        if missing:
            raise PlanishError(f"input {', '.join(missing)} is missing")
        results = self.executable(*(feeds[port.name] for port in self.inputs), *self.weights)
        by_name = dict(zip([port.name for port in self.outputs], results, strict=True))
        return list(results) if names is None else [by_name[name] for name in names]


def is_deployment(path: str) -> bool:
    """Whether a folder is one of these."""
    return (Path(path) / _MANIFEST).is_file()


def save(
    folder: Path,
    function: ptir.Function,
    weights: Sequence[Array],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> int:
    """Compile a function and write it with its weights; how many bytes the weights have."""
    folder.mkdir(parents=True, exist_ok=True)
    with settings(cache=True, cache_dir=str(folder / "code")):
        compile(function)
        # what every function needs may have been loaded before, from elsewhere
        support.__wrapped__()
    (folder / "program.ptir").write_text(ptir.print(function), encoding="utf-8")
    places, offset = [], 0
    with (folder / "weights.bin").open("wb") as file:
        for array in weights:
            file.write(b"\0" * (-offset % _ALIGNMENT))
            offset += -offset % _ALIGNMENT
            data = np.ascontiguousarray(array)
            file.write(data.reshape(-1).view(np.uint8).data if data.size else b"")
            kind = dtypes.from_numpy(data.dtype).short
            places.append({"dtype": kind, "shape": list(array.shape), "offset": offset})
            offset += data.nbytes
    manifest = {
        "format": FORMAT,
        "inputs": [asdict(port) for port in inputs],
        "outputs": [asdict(port) for port in outputs],
        "weights": places,
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return offset


def load(path: str) -> Deployment:
    """A model from its folder."""
    folder = Path(path)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise CommandError(f"{folder} has format {manifest['format']}, not {FORMAT}")
        function = ptir.parse((folder / "program.ptir").read_text(encoding="utf-8")).entry
        inputs = tuple(_port(record) for record in manifest["inputs"])
        outputs = tuple(_port(record) for record in manifest["outputs"])
        size = (folder / "weights.bin").stat().st_size
        raw = np.memmap(folder / "weights.bin", np.uint8, "r") if size else np.empty(0, np.uint8)
        weights = [_weight(raw, record) for record in manifest["weights"]]
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"{folder} is no compiled model: {error}") from None
    with settings(cache=True, cache_dir=str(folder / "code")):
        executable = compile(function)
    return Deployment(inputs, outputs, executable, weights)


def _port(record: Mapping[str, Any]) -> Port:
    dims = record["dims"]
    return Port(str(record["name"]), str(record["dtype"]), None if dims is None else tuple(dims))


def _weight(raw: Array, record: Mapping[str, Any]) -> Array:
    dtype = np.dtype(dtypes.parse(record["dtype"]).numpy)
    shape, offset = tuple(record["shape"]), int(record["offset"])
    end = offset + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if offset < 0 or end > raw.size:
        raise ValueError(f"weights.bin has {raw.size} bytes, a weight ends at {end}")
    found: Array = raw[offset:end].view(dtype).reshape(shape)
    return found
