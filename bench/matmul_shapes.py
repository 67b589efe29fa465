"""Products of matrices of all shapes, against what the machine allows: the lesser of its multiply-adds and its memory.

    python bench/matmul_shapes.py [--threads N] [--json FILE]

`of limit` is our speed by that of min(peak, flops / bytes × bandwidth), all measured here; bandwidth is that of a copy of as
many bytes as the operands and the result have.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
from kit.limits import Limits

import planish as pn

Product = Callable[[Any, Any], Any]


def plain(a: Any, b: Any) -> Any:
    return a @ b


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Product, int]] = {
    **{f"{n}": ((n, n), (n, n), plain, n) for n in (64, 128, 256, 512, 640, 1024, 1536, 2048)},
    **{f"odd {n}": ((n, n), (n, n), plain, n) for n in (127, 511, 1000, 1023)},
    "odd 511x513x517": ((511, 517), (517, 513), plain, 517),
    "tall 4096x64x64": ((4096, 64), (64, 64), plain, 64),
    "wide 64x4096x64": ((64, 64), (64, 4096), plain, 64),
    "deep 64x64x4096": ((64, 4096), (4096, 64), plain, 4096),
    "deep 64x64x65536": ((64, 1 << 16), (1 << 16, 64), plain, 1 << 16),
    "skinny 2048x16x2048": ((2048, 2048), (2048, 16), plain, 2048),
    **{f"few {n}x2048x2048": ((n, 2048), (2048, 2048), plain, 2048) for n in (3, 16, 32)},
    "layer 64x512x784": ((64, 784), (784, 512), plain, 784),
    "layer 256x3072x768": ((256, 768), (768, 3072), plain, 768),
    "layer 256x768x3072": ((256, 3072), (3072, 768), plain, 3072),
    "batch 96 512x64x512": ((96, 512, 512), (96, 512, 64), plain, 512),
    "batch 96 512x512x64": ((96, 512, 64), (96, 64, 512), plain, 64),
    "batch 64 32x32x32": ((64, 32, 32), (64, 32, 32), plain, 32),
    **{f"a transposed {n}": ((n, n), (n, n), lambda a, b: a.mT @ b, n) for n in (512, 1024)},
    "a transposed 64x512x512": ((512, 64), (512, 512), lambda a, b: a.mT @ b, 512),
    "a transposed 784x512x64": ((64, 784), (64, 512), lambda a, b: a.mT @ b, 64),
    **{f"b transposed {n}": ((n, n), (n, n), lambda a, b: a @ b.mT, n) for n in (512, 1024)},
    **{f"both transposed {n}": ((n, n), (n, n), lambda a, b: a.mT @ b.mT, n) for n in (512, 1024)},
    "strided rows 512": ((1024, 512), (512, 512), lambda a, b: a[::2] @ b, 512),
    "strided columns 512": ((512, 512), (512, 1024), lambda a, b: a @ b[:, ::2], 512),
    "matrix vector 4096": ((4096, 4096), (4096,), plain, 4096),
    "vector matrix 4096": ((4096,), (4096, 4096), plain, 4096),
    "dot 1Mi": ((1 << 20,), (1 << 20,), plain, 1 << 20),
}


def measure(function: Any, given: list[Any]) -> float:
    """Seconds: the median of many calls, short ones several at once."""
    function(*given)
    begin = perf_counter()
    function(*given)
    inner = max(1, int(2e-4 / max(perf_counter() - begin, 1e-7)))
    times: list[float] = []
    end = perf_counter() + 0.25
    while len(times) < 7 or perf_counter() < end:
        begin = perf_counter()
        for _ in range(inner):
            function(*given)
        times.append((perf_counter() - begin) / inner)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    limits, rng = Limits(), np.random.default_rng(3)
    rows = []
    with pn.settings(threads=options.threads):
        for name, (left, right, product, depth) in SHAPES.items():
            peak = limits.multiply_adds(options.threads)  # clocks change: asked for again each time
            given = [pn.asarray(rng.standard_normal(s, dtype=np.float32)) for s in (left, right)]
            function = pn.jit(product)
            size = int(np.prod(function(*given).shape))
            moved = 4 * (int(np.prod(left)) + int(np.prod(right)) + size)
            rate = max(limits.rate(kind, moved, options.threads) for kind in ("copy", "move", "read"))
            seconds = measure(function, given)
            flops = 2 * size * depth
            limit = max(flops / peak, moved / rate) / 1e9
            rows.append({"name": name, "gflops": flops / seconds / 1e9, "of_limit": limit / seconds})
            print(f"{name:24} {flops / seconds / 1e9:8.1f} GF/s {limit / seconds:6.0%} of limit", flush=True)
    print(f"least: {min(row['of_limit'] for row in rows):.0%}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
