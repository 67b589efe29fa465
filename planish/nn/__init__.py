"""Neural networks: functions, modules that are pytrees, initial values.

Functions take tensors alone and are all here by name (`nn.softmax`, `nn.conv2d` …) and in `nn.functional`. Modules hold
parameters under PyTorch's names (`nn.Linear`, `nn.Conv2d` …); `nn.init` has the initial values that they start with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.frontend.tensor.mistaken import report_all
from planish.nn import functional as functional
from planish.nn import init as init
from planish.nn import layers, module
from planish.nn.functional import *  # noqa: F403
from planish.nn.layers import *  # noqa: F403
from planish.nn.module import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = ["functional", "init"]
    __all__ += functional.__all__ + layers.__all__ + module.__all__
    report_all(globals(), module.__all__)
