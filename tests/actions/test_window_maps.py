"""Windows that a copy engine brings: what is found in the index of a convolution, that results are right, and that what is planted wrong is found."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import planish as pn
from planish import compiler, nn
from planish.config import settings
from planish.errors import VerifyError
from planish.llir.interpret import interpret
from planish.llir.program import CopyBox, Immediate, Program
from planish.llir.text import parse, print_program

RNG = np.random.default_rng(7)
Sizes = tuple[int, int, int, int, tuple[int, int]]
CASES: dict[str, tuple[Sizes, dict[str, Any], tuple[Any, ...]]] = {
    "padded": ((1, 64, 8, 8, (3, 3)), {"padding": 1}, ((64, 8, 8, 1), (-1, -1), (-1, -1), (1, 1))),
    "strided": (
        (2, 64, 7, 8, (3, 3)),
        {"padding": 1, "stride": 2},
        ((64, 7, 7, 2), (-1, -1), (-1, -1), (2, 2)),
    ),
    "dilated": (
        (2, 64, 7, 8, (3, 3)),
        {"padding": 2, "dilation": 2},
        ((64, 7, 7, 2), (-2, -2), (-2, -2), (1, 1)),
    ),
    "inside only": ((3, 64, 6, 8, (3, 3)), {}, ((64, 6, 6, 3), (0, 0), (-2, -2), (1, 1))),
    "rows of a patch lie together": (
        (2, 64, 9, 8, (2, 2)),
        {"stride": 2},
        ((128, 4, 8, 2), (0, 0), (0, -1), (1, 2)),
    ),
    "steps as long as windows": (
        (2, 64, 14, 8, (3, 3)),
        {"stride": 3},
        ((192, 4, 12, 2), (0, 0), (0, -2), (1, 3)),
    ),
    "groups of channels": (
        (1, 128, 8, 16, (3, 3)),
        {"padding": 1, "groups": 2},
        ((128, 8, 8, 1), (-1, -1), (-1, -1), (1, 1)),
    ),
    "along one axis": ((2, 64, 8, 8, (1, 5)), {"padding": (0, 2)}, ((64, 8, 16), (-2,), (-2,), (1,))),
    "every other pixel": ((2, 128, 9, 8, (1, 1)), {"stride": 2}, ((128, 5, 5, 2), (0, 0), (0, 0), (1, 1))),
}


def _last(options: dict[str, Any]) -> Any:
    def function(x: Any, w: Any) -> Any:
        found = nn.conv2d(pn.permute_dims(x, (0, 3, 1, 2)), pn.permute_dims(w, (0, 3, 1, 2)), **options)
        return pn.permute_dims(found, (0, 2, 3, 1))

    return function


def _data(sizes: Sizes, groups: int = 1, dtype: Any = ml_dtypes.bfloat16) -> list[Any]:
    images, inputs, side, outputs, window = sizes
    x = RNG.integers(-3, 4, (images, side, side, inputs)).astype(dtype)
    return [x, RNG.integers(-1, 2, (outputs, *window, inputs // groups)).astype(dtype)]


def _pair(value: Any) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def exact(arrays: list[Any], options: dict[str, Any]) -> Any:
    """The sum over taps, in float64."""
    (top, left), (down, right) = _pair(options.get("padding", 0)), _pair(options.get("stride", 1))
    apart, groups = options.get("dilation", 1), options.get("groups", 1)
    x, w = (np.asarray(each, np.float64) for each in arrays)
    x = np.pad(x, ((0, 0), (top, top), (left, left), (0, 0)))
    high, wide = (
        (size - apart * (taps - 1) - 1) // step + 1
        for size, taps, step in zip(x.shape[1:3], w.shape[1:3], (down, right), strict=True)
    )
    found = []
    for mine, kernel in zip(np.split(x, groups, 3), np.split(w, groups, 0), strict=True):
        total = np.zeros((x.shape[0], high, wide, kernel.shape[0]))
        for r in range(w.shape[1]):
            for s in range(w.shape[2]):
                rows = mine[:, r * apart :: down, s * apart :: right][:, :high, :wide]
                total += rows @ kernel[:, r, s].T
        found.append(total)
    return np.concatenate(found, 3)


def _lowered(arrays: list[Any], options: dict[str, Any]) -> compiler.Lowered:
    traced = pn.jit(_last(options)).lower(*map(pn.asarray, arrays)).function
    with settings(check="spec"):
        return compiler.lower(traced, "sm_90")


def _windows(lowered: compiler.Lowered) -> list[CopyBox]:
    return [box for program in lowered.programs for box in program.boxes if box.offsets]


@pytest.mark.parametrize("name", CASES)
def test_windows_are_found_and_right(name: str) -> None:
    sizes, options, expected = CASES[name]
    arrays = _data(sizes, options.get("groups", 1))
    lowered = _lowered(arrays, options)
    (box,) = _windows(lowered)
    assert (box.dims, box.lower, box.upper, box.steps) == expected
    (found,) = lowered.interpreted()(*arrays)
    np.testing.assert_array_equal(found, exact(arrays, options).astype(ml_dtypes.bfloat16))
    text = lowered.as_text("cuda")
    assert f"cp.async.bulk.tensor.{len(box.dims)}d.shared::cluster.global.im2col" in text


def test_other_gpus_copy_by_threads() -> None:
    sizes, options, _ = CASES["padded"]
    arrays = _data(sizes)
    traced = pn.jit(_last(options)).lower(*map(pn.asarray, arrays)).function
    assert "im2col" not in compiler.lower(traced, "sm_80").as_text("cuda")


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1, 32, 8, 8, (3, 3)), {"padding": 1}),
        ((1, 64, 27, 8, (3, 3)), {"padding": 1, "stride": 9}),
        ((1, 64, 8, 8, (3, 3)), {"padding": 130, "dilation": 130}),
    ],
    ids=["taps that share a row", "steps that are too long", "corners that are too far away"],
)
def test_what_an_engine_does_not_know_is_copied_by_threads(sizes: Sizes, options: dict[str, Any]) -> None:
    arrays = _data(sizes)
    lowered = _lowered(arrays, options)
    assert not _windows(lowered)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_whatever_slides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    options = {
        "padding": (int(rng.integers(0, 3)), int(rng.integers(0, 3))),
        "stride": int(rng.integers(1, 4)),
        "dilation": int(rng.integers(1, 3)),
    }
    sizes = int(rng.integers(1, 4)), 64, int(rng.integers(7, 10)), 8, window
    arrays = _data(sizes)
    lowered = _lowered(arrays, options)
    (found,) = lowered.interpreted()(*arrays)
    np.testing.assert_array_equal(found, exact(arrays, options).astype(ml_dtypes.bfloat16))


@pytest.mark.slow
def test_gradients_by_weights_and_input() -> None:
    """Terms are pixels, and rows taps and channels; the kernel turned round."""
    x, w = _data((2, 64, 8, 64, (1, 3)))

    def loss(x: Any, w: Any) -> Any:
        return pn.sum(_last({"padding": (0, 1)})(x, w).astype(pn.float32) ** 2)

    found = pn.jit(pn.grad(loss, argnums=(0, 1))).lower(pn.asarray(x), pn.asarray(w)).function
    lowered = compiler.lower(found, "sm_90")
    assert len(_windows(lowered)) == 2  # of the input, for the result and for the weights
    wanted = compiler.compile(found)(x, w)
    for mine, theirs in zip(lowered.interpreted()(x, w), wanted, strict=True):
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=2e-2, atol=1e-2)


def _program() -> tuple[Program, list[Any], Any]:
    sizes, options, _ = CASES["strided"]
    arrays = _data(sizes)
    (program,) = _lowered(arrays, options).programs
    wanted = exact(arrays, options).astype(ml_dtypes.bfloat16)
    return program, arrays, wanted


def _run(program: Program, arrays: list[Any], wanted: Any) -> Any:
    out = np.zeros(wanted.size, wanted.dtype)
    places = {"out": out, "a": arrays[0].reshape(-1), "w": arrays[1].reshape(-1)}
    given = iter((places["a"], places["w"]))
    interpret(program, [out if b.elements == out.size else next(given) for b in program.params])
    return out.reshape(wanted.shape)


def test_text_tells_all_of_it() -> None:
    program, _, _ = _program()
    text = print_program(program)
    assert "aside" in text
    assert print_program(parse(text)) == text


@pytest.mark.parametrize(
    "change",
    [
        lambda box: {"lower": (-1, 0)},
        lambda box: {"upper": (2, -1)},
        lambda box: {"steps": (2, 1)},
        lambda box: {"offsets": box.offsets[::-1]},
        lambda box: {"offsets": (Immediate(0, box.offsets[0].dtype), box.offsets[1])},
        lambda box: {"dims": (*box.dims[:1], box.dims[1] + 1, *box.dims[2:])},
    ],
    ids=[
        "lower corner",
        "upper corner",
        "steps",
        "taps exchanged",
        "one tap for all",
        "a dim that is longer",
    ],
)
def test_what_is_planted_wrong_is_found(change: Any) -> None:
    program, arrays, wanted = _program()
    np.testing.assert_array_equal(_run(program, arrays, wanted), wanted)
    body = tuple(replace(i, **change(i)) if isinstance(i, CopyBox) and i.offsets else i for i in program.body)
    with suppress(VerifyError):  # no pixel is there, or it is outside of the parameter
        assert (_run(replace(program, body=body), arrays, wanted) != wanted).any()
