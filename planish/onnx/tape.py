"""What an import did, kept so that the next run need not import again.

A model without cuts is one step: run this function. Where data decides, the tape forks: a step *looks* at values (the number
of iterations, a condition, a shape) and what they hold says which step comes next. A run that meets values not seen before is
imported again, and adds its branch. Results of a step live in numbered slots; the inputs of the model are the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planish.compiler.arguments import DeviceArray
from planish.onnx.lengths import fitting
from planish.records import dataclass

Array = NDArray[Any]
Call: TypeAlias = Callable[..., Sequence[Array]]
Source: TypeAlias = "int | Array"
Shape: TypeAlias = "int | Array | list[Any] | None"
_BRANCHES: Final = 4096
"""Steps a tape may have; a model whose data never repeats starts over."""
_LARGEST: Final = 1 << 20
"""Bytes to look at, at most: larger data would not repeat."""


@dataclass(slots=True)
class TapeStep:
    """Calls something with slots and constants, or looks at them."""

    call: Call | None
    arguments: tuple[Source, ...]
    is_static: bool
    """Whether the shapes of what it gives are always the same."""
    after: dict[Hashable, TapeStep | End] = field(default_factory=dict)


@dataclass(slots=True)
class End:
    """The outputs of the model: slots, constants, lists of them."""

    outputs: tuple[Shape, ...]


@dataclass(slots=True)
class Tape:
    """The imports of a model for one signature of its inputs."""

    first: dict[Hashable, TapeStep | End] = field(default_factory=dict)
    steps: int = 0

    def replay(self, inputs: Sequence[Any], *, on_device: bool = False) -> list[Any] | None:
        """The outputs, left where they are if they may be on a device; None if the data takes a way that was never taken before."""
        slots = list(inputs)
        named: dict[str, int] = {}
        step = self.first.get(())
        while isinstance(step, TapeStep):
            given = [slots[source] if isinstance(source, int) else source for source in step.arguments]
            key: Hashable
            if step.call is None:
                key = contents(fetched(given))
            else:
                if not getattr(step.call, "on_device", False):
                    given = fetched(given)
                results = step.call(*given)
                slots += results
                key = () if step.is_static else shapes(results)
                if not step.is_static and key not in step.after:
                    step = fitting(step.after, results, named)
                    continue
            step = step.after.get(key)
        if step is None:
            return None
        outputs = [_output(shape, slots, len(inputs)) for shape in step.outputs]
        return outputs if on_device else fetched(outputs)


class TapeRecorder:
    """Runs the steps of an import, and writes them down."""

    def __init__(self, tape: Tape, inputs: Sequence[Array]) -> None:
        self.tape = tape
        self.slots: list[Array] = list(inputs)
        self.numbers = {id(array): number for number, array in enumerate(self.slots)}
        self.keeps = True
        """Whether the tape can repeat it."""
        self._inputs = len(self.slots)
        self._where = tape.first
        self._key: Hashable = ()
        if tape.steps > _BRANCHES:
            tape.first.clear()
            tape.steps = 0

    def call(
        self,
        call: Call,
        arguments: Sequence[Array],
        is_static: bool,
        key_of: Callable[[Sequence[Array]], Hashable] | None = None,
    ) -> list[Array]:
        """Call something; its results. What leads on from them is their shapes, or what `key_of` says."""
        results = [np.asarray(result) for result in call(*arguments)]
        for array in results:
            self.numbers.setdefault(id(array), len(self.slots))
            self.slots.append(array)
        sources = self._sources(arguments)
        constant = getattr(call, "constant", None)
        if constant is not None:  # it is quicker with what it need not move again
            sources = tuple(
                constant(source) if isinstance(source, np.ndarray) else source for source in sources
            )
        self._step(TapeStep(call, sources, is_static), () if is_static else (key_of or shapes)(results))
        return results

    def is_input(self, array: Array) -> bool:
        """Whether it was given to the model."""
        return self.numbers.get(id(array), self._inputs) < self._inputs

    def look(self, arrays: Sequence[Array]) -> None:
        """What follows depends on this data."""
        seen = [array for array in arrays if id(array) in self.numbers]
        if not seen:
            return
        if sum(array.nbytes for array in seen) > _LARGEST or any(array.dtype == object for array in seen):
            self.keeps = False
            return
        self._step(TapeStep(None, self._sources(seen), True), contents(seen))

    def end(self, outputs: Sequence[Any]) -> list[Any]:
        """The outputs of the model."""
        shape = tuple(self._shape(value) for value in outputs)
        if self.keeps:
            self._where[self._key] = End(shape)
        return [_output(part, self.slots, self._inputs) for part in shape]

    def _shape(self, value: Any) -> Shape:
        if isinstance(value, list):
            return [self._shape(item) for item in value]
        number = self.numbers.get(id(value))
        shape: Shape = value if number is None else number
        return shape

    def _sources(self, arrays: Sequence[Array]) -> tuple[Source, ...]:
        return tuple(self.numbers.get(id(array), array) for array in arrays)

    def _step(self, step: TapeStep, key: Hashable) -> None:
        if not self.keeps:
            return
        following = self._where.get(self._key)
        if not isinstance(following, TapeStep):
            self._where[self._key] = following = step
            self.tape.steps += 1
        self._where, self._key = following.after, key


def fetched(values: Sequence[Any]) -> list[Any]:
    """The same, those that lie on a device brought to the host."""
    return [np.asarray(value) if isinstance(value, DeviceArray) else value for value in values]


def contents(arrays: Sequence[Array]) -> Hashable:
    """What arrays hold, as a key."""
    return tuple((array.dtype.str, array.shape, array.tobytes()) for array in arrays)


def shapes(arrays: Sequence[Array]) -> Hashable:
    """The types of arrays, as a key."""
    return tuple((array.dtype.str, array.shape) for array in arrays)


def _output(shape: Shape, slots: Sequence[Array], inputs: int) -> Any:
    if isinstance(shape, list):
        return [_output(item, slots, inputs) for item in shape]
    if isinstance(shape, int):
        # an input that is an output is the caller's own array: give a copy
        return slots[shape].copy() if shape < inputs else slots[shape]
    return shape.copy() if isinstance(shape, np.ndarray) else shape
