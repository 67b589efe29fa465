"""Realisation: what happens when the elements of lazy tensors are asked for.

Everything below the tensors that are asked for becomes one PTIR function, which their device runs. Its executable is kept
under the *structure* of the expression: its signatures and how they are connected. The same expression on other data, in the
next iteration of a loop, is found there without being captured, lowered or compiled again.

Numbers in an expression are not part of its structure. Those that no rewrite can make anything of (a learning rate, an
epsilon) are parameters of the compiled function; others (0, 1, 2, 0.5, integers) are compiled in, where they fold, and
become parameters once they turn out to change. Either way an expression is compiled a bounded number of times, not once per
number.
"""

from __future__ import annotations

import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planish.compiler import PIPELINE, Executable
from planish.config import Settings, current
from planish.errors import LoweringError
from planish.frontend import execute, tree
from planish.frontend.devices import Device, Runnable, common_device, running
from planish.frontend.expression import current_scope
from planish.frontend.storage import Storage
from planish.ptir import ops
from planish.ptir.ops.definition import ConstantAttrs
from planish.ptir.ops.literal import Literal

if TYPE_CHECKING:
    from planish.frontend.expression import Body, Node
    from planish.frontend.tensor.array import Tensor

_KEPT: Final = 4096
"""Structures that are kept: more than an interactive session has different expressions."""
_HELD: Final = 1 << 30
"""Bytes of arenas that kept executables may hold on to."""
_CONSTANT: Final = ops.constant
_RESULTS: Final = 16
"""Bits for the number of a result."""


@dataclass(slots=True)
class Counters:
    """What realisation did in this process."""

    runs: int = 0
    hits: int = 0
    """Runs of something that was there already."""
    captured: int = 0
    """Expressions that became a function, and were compiled (or found in the cache on disk)."""


counters: Final = Counters()


def realize(*trees: object) -> None:
    """Compute the elements of tensors (or containers of them) now, all in one plan."""
    from planish.frontend.tensor.array import Tensor

    found = [leaf for given in trees for leaf in tree.leaves(given) if isinstance(leaf, Tensor)]
    evaluate([tensor.latest for tensor in found])


def evaluate(tensors: Sequence[Tensor], what: str | None = None) -> None:
    """Give tensors their data, computed together. `what` asks for it, for messages."""
    roots: list[Tensor] = []
    for tensor in tensors:
        node = tensor._node
        if node is None:
            if tensor._storage is None:
                raise tracer.unknown(tensor, what)
        elif node.arrays is not None or node.signature.op is _CONSTANT:
            _look_up(tensor, node)
        if tensor._storage is None:
            roots.append(tensor)
            if node is not None and node.made:
                roots += _siblings(tensor, node)
    if not roots:
        return
    if len(roots) > 1:
        roots = list({id(tensor): tensor for tensor in roots}.values())
    settings = current()
    place = running(_device(roots) or settings.device, settings)
    made = _run(roots, place, settings, what)
    for tensor, storage in zip(roots, made, strict=True):
        _settle(tensor, storage)
        if not place.is_host:
            tensor._device = place.name


def _device(roots: Sequence[Tensor]) -> str | None:
    """The one device they are tied to."""
    found: str | None = None
    for tensor in roots:
        if tensor._device is not None and tensor._device != found:
            found = common_device("realize", {tensor._device} if found is None else {tensor._device, found})
    return found


def _siblings(tensor: Tensor, node: Node) -> Iterator[Tensor]:
    """The other results of its op that somebody has: they are computed on the way."""
    for made in node.made:
        other = made()
        if other is not None and other is not tensor and other._node is node:
            yield other


def _look_up(tensor: Tensor, node: Node) -> None:
    """A constant needs no computation, and what was computed under another name needs none again."""
    found: Storage | None = None if node.arrays is None else node.arrays.get(tensor._index)
    if found is None and isinstance(node.attrs, ConstantAttrs):
        literal = node.attrs.literal
        try:
            found = np.full(literal.shape, literal.data) if literal.splat else literal.data
        except (MemoryError, ValueError) as error:
            raise execute.no_room(tensor._type) from error
    if found is not None:
        _settle(tensor, found)


def _settle(tensor: Tensor, storage: Storage) -> None:
    node = tensor._node
    tensor._storage = storage  # first: another thread may look at the tensor now
    if node is not None:
        if node.arrays is None:
            node.arrays = {}
        node.arrays[tensor._index] = storage
        tensor._node = None  # what it was computed from is no longer needed


# --- long expressions ---------------------------------------------------------------------------------------

DEEPEST: Final = 128
"""Expressions are computed when this many ops wait on top of each other, so that a loop of any length has plans of one size."""
SIDE: Final = 4
"""What joins an expression from the side makes it deeper by its own depth, up to this much: it may share all of it."""
_CUTS: Final[dict[object, object]] = {}
"""Where in a piece of code that happens: at one place, so that the plans of a loop are alike."""
# The references to a tensor that are not somebody's: a name, and the question.
_OWN: Final = 2


class _Whole(threading.local):
    count = 0


