"""Every symbolic rule has a golden case that it solves and no other rule does. Format: tests/golden/uop/README.md."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from planish import dtypes
from planish.errors import PlanishError
from planish.uop.infix import infix
from planish.uop.matcher import Matcher, Rule, rule
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.pattern import INTEGRAL, anything
from planish.uop.rewrite import rewrite
from planish.uop.symbolic import FAMILIES, all_rules, fastmath, simplify, sym, symbolic, symbolic_simple
from tests.uop.reading import read, standard_leaves

FOLDER = Path(__file__).parent.parent / "golden" / "uop"
TABLES = {**FAMILIES, "fastmath": fastmath}


@dataclass(slots=True)
class Block:
    """The golden cases of one rule; `lines` keeps the order and the comments of the file."""

    rule: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [
            (
                text,
                self.lines[at + 1][1]
                if self.lines[at + 1 : at + 2] and self.lines[at + 1][0] == "out"
                else "",
            )
            for at, (kind, text) in enumerate(self.lines)
            if kind == "in"
        ]

    @property
    def unchanged(self) -> list[str]:
        return [text for kind, text in self.lines if kind == "not"]

    def __str__(self) -> str:
        lines = [f"rule: {self.rule}"]
        lines += [text if kind == "#" else f"{kind + ':':<5} {text}" for kind, text in self.lines]
        return "\n".join(lines)


def parse(text: str, where: str) -> list[Block]:
    """The blocks of a golden file."""
    blocks: list[Block] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        kind, _, rest = line.partition(":")
        if line.startswith("#"):
            if blocks:
                blocks[-1].lines.append(("#", line))
        elif kind == "rule":
            blocks.append(Block(rest.strip()))
        elif kind in {"in", "out", "not"} and blocks:
            blocks[-1].lines.append((kind, rest.strip()))
        else:
            raise ValueError(f"{where}:{number}: a line starts with rule:, in:, out:, not: or #")
    return blocks


def blocks_of(family: str) -> dict[str, Block]:
    path = FOLDER / f"{family}.txt"
    found = parse(path.read_text(encoding="utf-8"), path.name) if path.is_file() else []
    return {block.rule: block for block in found}


BLOCKS = {family: blocks_of(family) for family in TABLES}


def matcher_for(family: str) -> Matcher:
    return sym + fastmath if family == "fastmath" else sym


MATCHERS = {family: matcher_for(family) for family in ("identities", "fastmath")}


def full(family: str) -> Matcher:
    """The one matcher that a family's cases run with (its compiled decisions are shared)."""
    return MATCHERS["fastmath" if family == "fastmath" else "identities"]


class Reader:
    """Expressions in one table, with the leaves of the golden cases."""

    def __init__(self) -> None:
        self.table = Table()
        self.leaves = standard_leaves(self.table)
        self.names = {node: name for name, node in self.leaves.items()}

    def read(self, text: str) -> UOp:
        return read(text, self.table, self.leaves)

    def text(self, node: UOp) -> str:
        return infix(node, self.names)


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    with made.table:
        yield made


def solves(matcher: Matcher, start: UOp, goal: UOp) -> bool:
    """Whether a matcher leads from one node to the other; an endless loop does not."""
    try:
        return rewrite(start, matcher) is goal
    except PlanishError:
        return False


def rewrite_watched(start: UOp, matcher: Matcher) -> tuple[UOp, list[Rule]]:
    """The result, and the rules that led to it."""
    fired: list[Rule] = []
    return rewrite(start, matcher, listener=lambda hit, _before, _after: fired.append(hit)), fired


def is_needed(removed: Rule, matcher: Matcher, cases: list[tuple[UOp, UOp]]) -> bool:
    """Whether the matcher misses one of the cases without this rule."""
    rest = matcher.without(removed)
    return any(not solves(rest, start, goal) for start, goal in cases)


def update(family: str) -> None:
    """Rewrites the `out` lines of a family's file, and its order, to what the rules say now."""
    blocks, reader = BLOCKS[family], Reader()
    for block in blocks.values():
        lines: list[tuple[str, str]] = []
        for kind, text in block.lines:
            if kind != "out":
                lines.append((kind, text))
            if kind == "in":
                lines.append(("out", reader.text(rewrite(reader.read(text), full(family)))))
        block.lines = lines
    ordered = [blocks[r.name] for r in TABLES[family] if r.name in blocks]
    # A block whose rule is gone is kept at the end: the test will name it.
    ordered += [block for block in blocks.values() if block not in ordered]
    path = FOLDER / f"{family}.txt"
    path.write_text("\n\n".join(map(str, ordered)) + "\n", encoding="utf-8")


