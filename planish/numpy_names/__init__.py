"""Names that NumPy and jax.numpy share beyond the Array API standard, each a composition of the Tensor API.

They are imported when the first of them is asked for, so that programs that need none of them start without them.
"""

from typing import TYPE_CHECKING

import numpy as np

from planish.frontend.tensor.mistaken import report_all
from planish.numpy_names import (
    aliases,
    arithmetic,
    arrangement,
    callables,
    files,
    histograms,
    polynomials,
    positions,
    reductions,
    sets,
    signals,
)
from planish.numpy_names.aliases import *  # noqa: F403
from planish.numpy_names.arithmetic import *  # noqa: F403
from planish.numpy_names.arrangement import *  # noqa: F403
from planish.numpy_names.callables import *  # noqa: F403
from planish.numpy_names.files import *  # noqa: F403
from planish.numpy_names.histograms import *  # noqa: F403
from planish.numpy_names.polynomials import *  # noqa: F403
from planish.numpy_names.positions import *  # noqa: F403
from planish.numpy_names.reductions import *  # noqa: F403
from planish.numpy_names.sets import *  # noqa: F403
from planish.numpy_names.signals import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (
        aliases, arithmetic, arrangement, callables, files, histograms, polynomials, positions, reductions, sets, signals,
    ):  # fmt: skip
        __all__ += _chapter.__all__
    report_all(globals(), __all__, like=np)
