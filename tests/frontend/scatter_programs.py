"""Random scatters: updates at places that are computed from positions, sizes and data, in any mixture, beside a plain loop.

A place is an expression in Python over `xp`, the positions `i`, the sizes `n` and `m` of the tensor and of the updates, and data `idx`.
Several updates may meet, and some lie outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAVES: Final = ("i", "i", "idx", "n", "0", "3", "5", "(i * i)", "(m - 1 - i)")
_FORMS: Final = (
    "({a} + {b})", "({a} * 3)", "({a} % (n + 1))", "({a} % 7)", "({a} // 2)", "xp.minimum({a}, {b})", "xp.where({a} > {b}, {a}, i)",
)  # fmt: skip
KINDS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": np.add,
    "multiply": np.multiply,
    "max": np.maximum,
    "set": lambda old, new: new,
}


@dataclass(frozen=True)
class Scatter:
    """Updates `y` of a tensor of ones, at the places that `places` gives; `n` and `m` may be named sizes."""

    n: int
    m: int
    more: int
    """Rows beyond n."""
    width: int
    kind: str
    dtype: str
    text: tuple[str, ...]
    """The place along the first axis, and perhaps along the second."""
    named: bool

    def places(self, xp: Any, i: Any, n: Any, m: Any, idx: Any) -> tuple[Any, ...]:
        names = {"xp": xp, "i": i, "n": n, "m": m, "idx": idx}
        return tuple([eval(text, names) + i * 0 for text in self.text])

    def given(self, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        shape = (self.m,) if len(self.text) == 2 else (self.m, self.width)
        updates = (rng.standard_normal(shape) * 4).astype(self.dtype)
        return np.zeros(self.n), updates, rng.integers(0, self.n + self.more, self.m)

    def meant(self, updates: Array, idx: Array) -> Array:
        """One update after the other; negative places count from the end, those outside are left out."""
        result = np.ones((self.n + self.more, self.width), self.dtype)
        places = self.places(np, np.arange(self.m), self.n, self.m, idx)
        with np.errstate(all="ignore"):
            for update, *place in zip(updates, *places, strict=True):
                at = tuple([p + size if p < 0 else p for p, size in zip(place, result.shape, strict=False)])
                if all(0 <= p < size for p, size in zip(at, result.shape, strict=False)):
                    result[at] = KINDS[self.kind](result[at], update)
        return result


def _expression(random: Random, depth: int = 0) -> str:
    if depth > 2 or random.random() < 0.4:
        return random.choice(_LEAVES)
    return random.choice(_FORMS).format(a=_expression(random, depth + 1), b=_expression(random, depth + 1))


def scatter(seed: int) -> Scatter:
    """One, the same for the same seed."""
    random = Random(seed)
    return Scatter(
        n=random.randint(1, 40),
        m=random.choice((3, 9, 17, 60, 300)),
        more=random.choice((0, 1, 5)),
        width=random.choice((1, 2, 3, 8, 33)),
        kind=random.choice(list(KINDS)),
        dtype=random.choice(("float64", "float32", "int32")),
        text=tuple(_expression(random) for _ in range(random.randint(1, 2))),
        named=random.random() < 0.6,
    )
