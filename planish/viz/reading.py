"""JSON as the dataclass that it was written from; `schema.problems` has said that it is one."""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")


def read_as(value: Any, of: type[T]) -> T:
    """The object of a type that JSON tells."""
    return cast("T", _read(value, of))


@cache
def _hints(of: type) -> dict[str, Any]:
    return typing.get_type_hints(of)


def _read(value: Any, of: Any) -> Any:
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if value is None:
        return None
    if origin in {types.UnionType, typing.Union}:
        return _read(value, next(each for each in arguments if each is not type(None)))
    if dataclasses.is_dataclass(of):
        hints = _hints(cast("type", of))
        made = cast("type", of)
        return made(
            **{
                item.name: _read(value[item.name], hints[item.name])
                for item in dataclasses.fields(of)
                if item.name in value
            }
        )
    if origin is list:
        return [_read(each, arguments[0]) for each in value]
    if origin is dict:
        return {key: _read(each, arguments[1]) for key, each in value.items()}
    return value
