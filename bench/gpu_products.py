"""Products of matrices on one GPU beside torch's (cuBLAS): square, odd, thin, batched, unaligned, all layouts and dtypes.

Both sides are CUDA graphs of several products of different operands, replayed in turns, so that neither what a launch costs nor the clock of
the moment counts; random data, the median of the rounds, and results held against float64 by norm. The last lines are geometric means.

    python bench/gpu_products.py [--only odd] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch

import planish as pn
from planish.config import settings

_DTYPES: Final[dict[str, tuple[Any, bool]]] = {
    "bf16": (torch.bfloat16, False),
    "f16": (torch.float16, False),
    "f32": (torch.float32, False),
    "tf32": (torch.float32, True),
    "fp8": (torch.float8_e4m3fn, True),
    "int8": (torch.int8, False),
}
"""The dtype of operands, and whether the library and we may round them."""
_WIDE: Final[dict[str, tuple[Any, Any]]] = {
    "fp8": (pn.float32, pn.bfloat16),
    "int8": (pn.int32, pn.int32),
}
"""What narrow operands are added up in, and the dtype of the result."""
_ROUNDS: Final = 9
_LONG: Final = 1.0
"""Milliseconds of a graph, about."""
_MOST: Final = 6
"""Products of a graph: as many operands are needed."""


class Case(NamedTuple):
    """One product; `layout`: n or t for each operand."""

    group: str
    m: int
    n: int
    k: int
    layout: str = "nn"
    dtype: str = "bf16"
    batch: int = 0
    epilogue: bool = False

    def __str__(self) -> str:
        many = f"{self.batch} of " if self.batch else ""
        more = " bias, gelu" if self.epilogue else ""
        return f"{self.dtype} {self.layout} {many}{self.m} x {self.n} x {self.k}{more}"


CASES: Final = (
    *(Case("square", size, size, size, "nt") for size in (2048, 4096, 8192)),
    *(Case("layouts", 4096, 4096, 4096, layout) for layout in ("nn", "tn", "tt")),
    Case("odd", 1027, 1031, 1029),
    Case("odd", 777, 1555, 2222),
    Case("odd", 1000, 2000, 3000),
    Case("odd", 3000, 3000, 3000),
    Case("odd", 3000, 3000, 3000, "nt"),
    Case("odd", 2500, 2500, 2500, "tn"),
    Case("odd", 1111, 2222, 3333, "nt"),
    Case("odd", 5000, 3001, 1000),
    Case("odd", 1024, 1024, 1024),
    Case("odd", 512, 512, 512),
    Case("odd", 1536, 1536, 1536, "nt"),
    Case("odd", 3072, 3072, 3072),
    Case("thin", 256, 256, 8192),
    Case("thin", 128, 4096, 4096, "nt"),
    Case("thin", 64, 8192, 8192, "nt"),
    Case("thin", 256, 14336, 4096, "nt"),
    Case("thin", 8192, 1024, 1024),
    Case("thin", 2048, 2048, 256),
    Case("thin", 512, 512, 16384, "tn"),
    Case("thin", 4096, 128, 4096),
    Case("batched", 512, 512, 512, batch=16),
    Case("batched", 128, 128, 64, batch=256),
    Case("batched", 1000, 1000, 200, batch=8),
    Case("batched", 2048, 2048, 64, "nt", batch=16),
    Case("types", 4096, 4096, 4096, "nt", "f16"),
    Case("types", 4096, 4096, 4096, "nt", "tf32"),
    Case("types", 4096, 4096, 4096, "nn", "tf32"),
    Case("types", 4096, 4096, 4096, "nn", "f32"),
    Case("types", 128, 4096, 4096, "nn", "f32"),
    Case("types", 4096, 4096, 4096, "nt", "fp8"),
    Case("types", 8192, 8192, 8192, "nt", "fp8"),
    Case("types", 4096, 4096, 4096, "nt", "int8"),
    Case("epilogue", 4096, 4096, 4096, "nt", epilogue=True),
    Case("epilogue", 8192, 8192, 8192, "nt", epilogue=True),
)


def _gelu(x: Any, lib: Any) -> Any:
    return lib.nn.functional.gelu(x)


def _product(case: Case, lib: Any) -> Callable[[Any, Any, Any], Any]:
    """One product, by planish or torch."""
    turn = (lambda x: pn.swapaxes(x, -1, -2)) if lib is pn else (lambda x: x.transpose(-1, -2))

    def product(a: Any, b: Any, bias: Any) -> Any:
        left, right = (x if way == "n" else turn(x) for x, way in zip((a, b), case.layout, strict=True))
        if case.dtype in _WIDE:
            return _narrow(left, right, case.dtype, lib)
        if not case.epilogue:
            return left @ right
        if lib is pn:
            return _gelu(left @ right + bias, pn)
        return _gelu(torch.nn.functional.linear(left, right.mT, bias), torch)

    return product


def _narrow(left: Any, right: Any, dtype: str, lib: Any) -> Any:
    """A product of bytes, by what each side has for it."""
    if left.dtype is torch.float64:
        return left @ right
    if lib is pn:
        inside, result = _WIDE[dtype]
        return (left.astype(inside) @ right.astype(inside)).astype(result)
    if dtype == "int8":
        return torch._int_mm(left, right)
    one = torch.ones((), device="cuda")
    return torch._scaled_mm(left, right, one, one, out_dtype=torch.bfloat16)


def _captured(run: Callable[[], Any]) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def _milliseconds(sides: list[Callable[[], Any]]) -> list[float]:
    """The median of each, in turns."""
    times: list[list[tuple[Any, Any]]] = [[] for _ in sides]
    for turn in range(_ROUNDS):
        order = list(enumerate(sides))
        for number, side in order if turn % 2 else reversed(order):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            side()
            end.record()
            times[number].append((begin, end))
    torch.cuda.synchronize()
    return [sorted(begin.elapsed_time(end) for begin, end in each)[_ROUNDS // 2] for each in times]


def measure(case: Case) -> dict[str, Any]:
    """Both sides of a case."""
    dtype, rough = _DTYPES[case.dtype]
    torch.backends.cuda.matmul.allow_tf32 = rough
    work = 2e-9 * case.m * case.n * case.k * max(case.batch, 1)
    count = max(1, min(_MOST, int(_LONG / (work / 5e2 + 1e-3))))
    before = (case.batch,) if case.batch else ()
    shapes = [(x, y) if way == "n" else (y, x) for (x, y), way in zip(((case.m, case.k), (case.k, case.n)), case.layout, strict=True)]  # fmt: skip
    spread = 32 if case.dtype == "int8" else 1
    lefts, rights = (
        [(spread * torch.randn(*before, *shape, device="cuda")).to(dtype) for _ in range(count)]
        for shape in shapes
    )
    bias = torch.randn(case.n, device="cuda").to(dtype)
    ours, theirs = _product(case, pn), _product(case, torch)

    def several(*given: Any) -> Any:
        return tuple(ours(a, b, given[-1]) for a, b in zip(given[:count], given[count:-1], strict=True))

    with settings(fastmath=rough), pn.stream(torch.cuda.current_stream()):
        together = pn.jit(several, device="cuda")
        arrays = [pn.from_dlpack(x) for x in (*lefts, *rights, bias)]
        output = torch.from_dlpack(together(*arrays)[-1])
        exact = _product(case._replace(epilogue=False), torch)(lefts[-1].double(), rights[-1].double(), None)
        if case.epilogue:
            exact = _gelu(exact + bias.double(), torch)
        errors = [
            float((x.double() - exact).norm() / exact.norm())
            for x in (output, theirs(lefts[-1], rights[-1], bias))
        ]
        del exact

        def library() -> None:
            for a, b in zip(lefts, rights, strict=True):
                theirs(a, b, bias)

        library()
        sides = [lambda: together(*arrays), _captured(library)]
        for side in sides * 3:
            side()
        mine, other = _milliseconds(sides)
    return {
        "case": str(case), "group": case.group, "ratio": other / mine, "us": 1e3 * mine / count, "library_us": 1e3 * other / count,
        "tflops": work * count / mine, "error": errors[0], "library_error": errors[1],
    }  # fmt: skip


def means(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """Geometric means of ratios, by group and of all that is neither square nor another dtype."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row["ratio"])
        if row["group"] in {"layouts", "odd", "thin", "batched"}:
            groups.setdefault("all odd, thin, batched, unaligned shapes and layouts", []).append(row["ratio"])
    for name, ratios in groups.items():
        yield name, math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="groups, with commas")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    wanted = [group for group in given.only.split(",") if group]
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if wanted and case.group not in wanted:
            continue
        try:
            row = measure(case)
        except pn.PlanishError as error:
            print(f"{case!s:44} {error}", flush=True)
            continue
        rows.append(row)
        wrong = "" if row["error"] <= 2 * row["library_error"] + 1e-6 else "   WRONG"
        print(
            f"{row['case']:44} {row['ratio']:.3f}  {row['us']:8.1f} us  {row['tflops']:5.0f} TFLOP/s  library {row['library_us']:8.1f} us"
            f"  error {row['error']:.1e} ({row['library_error']:.1e}){wrong}",
            flush=True,
        )
    for name, mean in means(rows):
        print(f"{name}: {mean:.3f}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
