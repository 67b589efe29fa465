"""Arrays of other libraries wherever tensors go: which dtypes and layouts, what is copied, what is said."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import dlpack

torch = pytest.importorskip("torch")
VALUES = np.arange(6.0).reshape(2, 3)


class Column:
    """A column of a table, as pandas has it: an array behind a name and an index, and no DLPack."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values if dtype is None else self.values.astype(dtype)


KINDS: dict[str, Callable[[], Any]] = {
    "ndarray": lambda: VALUES.astype(np.float32),
    "ndarray by columns": lambda: np.asfortranarray(VALUES.astype(np.float32)),
    "ndarray in steps": lambda: np.repeat(VALUES.astype(np.float32), 2, axis=1)[:, ::2],
    "read-only": lambda: np.broadcast_to(VALUES.astype(np.float32), (2, 3)),
    "other byte order": lambda: VALUES.astype(">f4"),
    "torch": lambda: torch.tensor(VALUES, dtype=torch.float32),
    "torch by columns": lambda: torch.tensor(VALUES.T.copy(), dtype=torch.float32).T,
    "torch with a sign to come": lambda: torch.tensor(-1j * VALUES, dtype=torch.complex64).conj().imag,
    "table": lambda: Column(VALUES.astype(np.float32)),
    "list": lambda: VALUES.tolist(),
}
PLACES: dict[str, Callable[[Any], Any]] = {
    "asarray": pn.asarray,
    "function": lambda a: pn.multiply(a, 1),
    "operator": lambda a: pn.ones((2, 3)) * a,
    "operand on the left": lambda a: a * pn.ones((2, 3)),
    "layer": pn.nn.Identity(),
    "own module": lambda a: _Scaled()(a),
    "activation": lambda a: pn.nn.functional.relu(a),
    "jit": lambda a: pn.jit(lambda x: x * 1)(a),
    "jit twice": lambda a: [f := pn.jit(lambda x: x * 1), f(a), f(a)][-1],
    "vmap": lambda a: pn.vmap(lambda x: x * 1)(a),
    "grad": lambda a: pn.grad(lambda x: pn.sum(x * x) / 2)(a),
    "scan": lambda a: pn.scan(lambda c, x: (c, x * 1), 0.0, a)[1],
    "cond": lambda a: pn.cond(True, lambda x: x * 1, lambda x: x, a),
    "index": lambda a: pn.asarray(a)[np.array([0, 1])],
    "assignment": lambda a: pn.zeros((2, 3)).at[...].set(a),
    "stack": lambda a: pn.stack([a, a])[0],
}


class _Scaled(pn.nn.Module):
    def __call__(self, x: pn.Tensor) -> pn.Tensor:
        return x * 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_goes_everywhere(kind: str, place: str) -> None:
    if kind == "list" and place in {"jit", "jit twice", "vmap", "grad", "scan", "cond", "own module"}:
        pytest.skip("there a list is a container of numbers")
    if place == "operand on the left" and kind in {"list", "table"}:
        pytest.skip("their own operator is asked first")
    np.testing.assert_allclose(np.asarray(PLACES[place](KINDS[kind]()), np.float64), VALUES)


NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"]
WIDE = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("name", [*NARROW, *WIDE])
def test_dtypes_go_to_torch_and_back(name: str) -> None:
    x = pn.asarray(VALUES).astype(getattr(pn, name)).realize()
    theirs = torch.from_dlpack(x)
    assert theirs.dtype is getattr(torch, name)
    back = pn.from_dlpack(theirs)
    assert back.dtype is getattr(pn, name)
    np.testing.assert_array_equal(back.numpy(), x.numpy())
    assert back._value.storage.ctypes.data == theirs.data_ptr()  # type: ignore[union-attr]
    for shown in (pn.asarray(theirs), pn.jit(lambda a: a)(theirs), pn.asarray(theirs.T).T):
        assert shown.dtype is x.dtype
        np.testing.assert_array_equal(shown.numpy(), x.numpy())


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn"])
def test_narrow_floats_are_lent_and_given_back(name: str) -> None:
    x = pn.asarray(VALUES).astype(getattr(pn, name)).realize()
    dlpack._sweep()
    before = dict(dlpack._OUT)
    capsule = x.__dlpack__(max_version=(1, 0), copy=False)
    dlpack._sweep()
    assert len(dlpack._OUT) == len(before) + 1
    del capsule
    dlpack._sweep()
    assert before == dlpack._OUT
    theirs = torch.from_dlpack(x)
    del x
    assert theirs.float().sum() == 15
    del theirs
    assert before == dlpack._OUT
    with pytest.raises(RuntimeError, match="dtype"):
        np.from_dlpack(pn.asarray(VALUES).astype(getattr(pn, name)))  # type: ignore[arg-type]
    dlpack._sweep()
    assert before == dlpack._OUT


def test_what_jit_is_given_is_not_copied() -> None:
    theirs = torch.arange(6.0, dtype=torch.bfloat16)
    seen: list[int] = []
    f = pn.jit(lambda a: a + 1)
    for _ in range(2):
        f(theirs)
    from planish.frontend.arguments import storage_of

    seen.append(storage_of(theirs).ctypes.data)  # type: ignore[attr-defined]
    assert seen == [theirs.data_ptr()]
    # and what is shared is not written to by an assignment
    ours = pn.from_dlpack(theirs)
    ours[0] = 100.0
    assert theirs[0] == 0


def test_gradients_of_torch_are_not_lost_in_silence() -> None:
    weight = torch.ones(3, requires_grad=True)
    for call in (pn.asarray, pn.exp, pn.jit(pn.exp), lambda w: pn.ones(3) + w):
        with pytest.raises(pn.PlanishError, match="detach"):
            call(weight)


def test_what_is_no_array_of_numbers_is_told() -> None:
    given: Any
    for given in (Column(["a", "b"]), Column(np.array([1, None])), Column(np.array(["2020"], "M8[D]"))):
        for call in (pn.asarray, pn.jit(lambda a: a), pn.exp):
            with pytest.raises(pn.PlanishError):
                call(given)


def test_a_tensor_that_outlives_the_interpreter_takes_nothing_with_it() -> None:
    script = """
import sys, numpy, torch
from planish import dlpack
kept = numpy.arange(8.0)
capsule = dlpack.capsule_of(kept.ctypes.data, kept.dtype, kept.shape, (1, 0), kept, versioned=False, read_only=False)
sys.kept = torch.utils.dlpack.from_dlpack(capsule)  # freed after all modules
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    "writes",
    [
        lambda x: np.negative.at(x, [0]),
        lambda x: np.copyto(x, 1.0),
        lambda x: np.putmask(x, [True, False, True], 1),
    ],
)
def test_what_numpy_would_write_into_a_tensor_is_not_lost_in_silence(writes: Any) -> None:
    x = pn.zeros(3)
    with pytest.raises(pn.PlanishError, match="writes into a tensor"):
        writes(x)
    np.testing.assert_array_equal(x, [0, 0, 0])
    np.add.at(x, [0, 0], 1)
    np.testing.assert_array_equal(x, [2, 0, 0])
    array = np.zeros(3)
    np.add.at(array, pn.asarray([0, 0]), 1)
    np.testing.assert_array_equal(array, [2, 0, 0])


def test_data_that_is_no_number_is_told_by_its_kind() -> None:
    with pytest.raises(TypeError, match="int64"):
        pn.asarray(np.array(["2020-01-01"], dtype="datetime64[D]"))
    with pytest.raises(TypeError, match="codes"):
        pn.asarray(np.array(["a", "b"]))


def test_an_array_that_is_nowhere_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(pn.PlanishError, match="cannot be taken over"):
        pn.asarray(torch.ones(2, device="meta"))
