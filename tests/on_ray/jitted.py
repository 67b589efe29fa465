"""Functions that are found by name."""

from __future__ import annotations

from typing import Any

import planish as pn


@pn.jit
def twice(x: Any) -> Any:
    return x * 2


def thrice(x: Any) -> Any:
    return x * 3
