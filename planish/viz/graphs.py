"""Graphs and texts of kernels and steps, as documents have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final

from planish.uop.infix import infix
from planish.uop.node import UOp
from planish.uop.text import in_order, name_nodes, node_line
from planish.viz.schema import DrawnGraph, Folded, GraphNode

MOST_NODES: Final = 4000
"""Of a graph that is drawn: what is larger is read as text."""
PAGE: Final = 500
"""Steps of one document."""
_SHOWN: Final = 200
"""Characters of an expression in a list of steps."""
_ROW: Final = 3
"""Steps of one rule in a row that are folded."""


def form_graph(form: UOp | Sequence[UOp], number: Callable[[UOp], int]) -> DrawnGraph:
    """A graph or a list of lines as nodes and edges; constants are part of what they are used by."""
    names = (
        name_nodes(in_order(form), form)
        if isinstance(form, UOp)
        else {node: f"%{line}" for line, node in enumerate(form)}
    )
    shown = list(names)[-MOST_NODES:]
    nodes, edges = [], []
    for node in shown:
        line = node_line(node, names).partition(" = ")[2]
        label, _, type = line.rpartition(" : ") if " : " in line else (line, "", "")
        nodes.append(GraphNode(number(node), node.op.name.lower(), label, type, names[node]))
    kept = set(shown)
    for node in shown:
        edges += [
            [number(source), number(node), slot] for slot, source in enumerate(node.src) if source in kept
        ]
    return DrawnGraph(nodes, edges, len(names) - len(shown))


def expression(node: UOp, names: Mapping[UOp, str]) -> str:
    """A node in short."""
    return infix(node, names, limit=_SHOWN)


def folded(rules: Sequence[str], first: int = 0) -> list[Folded]:
    """Where steps of one rule come in a row."""
    rows, position = [], first
    for _, group in groupby(rules):
        count = len(list(group))
        if count >= _ROW:
            rows.append(Folded(position, count))
        position += count
    return rows


def pages(steps: int) -> int:
    """How many documents hold so many steps."""
    return -(-steps // PAGE)
