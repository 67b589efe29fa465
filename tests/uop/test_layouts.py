"""Real layouts: simplified, they mean the same, and have no more divisions and ops than the best form known.

The table is tests/golden/uop/layouts.txt; `pytest --update-golden` stores the forms that the simplifier finds now, and
refuses to store one with more divisions or more ops than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planish.uop.bounds import fill
from planish.uop.evaluate import evaluate
from planish.uop.infix import infix
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.symbolic import simplify
from planish.uop.symbolic.cost import cost, division_count, op_count
from tests.uop.layouts import Layout, parse, table_text

PATH = Path(__file__).parent.parent / "golden" / "uop" / "layouts.txt"
LAYOUTS = list(parse(PATH.read_text(encoding="utf-8")))
POINTS = 20_000
"""Domains up to this size are checked whole, larger ones at so many random points."""


@pytest.fixture
def table() -> Iterator[Table]:
    with Table() as made:
        yield made


def environments(variables: list[UOp], rng: np.random.Generator) -> Iterator[dict[UOp, Any]]:
    """Values of all variables together; a symbolic size is fixed in each, as ranges below it depend on it."""
    sizes = [v for v in variables if any(v in r.src for r in variables)]
    for attempt in range(6 if sizes else 1):
        fixed = {
            v: np.int64(v.vmin if attempt == 0 else rng.integers(v.vmin, min(v.vmax, 40) + 1)) for v in sizes
        }
        low, high = {}, {}
        for v in variables:
            if v not in fixed:
                bound = v.src[0] if v.op is Ops.RANGE else None
                low[v] = v.vmin
                high[v] = int(fixed[bound]) - 1 if bound in fixed else v.vmax
        extents = [high[v] - low[v] + 1 for v in low]
        if prod(extents) <= POINTS:
            grid = np.meshgrid(*(np.arange(low[v], high[v] + 1) for v in low), indexing="ij")
            values = [g.ravel() for g in grid]
        else:
            values = [rng.integers(low[v], high[v] + 1, POINTS // 4) for v in low]
        yield {**fixed, **dict(zip(low, values, strict=True))}


def assert_equal(raw: UOp, simple: UOp, variables: list[UOp]) -> None:
    for env in environments(variables, np.random.default_rng(1)):
        before, after = evaluate(raw, env), evaluate(simple, env)
        assert (np.ma.getmaskarray(before) == np.ma.getmaskarray(after)).all(), "validity differs"
        assert np.ma.filled(before == after, True).all(), "values differ"


@pytest.mark.parametrize("layout", [pytest.param(one, id=one.name) for one in LAYOUTS])
def test_layout(layout: Layout, table: Table) -> None:
    raw, variables = layout.build(table)
    simple = simplify(raw)
    assert_equal(raw, simple, variables)
    assert simplify(simple) is simple
    assert cost(simple) <= cost(raw)
    found = f"{layout.name} becomes {infix(simple, _names(variables, layout))}"
    assert layout.best, f"{found}; store it: pytest --update-golden"
    assert division_count(simple) <= layout.divisions, found
    assert op_count(simple) <= layout.ops, found


def test_the_table_is_large_and_mostly_without_divisions() -> None:
    assert len(LAYOUTS) >= 90
    assert len({one.name for one in LAYOUTS}) == len(LAYOUTS)
    free = [one.name for one in LAYOUTS if one.divisions == 0]
    assert len(free) >= 65


def test_loops_in_the_shape_of_the_data_need_no_division() -> None:
    """Where the text says that loops run over blocks, or that a layout is undone, nothing may be left."""
    wanted = ("loops over", " and back", "there and back", "twice", "and reverse", "of pixel unshuffle")
    for one in LAYOUTS:
        if any(words in one.name for words in wanted):
            assert one.divisions == 0, one.name


def _names(variables: list[UOp], layout: Layout) -> dict[UOp, str]:
    told = [text.split("<")[0].split(" ")[0] for text in layout.variables.split(", ")]
    return dict(zip(variables, told, strict=True))


def test_update(request: pytest.FixtureRequest) -> None:
    """Under --update-golden, stores what the simplifier finds now."""
    if not request.config.getoption("--update-golden"):
        # The best forms must at least be what they claim to be.
        for one in LAYOUTS:
            with Table() as table:
                raw, variables = one.build(table)
                best = eval(one.best, {"__builtins__": {}}, _scope(table, variables, one))
                best = best if isinstance(best, UOp) else table.const(best)
                assert (division_count(best), op_count(best)) == (one.divisions, one.ops), one.name
                assert_equal(raw, best, variables)
        return
    for one in LAYOUTS:
        with Table() as table:
            raw, variables = one.build(table)
            simple = simplify(raw)
            divisions, ops = division_count(simple), op_count(simple)
            if one.best and (divisions > one.divisions or ops > one.ops):
                pytest.fail(f"{one.name}: {divisions} divisions and {ops} ops are worse than what is stored")
            one.best = infix(simple, _names(variables, one))
            one.divisions, one.ops = divisions, ops
    PATH.write_text(table_text(LAYOUTS), encoding="utf-8")


def _scope(table: Table, variables: list[UOp], layout: Layout) -> dict[str, object]:
    names: dict[str, object] = {name: node for node, name in _names(variables, layout).items()}
    return {**names, "INVALID": table.invalid(), "where": lambda p, x, y: p.where(x, y)}


def test_bounds_of_simplified_layouts_are_not_wider() -> None:
    """Simplification must not lose what bounds can prove: a flat index stays within its buffer."""
    wider = []
    for one in LAYOUTS:
        with Table() as table:
            raw, _ = one.build(table)
            simple = simplify(raw)
            if raw.op is Ops.WHERE:  # under a gate, bounds speak of values that never occur
                continue
            before, after = fill(raw), fill(simple)
            assert before is not None
            assert after is not None
            if after[0] < before[0] or after[1] > before[1]:
                wider.append((one.name, before, after))
    assert not wider
