"""Executes a kernel: the graph after any stage, or the list of lines that the last stages make.

    after = interpret(sink, {0: out, 1: a, 2: b}, {"n": 7})        buffers by slot, variables by name

What is executed is what the nodes say, by definition: views are followed to their memory by numbers, REDUCE and SCAN
combine in order, BUFFERIZE is a table of values, registers and LOCAL memory are written and read, threads of a block run
in lock step from barrier to barrier. Ranges are NumPy axes where that gives the same (`loops.py` decides); should two
positions of such an axis get in each other's way, the kernel is run again in order, which is its meaning.

A mistake in the kernel is an `ExecutionError` that names the line and the position: an access outside its buffer or view, a
read of what nobody has written, one place that gets two values in no order, a thread that does not wait for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from planish.errors import PlanishError
from planish.uop import arithmetic
from planish.uop.evaluate import RULES
from planish.uop.hardware_index import index_of
from planish.uop.machine.loops import is_rank_axis, is_thread, make_plan
from planish.uop.machine.places import VIEWS
from planish.uop.machine.state import Array, Arrays, ExecutionError, InTheWay
from planish.uop.machine.tiles import Tiles
from planish.uop.node import UOp
from planish.uop.ops import ALU, CLUSTER, DEFINES, MOVEMENT, Ops

_NO_VARIABLES: Final[Mapping[str, int]] = {}
_LONGEST: Final = 1 << 31
"""Positions of an axis, each of which takes memory."""
_SILENT: Final = (
    DEFINES | MOVEMENT | {Ops.SINK, Ops.GROUP, Ops.END, Ops.CONTIGUOUS, Ops.IF, Ops.ENDIF, Ops.BUFFER}
)
"""What does nothing by itself: effects that happen below them, and memory, which INDEX looks at."""


def interpret(
    kernel: UOp | Sequence[UOp],
    buffers: Arrays,
    variables: Mapping[str, int] = _NO_VARIABLES,
    *,
    undefined: Iterable[int] = (),
) -> dict[int, Array]:
    """The buffers after a kernel has run on copies of them.

    `buffers` are flat arrays by slot; what those in `undefined` hold at the start may not be read.
    """
    try:
        return _interpreted(kernel, buffers, variables, frozenset(undefined))
    except (TypeError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        if isinstance(error, PlanishError):
            raise
        # a graph that breaks the laws of its phase can mean anything: what NumPy makes of it is no answer
        raise ExecutionError(
            f"this kernel cannot be executed: {type(error).__name__}: {error}", remedy="check it by its spec"
        ) from error


def _interpreted(
    kernel: UOp | Sequence[UOp], buffers: Arrays, variables: Mapping[str, int], unknown: frozenset[int]
) -> dict[int, Array]:
    nodes = kernel.toposort() if isinstance(kernel, UOp) else list(kernel)
    root = kernel if isinstance(kernel, UOp) else None
    with np.errstate(all="ignore"):
        if root is not None:
            try:
                return _Machine(nodes, root, make_plan(nodes), buffers, variables, unknown).run()
            except InTheWay:
                pass  # positions that were to run at once have an order
        plan = make_plan(nodes, in_order=True, is_list=root is None)
        return _Machine(nodes, root, plan, buffers, variables, unknown, in_order=True).run()


class _Machine(Tiles):
    """One run of one kernel, from the first node to the last."""

    __slots__ = ()

    def visit(self, node: UOp) -> None:
        op = node.op
        if self.unfinished:
            self._check_finished(node)
        if op is Ops.INDEX:
            self._element(node)
        elif op is Ops.LOAD:
            self._load(node)
        elif op is Ops.STORE:
            self._store(node)
        elif op is Ops.RANGE or op is Ops.SPECIAL:
            self._counter(node)
        elif op is Ops.BARRIER:
            if any(gate.size > 1 and not gate.all() for gate in self.gates):
                self._fail(node, "crash", "not every thread of the block comes to this barrier")
            self.time += 1
            if node.arg == CLUSTER:
                self.cluster_time = self.time
        elif op is Ops.COMMIT:
            self.flights.append([])
        elif op is Ops.WAIT:
            self._land(node)
        elif op is Ops.WMMA:
            self.values[node] = self._tile(node)
        elif op is Ops.FETCH:
            self.values[node] = self.values[node.src[0]]
        elif op is Ops.FINISH:
            self._retire(0)
            self.values[node] = self.values[node.src[0]]
        elif op is Ops.COMBINE:
            self.values[node] = self._combine(node)
        elif op is Ops.EXCHANGE:
            self.values[node] = self._exchange(node)
        elif op is Ops.BUFFERIZE:
            self._stage(node)
        elif op in _SILENT or node.dtype.is_pointer or node.dtype.name == "void":
            pass
        elif op in VIEWS and node.src and node.src[0] not in self.values:
            pass  # memory
        elif op is Ops.UNROLL and node.src[0] in self.place and node.src[0] not in self.values:
            self._unrolled_place(node)
        elif op in ALU or op in RULES or node in self.env:
            super().visit(node)
        else:
            self._fail(node, "crash", f"{op.name} cannot be executed")

    def _counter(self, node: UOp) -> None:
        """A range or special index as an axis."""
        bound = self.values[node.src[0]]
        size = max(int(bound.max()), 0) if bound.size else 0
        if size > _LONGEST:
            self._fail(node, "crash", f"{size} positions are more than a run can take")
        dims = [1] * len(self.axes)
        dims[self.axes[node]] = size
        counted = np.arange(size, dtype=arithmetic.carrier(node.dtype)).reshape(dims)
        self.values[node] = counted
        self._mask(node, counted, bound)

    def _mask(self, node: UOp, value: Array, bound: Array) -> None:
        self.masks.pop(node, None)
        if bound.size > 1:
            self.masks[node] = np.asarray(value < bound)

    # -- order -------------------------------------------------------------------------------------------------------

    def run(self) -> dict[int, Array]:
        """Run the kernel; the buffers afterwards."""
        self._begin([node for node in self.nodes if node.op is Ops.SPECIAL])
        if self.root is not None:
            self._run_nodes(self.plan.top)
        else:
            self._run_lines()
        return self.after

    def _begin(self, specials: Sequence[UOp]) -> None:
        """What every thread knows from the start: its place in the grid."""
        for special in specials:
            for node in special.toposort():
                self.visit(node)
        # lidx0 runs fastest: neighbouring threads form a group
        inner = sorted(
            (n for n in specials if is_thread(n)),
            key=lambda n: index_of(n).axis,
            reverse=True,
        )
        inner = [*(n for n in specials if inner and is_rank_axis(n)), *inner]
        if inner:
            number: Array = np.zeros((), np.int64)
            for special in inner:
                number = number * self.values[special].size + self.values[special]
            self.threads = np.asarray(number, np.int64)

    def _run_nodes(self, nodes: Sequence[UOp]) -> None:
        for node in nodes:
            nest = self.plan.nests.get(node)
            if nest is None:
                self.visit(node)
            else:
                self._run_nest(node, 0)

    def _run_nest(self, end: UOp, level: int) -> None:
        nest = self.plan.nests[end]
        if level == len(nest.ranges):
            return
        r = nest.ranges[level]
        bound = self.values[r.src[0]]
        size = max(int(bound.max()), 0) if bound.size else 0
        for number in range(size):
            self._bind(r, number, bound)
            self._run_nodes(nest.bodies[level])
            self._run_nest(end, level + 1)

    def _bind(self, r: UOp, number: int, bound: Array) -> None:
        self.values[r] = np.asarray(number, arithmetic.carrier(r.dtype))
        self._mask(r, self.values[r], bound)

    def _run_lines(self) -> None:
        lines = self.nodes
        ends = {line.src[-1]: number for number, line in enumerate(lines) if line.op in {Ops.END, Ops.ENDIF}}
        starts = {line: number for number, line in enumerate(lines) if line.op is Ops.RANGE}
        number = 0
        counts: dict[UOp, int] = {}
        while number < len(lines):
            line = lines[number]
            number += 1
            if line in self.plan.loops:
                bound = self.values[line.src[0]]
                counts[line] = 0
                if not bound.size or int(bound.max()) <= 0:
                    number = ends[line] + 1
                    continue
                self._bind(line, 0, bound)
            elif line.op is Ops.END and line.src[-1] in counts:
                header = line.src[-1]
                counts[header] += 1
                bound = self.values[header.src[0]]
                if counts[header] < int(bound.max()):
                    self._bind(header, counts[header], bound)
                    number = starts[header] + 1
                else:
                    self.masks.pop(header, None)
            elif line.op is Ops.IF:
                self.gates.append(self.values[line.src[0]])
                if not self.gates[-1].any():
                    self.gates.pop()
                    number = ends[line] + 1
            elif line.op is Ops.ENDIF:
                self.gates.pop()
            else:
                self.visit(line)


__all__ = ["ExecutionError", "interpret"]
