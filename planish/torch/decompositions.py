"""Which ATen ops torch is asked to write out: those that have no lowering of their own, and that it can."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch

from planish.torch import ops as _filled  # noqa: F401
from planish.torch.registry import find

_KEPT: Final = frozenset({"aten._fused_adam"})
"""Written out they would be worse than in torch's own code."""


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by op."""
    import torch._refs
    import torch._refs.fft
    import torch._refs.linalg
    import torch._refs.nn.functional
    import torch._refs.special
    from torch._decomp import decomposition_table

    return {
        op: written
        for op, written in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and find(op) is None
        and not _is_random(op)
        and str(op) not in _KEPT
    }


def _is_random(op: Any) -> bool:
    """Random numbers come from torch's own generators, as they would without a compiler."""
    return torch.Tag.nondeterministic_seeded in op.tags
