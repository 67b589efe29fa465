"""What convolutions and pools share: kernel shapes, strides, dilations, and the padding that attributes ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planish.onnx.ops.common import size_of
from planish.onnx.site import NodeSite
from planish.ptir.graph_value import GraphValue as V

_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


@dataclass(frozen=True, slots=True)
class NodeWindow:
    """A window that moves over the spatial axes; one entry per axis."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    @property
    def spans(self) -> list[int]:
        """How far it reaches, with its gaps."""
        return [(k - 1) * d + 1 for k, d in zip(self.shape, self.dilations, strict=True)]


def spatial_letters(count: int) -> str:
    """Names for spatial axes in a layout."""
    return _LETTERS.get(count) or "ABDEFGHJKLMPQRSTUVWXYZ"[:count]


def same_padding(size: int, span: int, stride: int, upper: bool) -> tuple[int, int]:
    """So that there are ceil(size / stride) windows; the odd element lies behind if `upper`."""
    total = max((-(-size // stride) - 1) * stride + span - size, 0)
    less, more = total // 2, total - total // 2
    return (less, more) if upper else (more, less)


def window_of(at: NodeSite, x: V, kernel: Sequence[int] | None = None) -> NodeWindow:
    """The window that a node describes over the spatial axes of an input, whose sizes may have names."""
    count = x.rank - 2
    given = at.attr("kernel_shape")
    shape = tuple(given or kernel or ())
    strides = tuple(at.attr("strides") or [1] * count)
    dilations = tuple(at.attr("dilations") or [1] * count)
    pads = at.attr("pads") or [0] * (2 * count)
    how = at.attr("auto_pad", "NOTSET")
    if len(shape) != count or len(strides) != count or len(dilations) != count or len(pads) != 2 * count:
        raise at.refuse(f"its window does not fit {count} spatial axes")
    at.room(math.prod(shape))
    if how in ("NOTSET", ""):
        padding = tuple((pads[n], pads[n + count]) for n in range(count))
    elif how == "VALID":
        padding = ((0, 0),) * count
    elif how in ("SAME_UPPER", "SAME_LOWER"):
        # (every pixel has its window if the stride is 1: then any size is as good as another)
        padding = tuple(
            same_padding(
                1 if strides[n] == 1 else size_of(at, x, 2 + n),
                (shape[n] - 1) * dilations[n] + 1,
                strides[n],
                how == "SAME_UPPER",
            )
            for n in range(count)
        )
    else:
        raise at.refuse(f"there is no padding {how!r}")
    return NodeWindow(shape, strides, dilations, padding)
