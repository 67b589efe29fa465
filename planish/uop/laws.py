"""The laws of kernel graphs, one row each, in families that `spec.py` puts together to phases.

A row is a pattern and what must hold wherever it matches: the language, the compilation and the dispatch are those of
the rewrite rules. What a law asks about the whole graph (users, closers, names) is collected once, in a `Scope`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import wraps
from typing import Final, cast

from planish.dtypes import AddrSpace, DType, PtrDType
from planish.records import dataclass
from planish.uop.hardware_index import index_of
from planish.uop.matcher import Matcher, Rule, rule
from planish.uop.node import UOp
from planish.uop.ops import ALU, DEFINES, MOVEMENT, Axis, AxisType, Ops, ReduceAxes, Variable
from planish.uop.pattern import NodePattern, anything, node


@dataclass(slots=True)
class Scope:
    """What laws may ask about the whole graph. Filled in one walk over the nodes, sources first."""

    nodes: Sequence[UOp]
    users: dict[UOp, list[UOp]] = field(default_factory=dict)
    closers: dict[UOp, list[UOp]] = field(default_factory=dict)
    """The END and REDUCE nodes that close a range."""
    carriers: set[UOp] = field(default_factory=set)
    """Index arithmetic that may be INVALID."""
    unfenced: set[UOp] = field(default_factory=set)
    """Effects that store to LOCAL memory with no BARRIER around them."""
    named: dict[object, list[UOp]] = field(default_factory=dict)
    """Ranges by axis, variables and special indices by name."""
    has_threads: bool = False
    """Whether threads of a block run this kernel, and so share LOCAL memory."""

    def __post_init__(self) -> None:
        for each in self.nodes:
            self._add(each)

    def _add(self, each: UOp) -> None:
        op, src = each.op, each.src
        for source in src:
            self.users.setdefault(source, []).append(each)
        if op is Ops.END or op is Ops.REDUCE:
            for closed in src[1:]:
                self.closers.setdefault(closed, []).append(each)
        if op is Ops.INVALID or (op in _CARRY and any(source in self.carriers for source in src)):
            self.carriers.add(each)
        if op is Ops.STORE:
            if space_of(src[0]) is AddrSpace.LOCAL:
                self.unfenced.add(each)
        elif op in _EFFECTS and any(source in self.unfenced for source in src):
            self.unfenced.add(each)
        name = _name_of(each)
        if name is not None:
            self.named.setdefault(name, []).append(each)
        if op is Ops.SPECIAL and index_of(each).is_thread:
            self.has_threads = True


_CARRY: Final = ALU | {
    Ops.CAST, Ops.GEP, Ops.VECTORIZE, Ops.CAT, Ops.UNROLL, Ops.CONTRACT, Ops.AFTER, Ops.NOOP,
}  # fmt: skip
_EFFECTS: Final = frozenset({Ops.END, Ops.GROUP, Ops.AFTER})
_WRAPPERS: Final = frozenset({Ops.AFTER, Ops.CAST, Ops.NOOP}) | MOVEMENT


def _name_of(each: UOp) -> object:
    """What identifies a leaf to the generated code: two of one name would collide there."""
    if isinstance(each.arg, Axis):
        return each.arg.path
    if isinstance(each.arg, Variable):
        return each.arg.name
    return each.arg if each.op is Ops.SPECIAL else None


def memory_of(place: UOp) -> UOp:
    """The node that a place or buffer is part of, through INDEX, AFTER, casts and movement."""
    while place.op is Ops.INDEX or (place.op in _WRAPPERS and place.src):
        place = place.src[0]
    return place


def space_of(place: UOp) -> AddrSpace | None:
    """The address space of a place; None if it is not in memory."""
    dtype = memory_of(place).dtype
    return dtype.space if isinstance(dtype, PtrDType) else None


# -- what holds ------------------------------------------------------------------------------------------------


def _element(place: UOp) -> DType:
    return place.dtype.base if isinstance(place.dtype, PtrDType) else place.dtype


def _is_place(place: UOp) -> bool:
    while place.op in {Ops.AFTER, Ops.CAST, Ops.GEP, Ops.NOOP} and place.src:
        place = place.src[0]
    return place.op is Ops.INDEX


def _is_memory(x: UOp) -> bool:
    while x.op in {Ops.AFTER, Ops.CAST, Ops.INDEX} and x.src:
        x = x.src[0]
    return x.op in DEFINES


def _is_ordered(place: UOp) -> bool:
    """Whether the way from a place to its memory goes through an AFTER."""
    while place.op not in DEFINES and place.src:
        if place.op is Ops.AFTER:
            return True
        place = place.src[0]
    return False


def _is_condition(gate: UOp) -> bool:
    return gate.dtype.is_bool


def _works_on_values(root: UOp) -> bool:
    return all(s.dtype.name != "void" and not s.dtype.is_pointer for s in root.src)


def _is_alone(root: UOp, ctx: Scope) -> bool:
    return ctx.named[_name_of(root)] == [root]


def _closed_once(root: UOp, ctx: Scope) -> bool:
    if cast("Axis", root.arg).kind not in {AxisType.LOOP, AxisType.REDUCE}:
        return True  # threads are no loops: any number of effects may end for all of them
    closers = ctx.closers.get(root, [])
    return sum(c.op is Ops.END for c in closers) <= 1 and len({c.op for c in closers}) <= 1


def _is_exactly_closed(root: UOp, ctx: Scope) -> bool:
    return [c.op for c in ctx.closers.get(root, [])] == [Ops.END]


def _closes_ranges(root: UOp) -> bool:
    return all(s.op is Ops.RANGE for s in root.src[1:])


def _reduces_something(root: UOp) -> bool:
    return len(root.src) > 1 or root.src[0].dtype is not root.dtype


def _combines_its_dtype(root: UOp) -> bool:
    op = root.arg.op if isinstance(root.arg, ReduceAxes) else root.arg
    bitwise = op in {Ops.AND, Ops.OR, Ops.XOR}
    return root.dtype.is_bool or root.dtype.is_integral or not bitwise


def _waits_for_effects(root: UOp) -> bool:
    return all(
        s.dtype.name == "void" or s.op in {Ops.RANGE, Ops.SPECIAL, Ops.AFTER, Ops.BUFFERIZE}
        for s in root.src[1:]
    )


def _are_effects(root: UOp) -> bool:
    return all(s.dtype.name == "void" for s in root.src)


def _is_closed(root: UOp) -> bool:
    return not root.ranges


def _keeps_invalid(root: UOp, ctx: Scope) -> bool:
    if not ctx.carriers or root.op in _CARRY:
        return True
    sources = root.src[:1] if root.op is Ops.INDEX else root.src
    return not any(s in ctx.carriers for s in sources)


def _seen_through_index(root: UOp, ctx: Scope) -> bool:
    allowed = MOVEMENT | {Ops.INDEX, Ops.AFTER, Ops.CONTIGUOUS}
    return all(user.op in allowed for user in ctx.users.get(root, []))


def _fenced(root: UOp, ctx: Scope) -> bool:
    if not ctx.has_threads or space_of(root) is not AddrSpace.LOCAL:
        return True
    return not any(s in ctx.unfenced for s in root.src[1:])


def _runs_on(*kinds: AxisType) -> Callable[..., bool]:
    def holds(root: UOp) -> bool:
        return cast("Axis", root.arg).kind in kinds

    return holds


def _not_index(root: UOp) -> bool:
    return root.op is Ops.CAST or not root.dtype.is_index


def _one_width(root: UOp) -> bool:
    widths = {s.dtype.scalar for s in root.src[1:] if not s.dtype.is_bool}
    return len(widths) <= 1 and all(w.is_index or w.bits in {32, 64} for w in widths)


# -- the tables ------------------------------------------------------------------------------------------------


def law(where: NodePattern, holds: Callable[..., bool], says: str) -> Rule:
    """A row: `holds` must be true at every node of this form. It may ask for bound names, `root` and `ctx`."""

    @wraps(holds)
    def broken(*given: object) -> bool:
        return not holds(*given)

    def problem() -> UOp:
        # The engine hands back what a rule returns and looks no further: here, the broken law itself.
        return cast("UOp", says)

    return rule(where, problem, when=broken, says=says)


_x, _place, _gate = anything("x"), anything("place"), anything("gate")

VALUES: Final = Matcher(
    "values",
    [
        law(node(ALU), _works_on_values, "an arithmetic op works on values, not on places or effects"),
        law(node(Ops.DEFINE_VAR), _is_alone, "one name, one variable"),
        law(
            node([Ops.REDUCE, Ops.REDUCE_AXIS, Ops.SCAN, Ops.SCAN_AXIS]),
            _combines_its_dtype,
            "AND, OR and XOR combine integers and bools, not floats",
        ),
    ],
)
TENSORS: Final = Matcher(
    "tensors",
    [
        law(
            node(Ops.STORE, _place, rest=True),
            lambda place: memory_of(place).op in {Ops.BUFFER, Ops.CONTIGUOUS},
            "a tensor is stored to memory: a BUFFER, or a CONTIGUOUS",
        ),
    ],
)
RANGES: Final = Matcher(
    "ranges",
    [
        law(node(Ops.RANGE), _is_alone, "one axis, one RANGE"),
        law(node([Ops.END, Ops.REDUCE]), _closes_ranges, "END and REDUCE close RANGEs"),
        law(
            node(Ops.BUFFERIZE),
            lambda root: all(s.dtype.is_index for s in root.src[1:]),
            "BUFFERIZE stores at indices, whose ranges it closes",
        ),
        law(node(Ops.REDUCE), _reduces_something, "a REDUCE closes a range or takes lanes together"),
        law(
            node(Ops.SCAN, _x, rest=True),
            lambda root: all(along.op in {Ops.RANGE, Ops.CONST} for along in root.src[1:]),
            "a SCAN runs along a RANGE, or along one value",
        ),
        law(node(Ops.SINK), _is_closed, "the SINK leaves no range open"),
    ],
)
ONE_END: Final = Matcher("one end", [law(node(Ops.RANGE), _closed_once, "one RANGE, one END")])
"""Before stage 11 several ops may close a range: they mean one loop if they can share it."""
ORDER: Final = Matcher(
    "order",
    [
        law(node(Ops.AFTER), _waits_for_effects, "AFTER waits for effects or ranges"),
        law(node([Ops.SINK, Ops.GROUP, Ops.BARRIER]), _are_effects, "SINK, GROUP and BARRIER bundle effects"),
        law(
            node(Ops.END, _x, rest=True), lambda x: x.dtype.name == "void", "the body of an END is an effect"
        ),
    ],
)
MEMORY: Final = Matcher(
    "memory",
    [
        law(anything(), _keeps_invalid, "INVALID is an index: it ends at an INDEX"),
        law(node(Ops.STORE, _place, rest=True), _is_place, "a STORE writes to a place"),
        law(
            node(Ops.STORE, _place, _x, rest=True),
            lambda place, x: _element(place).scalar is x.dtype.scalar,
            "a STORE writes the element type of its place",
        ),
        law(node(Ops.STORE, _place, _x, _gate), _is_condition, "the gate of a STORE is bool"),
    ],
)
MOVED: Final = Matcher(
    "moved", [law(node(MOVEMENT), _seen_through_index, "a movement op is seen through INDEX only")]
)
UNMOVED: Final = Matcher(
    "unmoved",
    [
        law(
            node(Ops.INDEX, _x, rest=True),
            _is_memory,
            "INDEX addresses memory: a DEFINE, possibly AFTER effects",
        ),
    ],
)
NO_LANES: Final = Matcher(
    "no lanes",
    [
        law(
            node(Ops.RANGE),
            _runs_on(*(k for k in AxisType if k not in {AxisType.UPCAST, AxisType.UNROLL})),
            "UPCAST and UNROLL ranges have become lanes",
        ),
    ],
)
NO_LANE_AXES: Final = NO_LANES + Matcher(
    "no lane axes",
    [
        law(
            node(Ops.REDUCE),
            lambda root: all(
                not isinstance(s.arg, Axis) or s.arg.kind is not AxisType.GROUP_REDUCE for s in root.src[1:]
            ),
            "a GROUP_REDUCE range is finished through LOCAL memory, not by a REDUCE",
        ),
    ],
)
LOADS: Final = Matcher(
    "loads",
    [
        law(node(Ops.INDEX), lambda root: root.dtype.is_pointer, "INDEX is a place; a LOAD makes it a value"),
        law(
            node(Ops.LOAD, _place, rest=True),
            lambda root, place: _element(place).scalar is root.dtype.scalar,
            "a LOAD gives the element type of its place",
        ),
        law(
            node(Ops.PREFETCH, _place),
            lambda place: place.dtype.is_pointer and place.dtype.lanes == 1,
            "a PREFETCH names one place",
        ),
        law(
            node(Ops.LOAD, _place, rest=True),
            lambda place: space_of(place) is AddrSpace.GLOBAL or _is_ordered(place),
            "LOCAL memory and registers are read AFTER what fills them",
        ),
        law(
            node(Ops.RANGE),
            _runs_on(AxisType.LOOP, AxisType.REDUCE),
            "a RANGE is a loop; other axes have become SPECIAL or lanes",
        ),
        law(node(Ops.SPECIAL), _is_alone, "one name, one SPECIAL"),
        law(node(Ops.AFTER), _fenced, "LOCAL memory that threads share is read AFTER a BARRIER"),
    ],
)
WIDTHS: Final = Matcher(
    "widths",
    [
        law(anything(), _not_index, "no dtype index is left after lowering"),
        law(
            node(Ops.CAST),
            lambda root: not root.dtype.is_index and not root.src[0].dtype.is_index,
            "no cast to or from index is left hanging",
        ),
        law(node(Ops.INDEX), _one_width, "the indices of an INDEX are all i32 or all i64"),
    ],
)
CONTROL: Final = Matcher(
    "control",
    [
        law(node(Ops.RANGE), _is_exactly_closed, "every loop has its END"),
        law(node(Ops.END), lambda root: len(root.src) == 2, "an END closes one range"),
        law(node(Ops.IF, _gate, rest=True), _is_condition, "the condition of an IF is bool"),
        law(node(Ops.ENDIF, _x), lambda x: x.op is Ops.IF, "an ENDIF closes an IF"),
    ],
)
