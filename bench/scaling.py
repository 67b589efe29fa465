"""How time grows with size: every kind of work over three decades, beside what the machine allows at that size.

    python bench/scaling.py [--picture FILE] [--json FILE] [--only softmax,matmul] [--threads N] [--seconds S]

The limit of a size is the time to move all operands once at the rate that a plain or non-temporal copy of as many bytes
reaches here (so caches count as they are), or the time of the multiplications, whichever is longer. The picture shows
time by limit: a level line is a schedule that holds, a step is a cliff of our own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from kit.limits import Limits
from kit.sides import Planish
from kit.workloads import (
    Workload,
    attention,
    block,
    conv,
    elementwise,
    embedding,
    matmul,
    matmul_bf16,
    mlp,
    rows,
    square,
)

Family = tuple[Callable[[int], Workload], Sequence[int]]
_LONG = tuple(1 << k for k in range(14, 25, 1))
_SIDES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_CUBES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536)
FAMILIES: dict[str, Family] = {
    "a*b+c": (lambda n: elementwise("a*b+c", n), _LONG),
    "tanh_chain": (lambda n: elementwise("tanh_chain", n), _LONG),
    "sum_all": (lambda n: elementwise("sum_all", n), _LONG),
    "sum_axis0": (lambda n: square("sum_axis0", n), _SIDES),
    "sum_axis1": (lambda n: square("sum_axis1", n), _SIDES),
    "softmax": (lambda n: square("softmax", n), _SIDES),
    "layernorm": (lambda n: rows("layernorm", n, 1024), (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)),
    "matmul": (matmul, _CUBES),
    "matmul_bf16": (matmul_bf16, _CUBES[4:]),
    "matvec": (lambda n: square("matvec", n), _SIDES),
    "conv3x3": (lambda n: conv("conv3x3", (1, 64, n, n), (64, 64, 3, 3)), (7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224)),
    "conv7x7_s2": (
        lambda n: conv("conv7x7_s2", (1, 3, n, n), (64, 3, 7, 7), stride=2, padding=3),
        (14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448),
    ),
    "depthwise": (
        lambda n: conv("depthwise", (1, 96, n, n), (96, 1, 3, 3), groups=96),
        (7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224),
    ),
    "attention": (lambda n: attention(12, n, 64), (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)),
    "mlp": (mlp, (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)),
    "gpt2_block": (block, (8, 16, 32, 64, 128, 256, 512)),
    "transpose": (lambda n: square("transpose", n), _SIDES),
    "embedding": (embedding, (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)),
    "cumsum": (lambda n: rows("cumsum", n, 4096), (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)),
}  # fmt: skip


def seconds_of(run: Callable[[], Any], budget: float) -> float:
    """The median of as many calls as the budget has room for; short calls several at once."""
    run()
    begin = perf_counter()
    run()
    once = perf_counter() - begin
    inner = max(1, int(1e-4 / max(once, 1e-7)))
    times: list[float] = []
    start = perf_counter()
    while len(times) < 5 or perf_counter() - start < budget:
        begin = perf_counter()
        for _ in range(inner):
            run()
        times.append((perf_counter() - begin) / inner)
    return median(times)


def sweep(family: Family, limits: Limits, peak: float, threads: int, budget: float) -> list[dict[str, float]]:
    make, sizes = family
    side = Planish(threads)
    points = []
    for size in sizes:
        w = make(size)
        seconds = seconds_of(side.prepare(w, w.arrays()), budget)
        rate = max(limits.rate(name, w.moved, threads) for name in ("move", "copy", "read"))
        limit = max(w.moved / rate, w.flops / peak) / 1e9
        points.append({"size": size, "bytes": w.moved, "flops": w.flops, "seconds": seconds, "limit": limit})
    return points


def draw(sweeps: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Time by limit against size, a panel for each kind of work."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    columns = 4
    lines = -(-len(sweeps) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4 * columns, 2.6 * lines), squeeze=False, sharey=True
    )
    for axis, (name, points) in zip(axes.flat, sweeps.items(), strict=False):
        axis.axhline(1, color="0.6", linewidth=0.8)
        axis.plot(
            [p["size"] for p in points], [p["seconds"] / p["limit"] for p in points], marker="o", markersize=3
        )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_ylim(0.7, 20)
        axis.set_title(name, fontsize=10)
    for axis in axes.flat[len(sweeps) :]:
        axis.set_visible(False)
    figure.supxlabel("size")
    figure.supylabel("time / limit of the machine at that size")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="kinds of work, separated by commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="time spent on each point")
    parser.add_argument("--picture", type=Path, default=Path("bench/results/scaling.png"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    limits = Limits()
    peak = limits.multiply_adds(options.threads)
    sweeps = {}
    for name in options.only.split(",") if options.only else FAMILIES:
        sweeps[name] = sweep(FAMILIES[name], limits, peak, options.threads, options.seconds)
        text = "  ".join(f"{p['size']:.0f}:{p['seconds'] / p['limit']:.1f}" for p in sweeps[name])
        print(f"{name:12} {text}", flush=True)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(sweeps, options.picture)
    print(f"picture: {options.picture}")
    if options.json is not None:
        options.json.write_text(json.dumps(sweeps, indent=1) + "\n")


if __name__ == "__main__":
    main()
