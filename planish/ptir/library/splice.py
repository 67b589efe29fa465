"""A graph that builds in the middle of an existing function: the DSL for passes.

Library functions know the DSL alone. Handed values of a `Splice`, they build right before the instruction it was
made for, through the rewriter, so that listeners hear of it and locations come from the instruction replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from planish.errors import InternalError
from planish.ptir.builder import Graph
from planish.ptir.function import Inst, Region
from planish.ptir.handle import ElementwiseMethods
from planish.ptir.ops.definition import Attrs, OpDef
from planish.ptir.rewrite.rewriter import ProgramRewriter


class Splice(Graph):
    """Builds before the instruction `at`."""

    __slots__ = ("at", "rewriter")

    at: Inst
    rewriter: ProgramRewriter

    def __init__(self, rewriter: ProgramRewriter, at: Inst) -> None:
        super().__init__(function=rewriter.function)
        if at.parent is None:
            raise InternalError(f"nothing can be built before {at!r}, which is erased")
        self.at = at
        self.rewriter = rewriter
        self._regions = [at.parent]

    def _append(
        self, op: OpDef, operands: Sequence[ElementwiseMethods], attrs: Attrs, regions: Sequence[Region]
    ) -> Inst:
        values = [operand.value for operand in operands]
        if len(self._regions) > 1:
            # A region under construction: nobody knows it yet, so there is nobody to tell.
            inst = self.region.append(op, values, attrs, regions, loc=self.at.loc)
            inst.made_by = self.rewriter.pattern
            return inst
        inst = self.rewriter.insert_before(self.at, op, values, attrs, regions, loc=self.at.loc)
        if self.rewriter.listener is not None:
            for region in regions:
                for inner in region.walk():
                    self.rewriter.listener.inserted(inner)
        return inst

    def _check_visible(self, op: str, operand: ElementwiseMethods) -> None:
        """Operands come from the instruction replaced, which sees what stands before it."""
