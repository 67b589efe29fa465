"""A loader of batches: shuffled by a seed, collected on a thread ahead of their use, and resumable where it stopped.

```
loader = pn.data.Loader((images, labels), batch_size=64, shuffle=True, seed=0, drop_last=True)
for images, labels in loader:                     # one epoch; the next loop is the next one, in another order
    …
loader.state_dict()                               # three numbers: a checkpoint takes them, load_state_dict gives them back
```

The data are arrays (a tensor or array, or a tuple, dict or dataclass of them: a batch is a slice of each; in a dict, lists are columns too), a
sequence of examples (a list, anything with `len` and `[i]`), or an iterable of examples. Examples may be trees; a batch stacks them leaf by leaf.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import PlanishError, ShapeError
from planish.frontend import tree
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor

Collate = Callable[[list[Any]], Any]
_POLL: Final = 0.05
"""Seconds after which a thread that waits looks whether anybody still wants its batches."""

_PATIENCE: Final = 5.0
"""Seconds to wait for a thread that is still within the user's code; then it is left to itself."""


def _mistake(kind: type[PlanishError], message: str, remedy: str) -> PlanishError:
    return kind.of("Loader", f"{message}", remedy)


def collate(examples: list[Any]) -> Any:
    """Examples of one structure, leaf by leaf: numbers, arrays and tensors stacked along a new first axis, others in a list."""
    first, structure = tree.flatten(examples[0])
    rows: list[list[Any]] = [first]
    for number, example in enumerate(examples[1:], start=1):
        leaves, shape = tree.flatten(example)
        if shape != structure:
            raise PlanishError(
                f"collate: example {number} of a batch is {shape}, the first {structure}",
                op="collate",
                remedy="give examples of one structure, or a collate function",
            )
        rows.append(leaves)
    return tree.unflatten(structure, [_stacked(list(column)) for column in zip(*rows, strict=True)])


def _stacked(column: list[Any]) -> Any:
    if not isinstance(column[0], bool | int | float | complex | np.ndarray | np.generic | Tensor):
        return column
    if isinstance(column[0], bool | int | float | complex):
        return asarray(column)
    shapes = sorted({tuple(np.shape(one)) for one in column})
    if len(shapes) > 1:
        raise ShapeError(
            f"collate: examples of shapes {', '.join(map(str, shapes[:3]))} do not make a batch",
            op="collate",
            remedy="pad them to one shape, or give a collate function",
        )
    return asarray(np.stack([np.asarray(one) for one in column]))


def _column(value: Any) -> Any:
    """A column of a table: of a list of numbers an array, of a list of others an array of objects."""
    if not isinstance(value, list):
        return value
    if all(isinstance(one, bool | int | float | complex) for one in value):
        return asarray(value)
    objects = np.empty(len(value), object)
    objects[:] = value
    return objects


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, Tensor | np.ndarray)


