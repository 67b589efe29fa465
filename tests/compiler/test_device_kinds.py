"""Kinds of devices: the two there are answer one interface, and a third is a module with an object, a row of the table and a target."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.compiler import device_kinds
from planish.compiler.device_kinds import (
    KINDS,
    Accelerator,
    DeviceKind,
    DeviceProperties,
    KindRow,
    kind_for,
    kind_named,
    kind_of,
    kind_of_memory,
)
from planish.compiler.executable import Executable
from planish.errors import PlanishError
from planish.frontend import devices
from planish.llir.text import print_program
from planish.runtime.arrays import DeviceArray
from planish.target import TARGETS, Target


class ToyArray(DeviceArray):
    """Memory that only its device may look at; the tests count how often elements travel."""

    travels = 0

    def __init__(self, number: int, elements: np.ndarray[Any, Any]) -> None:
        self.number, self.elements = number, elements
        self.dtype, self.shape = elements.dtype, elements.shape

    @property
    def device(self) -> str:
        return f"toy:{self.number}"

    @property
    def nbytes(self) -> int:
        return self.elements.nbytes

    def copy(self) -> ToyArray:
        return ToyArray(self.number, self.elements.copy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        ToyArray.travels += 1
        return self.elements.copy()


class ToyExecutable:
    """Kernels run by the interpreter of LLIR, on memory of the toy."""

    def __init__(self, lowered: compiler.Lowered, number: int) -> None:
        self.inner, self.number = lowered.interpreted(), number

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(self, *arrays: Any) -> tuple[ToyArray, ...]:
        given = [KIND.put(self.number, array).elements for array in arrays]
        return tuple(ToyArray(self.number, np.asarray(found)) for found in self.inner(*given))


@dataclass
class ToyMemory:
    statistics: str = "all of it"

    def release(self) -> int:
        return 7


class Toy(Accelerator):
    name: ClassVar[str] = "toy"
    storage = ToyArray

    def count(self) -> int:
        return 2

    def why_none(self) -> str:
        return "there are two"

    def target(self, number: int) -> Target:
        return replace(TARGETS["scalar"], name="toy", device="toy")

    def number_for(self, target: Target) -> int | None:
        return 0 if target.name == "toy" else None

    def properties(self, number: int) -> DeviceProperties:
        return DeviceProperties("a toy", "toy", None, 1 << 20)

    def title(self, target: Target) -> str:
        return "a toy"

    def put(self, number: int, array: Any) -> ToyArray:
        if isinstance(array, ToyArray):
            return array if array.number == number else ToyArray(number, array.elements)
        ToyArray.travels += 1
        return ToyArray(number, np.array(array))

    def memory(self, number: int) -> ToyMemory:
        return ToyMemory()

    def load(self, lowered: compiler.Lowered, number: int, backend: str) -> Executable:
        return ToyExecutable(lowered, number)  # type: ignore[return-value]  # it hands on all else

    def code_maker(self, target: Target) -> Any:
        return None

    def code(
        self, program: Any, target: Target, level: str, *, aliased: Sequence[int] = (), scratch: int = 0
    ) -> str:
        return f"// toy\n{print_program(program)}"

    def trial(self, program: Any, places: Any, target: Target) -> Any:
        raise AssertionError("nothing is searched for here")

    def launches(self, lowered: compiler.Lowered) -> tuple[Any, ...]:
        return ()

    def array_at(self, number: int, address: int, dtype: Any, shape: tuple[int, ...]) -> ToyArray:
        raise AssertionError

    def borrowed(self, x: Any) -> tuple[ToyArray, tuple[int, ...] | None]:
        return ToyArray(0, np.array(x.elements)), None

    def lent(self, array: ToyArray, stream: int | None, *, versioned: bool, read_only: bool) -> object:
        return ("capsule", array, stream)

    def at_once(self, x: Any) -> ToyArray | None:
        return None

    def reader_of(self, number: int, kind: Any, shape: tuple[int, ...]) -> Callable[[Any], Any]:
        return self.at_once

    def writer_of(self, number: int, dtype: Any, shape: tuple[int, ...]) -> Callable[[Any], Any]:
        return self.at_once

    def array_interface(self, array: ToyArray) -> dict[str, Any]:
        return {"shape": array.shape}

    def on_stream(self, number: int, handle: object) -> AbstractContextManager[None]:
        return nullcontext()


KIND = Toy()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toy]:
    module = ModuleType("toy_kind")
    module.KIND = KIND  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_kind", module)
    monkeypatch.setitem(KINDS, "toy", KindRow("toy_kind", ("toy",), ("toy",), (99,)))
    try:
        yield KIND
    finally:
        kind_named.cache_clear()
        devices._accelerated.cache_clear()


def test_both_kinds_answer_the_interface() -> None:
    for name in KINDS:
        kind = kind_named(name)
        assert kind.name == name
        assert isinstance(kind, DeviceKind)
        assert isinstance(kind, Accelerator) is (name != device_kinds.HOST)
    assert kind_for(TARGETS["sm_80"]).name == "cuda"
    assert kind_for(TARGETS["x86-64"]).name == "cpu"
    assert [kind_of_memory(code) for code in (1, 2, 13, 77)] == ["cpu", "cuda", "cuda", None]
    cpu, number = kind_of("cpu")
    assert (cpu.count(), number, cpu.number_for(cpu.target(0))) == (1, 0, 0)
    assert cpu.properties(0).memory_bytes > 0


@pytest.mark.parametrize("name", ["tpu:0", "cuda:", "cuda:x", "cpu:one", ""])
def test_a_device_that_is_none_is_told(name: str) -> None:
    with pytest.raises(PlanishError, match="there is no device"):
        kind_of(name)


def test_a_third_kind_is_an_object_and_a_row(toy: Toy) -> None:
    assert {"toy:0", "toy:1"} <= set(pn.devices())
    ToyArray.travels = 0
    x = pn.asarray(np.arange(6, dtype=np.float32), device="toy")
    y = pn.asarray(np.ones(6, np.float32), device="toy:0")
    z = pn.sum(pn.exp(x) * y) + x[2]
    assert z.device == "toy:0"
    want = np.exp(np.arange(6, dtype=np.float32)).sum() + 2
    np.testing.assert_allclose(z.numpy(), want, rtol=1e-6)
    assert isinstance(z._value.storage, ToyArray)
    step = pn.jit(lambda w: w - 0.1 * pn.grad(lambda v: pn.sum(v * v))(w), device="toy:1")
    moved = step(x)
    assert moved.device == "toy:1"
    np.testing.assert_allclose(moved.numpy(), 0.8 * np.arange(6), rtol=1e-6)
    np.testing.assert_array_equal(moved.to_device("cpu").numpy(), moved.numpy())
    with pytest.raises(PlanishError, match=r"cpu and toy:0|toy:0 and cpu"):
        _ = x + pn.asarray(np.ones(6, np.float32), device="cpu")
    with pytest.raises(PlanishError, match=r"toy:7.*there are two"):
        pn.asarray([1.0], device="toy:7")


def test_memory_streams_and_capsules_of_a_third_kind(toy: Toy) -> None:
    assert str(pn.memory.statistics("toy:1")) == "all of it"
    assert pn.memory.release("toy") == 7
    x = pn.asarray(np.arange(3.0), device="toy:1")
    with pn.stream(5, device="toy:1"):
        assert x.__dlpack_device__() == (99, 1)
    capsule: Any = x.__dlpack__(stream=5)
    assert capsule[0] == "capsule"
    traced: Any = pn.jit(lambda v: v + 1.0).lower(np.arange(3.0)).function
    lowered = compiler.lower(traced, KIND.target(0))
    assert lowered.as_text("toy").startswith("// toy")
    with pytest.raises(PlanishError, match="no GPU"):
        lowered.as_text("cuda")
