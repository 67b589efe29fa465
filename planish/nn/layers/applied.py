"""Layers that are a function of their input and of settings: nothing is learnt, and nothing kept."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar

from planish.frontend.tensor.array import Tensor
from planish.nn.module import Module


class FunctionLayer(Module):
    """`class ELU(Applied, function=elu)`: the settings are the parameters of `__init__` (but those by name alone), which are attributes of these names."""

    function: ClassVar[Callable[..., Tensor]]
    settings: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, function: Callable[..., Tensor] | None = None, **kwargs: object) -> None:
        """The function is the class's own, no method."""
        super().__init_subclass__(**kwargs)
        if function is not None:
            cls.function = staticmethod(function)
        if "__init__" in vars(cls):
            _, *given = inspect.signature(cls.__init__).parameters.values()
            cls.settings = tuple([p.name for p in given if p.kind is not inspect.Parameter.KEYWORD_ONLY])

    def __call__(self, x: Tensor) -> Tensor:
        """What the function makes of it."""
        return self.function(x, *[getattr(self, name) for name in self.settings])
