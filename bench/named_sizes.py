"""What a size that has only a name costs: each function compiled for all sizes, beside itself compiled for the one it is called with.

    python bench/named_sizes.py [--only TEXT] [--repeats N] [--json FILE]

Both run in this process, in turn, on one thread. A figure is the least of many calls of a turn; a ratio is the median over turns of the
named size's time by the fixed size's: 1 means that a name costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from report import Row, finish, microseconds, parser

import planish as pn
from planish import nn

_RANDOM: Final = np.random.default_rng(0)


def _numbers(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape, dtype=np.float32)


_WEIGHT: Final = pn.asarray(_numbers(256, 256))
_LINE: Final = pn.asarray(_numbers(16, 16, 5))
_KERNEL: Final = pn.asarray(_numbers(32, 16, 3, 3))
_DEPTHWISE: Final = pn.asarray(_numbers(16, 1, 3, 3))


class Case(NamedTuple):
    """A function of one array, the array's shape, and the bounds of its axes that have names."""

    function: Callable[[Any], Any]
    shape: tuple[int, ...]
    names: tuple[pn.Dim | None, ...]


_N: Final = pn.Dim("n", 8, 1 << 20)
_ROWS: Final = pn.Dim("rows", 8, 4096)
_SIDE: Final = pn.Dim("side", 8, 256)
_HIGH, _WIDE = pn.Dim("high", 8, 256), pn.Dim("wide", 8, 256)

_LONG: Final = ((100_000,), (_N,))
_TALL: Final = ((1000, 256), (_ROWS, None))
_BROAD: Final = ((256, 1000), (None, _ROWS))
_SQUARE: Final = ((200, 200), (_SIDE, _SIDE))
_BATCH: Final = ((16, 16, 32, 32), (pn.Dim("batch", 1, 64), None, None, None))
_PICTURE: Final = ((1, 16, 56, 56), (None, None, _HIGH, _WIDE))
_LAST: Final = ((8, 16, 1000), (None, None, pn.Dim("time", 16, 4096)))

CASES: Final[dict[str, Case]] = {
    "last element": Case(lambda x: x[-1], *_LONG),
    "tail": Case(lambda x: x[1:] + 1, *_LONG),
    "backwards": Case(lambda x: x[::-1] * 2, *_LONG),
    "every other": Case(lambda x: x[::2] + 1, *_LONG),
    "arange": Case(lambda x: x + pn.arange(x.shape[0]), *_LONG),
    "by a size": Case(lambda x: x / x.shape[0], *_LONG),
    "chain": Case(lambda x: pn.tanh(x * 2 + 1) * pn.exp(-x), *_LONG),
    "sum": Case(pn.sum, *_LONG),
    "mean and variance": Case(lambda x: (x - x.mean()) / pn.sqrt(x.var() + 1e-5), *_LONG),
    "difference": Case(pn.diff, *_LONG),
    "cumulative sum": Case(pn.cumsum, *_LONG),
    "sort": Case(pn.sort, *_LONG),
    "median": Case(pn.median, *_LONG),
    "quantile": Case(lambda x: pn.quantile(x, 0.3), *_LONG),
    "topk": Case(lambda x: pn.topk(x, 5), *_LONG),
    "argmax": Case(pn.argmax, *_LONG),
    "roll": Case(lambda x: pn.roll(x, 3), *_LONG),
    "mask by position": Case(lambda x: pn.where(pn.arange(x.shape[0]) < x.shape[0] - 1, x, 0), *_LONG),
    "softmax of rows": Case(nn.softmax, *_TALL),
    "softmax along a name": Case(nn.softmax, *_BROAD),
    "layer norm": Case(lambda x: nn.layer_norm(x, (256,)), *_TALL),
    "sum of columns": Case(lambda x: x.sum(axis=0), *_TALL),
    "transpose": Case(lambda x: x.T + 1, *_TALL),
    "product with weights": Case(lambda x: x @ _WEIGHT, *_TALL),
    "weights and gelu": Case(lambda x: nn.gelu(x @ _WEIGHT + 1), *_TALL),
    "product of a name": Case(lambda x: x.T @ x, *_TALL),
    "product to names": Case(lambda x: x @ x.T, *_SQUARE),
    "triangle of a product": Case(lambda x: pn.tril(x @ x.T), *_SQUARE),
    "attention": Case(lambda x: nn.scaled_dot_product_attention(x[None], x[None], x[None]), (200, 64), (_SIDE, None)),
    "causal attention": Case(
        lambda x: nn.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True), (200, 64), (_SIDE, None)
    ),
    "gather of rows": Case(lambda x: x[pn.arange(x.shape[0]) // 2], *_TALL),
    "convolution 1d": Case(lambda x: nn.conv1d(x, _LINE, padding=2), *_LAST),
    "convolution, named batch": Case(lambda x: nn.conv2d(x, _KERNEL, padding=1), *_BATCH),
    "convolution, named sides": Case(lambda x: nn.conv2d(x, _KERNEL, padding=1), *_PICTURE),
    "depthwise, named sides": Case(lambda x: nn.conv2d(x, _DEPTHWISE, padding=1, groups=16), *_PICTURE),
    "max pool, named sides": Case(lambda x: nn.max_pool2d(x, 2), *_PICTURE),
    "mean pool, named batch": Case(lambda x: x.mean(axis=(2, 3)), *_BATCH),
    "gradient of a loss": Case(pn.grad(lambda x: (nn.softmax(x @ _WEIGHT) ** 2).sum()), *_TALL),
}  # fmt: skip


def measured(name: str, repeats: int) -> Row:
    """One case: results compared, then both timed in turn."""
    case = CASES[name]
    x = pn.asarray(_numbers(*case.shape))
    fixed = pn.jit(case.function)
    named = pn.jit(case.function, dims={0: case.names})
    for ours, wanted in zip(pn.tree.leaves(named(x)), pn.tree.leaves(fixed(x)), strict=True):
        np.testing.assert_allclose(ours.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
    turns = [(microseconds(lambda: named(x)), microseconds(lambda: fixed(x))) for _ in range(repeats)]
    ratios = [ours / peer for ours, peer in turns]
    ratio = median(ratios)
    spread = max(abs(r - ratio) for r in ratios) / ratio
    return Row(
        name,
        x.size,
        median(t[0] for t in turns),
        "us",
        "fixed size",
        median(t[1] for t in turns),
        ratio,
        spread,
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", default="", help="the cases whose name has this text")
    given = options.parse_args()
    rows = []
    with pn.settings(threads=1):
        for name in CASES:
            if given.only not in name:
                continue
            rows.append(row := measured(name, given.repeats))
            print(
                f"{name:28} {row.ours:10.1f} us  fixed {row.peer:10.1f} us  {row.ratio:5.2f}  (±{row.spread:.0%})",
                flush=True,
            )
    if rows:
        ratios = [row.ratio for row in rows if row.ratio]
        print(f"{'geometric mean':28} {exp(fmean(map(log, ratios))):.2f}, worst {max(ratios):.2f}")
    finish(rows, given.json, shown=True)


if __name__ == "__main__":
    main()
