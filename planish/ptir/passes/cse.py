"""`cse`: of several equal computations, the first stays.

Instructions are equal when op, operands, attributes and regions are; operands of commutative ops in either
order, attributes to the type and the sign of a zero (`exact`). The one that stays keeps the lines of all (up to
`locations.MAX_LOCATIONS`) as its location. Regions are compared up to the names of what they define. An instruction in
a region may be replaced by an equal one around it, never by one in a sibling region. Ops that are not pure, or whose results are not
determined by their operands, are left alone: random ops take their key as an operand, so equal keys are
equal operands.
"""

from __future__ import annotations

from typing import ClassVar, Final, TypeAlias

from planish.ptir.exact import exact_key
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.ops.definition import NO_ATTRS, RETURN, OpDef
from planish.ptir.passes.definition import DEFAULT_CONTEXT, PassContext, PassResult, over_functions, register
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.records import dataclass

Key: TypeAlias = tuple[object, ...]
Table: TypeAlias = dict["Key | int", Inst]
_NEW: Final[Table] = {}
_ID_BITS: Final = 32  # more values than that do not fit in memory


@register
@dataclass(frozen=True, slots=True)
class CSEPass:
    """Share equal computations."""

    name: ClassVar[str] = "cse"

    def run(self, program: Program, context: PassContext = DEFAULT_CONTEXT) -> PassResult:
        return over_functions(program, lambda each: share_equal(each, context), "merged", settled=True)


def share_equal(function: Function, context: PassContext = DEFAULT_CONTEXT) -> int:
    """Merge equal instructions of one function; gives how many were removed."""
    rw = ProgramRewriter(function, context.listener, pattern="cse")
    known: dict[OpDef, Table | None] = {}  # None: an op that is never shared
    merged = 0
    # A region in progress: where to go on, and what it added to `known`, to be forgotten when it is left.
    stack: list[tuple[Inst, list[tuple[Table, Key | int]]]] = [(function.body.end.next, [])]
    entered: set[Region] = set()
    while stack:
        inst, added = stack.pop()
        # Only what a nested region defines has to be forgotten: at the outermost level nothing is recorded.
        nested = bool(stack)
        descended = False
        while inst.op is not RETURN:
            op = inst.op
            following = inst.next
            if inst.regions:
                if inst.regions[0] not in entered:
                    # Come back to this instruction once its regions are done.
                    stack.append((inst, added))
                    stack += [(region.end.next, []) for region in inst.regions]
                    entered.update(inst.regions)
                    descended = True
                    break
                shapes = tuple([_signature(region) for region in inst.regions])
                key: Key | int = (inst.operands, exact_key(inst.attrs), shapes)
            elif inst.attrs is NO_ATTRS and len(inst.operands) == 2:
                # The common case is one number: in a large function a tuple of objects is mostly cache misses.
                lhs, rhs = inst.operands
                first, second = lhs.id, rhs.id
                key = (
                    second << _ID_BITS | first
                    if op.commutative and first > second
                    else first << _ID_BITS | second
                )
            else:
                key = (exact_key(inst.attrs), *inst.operands)
            table = known.get(op, _NEW)
            if table is _NEW:
                table = known[op] = {} if op.pure and op.deterministic else None
            if table is not None:
                earlier = table.setdefault(key, inst)
                if earlier is not inst:
                    rw.merge(inst, earlier)
                    merged += 1
                elif nested:
                    added.append((table, key))
            inst = following
        if not descended:
            for table, key in added:
                del table[key]
    rw._maybe_dead.clear()
    return merged


def _signature(region: Region) -> Key:
    """What a region computes, with its own values numbered by position instead of named."""
    numbers: dict[Value, int] = {}
    parts: list[object] = [region.arg_types]
    pending: list[Region] = [region]
    # Nested regions are flattened in order; ends separate them.
    while pending:
        current = pending.pop()
        for value in current.args:
            numbers[value] = len(numbers)
        for inst in [*current, current.end]:
            operands = tuple([numbers.get(value, value) for value in inst.operands])
            types = tuple([value.type for value in inst.results])
            parts.append((inst.op, operands, exact_key(inst.attrs), types))
            for value in inst.results:
                numbers[value] = len(numbers)
            parts += [inner.arg_types for inner in inst.regions]
            pending += inst.regions
    return tuple(parts)
