"""The interface of ONNX's own test suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onnx import ModelProto

from planish.onnx.gpu_calls import gpus
from planish.onnx.model import Model


class Representation:
    """A prepared model."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Sequence[Any], **kwargs: Any) -> list[Any]:
        """All outputs, for inputs in order."""
        names = [info.name for info in self.model.inputs]
        return self.model.run(None, dict(zip(names, inputs, strict=False)))


class Backend:
    """planish as an ONNX backend."""

    interpret: ClassVar[bool] = False

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        return cls.supports_device(device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        kind, _, number = device.partition(":")
        return kind == "CPU" or (kind == "CUDA" and f"cuda:{number or 0}" in gpus())

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> Representation:
        own = ModelProto.FromString(model.SerializeToString())
        loaded = Model(own, interpret=cls.interpret)
        if device.partition(":")[0] != "CPU" and not cls.interpret:
            loaded.to_device(device.lower())
        return Representation(loaded)

    @classmethod
    def run_model(
        cls, model: ModelProto, inputs: Sequence[Any], device: str = "CPU", **kwargs: Any
    ) -> list[Any]:
        return cls.prepare(model, device).run(inputs)


class InterpretedBackend(Backend):
    """The same, every segment computed by the reference interpreter: imports are checked without compiling anything."""

    interpret: ClassVar[bool] = True
