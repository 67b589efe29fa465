"""Tensor maps as words of a launch: one of them is the address of a buffer, wherever the driver puts it."""

from __future__ import annotations

import pytest

import planish as pn
from planish import compiler
from planish.compiler.plan_json import Blobs, codec_of
from planish.runtime.cuda import tensor_maps
from planish.runtime.cuda.driver import CudaError
from planish.runtime.cuda.trace import Word
from planish.runtime.grid import TensorMap

MAP = TensorMap(1, "bf16", 2, (4096, 3000), (1, 4096), (64, 128))


@pytest.mark.parametrize("place", [0, 3])
def test_the_address_is_found_and_follows_its_buffer(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def encoded(tensor: TensorMap, address: int) -> list[int]:
        return [address if k == place else 100 + k for k in range(16)]

    monkeypatch.setattr(tensor_maps, "_encoded", encoded)
    found = tensor_maps.words_of(MAP)
    assert found[0] == place
    words = tensor_maps.map_words([(MAP.position, *found)], [Word(0, 0), Word(5, 64), Word(-1, 7)])
    assert len(words) == 16
    assert words[place] == Word(5, 64)
    assert words[place + 1] == Word(-1, 101 + place)


def test_another_encoding_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_maps, "_encoded", lambda tensor, address: [address, address >> 4] + [0] * 14)
    with pytest.raises(CudaError, match="encodes tensor maps in a way that is not known"):
        tensor_maps.words_of(MAP)


def test_maps_of_a_kernel_are_kept_with_its_launch() -> None:
    specs = pn.TensorSpec((128, 200), pn.bfloat16), pn.TensorSpec((200, 136), pn.bfloat16)
    (launch,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(*specs).function, "sm_90").launches
    left, right = launch.maps
    assert (left.dims, left.strides) == ((200, 128), (1, 200))
    assert (right.dims, right.strides) == ((136, 200), (1, 136))
    assert launch.grid.threads[0] % 128 == 0
    codec = codec_of("GridKernel")
    assert codec.load(codec.dump(launch, Blobs()), memoryview(b"")) == launch
