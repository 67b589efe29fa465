"""Proof of a rule from its table entry: instances of its left side, the rule alone applied, both sides compared."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from planish.errors import PlanishError
from planish.uop.infix import infix
from planish.uop.matcher import Rule
from planish.uop.node import Table, UOp
from tests.uop.proof.equal import check
from tests.uop.proof.examples import EXAMPLES
from tests.uop.proof.instances import Maker, Unfit, instances

EXAMPLES_TRIED = 40


@dataclass(slots=True)
class Proof:
    """What became of a rule."""

    rule: Rule
    fired: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.rule.name}: fired {self.fired} ({dict(self.kinds)}), {dict(self.verdicts)}"


def prove_rule(
    rule: Rule,
    *,
    attempts: int = 1500,
    wanted: int = 24,
    points: int = 1 << 16,
    z3_seconds: float = 1.0,
    seed: int = 0,
) -> Proof:
    """Instances until the rule has fired so often; each match must keep the meaning."""
    proof = Proof(rule)
    rng = random.Random(zlib.crc32(rule.name.encode()) + seed)
    for node in _candidates(rule, rng, attempts):
        after = rule.apply(node)
        if after is None:
            continue
        proof.fired += 1
        proof.kinds[_kind(node)] += 1
        verdict = check(node, after, rng, points=points, z3_seconds=z3_seconds)
        proof.verdicts[verdict.how] += 1
        if verdict.wrong is not None:
            proof.wrong.append(f"{infix(node)}  ->  {infix(after)}  [{node.dtype}]: {verdict.wrong}")
        if proof.fired >= wanted or len(proof.wrong) >= 3:
            break
    return proof


def _candidates(rule: Rule, rng: random.Random, attempts: int) -> Iterator[UOp]:
    builder = EXAMPLES.get(rule.name)
    if builder is not None:
        for _ in range(EXAMPLES_TRIED):
            try:
                yield builder(Maker(Table(), rng, rng.choice([0, 0, 1, 2])))
            except (Unfit, PlanishError):
                continue
    yield from islice(instances(rule, rng, attempts), attempts)


def _kind(node: UOp) -> str:
    deciding = node.src[0].dtype if node.op.name.startswith("CMP") else node.dtype
    return str(deciding.kind.value)
