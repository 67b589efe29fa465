"""A schedule as text: `split(i, 6); lanes(j, 16); stage(arg2, at=k.outer); thread(i.outer)`.

Steps are separated by `;` or the ends of lines; `#` starts a comment. What every action of a kind has stands in the order of its
fields; what has a default may be left out, or be given by name. A parameter that is one of the function's may be called as it is there:
`stage(b, at=k.outer)`. A file for several kernels has a line `[name]` before each part.
`parse(print_schedule(actions)) == actions`, whatever the actions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Final, NoReturn, TypeAlias

import planish.actions
from planish.actions.base import Action, ActionField, fields_of
from planish.errors import ParseError, did_you_mean

_TOKEN: Final = re.compile(r"[ \t]*(?:#[^\n]*)?([A-Za-z_][\w.]*|\d+|\n|\S|$)")
_SECTION: Final = re.compile(r"[ \t]*\[([^\]\n]+)\][ \t]*(?:#[^\n]*)?$")
_SLOT: Final = re.compile(r"arg\d{1,9}")
_FORMS: Final = {
    "AxisName": (re.compile(r"[a-z]\d*(\.\w+)*"), "an axis, such as i or k.outer"),
    "AxisName | None": (re.compile(r"[a-z]\d*(\.\w+)*"), "an axis, such as i or k.outer"),
    "Param": (re.compile(r"[A-Za-z_]\w*"), "a parameter, such as arg1"),
    "CoreName": (re.compile(r"\w+"), "the name of a tensor core"),
    "int": (re.compile(r"\d{1,18}"), "a number"),
    "bool": (re.compile(r"true|false"), "true or false"),
}
_STEPS: Final = "write steps such as split(i, 6); lanes(j, 16)"
_ELSEWHERE: Final = {
    "bind": "local, or thread on CPUs", "cache_read": "stage(arg1, at=k.outer)", "compute_at": "stage(arg1, at=k.outer)",
    "double_buffer": "stage(arg1, at=k.outer, buffers=2)", "fuse": "join(i, j)", "gpu_threads": "local(i, 32)", "interchange": "swap(i, j)",
    "pack": "stage(arg1)", "pad": "pad_to(j, 16)", "parallel": "thread(i)", "parallelize": "thread(i)",
    "prefetch": "stage(arg1, at=k.outer, buffers=2)", "reorder": "swap(i, j)", "store_at": "stage(arg1, at=k.outer)",
    "strip_mine": "split(i, 8)", "tensorize": "tensor_core(…)", "tile": "split(i, 8); split(j, 8); swap(i.inner, j.outer)",
    "vectorize": "upcast(j, 16) or lanes(j, 16)",
}  # fmt: skip
"""Words of Halide, TVM and MLIR for what has another name here."""


@cache
def kinds() -> Mapping[str, type[Action]]:
    """All kinds of actions, by their words: those in the files of this folder."""
    from pkgutil import iter_modules  # only who reads a schedule waits for it

    by_word: dict[str, type[Action]] = {}
    for each in iter_modules(planish.actions.__path__):
        module = import_module(f"{planish.actions.__name__}.{each.name}")
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Action) and kind.word:
                by_word[kind.word] = kind
    return dict(sorted(by_word.items()))


def print_schedule(actions: Iterable[Action]) -> str:
    """The text of a schedule."""
    return "; ".join(map(str, actions))


ParameterNames: TypeAlias = Mapping[str, Collection[int]]
"""Which parameters of a kernel a function calls so; of several launches of one kernel, perhaps not the same ones."""


def _written(field: ActionField) -> str:
    """A field as it may be given: what has a default by name."""
    default = str(field.default).lower() if isinstance(field.default, bool) else field.default
    return field.name if field.required else f"{field.name}={default}"


class _Reader:
    """A text, from its beginning to its end."""

    def __init__(self, text: str, file: str | None = None, names: ParameterNames | None = None) -> None:
        self.text = text
        self.file = file
        self.names = names
        self.at = 0
        self.form = _STEPS
        """How what is being read is written."""

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return match.group(1) if match is not None else ""

    def take(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        self.at = len(self.text) if match is None else match.end()
        return "" if match is None else match.group(1)

    def fail(self, *expected: str, remedy: str | None = None) -> NoReturn:
        match = _TOKEN.match(self.text, self.at)
        start = match.start(1) if match is not None else self.at
        shown = self.peek()
        what = "the end" if not shown else "the end of the line" if shown == "\n" else repr(shown)
        remedy = remedy or self.form
        raise ParseError.at(
            f"found {what}", self.text, start, file=self.file, expected=expected, remedy=remedy
        )

    def expect(self, *tokens: str) -> str:
        if self.peek() not in tokens:
            self.fail(*("the end" if not each else repr(each) for each in tokens if each != "\n"))
        return self.take()

    def action(self) -> Action:
        kind = kinds().get(self.peek())
        if kind is None:
            word = self.peek().lower()
            close = word if word in kinds() else did_you_mean(word, kinds())
            hint = f"did you mean {close!r}? " if close else ""
            if word in _ELSEWHERE:
                hint = f"write {_ELSEWHERE[word]}; "
            self.fail("an action", remedy=f"{hint}actions are {', '.join(kinds())}")
        self.take()
        fields = fields_of(kind)
        self.form = f"it is written {kind.word}({', '.join(map(_written, fields))})"
        self.expect("(")
        values: dict[str, object] = {}
        while self.peek() != ")":
            if values and self.peek() != ",":
                self.fail("','", "')'")
            if values:
                self.take()
            field = self.field(fields, values)
            values[field.name] = self.value(field)
        lacking = [field.name for field in fields if field.required and field.name not in values]
        if lacking:
            self.fail(f"{lacking[0]} of {kind.word}")
        self.take()
        self.form = _STEPS
        return kind(**values)

    def field(self, fields: tuple[ActionField, ...], known: Mapping[str, object]) -> ActionField:
        """The field that comes next: the one that is named, else the next in order."""
        start, word = self.at, self.take()
        if word not in ("", "\n") and self.peek() == "=":
            field = next((each for each in fields if each.name == word), None)
            if field is None or word in known:
                self.at = start
                self.fail(*(each.name for each in fields if each.name not in known))
            self.take()
            return field
        self.at = start
        if len(known) == len(fields):
            self.fail("')'")
        return next(each for each in fields if each.name not in known)

    def value(self, field: ActionField) -> object:
        form, expected = _FORMS[field.kind]
        if form.fullmatch(self.peek()) is None:
            self.fail(expected)
        if field.kind == "Param":
            return self.parameter()
        word = self.take()
        if field.kind == "bool":
            return word == "true"
        return int(word) if field.kind == "int" else word

    def parameter(self) -> int:
        """The parameter that is called so in generated code, or in the function."""
        word = self.peek()
        if _SLOT.fullmatch(word) is not None:
            return int(self.take().removeprefix("arg"))
        slots = () if self.names is None else self.names.get(word, ())
        if self.names is not None and len(slots) != 1:
            known = ", ".join(f"{name} (arg{next(iter(s))})" for name, s in self.names.items() if len(s) == 1)
            what = (
                "stands for several of the kernel's parameters"
                if slots
                else "is none of the kernel's parameters"
            )
            self.fail(
                "a parameter",
                remedy=f"{word} {what}; {f'it reads {known}' if known else 'say arg1 or the like'}",
            )
        self.take()
        return next(iter(slots), 0)


def parse_schedule(
    text: str, file: str | None = None, names: ParameterNames | None = None
) -> tuple[Action, ...]:
    """The actions of a text (of a file); `ParseError` says where it is none.

    `names` are those that a function has for a kernel's parameters; as long as nobody knows the kernel, any name will do.
    """
    reader = _Reader(text, file, names)
    actions: list[Action] = []
    while reader.peek():
        if reader.peek() in (";", "\n"):
            reader.take()
            continue
        actions.append(reader.action())
        if reader.peek() not in ("", "\n"):
            reader.expect(";", "\n", "")
    return tuple(actions)


def sections(text: str) -> dict[str, str]:
    """The schedules in a text, by the names of kernels; one for all of them has no name."""
    by_name: dict[str, list[str]] = {"": []}
    name = ""
    for number, line in enumerate(text.splitlines()):
        section = _SECTION.match(line)
        if section is not None:
            name = section.group(1).strip()
            # blank lines for all before, so that what is wrong is found where it stands
            by_name[name] = [""] * number
        by_name[name].append("" if section is not None else line)
    if len(by_name) > 1 and not any(line.partition("#")[0].strip() for line in by_name[""]):
        del by_name[""]
    return {name: "\n".join(lines) for name, lines in by_name.items()}
