"""The C of the package: compiled as it is written, for every machine and LLVM, and used only where NumPy is what it believes."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import llvmlite.binding as llvm
import numpy as np
import pytest

import planish as pn
from planish import compiler
from planish.compiler import object_code as objects
from planish.ptir import Graph, tensor
from planish.runtime import cpu, elf, memory, native

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("native_tool", ROOT / "tools" / "native.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("unit", tool().UNITS)
def test_the_ir_is_of_the_c_beside_it(unit: str) -> None:
    assert f"; sha256 {tool().fingerprint(unit)}\n" in native.source(unit), "the C has changed: make native"


@pytest.mark.parametrize("unit", tool().UNITS)
def test_compiling_the_c_again_makes_the_same_ir(unit: str) -> None:
    build = tool()
    clang, opt = build.tool("clang"), build.tool("opt")
    if clang is None or opt is None:
        pytest.skip(f"no clang and opt of LLVM {build.VERSION} here")
    assert build.compiled(clang, opt, unit) == native.source(unit)


def test_the_object_is_of_the_ir_beside_it() -> None:
    made = native.image()
    assert made is not None, "the IR has changed: tools/native.py --object"
    version, of = made.splitlines()[-1].decode().removeprefix("LLVM ").split(" of ")
    assert of == native.digest(native.source())
    if version == ".".join(map(str, llvm.llvm_version_info)):
        assert made == tool().object_code(native.source())


def test_without_the_object_the_ir_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "image", lambda: None)
    with pn.settings(cache_dir=str(tmp_path)):
        compiled = objects.counters.compiled
        assert native.reads_arrays(objects.support.__wrapped__())
        assert objects.counters.compiled == compiled + 1


def test_an_object_of_another_ir_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "source", lambda: "; another")
    assert native.image.__wrapped__() is None


def test_the_ir_names_no_machine_and_nothing_of_one_llvm() -> None:
    module = llvm.parse_assembly(native.source())
    module.verify()
    assert not re.search(r"target |attributes |![a-z\d]|captures\(|memory\(", native.source())
    outside = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    assert outside <= elf.EXTERNAL
    assert set(native.LINKED) | set(native.HALF_CONVERSIONS) <= {f.name for f in module.functions}


def test_the_array_object_of_this_numpy_is_known() -> None:
    assert native.reads_arrays(objects.support())
    assert objects.blocks().reads_arrays


@pytest.mark.parametrize("longer", range(8))
def test_another_array_object_is_noticed_and_not_followed(longer: int) -> None:
    right = re.search(r"%struct\.array = type \{ (.*) \}", native.source())
    assert right is not None
    fields = right[1].split(", ")
    fields[longer] = "[2 x i64]"  # every later field lies a word further
    loaded = elf.Loaded(cpu.emit_object(native.source().replace(right[1], ", ".join(fields))))
    assert not native.reads_arrays(loaded)


def test_a_shorter_array_object_is_not_even_read() -> None:
    text = native.source()
    longer = re.sub(r"(define i64 @array_bytes\(\) nounwind \{\n  ret i64) \d+", r"\1 4096", text)
    assert longer != text
    assert not native.reads_arrays(elf.Loaded(cpu.emit_object(longer)))


@pytest.fixture
def strange_numpy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the probe had failed."""
    with monkeypatch.context() as patch:
        patch.setattr(memory, "reads_arrays", lambda module: False)
        objects.blocks.cache_clear()
        yield
    objects.blocks.cache_clear()


@pytest.mark.usefixtures("strange_numpy")
def test_where_the_probe_fails_the_general_way_is_taken() -> None:
    g = Graph("strange")
    x = g.input("x", tensor("f32", (300, 70)))
    exe = compiler.compile(g.build(x.mul(x).cumsum(1), x.add(x)))
    assert not exe.is_fast
    data = np.random.default_rng(0).normal(size=(300, 70)).astype(np.float32)
    before = pn.memory.statistics().made
    products, doubled = exe(data)
    np.testing.assert_allclose(products, (data * data).cumsum(1), rtol=1e-4)
    np.testing.assert_array_equal(doubled, 2 * data)
    assert np.allclose(np.asarray(pn.sort(pn.asarray(data[:, 0]))), np.sort(data[:, 0]))
    assert pn.memory.statistics().made == before


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_what_loaded_code_writes_is_the_process_s_own() -> None:
    source = """
@count = internal global i64 0
define i64 @next() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
"""
    step = native.function(loaded := elf.Loaded(cpu.emit_object(source)), "next", result=ctypes.c_int64)
    assert step() == 1
    child = os.fork()
    if child == 0:
        os._exit(0 if step() == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert step() == 2
    del loaded
