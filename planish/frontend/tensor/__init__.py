"""The Tensor API: lazy arrays and the functions on them. The list of functions stands in `functions`, once."""

from typing import TYPE_CHECKING

import numpy as np

from planish.frontend.devices import devices, stream
from planish.frontend.tensor import elementwise, functions
from planish.frontend.tensor.application import apply_one
from planish.frontend.tensor.array import Tensor, bind
from planish.frontend.tensor.functions import *  # noqa: F403
from planish.frontend.tensor.methods import spell_methods
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tensor.transfer import realize

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = ["Tensor", "devices", "realize", "stream"]
    __all__ += functions.__all__
    report_all(
        vars(functions),
        functions.__all__,
        hot={*elementwise.__all__, "matmul"} - {"clip", "isclose", "nan_to_num", "round"},
        like=np,
    )
    globals().update({name: getattr(functions, name) for name in functions.__all__})

bind(functions, apply_one)
spell_methods(Tensor)
