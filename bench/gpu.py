"""planish beside torch on one GPU: memory-bound kernels against torch's own copy, products against cuBLAS, what a call costs.

Every row is measured in the same run, by events around back-to-back calls, the sides in turns, medians; results are held against
float64 on the host by norm. Run it on a machine with an NVIDIA GPU, a torch that knows it, and the packages of `planish[cuda]`:

    python bench/gpu.py [--mib 64,1024] [--inductor] [--only PATTERNS] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

import planish as pn
from planish import nn

GPU = "cuda:0"
F = torch.nn.functional


@dataclass(frozen=True)
class Row:
    """A function on both sides, the shape of its first argument, and how many times its bytes it moves."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    moved: float
    """Bytes read and written, by those of the first argument."""
    flops: float = 0.0
    indices: int = 0
    """How many random rows of the first argument are asked for by a second one."""
    bits: int = 0
    """Of the elements of the first argument, if they are stored as bytes."""


def _rows_of(lib: Any) -> Callable[[Any, Any], Any]:
    if lib is pn:
        return lambda x, i: pn.take(x, i, axis=0)
    return lambda x, i: F.embedding(i, x)


def _chain(x: Any, lib: Any) -> Any:
    return lib.tanh(x * 1.5 + 0.5) * x + 2.0


WEIGHTS = (28672, 8192)
"""A matrix that is larger than the second cache, even as half bytes."""
MANY = 200
"""Kernels of one function."""
GROUP = 128
"""Neighbours that share a scale."""
_SAMPLED = 64
"""Elements along the first axis of a result that are held against float64."""