class Loader:
    """Batches of data, epoch by epoch."""

    def __init__(
        self,
        data: Any,
        batch_size: int = 1,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        collate: Collate | None = None,
        prefetch: int = 2,
        shuffle_buffer: int = 0,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        """`prefetch` batches are collected ahead on a thread, none at 0. An iterable is shuffled within `shuffle_buffer` examples.

        `part=(k, n)` gives the k-th of n equal parts of every batch: what a rank takes that shares batches with others. All parts
        together are the batches of a loader without one, in the same order, and its state does not depend on the part.
        """
        if batch_size < 1 or prefetch < 0 or shuffle_buffer < 0:
            raise _mistake(
                ShapeError,
                f"batch_size={batch_size}, prefetch={prefetch}, shuffle_buffer={shuffle_buffer}",
                "batches hold one example or more; the others are not negative",
            )
        if not 0 <= part[0] < part[1] or batch_size % part[1]:
            raise _mistake(
                ShapeError,
                f"part {part[0]} of {part[1]} of batches of {batch_size}",
                "parts count from 0, and cut a batch evenly",
            )
        self.part = part
        self.data = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.prefetch = prefetch
        self.shuffle_buffer = shuffle_buffer
        self._collate = collate
        self._columns = self._as_columns(data)
        self._count = self._counted()
        self._epoch = 0
        self._batch = 0
        if self._count is not None and not drop_last and self._count % batch_size % part[1]:
            raise _mistake(
                ShapeError,
                f"the last batch has {self._count % batch_size} examples, and there are {part[1]} parts",
                "leave it out: drop_last=True",
            )
        if self._count is None and shuffle and not shuffle_buffer:
            raise _mistake(
                ShapeError,
                f"a {type(data).__name__} has no length to shuffle",
                "say shuffle_buffer=: so many examples wait, and a random one of them is next",
            )

    def __repr__(self) -> str:
        held = "an iterable" if self._count is None else f"{self._count} examples"
        order = ", shuffled" if self.shuffle else ""
        return f"<loader: {held} in batches of {self.batch_size}{order}, epoch {self._epoch}, batch {self._batch}>"

    @staticmethod
    def _as_columns(data: Any) -> tuple[list[NDArray[Any]], tree.Structure] | None:
        """Arrays whose first axis are the examples, if the data are that."""
        if isinstance(data, list):
            return None  # of examples
        if isinstance(data, Mapping):
            data = {name: _column(value) for name, value in data.items()}
        leaves, structure = tree.flatten(data)
        if not leaves or not all(_is_array(leaf) for leaf in leaves):
            return None
        arrays = [np.asarray(leaf) for leaf in leaves]
        lengths = {array.shape[:1] for array in arrays}
        if len(lengths) != 1 or () in lengths:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise _mistake(
                ShapeError, f"arrays {shapes} do not have one number of examples", "their first axes are the examples"
            )  # fmt: skip
        return arrays, structure

    def _counted(self) -> int | None:
        if self._columns is not None:
            return len(self._columns[0][0])
        if isinstance(self.data, Mapping):
            raise _mistake(
                PlanishError, "a dict whose entries are not all columns holds no examples", "give arrays or lists of one length, or a list of dicts"
            )  # fmt: skip
        if isinstance(self.data, Sequence) or (
            hasattr(self.data, "__len__") and hasattr(self.data, "__getitem__")
        ):
            return len(self.data)
        if isinstance(self.data, Iterable):
            return None
        raise _mistake(
            PlanishError, f"a {type(self.data).__name__} holds no examples", "give arrays, a sequence or an iterable"
        )  # fmt: skip

    def __len__(self) -> int:
        """Batches per epoch."""
        if self._count is None:
            raise TypeError(f"a {type(self.data).__name__} has no length, and so the loader has none")
        return self._count // self.batch_size if self.drop_last else -(-self._count // self.batch_size)

    # --- where it is ---

    @property
    def epoch(self) -> int:
        """How many epochs were finished."""
        return self._epoch

    def state_dict(self) -> dict[str, int]:
        """Where the next batch comes from. Batches that wait on the thread do not count: nobody has seen them."""
        return {"seed": self.seed, "epoch": self._epoch, "batch": self._batch}

    def load_state_dict(self, state: Mapping[str, int]) -> Loader:
        """Go on where another loader of the same data and options was. The same loader."""
        if set(state) != {"seed", "epoch", "batch"}:
            raise _mistake(
                PlanishError, f"a state has seed, epoch and batch, not {', '.join(sorted(state)) or 'nothing'}", "take that of state_dict()"
            )  # fmt: skip
        self.seed, self._epoch, self._batch = (int(state[name]) for name in ("seed", "epoch", "batch"))
        return self

    # --- batches ---

    def __iter__(self) -> Iterator[Any]:
        """The rest of this epoch, from the next batch on."""
        epoch, start = self._epoch, self._batch
        batches = self._batches(epoch, start)
        source = _ahead(batches, self.prefetch) if self.prefetch else batches
        for number, batch in enumerate(source, start=start + 1):
            # before it is handed over: a checkpoint that the loop's body writes counts this batch
            is_last = self._count is not None and number == len(self)
            self._epoch, self._batch = (epoch + 1, 0) if is_last else (epoch, number)
            yield batch
        self._epoch, self._batch = epoch + 1, 0

    def _batches(self, epoch: int, start: int) -> Iterator[Any]:
        for examples in self._chosen(epoch, start):
            if self._columns is not None:
                arrays, structure = self._columns
                columns = [
                    array[examples].tolist() if array.dtype == object else asarray(array[examples])
                    for array in arrays
                ]
                batch = tree.unflatten(structure, columns)
                yield batch if self._collate is None else self._collate(batch)
            else:
                yield (collate if self._collate is None else self._collate)(examples)

    def _chosen(self, epoch: int, start: int) -> Iterator[Any]:
        """Per batch its examples; of arrays, their numbers."""
        if self._count is None:
            examples = self._stream(epoch)
            for _ in range(start * self.batch_size):
                next(examples, None)
            yield from map(self._own, self._grouped(examples))
            return
        order = self._order(epoch, self._count)
        for number in range(start, len(self)):
            chosen = self._own(order[number * self.batch_size : (number + 1) * self.batch_size])
            yield chosen if self._columns is not None else [self.data[int(at)] for at in chosen]

    def _own(self, batch: Any) -> Any:
        """The part of a batch that this loader gives."""
        which, parts = self.part
        if len(batch) % parts:
            raise _mistake(
                ShapeError, f"a batch has {len(batch)} examples, and there are {parts} parts", "leave it out: drop_last=True"
            )  # fmt: skip
        size = len(batch) // parts
        return batch[which * size : (which + 1) * size]

    def _order(self, epoch: int, count: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(count)
        # raw words of a bit generator are the same with every NumPy; its permutations need not be
        words = np.random.Philox(np.random.SeedSequence([self.seed % (1 << 64), epoch])).random_raw(count)
        return np.argsort(words, kind="stable")

    def _grouped(self, examples: Iterator[Any]) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for example in examples:
            batch.append(example)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def _stream(self, epoch: int) -> Iterator[Any]:
        """An iterable from its start; shuffled, a random one of those that wait is next."""
        if not self.shuffle:
            yield from self.data
            return
        words = np.random.Philox(np.random.SeedSequence([self.seed % (1 << 64), epoch]))
        waiting: list[Any] = []
        for example in self.data:
            waiting.append(example)
            if len(waiting) > self.shuffle_buffer:
                yield waiting.pop(int(words.random_raw()) % len(waiting))
        while waiting:
            yield waiting.pop(int(words.random_raw()) % len(waiting))


_END: Final = object()


def _ahead(source: Iterator[Any], count: int) -> Iterator[Any]:
    """What an iterator gives, collected ahead on a thread. An error there is raised here, with where it happened."""
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(count)
    stopped = threading.Event()

    def put(item: tuple[Any, BaseException | None]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for batch in source:
                if not put((batch, None)):
                    return
        except BaseException as error:  # noqa: BLE001 # whatever it is, it belongs to who asked for the batch
            put((None, error))
        else:
            put((_END, None))

    thread = threading.Thread(target=work, name="planish-loader", daemon=True)
    thread.start()
    try:
        while True:
            batch, error = ready.get()
            if error is not None:
                raise error
            if batch is _END:
                return
            yield batch
    finally:
        stopped.set()
        thread.join(_PATIENCE)


__all__ = ["Loader", "collate"]
