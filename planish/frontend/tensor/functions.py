"""All functions of the Tensor API by name, from the chapters they stand in. Methods and operators call them here.

What users see of a chapter is its `__all__`; `__all__` here is all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planish.frontend.tensor import (
    creation,
    data_types,
    elementwise,
    indexing,
    inspection,
    linear_algebra,
    manipulation,
    moving_windows,
    padding,
    quantiles,
    reinterpretation,
    scalar_functions,
    searching,
    sets,
    sorting,
    statistics,
    transfer,
    utility,
)
from planish.frontend.tensor.creation import *  # noqa: F403
from planish.frontend.tensor.data_types import *  # noqa: F403
from planish.frontend.tensor.elementwise import *  # noqa: F403
from planish.frontend.tensor.indexing import *  # noqa: F403
from planish.frontend.tensor.indexing import IndexedUpdate, getitem, setitem  # noqa: F401 - methods of tensors need them
from planish.frontend.tensor.inspection import *  # noqa: F403
from planish.frontend.tensor.interchange import cuda_array_interface, dlpack_device, to_dlpack  # noqa: F401
from planish.frontend.tensor.known_parts import assigned  # noqa: F401
from planish.frontend.tensor.linear_algebra import *  # noqa: F403
from planish.frontend.tensor.manipulation import *  # noqa: F403
from planish.frontend.tensor.moving_windows import *  # noqa: F403
from planish.frontend.tensor.padding import *  # noqa: F403
from planish.frontend.tensor.quantiles import *  # noqa: F403
from planish.frontend.tensor.reinterpretation import *  # noqa: F403
from planish.frontend.tensor.scalar_functions import *  # noqa: F403
from planish.frontend.tensor.searching import *  # noqa: F403
from planish.frontend.tensor.sets import *  # noqa: F403
from planish.frontend.tensor.sorting import *  # noqa: F403
from planish.frontend.tensor.statistics import *  # noqa: F403
from planish.frontend.tensor.transfer import *  # noqa: F403
from planish.frontend.tensor.transfer import (  # noqa: F401
    array_namespace,
    python_list,
    python_number,
    rebuilt,
    represent,
    to_device,
)
from planish.frontend.tensor.utility import *  # noqa: F403

if not TYPE_CHECKING:
    # a type checker takes no list but a literal one, and without one what is imported
    __all__ = []
    for _chapter in (
        creation, data_types, elementwise, indexing, inspection, linear_algebra, manipulation, moving_windows,
        padding, quantiles, reinterpretation, scalar_functions, searching, sets, sorting, statistics, transfer, utility,
    ):  # fmt: skip
        __all__ += _chapter.__all__
