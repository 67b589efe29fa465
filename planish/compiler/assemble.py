"""A structured plan made flat code: blocks become jumps, sizes become integers in slots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish.errors import InternalError, PlanishError, ShapeError
from planish.ptir.binding import learn
from planish.ptir.dims import Dim, DimLike, Symbol
from planish.ptir.interpret import resolve_attrs
from planish.ptir.ops.control import CustomCallAttrs, find_custom_call
from planish.ptir.printer import symbols_in
from planish.ptir.types import TensorType
from planish.records import dataclass
from planish.runtime import plan as flat
from planish.schedule import plan as planned

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Assembled:
    """Flat code, and in which slots it wants the sizes that the arguments bring."""

    code: flat.Code
    sizes: tuple[tuple[str, int], ...]
    results: tuple[tuple[int, ...], ...]
    """The slots of the dims of each result, in the end."""


class _Assembler:
    """The code in the making."""

    def __init__(
        self,
        plan: planned.Plan,
        variables: Sequence[Sequence[str]],
        known: Sequence[str],
        ready: Sequence[planned.ReadyKernel | None],
    ) -> None:
        self.plan = plan
        self.needed = variables
        self.ready = ready
        self.known = set(known)
        """Sizes that have a value here."""
        self.early = frozenset(known)
        """Sizes that have one from the start, and always the same."""
        self.slots: list[int] = []
        self.variables: dict[str, int] = {}
        self.constants: dict[int, int] = {}
        self.computed: dict[Dim, int] = {}
        self.prologue: list[flat.Instruction] = []
        self.body: list[flat.Instruction] = []
        self.sites: list[int] = []
        self.under_way: set[DimLike] = set()
        """Tickets of collectives that are not waited for yet."""

    # -- integers --------------------------------------------------------------------------------------------------

    def slot(self, value: int = 0) -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def variable(self, name: str) -> int:
        slot = self.variables.get(name)
        if slot is None:
            slot = self.variables[name] = self.slot()
        return slot

    def constant(self, value: int) -> int:
        slot = self.constants.get(value)
        if slot is None:
            slot = self.constants[value] = self.slot(value)
        return slot

    def size(self, dim: DimLike) -> int:
        """The slot of a size. One that the arguments decide is computed once, others where they are needed."""
        if isinstance(dim, int):
            return self.constant(dim)
        if dim.name is not None:
            return self.variable(dim.name)
        if not all(symbol.name in self.early for symbol in dim.symbols()):
            return self.compute(dim, self.body)
        slot = self.computed.get(dim)
        if slot is None:
            slot = self.computed[dim] = self.compute(dim, self.prologue)
        return slot

    def compute(self, dim: Dim, into: list[flat.Instruction]) -> int:
        def calculate(op: str, left: int, right: int) -> int:
            target = self.slot()
            into.append(flat.Calculate(target, op, left, right))
            return target

        total: int | None = None
        for monomial, coefficient in dim.terms:
            term = self.constant(coefficient)
            for atom in monomial:
                if isinstance(atom, Symbol):
                    factor = self.variable(atom.name)
                else:
                    numerator, denominator = (
                        self.compute(part, into) if isinstance(part, Dim) else self.constant(part)
                        for part in (atom.numerator, atom.denominator)
                    )
                    factor = calculate("//", numerator, denominator)
                term = calculate("*", term, factor)
            total = term if total is None else calculate("+", total, term)
        return self.constant(0) if total is None else total

    # -- steps -----------------------------------------------------------------------------------------------------

    def block(self, steps: planned.Steps) -> None:
        """Steps that may not run: what they decide is not known afterwards."""
        known = set(self.known)
        self.steps(steps)
        self.known = known

    def steps(self, steps: planned.Steps) -> None:
        for step in steps:
            _STEP[type(step)](self, step)

    def hole(self) -> int:
        """Room for a jump whose end is not known yet."""
        self.body.append(flat.Jump(0))
        return len(self.body) - 1

    def launch(self, step: planned.Launch) -> None:
        ready = self.ready[step.kernel] if self.ready else None
        if ready is None:
            buffers, variables = step.buffers, tuple(map(self.variable, self.needed[step.kernel]))
        else:
            buffers = tuple(step.buffers[slot] for slot in ready.slots)
            variables = tuple(map(self.constant, ready.numbers))
        self.body.append(flat.Call(step.kernel, buffers, variables, len(self.sites)))
        self.sites.append(step.kernel)
        if self.under_way:
            self.routine(flat.Native(flat.POLL, (), (), self.constant(1)))

    def copy(self, step: planned.Copy) -> None:
        size = self.size(self.plan.buffers[step.target].size)
        self.body.append(flat.CopyBuffer(step.source, step.target, size))

    def swap(self, step: planned.SwapPointers) -> None:
        self.body.append(flat.SwapBuffers(step.first, step.second))

    def view(self, step: planned.View) -> None:
        buffer, base = self.plan.buffers[step.buffer], self.plan.buffers[step.base]
        index = self.constant(0) if step.counter is None else self.variable(step.counter)
        dtype = None if buffer.dtype is base.dtype else buffer.dtype.numpy
        self.body.append(flat.Slice(step.buffer, step.base, index, self.size(buffer.size), dtype))

    def bind(self, step: planned.Bind) -> None:
        self.body.append(flat.Read(self.variable(step.variable), step.buffer, step.low, step.high))
        self.known.add(step.variable)

    def branch(self, step: planned.Branch) -> None:
        start = self.hole()
        self.block(step.then)
        if step.otherwise:
            end = self.hole()
            self.body[start] = flat.Unless(step.predicate, len(self.body))
            self.block(step.otherwise)
            self.body[end] = flat.Jump(len(self.body))
        else:
            self.body[start] = flat.Unless(step.predicate, len(self.body))

    def while_(self, step: planned.While) -> None:
        start = len(self.body)
        self.block(step.condition)
        leave = self.hole()
        self.block(step.body)
        self.body.append(flat.Jump(start))
        self.body[leave] = flat.Unless(step.flag, len(self.body))

    def for_(self, step: planned.For) -> None:
        one, by, done = self.constant(1), self.constant(step.stride), self.slot()
        count, counter = self.size(step.count), self.variable(step.counter)
        zero = self.constant(0)
        self.body.append(flat.Calculate(done, "+", zero, zero))
        start = len(self.body)
        leave = self.hole()
        self.body.append(flat.Calculate(counter, "+", done, zero))
        if step.reverse:
            self.body.append(flat.Calculate(counter, "-", count, counter))
            self.body.append(flat.Calculate(counter, "-", counter, one))
        if step.taken:
            taken = self.variable(step.taken)
            self.body.append(flat.Calculate(taken, "-", count, done))
            self.body.append(flat.Calculate(taken, "min", taken, by))
        self.block(step.body)
        self.body.append(flat.Calculate(done, "+", done, by))
        self.body.append(flat.Jump(start))
        self.body[leave] = flat.Below(done, count, len(self.body))

    def host(self, step: planned.Host) -> None:
        mentioned = dict.fromkeys(
            symbol.name
            for symbols in (
                symbols_in(step.attrs),
                *(type.symbols() for type in (*step.input_types, *step.output_types)),
            )
            for symbol in symbols
        )
        known = tuple(name for name in mentioned if name in self.known)
        decided = tuple(name for name in mentioned if name not in self.known)
        shapes = tuple(tuple(map(self.size, type.dims)) for type in step.input_types)
        self.body.append(
            flat.CallHost(
                _host_call(step, known, decided),
                step.inputs,
                shapes,
                step.outputs,
                tuple(map(self.variable, known)),
                tuple(map(self.variable, decided)),
                self.native(step),
            )
        )
        self.known.update(decided)

    def wait(self, step: planned.Wait) -> None:
        """Who runs collectives one at a time has nothing to wait for."""
        self.under_way.discard(step.ticket)
        one, ticket = self.constant(1), self.constant(step.ticket)
        self.routine(flat.Native("collective.wait", step.buffers, (ticket,), one, fails=True))

    def routine(self, native: flat.Native) -> None:
        """A routine that is nothing in Python."""
        self.body.append(flat.CallHost(lambda arrays, values: ((), ()), (), (), (), (), (), native))

    def native(self, step: planned.Host) -> flat.Native | None:
        call = step.call
        if call is None:
            return None
        if call.name == "collective" and call.integers[-1]:
            self.under_way.add(call.integers[-1])
        buffers = (*step.inputs, *step.outputs, *step.constants, *step.scratch)
        return flat.Native(
            call.name,
            buffers,
            tuple(map(self.size, call.integers)),
            self.size(call.chunks),
            call.work,
            call.threads,
            call.fails,
        )

    def finish(self) -> flat.Code:
        shift = len(self.prologue)
        moved = [
            replace(i, to=i.to + shift) if isinstance(i, flat.Jump | flat.Unless | flat.Below) else i
            for i in self.body
        ]
        return flat.Code((*self.prologue, *moved), tuple(self.slots), tuple(self.sites))


_STEP: Final[dict[type[planned.Step], Callable[[_Assembler, Any], None]]] = {
    planned.Launch: _Assembler.launch,
    planned.Copy: _Assembler.copy,
    planned.SwapPointers: _Assembler.swap,
    planned.View: _Assembler.view,
    planned.Bind: _Assembler.bind,
    planned.Branch: _Assembler.branch,
    planned.While: _Assembler.while_,
    planned.For: _Assembler.for_,
    planned.Host: _Assembler.host,
    planned.Wait: _Assembler.wait,
}


def _host_call(step: planned.Host, known: Sequence[str], decided: Sequence[str]) -> flat.HostCall:
    """A host op as a function of arrays and sizes."""
    op, evaluate = step.op, step.op.evaluate
    if evaluate is None:
        raise InternalError(f"host op {op.name} has no evaluation")
    if isinstance(step.attrs, CustomCallAttrs):
        find_custom_call(step.attrs)  # an unknown one is an error before anything runs

    def call(arrays: Sequence[Array], values: Sequence[int]) -> tuple[Sequence[Array], Sequence[int]]:
        sizes = dict(zip(known, values, strict=True))
        types = [type.substitute(sizes) for type in step.output_types]
        try:
            results = [np.asarray(r) for r in evaluate(arrays, resolve_attrs(step.attrs, sizes), types)]
            _check_results(op.name, results, step.output_types, sizes)
        except PlanishError as error:
            error.op = error.op or op.name
            raise
        return results, [sizes[name] for name in decided]

    return call


def _check_results(
    op: str, results: Sequence[Array], types: Sequence[TensorType], sizes: dict[str, int]
) -> None:
    """What a host op gave is what was inferred; sizes that only its results have are learnt."""
    if len(results) != len(types):
        raise ShapeError(f"{op} gave {len(results)} results, not {len(types)}")
    for result, type in zip(results, types, strict=True):
        if result.dtype != type.dtype.numpy or result.ndim != type.rank:
            raise ShapeError(f"{op} gave {result.dtype}{list(result.shape)}, {type} is expected")
    learn(types, [result.shape for result in results], sizes, [f"result of {op}"] * len(types))


def assemble(
    plan: planned.Plan,
    variables: Sequence[Sequence[str]],
    known: Sequence[str],
    ready: Sequence[planned.ReadyKernel | None] = (),
) -> Assembled:
    """Flat code for a plan.

    `variables` are the sizes that its kernels are told, `known` those that the arguments bring, `ready` tells how those are called that
    ready-made code runs.
    """
    assembler = _Assembler(plan, variables, known, ready)
    sizes = tuple((name, assembler.variable(name)) for name in known)
    assembler.steps(plan.steps)
    results = tuple(tuple(map(assembler.size, dims)) for dims in plan.result_dims)
    return Assembled(assembler.finish(), sizes, results)
