"""Connectionist temporal classification: the cost of a label sequence whose places in time nobody knows (Graves et al., 2006)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planish.dtypes import int64
from planish.errors import DTypeError, ShapeError
from planish.frontend.control import scan
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.nn.arguments import floating

_NEVER = -1e30
"""The logarithm of a probability that is 0: finite, so that its derivatives are numbers."""


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log of the summed probabilities of all ways to say the targets in (T, N, C) log probabilities, blanks between them.

    Targets are (N, S), or all of them one after the other. The mean is over examples, each divided by its number of labels. A target that
    is too long for its input costs inf, or nothing with `zero_infinity`. (T, C) is one example.
    """
    op = "ctc_loss"
    floating(op, log_probs)
    alone = log_probs.ndim == 2
    if alone:
        log_probs = fn.expand_dims(log_probs, axis=1)
    if log_probs.ndim != 3 or not 0 <= blank < log_probs.shape[2]:
        raise ShapeError.of(op, f"log_probs are {log_probs.shape}, the blank is {blank}", "(T, N, C), with the blank below C"
        )  # fmt: skip
    steps, batch, _ = log_probs.shape
    inputs, labels = (_lengths(op, x, batch) for x in (input_lengths, target_lengths))
    rows = _rows(op, targets, labels, batch)
    size = rows.shape[1]
    # blank, label, blank, label, …, blank
    blanks = fn.full((batch, size), blank, dtype=int64)
    line = fn.stack([blanks, rows], axis=2).reshape((batch, 2 * size))
    line = fn.concat([line, fn.full((batch, 1), blank, dtype=int64)], axis=1)
    said = fn.take_along_axis(log_probs, fn.broadcast_to(line, (steps, *line.shape)), axis=2)
    same = fn.concat(
        [fn.ones((batch, min(2, 2 * size + 1)), dtype=said.dtype) > 0, line[:, 2:] == line[:, :-2]], axis=1
    )
    skips = ~same & (line != blank)
    place = fn.arange(2 * size + 1)
    start = fn.where(place < 2, said[0], _NEVER)

    def step(ways: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, None]:
        number, now = given
        before = _moved(ways, 1)
        jumped = fn.where(skips, _moved(ways, 2), _NEVER)
        largest = fn.maximum(fn.maximum(ways, before), jumped)
        total = fn.exp(ways - largest) + fn.exp(before - largest) + fn.exp(jumped - largest)
        return fn.where(fn.expand_dims(number < inputs, axis=1), fn.log(total) + largest + now, ways), None

    ways, _ = scan(step, start, (fn.arange(1, steps), said[1:]))
    last = fn.take_along_axis(ways, fn.expand_dims(2 * labels, axis=1), axis=1)
    label = fn.take_along_axis(ways, fn.expand_dims(fn.maximum(2 * labels - 1, 0), axis=1), axis=1)
    ends = fn.where(fn.expand_dims(labels > 0, axis=1), fn.logaddexp(last, label), last)
    loss = -fn.squeeze(ends, 1)
    possible = loss < -_NEVER / 2
    loss = fn.where(possible, loss, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        return fn.mean(loss / fn.maximum(labels, 1).astype(loss.dtype))
    if reduction == "sum":
        return fn.sum(loss)
    if reduction != "none":
        raise ShapeError.of(op, f"there is no reduction {reduction!r}", 'one of "mean", "sum", "none"')
    return fn.squeeze(loss, 0) if alone else loss


def _moved(ways: Tensor, by: int) -> Tensor:
    """Each place has what the one so far before it had."""
    count = min(by, ways.shape[1])
    none = fn.full((ways.shape[0], count), _NEVER, dtype=ways.dtype)
    return fn.concat([none, ways[:, : ways.shape[1] - count]], axis=1)


def _lengths(op: str, given: Tensor | Sequence[int], batch: int) -> Tensor:
    lengths = (given if isinstance(given, Tensor) else fn.asarray(np.asarray(given, np.int64))).reshape((-1,))
    if not lengths.dtype.is_int or lengths.shape != (batch,):
        raise DTypeError.of(op, f"lengths are {lengths.dtype.name}{list(lengths.shape)}", f"{batch} integers are expected"
        )  # fmt: skip
    return lengths.astype(int64)


def _rows(op: str, targets: Tensor, lengths: Tensor, batch: int) -> Tensor:
    """Targets as (N, S)."""
    if not targets.dtype.is_int or targets.ndim not in (1, 2):
        raise DTypeError.of(op, f"targets are {targets.dtype.name}{list(targets.shape)}", "integers, (N, S) or one after the other"
        )  # fmt: skip
    wide = targets.astype(int64)
    if targets.ndim == 2:
        if targets.shape[0] != batch:
            raise ShapeError.of(op, f"there are {targets.shape[0]} rows of targets for {batch} examples")
        return wide
    known = lengths._known
    if known is None:
        raise ShapeError.of(
            op, "targets one after the other need lengths that are known", "pad them to (N, S)"
        )
    longest = int(known.max(initial=0))
    starts = np.concatenate([[0], np.cumsum(known)[:-1]])[:, None]
    index = np.minimum(starts + np.arange(longest), max(targets.shape[0] - 1, 0))
    return fn.take(wide, fn.asarray(index.reshape(-1)), axis=0).reshape((batch, longest))


__all__ = ["ctc_loss"]
