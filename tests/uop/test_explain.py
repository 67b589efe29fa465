"""Why rules do not apply: the first test of a pattern that fails, held to what the rules themselves do."""

from __future__ import annotations

from planish import dtypes
from planish.uop import Ops, Table, UOp, anything, constant, rule
from planish.uop.explain import why_not
from planish.uop.symbolic import symbolic

x, y, c = anything("x"), anything("y"), constant("c")


def _variable(table: Table, name: str) -> UOp:
    from planish.uop import Variable

    return table.make(Ops.DEFINE_VAR, dtypes.index, (), Variable(name, 0, 63))


def test_first_failing_test_is_told() -> None:
    with Table() as table:
        a, b = _variable(table, "a"), _variable(table, "b")
        assert why_not(rule(x * c, x), a * b).reason == "c in x * c must be CONST, it is DEFINE_VAR"
        assert why_not(rule(x * 1, x), a * 3).reason == "the constant in x * 1 must be 1"
        assert why_not(rule(x - x, 0), a - b).reason == "x must be the same node at both places"
        assert (
            why_not(rule((x + y) * c, x), a * 3).reason
            == "x + y in (x + y) * c must be ADD, it is DEFINE_VAR"
        )
        assert why_not(rule(x * c, x), a + 3).reason == "x * c must be MUL, it is ADD"


def test_furthest_reading_is_told() -> None:
    with Table() as table:
        a, b = _variable(table, "a"), _variable(table, "b")
        # only with the operands the other way round does the product come first
        found = why_not(rule((x * c) + y, x), b + a * b)
        assert found.reason == "c in x * c must be CONST, it is DEFINE_VAR"
        assert found.at is b


def test_conditions_and_functions_tell_what_declined() -> None:
    def small(c: UOp) -> bool:
        return isinstance(c.arg, int) and c.arg < 3

    def halved(x: UOp, c: UOp) -> UOp | None:
        if c.arg == 5:
            return None
        return x

    with Table() as table:
        a = _variable(table, "a")
        assert (
            why_not(rule(x * c, x, when=small, says="s"), a * 7).reason
            == "its condition does not hold: small"
        )
        assert why_not(rule(x * c, halved, says="h"), a * 5).reason == (
            "the pattern matches, and it ends at `if c.arg == 5:`"
        )
        through = rule(x * c, lambda x, c: halved(x, c), says="l")
        assert "if c.arg == 5:" in why_not(through, a * 5).reason


def test_reasons_agree_with_rules() -> None:
    """A rule applies only where its pattern is said to match, and a template without a condition wherever it is."""
    with Table() as table:
        a, b = _variable(table, "a"), _variable(table, "b")
        ends = [a, b, a.const_like(0), a.const_like(1), a.const_like(4)]
        inner = [
            table.make(op, dtypes.index, (left, right))
            for op in (Ops.ADD, Ops.MUL, Ops.FLOORDIV, Ops.FLOORMOD, Ops.MAX)
            for left in ends[:2]
            for right in ends[1:]
        ]
        nodes = [
            *inner,
            *(
                table.make(op, dtypes.index, (left, right))
                for op in (Ops.ADD, Ops.MUL, Ops.FLOORDIV)
                for left in inner
                for right in ends[2:]
            ),
        ]
        applied = 0
        for each in symbolic.rules:
            for node in nodes:
                found, made = why_not(each, node), each.apply(node)
                applied += made is not None
                if made is not None:
                    assert found.matches, (each.name, node)
                elif found.matches and not callable(each.right) and each.when is None:
                    assert found.reason == "it would give what is there already"
        assert applied > 200
