"""Arrays that are not in the host's memory: what everybody may know of them."""

from __future__ import annotations

from typing import Any

import numpy as np


class DeviceArray:
    """An array in the memory of a device: it has a dtype and a shape, but no elements to look at here. Each kind of device has a class of its own."""

    __slots__ = ()

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
