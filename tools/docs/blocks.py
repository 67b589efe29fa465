"""The Python of the documents: every block of a page, in order, with what the page says about running it.

A comment right above a block says what is not to be read: `<!-- setup: … -->` runs first, `<!-- needs: torch -->` names packages (or
`gpu`) without which it is left out, `<!-- not run: why -->` leaves it to the compiler for its syntax alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"(?P<comments>(?:^<!--(?:(?!-->).)*-->\s*?\n+)*)^(?P<indent> *)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```\s*?$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"<!--\s*(?P<what>setup|needs|not run):(?P<text>.*?)-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines of Python on a page."""

    page: Path
    line: int
    code: str
    setup: str = ""
    needs: tuple[str, ...] = ()
    not_run: str | None = None

    @property
    def source(self) -> str:
        """Under the line numbers of the page, so that a traceback points there."""
        return "\n" * (self.line - 1) + self.code


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        said = {c["what"]: c["text"].strip("\n") for c in _COMMENT.finditer(match["comments"])}
        indent = len(match["indent"])
        yield Block(
            page,
            text.count("\n", 0, match.start("code")) + 1,
            "".join(line[indent:] for line in match["code"].splitlines(keepends=True)),
            said.get("setup", "").strip(),
            tuple(said.get("needs", "").replace(",", " ").split()),
            said.get("not run"),
        )


def run_block(block: Block, names: dict[str, object]) -> None:
    """Run one in the names of its page; what it raises comes with the line of the page."""
    if block.setup:
        exec(compile(block.setup, f"{block.page} (setup above line {block.line})", "exec"), names)
    tree = ast.parse(block.source, str(block.page))
    exec(compile(tree, str(block.page), "exec"), names)
