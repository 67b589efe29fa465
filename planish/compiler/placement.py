"""Functions that hold several devices: `to_device` inside of them is a step of the plan, and what lies between the copies is compiled for its device.

An instruction runs where its operands lie; parameters lie where the call has them, results of `to_device` where it says. What depends on no
parameter (constants, ranges) lies nowhere: every part that needs it makes it. Instructions of one device between the same copies are one *part*,
a function of its own:

    y = sin(x); z = matmul(y.to_device("cuda:0"), w); r = z.to_device("cpu") + y

    cpu: y = sin(x)      copy y to cuda:0      cuda:0: z = matmul(y', w)      copy z to cpu      cpu: r = z' + y

Parts are ordered by how many copies lie before them; of those that are equal GPUs come first: they are only told what to do, and the host works
meanwhile. Bodies of loops and branches run where the loop does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from planish import ptir
from planish.compiler import compile, prepare
from planish.compiler.device_kinds import HOST, Storage, kind_of
from planish.errors import Location, PlanishError
from planish.ptir import ops
from planish.ptir.function import Function, Inst, Region, Value, clone_insts
from planish.ptir.regions import needed
from planish.records import dataclass

if TYPE_CHECKING:
    from planish.compiler.executable import Executable
    from planish.ptir.passes import Passes


def has_copies(function: ptir.Function | ptir.Program) -> bool:
    """Whether something in it is to lie on a device of its own."""
    parts = [function] if isinstance(function, Function) else list(function)
    return any(inst.op is ops.to_device for part in parts for inst in part.walk())


@dataclass(frozen=True, slots=True)
class Part:
    """What one device does between copies."""

    device: str
    function: Function
    given: tuple[Value, ...]
    """What it takes, as values of the whole function."""
    results: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class DeviceCopy:
    """A value in the memory of another device."""

    value: Value
    source: Value
    device: str


Step: TypeAlias = Part | DeviceCopy


@dataclass(frozen=True, slots=True)
class Placement:
    """A function as steps on several devices."""

    function: Function
    steps: tuple[Step, ...]
    devices: Mapping[Value, str]
    """Where values lie."""

    def as_text(self) -> str:
        """A line for each step."""
        names = {value: f"%{value.name or value.id}" for value in self.function.values()}

        def listed(values: Iterable[Value]) -> str:
            return ", ".join(names[value] for value in values)

        lines = []
        for step in self.steps:
            if isinstance(step, DeviceCopy):
                where = self.devices[step.source]
                lines.append(f"copy {names[step.source]} from {where} to {step.device}: {names[step.value]}")
            else:
                lines.append(
                    f"{step.device}: {listed(step.results)} = {step.function.name}({listed(step.given)})"
                )
        return "\n".join(lines)


class _ValuePlacement:
    """Where every value lies, and how many copies lie before it."""

    def __init__(self, function: Function, home: str, given: Sequence[str | None]) -> None:
        self.home = home
        self.device: dict[Value, str] = {}
        self.level: dict[Value, int] = {}
        for number, param in enumerate(function.params):
            told = given[number] if number < len(given) else None
            self.device[param], self.level[param] = told or home, 0
        for inst in function:
            self._visit(inst)

    def _visit(self, inst: Inst) -> None:
        known = [value for value in needed(inst) if value in self.device]
        if inst.op is ops.to_device:
            source = inst.operands[0]
            device = cast("ops.ToDeviceAttrs", inst.attrs).device
            device = device or self.device.get(inst.operands[1], self.home)
            copies = source in self.device and self.device[source] != device
            level = self.level.get(source, 0) + copies
        else:
            places = {self.device[value]: value for value in known}
            if len(places) > 1:
                raise _apart(inst, places)
            # what depends on nothing is made by whoever needs it, unless it does something besides
            device = next(iter(places), self.home if _does_something(inst) else "")
            level = max((self.level[value] for value in known), default=0)
        for inner in (each for region in inst.regions for each in region.walk()):
            told = cast("ops.ToDeviceAttrs", inner.attrs).device if inner.op is ops.to_device else ""
            if told and told != (device or self.home):
                raise PlanishError(
                    f"to_device({told!r}) in the body of {inst.op.name}, which runs on {device or self.home}",
                    op="to_device",
                    location=inner.loc,
                    remedy=f"move what the body of {inst.op.name} needs before it begins, and what it makes behind it",
                )
        if device:
            for value in inst.results:
                self.device[value], self.level[value] = device, level


def _apart(inst: Inst, places: Mapping[str, Value]) -> PlanishError:
    told = " and ".join(f"{value.type} on {device}" for device, value in sorted(places.items()))
    return PlanishError(
        f"{inst.op.name}: operands live on different devices, {told}",
        op=inst.op.name,
        location=inst.loc,
        remedy="move one of them with x.to_device(…)",
    )


def _does_something(inst: Inst) -> bool:
    """Whether it has effects besides what it computes."""
    inner = (each for region in inst.regions for each in region.walk())
    return any(isinstance(one.attrs, ops.CustomCallAttrs) and one.attrs.effect for one in (inst, *inner))


def placed(function: Function, home: str, given: Sequence[str | None] = ()) -> Placement:
    """The steps of a function whose parameters lie on the devices that are given, the others on `home`."""
    if any(not type.is_static for type in function.param_types):
        raise PlanishError(
            f"{function.name}: sizes by name in a function that holds several devices",
            location=function.loc or Location.caller(),
            remedy="compile the parts on each side of to_device by themselves, or pass arrays of known sizes",
        )
    places = _ValuePlacement(function, home, given)
    device = places.device
    parts: dict[tuple[int, str], list[Inst]] = {}
    copies: dict[int, list[DeviceCopy]] = {}
    for inst in function:
        where = device.get(inst.results[0]) if inst.results else places.home
        if where is None:
            continue
        level = places.level[inst.results[0]] if inst.results else 0
        source = inst.operands[0] if inst.operands else None
        if inst.op is ops.to_device and source in device and device[source] != where:
            copies.setdefault(level, []).append(DeviceCopy(inst.results[0], source, where))
        else:
            parts.setdefault((level, where), []).append(inst)
    free = [value for value in dict.fromkeys(function.results) if value not in device]
    if free:  # results that depend on nothing are made at home
        parts.setdefault((0, home), [])
    for value in free:
        device[value], places.level[value] = home, 0
    steps: list[Step] = []
    wanted = set(function.results)
    wanted.update(copy.source for group in copies.values() for copy in group)
    wanted.update(free)
    for insts in parts.values():
        own = {value for inst in insts for value in inst.results}
        wanted.update(value for inst in insts for value in needed(inst) if value not in own)
    keys = sorted(
        {*parts, *((level, "") for level in copies)}, key=lambda key: (key[0], bool(key[1]), key[1] == HOST)
    )
    for level, where in keys:
        if not where:
            steps += copies[level]
            continue
        extra = [value for value in free if (level, where) == (0, home)]
        part = _part(function, where, parts[level, where], wanted, device, extra, len(steps))
        if part.results:
            steps.append(part)
    return Placement(function, tuple(steps), device)


def _part(
    function: Function,
    device: str,
    insts: Sequence[Inst],
    wanted: Collection[Value],
    devices: Mapping[Value, str],
    extra: Sequence[Value],
    number: int,
) -> Part:
    """Some instructions as a function: what they need of others is given, what depends on nothing is made again."""
    own = {value for inst in insts for value in inst.results}
    asked = [value for inst in insts for value in needed(inst)]
    given = [v for v in dict.fromkeys(asked) if v in devices and v not in own and v not in extra]
    results = [value for inst in insts for value in inst.results if value in wanted]
    excerpt = Function(f"{function.name}_{number}", [value.type for value in given], loc=function.loc)
    known = dict(zip(given, excerpt.params, strict=True))
    for value in extra:
        _made_again(value, excerpt.body, known)
    for inst in insts:
        for value in needed(inst):
            _made_again(value, excerpt.body, known)
        if inst.op is ops.to_device:  # it lies there already
            known[inst.results[0]] = known[inst.operands[0]]
        else:
            clone_insts([inst], excerpt.body, excerpt.body.end, known)
    results += [value for value in extra if value not in results]
    excerpt.body.set_results([known[value] for value in results])
    return Part(device, excerpt, tuple(given), tuple(results))


def _made_again(value: Value, body: Region, known: dict[Value, Value]) -> None:
    pending = [value]
    while pending:
        wanted = pending[-1]
        inst = wanted.def_inst
        missing = [] if wanted in known or inst is None else [v for v in needed(inst) if v not in known]
        pending += missing
        if not missing:
            pending.pop()
            if wanted not in known and inst is not None:
                clone_insts([inst], body, body.end, known)


class PlacedExecutable:
    """A compiled function on several devices: arrays in, each where it is expected or anywhere, and arrays out, each where it was made."""

    def __init__(self, placement: Placement, parts: Sequence[Executable | None]) -> None:
        self.placement = placement
        self._parts = parts
        function, devices = placement.function, placement.devices
        self.expected = tuple(devices[param] for param in function.params)
        self.devices = tuple(devices[result] for result in function.results)
        last: dict[Value, int] = {}
        for number, step in enumerate(placement.steps):
            for value in step.given if isinstance(step, Part) else (step.source,):
                last[value] = number
        kept = set(function.results)
        self._dropped = [
            [value for value, at in last.items() if at == number and value not in kept]
            for number in range(len(placement.steps))
        ]

    def __call__(self, *arrays: Storage) -> tuple[Storage, ...]:
        function = self.placement.function
        known = {
            param: moved(array, device)
            for param, array, device in zip(function.params, arrays, self.expected, strict=True)
        }
        for step, run, dropped in zip(self.placement.steps, self._parts, self._dropped, strict=True):
            if isinstance(step, DeviceCopy):
                known[step.value] = moved(known[step.source], step.device)
            elif run is not None:
                known.update(zip(step.results, run(*(known[value] for value in step.given)), strict=True))
            for value in dropped:
                del known[value]
        return tuple(known[result] for result in function.results)


def moved(storage: Storage, device: str) -> Storage:
    """The same elements in the memory of a device."""
    kind, number = kind_of(device)
    return kind.put(number, storage)


def compiled(
    function: ptir.Function | ptir.Program,
    passes: Passes | None,
    home: str,
    given: Sequence[str | None] = (),
    donate: Sequence[int] = (),
) -> PlacedExecutable | Executable:
    """Machine code for every part, on its device; one executable if all of it is on one."""
    placement = placed(prepare(function, "inline"), home, given)
    if not any(isinstance(step, DeviceCopy) for step in placement.steps) and len(placement.steps) == 1:
        (step,) = placement.steps
        if step.device == home:
            return compile(function, passes=passes, donate=donate, device=home)
    parts = [
        compile(step.function, passes=passes, device=step.device) if isinstance(step, Part) else None
        for step in placement.steps
    ]
    return PlacedExecutable(placement, parts)
