"""One kernel of each kind under `compute-sanitizer`: memcheck, and racecheck where threads share memory.

    python -m tests.gpu.sanitized [--tool memcheck] [--only PATTERN]

Without arguments both tools run, each in a process of its own; the status says whether one of them found anything.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

import planish as pn
from planish import nn

_TOOLS: Final = ("memcheck", "racecheck")
_PLACES: Final = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/cuda/bin")
_RNG: Final = np.random.default_rng(0)


def data(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape: int) -> Any:
    return _RNG.integers(0, 256, shape).astype(np.uint8)


def dequantised(x: Any, w: Any, scale: Any) -> Any:
    rows, depth = w.shape
    wide = (w.astype(pn.float16) - 128.0).reshape(rows, depth // 64, 64) * scale[:, :, None]
    return x @ wide.reshape(rows, depth).T


def half(x: Any) -> Any:
    return x.astype(pn.bfloat16)


def half_bytes(x: Any, w: Any, scale: Any) -> Any:
    low_first = pn.stack([w & 15, w >> 4], axis=2).reshape(w.shape[0], 2 * w.shape[1])
    return dequantised(x, low_first + 120, scale)


def attended(q: Any, k: Any, v: Any) -> Any:
    return nn.scaled_dot_product_attention(half(q), half(k), half(v), is_causal=True)


def convolved(x: Any, w: Any) -> Any:
    return nn.relu(nn.conv2d(half(x), half(w), padding=1))


def slopes(f: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The gradient of the sum of a function's squares, by one of its arguments."""
    return pn.grad(lambda *given: pn.sum(f(*given).astype(pn.float32) ** 2), argnums=place)


_CORE: Final = "tensor_core(wgmma_m64n64_bf16_f32_kk, i, j, k, buffers=4, engine=true"
SCHEDULED: Final = {
    "a sum of two blocks": f"{_CORE}, parts=2)",
    "a sum of four blocks": f"{_CORE}, parts=4)",
    "a ring in rounds": f"{_CORE})",
    "blocks that stay": f"{_CORE}, stay=3)",
}
"""What is chosen for large products alone, said of a small one."""
_HALVES: Final = (data(256, 512).astype(ml_dtypes.bfloat16), data(192, 512).astype(ml_dtypes.bfloat16))


