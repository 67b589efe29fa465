"""The first stage, and in it the first rule, after which a kernel does something else.

The kernel is executed as it was scheduled and after every stage that changed it, on the same memory. Where the results part,
the stage is run again on a copy of what it was given, with fewer and fewer of its rule applications, until the one is found
that makes the difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from planish.config import settings
from planish.errors import PlanishError
from planish.stages import pipeline
from planish.stages.boundaries import BoundaryError
from planish.stages.pipeline import Form, Machine, PipelineStage, steps
from planish.stages.symptoms import SCHEDULE, Kind
from planish.uop.infix import infix
from planish.uop.interpret import ExecutionError, interpret
from planish.uop.machine.loops import Effects, memory_below
from planish.uop.node import Table, UOp
from planish.uop.ops import Ops
from planish.uop.text import copy_nodes, in_order
from planish.uop.trial import Applied, trial

Array = NDArray[Any]
Memory = Mapping[int, Array]
_SHOWN: Final = 300
"""Characters of an expression that are shown."""


class RuleFound(NamedTuple):
    """The rule application that makes the difference, in words."""

    name: str
    number: int
    total: int
    before: str
    after: str
    since: int
    """The last number before it whose result could be executed."""


class Finding(NamedTuple):
    """Where a kernel goes wrong: after which stage (0: as scheduled), how, and by which rule."""

    stage: int
    name: str
    kind: Kind
    what: str
    rule: RuleFound | None = None


def outputs_of(kernel: UOp) -> frozenset[int]:
    """The slots that a kernel writes and does not read."""
    effects = Effects(kernel.toposort())
    written = {memory_below(store.src[0]) for store in effects.stores}
    outputs = written - {memory_below(place) for place in effects.read}
    return frozenset(cast("int", memory.arg) for memory in outputs if memory.op is Ops.DEFINE_GLOBAL)


def written_by(kernel: UOp) -> frozenset[int]:
    """The slots that a kernel writes."""
    places = [memory_below(store.src[0]) for store in Effects(kernel.toposort()).stores]
    return frozenset(cast("int", memory.arg) for memory in places if memory.op is Ops.DEFINE_GLOBAL)


def difference(expected: Memory, actual: Memory) -> str | None:
    """What differs between two memories, if anything does beyond rounding in another order."""
    for slot, want in expected.items():
        have = actual[slot]
        wrong = ~close(want, have)
        if wrong.any():
            at = int(np.argmax(wrong))
            return (
                f"buffer {slot}: {int(wrong.sum())} of {want.size} elements differ, "
                f"the first at {at}: {have.reshape(-1)[at]}, expected {want.reshape(-1)[at]}"
            )
    return None


def close(want: Array, have: Array) -> NDArray[np.bool_]:
    """Which elements are the same: exactly, or for floats as near as sums in another order are."""
    same = np.asarray(want == have) | (np.not_equal(want, want) & np.not_equal(have, have))
    if same.all() or want.dtype.kind in "biu" or want.dtype.itemsize == 0:
        return np.asarray(same, np.bool_)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    x, y = want.astype(wide), have.astype(wide)
    one = np.ones((), want.dtype)
    eps = max(float(np.finfo(want.dtype).eps) if want.dtype.kind in "fc" else _step_above(one), 1e-300)
    tolerance = min(1000 * eps, eps**0.5)
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= tolerance * (np.abs(x) + scale))
    return np.asarray(same | near, np.bool_)


def _step_above(one: Array) -> float:
    """The distance from 1 to the next value of a dtype that NumPy knows little of."""
    step = 1.0
    while (one + np.asarray(step / 2).astype(one.dtype)) != one:
        step /= 2
    return step


def first_wrong(
    kernel: UOp,
    machine: Machine,
    memory: Memory,
    variables: Mapping[str, int],
    *,
    rules: bool = False,
    stages: bool = True,
) -> tuple[dict[int, Array] | None, Finding | None]:
    """What the kernel makes of memory as it was scheduled, and the first stage after which that changes (if asked for)."""
    undefined = outputs_of(kernel)
    try:
        expected = interpret(kernel, memory, variables, undefined=undefined)
    except ExecutionError as error:
        return None, Finding(SCHEDULE, "scheduling", error.fault, str(error))
    if not stages:
        return expected, None
    order = pipeline.stages()
    position = 0
    before: Form = kernel
    try:
        with settings(check="spec"):
            for step in steps(kernel, machine):
                position += 1
                if step.changed:
                    verdict = _judged(step.form, memory, variables, undefined, expected)
                    if verdict is not None:
                        kind, what = verdict
                        rule = None
                        if rules:
                            rule = _first_rule(
                                before, step.stage, machine, memory, variables, undefined, expected, kind
                            )
                        return expected, Finding(step.stage.number, step.stage.name, kind, what, rule)
                before = step.form
    except BoundaryError as error:
        stage = order[position]
        return expected, Finding(stage.number, stage.name, "illegal", str(error))
    except Exception as error:  # noqa: BLE001 - whatever a bug raises
        stage = order[min(position, len(order) - 1)]
        return expected, Finding(stage.number, stage.name, "crash", f"{type(error).__name__}: {error}")
    return expected, None


def _judged(
    form: Form, memory: Memory, variables: Mapping[str, int], undefined: frozenset[int], expected: Memory
) -> tuple[Kind, str] | None:
    try:
        actual = interpret(form, memory, variables, undefined=undefined)
    except ExecutionError as error:
        return error.fault, str(error)
    what = difference(expected, actual)
    return None if what is None else ("values", what)


# -- rules ---------------------------------------------------------------------------------------------------------


def _copied(form: Form, table: Table) -> Form:
    """The same kernel in another table."""
    nodes = in_order(form) if isinstance(form, UOp) else form
    copies = copy_nodes(nodes, table)
    return copies[form] if isinstance(form, UOp) else [copies[line] for line in form]


def _first_rule(
    before: Form,
    stage: PipelineStage,
    machine: Machine,
    memory: Memory,
    variables: Mapping[str, int],
    undefined: frozenset[int],
    expected: Memory,
    kind: Kind,
) -> RuleFound | None:
    """Bisects over the number of rules that a stage may apply; None if it errs without any."""
    last: Applied | None = None

    def is_bad(limit: int | None) -> tuple[bool | None, int, tuple[str, str, str]]:
        """Whether that many rules give a wrong result (None: one that cannot be executed), and what the last one was."""
        nonlocal last
        with Table() as table:
            given = _copied(before, table)
            with trial(limit) as trying:
                try:
                    form: Form | None = stage.run(given, machine)
                except PlanishError:
                    form = None
            last = trying.last
            shown = ("", "", "")
            if last is not None:
                shown = (last.rule.name, infix(last.before)[:_SHOWN], infix(last.after)[:_SHOWN])
            if form is None:
                return None, trying.count, shown
            try:
                verdict = _judged(form, memory, variables, undefined, expected)
            except PlanishError:
                return None, trying.count, shown
            # half of a stage may be no kernel at all: only the very mistake of the whole counts
            bad = False if verdict is None else True if verdict[0] == kind else None
            return bad, trying.count, shown

    _, total, _ = is_bad(None)
    if not total or is_bad(0)[0]:
        return None
    good, bad = 0, total
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle)[0]:
            bad = middle
        else:
            good = middle
    _, _, (name, was, became) = is_bad(bad)
    while good and is_bad(good)[0] is None:
        good -= 1
    return RuleFound(name, bad, total, was, became, good)


__all__ = ["Finding", "RuleFound", "close", "difference", "first_wrong", "outputs_of", "written_by"]
