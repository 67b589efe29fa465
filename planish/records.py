"""Records: dataclasses that take a fifth of the time to define.

`dataclasses.dataclass` writes and compiles up to six methods for each class; with hundreds of classes that was a quarter of the time to the
first result of a process. Here only `__init__` is compiled, and the other methods are closures over the names of the fields. What they do is the
same, and so is what `dataclasses.fields`, `replace` and `asdict` see. Heirs of records, and options beyond those named below, are left to
`dataclasses`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]


class _Factory:
    """What a signature shows for a default that is made anew each time."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE: Final = _Factory()


def _init(cls: Any, fields: list[dataclasses.Field[Any]], frozen: bool, slots: bool) -> Callable[..., None]:
    """`__init__`, compiled: a frozen record is filled past its own `__setattr__`, by its slots where it has them."""
    known: dict[str, Any] = {"_made": _MADE, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            known[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}()" if not field.init else f"_new_{name}() if {name} is _made else {name}"
            default = "=_made"
        elif field.default is not MISSING:
            known[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
        else:
            default = ""
        if field.init:
            parameters.append(name + default)
        elif field.default_factory is MISSING:
            if field.default is MISSING or not slots:
                continue  # nobody has a default, or the class has it
            value = f"_default_{name}"
        if frozen and slots:
            known[f"_set_{name}"] = cls.__dict__[name].__set__
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" _set(self, {name!r}, {value})" if frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass")
    exec(text, known)  # noqa: S102 - names of fields, and nothing else
    init: Callable[..., None] = known["__init__"]
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _values(names: list[str]) -> Callable[[Any], tuple[object, ...]]:
    """The fields of a record, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda record: ()
    one = attrgetter(*names)
    return lambda record: (one(record),)


def _compared(cls: Any, fields: list[dataclasses.Field[Any]], frozen: bool) -> None:
    """Equality by fields; records that do not change have a hash too."""
    values = _values([f.name for f in fields if f.compare])
    hashed = _values([f.name for f in fields if (f.compare if f.hash is None else f.hash)])

    def equal(self: object, other: object) -> object:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    own = cls.__dict__
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    if "__eq__" not in own:
        cls.__eq__ = equal
    if not has_hash:
        cls.__hash__ = (lambda self: hash(hashed(self))) if frozen else None


def _shown(cls: Any, names: list[str]) -> None:
    @recursive_repr()
    def shown(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in names)})"

    if "__repr__" not in cls.__dict__:
        cls.__repr__ = shown


def _frozen(cls: Any, names: frozenset[str]) -> None:
    """Nothing is assigned to a field; subclasses may have other attributes."""

    def assign(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = assign, delete


def _pickled(cls: Any, names: list[str]) -> None:
    """The state of a frozen record with slots is its fields in order."""

    def state(self: object) -> list[object]:
        return [getattr(self, name) for name in names]

    def fill(self: object, values: list[object]) -> None:
        for name, value in zip(names, values, strict=True):
            object.__setattr__(self, name, value)

    cls.__getstate__, cls.__setstate__ = state, fill


def _dataclass(
    given: type | None = None, *, frozen: bool = False, slots: bool = False, eq: bool = True, **more: bool
) -> Any:
    def decorate(cls: Any) -> Any:
        if more or any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
            return dataclasses.dataclass(cls, frozen=frozen, slots=slots, eq=eq, **more)
        cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
        told = cls.__dataclass_params__  # heirs ask
        told.init, told.repr, told.eq, told.frozen = True, True, eq, frozen
        fields = list(dataclasses.fields(cls))
        if "__init__" not in cls.__dict__:
            cls.__init__ = _init(cls, fields, frozen, slots)
        _shown(cls, [f.name for f in fields if f.repr])
        if eq:
            _compared(cls, fields, frozen)
        if frozen:
            names = [f.name for f in fields]
            _frozen(cls, frozenset(names))
            if slots:
                _pickled(cls, names)
        return cls

    return decorate if given is None else decorate(given)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