KERNELS: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "elements": (lambda x: pn.tanh(x) * 2.0, (data(300, 77),)),
    "rows": (nn.softmax, (data(7, 1000),)),
    "long rows": (lambda x: nn.softmax(half(x)), (data(3, 32768),)),
    "long norms": (lambda x: nn.layer_norm(half(x), (32768,)), (data(2, 32768),)),
    "sum of all": (pn.sum, (data(513, 999),)),
    "columns": (lambda x: pn.sum(x, axis=0), (data(1000, 130),)),
    "scans": (lambda x: pn.cumulative_sum(x, axis=1), (data(5, 3000),)),
    "long scan": (lambda x: pn.cumulative_sum(x, axis=0), (data(1 << 19),)),
    "odd long scan": (lambda x: pn.cumulative_sum(x, axis=0), (data(100_003),)),
    "scan of columns": (lambda x: pn.cumulative_sum(x, axis=0), (data(700, 200),)),
    "scan of many columns": (lambda x: pn.cumulative_sum(x, axis=0), (data(200, 4100),)),
    "narrow scan of many columns": (lambda x: pn.cumulative_sum(half(x), axis=0), (data(200, 4096),)),
    "transpose": (lambda x: x.T + 1.0, (data(200, 130),)),
    "argmax": (lambda x: pn.argmax(x, axis=1), (data(9, 700),)),
    "gather": (lambda x, i: pn.take(x, i, axis=0), (data(50, 200), np.array([3, 49, 0, 7]))),
    "product": (lambda a, b: a @ b, (data(200, 130), data(130, 90))),
    "product of halves": (lambda a, b: half(a) @ half(b), (data(256, 128), data(128, 192))),
    "odd product of halves": (lambda a, b: half(a) @ half(b), (data(131, 100), data(100, 67))),
    "few rows": (lambda a, b: half(a) @ half(b).T, (data(3, 512), data(1024, 512))),
    "one row of bytes": (
        lambda x, w, s: dequantised(x.astype(pn.float16), w, s.astype(pn.float16)),
        (data(1, 512), bytes_of(256, 512), data(256, 8)),
    ),
    "eight rows of half bytes": (
        lambda x, w, s: half_bytes(x.astype(pn.float16), w, s.astype(pn.float16)),
        (data(8, 512), bytes_of(256, 256), data(256, 8)),
    ),
    "long thin product": (lambda a, b: half(a) @ half(b), (data(64, 8192), data(8192, 64))),
    "product of bytes": (
        lambda a, b: pn.matmul(a.astype(pn.int32), b.astype(pn.int32).T),
        (bytes_of(128, 256).astype(np.int8), bytes_of(128, 256).astype(np.int8)),
    ),
    "attention": (attended, (data(1, 2, 200, 64), data(1, 2, 200, 64), data(1, 2, 200, 64))),
    "gradient by queries": (
        slopes(attended, 0),
        (data(1, 2, 150, 64), data(1, 2, 150, 64), data(1, 2, 150, 64)),
    ),
    "gradient by keys": (
        slopes(attended, 1),
        (data(1, 2, 150, 64), data(1, 2, 150, 64), data(1, 2, 150, 64)),
    ),
    "one query": (
        lambda q, k, v: nn.scaled_dot_product_attention(half(q), half(k), half(v)),
        (data(1, 2, 1, 64), data(1, 2, 900, 64), data(1, 2, 900, 64)),
    ),
    "convolution": (convolved, (data(2, 64, 14, 14), data(64, 64, 3, 3))),
    "its gradient by the weights": (slopes(convolved, 1), (data(2, 64, 14, 14), data(64, 64, 3, 3))),
    "strided convolution": (
        lambda x, w: nn.conv2d(half(x), half(w), stride=2, padding=1),
        (data(2, 64, 15, 15), data(128, 64, 3, 3)),
    ),
    "depthwise convolution": (
        lambda x, w: nn.conv2d(x, w, padding=1, groups=32),
        (data(2, 32, 13, 13), data(32, 1, 3, 3)),
    ),
    "rows that data chooses": (
        lambda x, i: pn.grad(lambda w: pn.sum(pn.take(w, i, axis=0) ** 2))(x),
        (data(50, 200), np.array([3, 49, 3, 7, 0, 3])),
    ),
    "a list that is voted on": (
        lambda x, i: pn.zeros((50, 40)).at[i].add(x),
        (data(300, 40), np.random.default_rng(1).integers(0, 50, 300)),
    ),
    "a list that a warp goes through": (
        lambda x, i: pn.zeros((50,)).at[i].add(x),
        (data(3000), np.random.default_rng(2).integers(0, 50, 3000)),
    ),
    "a list in parts": (
        lambda i: pn.zeros((300,), dtype=pn.int32).at[i].add(1),
        (np.random.default_rng(3).integers(0, 300, 40_001),),
    ),
    "rows that are read again": (
        lambda x, y: pn.grad(lambda x: pn.sum(nn.softmax(x, axis=-1) * y))(x),
        (data(2, 50257), data(2, 50257)),
    ),
    **{name: (lambda a, b: a @ b.T, _HALVES) for name in SCHEDULED},
    "loop": (lambda x: pn.while_loop(lambda v: pn.sum(v) < 100.0, lambda v: v + 1.0, x), (data(64),)),
}
"""Functions that are kernels of every template, small, with edges that do not divide."""


def run(pattern: str) -> None:
    """All of them, on the GPU; their results are held against those of the CPU."""
    for name, (function, arrays) in KERNELS.items():
        if not fnmatch.fnmatch(name, pattern):
            continue
        want = np.asarray(pn.jit(function)(*map(pn.asarray, arrays))).astype(np.float64)
        there = [pn.asarray(array, device="cuda") for array in arrays]
        compiled = pn.jit(function, device="cuda", schedule=SCHEDULED.get(name))
        for _ in range(2):  # launched, then as a graph
            found = np.asarray(compiled(*there)).astype(np.float64)
            away = np.linalg.norm(found - want) / (np.linalg.norm(want) + 1e-30)
            if not away < 2e-2:
                raise SystemExit(f"{name}: {away:.1e} away from what the CPU computes")
        print(name, flush=True)


def sanitizer() -> str | None:
    """Where `compute-sanitizer` is."""
    found = shutil.which("compute-sanitizer")
    if found is not None:
        return found
    return next((str(p) for place in _PLACES if (p := Path(place) / "compute-sanitizer").is_file()), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tool", choices=_TOOLS)
    parser.add_argument("--only", default="*", help="kernels whose names match")
    parser.add_argument("--here", action="store_true", help="run the kernels in this process, without a tool")
    options = parser.parse_args()
    if options.here:
        run(options.only)
        return 0
    program = sanitizer()
    if program is None:
        print("there is no compute-sanitizer on the PATH; it comes with the CUDA toolkit")
        return 2
    status = 0
    for tool in _TOOLS if options.tool is None else (options.tool,):
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", __spec__.name]
        done = subprocess.run([*command, "--here", "--only", options.only], check=False)
        print(f"{tool}: {'clean' if not done.returncode else f'status {done.returncode}'}", flush=True)
        status |= done.returncode != 0
    return status


if __name__ == "__main__":
    raise SystemExit(main())
