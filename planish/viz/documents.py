"""Documents in and out: dataclasses as JSON, JSON as dataclasses, and where a document is not what its type says."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
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
        cls = cast("type", of)
        return cls(
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


def plain(document: object) -> object:
    """A document as `json.dumps` takes it."""
    if dataclasses.is_dataclass(document) and not isinstance(document, type):
        return {item.name: plain(getattr(document, item.name)) for item in dataclasses.fields(document)}
    if isinstance(document, dict):
        return {key: plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [plain(each) for each in document]
    return document


def problems(value: object, of: Any, path: str = "$") -> Iterator[str]:
    """Where a parsed document is not of its type: a path into it, and what is there instead."""
    origin, arguments = typing.get_origin(of), typing.get_args(of)
    if of is Any:
        return
    if origin in {types.UnionType, typing.Union}:
        if not any(not list(problems(value, each, path)) for each in arguments):
            yield f"{path}: {value!r:.60} is none of {of}"
    elif dataclasses.is_dataclass(of):
        yield from _object_problems(value, typing.cast("type", of), path)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}: {value!r:.60} is no list"
            return
        for number, each in enumerate(value):
            yield from problems(each, arguments[0], f"{path}[{number}]")
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{path}: {value!r:.60} is no object"
            return
        for key, each in value.items():
            yield from problems(each, arguments[1], f"{path}.{key}")
    elif of is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{path}: {value!r:.60} is no number"
    elif of is type(None):
        if value is not None:
            yield f"{path}: {value!r:.60} is not null"
    elif type(value) is not of:
        yield f"{path}: {value!r:.60} is no {of.__name__}"


def _object_problems(value: object, of: type, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r:.60} is no {of.__name__}"
        return
    hints = typing.get_type_hints(of)
    names = [item.name for item in dataclasses.fields(of)]
    for name in names:
        if name not in value:
            yield f"{path}: {of.__name__} lacks {name}"
        else:
            yield from problems(value[name], hints[name], f"{path}.{name}")
    yield from (f"{path}: {of.__name__} has no {name}" for name in value if name not in names)
