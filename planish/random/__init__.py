"""Random numbers from explicit keys: a key and a shape determine every bit, on every target and with any number of threads.

A key is used once: whoever needs more randomness takes new keys with `split`, or with `fold_in` and a number (a step, a layer). Parameters
of distributions are numbers or tensors; `shape` is that of the result, by default that of all parameters together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.frontend.tensor.mistaken import naming_dtypes, report_all
from planish.random import continuous, core, counts, gammas
from planish.random.continuous import *  # noqa: F403
from planish.random.core import *  # noqa: F403
from planish.random.counts import *  # noqa: F403
from planish.random.gammas import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (continuous, core, counts, gammas):
        __all__ += _chapter.__all__
    report_all(globals(), __all__, prepared=naming_dtypes)
