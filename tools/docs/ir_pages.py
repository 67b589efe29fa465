"""Reference pages of the IRs: every op of PTIR and the kernel IR, and every instruction of LLIR with how it is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast


def ir_pages() -> Iterator[tuple[str, str]]:
    """The three of them."""
    yield "irs/ptir_ops.md", _ptir()
    yield "irs/uop_ops.md", _uop()
    yield "irs/llir_instructions.md", _llir()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _ptir() -> str:
    from planish.ptir import ops
    from planish.ptir.ops.definition import OpDef

    families: dict[str, list[OpDef]] = {}
    for definition in {id(op): op for op in vars(ops).values() if isinstance(op, OpDef)}.values():
        families.setdefault(definition.key.name.lower().replace("_", " "), []).append(definition)
    lines = [
        "# Ops of the graph IR",
        "",
        "By family (`OpKey`). Grammar and types: [the text form](../ptir_text.md).",
        "",
    ]
    for family, members in sorted(families.items()):
        lines += [
            f"## {family}",
            "",
            "| op | operands | attributes | what it computes |",
            "|---|---|---|---|",
        ]
        for op in sorted(members, key=lambda each: each.name):
            attributes = ", ".join(f"`{f.name}`" for f in dataclasses.fields(cast("Any", op.attrs_type)))
            count = (
                str(op.min_operands) if op.min_operands == op.max_operands else f"{op.min_operands} or more"
            )
            lines.append(f"| `{op.name}` | {count} | {attributes} | {_cell(op.doc or '')} |")
        lines.append("")
    return "\n".join(lines)


def _uop() -> str:
    from planish.uop.ops import Ops

    lines = [
        "# Ops of the kernel IR",
        "",
        "`x?`: may be left out; `x*`: any number; `x+`: at least one. Grammar and laws: [the kernel IR](../uop.md).",
        "",
    ]
    lines += ["| op | sources | dtype | what it is |", "|---|---|---|---|"]
    for op in Ops:
        sources = f"`{op.sources}`" if op.sources else ""
        lines.append(f"| `{op.name.lower()}` | {sources} | {op.law.name.lower()} | {_cell(op.meaning)} |")
    return "\n".join(lines) + "\n"


def _llir() -> str:
    import planish.llir.text  # noqa: F401 - every form is defined once it is imported
    from planish.llir.instruction import FORMS

    head = "How each is written, behind its mnemonic: names stand for fields, what is in parentheses may be left out, dtypes follow the colon."
    lines = [
        "# Instructions of LLIR",
        "",
        f"{head} Grammar: [LLIR](../llir.md).",
        "",
        "| instruction | what it does |",
        "|---|---|",
    ]
    seen = set()
    for form in FORMS:
        shown = _written(form)
        if shown not in seen:
            seen.add(shown)
            lines.append(f"| `{_plain(shown)}` | {_cell((form.__doc__ or '').partition(chr(10))[0])} |")
    return "\n".join(lines) + "\n"


def _written(form: Any) -> str:
    result = "%r = " if form.writes == "result" else ""
    mnemonic = form.mnemonic or "OP operands"
    return f"{result}{mnemonic} {form.syntax}".strip()


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
