"""Calls as people write them for NumPy: its names and order of parameters, its options, its codes of dtypes. NumPy is the oracle."""

from __future__ import annotations

import inspect
from typing import Any, cast

import numpy as np
import pytest

import planish as pn
from planish.errors import DTypeError, PlanishError

_random = np.random.default_rng(5)
A = _random.normal(size=(3, 4))
N = np.where(A > 1.2, np.nan, A)
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "A": A,
    "B": _random.normal(size=(4, 3)),
    "I": np.arange(12).reshape(3, 4),
    "M": A > 0,
    "N": N,
    "S": A[:, :3] @ A[:, :3].T + np.eye(3),
    "V": np.array([3.0, 1.0, 2.0, 2.0]),
}
TENSORS = {name: pn.asarray(array) for name, array in ARRAYS.items()}
CALLS = """
np.sum(A, 0, np.float32)
np.sum(A, 0, None, None, True)
np.sum(a=A, axis=1)
np.mean(I, 1, np.float32)
np.std(A, 0, np.float32)
np.std(A, mean=np.mean(A, keepdims=True))
np.var(A, 0, None, None, 1)
np.max(A, 0, None, True)
np.asarray([1, 2], np.float32)
np.asarray(A, order="C")
np.array([1, 2], "f4")
np.arange(1, 10, 2, np.float32)
np.arange(5, dtype="f8")
np.eye(N=3, M=4)
np.eye(3, 4, 1, np.int32)
np.linspace(start=0, stop=1, num=5)
np.linspace(0, 1, 5, retstep=True)[1]
np.linspace(V, V + 1, 5)
np.linspace(0, [1, 2, 3], 4, axis=1)
np.linspace(V, 3, 4, endpoint=False, axis=-1)
np.logspace(0, V, 4)
np.geomspace(1, 1000, 4)
np.geomspace(V, 1000, 4)
np.geomspace(-1, -8, 4)
np.meshgrid(V, V, sparse=True)[0]
np.meshgrid(V, I[0], copy=False)[1]
np.reshape(A, (4, 3), order="F")
np.reshape(A, (2, -1), "F")
np.ravel(A, "F")
A.reshape(4, 3, order="F")
A.reshape(4, 3, order="C")
A.ravel("F")
A.flatten("F")
np.concatenate([I, I], dtype=np.float32)
np.concatenate((I, I), 1, None)
np.stack([I, I], dtype=np.float32)
np.vstack([A, A], dtype=np.float32)
np.hstack([A, A], dtype=np.float32)
np.sort(A, kind="stable")
np.sort(A, axis=None)
np.argsort(A, 0, "mergesort")
np.argsort(A, axis=None)
A.argsort(axis=None)
np.take(A, [0, 5])
np.take(A, [0, 99], mode="clip")
np.take(A, [0, 25, -1], mode="wrap")
np.take(A, indices=[1, 2], axis=1)
np.quantile(A, q=0.3, axis=0, method="lower")
np.nanmean(N, 0, where=M)
np.nanmean(N, 0, np.float32)
np.nansum(N, initial=3)
np.nanmax(N, 0, where=M, initial=-5)
np.nanstd(N, 0, ddof=1)
np.einsum("ij,jk", A, B, optimize=True)
np.einsum(A, [0, 1], B, [1, 2], [0, 2])
np.einsum(A, [0, 1], B, [1, 30])
np.einsum(S, [..., 0, 0], [...])
np.tile(A, reps=(2, 1))
np.repeat(A, repeats=2, axis=0)
np.pad(A, pad_width=1, mode="edge")
np.pad(A, {1: 2})
np.pad(A, (2,))
np.pad(A, ((1, 2),))
np.pad(A, ((1, 2), (0, 1)), "constant", constant_values=((1, 2), (3, 4)))
np.pad(A, 2, constant_values=(1, 2))
np.pad(A, 1, mode="linear_ramp", end_values=5)
np.pad(A, ((2, 0), (1, 3)), mode="linear_ramp", end_values=((1, 2), (3, 4)))
np.pad(A, 1, mode="mean")
np.pad(A, 2, mode="mean", stat_length=2)
np.pad(I, 2, mode="median", stat_length=((1, 2), (2, 3)))
np.pad(A, (1, 2), mode="maximum")
np.pad(A, 1, mode="minimum")
np.pad(A, 2, "reflect", reflect_type="odd")
np.pad(A, 7, "reflect", reflect_type="odd")
np.pad(A, (5, 9), "symmetric", reflect_type="odd")
np.split(A, indices_or_sections=2, axis=1)[0]
np.ravel_multi_index(([1, 2], [3, 0]), (3, 4), order="F")
np.unravel_index([7, 8], shape=(3, 4))
np.unravel_index(7, (3, 4), order="F")
np.histogram(A, "auto")
np.histogram(A, bins="sturges", range=(0, 1))
np.digitize(A, bins=[-1, 0, 1])
np.tensordot(A, B, axes=(1, 0))
np.vander(V, N=3)
np.diff(V, prepend=0)
np.diff(A, prepend=1, append=2)
np.interp(V, xp=[1, 2, 3], fp=[3, 2, 0], left=-1)
np.clip(A, a_min=-1, a_max=None)
np.clip(I, 2.5, 5)
np.fix(A)
np.nan_to_num(N, copy=True, nan=2.0)
np.moveaxis(A, source=0, destination=1)
np.swapaxes(A, axis1=0, axis2=1)
np.kaiser(5, beta=2.0)
np.take_along_axis(A, indices=np.argsort(A, 1), axis=1)
np.searchsorted(a=[1, 2, 3], v=2.5)
np.linalg.solve(a=S, b=V[:3])
np.linalg.qr(A, mode="r")
np.linalg.qr(A, "complete")[1]
np.linalg.pinv(S, hermitian=True)
np.linalg.matrix_rank(S, hermitian=True)
np.linalg.svd(S, hermitian=True)[1]
np.fft.fft(a=V)
A.item(3)
A.item(1, 2)
A.sum(0, None, None, True)
A.mean(axis=0, where=M)
A.max(initial=9.0)
A.take([1, 30], 1, mode="clip")
A.cumsum(0, None, None)
A.round(1, None)
A.copy("C")
V.argsort(kind="stable")
""".strip().splitlines()


