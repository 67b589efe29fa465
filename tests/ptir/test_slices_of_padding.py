"""Slices of one padded tensor: what is asked of their neighbours grows with their number, not with its square."""

from __future__ import annotations

import pytest

from planish import ptir
from planish.ptir.dims import DimLike
from planish.ptir.ops.checking import at_most
from planish.ptir.rules import slice as rules


def _comparisons(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """Made while so many slices that see no padding are lifted above it."""
    g = ptir.Graph("f")
    x = g.input("x", ptir.tensor("f32", (2 * count,)))
    padded = x.pad([1], [1])
    total = padded.slice([1], [11])
    for k in range(1, count):
        total = total.add(padded.slice([1 + k], [11 + k]))
    program = ptir.Program([g.build(total)])
    asked = 0

    def counted(low: DimLike, high: DimLike) -> bool:
        nonlocal asked
        asked += 1
        return at_most(low, high)

    monkeypatch.setattr(rules, "at_most", counted)
    ptir.PassManager.parse("canonicalize").run(program)
    monkeypatch.setattr(rules, "at_most", at_most)
    (function,) = program.functions.values()
    assert "pad" not in ptir.print(function)
    return asked


def test_neighbours_of_many_slices_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (_comparisons(monkeypatch, count) for count in (200, 800))
    assert 0 < many <= 4.3 * few  # by squares it would be 16 times as many
