"""Machine code by name of processor: what is made for it, what runs here, and that what is read is what runs."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, dtypes, ptir
from planish.codegen import llvm
from planish.errors import PlanishError
from planish.llir.builder import Builder
from planish.llir.program import Program
from planish.ptir import Graph, tensor
from planish.runtime import cpu, elf, native, processors
from planish.target import TARGETS, find, host

on_x86 = pytest.mark.skipif(not cpu.host().triple.startswith("x86_64"), reason="this machine is no x86-64")


def scaled(size: int) -> ptir.Function:
    g = Graph("scaled")
    x = g.input("x", tensor("f32", (size,)))
    return g.build(x.mul(2.0).add(x))


@pytest.mark.parametrize(
    ("target", "has", "lacks"),
    [
        ("x86-64", "xmm", "ymm|zmm|vmov"),
        ("x86-64-v3", "ymm", "zmm"),
        ("x86-64-v4", "zmm", "nothing"),
        ("aarch64", r"v\d+\.4s", "xmm|ymm"),
    ],
)
def test_each_target_has_its_own_instructions(target: str, has: str, lacks: str) -> None:
    text = compiler.lower(scaled(4096), target).as_text("asm")
    assert re.search(has, text)
    assert not re.search(lacks, text)


def test_an_object_for_another_machine_is_made_but_not_run() -> None:
    lowered = compiler.lower(scaled(64), "aarch64")
    made = cpu.emit_object(lowered.as_text("llvm"), cpu.processor(lowered.target))
    assert made[:4] == b"\x7fELF"
    if not cpu.host().is_arm:
        assert made[18] == 183  # the machine's number in an ELF file
        with pytest.raises(PlanishError, match="does not run on this machine"):
            lowered.compile()
        with pytest.raises(PlanishError, match="not an x86-64 object"):
            elf.Loaded(made)


@on_x86
def test_a_machine_that_lacks_a_feature_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = processors.by_llvm()._replace(features={"avx": True})
    monkeypatch.setattr(processors, "by_llvm", lambda: lacking)
    with pytest.raises(PlanishError, match=r"x86-64-v3 does not run on this machine: it lacks avx2"):
        compiler.lower(scaled(64), "x86-64-v3").compile()
    compiler.lower(scaled(64), "x86-64").compile()(np.ones(64, np.float32))


def test_the_host_is_used_with_all_it_has() -> None:
    assert host().native
    assert cpu.processor(find("host")) == cpu.host()
    assert not any(target.native for target in TARGETS.values())
    assert cpu.processor(TARGETS["x86-64-v3"]).name == "x86-64-v3"


@on_x86
def test_instructions_that_a_processor_lacks_are_refused() -> None:
    b = Builder("table")
    x = b.param("x", dtypes.float32, 16)
    table = b.load(b.address(x, 0), dtypes.float32.vec(16))
    b.store(b.address(x, 0), b.lookup(table, b.bitcast(table, dtypes.int32.vec(16))))
    old, new = (cpu.processor(TARGETS[name]) for name in ("x86-64-v3", "x86-64-v4"))
    assert (old.avx512, new.avx512) == (False, True)
    assert "vpermps" in cpu.emit_assembly(llvm.render(b.program(), avx512=True), new)
    with pytest.raises(PlanishError, match="a kernel uses AVX-512, which x86-64-v3 does not have"):
        cpu.emit_assembly(llvm.render(b.program(), avx512=True), old)
    cpu.emit_assembly(llvm.render(b.program()), old)


def _loop(unroll: int, *, known: bool) -> Program:
    b = Builder("rows")
    n = 8 if known else b.variable("n", 0, 100)
    x = b.param("x", dtypes.float32, 16 * 800)
    with b.loop(100) as row, b.loop(n, unroll=unroll) as i:
        place = b.address(x, b.mul(b.add(b.mul(row, 8), i), 16))
        b.store(place, b.mul(b.load(place, dtypes.float32.vec(16)), 3.0))
    return b.program()


@on_x86
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("unroll", [0, 1, 2, 4, 8])
def test_unroll_hints_reach_the_assembly(unroll: int, known: bool) -> None:
    text = cpu.emit_assembly(
        llvm.render(_loop(unroll, known=known)), cpu.Processor(cpu.host().triple, "x86-64-v4")
    )
    rest = 1 if unroll > 1 and not known else 0  # what a number of iterations that is not known leaves over
    assert len(re.findall("vmulps", text)) == max(unroll, 1) + rest


@on_x86
def test_assembly_and_object_are_the_same_code() -> None:
    """Both have the same functions and call the same ones."""
    lowered = compiler.lower(scaled(1000))
    source = lowered.as_text("llvm")
    image = cpu.emit_object(source)
    text = lowered.as_text("asm")
    assert elf.Loaded(image).names == [lowered.programs[0].name]
    assert f"{lowered.programs[0].name}:" in text
    assert set(re.findall(r"(?:call|jmp)q?\s+(\w+)@", text)) == set(elf.undefined_symbols(image))


def test_sixteen_bit_floats_without_instructions_for_them() -> None:
    """Every half there is, and every one rounded from beside it, as NumPy does it."""
    image = cpu.emit_object(native.source() + _LOOPS)
    module = elf.Loaded(image)

    def call(name: str, a: NDArray[Any], b: NDArray[Any]) -> None:
        kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        ctypes.CFUNCTYPE(None, *kinds)(module.address(name))(a.ctypes.data, b.ctypes.data, len(a))

    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    single = np.zeros(1 << 16, np.float32)
    call("widen", every, single)
    np.testing.assert_array_equal(single, every.astype(np.float32))
    with np.errstate(all="ignore"):
        beside = [single, np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))]
        beside += [(single[:-1] + single[1:]) / 2, single * 3.7]
        given = np.concatenate(beside)
        wanted = given.astype(np.float16)
    found = np.zeros(len(given), np.float16)
    call("narrow", given, found)
    np.testing.assert_array_equal(found, wanted)


_LOOPS = """
define void @widen(ptr %a, ptr %b, i64 %n) {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  %p = getelementptr half, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %x = load half, ptr %p
  %y = call float @__extendhfsf2(half %x)
  store float %y, ptr %q
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %l, label %e
e:
  ret void
}
define void @narrow(ptr %a, ptr %b, i64 %n) {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr half, ptr %b, i64 %i
  %x = load float, ptr %p
  %y = call half @__truncsfhf2(float %x)
  store half %y, ptr %q
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %l, label %e
e:
  ret void
}
"""


def test_a_machine_that_runs_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    arm = processors.Processor("aarch64-unknown-linux-gnu", "generic")
    monkeypatch.setattr(processors, "host", lambda: arm)
    with pytest.raises(PlanishError, match=r"x86-64 Linux, and this is aarch64[^ ]*"):
        processors.check_runs_here(arm)
