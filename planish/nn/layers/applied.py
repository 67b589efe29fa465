"""Layers that are a function of their input and of settings: nothing is learnt, and nothing kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from planish.frontend.tensor.array import Tensor
from planish.nn.module import Module


class FunctionLayer(Module):
    """`class ELU(FunctionLayer, function=elu)`: the parameters of the function behind its `inputs` are the layer's settings, attributes of these names.

    `__init__` takes the settings as the function does, all of them or those that the class names; a class may have its own, and then says
    itself which attributes it makes. A setting that is not there has the function's default.
    """

    function: ClassVar[Callable[..., Any]]
    settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        inputs: int = 1,
        settings: tuple[str, ...] | None = None,
        **kwargs: object,
    ) -> None:
        """The function is the class's own, no method."""
        if function is not None:
            parameters = list(inspect.signature(function).parameters.values())[inputs:]
            parameters = [p for p in parameters if settings is None or p.name in settings]
            cls.function = staticmethod(function)
            cls.settings = tuple([p.name for p in parameters])
            if parameters and cls.__init__ is object.__init__:
                cls.__init__ = _taking(parameters)  # type: ignore[method-assign] # its signature says what it takes
        super().__init_subclass__(**kwargs)

    def __call__(self, x: Tensor) -> Tensor:
        """What the function makes of it."""
        return self._of(x)

    def _of(self, *inputs: Tensor, **options: object) -> Tensor:
        given = self.__dict__
        options.update((name, given[name]) for name in self.settings if name in given)
        result: Tensor = self.function(*inputs, **options)
        return result


def _taking(parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """A constructor that keeps what it is given for these parameters; lists, which may change, as tuples."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([own, *parameters], return_annotation="None")

    def __init__(self: Module, *args: object, **options: object) -> None:  # noqa: N807 # it becomes one
        bound = signature.bind(self, *args, **options)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            is_list = isinstance(value, Sequence) and not isinstance(value, str | tuple)
            setattr(self, name, tuple(value) if is_list else value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
