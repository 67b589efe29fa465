"""Modules made of modules: one after the other, in a list, in a dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, overload

from planish import random
from planish.frontend.tensor.array import Tensor
from planish.nn.module import Module

Layer = Module | Callable[[Any], Any]


def wants_key(layer: object) -> bool:
    """Whether a layer takes a random key."""
    return isinstance(layer, Module) and bool(layer.takes_key)


class _List(Module):
    """Layers under the names 0, 1, 2 …; functions have no names."""

    def __init__(self, layers: Iterable[Layer]) -> None:
        for number, layer in enumerate(layers):
            setattr(self, str(number), layer)

    def _layers(self) -> list[Layer]:
        own = self.__dict__
        layers: list[Layer] = []
        while str(len(layers)) in own:
            layers.append(own[str(len(layers))])
        return layers

    def __len__(self) -> int:
        return len(self._layers())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._layers())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> _List: ...
    def __getitem__(self, index: int | slice) -> Any:
        layers = self._layers()
        return type(self)._of(layers[index]) if isinstance(index, slice) else layers[index]

    @classmethod
    def _of(cls, layers: list[Layer]) -> _List:
        return cls(layers)

    def extra_repr(self) -> str:
        """Functions among the layers."""
        return ", ".join(
            getattr(layer, "__name__", repr(layer))
            for layer in self._layers()
            if not isinstance(layer, Module)
        )


class Sequential(_List):
    """Layers, each on what the one before gives. A random key is split among those that take one."""

    def __init__(self, *layers: Layer) -> None:
        super().__init__(layers)

    @classmethod
    def _of(cls, layers: list[Layer]) -> Sequential:
        return cls(*layers)

    @property
    def takes_key(self) -> bool:  # type: ignore[override] # of this one, as its layers do
        """Whether any of the layers does."""
        return any(map(wants_key, self._layers()))

    def __call__(self, x: Any, *, key: Tensor | None = None) -> Any:
        """The layers, one after the other."""
        for number, layer in enumerate(self._layers()):
            if wants_key(layer) and key is not None:
                x = layer(x, key=random.fold_in(key, number))  # type: ignore[call-arg] # it says it does
            else:
                x = layer(x)
        return x


class ModuleList(_List):
    """Modules to be indexed and iterated over."""

    def __init__(self, modules: Iterable[Layer] = ()) -> None:
        super().__init__(modules)

    def append(self, module: Layer) -> ModuleList:
        """One more at the end. The same list."""
        setattr(self, str(len(self)), module)
        return self


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, module in (modules or {}).items():
            setattr(self, name, module)

    def __getitem__(self, name: str) -> Any:
        return self.children()[name]

    def __setitem__(self, name: str, module: Module) -> None:
        setattr(self, name, module)

    def __contains__(self, name: object) -> bool:
        return name in self.children()

    def __len__(self) -> int:
        return len(self.children())

    def __iter__(self) -> Iterator[str]:
        return iter(self.children())

    def keys(self) -> list[str]:
        """The names."""
        return list(self.children())

    def values(self) -> list[Module]:
        """The modules."""
        return list(self.children().values())

    def items(self) -> list[tuple[str, Module]]:
        """Names and modules."""
        return list(self.children().items())


__all__ = [
    "ModuleDict", "ModuleList", "Sequential",
]  # fmt: skip
