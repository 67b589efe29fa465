"""What a mistake in a stage looks like, as one table: symptom, stages, what to check.

`planish bisect` prints the row that belongs to what it found; docs/debugging.md shows them all.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["values", "crash", "illegal", "outside", "unwritten", "race", "loops", "vectors", "slow"]

SCHEDULE: Final = 0
LLIR: Final = 23
CODE: Final = 24
PLACES: Final = {SCHEDULE: "scheduling", LLIR: "LLIR", CODE: "code generation"}
"""What is not a stage, but can be wrong as well."""


class Symptom(NamedTuple):
    """One row."""

    symptom: str
    kind: Kind
    stages: tuple[int, ...]
    check: str


_WRONG: Final = "wrong values"

# fmt: off
SYMPTOMS: Final = (
    Symptom(_WRONG, "values", (SCHEDULE,), "the lowering of the op, the choice of what gets memory, the indices pushed through movement ops"),
    Symptom(_WRONG, "values", (1,), "the order of PERMUTE, the offsets of PAD and SHRINK, whether the condition of a PAD reaches the index"),
    Symptom(_WRONG, "values", (2,), "whether a loop was counted away that must run: empty ranges, conditions on two ranges, float terms that round"),
    Symptom(_WRONG, "values", (3, 5), "whether splitting or merging ranges lost a constraint: divisibility, the bounds of what stands for the old range, ranges that one REDUCE closes and another does not"),
    Symptom(_WRONG, "values", (4, 8, 16), "the rule named by --rules: its condition, wrapping of machine integers, floor division of negatives, NaN and -0.0, a gate moved into an index that does not guard all of it"),
    Symptom(_WRONG, "values", (6,), "the points at which a store was cut, and what each part knows about the condition"),
    Symptom(_WRONG, "values", (7,), "the action: what stands for the old index, the gate of a padded axis, the identity of a padded reduction"),
    Symptom(_WRONG, "values", (9,), "the order of lanes over several unrolled axes, how a narrower source is widened, which lanes a reduction takes together"),
    Symptom(_WRONG, "values", (10, 12), "the index of a LOCAL buffer, which ranges it is private to, the sizes of grid and block"),
    Symptom(_WRONG, "values", (11,), "the identity that an accumulator starts from, that it starts once per outer iteration, lanes that are combined before the loop"),
    Symptom(_WRONG, "values", (13, 14), "which lanes of a wide access go where, the fold lengths of the target, accesses that were joined under different gates"),
    Symptom(_WRONG, "values", (15,), "the width of every intermediate: its own bounds, not those of the result"),
    Symptom(_WRONG, "values", (17, 18, 19), "the expansion of the function or division, supported_ops and matchers of the target, contraction to MULACC"),
    Symptom(_WRONG, "values", (20, 21, 22), "which loop nests in which, the order of siblings, priorities, an IF around more than its store"),
    Symptom(_WRONG, "values", (LLIR, CODE), "the table entry of the instruction; conversions, NaN, division, vectors of bools"),
    Symptom("a stage raises", "crash", (SCHEDULE, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, LLIR, CODE), "the traceback (-v); 7, 11 and 12 refuse what a machine cannot do and say so, anything else is a mistake in the stage"),
    Symptom("the spec is broken", "illegal", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22), "the law that the error names: what the stage promises under \"holds afterwards\""),
    Symptom("memory is accessed outside its buffer", "outside", (SCHEDULE, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, LLIR, CODE), "gates: where one was dropped, moved past what it guards, or joined with another; then index arithmetic"),
    Symptom("something is read before it is written", "unwritten", (SCHEDULE, 10, 11, 12, 14, 19, 20, 21, 22, LLIR), "AFTER: what the memory is observed after; the start of the accumulator"),
    Symptom("one place gets two values", "race", (SCHEDULE, 3, 5, 6, 7, 9, 10, 12, 14, 20, 21, 22, LLIR), "two values of an axis that reach one index; a BARRIER between writing and reading LOCAL memory; ENDs that close too late"),
    Symptom("a loop runs too often or not often enough", "loops", (3, 5, 7, 12), "split and merged sizes, `pad_to`, dimension limits of the grid"),
    Symptom("no vectors where they are expected", "vectors", (7, 9, 14), "whether an axis was UPCAST, whether its index is base + constant, fold lengths and alignment of the target"),
    Symptom("slow code", "slow", (7, 9, 14, 18, 21), "the chosen actions, lanes split into scalars, accesses that are not joined, divisions that stayed, loads inside of loops that do not need them"),
)
# fmt: on


def row_for(stage: int, kind: Kind) -> Symptom:
    """The row that belongs to a mistake of this kind in this stage."""
    for wanted in (kind, "values"):
        for row in SYMPTOMS:
            if row.kind == wanted and stage in row.stages:
                return row
    raise KeyError(stage)


def _places(stages: tuple[int, ...]) -> str:
    """`1–4, 7`, and by name what is no stage."""
    numbers = [stage for stage in stages if stage not in PLACES]
    parts: list[str] = []
    for number in numbers:
        if parts and numbers[numbers.index(number) - 1] == number - 1:
            parts[-1] = f"{parts[-1].split('–')[0]}–{number}"
        else:
            parts.append(str(number))
    before = [PLACES[stage] for stage in stages if stage == SCHEDULE]
    return ", ".join([*before, *parts, *(PLACES[s] for s in stages if s in {LLIR, CODE})])


def row_text(row: Symptom) -> str:
    """A row for the terminal."""
    return f"{row.symptom} | {_places(row.stages)} | {row.check}"


def table() -> str:
    """All rows as Markdown."""
    lines = ["| symptom | stages | what to check |", "|---|---|---|"]
    lines += [f"| {row.symptom} | {_places(row.stages)} | {row.check} |" for row in SYMPTOMS]
    return "\n".join(lines)
