"""The table of layouts: its text form, and what its variables and expressions mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from tests.uop.views import View


@dataclass(slots=True)
class Layout:
    """One entry: variables with bounds, the expression as tensor code writes it, and the best known form."""

    name: str
    variables: str = ""
    expression: str = ""
    best: str = ""
    divisions: int = -1
    ops: int = -1
    comment: str = ""

    def build(self, table: Table) -> tuple[UOp, list[UOp]]:
        """The raw expression, and its variables (outer ones first)."""
        names: dict[str, UOp] = {}
        for axis, text in enumerate(self.variables.split(", ")):
            if " " in text:
                name, low, high = re.fullmatch(r"(\w+) (-?\d+)\.\.(-?\d+)", text).groups()  # type: ignore[union-attr]
                names[name] = table.variable(name, int(low), int(high))
            else:
                name, bound = text.split("<")
                names[name] = table.range(names[bound] if bound in names else int(bound), axis)
        scope = {**names, "tensor": lambda *dims: View(table, dims)}
        return eval(self.expression, {"__builtins__": {}}, scope), list(names.values())

    def __str__(self) -> str:
        return (
            f"{self.comment}[{self.name}]\nvars: {self.variables}\nin: {self.expression}\n"
            f"best: {self.best}\ndivmod: {self.divisions}, ops: {self.ops}\n"
        )


def parse(text: str) -> Iterator[Layout]:
    """The entries of the table."""
    current: Layout | None = None
    comment = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            comment += f"{line}\n" if line else ""
            continue
        if line.startswith("["):
            if current is not None:
                yield current
            current, comment = Layout(line[1:-1], comment=comment), ""
            continue
        field, _, value = line.partition(": ")
        if current is None or field not in {"vars", "in", "best", "divmod"}:
            raise ValueError(f"line {number}: {line!r} is no part of a layout")
        if field == "vars":
            current.variables = value
        elif field == "in":
            current.expression = value
        elif field == "best":
            current.best = value
        else:
            current.divisions, current.ops = (int(n) for n in re.findall(r"\d+", line))
    if current is not None:
        yield current


def table_text(layouts: list[Layout]) -> str:
    return "\n".join(map(str, layouts))


def is_leaf(node: UOp) -> bool:
    return node.op in {Ops.DEFINE_VAR, Ops.RANGE}
