"""Propagation: from the specs that a program names to one for every value, written down as `sharding` ops.

Specs go along factors (`factors`), forward and backward, until nothing changes: first through ops that cost nothing either way,
element by element, then through all. What the user pinned stays; where two specs meet that cannot both be, the first to arrive wins
there, and `partition` exchanges data in between. Every op says `why`: the op that the spec came through and the value it came from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from planish.errors import GraphError
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.ops.collective import CollectiveAttrs, MeshAxes, ShardingAttrs, SpecAxes, sharding
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.rewriter import ProgramRewriter
from planish.ptir.sharding.factors import Factors, factors_of
from planish.ptir.sharding.shifts import join_shifts
from planish.ptir.sharding.specs import can_cut, is_remade

Names = tuple[str, ...]


def mesh_of(program: Program) -> MeshAxes | None:
    """The mesh that the `sharding` ops of a program name; there must be one."""
    meshes: dict[MeshAxes, Inst] = {}
    for function in program:
        for inst in function.walk():
            if isinstance(inst.attrs, ShardingAttrs):
                meshes.setdefault(inst.attrs.mesh, inst)
            elif isinstance(inst.attrs, CollectiveAttrs):
                raise GraphError(
                    "the program has collectives, so it is the program of one rank already",
                    op=inst.op.name,
                    location=inst.loc,
                    remedy="cut the program before it is partitioned",
                )
    if len(meshes) > 1:
        (one, _), (other, inst) = list(meshes.items())[:2]
        raise GraphError(
            f"two meshes in one program: {mesh_text(one)} and {mesh_text(other)}",
            op="sharding",
            location=inst.loc,
            remedy="use one mesh for all shardings of a function",
        )
    return next(iter(meshes), None)


def mesh_text(mesh: MeshAxes) -> str:
    """A mesh as messages show it."""
    return "(" + ", ".join(f"{name}={size}" for name, size in mesh) + ")"


class Specs:
    """What is known so far: the spec of each value, why, and which are the user's."""

    def __init__(self, mesh: MeshAxes) -> None:
        self.mesh = mesh
        self.by_value: dict[Value, list[Names]] = {}
        self.why: dict[Value, str] = {}
        self.pinned: set[Value] = set()

    def of(self, value: Value) -> list[Names]:
        known = self.by_value.get(value)
        if known is None:
            known = self.by_value[value] = [()] * value.type.rank
        return known

    def pin(self, value: Value, spec: SpecAxes) -> None:
        if value not in self.pinned:
            self.by_value[value] = list(spec)
            self.pinned.add(value)

    def offer(self, value: Value, axis: int, names: Names) -> bool:
        """Cut an axis of a value if that is free, and possible."""
        now = self.of(value)
        if value in self.pinned or len(names) <= len(now[axis]) or names[: len(now[axis])] != now[axis]:
            return False
        taken = {name for k, own in enumerate(now) if k != axis for name in own}
        if taken & set(names) or not can_cut(self.mesh, value.type.dims[axis], names):
            return False
        now[axis] = names
        return True


def propagate(function: Function, mesh: MeshAxes) -> Specs:
    """The specs of all values; shifts along an axis are written so that they can be cut."""
    join_shifts(function)
    specs = Specs(mesh)
    rules: dict[Inst, Factors] = {}
    near: dict[Value, list[Inst]] = {}
    for inst in function.walk():
        if isinstance(inst.attrs, ShardingAttrs):
            specs.pin(inst.result, inst.attrs.spec)
            given = inst.operands[0]
            if given.owner is function.body:
                specs.pin(given, inst.attrs.spec)
        rules[inst] = factors_of(inst)
        for value, _ in rules[inst].tensors(inst):
            near.setdefault(value, []).append(inst)
    light = [inst for inst in rules if inst.op.elementwise or inst.op is sharding]
    for chosen in (light, list(rules)):
        allowed = set(chosen)
        waiting = deque(chosen)
        queued = set(chosen)
        while waiting:
            inst = waiting.popleft()
            queued.discard(inst)
            for value in through(inst, rules[inst], specs):
                for other in near[value]:
                    if other in allowed and other not in queued:
                        waiting.append(other)
                        queued.add(other)
    return specs


def through(inst: Inst, factors: Factors, specs: Specs) -> Iterable[Value]:
    """Let specs pass through an instruction; gives the values that changed."""
    tensors = factors.tensors(inst)
    chosen: dict[int, tuple[Names, Value]] = {}
    used: dict[str, int] = {}
    for value, axes in tensors:
        if is_remade(value) and value not in specs.pinned:
            continue  # each user makes its own: what one of them wants is nothing to the others
        for names, axis in zip(specs.of(value), axes, strict=True):
            if not names or not axis or axis[0] in factors.blocked:
                continue
            number = axis[0]
            known = chosen.get(number)
            if known is not None and (len(known[0]) >= len(names) or names[: len(known[0])] != known[0]):
                continue
            if not inst.regions and any(used.get(name, number) != number for name in names):
                # one axis of the mesh cannot cut two factors: the first to come has it; what control flow carries is each by itself
                continue
            if not can_cut(specs.mesh, factors.sizes[number], names):
                continue
            chosen[number] = (names, value)
            used.update(dict.fromkeys(names, number))
    changed: dict[Value, None] = {}
    for value, axes in tensors:
        if is_remade(value):
            continue
        for place, axis in enumerate(axes):
            if axis and axis[0] in chosen:
                names, source = chosen[axis[0]]
                if source is not value and specs.offer(value, place, names):
                    specs.why[value] = f"{inst.op.name} of {label(source)}"
                    changed[value] = None
    return changed


def label(value: Value) -> str:
    """A value as the text shows it, or nearly."""
    return f"%{value.name}" if value.name is not None else f"%{value.id}"


def write(function: Function, specs: Specs, listener: Listener | None = None) -> int:
    """Put a `sharding` op behind every value that is cut and not said to be; gives how many."""
    rw = ProgramRewriter(function, listener, pattern="shard")
    count = 0
    for value in list(function.values()):
        spec = tuple(specs.of(value))
        source = value.def_inst
        if not any(spec) or not value.users or (source is not None and source.op is sharding):
            continue
        if any(user.op is sharding and user.attrs.spec == spec for user in value.users):  # type: ignore[attr-defined]
            continue
        attrs = ShardingAttrs(specs.mesh, spec, specs.why.get(value, "given"))
        home = value.region
        if home is None:
            continue
        users = list(value.users)
        place = _behind(value, home)
        mark = rw.insert_before(
            place, sharding, (value,), attrs, loc=place.loc if source is None else source.loc
        )
        for user in users:
            rw.set_operands(user, [mark.result if operand is value else operand for operand in user.operands])
        count += 1
    if count:
        function.version += 1
    return count


def _behind(value: Value, home: Region) -> Inst:
    """The instruction right behind a value's definition, or the end of its region."""
    if value.def_inst is None:
        return home.first or home.end
    return value.def_inst.next
