"""Ops that libraries are known for, beside theirs: factorisations, Fourier transforms, sorting, non-maximum suppression.

    python bench/library_ops.py [--threads N] [--only TEXT] [--json FILE]

Both sides run in this process, in turn, on as many threads: torch for factorisations and sorting, jax for transforms,
onnxruntime for suppression. A figure is the least of many calls of a turn, a ratio the median over turns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
_THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1
if _THREADS == 1:
    # read by XLA before it is loaded; its pool is as large as the cores otherwise
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import numpy as np  # noqa: E402
from report import Row, compare, finish, microseconds, parser  # noqa: E402

import planish as pn  # noqa: E402
import planish.onnx  # noqa: E402

Call = Callable[[], object]


class Case(NamedTuple):
    """One comparison: our call, and the peer's."""

    name: str
    size: int
    ours: Call
    peer_name: str
    peer: Call


def _random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- factorisations --------------------------------------------------------------------------------------------------

_MATRICES = [(1, 8), (1024, 8), (1, 32), (256, 32), (1, 100), (32, 100), (1, 300), (1, 1000)]


def factorisations() -> Iterator[Case]:
    import torch

    for batch, n in _MATRICES:
        x = _random(batch, n, n) if batch > 1 else _random(n, n)
        positive = (x @ x.swapaxes(-1, -2) + n * np.eye(n, dtype=np.float32)).astype(np.float32)
        lower, right = np.tril(positive), _random(*x.shape, seed=1)
        where = f"{batch}x{n}x{n}"
        for name, ours, theirs, given in (
            ("cholesky", pn.linalg.cholesky, torch.linalg.cholesky, (positive,)),
            (
                "triangular solve",
                lambda a, b: pn.linalg.solve_triangular(a, b, lower=True),
                lambda a, b: torch.linalg.solve_triangular(a, b, upper=False),
                (lower, right),
            ),
            ("qr", lambda a: tuple(pn.linalg.qr(a)), torch.linalg.qr, (x,)),
            ("solve", pn.linalg.solve, torch.linalg.solve, (positive, right)),
        ):
            mine, other = [pn.asarray(g) for g in given], [torch.from_numpy(g) for g in given]
            yield Case(
                f"{name} {where}", x.size, partial(pn.jit(ours), *mine), "torch", partial(theirs, *other)
            )


# -- Fourier transforms ----------------------------------------------------------------------------------------------

_LENGTHS = [(1, 256), (1024, 256), (1, 1000), (256, 1000), (64, 4096), (64, 5000), (1, 1 << 16),
            (1, 1 << 20), (16, 997), (256, 127), (1, 100_000)]  # fmt: skip


def transforms() -> Iterator[Case]:
    import jax

    for batch, n in _LENGTHS:
        real = _random(batch, n)
        x = (real + 1j * _random(batch, n, seed=1)).astype(np.complex64)
        for name, ours, theirs, given in (
            ("rfft", pn.fft.rfft, jax.numpy.fft.rfft, real),
            ("fft", pn.fft.fft, jax.numpy.fft.fft, x),
            ("ifft", pn.fft.ifft, jax.numpy.fft.ifft, x),
            ("irfft", pn.fft.irfft, jax.numpy.fft.irfft, x[:, : n // 2 + 1]),
        ):
            call, there = jax.jit(theirs), jax.numpy.asarray(given)
            mine = partial(pn.jit(ours), pn.asarray(np.ascontiguousarray(given)))
            yield Case(
                f"{name} {batch}x{n}",
                batch * n,
                mine,
                "jax",
                lambda c=call, g=there: c(g).block_until_ready(),
            )


# -- order -----------------------------------------------------------------------------------------------------------

_LINES = [(1, 10_000), (1, 100_000), (1, 1_000_000), (1000, 1000), (64, 5000), (1000, 100)]


def order() -> Iterator[Case]:
    import torch

    rng = np.random.default_rng(0)
    for batch, n in _LINES:
        shape = (n,) if batch == 1 else (batch, n)
        arrays = {
            "float32": _random(*shape),
            "int32": rng.integers(-(2**31), 2**31 - 1, shape, dtype=np.int32),
            "float64": rng.standard_normal(shape),
            "int64": rng.integers(0, 1000, shape, dtype=np.int64),
        }
        for dtype, x in arrays.items():
            mine, there = pn.asarray(x), torch.from_numpy(x)
            for name, ours, theirs in (
                ("sort", pn.sort, lambda t: torch.sort(t)[0]),
                ("argsort", pn.argsort, torch.argsort),
                ("topk 5", lambda t: pn.topk(t, 5), lambda t: torch.topk(t, 5)),
                ("topk 50", lambda t: pn.topk(t, 50), lambda t: torch.topk(t, 50)),
            ):
                yield Case(
                    f"{name} {dtype} {batch}x{n}", x.size, partial(pn.jit(ours), mine), "torch", partial(theirs, there)
                )  # fmt: skip


# -- non-maximum suppression -----------------------------------------------------------------------------------------


def suppression() -> Iterator[Case]:
    import onnxruntime
    from onnx import TensorProto, helper

    for classes, count in ((1, 1000), (1, 10_000), (80, 1000), (1, 3000)):
        for limit in (100, count):
            rng = np.random.default_rng(0)
            corner = rng.random((1, count, 2), dtype=np.float32) * 500
            boxes = np.concatenate([corner, corner + 5 + rng.random((1, count, 2), dtype=np.float32) * 60], 2)
            scores = rng.random((1, classes, count), dtype=np.float32)
            constants = [
                helper.make_tensor("most", TensorProto.INT64, [1], [limit]),
                helper.make_tensor("overlap", TensorProto.FLOAT, [1], [0.5]),
                helper.make_tensor("least", TensorProto.FLOAT, [1], [0.05]),
            ]
            node = helper.make_node(
                "NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["chosen"]
            )
            graph = helper.make_graph(
                [node],
                "suppression",
                [
                    helper.make_tensor_value_info("boxes", TensorProto.FLOAT, boxes.shape),
                    helper.make_tensor_value_info("scores", TensorProto.FLOAT, scores.shape),
                ],
                [helper.make_tensor_value_info("chosen", TensorProto.INT64, [None, 3])],
                constants,
            )
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = _THREADS
            peer = onnxruntime.InferenceSession(model.SerializeToString(), options)
            ours = planish.onnx.load(model.SerializeToString())
            given = {"boxes": boxes, "scores": scores}
            yield Case(
                f"nms {classes}x{count} most {limit}", classes * count,
                partial(ours, boxes=boxes, scores=scores), "onnxruntime", partial(peer.run, None, given),
            )  # fmt: skip


PARTS = (factorisations, transforms, order, suppression)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--only", default="", help="the cases whose name has this text")
    chosen = options.parse_args()
    rows: list[Row] = []
    with pn.settings(threads=chosen.threads):
        for part in PARTS:
            try:
                cases = list(part())
            except ModuleNotFoundError as missing:
                print(f"{part.__name__}: {missing.name} is not installed", file=sys.stderr)
                continue
            for case in cases:
                if chosen.only not in case.name:
                    continue
                if "torch" in sys.modules:
                    sys.modules["torch"].set_num_threads(chosen.threads)
                rows += compare(
                    case.name, case.size, "µs", partial(microseconds, case.ours),
                    {case.peer_name: partial(microseconds, case.peer)}, chosen.repeats,
                )  # fmt: skip
                print(f"{case.name:34} {rows[-1].ours:10.1f} {rows[-1].peer:10.1f} µs", flush=True)
    finish(rows, chosen.json)


if __name__ == "__main__":
    main()
