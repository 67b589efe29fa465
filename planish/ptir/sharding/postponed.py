"""Sums that a loop adds up over ranks in every step are added up behind it, once.

    for …: total = total + all_reduce(x)   ->   for …: part = part + x;  total = total + all_reduce(part)

So do gradients of small batches, one after the other, whose rows are cut over ranks: each rank adds up its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planish.ptir import ops
from planish.ptir.function import Inst, Region, Value
from planish.ptir.library.splice import Splice
from planish.ptir.ops.collective import AllReduceAttrs, all_reduce
from planish.ptir.rewrite.rewriter import ProgramRewriter

_MOVES: Final = (ops.reshape, ops.transpose)
"""What may stand between an all-reduce and the sum: elements go elsewhere, and are what they were."""


def postpone_sums(rewriter: ProgramRewriter) -> int:
    """All loops of a function, inner ones first; gives how many sums were put off."""
    loops = [inst for inst in rewriter.function.walk() if isinstance(inst.attrs, ops.ScanAttrs)]
    return sum(_postponed(rewriter, loop) for loop in reversed(loops))


def _postponed(rewriter: ProgramRewriter, loop: Inst) -> int:
    sums = list(_sums(loop))
    if not sums:
        return 0
    before, behind = Splice(rewriter, loop), Splice(rewriter, loop.next)
    for number, reduction in sums:
        given, result = loop.operands[number], loop.results[number]
        users = list(dict.fromkeys(result.users))
        rewriter.replace_op(reduction, reduction.operands[0])
        rewriter.set_operand(loop, number, before.full(given.type.dims, 0, given.type.dtype).value)
        total = behind.emit(all_reduce, (behind.wrap(result),), reduction.attrs)
        if given.literal is None or not given.literal.splat or given.literal.item != 0:
            total = behind.wrap(given).add(total)
        for user in users:
            rewriter.set_operands(user, [total.value if v is result else v for v in user.operands])
    return len(sums)


def _sums(loop: Inst) -> Iterator[tuple[int, Inst]]:
    """The numbers of carried values that only such sums are about, and the all-reduce of each."""
    body = loop.regions[0]
    for number in range(loop.attrs.num_carries):  # type: ignore[attr-defined]
        carried, updated = body.args[number], body.results[number]
        total = updated.def_inst
        if (
            total is None
            or total.op is not ops.add
            or total.parent is not body
            or carried not in total.operands
        ):
            continue
        left, right = total.operands
        if left is right or not _used_by(carried, total) or not _used_by(updated, body.end):
            continue
        if body.results.count(updated) > 1 or not loop.results[number].users:
            continue
        reduction = _reduction(right if left is carried else left, total, body)
        if reduction is not None:
            yield number, reduction


def _reduction(value: Value, user: Inst, body: Region) -> Inst | None:
    """The all-reduce that a value is, but for where its elements lie."""
    inst = value.def_inst
    while inst is not None and inst.parent is body and _used_by(value, user):
        if inst.op is all_reduce:
            attrs = inst.attrs
            return inst if isinstance(attrs, AllReduceAttrs) and attrs.kind == "sum" else None
        if inst.op not in _MOVES:
            return None
        value, user = inst.operands[0], inst
        inst = value.def_inst
    return None


def _used_by(value: Value, user: Inst) -> bool:
    """Whether an instruction, and no other, uses a value."""
    return all(each is user for each in value.users)
