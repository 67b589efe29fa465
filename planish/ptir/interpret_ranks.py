"""The reference interpreter on many virtual ranks in one process: the oracle for partitioned programs.

All ranks go through the program in lockstep, one instruction after the other, each with its own arrays. A collective is computed
for a whole group at once. Control flow may take ranks different ways: a collective that part of a group never reaches, where real
ranks would wait for ever, is an error that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from planish.errors import GraphError
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.interpret import Interpreter, Observer, bind_all, check_results, in_order, resolve_attrs
from planish.ptir.ops.collective import EXCHANGES, CollectiveAttrs, MeshAxes, groups_of, place_of
from planish.ptir.ops.control import CallAttrs, ScanAttrs
from planish.ptir.ops.definition import OpKey
from planish.ptir.ops.literal import Array

Ranked = list[dict[Value, Array]]
"""The values of each rank."""
Rows = list[tuple[Array, ...]]
"""Some arrays for each of the ranks that run."""
Call = Callable[[int, Rows, Sequence[int]], Rows]
"""Runs a region, given by its number, on the ranks at some places."""


def interpret_ranks(
    function: Function | Program,
    inputs: Sequence[Sequence[npt.ArrayLike]],
    program: Program | None = None,
    observer: Observer | None = None,
) -> list[tuple[Array, ...]]:
    """The results of every rank, from the inputs of every rank.

    There are as many ranks as inputs; every mesh of the program must have that many.
    """
    if isinstance(function, Program):
        program = function if program is None else program
        function = function.entry
    machine = _Ranks(program, observer, len(inputs))
    machine.check_runnable(function)
    arrays = [tuple(np.asarray(x) for x in in_order(function, own)) for own in inputs]
    results = machine.function_rows(function, arrays, list(range(len(inputs))))
    return [tuple(np.array(array) for array in row) for row in results]


def mesh_of(program: Function | Program) -> MeshAxes | None:
    """The mesh that the collectives of a program are about; None if it has none."""
    for function in program if isinstance(program, Program) else (program,):
        for inst in function.walk():
            if inst.op.key is OpKey.COLLECTIVE:
                return inst.attrs.mesh  # type: ignore[attr-defined,no-any-return]
    return None


class _Ranks(Interpreter):
    """One run; `ranks` are always those that take part, rows are in their order."""

    def __init__(self, program: Program | None, observer: Observer | None, count: int) -> None:
        super().__init__(program, observer)
        self.count = count
        self._meets: dict[Inst | Function, bool] = {}

    def meets(self, inst: Inst) -> bool:
        """Whether a collective may run in an instruction."""
        known = self._meets.get(inst)
        if known is None:
            if isinstance(inst.attrs, CallAttrs):
                callee = self.callee(inst, inst.attrs)
                known = self._meets.get(callee)
                if known is None:
                    self._meets[callee] = True  # a call of itself: to be safe
                    known = self._meets[callee] = any(self.meets(inner) for inner in callee.walk())
            else:
                known = isinstance(inst.attrs, CollectiveAttrs) or any(
                    self.meets(inner) for region in inst.regions for inner in region.walk()
                )
            self._meets[inst] = known
        return known

    def function_rows(self, function: Function, rows: Rows, ranks: list[int]) -> Rows:
        sizes: list[dict[str, int]] = [{} for _ in ranks]
        for own, row in zip(sizes, rows, strict=True):
            bind_all(function.params, row, own, f"input of {function.name}")
        return self.region_rows(function.body, rows, [{} for _ in ranks], sizes, ranks)

    def region_rows(
        self, region: Region, rows: Rows, values: Ranked, sizes: list[dict[str, int]], ranks: list[int]
    ) -> Rows:
        for own, row in zip(values, rows, strict=True):
            own.update(zip(region.args, row, strict=True))
        for inst in region:
            outputs = (
                self.inst_rows(inst, values, sizes, ranks)
                if self.meets(inst)
                else [self.run_inst(inst, own, bound) for own, bound in zip(values, sizes, strict=True)]
            )
            for own, row in zip(values, outputs, strict=True):
                own.update(zip(inst.results, row, strict=True))
        return [tuple([own[value] for value in region.results]) for own in values]

    def inst_rows(self, inst: Inst, values: Ranked, sizes: list[dict[str, int]], ranks: list[int]) -> Rows:
        """An instruction in which ranks meet."""
        rows: Rows = [tuple([own[value] for value in inst.operands]) for own in values]

        def call(index: int, rows: Rows, places: Sequence[int]) -> Rows:
            """Run a region on the ranks at some places, if any go there."""
            if not places:
                return []
            region = inst.regions[index]
            inner = [dict(sizes[place]) for place in places]
            for own, row in zip(inner, rows, strict=True):
                bind_all(region.args, row, own, f"argument of a region of {inst.op.name}")
            return self.region_rows(
                region, rows, [values[place] for place in places], inner, [ranks[place] for place in places]
            )

        everyone = range(len(ranks))
        if isinstance(inst.attrs, CollectiveAttrs):
            return self.collective(inst, inst.attrs, rows, sizes, ranks)
        if isinstance(inst.attrs, CallAttrs):
            outputs = self.run_call_rows(self.callee(inst, inst.attrs), rows, ranks)
        elif inst.op.key is OpKey.COND:
            outputs = list(rows)
            for index in (0, 1):
                chosen = [place for place in everyone if bool(rows[place][0]) is (index == 0)]
                for place, row in zip(chosen, call(index, [()] * len(chosen), chosen), strict=True):
                    outputs[place] = row
        elif inst.op.key is OpKey.WHILE:
            outputs, running = list(rows), list(everyone)
            while running:
                again = call(0, [outputs[place] for place in running], running)
                running = [place for place, row in zip(running, again, strict=True) if bool(row[0])]
                for place, row in zip(running, call(1, [outputs[p] for p in running], running), strict=True):
                    outputs[place] = row
        else:
            outputs = self.scan_rows(inst, rows, sizes, call)
        for row, own in zip(outputs, sizes, strict=True):
            check_results(inst, row, own)
        return outputs

    def run_call_rows(self, callee: Function, rows: Rows, ranks: list[int]) -> Rows:
        with self.deeper(callee):
            return self.function_rows(callee, rows, ranks)

    def scan_rows(self, inst: Inst, rows: Rows, sizes: list[dict[str, int]], call: Call) -> Rows:
        """Step by step; sizes of sequences are those of the first rank, as all have the same."""
        attrs = cast("ScanAttrs", resolve_attrs(inst.attrs, sizes[0]))
        length, count, everyone = cast("int", attrs.length), attrs.num_carries, range(len(rows))
        carried = [row[:count] for row in rows]
        stacks: list[list[Array]] = [
            [np.empty(v.type.substitute(own).shape, v.type.dtype.numpy) for v in inst.results[count:]]
            for own in sizes
        ]
        for step in range(length):
            position = length - 1 - step if attrs.reverse else step
            given = [
                (*carry, *[np.asarray(sequence[position]) for sequence in row[count:]])
                for carry, row in zip(carried, rows, strict=True)
            ]
            outputs = call(0, given, everyone)
            carried = [row[:count] for row in outputs]
            for row, stack in zip(outputs, stacks, strict=True):
                for target, output in zip(stack, row[count:], strict=True):
                    target[position] = output
        return [(*carry, *stack) for carry, stack in zip(carried, stacks, strict=True)]

    def collective(
        self, inst: Inst, attrs: CollectiveAttrs, rows: Rows, sizes: list[dict[str, int]], ranks: list[int]
    ) -> Rows:
        total = math.prod([size for _, size in attrs.mesh])
        if total != self.count:
            raise GraphError(
                f"the mesh has {total} ranks and {self.count} run", op=inst.op.name, location=inst.loc
            )
        exchange = EXCHANGES.get(inst.op.name)
        if exchange is None:
            by_rank: dict[int, tuple[Array, ...]] = {
                rank: (np.array(place_of(attrs.mesh, attrs.over, rank), np.int64),) for rank in ranks
            }
        else:
            by_rank = {}
            given = {rank: row[0] for rank, row in zip(ranks, rows, strict=True)}
            for group in groups_of(attrs.mesh, attrs.over):
                there = [rank for rank in group if rank in given]
                if there and len(there) < len(group):
                    missing = ", ".join(str(rank) for rank in group if rank not in given)
                    raise GraphError(
                        f"rank {missing} never reaches this {inst.op.name} of ranks {', '.join(map(str, group))}",
                        op=inst.op.name,
                        location=inst.loc,
                        remedy="what decides whether ranks get there must be the same on all of a group",
                    )
                if there:
                    results = exchange([given[rank] for rank in group], attrs)
                    by_rank.update({rank: (array,) for rank, array in zip(group, results, strict=True)})
        outputs = [by_rank[rank] for rank in ranks]
        for row, result, own in zip(rows, outputs, sizes, strict=True):
            check_results(inst, result, own)
            if self.observer is not None:
                self.observer(inst, row, result)
        return outputs
