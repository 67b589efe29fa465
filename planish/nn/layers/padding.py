"""Padding layers of 1–3 spatial axes: zeros, a constant, reflected, replicated or around, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from planish.errors import ShapeError
from planish.frontend.tensor.array import Tensor
from planish.nn import padding
from planish.nn.module import Module


class Pad(Module):
    """One number for all sides, or (before, after) for each axis, the last one first."""

    space: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int], value: float = 0.0) -> None:
        sides = (padding,) * (2 * self.space) if isinstance(padding, int) else tuple(padding)
        if len(sides) != 2 * self.space:
            raise ShapeError.of(
                type(self).__name__, f"{len(sides)} numbers for {self.space} axes", "two for each"
            )
        self.padding = sides
        self.value = value

    def __call__(self, x: Tensor) -> Tensor:
        """More on each side."""
        return padding.pad(x, self.padding, self.mode, self.value)


def _layers(name: str, mode: str, says: str) -> list[type[Pad]]:
    """`name1d`, `name2d` and `name3d`."""
    axes = ("(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)")
    return [
        type(
            f"{name}{space}d",
            (Pad,),
            {"space": space, "mode": mode, "__doc__": f"{axes[space - 1]} {says}.", "__module__": __name__},
        )
        for space in (1, 2, 3)
    ]


ZeroPad1d, ZeroPad2d, ZeroPad3d = _layers("ZeroPad", "constant", "with zeros on each side")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _layers(
    "ConstantPad", "constant", "with one value on each side"
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _layers(
    "ReflectionPad", "reflect", "reflected at its edges"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _layers(
    "ReplicationPad", "replicate", "with its edges repeated"
)
CircularPad1d, CircularPad2d, CircularPad3d = _layers(
    "CircularPad", "circular", "continued from the other side"
)

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
