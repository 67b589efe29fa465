"""Which ATen ops torch is asked to write out: those that have no lowering of their own, and that it can."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from planish.torch import lists, losses
from planish.torch import ops as _filled  # noqa: F401
from planish.torch.registry import find


@cache
def table() -> dict[Any, Callable[..., Any]]:
    """Decompositions by op."""
    import torch._refs
    import torch._refs.fft
    import torch._refs.linalg
    import torch._refs.nn.functional
    import torch._refs.special
    from torch._decomp import decomposition_table

    by_op = {
        op: written
        for op, written in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload) and find(op) is None and not _is_random(op)
    }
    for more in (lists.written_out(), losses.written_out()):
        by_op |= {op: written for op, written in more.items() if find(op) is None}
    by_op[torch.ops.aten.native_dropout.default] = _native_dropout
    return by_op


def _native_dropout(x: torch.Tensor, p: float, train: bool | None) -> Any:
    """The mask as torch draws it on the CPU, and arithmetic that shares kernels with what is around it."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if x.device.type != "cpu":
        return NotImplemented
    kept = 1 - p
    mask = torch.bernoulli(torch.empty_like(x, dtype=torch.bool), kept)
    return x * mask * (1 / kept if kept else 0.0), mask


def _is_random(op: Any) -> bool:
    """Random numbers come from torch's own generators, as they would without a compiler."""
    return torch.Tag.nondeterministic_seeded in op.tags
