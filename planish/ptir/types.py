"""Tensor types of the graph IR.

Types are immutable values: hashing is cached, equality tries identity first, and printing gives text that
parses back. Sizes are `int | Dim`; `Dim` itself lives in `dims` and is re-exported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from planish import dtypes
from planish.dtypes import DType
from planish.errors import ShapeError
from planish.ptir.dims import DEFAULT_BOUNDS, Dim, DimLike, Symbol, bounds, product, substitute
from planish.records import dataclass

__all__ = [
    "DEFAULT_BOUNDS", "Dim", "DimLike", "Quant", "Symbol", "TensorType", "bounds", "parse_dims", "product",
    "substitute", "tensor",
]  # fmt: skip

MAX_RANK: Final = 64
"""As many axes as NumPy's arrays may have."""
# Inside `tensor<f32, BxH>` the letter x separates, so a name that contains it is printed in parentheses.
_BARE_NAME: Final = re.compile(r"[A-Za-wyz_][A-Za-wyz0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Quant:
    """How stored integers stand for real numbers: `expressed` = (stored - zero_point) * scale."""

    expressed: DType
    """The type of the numbers that are meant."""
    scale: tuple[float, ...]
    """One per tensor, or one per index along `axis`."""
    zero_point: tuple[int, ...]
    """As many as there are scales."""
    axis: int | None = None
    """The axis the scales run along; None for one scale in all."""

    def __str__(self) -> str:
        scales = ", ".join(repr(s) for s in self.scale)
        zeros = ", ".join(str(z) for z in self.zero_point)
        axis = "" if self.axis is None else f", axis={self.axis}"
        return f"quant<{self.expressed.short}, scale=[{scales}], zero_point=[{zeros}]{axis}>"


@dataclass(frozen=True, slots=True, eq=False)
class TensorType:
    """Element type, sizes and (for quantised data) what the integers stand for."""

    dtype: DType
    dims: tuple[DimLike, ...] = ()
    quant: Quant | None = None
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        dims = tuple(self.dims)
        if len(dims) > MAX_RANK:
            raise ShapeError(
                f"a tensor of {len(dims)} axes", remedy=f"NumPy and planish have at most {MAX_RANK}"
            )
        for axis, dim in enumerate(dims):
            if type(dim) not in (int, Dim) or bounds(dim)[1] < 0:
                raise ShapeError(
                    f"axis {axis} of a tensor has size {dim!r}", remedy="sizes are integers >= 0 or a Dim"
                )
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "_hash", hash((self.dtype, dims, self.quant)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, TensorType)
            and self._hash == other._hash
            and self.dtype is other.dtype
            and self.dims == other.dims
            and self.quant == other.quant
        )

    def __hash__(self) -> int:
        return self._hash

    # Dtypes are hashed by identity, so a cached hash must not travel between processes.
    def __reduce__(self) -> tuple[type[TensorType], tuple[DType, tuple[DimLike, ...], Quant | None]]:
        return TensorType, (self.dtype, self.dims, self.quant)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def is_static(self) -> bool:
        return all(isinstance(dim, int) for dim in self.dims)

    @property
    def size(self) -> DimLike:
        """The number of elements."""
        return product(self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes as NumPy wants them; a dynamic size is an error."""
        shape: list[int] = []
        for axis, dim in enumerate(self.dims):
            if not isinstance(dim, int):
                raise ShapeError(f"axis {axis} of {self} has no fixed size")
            shape.append(dim)
        return tuple(shape)

    @property
    def max_shape(self) -> tuple[int, ...]:
        """The largest size each axis can have."""
        return tuple(bounds(dim)[1] for dim in self.dims)

    def with_dims(self, dims: Sequence[DimLike]) -> TensorType:
        return TensorType(self.dtype, tuple(dims), self.quant)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.dims)

    def substitute(self, values: Mapping[str, DimLike]) -> TensorType:
        """This type with named sizes replaced."""
        return TensorType(self.dtype, tuple(substitute(d, values) for d in self.dims), self.quant)

    def symbols(self) -> Iterator[Symbol]:
        """Every named size in the shape, with repetition."""
        for dim in self.dims:
            if isinstance(dim, Dim):
                yield from dim.symbols()

    def __str__(self) -> str:
        parts = [self.dtype.short]
        if self.dims:
            parts.append("x".join(_bare(dim) for dim in self.dims))
        if self.quant is not None:
            parts.append(str(self.quant))
        return f"tensor<{', '.join(parts)}>"


def _bare(dim: DimLike) -> str:
    text = str(dim)
    return text if isinstance(dim, int) or _BARE_NAME.match(text) else f"({text})"


def parse_dims(text: str, scope: Mapping[str, Dim] | None = None) -> tuple[DimLike, ...]:
    """Read the sizes of `tensor<f32, 4xBx(2*B+1)>`: parts separated by x outside parentheses."""
    parts: list[str] = [""]
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "x" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(Dim.parse(part, scope) for part in parts) if text.strip() else ()


def tensor(
    dtype: str | DType, dims: Sequence[int | str | Dim] = (), **named_bounds: Dim | tuple[int, int]
) -> TensorType:
    """A tensor type; sizes are ints, `Dim`s, or text over names: `tensor("f32", (4, "B"), B=(1, 64))`.

    A name without bounds gets `DEFAULT_BOUNDS`; text may also declare them (`"B in 1..64"`).
    """
    scope = {n: b if isinstance(b, Dim) else Dim.named(n, *b) for n, b in named_bounds.items()}
    sizes: list[DimLike] = []
    for dim in dims:
        if isinstance(dim, str):
            if " in " not in dim:
                for name in re.findall(r"[A-Za-z_]\w*", dim):
                    if name not in scope:
                        scope[name] = Dim.named(name)
            parsed = Dim.parse(dim, scope)
            if isinstance(parsed, Dim) and parsed.name is not None:
                scope[parsed.name] = parsed
            sizes.append(parsed)
        else:
            sizes.append(dim)
    return TensorType(dtypes.parse(dtype) if isinstance(dtype, str) else dtype, tuple(sizes))
