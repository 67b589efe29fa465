"""Why tensors get memory: the reasons are what they say, `exe.why()` tells them, and the table has no row too many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import planish as pn
from planish.frontend.tensor import Tensor
from planish.nn import functional
from planish.optimize.windows import window_of
from planish.schedule import reasons, reduction_reasons
from planish.schedule.kernels import schedule
from planish.stages import pipeline
from planish.target import TARGETS
from planish.uop.nest.kernel import Nest
from planish.uop.node import Table

IMAGE, KERNEL = (1, 32, 14, 14), (32, 32, 3, 3)
FEW, NARROW = (1, 16, 14, 14), (32, 16, 3, 3)
TABLE = (
    *reasons.COMPUTED_HERE,
    *reasons.TAKEN_HERE,
    *reasons.MOVED_HERE,
    *reduction_reasons.REDUCED_HERE,
    *reduction_reasons.REDUCED_ONCE,
    *reduction_reasons.REDUCED_AGAIN,
)
conv = partial(functional.conv2d, padding=1)


def reasons_of(function: Callable[..., object], *dims: tuple[int, ...]) -> list[str]:
    """The names of the reasons, kernel by kernel."""
    lowered = pn.jit(function).lower(*(pn.zeros(shape) for shape in dims))
    with Table() as table:
        made = schedule(lowered.function, table)
        return [reason.split(":")[0] for kernel in made.kernels for reason in kernel.because]


def _many_steps(x: Tensor) -> Tensor:
    for _ in range(600):
        x = pn.abs(x - 1.0)
    return x


CASES: dict[str, tuple[Callable[..., object], tuple[tuple[int, ...], ...], list[str]]] = {
    "result": (lambda x: x + 1.0, ((8,),), ["result"]),
    "window": (lambda x, k: conv(pn.maximum(x * 2.0 + 1.0, 0.0), k), (IMAGE, KERNEL), ["window", "result"]),
    "joined": (
        lambda x, y, k: conv(pn.concat([x, y], axis=1), k),
        ((1, 16, 14, 14), (1, 16, 14, 14), KERNEL),
        ["joined", "result"],
    ),
    "costly": (lambda x, y: pn.exp(x) @ y, ((64, 64), (64, 64)), ["costly", "result"]),
    "after something costly": (
        lambda x, y: (pn.exp(x) * 2.0) @ y,
        ((64, 64), (64, 64)),
        ["after something costly", "result"],
    ),
    "second product": (
        lambda a, b, c, d: a @ b + c @ d,
        ((64, 64),) * 4,
        ["second product", "result"],
    ),
    "sums inside": (
        lambda x, k: conv(pn.maximum(conv(x, k), 0.0), k),
        (IMAGE, KERNEL),
        ["sums inside", "result"],
    ),
    "summed up": (lambda x, k: pn.mean(conv(x, k), axis=(2, 3)), (FEW, NARROW), ["summed up", "result"]),
    "gathered": (
        lambda x, k: functional.conv1d(functional.interpolate(x, scale_factor=1.5), k),
        ((1, 1, 200), (16, 1, 9)),
        ["gathered", "result"],
    ),
    "window of rows": (
        lambda x, k: functional.layer_norm(
            pn.permute_dims(functional.conv2d(x, k, padding=3, groups=32), (0, 2, 3, 1)), (32,)
        ),
        (IMAGE, (32, 1, 7, 7)),
        ["window of rows", "result"],
    ),
    "row of a sum": (
        lambda x: pn.mean(pn.log(pn.sum(pn.exp(x), axis=1))),
        ((128, 21, 32),),
        ["row of a sum", "result"],
    ),
    "stored in order": (
        lambda w, ids, x: w.at[ids.astype(pn.int32)].add(functional.layer_norm(x, (256,))),
        ((1000, 256), (512,), (512, 256)),
        ["stored in order", "position", "written", "result"],
    ),
    "beside a product": (
        lambda x, y: pn.sum(x * x, axis=1)[:, None] - 2.0 * (x @ y),
        ((128, 32), (32, 128)),
        ["beside a product", "result"],
    ),
    "needed again": (
        lambda x: sum((pn.sqrt(x)[n : n + 6400] for n in range(9)), start=pn.zeros(6400)),
        ((10000,),),
        ["needed again", "result"],
    ),
    "one by one": (
        lambda x, rows: pn.segment_sum(pn.exp(x), pn.astype(rows, pn.int32), 5),
        ((20000,), (20000,)),
        ["one by one", "position", "written", "result"],
    ),
    "position": (
        lambda x, at: x[:, pn.astype(pn.floor(at), pn.int64)],
        ((64, 300), (200,)),
        ["position", "result"],
    ),
    "joined that data picks from": (
        lambda x, y, at: pn.concat([x, y])[pn.astype(at, pn.int32)],
        ((20000,), (20000,), (20000,)),
        ["one by one", "position", "result"],
    ),
    "repeated": (
        lambda x, k: conv(pn.repeat(pn.repeat(x, 2, axis=2), 2, axis=3), k),
        ((1, 16, 14, 14), (32, 16, 3, 3)),
        ["repeated", "result"],
    ),
    "scanned": (
        lambda x, y: pn.cumulative_sum(x @ y, axis=1),
        ((64, 64), (64, 8)),
        ["scanned", "result"],
    ),
    "large kernel": (_many_steps, ((64,),), ["large kernel", "result"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_tensor_in_memory_has_its_reason(name: str) -> None:
    function, dims, expected = CASES[name]
    assert reasons_of(function, *dims) == expected


def test_an_executable_tells_why_a_tensor_is_in_memory() -> None:
    exe = pn.jit(lambda x, y: pn.exp(x) @ y).lower(pn.zeros((64, 64)), pn.zeros((64, 64))).compile()
    text = exe.why()
    assert "in memory: costly: it costs more than reading it, and is needed again: computed again " in text
    assert " cycles, stored " in text
    assert "in memory: result: it is a result" in text


def test_reasons_have_names_and_sentences() -> None:
    for table in (
        reasons.COMPUTED_HERE,
        reasons.TAKEN_HERE,
        reasons.MOVED_HERE,
        reduction_reasons.REDUCED_HERE,
        reduction_reasons.REDUCED_ONCE,
        reduction_reasons.REDUCED_AGAIN,
    ):
        assert len({reason.name for reason in table}) == len(table)
    for reason in (*TABLE, reasons.SCAN, reasons.WRITTEN, reasons.RESULT):
        assert reason.name
        assert not reason.explanation.endswith(".")


def test_large_products_that_are_summed_up_are_not_written() -> None:
    """Of a matrix beyond what stays in a cache only the reduction is stored."""
    assert reasons_of(lambda a, b: pn.max(a @ b, axis=1), (4096, 16), (16, 4096)) == ["result"]


def test_what_windows_read_is_stored_in_their_order() -> None:
    """A join along the last axis, transposed before a convolution: what is stored is the transposed one."""

    def function(*given: Tensor) -> Tensor:
        *parts, kernel = given
        return conv(pn.permute_dims(pn.concat(parts, axis=-1), (0, 3, 1, 2)), kernel)

    dims = (*((1, 12, 20, 1),) * 8, (4, 8, 3, 3))
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape, dtype=np.float32) for shape in dims]
    with Table() as table:
        made = schedule(pn.jit(function).lower(*map(pn.asarray, arrays)).function, table)
        machine = pipeline.Machine(TARGETS["x86-64-v4"], lambda sink: ())
        kernel = made.kernels[-1]
        sink = kernel.sink
        for step in pipeline.steps(sink, machine, kernel.name):
            if step.stage.number == 7:
                break
            sink = step.form if not isinstance(step.form, list) else sink
        view = Nest.of(sink)
        window = window_of(view)
        assert window is not None
        assert view.stride(window.image, window.pixels[-1]) == 1
    joined = np.transpose(np.concatenate(arrays[:-1], axis=-1), (0, 3, 1, 2))
    expected = functional.conv2d(pn.asarray(joined), pn.asarray(arrays[-1]), padding=1)
    found = pn.jit(function)(*map(pn.asarray, arrays))
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5, atol=1e-5)
