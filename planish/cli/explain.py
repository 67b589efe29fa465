"""`planish opt --explain INST PATTERN`: why a pattern fires or not at an instruction of the input."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planish.cli.console import UsageError
from planish.cli.files import SourceFile
from planish.cli.pipeline import known_patterns
from planish.errors import did_you_mean
from planish.ptir import Inst, Program, explain
from planish.ptir.function import Function
from planish.ptir.printer import FunctionPrinter
from planish.ptir.rewrite.explain import printed_names

ALL = "all"


def explanation(program: Program, source: SourceFile, where: str, pattern: str) -> str:
    """One line per pattern; `all` stands for every pattern whose root the instruction is."""
    patterns = known_patterns()
    inst = find_instruction(program, source, where)
    called = names_in(inst.function, source)
    if pattern == ALL:
        names = [p.label for p in patterns.patterns if inst.op in p.roots or inst.op.key in p.roots]
        if not names:
            return f"no pattern has the root {inst.op.name}"
    else:
        names = [pattern]
        valid = [p.label for p in patterns.patterns]
        if pattern not in valid:
            close = did_you_mean(pattern, valid)
            hint = f"did you mean {close}? " if close else ""
            raise UsageError(f"there is no pattern {pattern!r}", remedy=f"{hint}--list-patterns lists them")
    return "\n".join(str(explain(program, inst, name, patterns, called)) for name in names)


def find_instruction(program: Program, source: SourceFile, where: str) -> Inst:
    """The instruction called `%name`, `#id` or `:line`, optionally with its function: `@f:%name`."""
    form = re.fullmatch(r"(?:@([^:]+):)?(%.+|#?\d+|:\d+)", where)
    if form is None:
        raise UsageError(
            f"{where!r} names no instruction",
            remedy="write %name, #id or :line, with @function: in front if needed",
        )
    function_name, rest = form.groups()
    if function_name is not None and function_name not in program.functions:
        close = did_you_mean(function_name, program.functions)
        raise UsageError(
            f"there is no function @{function_name}", remedy=f"did you mean @{close}?" if close else None
        )
    matches: list[Inst] = []
    names: list[str] = []
    written = source.text.split("\n")
    for function in program:
        if function_name not in (None, function.name):
            continue
        printer = FunctionPrinter(function)
        lines = printer.print()
        for inst in function.walk():
            number = _line(inst, source, written)
            called = _names(lines[printer.line_of[inst]] if number is None else written[number - 1])
            names += called
            if rest in called or rest.lstrip("#") == str(inst.id) or rest == f":{number}":
                matches.append(inst)
    if not matches:
        close = did_you_mean(rest, names)
        raise UsageError(
            f"there is no instruction {where}", remedy=f"did you mean {close}?" if close else None
        )
    if len(matches) > 1:
        choices = ", ".join(f"@{inst.function.name}:#{inst.id}" for inst in matches)
        raise UsageError(f"{where} could be several instructions", remedy=f"say which: {choices}")
    return matches[0]


def names_in(function: Function, source: SourceFile) -> dict[int, str]:
    """What the source calls the values of a function, by their ids; as they print where it is not that text."""
    printed = printed_names(function)
    written = source.text.split("\n")
    for inst in function.walk():
        number = _line(inst, source, written)
        if number is not None:
            names = _names(written[number - 1].lstrip())
            printed |= {value.id: name for value, name in zip(inst.results, names, strict=False)}
    return printed


def _line(inst: Inst, source: SourceFile, written: Sequence[str]) -> int | None:
    """Where the instruction stands in the source; None if its location is another file or another text's."""
    place = inst.loc
    if place is None or place.file != source.name or place.line > len(written):
        return None
    return place.line if inst.op.name in written[place.line - 1] else None


def _names(line: str) -> list[str]:
    """What the results of an instruction are called, from its line in the source or as it prints."""
    left, equals, _ = line.partition(" = ")
    return [name.strip() for name in left.split(",")] if equals else []
