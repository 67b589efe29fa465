"""Functions of the Tensor API against NumPy: one line per function, on the reference interpreter, a sample as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn

F = np.asarray([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]])
G = np.asarray([[2.0, -0.5, 1.5], [-3.0, 4.0, 0.125]])
P = np.abs(F) + 0.1
U = F / 4
I = np.asarray([[3, -7, 2], [0, 5, -1]])  # noqa: E741 - it stands beside F and B
J = np.asarray([[2, 3, -2], [1, -4, 6]])
B = np.asarray([[True, False, True], [False, False, True]])
Z = F + 1j * G
M = np.asarray([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
V = np.asarray([3.0, 1.0, 2.0, 1.0, 3.0])
N = np.asarray([1, 4, 6, 9])

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]


def same(name: str, *arrays: np.ndarray[Any, Any], numpy: str | None = None) -> Case:
    """A function of one name in both."""
    return getattr(pn, name), getattr(np, numpy or name), arrays


CASES: dict[str, Case] = {
    **{
        name: same(name, F, numpy=numpy)
        for name, numpy in {
            "abs": None, "atan": "arctan", "asinh": "arcsinh", "cbrt": None, "ceil": None, "cos": None, "cosh": None,
            "exp": None, "exp2": None, "expm1": None, "floor": None, "isfinite": None, "isinf": None, "isnan": None,
            "negative": None, "positive": None, "reciprocal": None, "round": None, "sign": None, "signbit": None,
            "sin": None, "sinc": None, "sinh": None, "square": None, "tan": None, "tanh": None, "trunc": None,
            "deg2rad": None, "rad2deg": None, "nan_to_num": None, "logical_not": None, "conj": None, "real": None,
            "imag": None, "angle": None,
        }.items()
    },
    **{name: same(name, P) for name in ("log", "log10", "log1p", "log2", "sqrt")},
    **{name: same(name, U, numpy=f"arc{name[1:]}") for name in ("acos", "asin", "atanh")},
    "acosh": same("acosh", P + 1, numpy="arccosh"),
    "rsqrt": (pn.rsqrt, lambda x: 1 / np.sqrt(x), (P,)),
    **{
        f"complex {name}": same(name, Z, numpy=numpy)
        for name, numpy in {
            "abs": None, "exp": None, "expm1": None, "log": None, "sqrt": None, "sin": None, "tanh": None, "conj": None,
            "real": None, "imag": None, "angle": None, "square": None, "reciprocal": None, "sign": None, "round": None,
            "acosh": "arccosh", "atan": "arctan",
        }.items()
    },
    **{
        name: same(name, F, G)
        for name in (
            "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum", "minimum", "hypot",
            "copysign", "logaddexp", "nextafter", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
            "logical_and", "logical_or", "logical_xor",
        )
    },
    "atan2": same("atan2", F, G, numpy="arctan2"),
    "pow": same("pow", P, G, numpy="power"),
    **{
        f"integer {name}": same(name, I, J)
        for name in (
            "add", "multiply", "floor_divide", "remainder", "fmod", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor",
            "less",
        )
    },
    "bitwise_left_shift": (pn.bitwise_left_shift, np.left_shift, (I, np.abs(J))),
    "bitwise_right_shift": (pn.bitwise_right_shift, np.right_shift, (I, np.abs(J))),
    "bitwise_right_shift of unsigned": (
        pn.bitwise_right_shift,
        np.right_shift,
        (np.asarray([200, 3], np.uint8), np.asarray([1, 1], np.uint8)),
    ),
    "bitwise_invert": same("bitwise_invert", I, numpy="invert"),
    "bitwise_count": (pn.bitwise_count, np.bitwise_count, (I,)),
    "integers divided are floats": (pn.divide, lambda x, y: (x / y).astype(np.float32), (I, J)),
    "exp of integers": (pn.exp, lambda x: np.exp(x).astype(np.float32), (I,)),
    "clip": (lambda x: pn.clip(x, -0.5, 2.5), lambda x: np.clip(x, -0.5, 2.5), (F,)),
    "clip by tensors": (lambda x, y: pn.clip(x, y, y + 1), lambda x, y: np.clip(x, y, y + 1), (F, G)),
    "clip integers beyond their range": (
        lambda x: pn.clip(x, -1000, 4),
        lambda x: np.minimum(x, np.int8(4)),
        (I.astype(np.int8),),
    ),
    "isclose": (lambda x, y: pn.isclose(x, y, atol=1.5), lambda x, y: np.isclose(x, y, atol=1.5), (F, G)),
    "lerp": (lambda x, y: pn.lerp(x, y, 0.25), lambda x, y: x + 0.25 * (y - x), (F, G)),
    "round to tenths": (lambda x: pn.round(x, 1), lambda x: np.round(x, 1), (F,)),
    "round to tens": (lambda x: pn.round(x, -1), lambda x: np.round(x, -1), (I * 7,)),
    "where": (pn.where, np.where, (B, F, G)),
    "where with a number": (lambda c, x: pn.where(c, x, 0.0), lambda c, x: np.where(c, x, 0.0), (B, F)),
    # statistics
    **{
        f"{name} over {axis}": (
            lambda x, name=name, axis=axis: getattr(pn, name)(x, axis=axis),
            lambda x, name=name, axis=axis: getattr(np, name)(x, axis=axis),
            (F,),
        )
        for name in ("sum", "prod", "mean", "max", "min", "var", "std", "all", "any")
        for axis in (None, 1, (0, 1))
    },
    "sum of bools": (pn.sum, np.sum, (B,)),
    "sum of small integers": (pn.sum, np.sum, (I.astype(np.int8),)),
    "sum in a dtype": (
        lambda x: pn.sum(x, dtype=pn.float32),
        lambda x: np.sum(x, dtype=np.float32),
        (I,),
    ),
    "mean of integers": (pn.mean, lambda x: np.mean(x).astype(np.float32), (I,)),
    "var with correction": (
        lambda x: pn.var(x, axis=0, correction=1, keepdims=True),
        lambda x: np.var(x, axis=0, ddof=1, keepdims=True),
        (F,),
    ),
    "var of complex": (pn.var, np.var, (Z,)),
    "median": (lambda x: pn.median(x, axis=1), lambda x: np.median(x, axis=1), (F,)),
    "quantile": (lambda x: pn.quantile(x, 0.3), lambda x: np.quantile(x, 0.3), (F,)),
    "average": (
        lambda x, w: pn.average(x, axis=1, weights=w),
        lambda x, w: np.average(x, axis=1, weights=w),
        (F, P),
    ),
    "cumulative_sum": (
        lambda x: pn.cumulative_sum(x, axis=1, include_initial=True),
        lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
        (F,),
    ),
    "cumulative_prod": (
        lambda x: pn.cumulative_prod(x, axis=0),
        lambda x: np.cumulative_prod(x, axis=0),
        (F,),
    ),
    "cumulative_max": (
        lambda x: pn.cumulative_max(x, axis=1),
        lambda x: np.maximum.accumulate(x, axis=1),
        (F,),
    ),
    "cumulative_logsumexp": (
        lambda x: pn.cumulative_logsumexp(x, axis=1),
        lambda x: np.logaddexp.accumulate(x, axis=1),
        (F,),
    ),
    # searching, sorting, sets
    "argmax": (lambda x: pn.argmax(x, axis=1), lambda x: np.argmax(x, axis=1), (F,)),
    "argmin of all": (
        lambda x: pn.argmin(x, keepdims=True),
        lambda x: np.argmin(x, keepdims=True),
        (F,),
    ),
    "count_nonzero": (lambda x: pn.count_nonzero(x, axis=0), lambda x: np.count_nonzero(x, axis=0), (I,)),
    "nonzero": (lambda x: pn.stack(pn.nonzero(x)), lambda x: np.stack(np.nonzero(x)), (B,)),
    "argwhere": (pn.argwhere, np.argwhere, (B,)),
    "searchsorted": (
        lambda x, y: pn.searchsorted(x, y, side="right"),
        lambda x, y: np.searchsorted(x, y, side="right"),
        (N, I),
    ),
    "searchsorted through a sorter": (
        lambda x, y: pn.searchsorted(x, y, sorter=pn.argsort(x)),
        lambda x, y: np.searchsorted(x, y, sorter=np.argsort(x)),
        (V[:3], F),
    ),
    "digitize": (pn.digitize, np.digitize, (F, np.asarray([-1.0, 0.0, 2.0]))),
    "interp": (pn.interp, np.interp, (F, np.asarray([-1.0, 0.0, 3.0]), np.asarray([5.0, 1.0, 2.0]))),
    "sort": (pn.sort, np.sort, (F,)),
    "sort descending": (
        lambda x: pn.sort(x, axis=0, descending=True),
        lambda x: np.sort(x, axis=0)[::-1],
        (F,),
    ),
    "argsort": (pn.argsort, lambda x: np.argsort(x, kind="stable"), (V,)),
    "lexsort": (lambda x, y: pn.lexsort((x, y)), lambda x, y: np.lexsort((x, y)), (V, V[::-1])),
    "topk": (lambda x: pn.topk(x, 2)[0], lambda x: np.sort(x)[..., ::-1][..., :2], (F,)),
    "unique_values": (pn.unique_values, np.unique_values, (V,)),
    "unique_counts": (
        lambda x: pn.unique_counts(x).counts,
        lambda x: np.unique_counts(x).counts,
        (V,),
    ),
    "unique_inverse": (
        lambda x: pn.unique_inverse(x).inverse_indices,
        lambda x: np.unique_inverse(x).inverse_indices,
        (I,),
    ),
    "unique_all of complex": (
        lambda x: pn.unique_all(x).values,
        lambda x: np.unique_all(x).values,
        (np.concat([Z, Z]),),
    ),
    "isin": (pn.isin, np.isin, (I, N)),
    "isin of many": (pn.isin, np.isin, (I, np.arange(-20, 20, 3))),
    "bincount": (pn.bincount, np.bincount, (np.abs(I).reshape(-1),)),
    "diff": (lambda x: pn.diff(x, n=2), lambda x: np.diff(x, n=2), (F,)),
    "diff of bools": (pn.diff, np.diff, (B,)),
    # manipulation
    "broadcast_to": (
        lambda x: pn.broadcast_to(x, (4, 2, 3)),
        lambda x: np.broadcast_to(x, (4, 2, 3)),
        (F,),
    ),
    "concat": (lambda x, y: pn.concat([x, y], axis=1), lambda x, y: np.concat([x, y], axis=1), (F, G)),
    "concat of mixed dtypes": (lambda x, y: pn.concat([x, y]), lambda x, y: np.concat([x, y]), (F, I)),
    "concat flat": (lambda x, y: pn.concat([x, y], axis=None), lambda x, y: np.concat([x, y], axis=None), (F, I)),
    "stack": (lambda x, y: pn.stack([x, y], axis=-1), lambda x, y: np.stack([x, y], axis=-1), (F, G)),
    "hstack": (lambda x, y: pn.hstack([x, y]), lambda x, y: np.hstack([x, y]), (F, G)),
    "vstack": (lambda x, y: pn.vstack([x, y]), lambda x, y: np.vstack([x, y]), (V, V)),
    "unstack": (lambda x: pn.unstack(x, axis=1)[2], lambda x: np.unstack(x, axis=1)[2], (F,)),
    "split": (lambda x: pn.split(x, [1, 2], axis=1)[1], lambda x: np.split(x, [1, 2], axis=1)[1], (F,)),
    "expand_dims": (lambda x: pn.expand_dims(x, (0, -1)), lambda x: np.expand_dims(x, (0, -1)), (F,)),
    "squeeze": (lambda x: pn.squeeze(x[None, :, None]), lambda x: np.squeeze(x[None, :, None]), (F,)),
    "flip": (lambda x: pn.flip(x, axis=1), lambda x: np.flip(x, axis=1), (F,)),
    "moveaxis": (
        lambda x: pn.moveaxis(x[None], (0, 2), (2, 0)),
        lambda x: np.moveaxis(x[None], (0, 2), (2, 0)),
        (F,),
    ),
    "swapaxes": (lambda x: pn.swapaxes(x, 0, 1), lambda x: np.swapaxes(x, 0, 1), (F,)),
    **{
        f"rot90 by {k}": (lambda x, k=k: pn.rot90(x, k), lambda x, k=k: np.rot90(x, k), (F,)) for k in (-1, 1, 2, 4)
    },
    "roll": (lambda x: pn.roll(x, (1, -2), axis=(0, 1)), lambda x: np.roll(x, (1, -2), axis=(0, 1)), (F,)),
    "roll flat": (lambda x: pn.roll(x, 2), lambda x: np.roll(x, 2), (F,)),
    "repeat": (lambda x: pn.repeat(x, 2, axis=1), lambda x: np.repeat(x, 2, axis=1), (F,)),
    "repeat by counts": (
        lambda x, c: pn.repeat(x, c, axis=1),
        lambda x, c: np.repeat(x, c, axis=1),
        (F, np.asarray([0, 2, 1])),
    ),
    "tile": (lambda x: pn.tile(x, (2, 1, 2)), lambda x: np.tile(x, (2, 1, 2)), (F,)),
    **{
        f"pad {mode}": (
            lambda x, mode=mode: pn.pad(x, ((1, 2), (3, 0)), mode),
            lambda x, mode=mode: np.pad(x, ((1, 2), (3, 0)), mode),
            (F,),
        )
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
    },
    "pad with a value": (
        lambda x: pn.pad(x, 1, constant_values=7),
        lambda x: np.pad(x, 1, constant_values=7),
        (I,),
    ),
    # creation
    "arange": (lambda: pn.arange(3, -4, -2), lambda: np.arange(3, -4, -2), ()),
    "arange of floats": (
        lambda: pn.arange(0.5, 3, 0.25, dtype=pn.float64),
        lambda: np.arange(0.5, 3, 0.25),
        (),
    ),
    "linspace": (lambda: pn.linspace(-1, 2, 7, dtype=pn.float64), lambda: np.linspace(-1, 2, 7), ()),
    "logspace": (lambda: pn.logspace(0, 2, 5, dtype=pn.float64), lambda: np.logspace(0, 2, 5), ()),
    "eye": (lambda: pn.eye(3, 4, k=1), lambda: np.eye(3, 4, k=1, dtype=np.float32), ()),
    "tri": (lambda: pn.tri(3, 4, k=1), lambda: np.tri(3, 4, 1, dtype=np.float32), ()),
    "tril": (lambda x: pn.tril(x, k=-1), lambda x: np.tril(x, k=-1), (M,)),
    "triu": (lambda x: pn.triu(x, k=1), lambda x: np.triu(x, k=1), (M,)),
    "diag": (lambda x: pn.diag(x, k=-1), lambda x: np.diag(x, k=-1), (V,)),
    "diag of a matrix": (lambda x: pn.diag(x, k=1), lambda x: np.diag(x, k=1), (M,)),
    "vander": (pn.vander, np.vander, (V,)),
    "meshgrid": (lambda x, y: pn.meshgrid(x, y)[1], lambda x, y: np.meshgrid(x, y)[1], (V, N)),
    "meshgrid ij": (
        lambda x, y: pn.meshgrid(x, y, indexing="ij")[1],
        lambda x, y: np.meshgrid(x, y, indexing="ij")[1],
        (V, N),
    ),
    "one_hot": (
        lambda x: pn.one_hot(x, 5),
        lambda x: (x[..., None] == np.arange(5)).astype(np.float32),
        (np.asarray([[0, 4], [2, 7]], np.uint8),),
    ),
    "full_like": (lambda x: pn.full_like(x, 3), lambda x: np.full_like(x, 3), (F,)),
    # products
    "matmul": (pn.matmul, np.matmul, (F, M)),
    "matmul of stacks": (pn.matmul, np.matmul, (np.stack([F, G]), np.stack([M, M.T])[:, None, :, :][:, 0])),
    "matmul of a stack and a matrix": (pn.matmul, np.matmul, (np.stack([F, G]), M)),
    "matmul of vectors": (pn.matmul, np.matmul, (V, V)),
    "tensordot": (
        lambda x, y: pn.tensordot(x, y, axes=((1,), (0,))),
        lambda x, y: np.tensordot(x, y, axes=((1,), (0,))),
        (F, M),
    ),
    "vecdot": (pn.vecdot, np.vecdot, (Z, Z * 2)),
    "einsum": (
        lambda x, y: pn.einsum("ij,kj->ik", x, y),
        lambda x, y: np.einsum("ij,kj->ik", x, y),
        (F, G),
    ),
    "dot": (pn.dot, np.dot, (F, M)),
    "inner": (pn.inner, np.inner, (F, G)),
    "outer": (pn.outer, np.outer, (V, N)),
    "kron": (pn.kron, np.kron, (F, M)),
    "matrix_transpose": (pn.matrix_transpose, np.matrix_transpose, (np.stack([F, G]),)),
    # by position
    "take": (lambda x, i: pn.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1), (F, np.asarray([2, 0, -1]))),
    "take_along_axis": (
        lambda x, i: pn.take_along_axis(x, i, axis=1),
        lambda x, i: np.take_along_axis(x, i, axis=1),
        (F, np.asarray([[0, 2], [1, -1]])),
    ),
    "astype": (lambda x: pn.astype(x, pn.int8), lambda x: x.astype(np.int8), (F,)),
}  # fmt: skip


def check(case: Case) -> None:
    ours, numpys, arrays = case
    found = ours(*[pn.asarray(x) for x in arrays])
    expected = np.asarray(numpys(*arrays))
    assert found.numpy().dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind in "fc":
        # float32 here and there comes of float64 in NumPy: a few units in its last place
        tolerance = 1e-6 if expected.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("name", CASES)
def test_functions_do_what_numpys_do(name: str) -> None:
    with pn.settings(device="interpreter"):
        check(CASES[name])


NATIVE = (
    "add", "integer floor_divide", "complex expm1", "clip by tensors", "where", "var over 1", "argmax", "sort", "argsort",
    "nonzero", "unique_counts", "searchsorted", "concat", "roll", "pad reflect", "repeat by counts", "linspace", "one_hot",
    "matmul of stacks", "einsum", "take_along_axis", "cumulative_sum", "interp",
)  # fmt: skip


@pytest.mark.parametrize("name", NATIVE)
def test_a_sample_as_machine_code(name: str) -> None:
    with pn.settings(device="cpu"):
        check(CASES[name])


def test_every_function_of_a_chapter_is_public() -> None:
    missing = [name for name in dir(pn) if not hasattr(pn, name)]
    assert missing == []


@pytest.mark.parametrize("device", ["interpreter", "cpu"])
def test_scatter_by_every_reduction(device: str) -> None:
    x = np.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    index = np.asarray([[0, 2, 0], [1, 1, 1]])
    updates = np.asarray([[10.0, 20.0, 30.0], [7.0, 8.0, -9.0]])
    ufuncs = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    with pn.settings(device=device):
        for reduce, ufunc in ufuncs.items():
            expected = x.copy()
            for row in range(2):
                for at, value in zip(index[row], updates[row], strict=True):
                    expected[row, at] = ufunc(expected[row, at], value)
            found = pn.scatter(pn.asarray(x), pn.asarray(index), pn.asarray(updates), axis=1, reduce=reduce)
            np.testing.assert_array_equal(found.numpy(), expected)
        replaced = pn.scatter(pn.asarray(x), pn.asarray(index), pn.asarray(updates), axis=1).numpy()
        np.testing.assert_array_equal(replaced, [[30.0, 2.0, 20.0], [4.0, -9.0, 6.0]])
        positions = pn.asarray([[0, 1], [1, 2]])
        np.testing.assert_array_equal(pn.gather_nd(pn.asarray(x), positions).numpy(), [2.0, 6.0])
        added = pn.scatter_nd(pn.asarray(x), positions, 5.0, reduce="add").numpy()
        np.testing.assert_array_equal(added, [[1.0, 7.0, 3.0], [4.0, 5.0, 11.0]])
        sums = pn.segment_sum(pn.asarray(x), pn.asarray([1, 1]), 3).numpy()
        np.testing.assert_array_equal(sums, [[0.0] * 3, [5.0, 7.0, 9.0], [0.0] * 3])


@pytest.mark.parametrize("name", ["add", "minimum", "less", "atan2", "floor_divide", "logical_and", "pow"])
def test_two_numbers_of_pythons(name: str) -> None:
    """No operand is a tensor, the first time and later."""
    made = getattr(pn, name)
    for a, b in ((3, 2), (4.0, 0.5), (3, 2)):
        wanted = getattr(np, name)(a, b)
        compiled = pn.jit(lambda x, a=a, b=b: x + made(a, b))
        np.testing.assert_allclose(compiled(pn.zeros(2)), np.array([wanted, wanted], np.float32), rtol=1e-6)
        np.testing.assert_allclose(made(a, b), wanted, rtol=1e-6)
