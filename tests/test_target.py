"""Target descriptions: what stages ask of them, and that every row of the table is consistent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planish import dtypes
from planish.errors import SettingsError
from planish.target import MACHINE_OPS, TARGETS, Parallel, Target, caches_in, find, host
from planish.uop.ops import ALU, Ops

f16, f32, f64, i8 = dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int8
CUDA, DSP, V4 = (TARGETS[name] for name in ("cuda", "dsp", "x86-64-v4"))


def test_targets_are_found_by_name() -> None:
    assert find("cuda") is CUDA
    assert find("host") is host()
    assert host().name in TARGETS
    assert host().native
    with pytest.raises(SettingsError, match="unknown target"):
        find("abacus")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_descriptions_are_consistent(target: Target) -> None:
    assert target.supported_ops <= ALU | {Ops.LOOKUP, Ops.RARE}
    assert list(target.folds) == sorted(target.folds, reverse=True)
    assert all(width & (width - 1) == 0 for width in (*target.folds, *target.half_folds))
    assert target.is_gpu is bool(target.grid) is bool(target.block)
    assert target.block_threads >= target.warp
    assert target.cores == 1 or target.parallel is Parallel.CORES
    assert all(core.threads == 1 or core.threads % target.warp == 0 for core in target.tensor_cores)
    assert list(target.caches) == sorted(target.caches)
    if target.is_gpu:
        assert all(side <= target.block_threads for side in target.block)
    if target.aligned_bytes:  # what has to be aligned can be proved to be
        assert target.buffer_alignment >= target.aligned_bytes


def test_how_many_elements_an_operation_and_an_access_take() -> None:
    assert [V4.lanes(dtype) for dtype in (i8, f16, f32, f64)] == [64, 32, 16, 8]
    assert V4.widths(f32) == (16, 8, 4, 2)
    assert CUDA.lanes(f32) == 1
    assert CUDA.widths(f32) == (4, 2)
    assert CUDA.widths(f64) == (2,)
    assert CUDA.widths(f16) == (4, 2)
    assert CUDA.widths(f16, allow_half8=True) == (8, 4, 2)
    assert CUDA.widths(dtypes.int16, allow_half8=True) == (4, 2)
    assert DSP.widths(f32) == (128, 64, 32, 16, 8, 4)
    assert TARGETS["scalar"].widths(i8) == ()


def test_what_is_known_of_the_start_of_a_buffer() -> None:
    assert V4.alignment(f32, parameter=True) == 4  # callers bring what they have
    assert V4.alignment(f32, parameter=False) == 64
    assert CUDA.alignment(f32, parameter=True) == 256


def test_a_variant_is_a_new_value() -> None:
    plain = replace(V4, supported_ops=MACHINE_OPS - {Ops.MULACC})
    assert Ops.MULACC in V4.supported_ops
    assert Ops.MULACC not in plain.supported_ops
    assert Ops.MULACC not in TARGETS["x86-64"].supported_ops


def _system(folder: Path, *caches: tuple[str, str, str]) -> Path:
    """Such a folder as Linux has of the caches of a core."""
    for number, described in enumerate(caches):
        place = folder / f"index{number}"
        place.mkdir(parents=True)
        for name, text in zip(("level", "type", "size"), described, strict=True):
            (place / name).write_text(f"{text}\n")
    return folder


def test_caches_are_those_of_the_system(tmp_path: Path) -> None:
    named = (32 << 10, 512 << 10, 16 << 20)
    first = (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1280K"))
    large = _system(tmp_path / "large", *first, ("3", "Unified", "48M"))
    assert caches_in(large, named) == (48 << 10, 1280 << 10, 16 << 20)  # the last one is not ours alone
    small = _system(tmp_path / "small", *first, ("3", "Unified", "8M"))
    assert caches_in(small, named) == (48 << 10, 1280 << 10, 8 << 20)
    for name, described in {
        "nothing": (),
        "no third": first,
        "no number": (*first, ("3", "Unified", "much")),
        "less": (*first, ("3", "Unified", "64K")),
    }.items():
        assert caches_in(_system(tmp_path / name, *described), named) == named
    (large / "index0" / "size").unlink()
    assert caches_in(large, named) == named


def test_named_targets_are_the_same_everywhere() -> None:
    assert V4.caches == (48 << 10, 2 << 20, 32 << 20)
    assert TARGETS["x86-64-v3"].caches == (32 << 10, 512 << 10, 16 << 20)
    assert len(host().caches) == len(TARGETS[host().name].caches)
    assert not any(target.native for target in TARGETS.values())


def test_every_cache_has_a_rate() -> None:
    with pytest.raises(SettingsError, match="2 caches, but bytes per cycle of 3"):
        replace(TARGETS["x86-64-v4"], caches=(1 << 10, 4 << 10))
