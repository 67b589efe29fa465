"""What all actions have in common: a record with named fields, applied to a kernel or refused with a reason.

A kind is a subclass with a `word`, which is its name in the text of a schedule, and `apply`. What it annotates are its fields: by their
types, names of axes, parameters, cores and numbers; construction, text and random draws follow from that (`fields_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import ClassVar, Final, NamedTuple, Self, cast, dataclass_transform

from planish.errors import LoweringError
from planish.target import TARGETS, Target
from planish.uop.nest import axes_of, axis_named, name_of
from planish.uop.nest.kernel import Nest
from planish.uop.nest.memory import local_bytes, threads_of
from planish.uop.node import UOp
from planish.uop.ops import AxisType
from planish.uop.ranges import kind_of
from planish.uop.trial import active

AxisName = str
"""What a schedule calls an axis: `i`, `j.outer`."""
Param = int
"""The slot of a parameter; in text `arg2`, as it is called in generated code."""
CoreName = str
"""The name of a tensor core of the target."""

ALL: Final = 0
"""An amount: the whole axis."""
_DRAWN: Final = (ALL, 2, 2, 3, 4, 4, 5, 8, 16)
_SCALAR: Final = TARGETS["scalar"]


class Refusal(LoweringError):
    """An action that does not fit the kernel; the message says why, and nothing has changed."""


class ActionField(NamedTuple):
    """A field of an action, as text shows it."""

    name: str
    kind: str
    """The name of its type."""
    default: object
    """None if there is none, or if that is its default."""
    required: bool


@dataclass_transform(frozen_default=True)
class Action:
    """One step of a schedule: a record that does not change."""

    fields: ClassVar[tuple[ActionField, ...]] = ()
    word: ClassVar[str] = ""
    does: ClassVar[str] = ""
    """What it is good for, in a few words."""
    takes: ClassVar[frozenset[AxisType]] = frozenset()
    """Which axes it is for; none if it is for no one axis."""
    sized: ClassVar[str] = ""
    """The field that says how much."""
    divides: ClassVar[bool] = False
    """Whether that has to divide the axis."""
    threads_needed: ClassVar[bool] = False
    """Whether it takes threads of a block."""
    bars_threads: ClassVar[bool] = False
    """Whether no threads of a block may come after it."""
    reads_its_sums: ClassVar[bool] = False
    """Whether memory holds its sums in between: elements that are stored twice would be added to twice."""
    stores_twice: ClassVar[bool] = False
    """Whether some elements are computed and stored twice after it."""
    asks_settings: ClassVar[bool] = False
    """Whether settings have a say in what it does: it is done anew each time."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = [
            ActionField(name, str(kind), cls.__dict__.get(name), name not in cls.__dict__)
            for name, kind in cls.__annotations__.items()
            if not str(kind).startswith("ClassVar")
        ]
        cls.fields = (*cls.fields, *own)

    def __init__(self, *values: object, **named: object) -> None:
        names = [field.name for field in self.fields]
        given = dict(zip(names, values, strict=False)) | named
        lacking = [field.name for field in self.fields if field.required and field.name not in given]
        if len(values) > len(names) or not set(named) <= set(names[len(values) :]) or lacking:
            raise TypeError(f"{type(self).__name__} takes {', '.join(names) or 'nothing'}")
        self.__dict__.update({field.name: given.get(field.name, field.default) for field in self.fields})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{self} does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"<{self}>"

    def replaced(self, **changes: object) -> Self:
        """The same with other fields."""
        return type(self)(**{**self.__dict__, **changes})

    def apply(self, sink: UOp, target: Target) -> UOp:
        """The kernel after it; `Refusal` if it does not fit the kernel or the target."""
        raise NotImplementedError

    @classmethod
    def drawn(cls, rng: Random, sink: UOp, target: Target) -> Self:
        """A random one for a kernel, fitting or not: what fuzzers try."""
        axes = axes_of(sink)
        fitting = [r for r in axes if kind_of(r) in cls.takes]
        names = [name_of(r) for r in (fitting if fitting and rng.random() < 0.8 else axes)] or ["i"]
        draws: dict[str, Callable[[], object]] = {
            "AxisName": lambda: rng.choice(names),
            "AxisName | None": lambda: rng.choice([None, *names]),
            "Param": lambda: rng.choice((1, 1, 2, 3)),
            "int": lambda: rng.choice(_DRAWN),
            "bool": lambda: rng.random() < 0.5,
        }
        return cls(**{field.name: draws[field.kind]() for field in fields_of(cls)})

    @property
    def amount(self) -> int:
        """How much it takes of its axis; 0 if that is not asked, or all of it."""
        return cast("int", getattr(self, self.sized)) if self.sized else ALL

    def resized(self, amount: int) -> Self:
        """The same with another amount."""
        return self.replaced(**{self.sized: amount})

    def renamed(self, old: str, new: str) -> Self:
        """The same on an axis of another name: `new` for `old`, and for what is split off it."""
        names = {
            field.name: new + name[len(old) :]
            for field in fields_of(type(self))
            if field.kind.startswith("AxisName")
            and (name := getattr(self, field.name))
            and is_within(name, old)
        }
        return self.replaced(**names)

    def no(self, reason: str, remedy: str | None = None) -> Refusal:
        """What is raised when it does not fit."""
        return Refusal(f"{self.word}: {reason}", remedy=remedy)

    def axis_of(self, sink: UOp, name: str) -> UOp:
        """The axis of a kernel that has a name."""
        axis = axis_named(sink, name)
        if axis is None:
            names = ", ".join(map(name_of, axes_of(sink)))
            raise self.no(f"there is no axis {name}", remedy=f"the axes are {names or 'none'}")
        return axis

    def __str__(self) -> str:
        parts = []
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.required:
                parts.append(written(field, value))
            elif value != field.default:
                shown = written(field, value)
                # how much stands alone, as in split(i, 4); what is said rarely has its name
                parts.append(shown if field.name == self.sized else f"{field.name}={shown}")
        return f"{self.word}({', '.join(parts)})"


