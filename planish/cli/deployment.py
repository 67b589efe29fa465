"""A compiled model in a folder: what `planish compile` writes and `planish run` runs without the onnx package.

    out/model.json     version, processor, inputs, outputs, where each weight lies, and the digests of the two files below
    out/program.ptir   the program
    out/weights.bin    the weights and the constants of the plan, mapped when it runs
    out/code/          plan and object code, as in the compilation cache, each with its digest
    out/plan.bin, out/model.so, out/planish.h, out/libplanish.so   for programs in C (`planish.compiler.standalone`)

The code is that of one processor and one version of planish; elsewhere the folder is refused. Whoever runs a
folder runs the machine code in it. Digests tell damage, not who wrote it. Nothing is written to a folder that is run.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import dtypes, ptir
from planish._version import __version__
from planish.cli.console import CommandError
from planish.compiler import Executable, compile, standalone
from planish.compiler.object_code import support
from planish.config import current, settings
from planish.errors import OutOfMemoryError, PlanishError
from planish.records import dataclass
from planish.runtime.cache import code_from
from planish.runtime.processors import check_runs_here, processor
from planish.target import find as find_target

if TYPE_CHECKING:
    from planish.compiler import Lowered

Array = NDArray[Any]
FORMAT: Final = standalone.FORMAT
_MANIFEST: Final = "model.json"
_PROGRAM: Final = "program.ptir"
_WEIGHTS: Final = "weights.bin"
_CODE: Final = "code"
_ALIGNMENT: Final = 64
_STANDALONE: Final = (standalone.PLAN, standalone.CODE, standalone.LIBRARY, standalone.HEADER)


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
        try:
            results = self.executable(*(feeds[port.name] for port in self.inputs), *self.weights)
        except MemoryError:
            raise OutOfMemoryError("out of memory while the model ran", remedy="a smaller batch") from None
        by_name = dict(zip([port.name for port in self.outputs], results, strict=True))
        return list(results) if names is None else [by_name[name] for name in names]


def is_deployment(path: str) -> bool:
    """Whether a folder is one of these."""
    return (Path(path) / _MANIFEST).is_file()


@dataclass(frozen=True, slots=True)
class Saved:
    """What a folder was made of."""

    weights: int
    """Their bytes."""
    only_python: str = ""
    """Why a program in C cannot run it; nothing if one can."""


def save(
    folder: Path,
    function: ptir.Function,
    weights: Sequence[Array],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> Saved:
    """Compile a function and write it with its weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="planish-compile-") as staging:
        with settings(cache=True, cache_dir=staging):
            lowered = compile(function).lowered
            # what every function needs may have been loaded before, from elsewhere
            support.__wrapped__()
        code = folder / _CODE
        if code.exists():
            shutil.rmtree(code)
        # a folder to be given away: others may read it, as far as the user lets them
        for entry in sorted(path for path in Path(staging).glob("??/*") if path.is_file()):
            place = code / entry.relative_to(staging)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(entry, place)
        with settings(cache=True, cache_dir=staging):
            named = [port.name for port in inputs], [port.name for port in outputs]
            saved, written = _write_weights(folder / _WEIGHTS, weights, standalone.constants(lowered))
            only_python = _write_standalone(folder, lowered, *named, written)
    program = ptir.print(function).encode()
    (folder / _PROGRAM).write_bytes(program)
    manifest = {
        "format": FORMAT,
        "version": __version__,
        "target": current().target,
        "processor": str(processor(lowered.target)),
        "inputs": [asdict(port) for port in inputs],
        "outputs": [asdict(port) for port in outputs],
        "weights": saved,
        "digests": {_PROGRAM: hashlib.sha256(program).hexdigest(), _WEIGHTS: written.digest},
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return Saved(written.bytes, only_python)


def _write_weights(
    path: Path, weights: Sequence[Array], constants: Sequence[Array]
) -> tuple[list[dict[str, Any]], standalone.Placed]:
    """Weights, then constants, each at a multiple of the alignment: what is said of the weights, and where everything is."""
    records: list[dict[str, Any]] = []
    offsets, offset = [], 0
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for array in (*weights, *constants):
            data = np.ascontiguousarray(array)
            for part in (
                bytes(-offset % _ALIGNMENT),
                data.reshape(-1).view(np.uint8).data if data.size else b"",
            ):
                file.write(part)
                digest.update(part)
            offset += -offset % _ALIGNMENT
            offsets.append(offset)
            if len(records) < len(weights):
                kind = dtypes.from_numpy(data.dtype).short
                records.append({"dtype": kind, "shape": list(array.shape), "offset": offset})
            offset += data.nbytes
    own = len(weights)
    return records, standalone.Placed(offsets[:own], offsets[own:], offset, digest.hexdigest())


def _write_standalone(
    folder: Path, lowered: Lowered, inputs: Sequence[str], outputs: Sequence[str], placed: standalone.Placed
) -> str:
    """Write what C needs; why it cannot be had, if so."""
    for name in _STANDALONE:
        (folder / name).unlink(missing_ok=True)
    try:
        code = standalone.code(lowered)
        plan = standalone.plan(lowered, inputs, outputs, placed, code, __version__)
    except standalone.CannotStand as error:
        return error.message
    for name, data in zip(
        _STANDALONE, (plan, code, standalone.library(), standalone.header().encode()), strict=True
    ):
        (folder / name).write_bytes(data)
    return ""


def load(path: str) -> Deployment:
    """A model from its folder."""
    folder = Path(path)
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise CommandError(
                f"{folder} has format {str(manifest['format'])[:40]}, not {FORMAT}",
                remedy="compile the model again with this version of planish",
            )
        target = manifest["target"]
        _check_machine(folder, manifest["version"], target, manifest["processor"])
        program = (folder / _PROGRAM).read_bytes()
        size = (folder / _WEIGHTS).stat().st_size
        raw = np.memmap(folder / _WEIGHTS, np.uint8, "r") if size else np.empty(0, np.uint8)
        for name, data in ((_PROGRAM, program), (_WEIGHTS, raw.data)):
            _check_digest(name, data, manifest["digests"][name])
        inputs = tuple(map(_port, manifest["inputs"]))
        outputs = tuple(map(_port, manifest["outputs"]))
        weights = [_weight(raw, record) for record in manifest["weights"]]
        function = ptir.parse(program.decode()).entry
    except OSError as error:
        raise CommandError(f"{folder} is no compiled model: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, PlanishError) as error:
        what = str(error).partition("\n")[0]
        raise CommandError(
            f"{folder} is no compiled model: {what}", remedy="compile the model again"
        ) from None
    counts = (len(function.params), len(function.results)) == (len(inputs) + len(weights), len(outputs))
    if not counts or not all(map(_fits, inputs, function.param_types)):
        raise CommandError(f"{folder} is no compiled model: {_MANIFEST} is of another program")
    with settings(target=target), code_from(folder / _CODE):
        executable = compile(function)
    return Deployment(inputs, outputs, executable, weights)


def _check_machine(folder: Path, version: object, target: object, made_for: object) -> None:
    """Refuse code of another version, or for another processor."""
    remedy = "compile the model again with this version of planish, on this machine"
    if version != __version__:
        raise CommandError(
            f"{folder} was compiled by planish {str(version)[:40]}, and this is {__version__}", remedy=remedy
        )
    here = processor(find_target(str(target)))
    try:
        check_runs_here(here)
    except PlanishError as error:
        raise CommandError(f"{folder}: {error.message}", remedy=remedy) from None
    if made_for != str(here):
        name = "".join(str(made_for).split()[1:2])[:40] or "no processor"
        other = "one with other features" if name == here.name else here.name
        raise CommandError(f"{folder} was compiled for {name}, and this processor is {other}", remedy=remedy)


def _fits(port: Port, type: ptir.TensorType) -> bool:
    """Whether what is said of an input can be true of a parameter."""
    return port.dims is None or (
        len(port.dims) == type.rank
        and all(
            size == told or not isinstance(told, int) or not isinstance(size, int)
            for told, size in zip(port.dims, type.dims, strict=True)
        )
    )


def _check_digest(name: str, data: bytes | memoryview, wanted: object) -> None:
    if hashlib.sha256(data).hexdigest() != wanted:
        raise ValueError(f"{name} is damaged, its digest does not fit")


def _port(record: Mapping[str, Any]) -> Port:
    name, dtype, dims = record["name"], record["dtype"], record["dims"]
    known = dims is None or (
        isinstance(dims, list) and all(dim is None or type(dim) in (int, str) for dim in dims)
    )
    if not (isinstance(name, str) and isinstance(dtype, str) and known):
        raise ValueError(f"{str(record)[:80]} is no input or output")
    if dtype != "unknown":  # an output of which the model does not say
        dtypes.parse(dtype)
    return Port(name, dtype, None if dims is None else tuple(dims))


def _weight(raw: Array, record: Mapping[str, Any]) -> Array:
    dtype = np.dtype(dtypes.parse(record["dtype"]).numpy)
    shape, offset = tuple(record["shape"]), record["offset"]
    if any(type(part) is not int or part < 0 for part in (*shape, offset)):
        raise ValueError(f"{str(record)[:80]} is no weight")
    end = offset + math.prod(shape) * dtype.itemsize
    if end > raw.size:
        raise ValueError(f"{_WEIGHTS} has {raw.size} bytes, a weight ends at {str(end)[:40]}")
    weight: Array = raw[offset:end].view(dtype).reshape(shape)
    return weight