def same(call: str, ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list | tuple):
        assert len(ours) == len(theirs), call
        for left, right in zip(ours, theirs, strict=True):
            same(call, left, right)
        return
    left, right = np.asarray(ours), np.asarray(theirs)
    assert left.shape == right.shape, call
    assert left.dtype.kind == right.dtype.kind, call
    np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6, err_msg=call)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_in_numpys_spelling_gives_what_numpy_gives(call: str) -> None:
    """Of planish's functions, and of NumPy's own on tensors."""
    theirs = eval(call, {"np": np, **ARRAYS})
    same(call, eval(call, {"np": pn, **TENSORS}), theirs)
    same(f"{call} of tensors", eval(call, {"np": np, **TENSORS}), theirs)


def test_an_option_that_there_is_not_is_named() -> None:
    with pytest.raises(
        DTypeError, match=r"sum: there is no option out=f64\[4\].*x\[\.\.\.\] = y writes into one"
    ):
        pn.sum(TENSORS["A"], 0, out=TENSORS["V"])  # type: ignore[call-arg] # that is the mistake
    with pytest.raises(
        DTypeError, match=r"quantile: there is no option weights=f64\[4\].*it is called as quantile"
    ):
        pn.quantile(TENSORS["V"], 0.5, weights=TENSORS["V"])  # type: ignore[call-arg] # that is the mistake


def test_what_neither_takes_is_a_mistake_with_our_signature() -> None:
    with pytest.raises(TypeError, match="axs"):
        pn.sum(TENSORS["A"], axs=0)  # type: ignore[call-arg] # that is the mistake


def test_numpys_own_functions_stay_planishs_in_its_spelling() -> None:
    """They are differentiated: the elements do not go through NumPy."""
    found = pn.grad(lambda x: np.sum(np.tile(A=x, reps=2) ** 2))(TENSORS["V"])
    np.testing.assert_allclose(found, 4 * ARRAYS["V"])
    slope = pn.grad(lambda x: cast("pn.Tensor", np.multiply.outer(x, np.arange(3.0))).sum())(TENSORS["V"])
    np.testing.assert_allclose(slope, [3, 3, 3, 3])
    np.testing.assert_allclose(np.heaviside.outer(TENSORS["V"], 0.5), np.heaviside.outer(ARRAYS["V"], 0.5))


@pytest.mark.parametrize(("code", "name"), [("f2", "float16"), ("f4", "float32"), ("f8", "float64"), ("i2", "int16"),
    ("u1", "uint8"), ("c8", "complex64"), ("c16", "complex128"), ("?", "bool"), ("d", "float64")])  # fmt: skip
def test_dtypes_by_numpys_codes(code: str, name: str) -> None:
    assert pn.zeros(2, code).dtype == pn.dtype(name)
    assert pn.zeros(2, code).dtype == np.dtype(code)


@pytest.mark.parametrize("code", ["i4", "i8", "u4", "u8"])
def test_a_code_with_two_meanings_is_refused(code: str) -> None:
    """NumPy counts bytes, planish's texts bits: `i8` would silently be int8."""
    with pytest.raises(
        DTypeError, match=f"'{code}' has two meanings.*write u?int{int(code[1]) * 8} or u?int{code[1]}"
    ):
        pn.zeros(3, code)


def test_keepdims_is_no_place_for_a_dtype() -> None:
    """`x.sum(0, np.float32)` of NumPy: the second parameter is another one here."""
    with pytest.raises(PlanishError, match=r"sum: keepdims is .*float32.*True or False.*dtype="):
        TENSORS["A"].sum(0, np.float32)  # type: ignore[arg-type] # that is the mistake


