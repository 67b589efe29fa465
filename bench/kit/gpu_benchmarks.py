"""The programs of the benchmarks on GPUs, for the cost model's: whether what is chosen there is as fast as what was. It is not fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import gpu
import gpu_convolutions
import gpu_products

import planish as pn
from kit.gpu_kernels import BF16, F32, Program
from planish import nn

_MIB = 256
"""Of arrays of four-byte elements in `gpu.py`."""
_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "int8": "int8"}


def programs() -> Iterator[Program]:
    """Those of `gpu.py`, `gpu_products.py` and `gpu_convolutions.py` that need no setting."""
    for dtype in (F32, BF16):
        for row in gpu.rows(_MIB):
            given = [
                pn.zeros(shape, dtype="uint8" if row.bits and n == 0 else dtype)
                for n, shape in enumerate(row.shapes)
            ]
            if row.indices:
                given.append(pn.zeros((row.indices,), dtype="int32"))
            yield Program(f"{row.name} {dtype}", row.ours, given, row.indices or 64)
    for case in gpu_products.CASES:
        if case.dtype in _DTYPES:
            before = (case.batch,) if case.batch else ()
            sizes = ((case.m, case.k), (case.k, case.n))
            shapes = [
                (*before, *(size if way == "n" else size[::-1]))
                for size, way in zip(sizes, case.layout, strict=True)
            ]
            given = [pn.zeros(shape, dtype=_DTYPES[case.dtype]) for shape in (*shapes, (case.n,))]
            yield Program(str(case), gpu_products._product(case, pn), given)
    for row in gpu_convolutions.ROWS:
        groups = row.options.get("groups", 1)
        image, window = (row.images, row.side, row.side, row.inputs), (row.outputs, row.window, row.window, row.inputs // groups)  # fmt: skip
        for order in ("NHWC", "NCHW"):
            last = order == "NHWC"
            shapes = [each if last else (each[0], each[3], each[1], each[2]) for each in (image, window)]
            given = [pn.zeros(shape, dtype=BF16) for shape in shapes]
            function = gpu_convolutions._last(row.options) if last else partial(nn.conv2d, **row.options)
            yield Program(f"{row.name} {order}", function, given)
