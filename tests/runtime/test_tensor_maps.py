"""Tensor maps as words of a launch: one of them is the address of a buffer, wherever the driver puts it."""

from __future__ import annotations

from typing import Any

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


def test_windows_are_told_in_a_mode_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Bindings:
        def __getattr__(self, name: str) -> Any:
            return int if name.startswith("cuuint") else Bindings()

    def call(name: str, *given: Any, doing: str) -> Any:
        told.append((name, *given))
        raise CudaError("no GPU is here")

    monkeypatch.setattr(tensor_maps, "bindings", Bindings)
    monkeypatch.setattr(tensor_maps, "call", call)
    frame = ((-1, -1), (-2, -2), (2, 1))
    for tensor in (MAP, TensorMap(0, "bf16", 2, (64, 7, 9, 2), (1, 64, 448, 4032), (64, 128), *frame)):
        with pytest.raises(CudaError):
            tensor_maps.words_of(tensor)
    boxes, windows = told
    assert boxes[0] == "cuTensorMapEncodeTiled"
    assert boxes[4:8] == ([4096, 3000], [8192], [64, 128], [1, 1])
    assert windows[0] == "cuTensorMapEncodeIm2col"
    assert windows[4:6] == ([64, 7, 9, 2], [128, 896, 8064])
    assert windows[6:11] == ([-1, -1], [-2, -2], 64, 128, [1, 2, 1, 1])


def test_maps_of_a_kernel_are_kept_with_its_launch() -> None:
    specs = pn.TensorSpec((128, 200), pn.bfloat16), pn.TensorSpec((200, 136), pn.bfloat16)
    (launch,) = compiler.lower(pn.jit(lambda a, b: a @ b).lower(*specs).function, "sm_90").launches
    left, right = launch.maps
    assert (left.dims, left.strides) == ((200, 128), (1, 200))
    assert (right.dims, right.strides) == ((136, 200), (1, 136))
    assert launch.grid.threads == (160, 1, 1)  # a warpgroup, and a warp that fetches
    codec = codec_of("GridKernel")
    assert codec.load(codec.dump(launch, Blobs()), memoryview(b"")) == launch
