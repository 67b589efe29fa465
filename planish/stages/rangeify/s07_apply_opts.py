"""Stage 7, apply opts: a list of actions reshapes the loops of a kernel. Choosing them is `optimize/`'s business.

Why: the same sums run ten times faster when the right axis is in registers. An action says which.

How: most actions split a range, `r -> outer*k + inner` (or `outer*k + inner` with the outer part taken), and give one part
another axis type. The ranges of a kernel are addressed by their place in `planish.uop.actions.axes_of`. An action that does
not fit the kernel or the target is refused with a reason, and changes nothing; `legality.py` says when the order of an axis
matters.

| action | takes | effect |
|---|---|---|
| UPCAST | LOOP, GLOBAL | part of an output axis is kept in registers or lanes |
| LANES | LOOP, GLOBAL | the same, and of all axes in registers this one is the fastest |
| UNROLL | REDUCE | part of a reduce axis is laid out in lanes, combined in every iteration |
| ACCUMULATORS | REDUCE | parts of a reduce axis have accumulators of their own, combined after the loop |
| PREFIX | LOOP, GLOBAL | part of an axis that a SCAN runs along is laid out in lanes (`prefixes.py`) |
| LOCAL | LOOP, GLOBAL | the inner part is the threads of a block |
| GROUP, GROUPTOP | REDUCE | the inner (outer) part is shared by the threads of a block, finished through LOCAL memory |
| THREAD | LOOP, GLOBAL | the outer part is given to cores (`companions.py`: of several loops, a piece of each) |
| SPLIT | LOOP, REDUCE | two loops instead of one |
| SWAP | two of one kind | they change places in the nest |
| PEEL | LOOP | two loops, one after the other, each with inner loops of its own (`peeling.py`) |
| PADTO | any loop | runs on to a multiple, doing nothing there (`padding.py`) |
| OVERRUN | any loop | the same, reading the last element again there, storing and counting nothing (`padding.py`) |
| ALIGN | LOOP | starts where what it writes starts a vector, doing nothing before its beginning (`aligning.py`) |
| STAGE | a loop, or none | a tile of a parameter is copied to LOCAL memory (`staging.py`) |
| BLOCK | REDUCE | the outputs are visited once per block of the axis, and hold the sums in between (`blocking.py`) |
| HOLD | REDUCE | the same for sums over kept rows, which LOCAL memory holds in between (`holding.py`) |
| LIMIT | REDUCE | a softmax over masked rows ends where the mask hides the rest of them (`limits.py`) |
| TC | | a tensor core computes (`tensor_core.py`) |
| NOLOCALS | | no LOCAL, GROUP or TC with several threads after it |

After the actions, on targets with a grid, an output LOOP becomes GLOBAL if every store runs over it and no long reduction
or kept row would have to be computed again in each block. (The seed's ranges are GLOBAL from here on; stage 12 numbers
them.) Actions therefore see LOOP on every target. Axes of a block that nothing depends on together are the same threads
(`threads.py`).

Before → after::

    L0 = RANGE(12)                   L0 = RANGE(3), u0 = RANGE(4, UPCAST);  L0*4 + u0        Action(UPCAST, axis=0, amount=4)

Would break without it: nothing; every kernel would be scalar loops.

Holds afterwards: the same values are stored at the same places (float sums may be added in another order).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, cast

from planish import dtypes
from planish.stages.expander.loops import THREADS, closed_by
from planish.stages.rangeify.algebra import pm_flatten_range
from planish.stages.rangeify.aligning import align_axis
from planish.stages.rangeify.blocking import block
from planish.stages.rangeify.companions import companions, done_once
from planish.stages.rangeify.holding import hold
from planish.stages.rangeify.legality import LANES, OUTPUT, Facts, local_bytes, threads_of
from planish.stages.rangeify.limits import limit
from planish.stages.rangeify.padding import overrun_axis, pad_axis
from planish.stages.rangeify.peeling import peel
from planish.stages.rangeify.prefixes import check_prefix, prefix
from planish.stages.rangeify.refusal import Refusal
from planish.stages.rangeify.staging import stage
from planish.stages.rangeify.tensor_core import apply_tensor_core
from planish.stages.rangeify.threads import share_threads
from planish.target import TARGETS, Target
from planish.uop.actions import Action, ActionKind, axes_of, next_root
from planish.uop.node import UOp
from planish.uop.ops import Axis, AxisType, Ops
from planish.uop.ranges import kind_of
from planish.uop.rewrite import rewrite, substitute
from planish.uop.symbolic import simplify
from planish.uop.symbolic.alignment import divides
from planish.uop.trial import active

_MOST_UPCAST: Final = 64
_MOST_UNROLL: Final = 32
_MOST_PADDING: Final = 4
"""How many times longer padding may make an axis."""
_RECOMPUTED: Final = 64
"""The longest reduction that every block may compute anew."""
_SCALAR: Final = TARGETS["scalar"]


@dataclass(frozen=True, slots=True)
class _Splitting:
    """What an action that splits takes and makes, and what else has to hold."""

    taken: frozenset[AxisType]
    made: AxisType | None
    """None: the axis type stays."""
    least: int = 2
    most: int | None = None
    """The smallest and the largest part."""
    is_outer: bool = False
    """Whether the outer part is the one that changes."""
    is_fastest: bool = False
    """Whether the part comes last among the axes in lanes."""
    any_order: bool = True
    """Whether the values of the part run side by side, or in another order."""
    threads: bool = False
    """Whether threads of a block are taken."""
    cores: bool = False


_REDUCE: Final = frozenset({AxisType.REDUCE})
_SPLITTING: Final[dict[ActionKind, _Splitting]] = {
    ActionKind.UPCAST: _Splitting(OUTPUT, AxisType.UPCAST, most=_MOST_UPCAST),
    ActionKind.LANES: _Splitting(OUTPUT, AxisType.UPCAST, most=_MOST_UPCAST, is_fastest=True),
    ActionKind.UNROLL: _Splitting(_REDUCE, AxisType.UNROLL, most=_MOST_UNROLL),
    # as an UPCAST the part is the fastest of the lanes: it is mostly contiguous, and combined only at the end
    ActionKind.ACCUMULATORS: _Splitting(_REDUCE, AxisType.UPCAST, most=_MOST_UPCAST),
    ActionKind.LOCAL: _Splitting(OUTPUT, AxisType.LOCAL, threads=True),
    ActionKind.GROUP: _Splitting(_REDUCE, AxisType.GROUP_REDUCE, threads=True),
    ActionKind.GROUPTOP: _Splitting(_REDUCE, AxisType.GROUP_REDUCE, threads=True, is_outer=True),
    ActionKind.THREAD: _Splitting(OUTPUT, AxisType.THREAD, is_outer=True, cores=True),
    ActionKind.SPLIT: _Splitting(OUTPUT | _REDUCE, None, any_order=False),
}
_LOCAL_ACTIONS: Final = frozenset({ActionKind.LOCAL, ActionKind.GROUP, ActionKind.GROUPTOP})


def _axis(sink: UOp, action: Action, place: int) -> UOp:
    axes = axes_of(sink)
    if not 0 <= place < len(axes):
        raise Refusal(f"{action.kind.name}: there is no axis {place}, the kernel has {len(axes)}")
    return axes[place]


def _of_kind(r: UOp, action: Action, taken: frozenset[AxisType]) -> None:
    kind = kind_of(r)
    if kind not in taken:
        names = " or ".join(sorted(k.name for k in taken))
        raise Refusal(f"{action.kind.name}: axis {action.axis} is {kind.name}, {names} is expected")


# -- splitting -------------------------------------------------------------------------------------------------------


def _parts(r: UOp, action: Action, how: _Splitting) -> tuple[int, UOp | None]:
    """The size of the part that changes, and that of the other (None: nothing is left)."""
    size = r.src[0]
    if size.ranges:
        raise Refusal(f"{action.kind.name}: the length of axis {action.axis} depends on other loops")
    amount = action.amount
    if size.op is Ops.CONST:
        whole = cast("int", size.arg)
        amount = amount or whole
        if amount < how.least or whole % amount:
            raise Refusal(f"{action.kind.name}: {amount} does not divide the {whole} of axis {action.axis}")
        rest = None if amount == whole else r.table.const(whole // amount)
    else:
        quotient = divides(size, amount) if amount >= 2 else None
        if quotient is None:
            raise Refusal(
                f"{action.kind.name}: the size of axis {action.axis} is not known",
                remedy=f"PADTO {amount} first" if amount >= 2 else "name an amount",
            )
        rest = simplify(quotient)
    if how.most is not None and amount > how.most:
        raise Refusal(f"{action.kind.name}: {amount} lanes are more than {how.most}")
    return amount, rest


def _check_order(facts: Facts, r: UOp, action: Action) -> None:
    reason = facts.ordered.get(r)
    if reason is not None:
        raise Refusal(f"{action.kind.name}: the order of axis {action.axis} matters: {reason}")
    if r in facts.reused and action.kind is not ActionKind.THREAD:
        raise Refusal(f"{action.kind.name}: every value of axis {action.axis} uses the same LOCAL memory")
    _check_bounds(facts, r, action)


def _check_bounds(facts: Facts, r: UOp, action: Action) -> None:
    if facts.is_bound(r):
        raise Refusal(f"{action.kind.name}: the length of another loop depends on axis {action.axis}")


def _check_threads(facts: Facts, r: UOp, action: Action, target: Target) -> None:
    if not target.block:
        raise Refusal(f"{action.kind.name}: {target.name} has no threads in blocks")
    closers = {closing.op for closing in facts.closers.get(r, ())}
    if action.kind is ActionKind.LOCAL and Ops.REDUCE in closers:
        raise Refusal(
            f"LOCAL: axis {action.axis} is reduced", remedy="GROUP shares a reduction among threads"
        )


def _within_a_block(sink: UOp, action: Action, target: Target) -> UOp:
    """The kernel with its threads shared, if they fit."""
    sink = share_threads(sink)
    threads = threads_of(sink)
    if threads > target.block_threads:
        raise Refusal(
            f"{action.kind.name}: {threads} threads are more than the {target.block_threads} of a block"
        )
    return sink


def _check_cores(facts: Facts, r: UOp, action: Action, amount: int, target: Target) -> None:
    if target.block or target.cores < 2:
        raise Refusal(f"THREAD: {target.name} has no cores to share work among")
    cores = amount * prod(s.vmax + 1 for s in facts.axes(AxisType.THREAD))
    if cores > target.cores:
        raise Refusal(f"THREAD: {cores} pieces are more than the {target.cores} that {target.name} takes")
    if any(closing.op is not Ops.END for closing in facts.closers.get(r, ())):
        raise Refusal(f"THREAD: axis {action.axis} is reduced or kept: not every core has all of it")
    if not set(facts.closers.get(r, ())) <= set(facts.outer_ends):
        raise Refusal(f"THREAD: not every core would have all that is held over axis {action.axis}")


def _split(sink: UOp, action: Action, target: Target) -> UOp:
    how = _SPLITTING[action.kind]
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, how.taken)
    facts = Facts(sink)
    amount, rest = _parts(r, action, how)
    if how.any_order:
        _check_order(facts, r, action)
    elif r in facts.scanned:
        raise Refusal(f"{action.kind.name}: the order of axis {action.axis} matters: a SCAN runs along it")
    if how.threads:
        _check_threads(facts, r, action, target)
    if how.cores:
        _check_cores(facts, r, action, amount, target)
    if rest is None and how.made is None:
        raise Refusal(f"{action.kind.name}: {amount} is all of axis {action.axis}")
    table, axis = r.table, cast("Axis", r.arg)
    taken = axis.part(0 if how.is_outer else 1, how.made)
    if how.is_fastest:
        taken = taken.moved((next_root(facts.nodes),))
    part = table.range(amount, taken)
    if rest is None:
        instead: UOp = part
    else:
        other = table.range(rest, axis.part(1 if how.is_outer else 0))
        instead = part * rest + other if how.is_outer else other * amount + part
    exchange = {r: instead}
    for node in (
        facts.nodes
    ):  # a quotient may turn out to be one of the parts, and what depends on it not to need the other
        if node.op in {Ops.FLOORDIV, Ops.FLOORMOD} and r in node.ranges:
            exchange[node] = simplify(substitute(node, {r: instead}))
    if how.cores:
        exchange |= _shared_pieces(facts, r, part)
    made = rewrite(substitute(sink, exchange), pm_flatten_range)
    if action.kind is ActionKind.ACCUMULATORS:
        made = _combined_after(made, part)
    if how.threads:
        made = _within_a_block(made, action, target)
    return _fitting(sink, made, action, target)


def _shared_pieces(facts: Facts, r: UOp, core: UOp) -> dict[UOp, UOp]:
    """What becomes of the other loops of a kernel when cores share one."""
    pieces = core.vmax + 1
    found = companions(facts, r, pieces)
    exchange = {end: done_once(end, core) for end in found.alone}
    for axis in found.axes:
        rest = (axis.vmax + 1) // pieces
        exchange[axis] = (
            core if rest == 1 else core * rest + axis.table.range(rest, cast("Axis", axis.arg).part(1))
        )
    return exchange


def _combined_after(sink: UOp, part: UOp) -> UOp:
    """Every reduction over a part of an axis and something else, as one over the rest and then one over the part."""
    final: dict[UOp, UOp] = {}
    for node in sink.toposort():
        src = tuple([final[source] for source in node.src])
        made = node if src == node.src else node.replace(src=src)
        if node.op is Ops.REDUCE and part in node.src[1:] and len(node.src) > 2:
            x, *ranges = made.src
            made = made.replace(src=(x, *(r for r in ranges if r is not part)))
            made = made.replace(src=(made, part))
        final[node] = made
    return final[sink]


def _fitting(before: UOp, after: UOp, action: Action, target: Target) -> UOp:
    """The kernel after an action, if its LOCAL memory fits."""
    needed = local_bytes(after)
    if not target.block and needed <= target.far_bytes:
        needed -= local_bytes(after, in_lanes=True)  # walked from end to end, they need not be near
    if needed > target.local_bytes and needed > local_bytes(before):
        raise Refusal(
            f"{action.kind.name}: {needed} bytes of LOCAL memory are more than {target.local_bytes}"
        )
    return after


# -- the others ------------------------------------------------------------------------------------------------------


def _swap(sink: UOp, action: Action, target: Target) -> UOp:
    a, b = _axis(sink, action, action.axis), _axis(sink, action, action.amount)
    if a is b or kind_of(a) is not kind_of(b):
        raise Refusal(
            f"SWAP: axes {action.axis} and {action.amount} are {kind_of(a).name} and {kind_of(b).name}"
        )
    if kind_of(a) in LANES:
        raise Refusal("SWAP: lanes have no order")
    facts = Facts(sink)
    if a in facts.ordered and b in facts.ordered:
        raise Refusal(f"SWAP: the order of both axes matters: {facts.ordered[a]}")
    outer, inner = sorted((a, b), key=lambda r: r.order)
    for node in facts.nodes:
        if (
            node.op in {Ops.REDUCE, Ops.BUFFERIZE, Ops.SCAN}
            and outer in node.ranges
            and inner not in node.ranges
        ):
            raise Refusal("SWAP: a loop that depends on one of the axes only would run more often")
        if node.op is Ops.RANGE and not node.src[0].ranges.isdisjoint((a, b)):
            raise Refusal("SWAP: the length of another loop depends on one of the axes")
    first, second = cast("Axis", a.arg), cast("Axis", b.arg)
    exchange = {
        a: a.replace(arg=first.moved(second.path)),
        b: b.replace(arg=second.moved(first.path)),
    }
    return substitute(sink, exchange)


def _pad(sink: UOp, action: Action, target: Target) -> UOp:
    name = action.kind.name
    r = _axis(sink, action, action.axis)
    if kind_of(r) in LANES | THREADS:
        raise Refusal(f"{name}: axis {action.axis} is {kind_of(r).name}, and of the right length already")
    size, multiple = r.src[0], action.amount
    if size.ranges:
        raise Refusal(f"{name}: the length of axis {action.axis} depends on other loops")
    if multiple < 2:
        raise Refusal(f"{name}: {multiple} is no number to be a multiple of")
    if size.op is Ops.CONST:
        whole = cast("int", size.arg)
        if whole % multiple == 0:
            raise Refusal(f"{name}: the {whole} of axis {action.axis} are a multiple of {multiple}")
        if -(-whole // multiple) * multiple >= _MOST_PADDING * whole:
            raise Refusal(f"{name}: {multiple} makes axis {action.axis} of {whole} too long")
    facts = Facts(sink)
    # what a SCAN meets beyond the end comes after all that counts
    if r in facts.scanned and action.kind is ActionKind.OVERRUN:
        raise Refusal(f"{name}: the order of axis {action.axis} matters: a SCAN runs along it")
    _check_bounds(facts, r, action)
    if action.kind is ActionKind.OVERRUN:
        return _fitting(sink, overrun_axis(sink, r, multiple), action, target)
    return _fitting(sink, pad_axis(sink, r, multiple), action, target)


def _peel(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, frozenset({AxisType.LOOP}))
    return peel(sink, r, action.amount)


def _align(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, OUTPUT)
    if action.amount < 2:
        raise Refusal(f"ALIGN: {action.amount} is no number to be a multiple of")
    if (r.vmax + 1 + 2 * action.amount) >= _MOST_PADDING * (r.vmax + 1):
        raise Refusal(f"ALIGN: {action.amount} makes axis {action.axis} of {r.vmax + 1} too long")
    facts = Facts(sink)
    _check_order(facts, r, action)
    return align_axis(sink, r, action.amount)


def _stage(sink: UOp, action: Action, target: Target) -> UOp:
    loop = None if action.axis < 0 else _axis(sink, action, action.axis)
    if loop is not None and kind_of(loop) in {AxisType.GLOBAL, AxisType.THREAD}:
        loop = None  # nothing is outside of these
    if loop is not None and kind_of(loop) in LANES | THREADS:
        raise Refusal(f"STAGE: axis {action.axis} is {kind_of(loop).name}, not a loop")
    return _fitting(sink, stage(sink, loop, action.amount, action.pad, target), action, target)


def _block(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, _REDUCE)
    amount, rest = _parts(r, action, _Splitting(_REDUCE, None, least=1))
    if rest is None:
        raise Refusal(f"BLOCK: {amount} is all of axis {action.axis}")
    return block(sink, r, amount, rest)


def _hold(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, _REDUCE)
    amount, rest = _parts(r, action, _Splitting(_REDUCE, None))
    if rest is None:
        raise Refusal(f"HOLD: {amount} is all of axis {action.axis}")
    if target.block:
        raise Refusal(f"HOLD: on {target.name} the threads of a block share LOCAL memory")
    return _fitting(sink, hold(sink, r, amount, rest), action, target)


def _limit(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    _of_kind(r, action, _REDUCE)
    if r.src[0].op is not Ops.CONST or action.amount < 1:
        raise Refusal(f"LIMIT: the size of axis {action.axis} is not known")
    lanes = target.lanes(dtypes.float32)
    return _fitting(sink, limit(sink, r, action.amount, lanes), action, target)


def _prefix(sink: UOp, action: Action, target: Target) -> UOp:
    r = _axis(sink, action, action.axis)
    facts = Facts(sink)
    check_prefix(facts, r)
    if r in facts.reused:
        raise Refusal(f"PREFIX: every value of axis {action.axis} uses the same LOCAL memory")
    _check_bounds(facts, r, action)
    amount, rest = _parts(r, action, _Splitting(OUTPUT, AxisType.UPCAST, most=_MOST_UPCAST))
    return prefix(sink, r, amount, rest)


def _no_locals(sink: UOp, action: Action, target: Target) -> UOp:
    if any(n.op is Ops.RANGE and kind_of(n) in THREADS for n in sink.toposort()):
        raise Refusal("NOLOCALS: the kernel uses threads of a block already")
    return sink


_APPLY: Final[dict[ActionKind, Callable[[UOp, Action, Target], UOp]]] = {
    **dict.fromkeys(_SPLITTING, _split),
    ActionKind.SWAP: _swap,
    ActionKind.PEEL: _peel,
    ActionKind.PADTO: _pad,
    ActionKind.OVERRUN: _pad,
    ActionKind.ALIGN: _align,
    ActionKind.STAGE: _stage,
    ActionKind.BLOCK: _block,
    ActionKind.HOLD: _hold,
    ActionKind.LIMIT: _limit,
    ActionKind.PREFIX: _prefix,
    ActionKind.TC: apply_tensor_core,
    ActionKind.NOLOCALS: _no_locals,
}


def apply_action(sink: UOp, action: Action, target: Target = _SCALAR, before: Sequence[Action] = ()) -> UOp:
    """The kernel after one action; `Refusal` if it does not fit the kernel, the target or the actions before."""
    if any(taken.kind is ActionKind.NOLOCALS for taken in before):
        if action.kind in _LOCAL_ACTIONS or action.kind is ActionKind.NOLOCALS:
            raise Refusal(f"{action.kind.name}: no threads of a block after NOLOCALS")
        made = _applied(sink, action, target)
        if threads_of(made) > 1:
            raise Refusal(f"{action.kind.name}: no threads of a block after NOLOCALS")
        return made
    return _applied(sink, action, target)


def _applied(sink: UOp, action: Action, target: Target) -> UOp:
    """What an action makes of a kernel. Who chose it has tried it: that is remembered, unless rules are being counted.

    (Whether a tensor core may be used is asked of the settings as well.)
    """
    if active() is not None or action.kind is ActionKind.TC:
        return _APPLY[action.kind](sink, action, target)
    known = cast("dict[tuple[UOp, Action], tuple[Target, UOp]]", sink.table.memos.setdefault(_applied, {}))
    found = known.get((sink, action))
    if found is None or found[0] is not target:
        found = known[sink, action] = target, _APPLY[action.kind](sink, action, target)
    return found[1]


def _is_short(node: UOp) -> bool:
    return prod(r.vmax + 1 for r in closed_by(node)) <= _RECOMPUTED


def _is_copy(node: UOp) -> bool:
    """Whether it keeps what it reads of a parameter (STAGE): every block fetches its own piece."""
    if node.op is not Ops.BUFFERIZE:
        return False
    computed = node.src[0].toposort(lambda n: n.op is not Ops.INDEX)
    return not any(n.op in {Ops.REDUCE, Ops.SCAN, Ops.BUFFERIZE, Ops.WMMA} for n in computed)


def to_grid(sink: UOp) -> UOp:
    """The kernel with its output loops as blocks of a grid, as far as that costs nothing."""
    facts = Facts(sink)
    costly = [
        n for n in facts.nodes if n.op in {Ops.REDUCE, Ops.BUFFERIZE} and not _is_short(n) and not _is_copy(n)
    ]
    chosen = [
        r
        for r in facts.axes(AxisType.LOOP)
        if r not in facts.ordered
        and not facts.is_bound(r)
        and all(closing.op is Ops.END for closing in facts.closers.get(r, ()))
        and all(r in closed_by(end) for end in facts.outer_ends)
        and all(r in node.ranges for node in costly)
    ]
    exchange = {r: r.replace(arg=cast("Axis", r.arg)._replace(kind=AxisType.GLOBAL)) for r in chosen}
    return substitute(sink, exchange)


def apply_opts(sink: UOp, actions: Sequence[Action] = (), target: Target = _SCALAR) -> UOp:
    """The kernel after a list of actions, its output loops on the grid if the target has one."""
    for number, action in enumerate(actions):
        sink = apply_action(sink, action, target, actions[:number])
    return to_grid(sink) if target.block else sink
