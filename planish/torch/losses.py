"""Losses that torch has as ops of its own in Python: the cross entropy of a linear layer's results, a few rows at a time.

The rows of a step are a product of their own, so that the whole matrix of logits is never there at once.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, Final

import torch

Tensor = torch.Tensor

_STEPS: Final = 32
"""More steps than this stay with torch: each is a part of the graph."""


def written_out() -> dict[Any, Callable[..., Any]]:
    """Decompositions by op, where this torch has the ops."""
    with contextlib.suppress(ImportError):
        importlib.import_module("torch.nn.modules.linear_cross_entropy")  # which registers them
    space = torch.ops.torch_nn
    return {
        getattr(space, name).default: written
        for name, written in (
            ("_linear_cross_entropy_batch_chunked", _reduced),
            ("_linear_cross_entropy_batch_chunked_no_reduction", _each),
        )
        if hasattr(space, name)
    }


def _steps(x: Tensor, rows: int) -> list[slice] | None:
    """The rows of each step; None if there are too many, or how many only a run knows."""
    count: Any = x.shape[0]
    if not isinstance(count, int) or not 0 < count <= rows * _STEPS:
        return None
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]


def _weights(
    target: Tensor, weight: Tensor | None, ignored: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The class and the weight of every row: rows that are ignored have none."""
    kept = target != ignored
    index = torch.where(kept, target, 0)
    each = kept.to(dtype) if weight is None else torch.where(kept, weight.to(dtype)[index], 0.0)
    return index, each


def _logs(x: Tensor, matrix: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    logits = x.to(dtype) @ matrix.to(dtype).T
    return torch.log_softmax(logits if bias is None else logits + bias.to(dtype), 1)


def _each(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None,
    ignore_index: int, batch_chunk_size: int, acc_policy: str, acc_dtype: torch.dtype,
) -> Any:  # fmt: skip
    """The loss of each row."""
    steps = _steps(x, batch_chunk_size)
    if steps is None:
        return NotImplemented
    index, each = _weights(target, weight, ignore_index, acc_dtype)
    losses = [
        -_logs(x[rows], matrix, bias, acc_dtype).gather(1, index[rows, None]).squeeze(1) * each[rows]
        for rows in steps
    ]
    return torch.cat(losses).to(x.dtype)


def _reduced(
    x: Tensor, matrix: Tensor, target: Tensor, bias: Tensor | None, weight: Tensor | None, reduction: str,
    ignore_index: int, label_smoothing: float, batch_chunk_size: int, acc_policy: str, acc_dtype: torch.dtype,
    allow_retain_graph: bool, compute_input_grad: bool, compute_linear_weight_grad: bool, compute_linear_bias_grad: bool,
) -> Any:  # fmt: skip
    """Mean or sum of the losses, and its derivatives where they will be asked for."""
    steps = _steps(x, batch_chunk_size)
    if steps is None or label_smoothing:
        return NotImplemented
    index, each = _weights(target, weight, ignore_index, acc_dtype)
    if reduction == "mean":
        total = each.sum()
        each = each / torch.where(total == 0, torch.nan, total)
    loss = x.new_zeros((), dtype=acc_dtype)
    by_input: list[Tensor] = []
    by_matrix, by_bias = x.new_zeros((), dtype=acc_dtype), x.new_zeros((), dtype=acc_dtype)
    for rows in steps:
        logs = _logs(x[rows], matrix, bias, acc_dtype)
        own, shares = index[rows, None], each[rows, None]
        loss = loss - (logs.gather(1, own) * shares).sum()
        # softmax less what is right, by the weight of the row
        slope = (logs.exp() * shares).scatter_add(1, own, -shares)
        if compute_input_grad:
            by_input.append(slope @ matrix.to(acc_dtype))
        if compute_linear_weight_grad:
            by_matrix = by_matrix + slope.T @ x[rows].to(acc_dtype)
        if compute_linear_bias_grad:
            by_bias = by_bias + slope.sum(0)
    return (
        loss.to(x.dtype),
        torch.cat(by_input).to(x.dtype) if compute_input_grad else x.new_empty((0, 0)),
        by_matrix.to(x.dtype) if compute_linear_weight_grad else x.new_empty((0, 0)),
        by_bias.to(x.dtype) if compute_linear_bias_grad else x.new_empty((0,)),
    )