_WHOLE: Final = _Whole()


@contextmanager
def whole() -> Iterator[None]:
    """What is built inside is one function applied: it is not computed in pieces."""
    _WHOLE.count += 1
    try:
        yield
    finally:
        _WHOLE.count -= 1


def settle_deep(results: Sequence[Tensor], node: Node) -> None:
    """Compute an expression that has grown deep, and everything on the way that somebody still holds.

    A program that carries several values around has all of them computed at once, and none of them twice.
    """
    if _WHOLE.count:
        return
    site = node.site
    code = site[0] if isinstance(site, tuple) else None
    if node.depth < 2 * DEEPEST and _CUTS.setdefault(code, site) != site:
        return
    if node.depth >= 2 * DEEPEST:
        if len(_CUTS) > _KEPT:
            _CUTS.clear()
        _CUTS[code] = site
    uses: dict[int, int] = {}
    tensors: list[Tensor] = []
    seen: set[Node] = set()
    pending = [node]
    while pending:
        now = pending.pop()
        if now in seen:
            continue
        seen.add(now)
        for x in now.needs() if now.bodies else now.inputs:
            source = x._node
            if source is not None and source.signature.op is not _CONSTANT:
                count = uses.get(id(x), 0)
                uses[id(x)] = count + 1
                if not count:
                    tensors.append(x)
                    pending.append(source)
    roots = list(results)
    while tensors:
        x = tensors.pop()
        if sys.getrefcount(x) > uses[id(x)] + _OWN:
            roots.append(x)
    evaluate(roots)


MANY: Final = 16
"""Operands of one op beyond which they are computed first: a plan with hundreds of parameters takes long to compile."""


def settle_many(tensors: Sequence[Tensor]) -> bool:
    """Compute a long list of operands, in groups of one size so that their plans are alike. False if there is no need."""
    if len(tensors) <= MANY or current_scope() is not None:
        return False
    now = [tensor.latest for tensor in tensors]
    for start in range(0, len(now), MANY):
        evaluate(now[start : start + MANY])
    return True


# --- plans --------------------------------------------------------------------------------------------------


class _Plan:
    """A compiled function for a structure, for certain values of some of its constants."""

    __slots__ = ("baked", "exe", "lifted", "literals")

    def __init__(self, exe: Runnable, literals: Sequence[Literal], lifted: tuple[int, ...]) -> None:
        self.exe = exe
        self.literals = literals
        """The constants it was compiled for."""
        self.lifted = lifted
        """Those that are parameters."""
        self.baked = [(n, literal) for n, literal in enumerate(literals) if n not in lifted]
        """Those that have to be the same."""

    def fits(self, literals: Sequence[Literal]) -> bool:
        for number, literal in self.baked:
            other = literals[number]
            if other is not literal and other != literal:
                return False
        return True


class _Family:
    """The plans of one structure, the last one used first."""

    __slots__ = ("held", "plans", "varying")

    def __init__(self) -> None:
        self.plans: list[_Plan] = []
        self.varying: set[int] = set()
        """Constants that had several values."""
        self.held = 0


_FAMILIES: OrderedDict[tuple[int, ...], _Family] = OrderedDict()


def _run(roots: Sequence[Tensor], device: Device, settings: Settings, what: str | None) -> Sequence[Storage]:
    """The results, computed on a device."""
    counters.runs += 1
    reading = _Reading(device, settings, what)
    key = reading.read(roots)
    literals = [cast("ConstantAttrs", node.signature.attrs).literal for node in reading.constants]
    family = _FAMILIES.get(key)
    if family is None:
        family = _FAMILIES[key] = _Family()
    plan = None
    for found in family.plans:
        if found.fits(literals):
            plan = found
            counters.hits += 1
            break
    if plan is None:
        plan = _planned(family, device, roots, reading, literals)
    _keep(key, family)
    given = [cast("Storage", leaf._storage) for leaf in reading.leaves]
    for number in plan.lifted:
        given.append(literals[number].data)
    try:
        return plan.exe(*map(device.moved, given))
    except MemoryError as error:
        raise execute.out_of_memory(plan.exe) if isinstance(plan.exe, Executable) else error from error


def _keep(key: tuple[int, ...], family: _Family) -> None:
    try:
        _FAMILIES.move_to_end(key)
    except KeyError:  # another thread made room meanwhile
        _FAMILIES[key] = family


def _planned(
    family: _Family,
    device: Device,
    roots: Sequence[Tensor],
    reading: _Reading,
    literals: Sequence[Literal],
) -> _Plan:
    for plan in family.plans:
        pairs = enumerate(zip(plan.literals, literals, strict=True))
        family.varying.update(number for number, (old, new) in pairs if old != new)
    lifted = tuple(
        number
        for number, literal in enumerate(literals)
        if number in family.varying or _is_arbitrary(literal)
    )
    try:
        plan = _compiled(device, roots, reading, literals, lifted)
    except LoweringError:
        if not lifted:
            raise
        # some op has to know its operand when it is compiled
        plan = _compiled(device, roots, reading, literals, ())
    family.plans.insert(0, plan)
    del family.plans[8:]
    if isinstance(plan.exe, Executable):
        _make_room(family, plan.exe.memory.peak)
    return plan


