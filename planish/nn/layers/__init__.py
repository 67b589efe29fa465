"""Layers: modules with parameters under PyTorch's names. What users see of a chapter is its `__all__`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.nn.layers import (  # fmt: skip
    activation,
    adaptive_softmax,
    attention,
    cells,
    containers,
    convolution,
    linear,
    losses,
    normalization,
    padding,
    pooling,
    recurrent,
    transformer,
)
from planish.nn.layers.activation import *  # noqa: F403
from planish.nn.layers.adaptive_softmax import *  # noqa: F403
from planish.nn.layers.attention import *  # noqa: F403
from planish.nn.layers.cells import *  # noqa: F403
from planish.nn.layers.containers import *  # noqa: F403
from planish.nn.layers.convolution import *  # noqa: F403
from planish.nn.layers.linear import *  # noqa: F403
from planish.nn.layers.losses import *  # noqa: F403
from planish.nn.layers.normalization import *  # noqa: F403
from planish.nn.layers.padding import *  # noqa: F403
from planish.nn.layers.pooling import *  # noqa: F403
from planish.nn.layers.recurrent import *  # noqa: F403
from planish.nn.layers.transformer import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (
        activation, adaptive_softmax, attention, cells, containers, convolution, linear, losses, normalization, padding, pooling, recurrent, transformer,
    ):  # fmt: skip
        __all__ += _chapter.__all__
