"""Random kernels and random legal sequences of actions on the GPU itself: whatever the sequence, the result is that of the kernel as it was."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from planish.actions.group import Group
from planish.actions.local import Local
from planish.actions.split import Split
from planish.actions.stage import Stage
from planish.actions.tensor_core import TensorCore
from planish.actions.upcast import Upcast
from planish.codegen import cuda, symbols
from planish.codegen.cuda_blocks import shared_memory
from planish.compiler.cuda.call import launcher
from planish.compiler.grids import grid_of, maps_of
from planish.llir.lower import lower
from planish.runtime.cuda.arrays import GpuArray
from planish.runtime.cuda.build import cubin_of
from planish.runtime.cuda.code import LaunchSegment
from planish.runtime.cuda.device import gpu
from planish.runtime.cuda.launch import LoadedKernel
from planish.runtime.cuda.trace import KernelLaunch, Stretch, Word
from planish.stages import pipeline
from planish.target import TARGETS
from planish.uop.node import UOp
from tests.stages.fuzz_actions import SMALL_GPU, Kind, fuzz
from tests.stages.kernels import Array

_TARGETS = (TARGETS["sm_90"], SMALL_GPU)


@cache
def _loaded(source: str, name: str, shared: int) -> bytes:
    return cubin_of(source, gpu().arch, cuda.FLAGS)


def gpu_results(
    sink: UOp, before: dict[int, Array], machine: pipeline.Machine, *, reverse: bool = False
) -> dict[int, Array]:
    """The parameters after the GPU has run a kernel on copies of them."""
    device = gpu()
    program = lower("kernel", pipeline.run(sink, machine))
    shared = shared_memory(program).dynamic
    cubin = _loaded(cuda.render(program), program.name, shared)
    kernel = LoadedKernel(
        device, symbols.kernel(program.name), cubin, grid_of(program), shared, maps_of(program)
    )
    slots = [int(p.name.removeprefix("arg")) for p in program.params]
    arrays = {slot: GpuArray.of(device, array) for slot, array in before.items()}
    words = tuple(Word(number, 0) for number in range(len(slots)))
    stretch = Stretch((KernelLaunch(0, (), words),), 1, words, ())
    LaunchSegment(device, launcher(), stretch, [kernel]).run([arrays[slot].address for slot in slots])
    return {slot: array.numpy() for slot, array in arrays.items()}


@pytest.mark.parametrize("batch", range(6))
def test_sequences_keep_results(batch: int) -> None:
    counts: Counter[Kind] = Counter()
    found = [
        fuzz(seed, targets=_TARGETS, run=gpu_results, counts=counts)
        for seed in range(batch * 25, batch * 25 + 25)
    ]
    assert not [str(mistake) for mistake in found if mistake is not None]
    assert {Local, Group} & set(counts)


def test_tensor_cores_keep_results() -> None:
    chosen = (TensorCore,) * 6 + (Upcast, Local, Split, Stage)
    counts: Counter[Kind] = Counter()
    for seed in range(12):
        mistake = fuzz(
            seed,
            kernels=("half matmul",),
            targets=_TARGETS[:1],
            chosen=chosen,
            tries=6,
            counts=counts,
            run=gpu_results,
        )
        assert mistake is None, str(mistake)
    assert counts[TensorCore] >= 2