def _compiled(
    device: Device,
    roots: Sequence[Tensor],
    reading: _Reading,
    literals: Sequence[Literal],
    lifted: tuple[int, ...],
) -> _Plan:
    counters.captured += 1
    nodes = [reading.constants[number] for number in lifted]
    function, _ = tracer.capture(roots, params=reading.leaves, lifted=nodes)
    return _Plan(device.compile(function, PIPELINE, ()), literals, lifted)


def _make_room(newest: _Family, more: int) -> None:
    newest.held += more
    held = sum([family.held for family in list(_FAMILIES.values())])
    while len(_FAMILIES) > _KEPT or (held > _HELD and len(_FAMILIES) > 1):
        key = next(iter(_FAMILIES))
        if _FAMILIES[key] is newest:
            _FAMILIES.move_to_end(key)
            continue
        held -= _FAMILIES.pop(key).held


def _is_arbitrary(literal: Literal) -> bool:
    """Whether no rewrite could make anything of a number: a float that is neither whole nor a half, nor infinite."""
    if not literal.dtype.is_float or not literal.splat:
        return False
    value = literal.item
    if not isinstance(value, float) or not math.isfinite(value):
        return False
    return abs(value) > 1024 or not (2 * value).is_integer()


# --- structure ----------------------------------------------------------------------------------------------

_SETTINGS: Final[dict[int, tuple[Settings, int]]] = {}
_NUMBERS: Final[dict[Settings, int]] = {}


def settings_number(settings: Settings) -> int:
    """A number for settings, the same for equal ones."""
    found = _SETTINGS.get(id(settings))
    if found is None:
        if len(_SETTINGS) > 256:
            _SETTINGS.clear()
        number = _NUMBERS.setdefault(settings, len(_NUMBERS))
        found = _SETTINGS[id(settings)] = (settings, number)
    return found[1]


_depth: Final = attrgetter("depth")


class _Reading:
    """An expression read once: its structure as numbers, and the data and constants in the order of the structure.

    A node is its signature and where its inputs come from. Data is -1, -2 …; the result `r` of the `n`-th node is
    `n << 16 | r`. Nodes stand in the order of their depth, which is one in which each comes after what it needs.
    """

    __slots__ = ("constants", "count", "leaves", "names", "parts", "places", "what")

    def __init__(self, device: Device, settings: Settings, what: str | None) -> None:
        self.parts: list[int] = [settings_number(settings), hash(device.name)]
        self.places: dict[Node, int] = {}
        self.count = 0
        """The place of the next node."""
        self.names: dict[int, int] = {}
        """Of data and parameters, by identity."""
        self.leaves: list[Tensor] = []
        self.constants: list[Node] = []
        self.what = what

    def read(self, roots: Sequence[Tensor]) -> tuple[int, ...]:
        self._visit([root._node for root in roots])
        self._end(roots)
        return tuple(self.parts)

    def _visit(self, pending: list[Node | None]) -> None:
        places = self.places
        found: list[Node] = []
        while pending:
            node = pending.pop()
            if node is None or node in places:
                continue
            places[node] = -1  # seen
            found.append(node)
            for x in node.inputs:
                source = x._node
                if source is not None and source not in places:
                    if source.arrays is not None:
                        _look_up(x, source)
                        source = x._node
                    pending.append(source)
            if node.bodies:
                for body in node.bodies:
                    pending.extend([x._node for x in body.free])
        if len(found) > 1:
            found.sort(key=_depth)
        parts, names = self.parts, self.names
        for node in found:
            signature = node.signature
            parts.append(signature.number)
            for x in node.inputs:
                source = x._node
                if source is not None:
                    parts.append(places[source] + x._index)
                else:
                    name = names.get(id(x))
                    parts.append(self._leaf(x) if name is None else name)
            if signature.op is _CONSTANT:
                self.constants.append(node)
            elif node.bodies:
                for body in node.bodies:
                    self._body(body)
            places[node] = self.count
            self.count += 1 << _RESULTS

    def _leaf(self, x: Tensor) -> int:
        if x._storage is None:
            raise tracer.unknown(x, self.what)
        self.leaves.append(x)
        name = self.names[id(x)] = -1 - len(self.names)
        return name

    def _body(self, body: Body) -> None:
        for param in body.params:
            self.names[id(param)] = -1 - len(self.names)
        self.parts.append(len(body.params))
        for x in body.free:
            if x._node is None and id(x) not in self.names:
                self._leaf(x)
        self.parts.append(len(self.names))
        self._visit([result._node for result in body.results])
        self._end(body.results)

    def _end(self, results: Sequence[Tensor]) -> None:
        for x in results:
            node = x._node
            self.parts.append(self.names[id(x)] if node is None else self.places[node] + x._index)
        self.parts.append(len(results))


# Tensors and their evaluation need each other.
from planish.frontend import trace as tracer  # noqa: E402
