"""Programs whose kernels the cost model is held against: of every kind that a schedule is chosen for, in sizes of no other benchmark.

A row is a program and the shapes of its arguments, several sets of them; what it is cut into by the planner are the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import planish as pn
from planish.nn import functional as f

Shape = tuple[int, ...]


class Row(NamedTuple):
    """A program, and the shapes of its arguments, once or several times."""

    name: str
    function: Callable[..., Any]
    sizes: tuple[tuple[Shape, ...], ...]
    dtype: str = "float32"


def _each(*shapes: Shape) -> tuple[tuple[Shape, ...], ...]:
    """Programs of one argument."""
    return tuple((shape,) for shape in shapes)


def _alike(count: int, *shapes: Shape) -> tuple[tuple[Shape, ...], ...]:
    """Programs of so many arguments of the same shape."""
    return tuple((shape,) * count for shape in shapes)


def _products(*sizes: tuple[int, int, int]) -> tuple[tuple[Shape, ...], ...]:
    return tuple(((m, k), (k, n)) for m, n, k in sizes)


def _images(*sizes: tuple[int, int, int, int, int]) -> tuple[tuple[Shape, ...], ...]:
    """Of batch, channels, side, results and taps."""
    return tuple(((n, c, s, s), (o, c, t, t)) for n, c, s, o, t in sizes)


ELEMENTWISE = (
    Row("a * x + y", lambda x, y: 1.7 * x + y, _alike(2, (1000,), (40, 900), (311, 1021), (1500, 1100))),
    Row("x * y / (x + z)", lambda x, y, z: x * y / (x + z), _alike(3, (5000,), (217, 333), (1200, 700))),
    Row("bias and relu", lambda x, b: pn.maximum(x + b, 0.0), (((130, 300), (300,)), ((900, 1100), (1100,)))),
    Row("column scale", lambda x, b: x * b, (((200, 257), (200, 1)), ((1100, 900), (1100, 1)))),
    Row("outer sum", lambda x, y: x[:, None] + y[None, :], (((300,), (411,)), ((1300,), (1000,)))),
    Row("clip", lambda x: pn.clip(x, -0.5, 0.5), _each((700, 90), (3000, 500))),
    Row("where", lambda x, y: pn.where(x > y, x * x, y), _alike(2, (313, 200), (1000, 1300))),
    Row("polynomial", lambda x: ((x * 0.3 + 0.2) * x - 0.5) * x + 1.0, _each((90, 110), (2000, 700))),
    Row("gelu", f.gelu, _each((60, 333), (900, 700))),
    Row("silu", f.silu, _each((128, 200), (1100, 512))),
    Row("exp and log", lambda x: pn.log(pn.exp(x) + 1.0), _each((70, 300), (400, 900))),
    Row("sines", lambda x: pn.sin(x) * pn.cos(x), _each((77, 200), (300, 1000))),
    Row("tanh", lambda x: pn.tanh(x * 0.7), _each((100, 128), (700, 700))),
    Row("roots", lambda x: pn.sqrt(pn.abs(x)) + 1.0 / (pn.abs(x) + 2.0), _each((99, 310), (900, 1000))),
    Row("power", lambda x: pn.abs(x) ** 1.3, _each((60, 100), (200, 900))),
    Row("doubles", lambda x, y: x * y + 1.0, _alike(2, (200, 300), (1100, 500)), "float64"),
    Row("integers", lambda x, y: (x * 3 + y) ^ (y >> 2), _alike(2, (110, 500), (1000, 900)), "int32"),
    Row("bytes", lambda x, y: x + y * 3, _alike(2, (300, 511), (1500, 1024)), "int8"),
    Row("remainders", lambda x: x % 7 + x // 3, _each((50, 400)), "int32"),
    Row("widened", lambda x: x.astype("float32") * 0.5, _each((400, 300), (1600, 700)), "int8"),
    Row("narrowed", lambda x: (x * 0.5).astype("bfloat16"), _each((300, 500), (1500, 800))),
)  # fmt: skip

REDUCTIONS = (
    Row("sum of rows", lambda x: pn.sum(x, axis=1), _each((100, 90), (37, 5000), (3000, 333), (1000, 1500))),
    Row("sum of columns", lambda x: pn.sum(x, axis=0), _each((90, 100), (5000, 37), (333, 3000), (1500, 900))),
    Row("sum", pn.sum, _each((3000,), (700, 900), (2000, 1200))),
    Row("max of rows", lambda x: pn.max(x, axis=1), _each((300, 200), (900, 1100))),
    Row("max of columns", lambda x: pn.max(x, axis=0), _each((200, 300), (1100, 900))),
    Row("argmax", lambda x: pn.argmax(x, axis=1), _each((120, 700), (900, 300))),
    Row("mean of the middle", lambda x: pn.mean(x, axis=1), _each((20, 50, 60), (30, 300, 110), (200, 9, 333))),
    Row("sum of the outer two", lambda x: pn.sum(x, axis=(0, 2)), _each((16, 40, 90), (12, 100, 700))),
    Row("variance", lambda x: pn.var(x, axis=1), _each((200, 300), (1000, 700))),
    Row("norm", lambda x: pn.sqrt(pn.sum(x * x, axis=1)), _each((333, 250), (900, 900))),
    Row("dot", lambda x, y: pn.sum(x * y), _alike(2, (5000,), (900000,))),
    Row("rows dot rows", lambda x, y: pn.sum(x * y, axis=1), _alike(2, (300, 77), (1000, 600))),
    Row("distances", lambda x, y: pn.sum(pn.abs(x[:, None] - y[None]), axis=-1), (((90, 48), (70, 48)), ((300, 30), (200, 30)))),
    Row("softmax", lambda x: f.softmax(x, axis=-1), _each((200, 100), (50, 2000), (700, 500))),
    Row("softmax of columns", lambda x: f.softmax(x, axis=0), _each((100, 200), (500, 700))),
    Row("log softmax", lambda x: f.log_softmax(x, axis=-1), _each((300, 130), (400, 1000))),
    Row("layer norm", lambda x, g, b: f.layer_norm(x, (x.shape[-1],), g, b), (((200, 300), (300,), (300,)), ((900, 500), (500,), (500,)))),
    Row("rms norm", lambda x, g: x / pn.sqrt(pn.mean(x * x, axis=-1, keepdims=True) + 1e-5) * g, (((150, 200), (200,)), ((700, 900), (900,)))),
    Row("squared error", lambda x, y: pn.mean((x - y) ** 2), _alike(2, (130, 400), (900, 1000))),
    Row("all positive", lambda x: pn.all(x > -2.0, axis=1), _each((300, 400), (800, 900))),
    Row("sum of integers", lambda x: pn.sum(x, axis=1), _each((300, 311), (900, 1000)), "int32"),
    Row("sum of doubles", lambda x: pn.sum(x, axis=0), _each((300, 311), (900, 700)), "float64"),
    Row("sum of halves", lambda x: pn.sum(x, axis=1), _each((200, 500), (900, 1000)), "bfloat16"),
)  # fmt: skip

CONTRACTIONS = (
    Row("product", lambda x, y: x @ y, _products(
        (37, 50, 20), (64, 80, 100), (100, 100, 100), (200, 120, 333), (250, 300, 200), (17, 700, 300), (700, 24, 90),
        (5, 600, 500), (330, 330, 330), (130, 1000, 64), (48, 48, 3000), (90, 513, 257),
    )),
    Row("product by a transposed", lambda x, y: x @ y.mT, (((60, 90), (70, 90)), ((200, 150), (180, 150)), ((300, 96), (520, 96)), ((7, 800), (90, 800)))),
    Row("transposed by product", lambda x, y: x.mT @ y, (((90, 60), (90, 70)), ((300, 100), (300, 240)), ((500, 64), (500, 300)))),
    Row("product and bias", lambda x, y, b: pn.maximum(x @ y + b, 0.0), (((100, 80), (80, 90), (90,)), ((150, 260), (260, 300), (300,)))),
    Row("products", lambda x, y: x @ y, (((10, 30, 40), (10, 40, 50)), ((24, 64, 48), (24, 48, 80)), ((100, 9, 9), (100, 9, 9)))),
    Row("matrix by vector", lambda x, y: x @ y, (((100, 300), (300,)), ((900, 700), (700,)), ((3000, 60), (60,)))),
    Row("vector by matrix", lambda x, y: x @ y, (((300,), (300, 100)), ((700,), (700, 900)))),
    Row("product of doubles", lambda x, y: x @ y, _products((90, 100, 80), (200, 200, 150)), "float64"),
    Row("product of halves", lambda x, y: x @ y, _products((64, 100, 96), (160, 200, 130)), "bfloat16"),
    Row("product of integers", lambda x, y: x @ y, _products((60, 90, 70), (150, 200, 100)), "int32"),
    Row("exp by product", lambda x, y: pn.exp(x) @ y, _products((70, 60, 50), (150, 200, 90))),
    Row("scores", lambda q, k: f.softmax(q @ k.mT * 0.1, axis=-1), (((2, 50, 32), (2, 70, 32)), ((4, 128, 40), (4, 128, 40)))),
    Row("attention", lambda q, k, v: f.softmax(q @ k.mT * 0.1, axis=-1) @ v, _alike(3, (2, 48, 32), (4, 130, 40), (3, 256, 64))),
    Row("bilinear form", lambda x, y: pn.einsum("bi,ij,bj->b", x, y, x), (((40, 50), (50, 50)), ((100, 200), (200, 200)))),
    Row("einsum abc,cd", lambda x, y: pn.einsum("abc,dc->adb", x, y), (((10, 30, 40), (20, 40)), ((20, 60, 100), (70, 100)))),
)  # fmt: skip

WINDOWS = (
    Row("convolution", lambda x, w: f.conv2d(x, w, padding=1), _images(
        (1, 3, 40, 20, 3), (1, 20, 30, 20, 3), (2, 32, 17, 48, 3), (1, 50, 28, 70, 3), (1, 6, 90, 10, 3), (1, 24, 50, 24, 3),
    )),
    Row("strided convolution", lambda x, w: f.conv2d(x, w, stride=2, padding=1), _images((1, 12, 60, 30, 3), (1, 40, 33, 64, 3), (1, 3, 100, 24, 5))),
    Row("dilated convolution", lambda x, w: f.conv2d(x, w, dilation=2), _images((1, 10, 40, 20, 3), (1, 32, 30, 40, 3))),
    Row("convolution of points", f.conv2d, _images((1, 40, 20, 50, 1), (2, 64, 25, 90, 1), (1, 100, 40, 24, 1))),
    Row("depthwise convolution", lambda x, w: f.conv2d(x, w, padding=1, groups=x.shape[1]), (((1, 30, 40, 40), (30, 1, 3, 3)), ((1, 64, 14, 14), (64, 1, 3, 3)), ((1, 48, 70, 70), (48, 1, 3, 3)))),
    Row("convolution of a row", lambda x, w: f.conv1d(x, w, padding=2), (((2, 10, 500), (20, 10, 5)), ((1, 32, 1000), (48, 32, 5)))),
    Row("max pool", lambda x: f.max_pool2d(x, 2), _each((1, 20, 50, 50), (2, 40, 100, 100))),
    Row("overlapping max pool", lambda x: f.max_pool2d(x, 3, 2, 1), _each((1, 20, 51, 51), (1, 48, 90, 90))),
    Row("mean pool", lambda x: f.avg_pool2d(x, 3), _each((1, 20, 60, 60), (2, 30, 99, 99))),
    Row("stencil", lambda x: 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]), _each((80, 90), (402, 502), (1202, 1102))),
    Row("differences", lambda x: x[:, 1:] - x[:, :-1], _each((100, 300), (900, 1100))),
    Row("moving mean", lambda x: sum(x[:, n : n + x.shape[1] - 4] for n in range(5)) * 0.2, _each((50, 300), (600, 900))),
)  # fmt: skip

MOVES = (
    Row("transpose", lambda x: x.mT + 0.0, _each((60, 70), (300, 411), (1000, 1100), (2000, 90))),
    Row("transpose and add", lambda x, y: x.mT + y, (((200, 300), (300, 200)), ((900, 700), (700, 900)))),
    Row("heads", lambda x: pn.permute_dims(x, (1, 0, 2)) * 1.5, _each((60, 8, 40), (300, 12, 64))),
    Row("channels last", lambda x: pn.permute_dims(x, (0, 2, 3, 1)) + 1.0, _each((1, 30, 40, 40), (2, 64, 60, 60))),
    Row("flip", lambda x: pn.flip(x, axis=1) * 2.0, _each((200, 300), (900, 1000))),
    Row("roll", lambda x: pn.roll(x, 3, axis=1) + x, _each((100, 333), (900, 800))),
    Row("concatenate", lambda x, y: pn.concat([x, y * 2.0], axis=1), (((200, 90), (200, 110)), ((900, 500), (900, 301)))),
    Row("pad", lambda x: pn.pad(x, ((3, 3), (5, 5))) + 1.0, _each((100, 90), (800, 900))),
    Row("every second", lambda x: x[:, ::2] * x[:, 1::2], _each((100, 400), (900, 1200))),
    Row("repeat", lambda x: pn.repeat(x, 2, axis=1) + 1.0, _each((100, 200), (600, 700))),
    Row("triangle", lambda x: pn.tril(x) * 2.0, _each((200, 200), (900, 900))),
    Row("take rows", lambda x: pn.take(x, pn.arange(200) % 64, axis=0) + 1.0, _each((64, 100), (64, 1200))),
)  # fmt: skip

SCANS = (
    Row("running sums of rows", lambda x: pn.cumulative_sum(x, axis=1), _each((50, 300), (700, 500))),
    Row("running sums of columns", lambda x: pn.cumulative_sum(x, axis=0), _each((300, 50), (500, 700))),
    Row("running products", lambda x: pn.cumulative_prod(x, axis=1), _each((90, 200))),
    Row("weighted running sums", lambda x, y: pn.cumulative_sum(x * y, axis=1) * 0.5, _alike(2, (100, 256), (500, 900))),
)  # fmt: skip

GRADIENTS = (
    Row("gradient of a softmax", pn.grad(lambda x: pn.sum(f.softmax(x, axis=-1) ** 2)), _each((100, 90), (300, 500))),
    Row("gradient of a norm", pn.grad(lambda x: pn.sum(x / pn.sqrt(pn.mean(x * x, axis=-1, keepdims=True) + 1e-5))), _each((120, 150), (500, 700))),
    Row("gradient of a product", pn.grad(lambda x, y: pn.sum(pn.tanh(x @ y))), (((60, 70), (70, 50)), ((200, 150), (150, 180)))),
    Row("gradient of a convolution", pn.grad(lambda w, x: pn.sum(f.conv2d(x, w, padding=1) ** 2)), (((20, 10, 3, 3), (1, 10, 30, 30)), ((32, 24, 3, 3), (2, 24, 28, 28)))),
)  # fmt: skip

ROWS = (*ELEMENTWISE, *REDUCTIONS, *CONTRACTIONS, *WINDOWS, *MOVES, *SCANS, *GRADIENTS)


def programs() -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Every program with its arguments, by name."""
    for row in ROWS:
        for shapes in row.sizes:
            name = f"{row.name} {', '.join('x'.join(map(str, shape)) for shape in shapes)}"
            yield name, row.function, [pn.zeros(shape, dtype=row.dtype) for shape in shapes]
