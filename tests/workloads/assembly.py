"""What machine code spends, counted in its text: innermost loops, their instructions, vector registers, spills."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LABEL = re.compile(r"^(\.LBB\d+_\d+):")
_JUMP = re.compile(r"^\tj\w+\t(\.LBB\d+_\d+)")
_WIDTHS = (("zmm", 64), ("ymm", 32), ("xmm", 16))
_SPILL = re.compile(r"^\tv?mov[au]p[sd]\t.*\(%rsp\)|^\tv?mov[au]p[sd]\t.*-?\d*\(%rbp\).*Spill|Reload")


@dataclass(frozen=True, slots=True)
class Code:
    """One function."""

    loops: tuple[int, ...]
    """Instructions of each innermost loop, the longest first."""
    width: int
    """Bytes of the widest vector register that its innermost loops use."""
    spills: int
    """Vectors that go to the stack or come from it."""


def functions(text: str) -> list[list[str]]:
    """The instructions and labels of every function."""
    found: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("\t.type") and "@function" in line:
            found.append([])
        elif found and (_LABEL.match(line) or (line.startswith("\t") and not line.startswith("\t."))):
            found[-1].append(line)
    return [lines for lines in found if lines]


def count(lines: list[str]) -> Code:
    """The counts of a function."""
    at = {match[1]: k for k, line in enumerate(lines) if (match := _LABEL.match(line))}
    spans = set()
    for k, line in enumerate(lines):
        jump = _JUMP.match(line)
        if jump and jump[1] in at and at[jump[1]] <= k:
            spans.add((at[jump[1]], k))
    innermost = [
        (a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)
    ]
    bodies = [[line for line in lines[a : b + 1] if not _LABEL.match(line)] for a, b in innermost]
    width = max((w for body in bodies for line in body for name, w in _WIDTHS if name in line), default=0)
    spills = sum(1 for line in lines if _SPILL.match(line))
    return Code(tuple(sorted(map(len, bodies), reverse=True)), width, spills)
