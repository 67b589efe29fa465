"""Pages that say what the code says: stages, rule tables, the API. They are made when the site is built, and not kept."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.docs.ir_pages import ir_pages

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"


def pages() -> Iterator[tuple[str, str]]:
    """Every page by its place in the site."""
    yield from stage_pages()
    yield from rule_pages()
    yield from ir_pages()
    yield from api_pages()
    for name in ("README", "CONTRIBUTING", "CHANGELOG"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        # links of these files start at the root of the source tree
        text = re.sub(r"\]\(docs/", "](../", text)
        text = re.sub(r"\[([^\]]+)\]\((?!\.\./|https?:|#)([^)]+)\)", r"\1 (`\2`)", text)
        yield f"project/{name.lower() if name != 'README' else 'about'}.md", text


# -- stages ----------------------------------------------------------------------------------------------------------


def stage_pages() -> Iterator[tuple[str, str]]:
    """One page for each stage: what its module says, its rules, and a kernel before and after it."""
    from planish.stages.pipeline import LINE_STAGES, STAGES

    modules = {int(path.stem[1:3]): path for path in (ROOT / "planish" / "stages").glob("*/s[0-9][0-9]_*.py")}
    listed = []
    for stage in (*STAGES, *LINE_STAGES):
        path = modules[stage.number]
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        module = importlib.import_module(name)
        title, _, said = (module.__doc__ or "").strip().partition("\n")
        title = title.partition(":")[2].strip() or title
        parts = [f"# {stage.number}. {stage.name}", title[:1].upper() + title[1:], _prose(said)]
        parts.append(
            f"Source: `{path.relative_to(ROOT)}`. "
            + ("It may be left out: `disable_stages`." if stage.optional else "Later stages rely on it.")
        )
        parts += _rules_of_stage(stage.matchers, module)
        parts += _examples(path.stem)
        yield f"stages/{path.stem}.md", "\n\n".join(parts) + "\n"
        tables = ", ".join(f"`{m}`" for m in stage.matchers)
        listed.append(f"| {stage.number} | [{stage.name}]({path.stem}.md) | {_cell(title)} | {tables} |")
    head = "# The 22 stages\n\nA kernel goes through them in this order, from loops over an expression to lines that are turned into instructions one by one."
    head += " Made from the docstrings and golden files of the source.\n\n| | stage | what it does | rule tables |\n|---|---|---|---|\n"
    yield "stages/index.md", head + "\n".join(listed) + "\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: what is indented behind `::` is a block of text."""
    lines: list[str] = []
    block = False
    for line in text.strip("\n").split("\n"):
        if block and line.strip() and not line.startswith("    "):
            lines.append("```\n")
            block = False
        if line.rstrip().endswith("::"):
            lines += [line.rstrip()[:-1], "", "```text"]
            block = True
        elif block and not line.strip():
            continue
        elif (
            not block and re.match(r"[*-] ", line) and lines and lines[-1].strip() and not _is_item(lines[-1])
        ):
            lines += ["", line]  # Markdown wants an empty line before a list
        else:
            lines.append(line[4:] if block else line)
    return "\n".join([*lines, "```"] if block else lines)


def _is_item(line: str) -> bool:
    return re.match(r"[*-] | {2,}", line) is not None


def _rules_of_stage(names: Iterable[str], module: ModuleType) -> Iterator[str]:
    from planish.uop.matcher import Matcher

    for name in names:
        table = getattr(module, name, None) or _somewhere(name)
        if name in ("sym", "symbolic"):
            yield f"Rule table `{name}`: the whole [algebra](../rules/uop.md)."
        elif isinstance(table, Matcher):
            rows = "\n".join(f"| `{_cell(rule.name)}` |" for rule in table.rules)
            yield f"## Rules of `{name}`\n\n| rule |\n|---|\n{rows}"


def _somewhere(name: str) -> Any:
    """A rule table by its name, wherever it is defined."""
    from planish.uop.matcher import Matcher

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("planish."):
            table = vars(module).get(name)
            if isinstance(table, Matcher):
                return table
    return None


def _examples(stem: str) -> Iterator[str]:
    """The shortest golden cases of a stage."""
    cases = sorted((GOLDEN / "stages" / stem).glob("*.txt"), key=lambda path: path.stat().st_size)
    for case in cases[:2]:
        text = case.read_text(encoding="utf-8")
        parts = re.split(r"^=== (.*)$", text, flags=re.MULTILINE)
        shown = [f"## Example: {case.stem.replace('_', ' ')}"]
        if len(parts) < 5:
            shown.append(f"The result:\n\n```text\n{text.strip()}\n```")
            parts = []
        for title, body in zip(parts[1::2], parts[2::2], strict=True):
            shown.append(f"{title[:1].upper() + title[1:]}:\n\n```text\n{body.strip()}\n```")
        yield "\n\n".join(shown)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- rules -----------------------------------------------------------------------------------------------------------


