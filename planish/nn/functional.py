"""Everything in `nn` that has no parameters of its own. What users see of a chapter is its `__all__`."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from planish.frontend.tensor.foreign import accepting, other_names
from planish.frontend.tensor.mistaken import reporting
from planish.frontend.tensor.spelling import PYTORCH
from planish.nn import (
    activations,
    attention,
    ctc,
    elementary,
    losses,
    margins,
    normalization,
    padding,
    sampling,
    spatial,
    windows,
)  # fmt: skip
from planish.nn.activations import *  # noqa: F403
from planish.nn.attention import *  # noqa: F403
from planish.nn.ctc import *  # noqa: F403
from planish.nn.elementary import *  # noqa: F403
from planish.nn.losses import *  # noqa: F403
from planish.nn.margins import *  # noqa: F403
from planish.nn.normalization import *  # noqa: F403
from planish.nn.padding import *  # noqa: F403
from planish.nn.sampling import *  # noqa: F403
from planish.nn.spatial import *  # noqa: F403
from planish.nn.windows import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (
        activations, attention, ctc, elementary, losses, margins, normalization, padding, sampling, spatial, windows,
    ):  # fmt: skip
        __all__ += _chapter.__all__
    for _name in __all__:
        if isinstance(globals()[_name], FunctionType):
            globals()[_name] = reporting(
                accepting(globals()[_name], lists=True, names=other_names(globals()[_name], PYTORCH))
            )
