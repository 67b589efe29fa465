"""A StableHLO module from MLIR's text, generic or pretty."""

from __future__ import annotations

import re
from typing import Final

from planish.errors import Location
from planish.stablehlo import forms
from planish.stablehlo.reading import HloReader
from planish.stablehlo.syntax import Attribute, HloBlock, HloFunction, HloModule, HloValue, Operation, Type

_PLACE: Final = re.compile(r'"([^"]*)":(\d+)(?::(\d+))?')
_ALIAS: Final = re.compile(r"#loc\d*")
_NAMED: Final = re.compile(r'\("([^"]*)"\)')
"""The location of an argument that tells its name."""
_SHORT: Final = {"return": "func.return", "call": "func.call"}


def parse(text: str, file: str = "<stablehlo>") -> HloModule:
    """All functions of a module."""
    return _Parser(text, file).module()


class _Parser(HloReader):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.scopes: list[dict[str, list[HloValue]]] = []
        self.unplaced: list[tuple[Operation, str]] = []

    # --- modules and functions ---

    def module(self) -> HloModule:
        module = HloModule("", {})
        while self.kind != "end":
            if self.word.startswith("#"):
                self._alias()
            elif self.word in ("module", "builtin.module"):
                self.next()
                self._module(module)
            elif self.word == '"builtin.module"':
                self._generic_module(module)
            else:
                self._function(module)
        for op, place in self.unplaced:
            op.location = self._place(place) or op.location
        if not module.functions:
            self.fail("there is no function in the module")
        return module

    def _alias(self) -> None:
        name = self.next()
        self.expect("=")
        if self.accept("loc"):
            self.places[name] = self.balanced()
        elif self.word == "#":
            self.fail("an attribute that is no StableHLO")
        else:
            self.aliases[name] = self.attribute()

    def _module(self, module: HloModule) -> None:
        if self.kind == "symbol":
            module.name = self.symbol().name
        if self.accept("attributes"):
            module.attributes = self.dictionary()
        self.expect("{")
        while not self.accept("}"):
            if self.word.startswith("#"):
                self._alias()
            else:
                self._function(module)
        self._skip_location()

    def _generic_module(self, module: HloModule) -> None:
        self.next()
        self.expect("(", ")")
        attributes = self._properties()
        module.name = str(attributes.get("sym_name") or "")
        self.expect("(", "{")
        if self.word.startswith("^"):
            self.next()
            self.expect(":")
        while not self.accept("}"):
            self._function(module)
        self.expect(")")
        module.attributes = {**attributes, **self._properties()}
        self.expect(":")
        self.signature()
        self._skip_location()

    def _function(self, module: HloModule) -> None:
        where = self.location()
        if self.word == '"func.func"':
            function = self._generic_function(where)
        elif self.word.startswith("sdy.") or self.word.startswith('"sdy.'):
            self._skip_note()
            return
        else:
            if not self.accept("func.func"):
                self.fail(f"{self.word!r} where a function was expected")
            function = self._pretty_function(where)
        self._skip_location()
        if function is not None:
            module.functions[function.name] = function

    def _skip_note(self) -> None:
        """A mesh of devices: there is one."""
        self.next()
        while (
            self.word not in ("}", "func.func", '"func.func"', "sdy.mesh", '"sdy.mesh"')
            and self.kind != "end"
        ):
            if self.word in ("(", "[", "{", "<"):
                self.balanced()
            else:
                self.next()

    def _pretty_function(self, where: Location) -> HloFunction | None:
        if self.word in ("public", "private", "nested"):
            self.next()
        name = self.symbol().name
        self.scopes = [{}]
        block = HloBlock()
        arg_attributes: list[dict[str, Attribute]] = []

        def argument() -> None:
            if self.kind != "value":
                self.type()  # a declaration
                return
            block.args.append(self._argument())
            attributes = self.dictionary() if self.word == "{" else {}
            named = _NAMED.fullmatch(self._skip_location())
            arg_attributes.append({"name": named[1], **attributes} if named else attributes)

        self.many("(", ")", argument)
        result_types: list[Type] = []
        result_attributes: list[dict[str, Attribute]] = []

        def result() -> None:
            result_types.append(self.type())
            result_attributes.append(self.dictionary() if self.word == "{" else {})

        if self.accept("->"):
            if self.word == "(":
                self.many("(", ")", result)
            else:
                result_types.append(self.type())
                result_attributes.append({})
        attributes = self.dictionary() if self.accept("attributes") else {}
        if self.word != "{":
            return None
        self._block_into(block)
        return HloFunction(name, block, result_types, arg_attributes, result_attributes, where, attributes)

    def _generic_function(self, where: Location) -> HloFunction | None:
        self.next()
        self.expect("(", ")")
        attributes = self._properties()
        self.scopes = [{}]
        regions = self._regions()
        attributes |= self._properties()
        self.expect(":")
        self.signature()
        if not regions or not regions[0].ops:
            return None
        (block,) = regions
        told = attributes.pop("function_type").text
        types = HloReader(told, self.file).signature()[1]
        return HloFunction(
            str(attributes.pop("sym_name")),
            block,
            list(types),
            list(attributes.pop("arg_attrs", None) or [{} for _ in block.args]),
            list(attributes.pop("res_attrs", None) or [{} for _ in types]),
            where,
            attributes,
        )

    # --- blocks ---

    def _argument(self) -> HloValue:
        name = self.take("value")
        self.expect(":")
        return self.define(name, self.type())

    def define(self, name: str, type: Type) -> HloValue:
        """A value that can be used from here on."""
        value = HloValue(name, type)
        self.scopes[-1][name] = [value]
        return value

    def value(self) -> HloValue:
        """A use of a value."""
        where = self.start
        name, _, index = self.take("value").partition("#")
        for scope in reversed(self.scopes):
            values = scope.get(name)
            if values is not None and int(index or 0) < len(values):
                return values[int(index or 0)]
        self.start = where
        raise self.mistake(f"nothing is called {name}")

    def block(self, args: list[HloValue] | None = None) -> HloBlock:
        """`{ … }`, with arguments that are known already or stand in its head."""
        block = HloBlock(list(args or ()))
        self.scopes.append({arg.name: [arg] for arg in block.args})
        self._block_into(block)
        self.scopes.pop()
        return block

    def _block_into(self, block: HloBlock) -> None:
        self.expect("{")
        if self.word.startswith("^"):
            self.next()

            def argument() -> None:
                block.args.append(self._argument())
                self._skip_location()

            if self.word == "(":
                self.many("(", ")", argument)
            self.expect(":")
        while not self.accept("}"):
            if self.word.startswith("^"):
                self.fail(
                    "a region of several blocks", "StableHLO has structured control flow: while, case, if"
                )
            block.ops.append(self.operation())

    def _regions(self) -> list[HloBlock]:
        return self.many("(", ")", self.block) if self.word == "(" else []

    def _properties(self) -> dict[str, Attribute]:
        properties: dict[str, Attribute] = {}
        while True:
            if self.word == "<" and self.peek() == "{":
                self.next()
                properties |= self.dictionary()
                self.expect(">")
            elif self.word == "{":
                properties |= self.dictionary()
            else:
                return properties

    # --- operations ---

    def operation(self) -> Operation:
        """One operation, its results defined."""
        where = self.location()
        names: list[tuple[str, int]] = []
        while self.kind == "value":
            name = self.take("value")
            names.append((name, int(self.take("number")) if self.accept(":") else 1))
            if not self.accept(","):
                self.expect("=")
        if self.kind == "string":
            op, types = self._generic()
        else:
            place = self.start
            word = self.take("name")
            op = Operation(_SHORT.get(word, word), [], {}, [])
            self.start = place
            types = forms.read(self, op)
        op.location = where
        op.attributes = forms.normal(op)
        op.results = [HloValue(f"{op.name}#{n}", t, op, n) for n, t in enumerate(types)]
        if self.word == "loc":
            self.next()
            self.unplaced.append((op, self.balanced()))
        if sum(count for _, count in names) not in (0, len(op.results)):
            self.fail(f"{op.name} has {len(op.results)} results")
        at = 0
        for name, count in names:
            self.scopes[-1][name] = op.results[at : at + count]
            for value in op.results[at : at + count]:
                value.name = name
            at += count
        return op

    def _generic(self) -> tuple[Operation, list[Type]]:
        name = self.string()
        operands = self.many("(", ")", self.value)
        attributes = self._properties()
        regions = self._regions()
        attributes |= self._properties()
        self.expect(":")
        _, results = self.signature()
        return Operation(name, operands, attributes, regions), results

    # --- locations ---

    def _skip_location(self) -> str:
        return self.balanced() if self.accept("loc") else ""

    def _place(self, text: str, depth: int = 0) -> Location | None:
        """The first line of a source that a location names."""
        match = _PLACE.search(text)
        if match is not None:
            return Location(match[1], int(match[2]))
        for alias in _ALIAS.findall(text):
            if depth < 20 and alias in self.places:
                place = self._place(self.places[alias], depth + 1)
                if place is not None:
                    return place
        return None
