"""The errors of onnxruntime, by name: what programs written for it catch. Each is a `PlanishError` that says the same."""

from __future__ import annotations

from planish.errors import PlanishError, ShapeError


class RuntimeException(PlanishError):
    """The model failed while it ran."""


class Fail(PlanishError):
    """Something failed that has no name of its own."""


class InvalidArgument(PlanishError):
    """What was given does not fit the model."""


class MissingInput(InvalidArgument, ValueError):
    """An input was not given."""


class WrongShape(InvalidArgument, ShapeError):
    """The shape of an array does not fit the model."""


class NoSuchFile(PlanishError):
    """There is no such file."""


class NoModel(PlanishError):
    """There is no model."""


class EngineError(PlanishError):
    """The engine failed."""


class InvalidProtobuf(PlanishError):
    """The bytes are not those of a model."""


class ModelLoaded(PlanishError):
    """The model is loaded already."""


class NotImplemented(PlanishError):
    """Something that is not done here."""


class InvalidGraph(PlanishError):
    """The graph of the model is not one."""


class EPFail(PlanishError):
    """The place where a model runs failed."""


def told_as(kind: type[PlanishError], error: PlanishError) -> PlanishError:
    """An error under the name that onnxruntime has for it; one that has such a name already stays."""
    if type(error).__module__ == __name__:
        return error
    return kind(error.message, location=error.location, op=error.op, remedy=error.remedy)


__all__ = [
    "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "MissingInput",
    "ModelLoaded", "NoModel", "NoSuchFile", "NotImplemented", "RuntimeException", "WrongShape", "told_as",
]  # fmt: skip