def rule_pages() -> Iterator[tuple[str, str]]:
    """The algebra of both IRs: every rule by its equation."""
    from planish import ptir
    from planish.uop.symbolic import FAMILIES

    head = "The families of `sym` in order of precedence; a rule's name is its equation. Each has golden cases in `tests/golden/uop`."
    lines = ["# Rules of the kernel IR\n", f"{head}\n"]
    for family, matcher in FAMILIES.items():
        cases = _uop_cases(GOLDEN / "uop" / f"{family}.txt")
        lines.append(f"\n## {family}\n\n| rule | for example | becomes |\n|---|---|---|")
        for rule in matcher.rules:
            before, after = cases.get(rule.name, ("", ""))
            lines.append(f"| `{_cell(rule.name)}` | {_code(before)} | {_code(after)} |")
    yield "rules/uop.md", "\n".join(lines) + "\n"

    by_module: dict[str, list[Any]] = {}
    for pattern in ptir.canonicalization_patterns().patterns:
        by_module.setdefault(type(pattern).__module__.rpartition(".")[2], []).append(pattern)
    head = "What `canonicalize` applies, by the file in `planish/ptir/rules` that they are in. `planish opt --list-patterns` lists them, "
    lines = ["# Rules of the graph IR\n", head + "`planish opt --explain` says why one does not fire.\n"]
    for module, patterns in sorted(by_module.items()):
        lines.append(f"\n## {module}\n\n| pattern | what it does |\n|---|---|")
        for pattern in sorted(patterns, key=lambda each: each.label):
            does = (type(pattern).__dict__.get("__doc__") or "").strip().partition("\n")[0]
            lines.append(f"| `{pattern.label}` | {_cell(does).replace('<', '&lt;')} |")
    yield "rules/ptir.md", "\n".join(lines) + "\n"


def _uop_cases(path: Path) -> dict[str, tuple[str, str]]:
    cases: dict[str, tuple[str, str]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n") if path.exists() else ():
        said = dict(line.split(":", 1) for line in block.splitlines() if re.match(r"(rule|in|out):", line))
        if {"rule", "in", "out"} <= set(said):
            cases[said["rule"].strip()] = (said["in"].strip(), said["out"].strip())
    return cases


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


# -- the API ---------------------------------------------------------------------------------------------------------


_DOCUMENTED = (
    "planish.onnx", "planish.torch", "planish.stablehlo", "planish.jax", "planish.ptir", "planish.compiler", "planish.viz", "planish.ray"
)  # fmt: skip
"""Modules with documents of their own, whose names are no part of the promise."""


def api_pages() -> Iterator[tuple[str, str]]:
    """A page for each public module: names with signatures and docstrings, as tests/public_api.txt lists them."""
    modules: dict[str, dict[str, str]] = {}
    for line in (ROOT / "tests" / "public_api.txt").read_text(encoding="utf-8").splitlines():
        match = re.match(r"(?P<module>[\w.]+)\.(?P<name>\w+)(?P<rest>.*)", line)
        if match is not None:
            modules.setdefault(match["module"], {})[match["name"]] = match["rest"]
    listed = []
    for name, members in modules.items():
        try:
            module = importlib.import_module(name)
        except ImportError:  # a method, or a front end whose package is not there
            continue
        summary = (module.__doc__ or "").strip().partition("\n")[0]
        yield f"api/{name}.md", _api_page(name, module, members)
        listed.append(f"| [{name}]({name}.md) | {_cell(summary)} | {len(members)} |")
    more = []
    for name in _DOCUMENTED:
        try:
            module = importlib.import_module(name)
        except ImportError:  # its package is not there
            continue
        members = {member: _signature(getattr(module, member)) for member in sorted(module.__all__)}
        summary = (module.__doc__ or "").strip().partition("\n")[0]
        yield f"api/{name}.md", _api_page(name, module, members)
        more.append(f"| [{name}]({name}.md) | {_cell(summary)} | {len(members)} |")
    head = "\n\n| module | | names |\n|---|---|---|\n"
    promised = "Every public name with its signature, from the docstrings ([what is promised of them](../stability.md))."
    others = "Front ends and what is inside, of which no more is promised than that it is documented."
    text = (
        f"# API reference\n\n{promised}{head}{chr(10).join(listed)}\n\n{others}{head}{chr(10).join(more)}\n"
    )
    yield "api/index.md", text


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)) if callable(value) else ""
    except (TypeError, ValueError):  # written in C, or no function
        return ""


def _api_page(name: str, module: ModuleType, members: Mapping[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for member, rest in members.items():
        value = getattr(module, member, None)
        origin = getattr(value, "__module__", None) or name
        group = (
            origin.rpartition(".")[2].replace("_", " ").strip()
            if origin.startswith("planish.")
            else "values and types"
        )
        groups.setdefault(group, []).append(_entry(member, rest, value))
    parts = [f"# {name}", _prose(inspect.getdoc(module) or "")]
    several = len(groups) > 1 and len(members) > 30
    for group, entries in sorted(groups.items()):
        parts += [f"## {group}"] if several else []
        parts += entries
    return "\n\n".join(parts) + "\n"


def _entry(member: str, rest: str, value: Any) -> str:
    # annotations are kept as text in the list, in quotes
    shown = f"{member}{rest}".replace("'", "")
    doc = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else ""
    return (
        f"### {member.replace('_', chr(92) + '_')}\n\n```text\n{shown}\n```\n\n{_escaped(_prose(doc or ''))}"
    )


def _escaped(text: str) -> str:
    """What would be taken for HTML or for a heading stays text."""
    lines = []
    block = False
    for line in text.split("\n"):
        block ^= line.startswith("```")
        lines.append(line if block else re.sub(r"<(?=[A-Za-z/!])", "&lt;", line))
    return "\n".join(lines)
