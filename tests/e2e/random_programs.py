"""Random programs as text over a namespace `xp`, which is NumPy or planish: the same lines say what is meant and what is compiled.

A line is a template with random operands and axes. NumPy judges it when it is made: what it refuses, or what leaves the range in
which results can be compared, is no line of the program. Lines read earlier ones, so that fusion finds much to do: reductions
that feed broadcasts that feed products, windows of windows, gathers of computed values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

GENERIC: Final = (
    "xp.tanh({x})",
    "xp.exp(-xp.abs({x}))",
    "xp.where({x} > 0.015, {x}, -0.25)",
    "xp.clip({x}, -0.7, 0.9)",
    "({x} * 0.5 + 1.25)",
    "({x} + {y})",
    "({x} * {y})",
    "xp.maximum({x}, {y})",
    "({x} / (xp.abs({y}) + 1.0))",
    "xp.where({y} > 0.1, {x}, 0.0)",
    "xp.sum({x}, axis={a}, keepdims={k}) * 0.3",
    "xp.sum({x} * {y}, axis={a})",
    "xp.exp({x} * 0.3) / (xp.sum(xp.exp({x} * 0.3), axis={a}, keepdims=True) + 0.5)",
    "({x} - xp.sum({x}, axis={a}, keepdims=True) * 0.1) / xp.sqrt(xp.sum({x} * {x}, axis={a}, keepdims=True) + 1.0)",
    "({x} @ {y}) * 0.2",
    "({x} @ xp.swapaxes({x}, -1, -2)) * 0.2",
    "(xp.swapaxes({x}, -1, -2) @ {x}) * 0.2",
    "xp.swapaxes({x}, {a}, {b})",
    "xp.flip({x}, axis={a})",
    "xp.roll({x}, {n}, axis={a})",
    "xp.expand_dims({x}, axis={a})",
    "xp.reshape({x}, (-1,))",
    "xp.cumsum({x}, axis={a}) * 0.2",
    "xp.concatenate([{x}, {y}], axis={a})",
    "xp.stack([{x}, {x} * 2.0], axis={a})",
    "xp.swapaxes(xp.pad(xp.swapaxes({x}, 0, {a}), [(1, 2)] + [(0, 0)] * ({x}.ndim - 1))[1:-2], 0, {a})",
    "xp.swapaxes(xp.swapaxes({x}, 0, {a})[::-1], 0, {a})",
)
"""What any sizes allow."""
FLOATS: Final = (
    *GENERIC,
    "xp.max({x}, axis={a}, keepdims={k})",
    "xp.var({x}, axis={a}, keepdims={k})",
    "xp.mean({x}, axis=({a}, {b}), keepdims={k})",
    "xp.prod({x} * 0.1 + 1.0, axis={a})",
    "xp.swapaxes(xp.swapaxes({x}, 0, {a})[::{s}], 0, {a})",
    "{x}[..., {m}:]",
    "{x}[{m}:, ...]",
    "({x}[..., 1:-1] + {x}[..., 2:] * 0.5 - {x}[..., :-2])",
    "xp.maximum({x}[..., 1:], {x}[..., :-1])",
    "xp.stack([{x}[..., 1:], {x}[..., :-1]], axis=-1)",
    "xp.pad({x}, [({m}, 1)] * {x}.ndim)",
    "xp.pad({x}, 2, mode='reflect')",
    "xp.pad({x}, 1, mode='edge')",
    "xp.repeat({x}, {m}, axis={a})",
    "xp.tile({x}, 2)",
    "xp.tril({x} @ xp.swapaxes({x}, -1, -2), {n}) * 0.2",
    "xp.sort({x}, axis={a})",
    "xp.take({x}, xp.astype(xp.clip(xp.abs({y}) * 3.3, 0, {x}.shape[{a}] - 1), xp.int32), axis={a})",
    "xp.take_along_axis({x}, xp.argmax(xp.floor({x} * 4), axis={a}, keepdims=True), axis={a})",
    "xp.einsum('...i,...i->...', {x}, {y})",
    "xp.diff({x}, axis={a})",
)
NUMBERS: Final = (
    "xp.add({x}, {z})",
    "xp.multiply({x}, {z})",
    "xp.maximum({x}, {z})",
    "xp.remainder({x}, xp.maximum({z}, xp.ones_like({z})))",
    "xp.where({x} > {z}, {x}, {z})",
    "xp.less({x}, {z})",
    "xp.sum({x}, axis={a}, keepdims={k}, dtype={x}.dtype)",
    "xp.max({x}, axis={a}, keepdims={k})",
    "xp.argmin({x}, axis={a})",
    "xp.cumsum({x}, axis={a}, dtype={x}.dtype)",
    "xp.sort({x}, axis={a})",
    "xp.matmul({x}, xp.swapaxes({x}, -1, -2))",
)
"""Of integers, where every bit is told; `{z}` has the dtype of `{x}`. Bools are no numbers."""
EXACT: Final = (
    *NUMBERS,
    "xp.astype({x}, xp.{d})",
    "xp.bitwise_xor({x}, {z})",
    "xp.bitwise_and({x}, {z})",
    "xp.bitwise_invert({x})",
    "xp.where({z} == {x}, {x}, xp.zeros_like({x}))",
    "xp.any({x}, axis={a}, keepdims={k})",
    "xp.flip({x}, axis={a})",
    "xp.swapaxes({x}, {a}, {b})",
    "{x}[..., ::{s}]",
    "xp.concatenate([{x}, {z}], axis={a})",
    "xp.pad({x}, {m})",
    "xp.reshape({x}, (-1,))",
)
WIDTHS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
_SIZES: Final = ((1, 2, 3, 4, 5, 7), (1, 3, 16, 17, 33), (2, 8, 32, 48, 64), (1, 4, 31, 40, 65), (5, 12, 27))
_LARGEST: Final = 1e4
_TRIES: Final = 80
_NAME: Final = re.compile(r"\b[at]\d+\b")


@dataclass(frozen=True, slots=True)
class RandomProgram:
    text: str
    arrays: tuple[Array, ...]

    def over(self, xp: ModuleType) -> Any:
        """The function, in terms of a namespace."""
        names: dict[str, Any] = {"xp": xp}
        exec(compile(self.text, "<random program>", "exec"), names)
        return names["f"]

    def meant(self, arrays: Sequence[Array]) -> list[Array]:
        """What NumPy makes of arrays."""
        with np.errstate(all="ignore"):
            return [np.asarray(each) for each in self.over(np)(*arrays)]


def shapes(rng: np.random.Generator, count: int, most: int) -> list[tuple[int, ...]]:
    """Shapes of few sizes, so that some fit together."""
    sizes = rng.choice(_SIZES[int(rng.integers(len(_SIZES)))], 3)
    found = [tuple(int(n) for n in rng.choice(sizes, int(rng.integers(1, 4)))) for _ in range(count)]
    return [shape if prod(shape) <= most else shape[:1] for shape in found]


def random_program(
    rng: np.random.Generator, arrays: Sequence[Array], templates: Sequence[str], lines: int, most: int
) -> RandomProgram:
    """A program of arrays; no value has more than so many elements."""
    values = {f"a{number}": array for number, array in enumerate(arrays)}
    given = list(values)
    text: list[str] = []
    for _ in range(_TRIES):
        if len(text) == lines:
            break
        line = _filled(rng, templates[int(rng.integers(len(templates)))], values)
        value = _judged(line, values, most)
        if value is not None:
            name = f"t{len(text)}"
            text.append(f"    {name} = {line}\n")
            values[name] = value
    used = {name for line in text for name in _NAME.findall(line.partition("=")[2])}
    results = [name for name in values if name not in used and name not in given] or given[:1]
    head = f"def f({', '.join(given)}):\n"
    return RandomProgram(f"{head}{''.join(text)}    return ({', '.join(results)},)\n", tuple(arrays))


def _filled(rng: np.random.Generator, template: str, values: Mapping[str, Array]) -> str:
    names = list(values)
    weights = np.arange(1.0, len(names) + 1)  # rather of what was computed last
    x, y = (names[int(rng.choice(len(names), p=weights / weights.sum()))] for _ in range(2))
    alike = [name for name in names if values[name].dtype == values[x].dtype]
    rank = values[x].ndim
    if (template in NUMBERS and values[x].dtype == np.bool_) or ("axis" in template and not rank):
        return ""  # NumPy lets both pass
    rank = max(rank, 1)
    return template.format(
        x=x,
        y=y,
        z=alike[int(rng.integers(len(alike)))],
        a=int(rng.integers(rank)),
        b=int(rng.integers(rank)),
        k=bool(rng.integers(2)),
        n=int(rng.integers(-3, 4)),
        m=int(rng.integers(1, 4)),
        s=(2, 3, -1, -2)[int(rng.integers(4))],
        d=WIDTHS[int(rng.integers(len(WIDTHS)))],
    )


def _judged(line: str, values: Mapping[str, Array], most: int) -> Array | None:
    """What a line computes, if NumPy takes it and it can be compared."""
    if not line:
        return None
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(eval(line, {"xp": np, **values}))
    except (TypeError, ValueError, IndexError, RuntimeWarning):
        return None
    if value.size > most or value.ndim > 4:
        return None
    if value.dtype.kind == "f" and not (np.abs(value) < _LARGEST).all():
        return None
    return value