@pytest.fixture(scope="session", autouse=True)
def _updated(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden", default=False):
        for family in TABLES:
            if BLOCKS[family]:
                update(family)


@pytest.mark.parametrize("family", TABLES)
def test_every_rule_has_one_block_and_every_block_a_rule(family: str) -> None:
    expected = [r.name for r in TABLES[family]]
    path = FOLDER / f"{family}.txt"
    assert path.is_file(), f"golden file tests/golden/uop/{family}.txt is missing"
    found = [block.rule for block in parse(path.read_text(encoding="utf-8"), path.name)]
    if found != expected:
        difference = difflib.ndiff(expected, found)
        pytest.fail("\n".join(line for line in difference if line[0] in "+-"), pytrace=False)


CASES = [pytest.param(family, r, id=f"{family}: {r.name}") for family in TABLES for r in TABLES[family]]


@pytest.mark.parametrize(("family", "proved"), CASES)
def test_rule(family: str, proved: Rule, reader: Reader) -> None:
    block = BLOCKS[family].get(proved.name)
    assert block is not None, "the rule has no golden block"
    assert block.pairs, "the block has no in: line"
    assert block.unchanged, "the block has no not: line"
    matcher = full(family)
    cases: list[tuple[UOp, UOp]] = []
    for text, expected in block.pairs:
        start = reader.read(text)
        goal, fired = rewrite_watched(start, matcher)
        printed = reader.text(goal)
        assert printed == expected, f"{text} becomes {printed}; if that is meant: pytest --update-golden"
        assert goal is not start
        assert proved in fired, f"{text} reaches its goal by {'; '.join(r.name for r in fired)}"
        assert reader.read(printed) is goal, f"{printed} does not read back"
        assert reader.read(reader.text(start)) is start, f"{reader.text(start)} does not read back"
        assert rewrite(goal, matcher) is goal, f"{printed} is not a fixpoint"
        cases.append((start, goal))
    for text in block.unchanged:
        node = reader.read(text)
        after = rewrite(node, matcher)
        assert after is node, f"{text} should stay, but becomes {reader.text(after)}"
    assert is_needed(proved, matcher, cases), (
        "the cases are solved without this rule: it is redundant, or they are"
    )


def test_names_are_unique() -> None:
    names = [r.name for r in (*all_rules(), *fastmath)]
    assert len(set(names)) == len(names)


def test_tiers_are_nested() -> None:
    small, middle, large = (list(tier) for tier in (symbolic_simple, symbolic, sym))
    assert [r for r in middle if r in small] == small
    assert [r for r in large if r in middle] == middle
    assert len(small) < len(middle) < len(large) == len(all_rules())


def test_gates_come_first() -> None:
    for tier in (symbolic_simple, symbolic, sym):
        assert tier.rules[: len(FAMILIES["gates"])] == FAMILIES["gates"].rules


def test_simplify_remembers(reader: Reader) -> None:
    node = reader.read("(a * 4 + 3) // 4")
    assert simplify(node) is reader.leaves["a"]
    assert reader.table.memos[sym][node] is reader.leaves["a"]


# -- the check itself ------------------------------------------------------------------------------------------


def test_a_redundant_rule_is_noticed(reader: Reader) -> None:
    x = anything("x")
    double = rule(x + 0, x, on=INTEGRAL, says="x + 0 -> x, again")
    cases = [(reader.read("i + 0"), reader.leaves["i"])]
    (original,) = [r for r in all_rules() if r.name == "x + 0 -> x"]
    assert is_needed(original, sym, cases)
    assert not is_needed(original, sym + Matcher("double", [double]), cases)
    assert not is_needed(double, sym + Matcher("double", [double]), cases)


def test_a_malformed_file_is_named() -> None:
    with pytest.raises(ValueError, match=r"x\.txt:2: a line starts with"):
        parse("rule: x\nout x", "x.txt")


def test_there_are_as_many_rules_as_the_seed_speaks_of() -> None:
    assert len(symbolic_simple) > 100
    assert len(symbolic) > 140


def test_lanes_of_pointers_are_left_alone() -> None:
    """GEP selects lanes of values; of a vector of places it stays what it is."""
    with Table() as t:
        buffer = t.param(0, dtypes.float32, 8)
        places = t.make(Ops.INDEX, buffer.dtype.vec(2), (buffer, t.const(0, dtypes.index.vec(2))))
        chosen = t.make(Ops.GEP, buffer.dtype, (places,), (1,))
        assert simplify(chosen) is chosen