KEYWORD_TENSORS = {
    "sum where": lambda x, y: pn.sum(x, axis=1, where=y > 2),
    "sum initial": lambda x, y: pn.sum(x, axis=1, initial=y[:, 0]),
    "max initial": lambda x, y: pn.max(x, axis=0, initial=y[0]),
    "diff": lambda x, y: pn.diff(x, prepend=y, append=2 * y),
    "clip": lambda x, y: pn.clip(x, min=y, max=y + 1),
    "var": lambda x, y: pn.var(x, axis=1, mean=y[:, :1]),
}


@pytest.mark.parametrize("name", KEYWORD_TENSORS)
def test_a_call_that_comes_again_takes_tensors_by_name_as_the_first_did(name: str) -> None:
    """From the third time on a recipe is applied: its operands must not change places."""
    x, y = pn.asarray([[1.0, 5.0, 2.0]]), pn.asarray([[2.0, 2.0, 9.0]])
    first, *others = [np.asarray(KEYWORD_TENSORS[name](x + 0, y + 0)) for _ in range(5)]
    for other in others:
        np.testing.assert_array_equal(other, first)


# --- arrays of others, and names that are not there -------------------------------------------------------


def test_arrays_of_others_are_indices() -> None:
    torch, pandas = pytest.importorskip("torch"), pytest.importorskip("pandas")
    x = pn.asarray([10.0, 20.0, 30.0])
    column = pandas.Series([True, False, True])
    np.testing.assert_array_equal(x[column], [10, 30])
    np.testing.assert_array_equal(x[torch.tensor([2, 0])], [30, 10])
    np.testing.assert_array_equal(x[torch.tensor([True, False, False])], [10])
    x[column] = -1.0
    x[torch.tensor([1])] = 7.0
    np.testing.assert_array_equal(x, [-1, 7, -1])
    with pytest.raises(IndexError, match="float32 is no index"):
        x[torch.tensor([0.5])]


def test_torchs_dtypes_are_dtypes() -> None:
    torch = pytest.importorskip("torch")
    assert pn.zeros(2, torch.bfloat16).dtype is pn.bfloat16
    assert pn.zeros(2).astype(torch.int64).dtype == torch.int64
    assert pn.zeros(2).dtype != torch.float64


def test_results_are_written_into_arrays_as_numpy_asks() -> None:
    array, x = np.ones(3, np.float32), pn.asarray([1.0, 2.0, 3.0])
    same_array = array
    array += x
    assert array is same_array
    np.testing.assert_array_equal(array, [2, 3, 4])
    assert np.sin(x, out=array) is array
    np.testing.assert_allclose(array, np.sin([1, 2, 3]), rtol=1e-6)
    np.add(x, 1, out=array, where=np.array([True, False, True]))
    np.testing.assert_allclose(array, [2, np.sin(2), 4], rtol=1e-6)
    target: Any = pn.zeros(3)
    assert np.multiply(x, 2, out=target) is target
    np.testing.assert_array_equal(target, [2, 4, 6])
    whole, rest = np.divmod(x, 2, out=cast("Any", (np.empty(3, np.float32), None)))
    np.testing.assert_array_equal(whole, [0, 1, 1])
    np.testing.assert_array_equal(rest, [1, 0, 1])
    with pytest.raises(TypeError, match="Cannot cast"):
        np.sin(x, out=np.zeros(3, np.int32))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda: cast("Any", pn).nn.Liner, "did you mean Linear"),
        (lambda: cast("Any", pn).optim.Adm, "did you mean Adam"),
        (lambda: cast("Any", pn).concatenat, "did you mean concatenate"),
        (lambda: cast("Any", pn).zeros(2).reshpe, "did you mean reshape"),
        (lambda: cast("Any", pn).zeros(2).sin, r"there is a function: planish.sin\(x\)"),
        (lambda: cast("Any", pn).zeros(2).relu, r"planish.nn.relu\(x\)"),
        (lambda: cast("Any", pn).zeros(2).clamp, r"write x.clip\(low, high\)"),
    ],
)
def test_an_unknown_name_gets_a_did_you_mean(asked: Any, words: str) -> None:
    with pytest.raises(AttributeError, match=words):
        asked()


@pytest.mark.parametrize(
    ("name", "model"),
    [("prod", "sum"), ("min", "max"), ("std", "var"), ("nanstd", "nanvar"), ("nanmin", "min")],
)
def test_functions_that_hand_on_their_arguments_show_them(name: str, model: str) -> None:
    ours = getattr(pn, name)
    assert inspect.signature(ours) == inspect.signature(getattr(pn, model))
    assert ours.__name__ == name
    assert ours.__doc__ != getattr(pn, model).__doc__
    with pytest.raises(PlanishError, match=name):
        ours(TENSORS["A"], nothing=1)
