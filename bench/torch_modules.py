"""Modules as KernelBench has them, shrunk for a CPU, beside eager torch and Inductor: microseconds per call.

    python bench/torch_modules.py [--only NAME ...] [--threads 1] [--inductor] [--repeats 7] [--json FILE]

All sides run in turn in one process on the same inputs; an answer that is not eager torch's is said instead of timed. Inductor needs
a C++ compiler and many seconds per module, so it is asked for.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import report
import torch
from torch import nn
from torch.nn import functional

import planish.torch


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def conv_block() -> nn.Module:
    return nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def mish_chain(x: torch.Tensor) -> torch.Tensor:
    return functional.mish(functional.hardtanh(x * 2 + 1)).mean(-1)


R = torch.randn
MODULES: dict[str, Any] = {
    # level 1: one op
    "matmul": lambda: (Function(torch.matmul), (R(512, 512), R(512, 512))),
    "matmul transposed": lambda: (Function(lambda a, b: a.T @ b.T), (R(256, 512), R(512, 256))),
    "batched matmul": lambda: (Function(torch.bmm), (R(16, 128, 128), R(16, 128, 128))),
    "matrix vector": lambda: (Function(torch.matmul), (R(2048, 2048), R(2048, 1))),
    "relu": lambda: (nn.ReLU(), (R(64, 16384),)),
    "gelu": lambda: (nn.GELU(), (R(64, 16384),)),
    "softmax": lambda: (nn.Softmax(-1), (R(64, 16384),)),
    "log softmax": lambda: (nn.LogSoftmax(-1), (R(64, 16384),)),
    "layer norm": lambda: (nn.LayerNorm(4096), (R(256, 4096),)),
    "batch norm": lambda: (nn.BatchNorm2d(32).eval(), (R(8, 32, 64, 64),)),
    "group norm": lambda: (nn.GroupNorm(8, 32), (R(8, 32, 64, 64),)),
    "sum": lambda: (Function(lambda x: x.sum(1)), (R(64, 256, 256),)),
    "argmax": lambda: (Function(lambda x: x.argmax(1)), (R(64, 256, 128),)),
    "cumsum": lambda: (Function(lambda x: x.cumsum(1)), (R(128, 4000),)),
    "max pool": lambda: (nn.MaxPool2d(3, 2, 1), (R(8, 32, 64, 64),)),
    "average pool": lambda: (nn.AvgPool2d(3, 2, 1), (R(8, 32, 64, 64),)),
    "convolution": lambda: (nn.Conv2d(32, 64, 3, padding=1), (R(4, 32, 56, 56),)),
    "depthwise": lambda: (nn.Conv2d(64, 64, 3, padding=1, groups=64), (R(4, 64, 56, 56),)),
    "pointwise": lambda: (nn.Conv2d(64, 128, 1), (R(4, 64, 56, 56),)),
    "transposed": lambda: (nn.ConvTranspose2d(32, 32, 3, 2), (R(4, 32, 28, 28),)),
    "cross entropy": lambda: (nn.CrossEntropyLoss(), (R(1024, 256), torch.randint(0, 256, (1024,)))),
    "cosine loss": lambda: (Function(lambda a, b: 1 - functional.cosine_similarity(a, b).mean()), (R(128, 4096), R(128, 4096))),
    "attention": lambda: (Function(attention), (R(4, 8, 128, 64), R(4, 8, 128, 64), R(4, 8, 128, 64))),
    # level 2: chains
    "linear gelu softmax": lambda: (nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Softmax(-1)), (R(128, 512),)),
    "linear norm residual": lambda: (nn.Sequential(nn.Linear(512, 512), nn.LayerNorm(512), nn.SiLU()), (R(128, 512),)),
    "conv relu norm pool": lambda: (conv_block().eval(), (R(4, 16, 64, 64),)),
    "conv tanh scale": lambda: (nn.Sequential(nn.Conv2d(16, 32, 3), nn.Tanh(), nn.Hardswish()), (R(4, 16, 64, 64),)),
    "mish chain": lambda: (Function(mish_chain), (R(256, 4096),)),
    "perceptron": lambda: (nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)), (R(64, 256),)),
    "small": lambda: (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), (R(8, 16),)),
}  # fmt: skip


def timed(call: Any, inputs: Any, threads: int) -> Any:
    """One figure: the least microseconds that a few calls in a row took; on one thread those of the processor."""
    clock = process_time if threads == 1 else perf_counter
    begin = clock()
    call(*inputs)
    count = max(1, int(0.004 / max(clock() - begin, 1e-7)))

    def run() -> float:
        best = math.inf
        for _ in range(5):
            begin = clock()
            for _ in range(count):
                call(*inputs)
            best = min(best, (clock() - begin) / count * 1e6)
        return best

    return run


def measure(name: str, threads: int, inductor: bool, repeats: int) -> list[report.Row]:
    torch.manual_seed(0)
    module, inputs = MODULES[name]()
    torch._dynamo.reset()
    planish.torch.report(reset=True)
    with torch.no_grad():
        ours = planish.torch.compile(module, threads=threads)
        computed, wanted = ours(*inputs), module(*inputs)
        torch.testing.assert_close(computed, wanted, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
        if planish.torch.report().fallbacks:
            print(f"{name}: {planish.torch.report()}")
        peers = {"eager": timed(module, inputs, threads)}
        if inductor:
            other = torch.compile(module, backend="inductor")
            other(*inputs)
            peers["inductor"] = timed(other, inputs, threads)
        return report.compare(name, threads, "us", timed(ours, inputs, threads), peers, repeats)


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--inductor", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows: list[report.Row] = []
    for name in given.only or MODULES:
        rows += measure(name, given.threads, given.inductor, given.repeats)
        report.show(rows[-1 - given.inductor :], heading=len(rows) <= 1 + given.inductor)
    for peer in ("eager", "inductor"):
        ratios = [row.ratio for row in rows if row.peer_name == peer and row.ratio]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{len(ratios)} modules, geometric mean of the time by {peer}: {1 / mean:.2f}")
    report.finish(rows, given.json, shown=True)


if __name__ == "__main__":
    main()
