"""Convolutions on one GPU beside cuDNN through torch: those of ResNet-50 and of a UNet, channels last and as users write them.

    python bench/gpu_convolutions.py [--only PATTERNS] [--dtype bf16] [--orders NHWC,NCHW] [--schedules]

Sides in turns, medians of events around several convolutions, each of an input of its own, which are one CUDA graph on either side: what a call costs the
host does not count, and nobody finds in the cache what the one before has left.
Results are held against float64 by norm; `ratio` is cuDNN's time by ours.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import planish as pn
from planish import compiler, nn

F = torch.nn.functional
MOST, FILLED = 6, 150e6
"""Convolutions of a graph, and bytes of inputs and results that are enough."""


@dataclass(frozen=True)
class Row:
    """A convolution of square images."""

    name: str
    images: int
    inputs: int
    side: int
    outputs: int
    window: int
    options: dict[str, int] = field(default_factory=dict)


ROWS = (
    Row("7x7 s2 3>64", 64, 3, 224, 64, 7, {"stride": 2, "padding": 3}),
    Row("3x3 64", 64, 64, 56, 64, 3, {"padding": 1}),
    Row("3x3 128", 64, 128, 28, 128, 3, {"padding": 1}),
    Row("3x3 256", 64, 256, 14, 256, 3, {"padding": 1}),
    Row("3x3 512", 64, 512, 7, 512, 3, {"padding": 1}),
    Row("3x3 s2 128", 64, 128, 56, 128, 3, {"padding": 1, "stride": 2}),
    Row("1x1 64>256", 64, 64, 56, 256, 1),
    Row("1x1 256>64", 64, 256, 56, 64, 1),
    Row("1x1 1024>256", 64, 1024, 14, 256, 1),
    Row("1x1 s2 256>512", 64, 256, 56, 512, 1, {"stride": 2}),
    Row("UNet 3x3 128", 8, 128, 64, 128, 3, {"padding": 1}),
    Row("UNet 3x3 320", 8, 320, 64, 320, 3, {"padding": 1}),
    Row("dilated 3x3 256", 32, 256, 28, 256, 3, {"padding": 2, "dilation": 2}),
    Row("depthwise 256", 64, 256, 28, 256, 3, {"padding": 1, "groups": 256}),
    Row("32 groups 128", 64, 128, 56, 128, 3, {"padding": 1, "groups": 32}),
)


def _last(options: dict[str, int]) -> Callable[[Any, Any], Any]:
    """A convolution of (N, H, W, C) with (O, H, W, C)."""

    def function(x: Any, w: Any) -> Any:
        convolved = nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), pn.permute_dims(w, (0, 3, 1, 2)), **options)
        return pn.permute_dims(convolved, (0, 2, 3, 1))

    return function


def _graph(call: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """Several convolutions as one CUDA graph, and their results, which are kept apart."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    return graph.replay, kept


def turns(calls: list[Callable[[], Any]], rounds: int = 7) -> list[float]:
    """Microseconds of each."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
        call()
    for _ in range(rounds):
        for number, call in enumerate(calls):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[number].append(begin.elapsed_time(end) * 1e3)
    return [statistics.median(each) for each in times]


def measure(row: Row, order: str, dtype: torch.dtype, *, schedules: bool) -> float:
    groups = row.options.get("groups", 1)
    terms = row.inputs // groups * row.window**2
    x = torch.randn(row.images, row.inputs, row.side, row.side, device="cuda").to(dtype)
    w = (
        torch.randn(row.outputs, row.inputs // groups, row.window, row.window, device="cuda") / terms**0.5
    ).to(dtype)
    exact = F.conv2d(x.double(), w.double(), **row.options)  # type: ignore[arg-type]  # numbers by name
    last = order == "NHWC"
    count = max(2, min(MOST, int(FILLED / (x.nbytes + exact.nbytes / 4)) + 1))
    xs = [torch.randn_like(x) for _ in range(count - 1)]
    *inputs, w = [each.to(memory_format=torch.channels_last) if last else each for each in (*xs, x, w)]
    mine = [pn.from_dlpack(each.permute(0, 2, 3, 1) if last else each) for each in (*inputs, w)]
    one = _last(row.options) if last else lambda x, w: nn.conv2d(x, w, **row.options)
    ours = pn.jit(lambda *given: tuple(one(each, given[-1]) for each in given[:-1]))
    output = torch.from_dlpack(ours(*mine)[-1]).clone()
    wrong = float(((output.permute(0, 3, 1, 2) if last else output).double() - exact).norm() / exact.norm())
    replay, _kept = _graph(lambda: [F.conv2d(each, w, **row.options) for each in inputs])  # type: ignore[arg-type]  # the same
    mine_us, theirs_us = (each / count for each in turns([lambda: ours(*mine), replay]))
    flops = 2.0 * exact.numel() * terms
    print(
        f"{row.name:16s} {order} {mine_us:8.1f} us {flops / mine_us / 1e6:6.0f} TFLOP/s  cuDNN {theirs_us:8.1f} us  "
        f"ratio {theirs_us / mine_us:5.2f}  error {wrong:.1e}",
        flush=True,
    )
    if schedules:
        for choice in compiler.lower(ours.lower(*mine).function, "sm_90").choices:
            print("   ", "; ".join(map(str, choice.actions)))
    return theirs_us / mine_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="rows whose names have one of these patterns in them, between commas"
    )
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--orders", default="NHWC,NCHW")
    parser.add_argument("--schedules", action="store_true", help="how kernels are scheduled")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: nothing was measured")
        return
    torch.backends.cudnn.benchmark = True
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[args.dtype]
    by_name: dict[str, float] = {}
    for order in args.orders.split(","):
        ratios = []
        for row in ROWS:
            if any(re.search(each, row.name) for each in args.only.split(",")):
                try:
                    ratios.append(measure(row, order, dtype, schedules=args.schedules))
                    by_name[f"{row.name} {order}"] = ratios[-1]
                except Exception as problem:  # noqa: BLE001 - a row that fails is told, and the others go on
                    print(
                        f"{row.name:16s} {order} FAILED {type(problem).__name__}: {str(problem)[:300]}",
                        flush=True,
                    )
        if ratios:
            print(
                f"{order}: geometric mean {statistics.geometric_mean(ratios):.2f} of {len(ratios)}",
                flush=True,
            )
    if args.json:
        args.json.write_text(json.dumps(by_name, indent=1))


if __name__ == "__main__":
    main()
