"""Target descriptions: what stages ask of them, and that every row of the table is consistent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planish import dtypes
from planish.errors import SettingsError
from planish.target import MACHINE_OPS, TARGETS, Parallel, Target, find, host
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
    assert target.supported_ops <= ALU
    assert list(target.folds) == sorted(target.folds, reverse=True)
    assert all(width & (width - 1) == 0 for width in (*target.folds, *target.half_folds))
    assert target.is_gpu is bool(target.grid) is bool(target.block)
    assert target.block_threads >= target.warp
    assert target.cores == 1 or target.parallel is Parallel.CORES
    assert all(core.threads in {1, target.warp} for core in target.tensor_cores)
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
