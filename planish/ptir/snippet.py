"""Snippets: text with `{{placeholders}}` that adds instructions to a graph under construction.

    shift = Snippet('''
      %m = reduce_max {{x}} {axes=[{{axis}}], keepdims=true}
      %b = broadcast_to %m {dims={{dims}}}
      %d = sub {{x}}, %b
      return %d
    ''')
    d = shift(graph, x=x, axis=1, dims=x.dims).into_value()

A snippet is the body of a function. Types may be left out: they are inferred. A placeholder stands for an integer, a
number, a bool, a dtype, a size, a shape, a type, text, or a value of the graph. A shape is written as the place asks for: `4x8`
inside a type, `[4, 8]` elsewhere. A snippet that fails leaves the graph as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from planish.dtypes import DType
from planish.errors import GraphError, Location, ParseError, did_you_mean
from planish.ptir.builder import Graph, GraphValue
from planish.ptir.codec import BOOL, DTYPE, FLOAT, INT, STR, TYPE
from planish.ptir.function import Function, clone_region_body
from planish.ptir.handle import ElementwiseMethods
from planish.ptir.parser import PtirParser
from planish.ptir.types import Dim, TensorType

Single: TypeAlias = bool | int | float | str | DType | Dim | TensorType
Argument: TypeAlias = Single | Sequence[Single] | ElementwiseMethods | Sequence[ElementwiseMethods]

_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_VALUE: Final = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)(?:\.[0-9]+)?")


class Results:
    """What a snippet returned."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[GraphValue]) -> None:
        self.values = tuple(values)

    def into_value(self) -> GraphValue:
        """The only result."""
        if len(self.values) != 1:
            raise GraphError.at_caller(
                f"the snippet has {len(self.values)} results, not one", "take them with tuple_element"
            )
        return self.values[0]

    def tuple_element(self, index: int) -> GraphValue:
        """One of several results, counted from 0."""
        if not 0 <= index < len(self.values):
            raise GraphError.at_caller(f"the snippet has no result {index}: it has {len(self.values)}")
        return self.values[index]

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[GraphValue]:
        return iter(self.values)


class Snippet:
    """The body of a function, with placeholders."""

    __slots__ = ("placeholders", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.placeholders = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))

    def __call__(self, graph: Graph, /, **arguments: Argument) -> Results:
        """Add the instructions to a graph, where its next op would go."""
        loc = Location.caller()
        if graph.finished:
            raise graph.located(GraphError(f"graph {graph.function.name} is finished"))
        values = {
            name: graph.import_value(handle.value).value for name, handle in _handles(arguments).items()
        }
        scope: dict[str, Dim] = {}
        for param in graph.function.params:
            _declare(scope, param.type)
        # Built apart first: what fails halfway leaves no trace in the graph.
        types = {name: value.type for name, value in values.items()}
        body = self._build(arguments, types, scope, loc).body
        mapping = dict(zip(body.args, values.values(), strict=True))
        results = clone_region_body(body, graph.region.end, mapping)
        return Results([graph.wrap(value) for value in results])

    def function(self, name: str, /, **arguments: Single | Sequence[Single]) -> Function:
        """A function of its own: a type given for a name that is used as a value (`%x`) declares a parameter."""
        used = {m.group(1) for m in _VALUE.finditer(self.text)}
        params = {
            key: type for key, type in arguments.items() if isinstance(type, TensorType) and key in used
        }
        function = self._build(arguments, params, {}, Location.caller())
        function.name = name
        return function

    def _build(
        self,
        arguments: Mapping[str, Argument],
        params: Mapping[str, TensorType],
        scope: dict[str, Dim],
        loc: Location | None,
    ) -> Function:
        for item in (*arguments.values(), *params.values()):
            _declare(scope, item)
        try:
            text = fill(self.text, **arguments)
        except GraphError as error:
            error.location = loc
            raise
        parser = PtirParser(text, dims=scope)
        parser.loc = loc
        try:
            return parser.snippet(params)
        except ParseError as error:
            error.location = loc
            raise


def fill(text: str, **arguments: Argument) -> str:
    """The text with every placeholder replaced; values become `%name`."""
    wanted = set(_PLACEHOLDER.findall(text))
    usable = wanted | {m.group(1) for m in _VALUE.finditer(text)}
    for name in arguments:
        if name not in usable:
            close = did_you_mean(name, usable)
            hint = f"did you mean {close!r}?" if close else f"it has: {', '.join(sorted(wanted)) or 'none'}"
            raise GraphError(f"the snippet has no placeholder {name!r}", remedy=hint)
    missing = sorted(wanted - set(arguments))
    if missing:
        raise GraphError(f"the snippet needs {', '.join(missing)}")
    parts: list[str] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        parts.append(text[end : match.start()])
        parts.append(_written(match.group(1), arguments[match.group(1)], _inside_type(text, match.start())))
        end = match.end()
    return "".join(parts) + text[end:]


def _handles(arguments: Mapping[str, Argument]) -> dict[str, ElementwiseMethods]:
    """Every value among the arguments, under the name it has in the text."""
    handles: dict[str, ElementwiseMethods] = {}
    for name, argument in arguments.items():
        if isinstance(argument, ElementwiseMethods):
            handles[name] = argument
        elif isinstance(argument, Sequence):
            for index, item in enumerate(argument):
                if isinstance(item, ElementwiseMethods):
                    handles[f"{name}.{index}"] = item
    return handles


def _inside_type(text: str, position: int) -> bool:
    """Whether sizes at this place stand in `tensor<…>` and are separated by x."""
    start = text.rfind("tensor<", 0, position)
    return start >= 0 and ">" not in text[start:position] and "quant<" not in text[start:position]


def _written(name: str, argument: Argument, inside_type: bool) -> str:
    if isinstance(argument, ElementwiseMethods):
        return f"%{name}"
    if isinstance(argument, Sequence) and not isinstance(argument, str):
        items = [
            f"%{name}.{index}" if isinstance(item, ElementwiseMethods) else _written(name, item, inside_type)
            for index, item in enumerate(argument)
        ]
        if inside_type:
            return "x".join(items)
        of_values = any(isinstance(item, ElementwiseMethods) for item in argument)
        return ", ".join(items) if of_values else f"[{', '.join(items)}]"
    if isinstance(argument, Dim):
        return f"({argument})" if inside_type else str(argument)
    for kind, codec in ((bool, BOOL), (int, INT), (float, FLOAT), (str, STR), (TensorType, TYPE)):
        if isinstance(argument, kind):
            return codec.write(argument)
    if isinstance(argument, DType):
        return DTYPE.write(argument)
    raise GraphError(f"placeholder {name!r} cannot be {argument!r}")


def _declare(scope: dict[str, Dim], argument: object) -> None:
    """Make the named sizes of an argument known to the text."""
    if isinstance(argument, Dim | TensorType):
        for symbol in argument.symbols():
            scope.setdefault(symbol.name, Dim.named(symbol.name, symbol.lo, symbol.hi))
    elif isinstance(argument, Sequence) and not isinstance(argument, str):
        for item in argument:
            _declare(scope, item)
