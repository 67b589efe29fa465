"""A device with memory of its own: everything that programs do works there, and its elements reach the host when asked for."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

import planish as pn
from planish import nn, ptir
from planish.frontend import devices
from planish.frontend.devices import Device
from planish.frontend.storage import Array, Storage, host
from planish.ptir.passes import Passes


class Far:
    """Memory that is no array: what comes over is counted."""

    device = "far"
    fetches = 0

    def __init__(self, array: Array) -> None:
        self.inside = np.array(array)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inside.shape

    @property
    def nbytes(self) -> int:
        return self.inside.nbytes

    def copy(self) -> Storage:
        return Far(self.inside)

    def __array__(self) -> Array:
        Far.fetches += 1
        return self.inside.copy()


def compiled(function: ptir.Function, passes: Passes, donated: Sequence[int]) -> devices.Runnable:
    def run(*given: Far) -> tuple[Far, ...]:
        assert all(type(storage) is Far for storage in given)
        return tuple(Far(array) for array in ptir.interpret(function, [storage.inside for storage in given]))

    return run


@pytest.fixture(autouse=True)
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(devices.DEVICES, "far", Device("far", compiled, Far, Far))
    monkeypatch.setattr(Far, "fetches", 0)


X = np.arange(12, dtype=np.float32).reshape(3, 4)


def there(array: Array = X) -> pn.Tensor:
    return pn.asarray(array, device="far")


def test_data_lies_where_it_is_put_and_results_stay_there():
    y = there() * 2 + 1
    assert y.device == "far"
    y.realize()
    assert type(y._storage) is Far
    assert y._known is None
    assert Far.fetches == 0
    np.testing.assert_array_equal(y.numpy(), X * 2 + 1)
    assert Far.fetches == 1


def test_indexing_reshaping_and_iteration_fetch_nothing():
    x = there()
    parts = [x[1:, ::2], x.reshape(4, 3), x[pn.asarray([0, 2])], *x, x[::-1], x.T]
    pn.realize(*parts)
    assert Far.fetches == 0
    wanted = [X[1:, ::2], X.reshape(4, 3), X[[0, 2]], *X, X[::-1], X.T]
    for part, expected in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(part.numpy(), expected)


def test_data_of_no_device_goes_along_and_other_devices_are_refused():
    np.testing.assert_array_equal((there() + pn.asarray(X)).numpy(), X + X)
    with pytest.raises(pn.PlanishError, match="operands live on different devices, cpu and far"):
        there() + pn.asarray(X, device="cpu")


def test_moving_copies_there_and_back():
    moved = pn.asarray(X).to_device("far")
    assert type(moved._storage) is Far
    back = moved.to_device("cpu")
    assert host(back._storage) is not None
    np.testing.assert_array_equal(back.numpy(), X)
    lazy = (there() + 1).to_device("cpu")
    assert lazy.device == "cpu"
    np.testing.assert_array_equal((lazy * 2).numpy(), (X + 1) * 2)


def test_results_of_compiled_functions_move_too():
    double = pn.jit(lambda x: x * 2.0)
    for _ in range(2):
        assert double(pn.asarray([1.0, 2.0])).to_device("interpreter").tolist() == [2, 4]
    small = pn.asarray([3.0]) + 1.0
    assert small.realize().to_device("interpreter").device == "interpreter"


def test_assignment_printing_and_pickling():
    x = there()
    before = x + 0
    x[0] = 5.0
    assert "device='far'" in repr(x)
    again = pickle.loads(pickle.dumps(x))
    assert again.device == "far"
    np.testing.assert_array_equal(again.numpy()[0], np.full(4, 5, np.float32))
    np.testing.assert_array_equal(before.numpy(), X)
    assert x[0, 0].item() == 5.0


def test_jit_runs_there_with_captured_data_arrays_and_numbers():
    w = there(X + 1)

    @pn.jit
    def f(x: pn.Tensor, y: pn.Tensor, s: float) -> tuple[pn.Tensor, pn.Tensor]:
        return x * w + y, x.sum() * s

    for _ in range(3):
        a, b = f(there(), X, 2.0)  # type: ignore[arg-type] # arrays are taken for tensors
        assert type(a._storage) is Far
        np.testing.assert_array_equal(a.numpy(), X * (X + 1) + X)
        assert b.item() == X.sum() * 2
    assert f.cache_info().misses == 1


def test_donated_memory_is_taken_or_copied():
    step = pn.jit(lambda x: x + 1, donate_argnums=0)
    x = there()
    for _ in range(3):
        x = step(x)
    np.testing.assert_array_equal(x.numpy(), X + 3)
    kept = there()
    doubled = kept * 2
    step(kept)
    np.testing.assert_array_equal(doubled.numpy(), X * 2)


def test_gradients_losses_and_the_setting():
    with pn.settings(device="far"):
        logits = pn.asarray(X)
        target = pn.asarray([0, 3, 1])
        found = pn.grad(lambda x: nn.functional.cross_entropy(x, target))(logits)
        found.realize()
        assert type(found._storage) is Far
    with pn.settings(device="cpu"):
        expected = pn.grad(lambda x: nn.functional.cross_entropy(x, target))(pn.asarray(X)).numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    # computed there, used here
    np.testing.assert_allclose((found + 1).numpy(), expected + 1, rtol=1e-6)
