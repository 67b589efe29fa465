"""Every rule of the algebra, proved from its table entry. A new rule is covered by being in the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from planish.algebra.scalar import LAWS
from planish.uop.matcher import Rule
from planish.uop.symbolic import all_rules
from planish.uop.symbolic.lawful import as_rule
from tests.uop.proof.examples import EXAMPLES
from tests.uop.proof.rules import prove_rule

OF_OTHER_OPS = {
    *(
        "RemoveRepeatedSign",
        "RemoveInvolution",
        "RemoveAbsOfNotNegative",
        "RemoveSignBelowEven",
        "SinkNegBelowOdd",
    ),
    *("FoldPartOfComplex", "SinkSignBelowPart", "SplitPartOfSum", "FoldComplexOfParts", "FoldConjOfComplex"),
    *("FoldShiftByConstant", "FoldShiftOfShift", "ReplaceShiftBackByMask", "FoldComparisonOfSame"),
}
"""Patterns with laws of ops that kernels do not have: tests/ptir/test_laws.py alone speaks for those."""


def elsewhere() -> Iterator[Rule]:
    """Laws that kernels do not use, but another IR does: proved like the rest."""
    for law in LAWS:
        if not law.uop:
            try:
                made = as_rule(law)
            except KeyError:
                assert law.pattern in OF_OTHER_OPS, law.says
                continue
            # Kernels have < and <= alone: turning a comparison round changes nothing there.
            if str(made.left) != str(made.right):
                yield made


RULES = [*all_rules(), *elsewhere()]
MOST_UNKNOWN = 0.05


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule(rule: Rule):
    proof = prove_rule(rule, attempts=800, wanted=10)
    assert not proof.wrong, "\n".join(proof.wrong)
    assert proof.fired, (
        f"no instance makes it fire: {rule.left}; give tests/uop/proof/examples.py a builder for it"
    )


def test_few_instances_stay_unknown():
    verdicts: Counter[str] = Counter()
    for rule in RULES:
        verdicts += prove_rule(rule, attempts=120, wanted=2, z3_seconds=0.5).verdicts
    assert verdicts["unknown"] <= MOST_UNKNOWN * verdicts.total(), verdicts


def test_examples_name_rules():
    unknown = set(EXAMPLES) - {rule.name for rule in RULES}
    assert not unknown, f"examples for rules that do not exist: {unknown}"


@pytest.mark.fuzz
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_at_length(rule: Rule):
    for seed in range(4):
        print("seed", seed)
        proof = prove_rule(rule, attempts=6000, wanted=150, points=1 << 17, z3_seconds=5.0, seed=seed)
        assert not proof.wrong, "\n".join(proof.wrong)
