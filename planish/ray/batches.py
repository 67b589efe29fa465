"""Batch inference over a Ray dataset: actors that each hold a model, with its machine code shipped once.

One actor compiles the model for a batch, in a cache of its own; what came to lie there (plans, objects) goes into Ray's object store once, and every actor
that maps batches runs from it. On a worker of the same kind nothing is compiled again; on another kind it is, and the results are the same. Ray
starts actors anew that die, and hands out their blocks again.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.config import settings
from planish.errors import PlanishError
from planish.ray.cluster import connected
from planish.runtime.cache import code_from

if TYPE_CHECKING:
    from ray.data import Dataset

Array = NDArray[Any]
Batch: TypeAlias = Mapping[str, Array]
Artefact: TypeAlias = Mapping[str, bytes]
"""Entries of a compilation cache, by their places in its folder."""


class Mapper:
    """A model on batches of columns: takes some, gives others beside them."""

    def __init__(
        self,
        model: Any,
        inputs: Sequence[str],
        outputs: Sequence[str],
        batch_size: int,
        artefact: Artefact | None = None,
    ) -> None:
        self._inputs, self._outputs, self._size = tuple(inputs), tuple(outputs), batch_size
        self._call = _callable(model, self._inputs)
        self._folder: Path | None = None
        if artefact is not None:
            self._folder = Path(tempfile.mkdtemp(prefix="planish-code-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            for name, entry in artefact.items():
                place = self._folder / name
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(entry)

    def __call__(self, batch: Batch) -> dict[str, Array]:
        """The batch, with columns of results. A short one is filled up with its last row, so that there is one size to compile for."""
        count = len(batch[self._inputs[0]])
        given = [_filled(np.asarray(batch[name]), self._size) for name in self._inputs]
        with contextlib.nullcontext() if self._folder is None else code_from(self._folder):
            value = self._call(*given)
            results = [np.asarray(each) for each in (value if isinstance(value, tuple | list) else (value,))]
        if len(results) != len(self._outputs):
            raise PlanishError(
                f"the model gives {len(results)} results, and {len(self._outputs)} columns are named for them",
                remedy="name one for each: outputs=[…]",
            )
        for name, result in zip(self._outputs, results, strict=True):
            if result.ndim == 0 or len(result) != max(self._size, count):
                raise PlanishError(
                    f"column {name!r} has the shape {result.shape} for a batch of {max(self._size, count)} rows",
                    remedy="a model that is mapped gives a row for each row",
                )
        return {
            **batch,
            **{name: result[:count] for name, result in zip(self._outputs, results, strict=True)},
        }


class Compiler:
    """An actor that compiles a model for a batch, and gives what came of it."""

    def artefact(
        self, model: Any, inputs: Sequence[str], outputs: Sequence[str], batch: Batch, size: int
    ) -> Artefact:
        """The entries that a compilation leaves in an empty cache."""
        with tempfile.TemporaryDirectory(prefix="planish-code-") as folder:
            with settings(cache=True, cache_dir=folder):
                Mapper(model, inputs, outputs, size)(batch)
            return {
                f"{path.parent.name}/{path.name}": path.read_bytes()
                for path in Path(folder).glob("??/*")
                if path.is_file() and not path.name.startswith(".")
            }


def map(
    model: Any,
    dataset: Dataset,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] = ("result",),
    batch_size: int = 256,
    workers: int | tuple[int, int] | None = None,
    address: str | None = None,
) -> Dataset:
    """The dataset with columns of what a model gives for others, worked out by actors on the cluster.

    `model` is a function of arrays (under `jit` or not), a module, or the path of an ONNX model. `inputs` are the columns that it takes, by default
    all; `outputs` those that its results become. Every call has `batch_size` rows. `workers` are so many actors, or at least and at most so many; by
    default one for each node.
    """
    ray = connected(address)
    if batch_size < 1:
        raise PlanishError(f"a batch of {batch_size} rows", remedy="batch_size=256")
    first = dataset.take_batch(1, batch_format="numpy")
    taken = list(first) if inputs is None else list(inputs)
    for name in taken:
        if name not in first:
            raise PlanishError(f"the dataset has no column {name!r}", remedy=f"it has {', '.join(first)}")
    shipped = _shipped(model)
    compiler = ray.remote(num_cpus=1)(Compiler).remote()
    artefact = compiler.artefact.remote(shipped, taken, list(outputs), first, batch_size)
    ray.wait([artefact])  # it stays in the object store; what went wrong is raised where it is asked for
    ray.kill(compiler)
    entries = ray.get(artefact)
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    return dataset.map_batches(
        _Shipped,
        batch_size=batch_size,
        batch_format="numpy",
        fn_constructor_args=(shipped, taken, list(outputs), batch_size, ray.put(entries)),
        concurrency=workers or max(1, len(alive)),
    )


class _Shipped(Mapper):
    """A mapper that fetches its code from the object store."""

    def __init__(
        self, model: Any, inputs: Sequence[str], outputs: Sequence[str], size: int, artefact: Any
    ) -> None:
        import ray

        super().__init__(model, inputs, outputs, size, ray.get(artefact))


def _shipped(model: Any) -> Any:
    """A model as it goes to workers: a file by its content."""
    if isinstance(model, str | PathLike):
        try:
            return Path(fspath(model)).read_bytes()
        except OSError as error:
            raise PlanishError(
                f"cannot read {fspath(model)!r}: {error.strerror}", remedy="name an ONNX model"
            ) from None
    if not callable(model):
        raise PlanishError(
            f"a {type(model).__name__} cannot be mapped",
            remedy="give a function, a module, or the path of an ONNX model",
        )
    return model


def _callable(model: Any, inputs: Sequence[str]) -> Callable[..., Any]:
    if isinstance(model, bytes):
        from planish import onnx

        loaded = onnx.load(model)
        return lambda *given: loaded(**dict(zip(inputs, given, strict=True)))
    function: Callable[..., Any] = model
    return function


def _filled(rows: Array, size: int) -> Array:
    missing = size - len(rows)
    return rows if missing <= 0 else np.concatenate([rows, np.repeat(rows[-1:], missing, 0)])
