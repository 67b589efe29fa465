"""Bad input: every mistake raises where it is made, names shapes or dtypes, and says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.errors import DTypeError, PlanishError, ShapeError

X = pn.asarray(np.ones((2, 3), np.float32))
Y = pn.asarray(np.ones((4, 5), np.float32))
V = pn.asarray(np.ones(3, np.float32))
I = pn.asarray(np.ones((2, 3), np.int32))  # noqa: E741 - it stands beside X and B
B = pn.asarray(np.ones((2, 3), bool))
Z = pn.asarray(np.ones((2, 3), np.complex64))
wrong: Any = "one"

MISTAKES: list[tuple[Callable[[], object], type[PlanishError], tuple[str, ...]]] = [
    # shapes
    (lambda: X + Y, ShapeError, ("add", "(2, 3)", "(4, 5)", "or one of them 1")),
    (lambda: pn.where(B, X, Y), ShapeError, ("where", "(2, 3)", "(4, 5)")),
    (lambda: X @ Y, ShapeError, ("matmul", "(2, 3)", "(4, 5)", "second-last")),
    (lambda: pn.reshape(X, (4, 2)), ShapeError, ("reshape", "6 elements", "(4, 2)", "-1")),
    (lambda: pn.reshape(X, (-1, -1)), ShapeError, ("reshape", "more than one -1")),
    (lambda: pn.broadcast_to(X, (2, 4)), ShapeError, ("broadcast_to", "(2, 3)", "(2, 4)")),
    (lambda: pn.concat([X, Y]), ShapeError, ("concat", "(2, 3)", "(4, 5)", "other axes")),
    (lambda: pn.concat([]), ShapeError, ("concat", "nothing")),
    (lambda: pn.stack([X, V]), ShapeError, ("stack", "(2, 3)", "(3,)", "concat")),
    (lambda: pn.squeeze(X, 0), ShapeError, ("squeeze", "axis 0", "(2, 3)")),
    (lambda: pn.split(X, 4, axis=1), ShapeError, ("split", "4 equal parts", "(2, 3)")),
    (lambda: pn.tril(V), ShapeError, ("tril", "(3,)", "two axes")),
    (lambda: V.mT, ShapeError, ("matrix_transpose", "(3,)")),
    (lambda: X[None].T, ShapeError, ("T", "(1, 2, 3)", "mT")),
    (lambda: pn.tensordot(X, Y, axes=1), ShapeError, ("tensordot", "(2, 3)", "(4, 5)")),
    (lambda: pn.vecdot(X, pn.ones(4)), ShapeError, ("vecdot", "(2, 3)", "(4,)")),
    (lambda: pn.einsum("ij,jk->ik", X, Y), ShapeError, ("einsum",)),
    (lambda: pn.vander(X), ShapeError, ("vander", "(2, 3)", "vector")),
    (lambda: pn.polyval(X, V), ShapeError, ("polyval", "(2, 3)", "coefficients")),
    (lambda: pn.max(X, where=B), ShapeError, ("max", "initial")),
    (lambda: pn.average(X, 0, V), ShapeError, ("average", "(3,)", "(2, 3)")),
    (lambda: pn.var(X, ddof=wrong), DTypeError, ("var", "ddof", "one", "number")),
    (lambda: pn.std(X, ddof=1, correction=1), ShapeError, ("var", "ddof", "one of them")),
    (lambda: pn.bincount(I[0], minlength=wrong), DTypeError, ("bincount", "minlength", "integer")),
    (lambda: pn.nonzero(X, size=wrong), DTypeError, ("nonzero", "size", "integer")),
    (
        lambda: pn.nn.avg_pool1d(X[None], 2, divisor_override=0),
        ShapeError,
        ("avg_pool1d", "divisor_override"),
    ),
    (lambda: pn.optim.Adam(lr=wrong), PlanishError, ("lr", "one", "at least 0")),
    (lambda: pn.linalg.eigh(pn.eye(2), wrong), ShapeError, ("eigh", "one", "L or U")),
    (lambda: pn.pad(X, ((1, 1),) * 3), ShapeError, ("pad", "(2, 3)", "per axis")),
    (lambda: pn.pad(X, 1, "mirror"), ShapeError, ("pad", "mirror", "reflect")),
    (lambda: pn.roll(X, (1, 2), axis=0), ShapeError, ("roll", "2 shifts")),
    (lambda: pn.repeat(X, pn.asarray([1, 2]), axis=1), ShapeError, ("repeat", "(2,)", "(2, 3)")),
    (lambda: pn.take_along_axis(X, pn.asarray([0])), ShapeError, ("take_along_axis", "(2, 3)", "(1,)")),
    (lambda: pn.topk(X, 5), ShapeError, ("topk", "no 5", "(2, 3)")),
    (lambda: pn.max(pn.zeros((0, 2)), axis=0), ShapeError, ("max", "(0, 2)")),
    (lambda: pn.argmax(pn.zeros(0)), ShapeError, ("argmax", "(0,)")),
    (lambda: pn.linalg.inv(X), ShapeError, ("inv", "(2, 3)", "not square")),
    (lambda: pn.linalg.solve(pn.eye(3), Y), ShapeError, ("solve", "(3, 3)", "(4, 5)")),
    (lambda: pn.linalg.cross(X, pn.ones(2)), ShapeError, ("cross", "(2, 3)", "(2,)")),
    (lambda: pn.linalg.matrix_norm(X, ord=3), ShapeError, ("matrix_norm", "3", "fro")),
    (lambda: pn.linalg.qr(X, mode=wrong), ShapeError, ("qr", "one", "complete")),
    (lambda: pn.fft.fft(X, norm=wrong), ShapeError, ("fft", "one", "ortho")),
    (lambda: pn.fft.fft(X, n=0), ShapeError, ("fft", "at least 1")),
    (lambda: pn.zeros((2, -1)), ShapeError, ("zeros", "(2, -1)")),
    (lambda: pn.arange(0, 3, 0), ShapeError, ("arange", "0")),
    (lambda: pn.asarray([[1, 2], [3]]), ShapeError, ("asarray",)),
    (lambda: pn.cumulative_sum(X), ShapeError, ("cumulative_sum", "(2, 3)", "axis=0")),
    (
        lambda: pn.scatter(X, pn.zeros((3, 3), dtype=pn.int64), 1.0),
        ShapeError,
        ("scatter", "(3, 3)", "(2, 3)"),
    ),
    (lambda: pn.scatter(X, I, 1.0, reduce="sub"), ShapeError, ("scatter", "sub", "add")),
    (lambda: pn.nonzero(pn.asarray(1)), ShapeError, ("nonzero", "without axes")),
    (lambda: X.item(), ShapeError, ("item", "(2, 3)", "tolist")),
    # axes
    (lambda: pn.sum(X, axis=7), ShapeError, ("sum", "axis 7", "(2, 3)", "-2 to 1")),
    (lambda: pn.sum(X, axis=(0, -2)), ShapeError, ("sum", "(0, -2)", "twice")),
    (lambda: pn.sort(X, axis=2), ShapeError, ("sort", "axis 2", "(2, 3)")),
    (lambda: pn.permute_dims(X, (0, 0)), ShapeError, ("permute_dims", "(0, 0)", "(2, 3)", "once")),
    (lambda: pn.moveaxis(X, 0, 5), ShapeError, ("moveaxis", "axis 5")),
    (lambda: pn.expand_dims(X, 4), ShapeError, ("expand_dims", "axis 4", "-3 to 2")),
    (lambda: pn.flip(X, axis=-3), ShapeError, ("flip", "axis -3", "(2, 3)")),
    (lambda: pn.stack([X, X], axis=3), ShapeError, ("stack", "axis 3")),
    (lambda: pn.sum(X, axis=wrong), DTypeError, ("sum", "an axis must be an integer", "'one'")),
    # dtypes
    (lambda: X + wrong, DTypeError, ("add", "str", "asarray")),
    (lambda: X + {1, 2, 3}, DTypeError, ("add", "set", "asarray")),  # type: ignore[arg-type]
    (lambda: B - B, DTypeError, ("subtract", "bool", "astype")),
    (lambda: I**-1, DTypeError, ("pow", "int32 ** -1", "floats")),
    (lambda: pn.arange(300, dtype="int8"), DTypeError, ("arange", "299", "int8", "wider")),
    (lambda: pn.linspace(0, 1, 3, dtype="bool"), DTypeError, ("linspace", "dtype of numbers")),
    (lambda: Z < Z, DTypeError, ("less", "c64", "abs")),
    (lambda: pn.floor(Z), DTypeError, ("floor", "c64")),
    (lambda: X & X, DTypeError, ("bitwise_and", "f32", "integer")),
    (lambda: I << X, DTypeError, ("bitwise_left_shift", "f32")),
    (lambda: pn.sort(Z), DTypeError, ("sort", "c64")),
    (lambda: pn.astype(Z, pn.float32), DTypeError, ("astype", "complex64", "float32", "real")),
    (
        lambda: pn.asarray([1], dtype=pn.uint64) + pn.asarray([1]),
        DTypeError,
        ("add", "uint64", "int64", "cast"),
    ),
    (lambda: pn.asarray([1], dtype=pn.int8) + 300, DTypeError, ("300", "i8", "-128 .. 127")),
    (lambda: pn.take(X, X, axis=0), DTypeError, ("take", "float32", "int64")),
    (lambda: pn.one_hot(X, 3), DTypeError, ("one_hot", "float32", "int64")),
    (lambda: pn.repeat(X, V, axis=1), DTypeError, ("repeat", "float32", "int64")),
    (lambda: pn.zeros(2, dtype="flot32"), DTypeError, ("flot32", "float32")),
    (lambda: pn.zeros(2, dtype=wrong), DTypeError, ("one",)),
    (lambda: pn.asarray(["a"]), DTypeError, ("asarray", "numbers")),
    (lambda: pn.asarray([300], dtype=pn.uint8), DTypeError, ("asarray", "300")),
    (lambda: pn.asarray(np.zeros(1, "datetime64[s]")), DTypeError, ("asarray", "datetime64")),
    (lambda: pn.finfo(pn.int8), DTypeError, ("finfo", "int8", "iinfo")),
    (lambda: pn.iinfo(pn.float32), DTypeError, ("iinfo", "float32", "finfo")),
    (lambda: pn.isdtype(pn.int8, "number"), DTypeError, ("isdtype", "number", "numeric")),
    (lambda: pn.fft.rfft(Z), DTypeError, ("rfft", "complex64", "fft")),
    (lambda: pn.zeros((2.5,)), DTypeError, ("zeros", "2.5", "integer")),  # type: ignore[arg-type]
    (lambda: float(Z[0, 0]), DTypeError, ("float", "complex64", "real")),
    (lambda: bool(X), DTypeError, ("bool", "(2, 3)", "any()")),
    (lambda: int(X), DTypeError, ("int", "(2, 3)", "item()")),
    (lambda: [1][X[0, 0]], DTypeError, ("index", "float32", "astype")),
    (lambda: len(pn.asarray(1)), DTypeError, ("len()",)),
    # devices
    (lambda: pn.zeros(2, device="tpu"), PlanishError, ("tpu", "interpreter")),
    (lambda: X.to_device("cpu") + X.to_device("interpreter"), PlanishError, ("add", "cpu", "to_device")),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_raises_at_its_line_with_words_that_help(number: int) -> None:
    make, kind, words = MISTAKES[number]
    with pytest.raises(kind) as caught:
        make()
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "test_array_mistakes.py" in message, message
    # nothing is lost: what was given can still be used
    assert X.tolist() == [[1.0] * 3] * 2
