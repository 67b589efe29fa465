"""Programs, functions and regions: the data structure of the graph IR, with the instructions and values of `inst`.

A function is one region; a region is a straight line of instructions that ends in its results; an op such
as `while` owns further regions, which see the values outside. Everything is in SSA form: a value is a
parameter of a region or a result of an instruction, and knows its users at all times.

Promises:

- Instruction and value ids are unique within a function, never reused and survive rewriting.
- Insertion, removal, finding users and asking which of two instructions comes first take constant time
  (the last amortised: instructions carry order labels that leave room between neighbours).
- Results of a region are the operands of its last instruction, `region.end`, an op of its own that
  iteration does not show: uses by results are therefore uses like any other.

Builders and parsers append with `Region.append`. Once built, a function changes only through
`ProgramRewriter`; the underscored methods here are its tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from planish.errors import GraphError, Location
from planish.ptir.inst import CLEAN, Inst, InstId, Value, ValueId, set_operands
from planish.ptir.ops.definition import NO_ATTRS, RETURN, Attrs, OpDef
from planish.ptir.types import TensorType

if TYPE_CHECKING:
    from planish.ptir.ops.collective import MeshLayout
    from planish.ptir.substitution import Substitution

__all__ = [
    "CLEAN", "Function", "Inst", "InstId", "Program", "Region", "Value", "ValueId", "clone_insts", "clone_region_body", "set_operands",
]  # fmt: skip

# Room between the labels of appended instructions, and the step taken by insertions between them: at most
# 2**24 instructions go before one and the same place before any neighbour is relabelled.
_GAP: Final = 1 << 32
_STRIDE: Final = 1 << 8
_END_ORDER: Final = 1 << 200


class Region:
    """A straight line of instructions with parameters in front and results at the end."""

    __slots__ = ("args", "count", "end", "function", "owner")

    function: Function
    owner: Inst | None
    """The instruction this region belongs to; None for the body of a function."""
    args: tuple[Value, ...]
    end: Inst
    """Marks the end; its operands are the results."""
    count: int

    def __init__(
        self, function: Function, arg_types: Sequence[TensorType] = (), arg_names: Sequence[str | None] = ()
    ) -> None:
        self.function = function
        self.owner = None
        end = Inst(function._take_inst_id(), RETURN, (), NO_ATTRS, (), None)
        end.parent = self
        end.order = _END_ORDER
        end.dirty = -1  # below every level, so that no driver ever queues it
        self.end = end
        self.count = 0
        self.args = ()
        for index, type in enumerate(arg_types):
            self.add_arg(type, arg_names[index] if index < len(arg_names) else None)

    def __repr__(self) -> str:
        whose = "body" if self.owner is None else f"region of {self.owner!r}"
        return f"<{whose}: {len(self.args)} parameters, {self.count} instructions>"

    def add_arg(self, type: TensorType, name: str | None = None) -> Value:
        """Append a parameter."""
        value = Value(self.function._take_value_id(), type, None, len(self.args), self, name)
        self.args = (*self.args, value)
        return value

    @property
    def results(self) -> tuple[Value, ...]:
        return self.end.operands

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return tuple([value.type for value in self.end.operands])

    @property
    def arg_types(self) -> tuple[TensorType, ...]:
        return tuple([value.type for value in self.args])

    @property
    def body(self) -> Region:
        """A region is the sequence of its own instructions: this is itself."""
        return self

    @property
    def first(self) -> Inst | None:
        inst = self.end.next
        return None if inst is self.end else inst

    @property
    def last(self) -> Inst | None:
        inst = self.end.prev
        return None if inst is self.end else inst

    def __iter__(self) -> Iterator[Inst]:
        """Instructions in order; erasing the one just yielded is allowed."""
        end = self.end
        inst = end.next
        while inst is not end:
            following = inst.next
            yield inst
            inst = following

    def __reversed__(self) -> Iterator[Inst]:
        end = self.end
        inst = end.prev
        while inst is not end:
            preceding = inst.prev
            yield inst
            inst = preceding

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return True

    def walk(self) -> Iterator[Inst]:
        """All instructions, those of nested regions right after the one that owns them."""
        stack: list[Iterator[Inst]] = [iter(self)]
        while stack:
            inst = next(stack[-1], None)
            if inst is None:
                stack.pop()
                continue
            yield inst
            if inst.regions:
                stack += [iter(region) for region in reversed(inst.regions)]

    def is_within(self, outer: Region) -> bool:
        """Whether this region is `outer` or nested in it."""
        region: Region | None = self
        while region is not None:
            if region is outer:
                return True
            region = None if region.owner is None else region.owner.parent
        return False

    def append(
        self,
        op: OpDef,
        operands: Iterable[Value] = (),
        attrs: Attrs = NO_ATTRS,
        regions: Iterable[Region] = (),
        *,
        types: tuple[TensorType, ...] | None = None,
        loc: Location | None = None,
        names: Sequence[str | None] = (),
    ) -> Inst:
        """Add an instruction at the end; result types are inferred (and checked) unless given."""
        inst = self._create(op, tuple(operands), attrs, tuple(regions), types, loc)
        for value, name in zip(inst.results, names, strict=False):
            value.name = name
        self._link(inst, self.end)
        return inst

    def set_results(self, values: Iterable[Value]) -> None:
        """Say what the region results in."""
        set_operands(self.end, tuple(values))

    def _create(
        self,
        op: OpDef,
        operands: tuple[Value, ...],
        attrs: Attrs,
        regions: tuple[Region, ...],
        types: tuple[TensorType, ...] | None,
        loc: Location | None,
    ) -> Inst:
        """Make an instruction with its uses registered, not yet standing anywhere."""
        if types is None:
            types = op.result_types([value.type for value in operands], attrs, regions)
        function = self.function
        number = function._next_inst
        function._next_inst = number + 1
        inst = Inst(number, op, operands, attrs, regions, loc)
        number = function._next_value
        if len(types) == 1:
            inst.results = (Value(number, types[0], inst, 0),)
            function._next_value = number + 1
        else:
            inst.results = tuple([Value(number + i, type, inst, i) for i, type in enumerate(types)])
            function._next_value = number + len(types)
        for value in operands:
            users = value.users
            users[inst] = users.get(inst, 0) + 1
        for region in regions:
            if region.owner is not None or region.function is not function:
                raise GraphError(
                    f"a region of {op.name} belongs to another instruction or function", op=op.name
                )
            region.owner = inst
        return inst

    def _link(self, inst: Inst, at: Inst) -> None:
        """Put a free-standing instruction right before `at` (an instruction here, or the end)."""
        end = self.end
        prev = at.prev
        if prev is end:
            inst.order = 0 if at is end else at.order - _GAP
        elif at is end:
            inst.order = prev.order + _GAP
        else:
            gap = at.order - prev.order
            if gap < 2:
                self._relabel(prev)
                gap = at.order - prev.order
            inst.order = prev.order + (_STRIDE if gap > 2 * _STRIDE else gap >> 1)
        inst.prev = prev
        inst.next = at
        prev.next = inst
        at.prev = inst
        inst.parent = self
        self.count += 1

    def _unlink(self, inst: Inst) -> None:
        prev, following = inst.prev, inst.next
        prev.next = following
        following.prev = prev
        inst.parent = None
        self.count -= 1

    def _relabel(self, start: Inst) -> None:
        """Make room after `start`: spread the labels of as few followers as give quadratic slack.

        The rule of Dietz and Sleator, by which a relabelling of n instructions needs on the order of n
        insertions to come due again.
        """
        end = self.end
        base = start.order
        window = [start.next]
        stop = start.next.next
        while stop is not end and stop.order - base <= (len(window) + 1) ** 2:
            window.append(stop)
            stop = stop.next
        span = (len(window) + 1) * _GAP if stop is end else stop.order - base
        step = span // (len(window) + 1)
        for position, inst in enumerate(window, 1):
            inst.order = base + position * step


class Function:
    """A named region: parameters, instructions, results."""

    __slots__ = ("_next_inst", "_next_value", "body", "layout", "loc", "name", "version")

    name: str
    body: Region
    loc: Location | None
    version: int
    """Grows with every change the rewriter makes; equal versions mean an unchanged function."""
    layout: MeshLayout | None
    """For one rank of many: how what it takes and gives lies over the mesh."""

    def __init__(
        self,
        name: str,
        param_types: Sequence[TensorType] = (),
        param_names: Sequence[str | None] = (),
        loc: Location | None = None,
    ) -> None:
        self.name = name
        self.loc = loc
        self.version = 0
        self.layout = None
        self._next_inst = 0
        self._next_value = 0
        self.body = Region(self, param_types, param_names)

    def _take_inst_id(self) -> InstId:
        self._next_inst += 1
        return self._next_inst - 1

    def _take_value_id(self) -> ValueId:
        self._next_value += 1
        return self._next_value - 1

    @property
    def params(self) -> tuple[Value, ...]:
        return self.body.args

    @property
    def results(self) -> tuple[Value, ...]:
        return self.body.end.operands

    @property
    def param_types(self) -> tuple[TensorType, ...]:
        return self.body.arg_types

    @property
    def result_types(self) -> tuple[TensorType, ...]:
        return self.body.result_types

    def __iter__(self) -> Iterator[Inst]:
        return iter(self.body)

    def __reversed__(self) -> Iterator[Inst]:
        return reversed(self.body)

    def __len__(self) -> int:
        """The number of instructions, those of nested regions not counted."""
        return self.body.count

    def __bool__(self) -> bool:
        return True

    def walk(self) -> Iterator[Inst]:
        """All instructions, nested ones included."""
        return self.body.walk()

    def values(self) -> Iterator[Value]:
        """All values in order of definition, nested ones included."""
        yield from self.body.args
        for inst in self.body.walk():
            yield from inst.results
            for region in inst.regions:
                yield from region.args

    def inst(self, id: InstId) -> Inst:
        """The instruction with that id, by search: for tools, not for engines."""
        for inst in self.walk():
            if inst.id == id:
                return inst
        raise GraphError(f"function {self.name} has no instruction {id}")

    def value(self, id: ValueId) -> Value:
        """The value with that id, by search."""
        for value in self.values():
            if value.id == id:
                return value
        raise GraphError(f"function {self.name} has no value %{id}")

    def clone(self, name: str | None = None) -> Function:
        """An independent copy with the same ids."""
        copy = Function(self.name if name is None else name, loc=self.loc)
        copy.version = self.version
        copy.layout = self.layout
        values: dict[Value, Value] = {}
        _clone_into(self.body, copy.body, values, None, keep_ids=True)
        copy._next_inst = self._next_inst
        copy._next_value = self._next_value
        return copy

    def __repr__(self) -> str:
        return f"<function {self.name}: {len(self.params)} parameters, {len(self)} instructions>"


class Program:
    """Functions by name, in order; one of them is where execution starts."""

    __slots__ = ("entry_name", "functions")

    functions: dict[str, Function]
    entry_name: str | None

    def __init__(self, functions: Iterable[Function] = (), entry: str | None = None) -> None:
        self.functions = {}
        self.entry_name = entry
        for function in functions:
            self.add(function)
        if entry is not None and entry not in self.functions:
            raise GraphError(f"the entry {entry!r} is not among the functions {', '.join(self.functions)}")

    def add(self, function: Function) -> Function:
        """Append a function; the first becomes the entry unless another was chosen."""
        if function.name in self.functions:
            raise GraphError(f"the program already has a function {function.name!r}")
        self.functions[function.name] = function
        if self.entry_name is None:
            self.entry_name = function.name
        return function

    @property
    def entry(self) -> Function:
        if self.entry_name is None:
            raise GraphError("the program has no functions")
        return self.functions[self.entry_name]

    def __iter__(self) -> Iterator[Function]:
        return iter(list(self.functions.values()))

    def __len__(self) -> int:
        return len(self.functions)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Function:
        function = self.functions.get(name)
        if function is None:
            raise GraphError(
                f"the program has no function {name!r}; it has {', '.join(self.functions) or 'none'}"
            )
        return function

    def clone(self) -> Program:
        return Program([function.clone() for function in self], self.entry_name)

    def __repr__(self) -> str:
        return f"<program: {', '.join(self.functions)}>"


def clone_region_body(
    source: Region, at: Inst, mapping: dict[Value, Value], other_sizes: Substitution | None = None
) -> tuple[Value, ...]:
    """Copy the instructions of `source` before `at`, with fresh ids; `mapping` gives the parameters.

    Returns what the results of `source` became. Values of enclosing regions map to themselves. `other_sizes`
    replaces named sizes on the way.
    """
    target = at.parent
    if target is None:
        raise GraphError(f"cannot copy instructions before {at!r}, which is erased")
    clone_insts(source, target, at, mapping, other_sizes, keep_ids=False)
    return tuple([mapping.get(value, value) for value in source.end.operands])


def _clone_into(
    source: Region,
    target: Region,
    mapping: dict[Value, Value],
    other_sizes: Substitution | None,
    *,
    keep_ids: bool,
) -> None:
    for value in source.args:
        copy = target.add_arg(value.type if other_sizes is None else other_sizes.type(value.type), value.name)
        if keep_ids:
            copy.id = value.id
        mapping[value] = copy
    if keep_ids:
        target.end.id = source.end.id
    target.end.loc = source.end.loc
    clone_insts(source, target, target.end, mapping, other_sizes, keep_ids=keep_ids)
    set_operands(target.end, tuple([mapping.get(v, v) for v in source.end.operands]))
    target.end.version = source.end.version


def clone_insts(
    source: Iterable[Inst],
    target: Region,
    at: Inst,
    mapping: dict[Value, Value],
    other_sizes: Substitution | None = None,
    *,
    keep_ids: bool = False,
) -> None:
    """Copy instructions before `at`, an instruction of the target; `mapping` says what their operands are there, and then their results."""
    for inst in source:
        # Nesting is as deep as the user's control flow, not as the graph: recursion is in order.
        regions: list[Region] = []
        for region in inst.regions:
            inner = Region(target.function)
            _clone_into(region, inner, mapping, other_sizes, keep_ids=keep_ids)
            regions.append(inner)
        operands = tuple([mapping.get(value, value) for value in inst.operands])
        attrs = inst.attrs
        types: tuple[TensorType, ...] | None
        if other_sizes is None:
            types = tuple([value.type for value in inst.results])
        else:
            # Inferred anew: with a size known, inference may know more than substitution finds.
            attrs, types = other_sizes.attrs(attrs), None
        copy = target._create(inst.op, operands, attrs, tuple(regions), types, inst.loc)
        copy.made_by = inst.made_by
        if keep_ids:
            copy.id = inst.id
            copy.version = inst.version
        for old, new in zip(inst.results, copy.results, strict=True):
            new.name = old.name
            if keep_ids:
                new.id = old.id
            mapping[old] = new
        target._link(copy, at)