def _widened(w: Any, scale: Any, bits: int, lib: Any) -> Any:
    """Weights as they are computed with, of bytes or of half bytes."""
    if bits == 4:
        parts = [w & 15, w >> 4]
        w = (pn.stack(parts, axis=2) if lib is pn else torch.stack(parts, 2)).reshape(WEIGHTS)
    wide = w.astype(scale.dtype) if lib is pn else w.to(scale.dtype)
    grouped = (wide - float(1 << bits - 1)).reshape(WEIGHTS[0], WEIGHTS[1] // GROUP, GROUP)
    return (grouped * scale[:, :, None]).reshape(WEIGHTS)


def decoding() -> list[Row]:
    """Few rows against a large matrix: of copy, what is read of the matrix."""
    count, depth = WEIGHTS
    cases = []
    for rows in (1, 2, 4, 8, 16):
        given = ((count, depth), (rows, depth))
        turned = ((depth, count), (rows, depth))
        cases += [
            Row(f"decode {rows} rows", lambda w, x: x @ w.T, lambda w, x: x @ w.T, given, 1.0),
            Row(f"decode {rows} rows [k, n]", lambda w, x: x @ w, lambda w, x: x @ w, turned, 1.0),
        ]
        for bits in (8, 4):
            shapes = ((count, depth * bits // 8), (rows, depth), (count, depth // GROUP))
            cases.append(
                Row(
                    f"decode {rows} rows, {bits} bits",
                    lambda w, x, s, bits=bits: x @ _widened(w, s, bits, pn).T,
                    lambda w, x, s, bits=bits: x @ _widened(w, s, bits, torch).T,
                    shapes,
                    1.0,
                    bits=bits,
                )
            )
    return cases


def rows(mib: int) -> list[Row]:
    """Kernels on arrays of so many MiB, if their elements have four bytes: side by side twice as long as high if need be."""
    side = 1 << (mib << 18).bit_length() // 2
    count = mib << 18
    whole, long = (count // side, side), (max(count // 32768, 1), 32768)
    mid, short = (count // 4096, 4096), (count // 1024, 1024)
    cases = [
        Row("chain", lambda x: _chain(x, pn), lambda x: _chain(x, torch), (whole,), 2.0),
        Row("sum of all", pn.sum, lambda x: x.sum(), (whole,), 1.0),
        Row("sum of rows", lambda x: pn.sum(x, axis=1), lambda x: x.sum(1), (whole,), 1.0),
        Row("sum of columns", lambda x: pn.sum(x, axis=0), lambda x: x.sum(0), (whole,), 1.0),
        Row("transpose", lambda x: x.T + 0.0, lambda x: x.T.contiguous(), (whole,), 2.0),
        Row("cumulative sum", lambda x: pn.cumulative_sum(x, axis=1), lambda x: x.cumsum(1), (mid,), 2.0),
        Row(
            "cumulative sum of columns",
            lambda x: pn.cumulative_sum(x, axis=0),
            lambda x: x.cumsum(0),
            (whole,),
            2.0,
        ),
        Row(
            "cumulative sum of one",
            lambda x: pn.cumulative_sum(x, axis=0),
            lambda x: x.cumsum(0),
            ((count,),),
            2.0,
        ),
        Row("embedding", _rows_of(pn), _rows_of(torch), (short,), 2.0, indices=short[0]),
    ]
    for name, shape in (("1k", short), ("4k", mid), ("32k", long)):
        cases.append(Row(f"softmax {name}", nn.softmax, lambda x: F.softmax(x, -1), (shape,), 2.0))
        cases.append(
            Row(
                f"layer norm {name}",
                lambda x: nn.layer_norm(x, x.shape[-1:]),
                lambda x: F.layer_norm(x, x.shape[-1:]),
                (shape,),
                2.0,
            )
        )
    for n in (1024, 4096) if mib >= 64 else ():
        cases.append(
            Row(f"product {n}", lambda a, b: a @ b, lambda a, b: a @ b, ((n, n), (n, n)), 3.0, 2.0 * n**3)
        )
    return [*cases, *decoding(), *attentions()] if mib >= 64 else cases


def attentions() -> list[Row]:
    """Attention of (batch, heads, queries, width) over keys that may be shared by several heads, by torch's own."""
    cases = []
    for name, heads, keys, options in (
        ("128", (4, 16, 4096, 128), (4, 16, 4096, 128), {}),
        ("128 causal", (4, 16, 4096, 128), (4, 16, 4096, 128), {"is_causal": True}),
        ("64", (4, 32, 4096, 64), (4, 32, 4096, 64), {}),
        ("64 causal", (4, 32, 4096, 64), (4, 32, 4096, 64), {"is_causal": True}),
        ("long keys", (1, 16, 1024, 128), (1, 16, 32768, 128), {}),
        ("grouped heads", (4, 32, 4096, 128), (4, 8, 4096, 128), {"is_causal": True}),
        ("with a bias", (2, 16, 2048, 128), (2, 16, 2048, 128), {"bias": True}),
        ("width 256", (2, 16, 2048, 256), (2, 16, 2048, 256), {}),
        ("one query", (8, 32, 1, 128), (8, 32, 4096, 128), {}),
        ("one query, 64", (8, 32, 1, 64), (8, 32, 4000, 64), {}),
        ("one query, long keys", (1, 32, 1, 128), (1, 32, 32768, 128), {}),
        ("one query, grouped", (8, 32, 1, 128), (8, 8, 4096, 128), {}),
    ):
        causal, bias = options.get("is_causal", False), options.get("bias", False)
        shapes = (heads, keys, keys, *[(1, 1, heads[2], keys[2])] * bias)
        cases.append(
            Row(
                f"attention {name}",
                partial(nn.scaled_dot_product_attention, is_causal=causal),
                partial(F.scaled_dot_product_attention, is_causal=causal, enable_gqa=heads[1] != keys[1]),
                shapes,
                4.0,
                4.0 * heads[0] * heads[1] * heads[2] * keys[2] * heads[3] / (2 if causal else 1),
            )
        )
    for name, heads, keys, causal in (
        ("128", (4, 16, 4096, 128), (4, 16, 4096, 128), False),
        ("128 causal", (4, 16, 4096, 128), (4, 16, 4096, 128), True),
        ("64", (4, 32, 4096, 64), (4, 32, 4096, 64), False),
        ("grouped heads", (4, 32, 4096, 128), (4, 8, 4096, 128), True),
    ):
        cases.append(
            Row(
                f"attention, gradients {name}",
                partial(_gradients, causal=causal),
                partial(_torch_gradients, causal=causal),
                (heads, keys, keys, heads),
                7.0,
                14.0 * heads[0] * heads[1] * heads[2] * keys[2] * heads[3] / (2 if causal else 1),
            )
        )
    return cases


def _gradients(q: Any, k: Any, v: Any, w: Any, causal: bool) -> Any:
    def weighed(q: Any, k: Any, v: Any) -> Any:
        out = nn.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return pn.sum(out.astype(pn.float32) * w.astype(pn.float32))

    return pn.concat([x.reshape((-1,)) for x in pn.grad(weighed, argnums=(0, 1, 2))(q, k, v)])


def _torch_gradients(q: Any, k: Any, v: Any, w: Any, causal: bool) -> Any:
    leaves = [each.detach().requires_grad_() for each in (q, k, v)]
    shared = q.shape[1] != k.shape[1]
    F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=shared).backward(w)
    return torch.cat([each.grad.reshape(-1) for each in leaves])


class Timer:
    """Milliseconds of a call, by events around several: so many that what the first one waits for the host does not count."""

    def __init__(self, least: int, lasting: float = 4.0) -> None:
        self.least = least
        self.lasting = lasting

    def once(self, call: Callable[[], Any], count: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / count

    def turns(self, calls: list[Callable[[], Any]], rounds: int = 7) -> list[float]:
        """The median of each, measured in turns."""
        for call in calls:
            call()
            call()
        torch.cuda.synchronize()
        counts = [max(self.least, round(self.lasting / self.once(call, self.least))) for call in calls]
        times: list[list[float]] = [[] for _ in calls]
        for _ in range(rounds):
            for number, (call, count) in enumerate(zip(calls, counts, strict=True)):
                times[number].append(self.once(call, count))
        return [statistics.median(each) for each in times]


def error(ours: Any, theirs: Any) -> float:
    """By norm."""
    a, b = (np.asarray(v, np.float64) for v in (ours, theirs))
    return float(np.linalg.norm(a - b) / (np.linalg.norm(b) + 1e-300))


def measure(row: Row, dtype: str, timer: Timer, inductor: bool, copy: float) -> dict[str, Any]:
    kind = {"f32": torch.float32, "bf16": torch.bfloat16}[dtype]
    generator = torch.Generator(device="cuda").manual_seed(0)
    given = [torch.randn(shape, device="cuda", generator=generator).to(kind) for shape in row.shapes]
    if row.bits:
        given[0] = torch.randint(256, row.shapes[0], device="cuda", generator=generator, dtype=torch.uint8)
    mine = [pn.from_dlpack(t) for t in given]  # the same memory on both sides
    if row.indices:
        chosen = torch.randint(row.indices, (row.indices,), device="cuda", generator=generator)
        given.append(chosen)
        mine.append(pn.from_dlpack(chosen))
    pn.realize(*mine)
    f = pn.jit(row.ours)
    begun = time.perf_counter()
    result = f(*mine)
    np.asarray(result[:1] if result.ndim else result)
    first = time.perf_counter() - begun
    calls: list[Callable[[], Any]] = [lambda: f(*mine), lambda: row.theirs(*given)]
    if inductor:
        compiled = torch.compile(row.theirs)
        calls.append(lambda: compiled(*given))
    times = timer.turns(calls)
    # everywhere, not at the beginning alone: gradients of what sees nothing but itself are nothing
    wanted = _SAMPLED if result.ndim > 1 else _SAMPLED**2
    sample = slice(None, None, max(result.shape[0] // wanted, 1) if result.ndim else 1)
    exact = _host(row.theirs(*(x.double() if x.is_floating_point() else x for x in given)), sample)
    wrong, also = (
        error(x, exact)
        for x in (
            np.asarray(result[sample] if result.ndim else result, np.float32),
            _host(row.theirs(*given), sample),
        )
    )
    nbytes = row.moved * given[0].nbytes
    entry = {
        "row": row.name, "dtype": dtype, "us": times[0] * 1e3, "torch": times[0] / times[1], "first": first, "error": wrong, "torch error": also,
        "of copy": nbytes / times[0] / 1e-3 / copy if not row.flops else None,
        "tflops": row.flops / times[0] / 1e9 if row.flops else None,
        "inductor": times[0] / times[2] if inductor else None,
    }  # fmt: skip
    limit = f"{entry['of copy']:5.2f} of copy" if entry["of copy"] else f"{entry['tflops']:5.1f} TFLOP/s"
    peers = f"{entry['torch']:5.2f} of torch" + (f" {entry['inductor']:5.2f} of Inductor" if inductor else "")
    print(
        f"{row.name:25s} {dtype:5s} {entry['us']:9.1f} us {limit}  {peers}  first {first:5.2f} s  error {wrong:.1e} ({also:.1e})",
        flush=True,
    )
    return entry


def _host(tensor: Any, sample: slice) -> Any:
    return (tensor[sample] if tensor.ndim else tensor).double().cpu().numpy()


def overhead() -> dict[str, float]:
    """Microseconds of a call of one small kernel, and of one kernel among many in a function: what little the kernel itself takes is in it."""
    x, there = pn.asarray(np.ones(1024, np.float32), device=GPU), torch.ones(1024, device="cuda")
    one = pn.jit(lambda x: x + 1.0)
    many = pn.jit(lambda x: pn.fori_loop(0, MANY, lambda i, c: c * 0.5 + i, x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(MANY):
            there.add_(1.0)

    def timed(call: Callable[[], Any], count: int) -> float:
        call()
        call()
        torch.cuda.synchronize()
        best = []
        for _ in range(7):
            begun = time.perf_counter()
            for _ in range(count):
                call()
            torch.cuda.synchronize()
            best.append((time.perf_counter() - begun) / count * 1e6)
        return statistics.median(best)

    costs = {
        "call": timed(lambda: one(x), 2000),
        "torch": timed(lambda: there + 1.0, 2000),
        "in a graph": timed(lambda: many(x), 50) / MANY,
        "torch, in a graph": timed(graph.replay, 50) / MANY,
    }
    print(
        f"a call of one kernel {costs['call']:.1f} us (torch {costs['torch']:.1f}); "
        f"one of {MANY} kernels of a function {costs['in a graph']:.2f} us (of torch's graph {costs['torch, in a graph']:.2f})",
        flush=True,
    )
    return costs


def table(measured: list[dict[str, Any]]) -> str:
    """What was measured as the table of docs/gpu.md: a line for a kernel, the dtypes side by side."""
    kinds = list(dict.fromkeys(each["dtype"] for each in measured))
    lines = [
        "| kernel | " + " | | ".join(f"{kind} of copy | torch | Inductor" for kind in kinds) + " |",
        "|---" * (4 * len(kinds)) + "|",
    ]
    for name in dict.fromkeys(each["row"] for each in measured):
        cells = []
        for kind in kinds:
            here = next((each for each in measured if (each["row"], each["dtype"]) == (name, kind)), {})
            speed = f"{here['tflops']:.1f} TFLOP/s" if here.get("tflops") else _ratio(here.get("of copy"))
            cells.append(f"{speed} | {_ratio(here.get('torch'))} | {_ratio(here.get('inductor'))}")
        lines.append(f"| {name} | " + " | | ".join(cells) + " |")
    return "\n".join(lines)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--mib", default="1024", help="the sizes of arrays of four-byte elements, between commas"
    )
    parser.add_argument("--inductor", action="store_true", help="torch.compile as a peer as well")
    parser.add_argument(
        "--only", default="", help="rows whose names have one of these patterns in them, between commas"
    )
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: nothing was measured")
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    timer = Timer(10)
    big = torch.ones(1 << 28, device="cuda")
    copy = 2 * big.nbytes / (timer.turns([big.clone])[0] * 1e-3)
    del big
    print(f"{torch.cuda.get_device_name()}, torch's copy {copy / 1e12:.2f} TB/s", flush=True)
    measured: list[Any] = []
    for mib, dtype in product(map(int, args.mib.split(",")), args.dtypes.split(",")):
        print(f"{mib} MiB of f32", flush=True)
        for row in rows(mib):
            if any(re.search(each, row.name) for each in args.only.split(",")):
                try:
                    measured.append(measure(row, dtype, timer, args.inductor, copy) | {"mib": mib})
                except Exception as problem:  # noqa: BLE001 - a row that fails is told, and the others go on
                    print(
                        f"{row.name:25s} {dtype:5s} FAILED {type(problem).__name__}: {str(problem)[:300]}",
                        flush=True,
                    )
    print(table(measured))
    costs = overhead()
    if args.json:
        args.json.write_text(json.dumps({"copy": copy, "rows": measured, "overhead": costs}, indent=1))


if __name__ == "__main__":
    main()
