"""Linear algebra: the standard's `linalg` extension, and what people know beside it: exponentials, LU, tensor equations.

Matrices are the last two axes, leading axes are batch. A singular matrix gives infinities or NaN where NumPy raises: what is in a tensor
is not known when the call is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planish.frontend.tensor.mistaken import report_all
from planish.linalg import core, functions, norms
from planish.linalg.core import *  # noqa: F403
from planish.linalg.functions import *  # noqa: F403
from planish.linalg.norms import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (core, functions, norms):
        __all__ += _chapter.__all__
    report_all(globals(), __all__, like=np.linalg)
