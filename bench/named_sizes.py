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
_THIN: Final = pn.asarray(_numbers(384, 384))


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
_SIDES: Final = (None, None, pn.Dim("high", 8, 512), pn.Dim("wide", 8, 512))
_ALL: Final = (pn.Dim("batch", 1, 64), None, pn.Dim("high", 8, 512), pn.Dim("wide", 8, 512))
_FEW: Final = pn.Dim("n", 1, 512)
_TOKENS: Final = (pn.Dim("batch", 1, 64), pn.Dim("length", 8, 512), None)


def _depthwise(side: int, taps: int, stride: int) -> Case:
    weights = pn.asarray(_numbers(64, 1, taps, taps))
    return Case(
        lambda x: nn.conv2d(x, weights, stride=stride, padding=taps // 2, groups=64),
        (1, 64, side, side),
        _SIDES,
    )


def _convolved(
    side: int, taps: int, stride: int, names: tuple[pn.Dim | None, ...] = _SIDES, batch: int = 1
) -> Case:
    weights = pn.asarray(_numbers(32, 32, taps, taps))
    return Case(
        lambda x: nn.conv2d(x, weights, stride=stride, padding=taps // 2), (batch, 32, side, side), names
    )


def _transposed(side: int, taps: int) -> Case:
    weights = pn.asarray(_numbers(32, 16, taps, taps))
    return Case(
        lambda x: nn.conv_transpose2d(x, weights, stride=2, padding=taps // 2 - 1),
        (1, 32, side, side),
        _SIDES,
    )


def _basic_block(x: Any, weights: list[Any], stride: int = 1) -> Any:
    """Two convolutions and a sum: what ResNet-18 is made of (norms folded into them)."""
    y = nn.relu(nn.conv2d(x, weights[0], weights[1], stride=stride, padding=1))
    if stride > 1:
        x = nn.conv2d(x, weights[4], stride=stride)
    return nn.relu(nn.conv2d(y, weights[2], weights[3], padding=1) + x)


def _resnet(side: int, channels: int, stride: int, names: tuple[pn.Dim | None, ...], batch: int = 1) -> Case:
    out = channels * stride
    shapes = [(out, channels, 3, 3), (out,), (out, out, 3, 3), (out,), (out, channels, 1, 1)]
    weights = [pn.asarray(0.1 * _numbers(*shape)) for shape in shapes]
    return Case(lambda x: _basic_block(x, weights, stride), (batch, channels, side, side), names)


def _transformer(width: int, heads: int) -> Callable[[Any], Any]:
    """A layer as in BERT, ViT and Whisper: attention of several heads, then two products around a gelu."""
    shapes = [
        (width, 3 * width),
        (3 * width,),
        (width, width),
        (width,),
        (width, 4 * width),
        (4 * width, width),
    ]
    qkv, bias, out, shift, up, down = (pn.asarray(0.1 * _numbers(*shape)) for shape in shapes)

    def layer(x: Any) -> Any:
        batch, length, _ = x.shape
        y = nn.layer_norm(x, (width,)) @ qkv + bias
        q, k, v = (y[..., i * width : (i + 1) * width] for i in range(3))
        q, k, v = (
            pn.permute_dims(pn.reshape(t, (batch, length, heads, -1)), (0, 2, 1, 3)) for t in (q, k, v)
        )
        seen = pn.permute_dims(nn.scaled_dot_product_attention(q, k, v), (0, 2, 1, 3))
        x = x + pn.reshape(seen, (batch, length, width)) @ out + shift
        return x + nn.gelu(nn.layer_norm(x, (width,)) @ up) @ down

    return layer


def _vision(batch: int) -> Case:
    """Patches of a picture, then a layer: ViT, of a named batch."""
    patch, layer = pn.asarray(0.1 * _numbers(192, 3, 16, 16)), _transformer(192, 3)

    def run(x: Any) -> Any:
        y = nn.conv2d(x, patch, stride=16)
        return layer(pn.permute_dims(pn.reshape(y, (x.shape[0], 192, -1)), (0, 2, 1)))

    return Case(run, (batch, 3, 224, 224), (pn.Dim("batch", 1, 16), None, None, None))


def _speech(length: int, names: tuple[pn.Dim | None, ...], batch: int = 1) -> Case:
    """Two convolutions along time, then a layer: the encoder of Whisper."""
    first, second = pn.asarray(0.1 * _numbers(384, 80, 3)), pn.asarray(0.1 * _numbers(384, 384, 3))
    layer = _transformer(384, 6)

    def run(x: Any) -> Any:
        y = nn.gelu(nn.conv1d(x, first, padding=1))
        y = nn.gelu(nn.conv1d(y, second, stride=2, padding=1))
        return layer(pn.permute_dims(y, (0, 2, 1)))

    return Case(run, (batch, 80, length), names)


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
    **{f"product of {n} rows": Case(lambda x: x @ _THIN, (n, 384), (_FEW, None)) for n in (1, 2, 3, 8, 100, 511)},
    **{
        f"depthwise {taps}x{taps}/{stride} of {side}": _depthwise(side, taps, stride)
        for taps, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1))
        for side in (8, 14, 56, 112)
    },
    **{f"3x3 of {side}": _convolved(side, 3, 1) for side in (8, 14, 56)},
    **{f"3x3/2 of {side}": _convolved(side, 3, 2) for side in (14, 56)},
    **{f"7x7/2 of {side}": _convolved(side, 7, 2) for side in (14, 56)},
    **{f"3x3 of {n} x {side}, all named": _convolved(side, 3, 1, _ALL, n) for n, side in ((1, 14), (4, 14), (2, 56))},
    **{f"transposed {taps}x{taps}/2 of {side}": _transposed(side, taps) for taps in (2, 4) for side in (8, 28, 64)},
    **{
        f"ResNet block of {c}/{stride}, {side}, named {what}": _resnet(side, c, stride, names, n)
        for what, names, n in (("batch", (_BATCH[1][0], None, None, None), 2), ("sides", _SIDES, 1))
        for c, side, stride in ((64, 56, 1), (64, 56, 2), (256, 14, 1), (256, 14, 2))
    },
    **{
        f"BERT layer of {n} x {length}": Case(_transformer(256, 4), (n, length, 256), _TOKENS)
        for n, length in ((1, 16), (2, 77), (8, 128))
    },
    **{f"ViT patches and layer of {n}": _vision(n) for n in (1, 4)},
    "Whisper encoder, named batch": _speech(600, (pn.Dim("batch", 1, 8), None, None)),
    "Whisper encoder, named time": _speech(600, (None, None, pn.Dim("time", 64, 3000))),
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
                f"{name:36} {row.ours:10.1f} us  fixed {row.peer:10.1f} us  {row.ratio:5.2f}  (±{row.spread:.0%})",
                flush=True,
            )
    if rows:
        ratios = [row.ratio for row in rows if row.ratio]
        print(f"{'geometric mean':36} {exp(fmean(map(log, ratios))):.2f}, worst {max(ratios):.2f}")
    finish(rows, given.json, shown=True)


if __name__ == "__main__":
    main()