def is_within(name: str, axis: str) -> bool:
    """Whether a name is that of an axis, or of a part that is split off it."""
    return name == axis or name.startswith(f"{axis}.")


def written(field: ActionField, value: object) -> str:
    """The value of a field as text."""
    if field.kind == "Param":
        return f"arg{value}"
    return str(value).lower() if field.kind == "bool" else str(value)


def fields_of(kind: type[Action]) -> tuple[ActionField, ...]:
    """The fields of a kind of action, in order."""
    return kind.fields


class OneAxis(Action):
    """An action on one axis."""

    axis: AxisName

    def own_axis(self, sink: UOp) -> UOp:
        """Its axis, if it is one that it is for."""
        r = self.axis_of(sink, self.axis)
        kind = kind_of(r)
        if self.takes and kind not in self.takes:
            names = " or ".join(sorted(k.name for k in self.takes))
            raise self.no(f"axis {self.axis} is {kind.name}, {names} is expected")
        return r

    def check_order(self, facts: Nest, r: UOp) -> None:
        """Refuse an axis whose values cannot be taken in any order, or side by side."""
        reason = facts.ordered.get(r)
        if reason is not None:
            raise self.no(f"the order of axis {self.axis} matters: {reason}")
        self.check_reuse(facts, r)
        self.check_bounds(facts, r)

    def check_reuse(self, facts: Nest, r: UOp) -> None:
        """Refuse an axis whose values cannot run side by side."""
        if r in facts.reused:
            raise self.no(f"every value of axis {self.axis} uses the same LOCAL memory")

    def check_bounds(self, facts: Nest, r: UOp) -> None:
        """Refuse an axis that cannot be changed at all."""
        if facts.is_bound(r):
            raise self.no(f"the length of another loop depends on axis {self.axis}")


def fitting(before: UOp, after: UOp, action: Action, target: Target) -> UOp:
    """The kernel after an action, if its LOCAL memory fits."""
    needed = local_bytes(after)
    if needed <= target.local_bytes:
        return after
    if not target.block and needed <= target.far_bytes:
        needed -= local_bytes(after, in_lanes=True)  # walked from end to end, they need not be near
    if needed > target.local_bytes and needed > local_bytes(before):
        raise action.no(f"{needed} bytes of LOCAL memory are more than {target.local_bytes}")
    return after


def apply_action(sink: UOp, action: Action, target: Target = _SCALAR, before: Sequence[Action] = ()) -> UOp:
    """The kernel after one action; `Refusal` if it does not fit the kernel, the target or the actions before."""
    twice = next((taken for taken in before if taken.stores_twice), None)
    if twice is not None and action.reads_its_sums:
        raise action.no(f"sums that are held in memory would be added to twice after {twice.word}")
    barred = next((taken for taken in before if taken.bars_threads), None)
    if barred is not None and (action.threads_needed or action.bars_threads):
        raise action.no(f"no threads of a block after {barred.word}")
    kernel = _applied(sink, action, target)
    if barred is not None and threads_of(kernel) > 1:
        raise action.no(f"no threads of a block after {barred.word}")
    return kernel


def _applied(sink: UOp, action: Action, target: Target) -> UOp:
    """What an action makes of a kernel. Who chose it has tried it: that is remembered, unless rules are being counted."""
    if active() is not None or action.asks_settings:
        return action.apply(sink, target)
    known = cast("dict[tuple[UOp, Action], tuple[Target, UOp]]", sink.table.memos.setdefault(_applied, {}))
    entry = known.get((sink, action))
    if entry is None or entry[0] is not target:
        entry = known[sink, action] = target, action.apply(sink, target)
    return entry[1]
