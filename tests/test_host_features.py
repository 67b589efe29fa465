"""Detection of AMX: what is asked in which order, and that a machine which only pretends costs a child process, not ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planish.target import TARGETS, host_with
from planish.target import host_features as features
from planish.target.host_features import Amx, cpu_flags, detect
from planish.uop.tensor_cores import AMX

ALL = ("fpu", "avx512f", "amx_tile", "amx_bf16", "amx_int8")


def never() -> bool:
    raise AssertionError("this must not be asked")


def test_nothing_is_asked_where_the_flags_are_missing() -> None:
    assert detect(("fpu", "avx512f"), never, never) == Amx(why_not="this machine has none")
    assert detect((), never, never).features == frozenset()
    assert "nothing that multiplies" in detect(("amx_tile",), never, never).why_not


@pytest.mark.skipif(not features.detect(ALL, lambda: True, lambda: True).features, reason="no x86-64 Linux")
def test_permission_and_a_trial_are_needed() -> None:
    assert detect(ALL, lambda: False, never).why_not == "Linux does not permit it to this process"
    assert detect(ALL, lambda: True, lambda: False).why_not == "a trial of it failed"
    whole = detect(ALL, lambda: True, lambda: True)
    assert whole.features == {"amx-tile", "amx-bf16", "amx-int8"}
    assert str(whole) == "amx-bf16 amx-int8 amx-tile"
    assert str(Amx(why_not="x")) == "no: x"


@pytest.mark.skipif(not features.detect(ALL, lambda: True, lambda: True).features, reason="no x86-64 Linux")
def test_a_trial_does_not_end_this_process() -> None:
    """Without the unit the child dies of SIGILL; with it, it survives if it is permitted."""
    has = "amx_tile" in cpu_flags()
    assert features.try_in_a_child() is (has and features.ask_permission())


def test_flags_are_those_of_the_first_processor(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu amx_tile amx_int8\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert cpu_flags(file) == {"fpu", "amx_tile", "amx_int8"}
    assert cpu_flags(tmp_path / "nothing") == frozenset()


def test_the_host_has_the_cores_that_it_may_use() -> None:
    both = host_with({"amx-tile", "amx-bf16", "amx-int8"})
    assert both.name == "x86-64-amx"
    assert both.native
    assert [core for core in both.tensor_cores if core.feature] == list(AMX)
    quads = host_with({"avx512vnni"})
    assert quads.name == "x86-64-vnni"
    assert quads.tensor_cores == TARGETS["x86-64-vnni"].tensor_cores
    assert features.dot_products({"avx512f", "avx512_vnni"}) == {"avx512vnni"}
    assert features.dot_products({"avx512_bf16", "avx512_vnni"}) == {"avx512vnni", "avx512bf16"}
    assert not features.dot_products({"avx512f"})
    halves = host_with({"avx512vnni", "avx512bf16"})
    assert halves.name == "x86-64-bf16"
    assert halves.tensor_cores == TARGETS["x86-64-bf16"].tensor_cores
    integers = host_with({"amx-tile", "amx-int8"})
    assert {core.feature for core in integers.tensor_cores} == {"amx-int8", ""}
    plain = host_with(())
    assert plain == replace(TARGETS["x86-64-v4"], workers=plain.workers, caches=plain.caches)
