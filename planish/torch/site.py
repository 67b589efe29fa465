"""A node under way: the graph it goes into, what torch says of its results, and what lowerings share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from planish import dtypes
from planish.dtypes import DType
from planish.frontend.replay import dim_value
from planish.ptir.builder import Graph
from planish.ptir.dims import Dim, DimLike
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.handle import Number
from planish.ptir.library.common import cast, plain, spread
from planish.ptir.library.shaping import broadcast_dims
from planish.ptir.ops.numerics import accumulator
from planish.torch.kinds import TO_PLANISH, TO_TORCH
from planish.torch.registry import LeftToTorch

Operand = V | Number | Dim
"""A tensor, a number, or a size that stands for one."""


@dataclass(frozen=True, slots=True)
class FxSite:
    """What a lowering is told of its node besides the arguments."""

    graph: Graph
    node: fx.Node

    @property
    def fakes(self) -> list[torch.Tensor]:
        """What torch says of the results: tensors without data."""
        result = self.node.meta.get("val")
        many = result if isinstance(result, tuple | list) else [result]
        return [fake for fake in many if isinstance(fake, torch.Tensor)]

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return self.kind(self.fakes[0].dtype)

    def kind(self, dtype: torch.dtype) -> DType:
        """planish's word for a dtype of torch."""
        kind = TO_PLANISH.get(dtype)
        if kind is None:
            raise self.refuse(f"there is no dtype {dtype}")
        return kind

    def refuse(self, why: str) -> LeftToTorch:
        """The error that hands this node back to torch."""
        return LeftToTorch(f"{self.node.target}: {why}", op=str(self.node.target))

    def full(self, dims: Sequence[DimLike], number: Number | Dim, dtype: DType | None = None) -> V:
        """One number for all elements, of the dtype of the result if no other is given."""
        if isinstance(number, Dim):
            return spread(self.of(number, dtype or self.dtype), dims)
        return self.graph.full(tuple(dims), plain(number, dtype or self.dtype), dtype or self.dtype)

    def of(self, x: Operand, dtype: DType) -> V:
        """A value or a number, in a dtype."""
        if isinstance(x, V):
            return cast(x, dtype)
        if isinstance(x, Dim):
            return cast(dim_value(self.graph, x), dtype)
        return self.graph.full((), plain(x, dtype), dtype)

    def together(self, *operands: Operand, dtype: DType | None = None) -> list[V]:
        """Operands in one shape and in one dtype: that of the result if no other is given."""
        kind = dtype or self.dtype
        values = [self.of(x, kind) for x in operands]
        dims = broadcast_dims(*(value.dims for value in values))
        return [spread(value, dims) for value in values]

    def promoted(self, *operands: Operand) -> list[V]:
        """Operands in one shape and in the dtype that torch computes with, whatever the result is."""
        return self.together(*operands, dtype=promotion(self, operands))


def promotion(at: FxSite, operands: Sequence[Operand]) -> DType:
    """The dtype that operands meet in: tensors before scalars of tensors before numbers, each only if its kind is higher."""
    best: torch.dtype | None = None
    for group in (
        [x for x in operands if isinstance(x, V) and x.rank],
        [x for x in operands if isinstance(x, V) and not x.rank],
        [x for x in operands if not isinstance(x, V)],
    ):
        own: torch.dtype | None = None
        for x in group:
            kind = _torch_dtype(x)
            own = kind if own is None else torch.promote_types(own, kind)
        if own is not None and (best is None or _category(own) > _category(best)):
            if best is not None and _category(own) == 3 and best in _NARROW_COMPLEX:
                own = _NARROW_COMPLEX[best]
            best = own
    if best is None:
        raise at.refuse("there is no tensor among the operands")
    return at.kind(best)


_NARROW_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def _torch_dtype(x: Operand) -> torch.dtype:
    if isinstance(x, V):
        return TO_TORCH[x.dtype]
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, int | Dim):
        return torch.int64
    return torch.complex64 if isinstance(x, complex) else torch.float32


def _category(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return 3
    if dtype.is_floating_point:
        return 2
    return 0 if dtype is torch.bool else 1


# --- what needs no node -----------------------------------------------------------------------------------


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front; a scalar has one that is not there."""
    return axis % rank if rank else 0


def axes_of(axes: int | Sequence[int] | None, rank: int, *, empty_is_all: bool = True) -> list[int]:
    """Axes counted from the front; none given means all of them."""
    if axes is None or (empty_is_all and not isinstance(axes, int) and not len(axes)):
        return list(range(rank))
    several = [axes] if isinstance(axes, int) else axes
    return sorted({axis_of(axis, rank) for axis in several}) if rank else []


def each_axis(given: int | Sequence[int], space: int) -> list[int]:
    """One number for each spatial axis, where one may stand for all."""
    several = [given] if isinstance(given, int) else list(given)
    return several * space if len(several) == 1 else several


def sizes(at: FxSite, x: V) -> list[Any]:
    """The dims: numbers, unless the graph is compiled for all sizes."""
    return list(x.dims)


wide_kind = accumulator
"""The dtype that torch sums narrow floats in."""


def shortened(at: FxSite, setting: Any, *operands: V) -> list[V]:
    """Operands of a product as a setting of torch's lets its libraries read them: of float32 on a GPU, the bits that tensor cores multiply."""
    is_single = at.fakes[0].device.type == "cuda" and all(x.dtype is dtypes.float32 for x in operands)
    if not is_single:
        return list(operands)
    word = getattr(setting, "fp32_precision", None)  # where torch has it, the older word may have no answer
    allowed = word == "tf32" if isinstance(word, str) else setting.allow_tf32
    return [x.cast(dtypes.tfloat32) if allowed else x for x in operands]
