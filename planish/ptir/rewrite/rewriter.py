"""`ProgramRewriter`: the only way to change a function once it is built.

It keeps the invariants of the data structure (users, order, versions), tells the listener, and records what
each change may have made possible, so that a driver looks at those instructions again and at no others.
What wakes what is in `waking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planish.dtypes import DType
from planish.errors import Location, RewriteError
from planish.ptir.exact import same_attrs, same_quant
from planish.ptir.function import CLEAN, Function, Inst, Region, Value, clone_region_body, set_operands
from planish.ptir.locations import fuse
from planish.ptir.ops.definition import NO_ATTRS, Attrs, ConstantAttrs, OpDef, constant, constant_kind
from planish.ptir.ops.literal import Literal, Scalar
from planish.ptir.rewrite.listener import Listener
from planish.ptir.rewrite.reading import Reading
from planish.ptir.rewrite.waking import Waking
from planish.ptir.substitution import Substitution
from planish.ptir.types import Quant, TensorType
from planish.ptir.verify import problems


class ProgramRewriter(Waking, Reading):
    """Reads and edits one function; every edit keeps users, order and versions right."""

    __slots__ = (
        "_constants", "changes", "function", "listener", "pattern", "root",
    )  # fmt: skip

    function: Function
    listener: Listener | None
    changes: int
    """Grows with every edit: equal before and after means nothing was edited."""
    root: Inst | None
    """The instruction a pattern is being tried on: where `emit` inserts and new locations come from."""
    pattern: str | None
    """The pattern or pass at work, recorded in what it makes."""

    def __init__(
        self, function: Function, listener: Listener | None = None, *, pattern: str | None = None
    ) -> None:
        super().__init__()
        self.function = function
        self.listener = listener
        self.changes = 0
        self.root = None
        self.pattern = pattern
        self._constants: dict[Literal | tuple[DType, tuple[int, ...], Scalar | None], Inst] = {}

    def fail(self, inst: Inst, reason: str) -> bool:
        """Say why the pattern does not apply; always False, so that patterns can return it."""
        if self.listener is not None:
            self.listener.reason(self.pattern, inst, reason)
        return False

    # Editing.

    def replace_all_uses(self, old: Value, new: Value) -> None:
        """Make every use of `old` a use of `new`, which must have the same type."""
        if old.type is not new.type and old.type != new.type:
            raise self._error(f"cannot replace {old!r} by {new!r}: the types differ", old.def_inst)
        if old is new:
            raise self._error(f"cannot replace {old!r} by itself", old.def_inst)
        if old.users:
            self._move_uses(old, new)
            self._lost_all_uses(old)

    def _move_uses(self, old: Value, new: Value) -> None:
        self.changes += 1
        users = old.users
        old.users = {}
        target = new.users
        if not target:
            # A value without users takes over the whole table.
            new.users = users
        queue = self._queue
        rules = self._rules
        farther = self._farther or self._has_regions
        for user, count in users.items():
            operands = user.operands
            if len(operands) == 2:
                first, second = operands
                user.operands = (new if first is old else first, new if second is old else second)
            else:
                user.operands = tuple([new if value is old else value for value in operands])
            user.version += 1
            if target:
                target[user] = target[user] + count if user in target else count
            if queue is None or rules is None:
                continue
            # The ends of regions carry a level below any, and so are never queued.
            if user.dirty > 1:
                if user.dirty == CLEAN:
                    queue.append(user)
                user.dirty = 1
            if farther:
                self._wake_beyond(user)
                continue
            try:
                roots = rules.deep[user.op]
            except KeyError:
                roots = rules.deep_roots(user.op)
            if roots:
                for value in user.results:
                    for beyond in value.users:
                        if beyond.dirty > 2 and beyond.op in roots:
                            if beyond.dirty == CLEAN:
                                queue.append(beyond)
                            beyond.dirty = 2
        if new.name is None:
            new.name = old.name
        if self.listener is not None:
            self.listener.replaced(old, new)
            for user in users:
                self.listener.modified(user)

    def replace_op(self, inst: Inst, *values: Value) -> None:
        """Replace each result of `inst` by the value in its place, and erase it."""
        results = inst.results
        if len(values) != len(results):
            raise self._error(f"{inst.op.name} has {len(results)} results, {len(values)} given", inst)
        for position, new in enumerate(values):
            old = results[position]
            if old.type is not new.type and old.type != new.type:
                raise self._error(f"cannot replace {old!r} by {new!r}: the types differ", inst)
            if old is new:
                raise self._error(f"cannot replace {old!r} by itself", inst)
            if old.users:
                self._move_uses(old, new)
        self.erase_inst(inst)

    def merge(self, inst: Inst, earlier: Inst) -> None:
        """Replace `inst` by an equal instruction before it: same op, operands and attributes.

        The one that stays is from then on located at the lines of both.
        """
        if inst.loc is not earlier.loc:
            earlier.loc = fuse(earlier.loc, inst.loc)
        region = inst.parent
        if region is None or self.listener is not None or self._queue is not None or inst.regions:
            self.replace_op(inst, *earlier.results)
            return
        # Nobody to tell, and no operand can fall out of use, since `earlier` has the same ones.
        self.changes += 1
        for old, new in zip(inst.results, earlier.results, strict=True):
            if old.users:
                target = new.users
                for user, count in old.users.items():
                    operands = user.operands
                    if len(operands) == 2:
                        first, second = operands
                        user.operands = (new if first is old else first, new if second is old else second)
                    else:
                        user.operands = tuple([new if value is old else value for value in operands])
                    user.version += 1
                    target[user] = target[user] + count if user in target else count
                old.users = {}
            if new.name is None:
                new.name = old.name
        for value in inst.operands:
            users = value.users
            count = users.pop(inst)
            if count > 1:
                users[inst] = count - 1
        before, after = inst.prev, inst.next
        before.next = after
        after.prev = before
        inst.parent = None
        region.count -= 1

    def replace_with(self, inst: Inst, op: OpDef, operands: Iterable[Value], attrs: Attrs = NO_ATTRS) -> Inst:
        """Put a new instruction in the place of `inst` and erase that."""
        new = self.insert_before(inst, op, operands, attrs)
        self.replace_op(inst, *new.results)
        return new

    def erase_inst(self, inst: Inst) -> None:
        """Take out an instruction whose results nobody uses."""
        for value in inst.results:
            if value.users:
                raise self._error(f"cannot erase {inst!r}: %{value.id} has {value.num_uses} uses", inst)
        region = inst.parent
        if region is None or inst is region.end:
            raise self._error(f"cannot erase {inst!r}: it is erased already, or the end of a region", inst)
        self.changes += 1
        if inst.regions:
            self._drop_region_uses(inst)
        watches_uses = self._watches_uses
        for value in inst.operands:
            users = value.users
            count = users.pop(inst)
            if count > 1:
                users[inst] = count - 1
            elif not users:
                definition = value.def_inst
                if definition is not None:
                    self._maybe_dead.append(definition)
                    if watches_uses and len(definition.results) > 1:
                        self._wake_watcher(definition)
            elif watches_uses and len(users) == 1:
                self._wake_last_use(value)
        before, after = inst.prev, inst.next
        before.next = after
        after.prev = before
        inst.parent = None
        region.count -= 1
        if self._has_regions:
            self._wake_owners(region)
        if self.listener is not None:
            self.listener.erased(inst, region)

    def insert_before(
        self,
        at: Inst,
        op: OpDef,
        operands: Iterable[Value] = (),
        attrs: Attrs = NO_ATTRS,
        regions: Iterable[Region] = (),
        *,
        types: tuple[TensorType, ...] | None = None,
        loc: Location | None = None,
    ) -> Inst:
        """A new instruction right before `at`; types are inferred, the location is the root's, unless given."""
        region = at.parent
        if region is None:
            raise self._error(f"cannot insert before {at!r}: it is erased", at)
        root = self.root
        if loc is None:
            loc = at.loc if root is None else root.loc
        inst = region._create(op, tuple(operands), attrs, tuple(regions), types, loc)
        inst.made_by = self.pattern
        region._link(inst, at)
        self.changes += 1
        if inst.regions:
            self._has_regions = True
        if self._queue is not None and op is not constant:
            inst.dirty = 0
            self._queue.append(inst)
        if self._has_regions:
            self._settle_regions(inst)
        if self.listener is not None:
            self.listener.inserted(inst)
        return inst

    def insert_after(
        self, at: Inst, op: OpDef, operands: Iterable[Value] = (), attrs: Attrs = NO_ATTRS
    ) -> Inst:
        """A new instruction right after `at`."""
        return self.insert_before(at.next, op, operands, attrs)

    def emit(self, op: OpDef, *operands: Value, attrs: Attrs = NO_ATTRS) -> Value:
        """A new single-result instruction before the root being rewritten; gives its value."""
        if self.root is None:
            raise self._error(f"emit({op.name}) needs a root; use insert_before", None)
        return self.insert_before(self.root, op, operands, attrs).result

    def materialize_constant(
        self, at: Inst, literal: Literal, quant: Quant | None = None, *, type: TensorType | None = None
    ) -> Value:
        """A constant usable at `at`: one per content, at the front of the function."""
        # Integers are their own key; floats with equal numbers may differ in bits, so theirs is the literal.
        item = literal._item
        key = (literal.dtype, literal.shape, item) if item.__class__ is int else literal
        known = self._constants.get(key)
        if known is not None and known.parent is not None and same_quant(known.results[0].type.quant, quant):
            return known.results[0]
        body = self.function.body
        root = at if self.root is None else self.root
        types = None if type is None else (type,)
        inst = body._create(constant, (), ConstantAttrs(literal, quant), (), types, root.loc)
        inst.made_by = self.pattern
        body._link(inst, body.end.next)
        self.changes += 1
        self._constants[key] = inst
        if self.listener is not None:
            self.listener.inserted(inst)
        return inst.results[0]

    def splat(self, at: Inst, type: TensorType, value: Scalar) -> Value:
        """A constant of `type`, all of whose elements are `value`."""
        return self.materialize_constant(at, Literal.full(type.dtype, type.shape, value), type.quant)

    def set_operand(self, inst: Inst, index: int, value: Value) -> None:
        """Change one operand in place."""
        operands = inst.operands
        self.set_operands(inst, (*operands[:index], value, *operands[index + 1 :]))

    def set_operands(self, inst: Inst, operands: Sequence[Value]) -> None:
        """Change all operands in place; the result types must stay what they are."""
        old = inst.operands
        operands = tuple(operands)
        if operands == old:
            return
        types = [value.type for value in operands]
        if not inst.is_end and types != [value.type for value in old]:
            inferred = inst.op.result_types(types, inst.attrs, inst.regions)
            if inferred != tuple([value.type for value in inst.results]):
                raise self._error(f"new operands would change the result types of {inst!r}", inst)
        set_operands(inst, operands)
        self.changes += 1
        for value in old:
            users = value.users
            if not users:
                self._lost_all_uses(value)
            elif self._watches_uses and len(users) == 1:
                self._wake_last_use(value)
        if self._queue is not None:
            self._wake(inst, 1)
            self._wake_beyond(inst)
        if self.listener is not None:
            self.listener.modified(inst)

    def set_attrs(self, inst: Inst, attrs: Attrs) -> None:
        """Change the attributes in place; the result types must stay what they are."""
        if same_attrs(attrs, inst.attrs):
            return
        inferred = inst.op.result_types([value.type for value in inst.operands], attrs, inst.regions)
        if inferred != tuple([value.type for value in inst.results]):
            raise self._error(f"new attributes would change the result types of {inst!r}", inst)
        inst.attrs = attrs
        inst.key = constant_kind(attrs) if inst.op is constant else inst.op
        inst.version += 1
        self._touched(inst)

    def move_before(self, inst: Inst, at: Inst) -> None:
        """Move an instruction to stand right before `at`, which may be in another region."""
        source, target = inst.parent, at.parent
        if source is None or target is None or inst is source.end:
            raise self._error(f"cannot move {inst!r} before {at!r}", inst)
        if inst is at or inst.next is at:
            return
        source._unlink(inst)
        target._link(inst, at)
        inst.version += 1
        if self._has_regions and source is not target:
            self._wake_owners(source)
        self._touched(inst)

    # Regions.

    def new_region(
        self, arg_types: Sequence[TensorType] = (), arg_names: Sequence[str | None] = ()
    ) -> Region:
        """An empty region, to be filled with `append` and handed to an instruction."""
        return Region(self.function, arg_types, arg_names)

    def detach_regions(self, inst: Inst) -> tuple[Region, ...]:
        """Take the regions off an instruction about to be replaced, for use by its replacement."""
        regions = inst.regions
        inst.regions = ()
        inst.version += 1
        self.changes += 1
        for region in regions:
            region.owner = None
        if self.listener is not None:
            self.listener.modified(inst)
        return regions

    def set_region_results(self, region: Region, values: Sequence[Value]) -> None:
        """Change what a region results in; its owner is to be replaced in the same rewrite."""
        old = region.end.operands
        set_operands(region.end, tuple(values))
        self.changes += 1
        for value in old:
            if not value.users:
                self._lost_all_uses(value)
            elif self._watches_uses and len(value.users) == 1:
                self._wake_last_use(value)
        self._wake_owners(region)
        if self.listener is not None:
            self.listener.modified(region.end)

    def remove_region_arg(self, region: Region, index: int) -> None:
        """Drop a parameter nobody uses; the owner is to be replaced in the same rewrite."""
        value = region.args[index]
        if value.users:
            raise self._error(f"cannot drop parameter {value!r}: it is used", region.owner)
        region.args = (*region.args[:index], *region.args[index + 1 :])
        for position, arg in enumerate(region.args):
            arg.index = position
        self.changes += 1
        if self.listener is not None:
            self.listener.modified(region.end)

    def inline_before(
        self, region: Region, at: Inst, args: Sequence[Value], other_sizes: Substitution | None = None
    ) -> tuple[Value, ...]:
        """Copy the body of `region` before `at` with `args` for its parameters; gives its results.

        `other_sizes` says what the named sizes of the region become here.
        """
        if len(args) != len(region.args):
            raise self._error(f"a region with {len(region.args)} parameters got {len(args)}", at)
        before = at.prev
        mapping = dict(zip(region.args, args, strict=True))
        results = clone_region_body(region, at, mapping, other_sizes)
        self.changes += 1
        inst = before.next
        while inst is not at:
            if inst.regions:
                self._has_regions = True
            for new in (inst, *[n for r in inst.regions for n in r.walk()]):
                if self.pattern is not None:
                    new.made_by = self.pattern
                if self._queue is not None and new.op is not constant:
                    new.dirty = 0
                    self._queue.append(new)
                if self.listener is not None:
                    self.listener.inserted(new)
            if inst.regions:
                self._settle_regions(inst)
            inst = inst.next
        if self._has_regions and at.parent is not None:
            self._wake_owners(at.parent)
        return results

    # Checking.

    def problems(self) -> list[str]:
        """Every broken invariant of the function, as text."""
        return [str(problem) for problem in problems(self.function)]

    def verify(self) -> bool:
        """Whether every invariant holds."""
        return not self.problems()

    # What edits share.

    def _touched(self, inst: Inst) -> None:
        """Attributes or place of `inst` changed: patterns of any radius at it, radius 1 at its users."""
        self.changes += 1
        if self._queue is not None:
            self._wake(inst, 0)
            for value in inst.results:
                for user in value.users:
                    self._wake(user, 1)
                    self._wake_beyond(user)
            if self._has_regions and inst.parent is not None:
                self._wake_owners(inst.parent)
        if self.listener is not None:
            self.listener.modified(inst)

    def _drop_region_uses(self, inst: Inst) -> None:
        """The regions of an instruction being erased stop using what they see outside."""
        touched: dict[Value, None] = {}
        for region in inst.regions:
            for inner in [*region.walk(), region.end]:
                ends = [inner, *[r.end for r in inner.regions]]
                for user in ends:
                    for value in user.operands:
                        touched[value] = None
                        value.users.pop(user, None)
                inner.parent = None if inner is not region.end else region
        # Only now it is known which values live on: those defined inside are gone with their instructions.
        for value in touched:
            if value.def_inst is not None and value.def_inst.parent is None:
                continue
            if not value.users:
                self._lost_all_uses(value)
            elif self._watches_uses and len(value.users) == 1:
                self._wake_last_use(value)

    def _error(self, message: str, inst: Inst | None) -> RewriteError:
        who = "" if self.pattern is None else f" (pattern {self.pattern})"
        if inst is None:
            return RewriteError(message + who)
        return RewriteError(message + who, op=inst.op.name, location=inst.loc)
