"""Programs whose kernels the cost model of GPUs is held against: of every kind that has a template, in sizes of no other benchmark.

As in `kernels.py`, a row is a program and the shapes of its arguments, several sets of them; here each is looked at in several dtypes. Most are
large enough to fill a GPU, some are not: what a launch costs, and who is left without work, is to be seen too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import planish as pn
from kit.kernels import Shape, _alike, _each
from planish.nn import functional as f

F32, BF16, F16 = "float32", "bfloat16", "float16"
BOTH = (F32, BF16)


class Row(NamedTuple):
    """A program, the shapes of its arguments, and their dtypes; `indices`: arguments that are places, below a number."""

    name: str
    function: Callable[..., Any]
    sizes: tuple[tuple[Shape, ...], ...]
    dtypes: tuple[str, ...] = BOTH
    indices: tuple[tuple[int, int], ...] = ()
    stored: tuple[tuple[int, str], ...] = ()
    """Arguments that have a dtype of their own."""


def _products(*sizes: tuple[int, int, int], turned: bool = False) -> tuple[tuple[Shape, ...], ...]:
    return tuple(((m, k), (n, k) if turned else (k, n)) for m, n, k in sizes)


def _last(*sizes: tuple[int, int, int, int, int]) -> tuple[tuple[Shape, ...], ...]:
    """Images with channels first, of batch, channels, side, results and taps."""
    return tuple(((n, c, s, s), (o, c, t, t)) for n, c, s, o, t in sizes)


def _heads(*sizes: tuple[int, int, int, int, int]) -> tuple[tuple[Shape, ...], ...]:
    """Of batch, heads, queries, keys and width."""
    return tuple(((b, h, q, w), (b, h, k, w), (b, h, k, w)) for b, h, q, k, w in sizes)


def _dequantized(w: Any, x: Any, s: Any) -> Any:
    """A product with bytes that have a scale for each group of 128."""
    wide = (w.astype(s.dtype) - 128.0).reshape(w.shape[0], w.shape[1] // 128, 128)
    return x @ (wide * s[:, :, None]).reshape(w.shape).mT


def _conv(x: Any, w: Any, **how: Any) -> Any:
    return f.conv2d(x, w, **how)


def _depthwise(x: Any, w: Any) -> Any:
    return f.conv2d(x, w, padding=1, groups=x.shape[1])


def _in_groups(x: Any, w: Any) -> Any:
    return f.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1])


def _channels_last(x: Any, w: Any) -> Any:
    """A convolution of pixels whose channels lie together."""
    moved = f.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), w, padding=1)
    return pn.permute_dims(moved, (0, 2, 3, 1))


def _added(table: Any, chosen: Any, rows: Any) -> Any:
    return table.at[chosen].add(rows)


ELEMENTWISE = (
    Row("a * x + y", lambda x, y: 1.7 * x + y, _alike(2, (1200, 1000), (5000, 3011), (150, 90))),
    Row("bias and relu", lambda x, b: pn.maximum(x + b, 0.0), (((9000, 1100), (1100,)), ((700, 130), (130,)))),
    Row("outer sum", lambda x, y: x[:, None] + y[None, :], (((6100,), (3300,)),), (F32,)),
    Row("gelu", f.gelu, _each((5100, 3100), (600, 700))),
    Row("sines", lambda x: pn.sin(x) * pn.cos(x), _each((3000, 2100),), (F32,)),
    Row("where", lambda x, y: pn.where(x > y, x * x, y), _alike(2, (3100, 4300)), (F16,)),
    Row("doubles", lambda x, y: x * y + 1.0, _alike(2, (2100, 1500)), ("float64",)),
    Row("bytes", lambda x, y: x + y * 3, _alike(2, (5000, 4100)), ("int8",)),
    Row("narrowed", lambda x: (x * 0.5).astype("bfloat16"), _each((4100, 3300)), (F32,)),
    Row("column scale", lambda x, b: x * b, (((6100, 1900), (6100, 1)),)),
    Row("three to one", lambda x, y, z: x * y / (x + z), _alike(3, (4100, 1700)), (F32, F16)),
)  # fmt: skip

REDUCTIONS = (
    Row("sum of rows", lambda x: pn.sum(x, axis=1), _each((3000, 3333), (200, 60000), (60000, 333), (300000, 40), (1000, 1500))),
    Row("sum of columns", lambda x: pn.sum(x, axis=0), _each((3333, 3000), (60000, 200), (333, 60000), (100000, 72), (1500, 900), (90, 700))),
    Row("sum of all", pn.sum, _each((7000, 1900), (900, 700))),
    Row("max of rows", lambda x: pn.max(x, axis=1), _each((9000, 1100), (700, 300))),
    Row("argmax", lambda x: pn.argmax(x, axis=1), _each((9000, 1300), (300, 32000)), (F32, F16)),
    Row("mean of the middle", lambda x: pn.mean(x, axis=1), _each((60, 300, 1100), (800, 49, 300), (30, 3000, 90), (2000, 9, 333))),
    Row("sum of the outer two", lambda x: pn.sum(x, axis=(0, 2)), _each((64, 90, 1900), (16, 300, 777))),
    Row("sum of the last two", lambda x: pn.sum(x, axis=(1, 2)), _each((900, 56, 60), (64, 300, 300))),
    Row("variance", lambda x: pn.var(x, axis=1), _each((5000, 1700), (30000, 120))),
    Row("rows dot rows", lambda x, y: pn.sum(x * y, axis=1), _alike(2, (9000, 600), (300, 20000))),
    Row("distances", lambda x, y: pn.sum(pn.abs(x[:, None] - y[None]), axis=-1), (((900, 48), (700, 48)), ((3000, 30), (2000, 30))), (F32,)),
    Row("softmax", lambda x: f.softmax(x, axis=-1), _each((9000, 500), (3000, 7000), (40000, 77), (100, 30000), (300, 1000))),
    Row("softmax of columns", lambda x: f.softmax(x, axis=0), _each((500, 9000), (3000, 400)), (F32,)),
    Row("log softmax", lambda x: f.log_softmax(x, axis=-1), _each((4000, 3000),)),
    Row("layer norm", lambda x, g, b: f.layer_norm(x, (x.shape[-1],), g, b), (((9000, 900), (900,), (900,)), ((3000, 5120), (5120,), (5120,)), ((50000, 96), (96,), (96,)))),
    Row("rms norm", lambda x, g: x / pn.sqrt(pn.mean(x * x, axis=-1, keepdims=True) + 1e-5) * g, (((7000, 2560), (2560,)),)),
    Row("batch norm", lambda x: (x - pn.mean(x, axis=(0, 2), keepdims=True)) / pn.sqrt(pn.var(x, axis=(0, 2), keepdims=True) + 1e-5), _each((32, 90, 1900)), (F32,)),
    Row("group norm", lambda x: f.group_norm(x, 10), _each((20, 90, 40, 40),)),
    Row("all positive", lambda x: pn.all(x > -2.0, axis=1), _each((8000, 900)), (F32,)),
    Row("sum of integers", lambda x: pn.sum(x, axis=1), _each((9000, 1000)), ("int32",)),
    Row("sum of doubles", lambda x: pn.sum(x, axis=0), _each((3000, 1100)), ("float64",)),
    Row("two sums", lambda x: (pn.sum(x, axis=0), pn.sum(x * x, axis=0)), _each((20000, 300)), (F32,)),
)  # fmt: skip

CONTRACTIONS = (
    Row("product", lambda x, y: x @ y, _products((1700, 1300, 900), (900, 3000, 700), (3100, 2500, 1900), (130, 5000, 2600), (6000, 96, 1500), (300, 300, 9000), (520, 640, 200), (37, 3000, 1100)), (F32, BF16)),
    Row("product of halves", lambda x, y: x @ y, _products((2300, 1100, 1100), (700, 500, 300)), (F16,)),
    Row("product by a transposed", lambda x, y: x @ y.mT, _products((1500, 1700, 1300), (250, 7000, 1800), (4000, 320, 2000), turned=True)),
    Row("transposed by product", lambda x, y: x.mT @ y, (((1300, 900), (1300, 1100)), ((5000, 300), (5000, 400)))),
    Row("product and bias", lambda x, y, b: f.gelu(x @ y + b), (((2100, 800), (800, 1700), (1700,)),)),
    Row("products", lambda x, y: x @ y, (((24, 300, 200), (24, 200, 400)), ((900, 60, 64), (900, 64, 60)), ((3000, 17, 17), (3000, 17, 17)), ((40, 500, 64), (40, 64, 500)))),
    Row("few rows", lambda x, w: x @ w.mT, tuple(((rows, k), (n, k)) for rows, n, k in ((1, 5000, 3000), (2, 7000, 2048), (4, 3000, 5120), (7, 6000, 3072), (16, 9000, 2048), (3, 1000, 512)))),
    Row("few rows of a turned", lambda x, w: x @ w, tuple(((rows, k), (k, n)) for rows, n, k in ((1, 5000, 3000), (3, 7000, 2048), (12, 5120, 3072)))),
    Row("few rows of bytes", _dequantized, tuple(((n, k), (rows, k), (n, k // 128)) for rows, n, k in ((1, 5120, 3072), (3, 6144, 2048), (8, 5120, 2560), (14, 7168, 2048))), BOTH, stored=((0, "uint8"),)),
    Row("matrix by vector", lambda x, y: x @ y, (((9000, 1700), (1700,)), ((300, 30000), (30000,)), ((90000, 60), (60,)))),
    Row("vector by matrix", lambda x, y: x @ y, (((3700,), (3700, 2900)), ((60000,), (60000, 100)))),
    Row("product of doubles", lambda x, y: x @ y, _products((900, 800, 700)), ("float64",)),
    Row("product of integers", lambda x, y: x @ y, _products((900, 800, 700)), ("int32",)),
    Row("product of bytes", lambda x, y: pn.matmul(x.astype("int32"), y.mT.astype("int32")), _products((1500, 1300, 1100), turned=True), ("int8",)),
    Row("exp by product", lambda x, y: pn.exp(x) @ y, _products((1500, 1000, 700)), (F32, BF16)),
    Row("scores", lambda q, k: f.softmax(q @ k.mT * 0.1, axis=-1), (((20, 300, 64), (20, 400, 64)), ((64, 128, 40), (64, 128, 40)))),
    Row("attention", f.scaled_dot_product_attention, _heads((2, 12, 700, 700, 64), (3, 10, 300, 900, 128), (6, 20, 49, 49, 32), (4, 16, 1, 3000, 128)), (BF16, F32)),
    Row("bilinear form", lambda x, y: pn.einsum("bi,ij,bj->b", x, y, x), (((1000, 300), (300, 300)),), (F32,)),
    Row("einsum abc,cd", lambda x, y: pn.einsum("abc,dc->adb", x, y), (((60, 200, 300), (170, 300)),)),
)  # fmt: skip

WINDOWS = (
    Row("convolution", partial(_conv, padding=1), _last((16, 40, 50, 70, 3), (8, 3, 150, 40, 3), (4, 130, 28, 140, 3), (32, 24, 33, 24, 3)), (F32, BF16)),
    Row("strided convolution", partial(_conv, stride=2, padding=1), _last((16, 40, 66, 96, 3), (8, 3, 180, 48, 5)), BOTH),
    Row("convolution of channels that lie together", _channels_last, (((8, 40, 44, 72), (80, 72, 3, 3)),), (BF16, F32)),
    Row("convolution of points", f.conv2d, _last((12, 90, 40, 130, 1), (4, 300, 20, 200, 1))),
    Row("depthwise convolution", _depthwise, (((16, 90, 40, 40), (90, 1, 3, 3)), ((4, 300, 14, 14), (300, 1, 3, 3)), ((8, 48, 110, 110), (48, 1, 3, 3)))),
    Row("convolution in groups", _in_groups, (((8, 60, 50, 50), (60, 4, 3, 3)),)),
    Row("convolution of a row", lambda x, w: f.conv1d(x, w, padding=2), (((16, 40, 3000), (60, 40, 5)),)),
    Row("max pool", lambda x: f.max_pool2d(x, 2), _each((20, 90, 100, 100), (2, 30, 50, 50))),
    Row("overlapping max pool", lambda x: f.max_pool2d(x, 3, 2, 1), _each((16, 48, 111, 111)), BOTH),
    Row("mean pool", lambda x: f.avg_pool2d(x, 3), _each((20, 60, 99, 99)), BOTH),
    Row("mean of an image", lambda x: pn.mean(x, axis=(2, 3)), _each((30, 500, 7, 7), (16, 300, 28, 28))),
    Row("stencil", lambda x: 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]), _each((4002, 3102)), BOTH),
    Row("moving mean", lambda x: sum(x[:, n : n + x.shape[1] - 4] for n in range(5)) * 0.2, _each((3000, 3900)), (F32,)),
)  # fmt: skip

MOVES = (
    Row("transpose", lambda x: x.mT + 0.0, _each((3000, 4110), (20000, 90), (90, 20000), (700, 500))),
    Row("transpose and add", lambda x, y: x.mT + y, (((3100, 2700), (2700, 3100)),)),
    Row("heads", lambda x: pn.permute_dims(x, (0, 2, 1, 3)) * 1.5, _each((16, 500, 12, 64), (90, 40, 8, 33))),
    Row("channels last", lambda x: pn.permute_dims(x, (0, 2, 3, 1)) + 1.0, _each((20, 64, 60, 60), (8, 3, 300, 300))),
    Row("channels first", lambda x: pn.permute_dims(x, (0, 3, 1, 2)) + 1.0, _each((20, 60, 60, 64),)),
    Row("flip", lambda x: pn.flip(x, axis=1) * 2.0, _each((5000, 3000)), BOTH),
    Row("concatenate", lambda x, y: pn.concat([x, y * 2.0], axis=1), (((9000, 500), (9000, 301)),)),
    Row("pad", lambda x: pn.pad(x, ((3, 3), (5, 5))) + 1.0, _each((4000, 2900)), (F32,)),
    Row("every second", lambda x: x[:, ::2] * x[:, 1::2], _each((5000, 3200)), BOTH),
    Row("repeat", lambda x: pn.repeat(x, 2, axis=1) + 1.0, _each((3000, 1700)), (F32,)),
    Row("triangle", lambda x: pn.tril(x) * 2.0, _each((3900, 3900)), (F32,)),
    Row("take rows", lambda x, i: pn.take(x, i, axis=0), (((9000, 600), (7000,)), ((30000, 64), (90000,)), ((50000, 1536), (3000,))), BOTH, ((1, 9000),)),
    Row("add to rows", _added, (((5000, 300), (3000,), (3000, 300)), ((200, 1000), (9000,), (9000, 1000)), ((90000, 64), (20000,), (20000, 64))), BOTH, ((1, 200),)),
)  # fmt: skip

SCANS = (
    Row("running sums of rows", lambda x: pn.cumulative_sum(x, axis=1), _each((3000, 1700), (20000, 130))),
    Row("running sums of columns", lambda x: pn.cumulative_sum(x, axis=0), _each((1700, 3000), (500, 20000))),
    Row("weighted running sums", lambda x, y: pn.cumulative_sum(x * y, axis=1) * 0.5, _alike(2, (5000, 900)), (F32,)),
)  # fmt: skip

GRADIENTS = (
    Row("gradient of a softmax", pn.grad(lambda x: pn.sum(f.softmax(x, axis=-1) ** 2)), _each((5000, 900)), (F32,)),
    Row("gradient of a norm", pn.grad(lambda g, x: pn.sum(f.layer_norm(x, (x.shape[-1],), g, g) ** 2)), (((700,), (9000, 700)),), (F32,)),
    Row("gradient of a product", pn.grad(lambda x, y: pn.sum(pn.tanh(x @ y))), (((1100, 700), (700, 900)),), BOTH),
    Row("gradient of a convolution", pn.grad(lambda w, x: pn.sum(f.conv2d(x, w, padding=1) ** 2)), (((48, 24, 3, 3), (8, 24, 56, 56)),), (F32, BF16)),
    Row("gradient of a lookup", pn.grad(lambda x, i: pn.sum(pn.take(x, i, axis=0) ** 2)), (((5000, 300), (7000,)),), (F32,), ((1, 5000),)),
)  # fmt: skip

ROWS = (*ELEMENTWISE, *REDUCTIONS, *CONTRACTIONS, *WINDOWS, *MOVES, *SCANS, *GRADIENTS)
FAMILIES = {
    row.name: name
    for name, rows in (
        ("elementwise", ELEMENTWISE), ("reductions", REDUCTIONS), ("contractions", CONTRACTIONS), ("windows", WINDOWS),
        ("moves", MOVES), ("scans", SCANS), ("gradients", GRADIENTS),
    )
    for row in rows
}  # fmt: skip


class Program(NamedTuple):
    """A program with its arguments; `below`: of whole numbers that are places, how many there are."""

    name: str
    function: Callable[..., Any]
    arguments: list[Any]
    below: int = 64


def programs() -> Iterator[Program]:
    """Every program, by name."""
    for row in ROWS:
        places, stored = dict(row.indices), dict(row.stored)
        for shapes in row.sizes:
            for dtype in row.dtypes:
                given = [
                    pn.zeros(shape, dtype="int32" if n in places else stored.get(n, dtype))
                    for n, shape in enumerate(shapes)
                ]
                name = f"{row.name} {', '.join('x'.join(map(str, shape)) for shape in shapes)} {dtype}"
                yield Program(name, row.function, given, max(places.values(), default=64))
