"""How instructions are written: one template each, from which lines are printed and read.

A template follows the mnemonic, and is made of

    field            what the field holds: a register, operand, buffer, integer, word, or a list of them
    field:dtype      an operand; a constant has this dtype unless it says otherwise. `bool`, `i32`, or the dtype of a
                     field, perhaps its `.scalar`
    key=field        an integer behind its key
    ( … )            may be left out, and is where the field holds nothing; ( word) is a field that is true or false
    : a -> b         behind the colon, the dtypes of fields

Everything else stands as it is. A form that assigns `result` has it in front: `%3 = any %2 : bool`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from planish import dtypes
from planish.dtypes import DType
from planish.llir.instruction import Instruction
from planish.llir.values import Immediate, Operand, Register
from planish.uop.argument_text import number_text

if TYPE_CHECKING:
    from planish.llir.parser import LlirParser

_TOKEN: Final = re.compile(
    r"\((?P<group>[^)]*)\)|(?P<key>\w+)=(?P<keyed>\w+)|(?P<word>\w+)(?::(?P<of>[\w.]+))?|(?P<text>\W+)"
)
_FIXED: Final = {"bool": dtypes.bool_, "i32": dtypes.int32}


class _TemplatePart(NamedTuple):
    """A piece of a template."""

    text: str = ""
    field: str = ""
    kind: str = ""
    """The type of the field, as its class spells it."""
    implied: str = ""
    key: bool = False
    optional: bool = False


class _Template(NamedTuple):
    parts: tuple[_TemplatePart, ...]
    dtypes: tuple[str, ...]
    """The fields whose dtypes stand behind the colon."""


_TEMPLATES: Final[dict[type[Instruction], _Template]] = {}


def _template(form: type[Instruction]) -> _Template:
    template = _TEMPLATES.get(form)
    if template is None:
        kinds = {field.name: str(field.type) for field in fields(cast("Any", form))}
        body, _, ending = form.syntax.partition(" : ")
        template = _Template(tuple(_parts(body, kinds)), tuple(ending.split(" -> ")) if ending else ())
        _TEMPLATES[form] = template
    return template


def _parts(body: str, kinds: dict[str, str], optional: bool = False) -> Iterator[_TemplatePart]:
    for token in _TOKEN.finditer(body):
        if token["group"] is not None:
            yield from _parts(token["group"], kinds, optional=True)
        elif token["key"] is not None:
            yield _TemplatePart(
                f"{token['key']}=", token["keyed"], kinds[token["keyed"]], key=True, optional=optional
            )
        elif token["word"] in kinds:
            yield _TemplatePart("", token["word"], kinds[token["word"]], token["of"] or "", optional=optional)
        else:
            yield _TemplatePart(token.group(), optional=optional)


# -- printing --------------------------------------------------------------------------------------------------


def operand_text(operand: Operand, implied: DType | None = None) -> str:
    """A register or constant; `implied` is the dtype that a constant here has unless it says otherwise."""
    if not isinstance(operand, Immediate):
        return str(operand)
    if isinstance(operand.value, tuple):
        text = f"[{', '.join(number_text(v, operand.dtype) for v in operand.value)}]"
    else:
        text = number_text(operand.value, operand.dtype)
    return text if operand.dtype is implied else f"{text}:{operand.dtype}"


def line(i: Instruction) -> str:
    """An instruction as its template has it."""
    form = type(i)
    steps = _STEPS.get(form)
    if steps is None:
        steps = _STEPS[form] = _steps(form)
    return "".join([step if isinstance(step, str) else step(i) for step in steps])


_Step = str | Callable[[Any], str]
"""What is written as it stands, or what writes a part of an instruction."""


_STEPS: Final[dict[type[Instruction], list[_Step]]] = {}


def _steps(form: type[Instruction]) -> list[_Step]:
    """The template of a form as what writes it: hundreds of lines are written by one."""
    template = _template(form)
    steps: list[_Step] = [_result, f" = {form.mnemonic}"] if form.writes == "result" else [form.mnemonic]
    space, before = " ", ""  # before the first word that is said; what an optional field is introduced by
    for part in template.parts:
        if part.field:
            steps.append(_field(part, space + before))
            before = ""
        elif part.optional:
            before += part.text
        else:
            steps.append(space + part.text)
        if space and not part.optional:
            space = ""
    for number, name in enumerate(template.dtypes):
        steps += [" -> " if number else " : ", partial(_dtype_text, name)]
    return steps


def _result(i: Any) -> str:
    return str(i.target)


def _dtype_text(name: str, i: Any) -> str:
    return str(getattr(i, name).dtype.short)


def _field(part: _TemplatePart, before: str) -> Callable[[Any], str]:
    """What writes a field, with what stands before it."""
    name = part.field

    def text(i: Any, value: Any) -> str:
        if type(value) is Register:
            return f"%{value.bank}{value.number}"
        if part.key:
            return f"{part.text}{value}"
        if part.kind == "bool":
            return name
        if part.kind in {"TileOp", "HardwareIndex"}:
            return str(value.name)
        if isinstance(value, tuple):
            return ", ".join([text(i, each) for each in value])
        return operand_text(value, _implied(part.implied, lambda of: getattr(i, of).dtype))

    def optional(i: Any) -> str:
        value = getattr(i, name)
        return "" if value is None or value is False or value in (0, ()) else before + text(i, value)

    return optional if part.optional else lambda i: before + text(i, getattr(i, name))


def _implied(spelt: str, dtype_of: Any) -> DType | None:
    if not spelt:
        return None
    name, _, scalar = spelt.partition(".")
    dtype = _FIXED[name] if name in _FIXED else cast("DType", dtype_of(name))
    return dtype.scalar if scalar else dtype


# -- reading ---------------------------------------------------------------------------------------------------


def read(parser: LlirParser, form: type[Instruction], name: re.Match[str] | None) -> Instruction:
    """An instruction whose mnemonic has been read; `name` is the register in front."""
    template = _template(form)
    held: dict[str, Any] = {}
    left_out = False  # whether the introduction of an optional field was not there
    for part in template.parts:
        if not part.field:
            word = part.text.strip()
            if part.optional and word:
                left_out = not parser.take_word(word)
            elif word.isidentifier():
                parser.need_word(word)
            elif word:
                parser.expect(word)
        elif part.key:
            if not part.optional or parser.at_word(part.text[:-1]):
                held[part.field] = parser.key(part.text[:-1])
        elif part.kind == "bool":
            held[part.field] = parser.take_word(part.field)
        elif not (part.optional and left_out):
            held[part.field] = parser.field(part.kind, assigns=part.field == form.writes)
    stated: dict[str, DType] = {}
    for place, target in enumerate(template.dtypes):
        parser.expect_all(":" if place == 0 else "->")
        stated[target] = parser.dtype()
    for part in template.parts:
        if part.field in held and "Operand" in part.kind:
            kind = _implied(part.implied, lambda of: stated[of] if of in stated else held[of].dtype)
            held[part.field] = parser.resolved(held[part.field], kind)
    if form.writes is not None:
        written = held.pop(form.writes) if name is None else name
        held[form.writes] = parser.assign(written, stated[form.writes])
    return form(**held)
