"""Whether two expressions mean the same: exhaustively over the values of their free nodes, with z3, or on bit patterns.

Points at which the left side divides an index by zero, or leaves the contract of `index` otherwise, count for nothing;
everywhere else the right side has to agree bit for bit (any NaN is as good as another) and must not divide an index
by zero itself. Where the left side is INVALID, so is the right, and nowhere else.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import z3

from planish import dtypes
from planish.dtypes import DType, Kind, PtrDType, float_format, from_numpy
from planish.uop.bounds import LIMIT
from planish.uop.evaluate import evaluate
from planish.uop.node import UOp
from planish.uop.ops import Ops
from tests.uop.proof import z3expr

Array = np.ndarray[Any, np.dtype[Any]]
POINTS = 1 << 17
"""Most points that are looked at one by one."""
PATTERNS = 1 << 12
"""Most points with a float among the free nodes: no number of them is everything."""
FREE = frozenset({Ops.DEFINE_VAR, Ops.INDEX, Ops.LOAD})
LEAST = 4
"""Fewest values that a free node is given when all are crossed."""
JOINT = 1 << 11
COUNTERS = frozenset({Ops.RANGE, Ops.SPECIAL})
DIVISIONS = frozenset({Ops.FLOORDIV, Ops.FLOORMOD, Ops.TRUNCDIV, Ops.TRUNCMOD})

INEXACT = frozenset(op for op in Ops if Ops.CBRT <= op <= Ops.ERFC) | {Ops.POW, Ops.RSQRT, Ops.ATAN2}
"""Ops whose float64 results are good to a unit in the last place; in shorter formats they are rounded correctly."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`how` it was decided: exhaustive, z3, patterns (floats) or unknown; `wrong` describes a counterexample."""

    how: str
    wrong: str | None = None


def free_nodes(*roots: UOp, through_memory: bool = False) -> list[UOp]:
    """The nodes that take values: variables, values in memory, ranges that are open at the roots."""
    found: dict[UOp, None] = {}
    for root in roots:
        opened = root.ranges if root.dtype.kind is not Kind.VOID else frozenset(root.toposort())
        for node in root.toposort(lambda n: n.op not in FREE or through_memory):
            if (
                (node.op in FREE and not node.dtype.is_pointer)
                or node.op is Ops.SPECIAL
                or (node.op is Ops.RANGE and node in opened)
            ):
                found[node] = None
    return list(found)


def domain(node: UOp, most: int, rng: random.Random) -> tuple[Array, bool]:
    """Values for a free node, at most so many, and whether they are all there are."""
    dtype = node.dtype
    if dtype.is_bool:
        return np.array([False, True]), True
    if dtype.is_float or dtype.is_complex:
        return patterns(dtype, min(most, 100), rng), False
    low, high = node._interval()
    if high - low < most:
        return np.arange(low, high + 1) if low > -(2**62) and high < 2**62 else _objects(
            range(low, high + 1)
        ), True
    most = min(most, 200)
    ends = {low, low + 1, high, high - 1, *(n for n in (-2, -1, 0, 1, 2, 7, 8) if low <= n <= high)}
    values = sorted(ends)[: max(most // 2, 4)]
    values += [rng.randint(low, high) for _ in range(max(most - len(values), 0))]
    return _objects(sorted(set(values))), False


def _objects(values: Iterable[int]) -> Array:
    found = list(values)
    result = np.empty(len(found), object)
    result[:] = found
    return result


def patterns(dtype: DType, most: int, rng: random.Random) -> Array:
    """Floats where rules go wrong: NaN, both zeros and infinities, subnormals, extremes, ties, random bits."""
    fmt = float_format(dtype)
    tiny, normal = math.ldexp(1.0, fmt.least), fmt.smallest_normal
    plain = [
        0.0, 1.0, math.inf, math.nan, tiny, 2.0, 0.5, fmt.largest, 3.0, normal, 1 + fmt.eps, 1.5, normal - tiny, 2.5, 0.1,
        1 / fmt.eps + 1, 7.0, math.pi, 1 - fmt.eps / 2, 10.0,
    ]  # fmt: skip
    values = [fmt.round(sign * value) for value in plain for sign in (1, -1)][:most]
    while len(values) < most:
        bits = rng.getrandbits(64)
        values.append(fmt.round(struct.unpack("<d", struct.pack("<Q", bits))[0]) if rng.random() < 0.3 else
                      fmt.round(rng.uniform(-8, 8) * 2.0 ** rng.randint(-12, 12)))  # fmt: skip
    result = np.array(values)
    return (result + 1j * result[::-1]).astype(dtype.numpy) if dtype.is_complex else result


def environment(nodes: list[UOp], rng: random.Random, points: int = POINTS) -> tuple[dict[UOp, Array], bool]:
    """Values for all nodes, each along an axis of its own, and whether that is everything."""
    if any(n.dtype.is_float or n.dtype.is_complex for n in nodes):
        points = min(points, PATTERNS)
    least = math.prod(min(_size(n), LEAST) for n in nodes)
    if least > points:
        # Too many to cross: rows of values drawn together.
        rows = min(points, JOINT)
        drawn = [domain(n, 200, rng)[0] for n in nodes]
        return {
            n: v[[rng.randrange(len(v)) for _ in range(rows)]] for n, v in zip(nodes, drawn, strict=True)
        }, False
    share, rest, env, complete = points, len(nodes), {}, True
    sizes = {n: _size(n) for n in nodes}
    for node in sorted(nodes, key=lambda n: (sizes[n], n.serial)):
        most = max(int(share ** (1 / rest) + 1e-9), LEAST)
        values, whole = domain(node, most, rng)
        complete = complete and whole
        share, rest = max(share // len(values), 1), rest - 1
        axis = nodes.index(node)
        env[node] = values.reshape([-1 if k == axis else 1 for k in range(len(nodes))])
    return env, complete


def _size(node: UOp) -> int:
    bounds = node.bounds
    return 1 << 62 if bounds is None else bounds[1] - bounds[0] + 1


def _is_plain(node: UOp) -> bool:
    """An element of memory at a fixed place, without a gate: a free value."""
    place = node.src[0] if node.op is Ops.LOAD else node
    return (
        len(node.src) == (1 if node.op is Ops.LOAD else 2)
        and len(place.src) == 2
        and place.src[1].op is Ops.CONST
    )


def reads_memory(*roots: UOp) -> bool:
    """Whether buffers need contents: some access is gated, or at an index that varies, or an effect."""
    return any(
        node.op is Ops.STORE
        or (node.op in (Ops.INDEX, Ops.LOAD) and not node.dtype.is_pointer and not _is_plain(node))
        for root in roots
        for node in root.toposort()
    )


def check(
    left: UOp, right: UOp, rng: random.Random | None = None, *, points: int = POINTS, z3_seconds: float = 5.0
) -> Verdict:
    """Whether `right` may stand for `left`."""
    rng = rng or random.Random(0)
    if right.dtype is not left.dtype:
        return Verdict("dtype", f"{left.dtype} became {right.dtype}")
    if left.dtype.kind is Kind.VOID or reads_memory(left, right):
        return in_memory(left, right, rng, points)
    nodes = free_nodes(left)
    strange = [n for n in free_nodes(right) if n not in nodes]
    if strange:
        return Verdict("free", f"the right side knows {strange}, which the left does not")
    env, complete = environment(nodes, rng, points)
    wrong = compare(left, right, env) or _lost_order(left, right)
    if wrong is not None:
        return Verdict("exhaustive" if complete else "sampled", wrong)
    if complete:
        return Verdict("exhaustive")
    if any(n.dtype.is_float or n.dtype.is_complex for n in nodes):
        return Verdict("patterns")
    return by_z3(left, right, z3_seconds)


TRIALS = 6
_EFFECTS = (Ops.STORE, Ops.BARRIER)


def in_memory(left: UOp, right: UOp, rng: random.Random, points: int) -> Verdict:
    """With random contents of all buffers, some times: the value, or what effects leave in memory."""
    buffers = {n for root in (left, right) for n in root.toposort() if n.op is Ops.DEFINE_GLOBAL}
    nodes = [n for n in free_nodes(left, through_memory=True) if n.op not in (Ops.INDEX, Ops.LOAD)]
    env, _ = environment(nodes, rng, min(points, 1 << 10))
    for _ in range(TRIALS):
        contents: dict[UOp, Array] = {b: _contents(b, rng) for b in sorted(buffers, key=lambda n: n.serial)}
        if left.dtype.kind is Kind.VOID:
            wrong = _compare_memory(left, right, env, contents)
        else:
            wrong = compare(left, right, env, contents)
        if wrong is not None:
            return Verdict("memory", wrong)
    return Verdict("memory", _lost_order(left, right))


def _contents(buffer: UOp, rng: random.Random) -> Array:
    dtype = buffer.dtype
    assert isinstance(dtype, PtrDType)
    if dtype.base.is_float:
        values = patterns(dtype.base, 60, rng)
        return values[[rng.randrange(60) for _ in range(dtype.size)]]
    low, high = int(dtype.base.min or 0), int(dtype.base.max or 0)
    return np.array([rng.randint(low, high) for _ in range(dtype.size)]).astype(dtype.base.numpy)


def _lost_order(left: UOp, right: UOp) -> str | None:
    """AFTER, END and bundles order effects: none of those may get lost on the way."""
    if left.op is Ops.STORE:
        return None
    before, after = ({n for n in root.toposort() if n.op in _EFFECTS} for root in (left, right))
    if left.op is Ops.BARRIER:
        before, after = before - {left}, after - {right}
    return None if before == after else f"the effects {before} became {after}"


def _compare_memory(left: UOp, right: UOp, env: dict[UOp, Array], contents: dict[UOp, Array]) -> str | None:
    shape = np.broadcast_shapes(*(v.shape for v in env.values())) if env else ()
    before, after = _run(left, env, contents, shape), _run(right, env, contents, shape)
    for buffer, start in contents.items():
        x, y = (m.get(buffer, np.broadcast_to(start, (*shape, len(start)))) for m in (before, after))
        same = _same(from_numpy(start.dtype), x, y)
        if not same.all():
            first = _first(~same)
            return f"memory holds {x[first]!r}, then {y[first]!r} at {_point(env, shape, ~same)}"
    return None


def _run(
    root: UOp, env: dict[UOp, Array], contents: dict[UOp, Array], shape: tuple[int, ...]
) -> dict[UOp, Array]:
    """Memory after the effects, at every point of `env`."""
    memory: dict[UOp, Array] = {}
    given = {**env, **contents}
    for node in root.toposort():
        if node.op is not Ops.STORE:
            continue
        place, value, *gate = node.src
        buffer, index, *more = place.src
        open_at = np.ones(shape, bool)
        for condition in (*gate, *more):
            open_at = open_at & evaluate(condition, given)
        where, what = evaluate(index, given), evaluate(value, given)
        open_at = open_at & ~np.ma.getmaskarray(where) & ~np.ma.getmaskarray(what)
        start = contents[buffer]
        held = memory.get(buffer, np.broadcast_to(start, (*shape, len(start)))).copy()
        at = np.broadcast_to(np.ma.getdata(where), shape)
        data = np.broadcast_to(np.ma.getdata(what), shape).astype(start.dtype)
        hit = open_at[..., None] & (at[..., None] == np.arange(len(start)))
        memory[buffer] = np.where(hit, data[..., None], held)
    return memory


def compare(
    left: UOp, right: UOp, points: dict[UOp, Array], contents: dict[UOp, Array] | None = None
) -> str | None:
    """The first point where the two differ, in words."""
    shape = np.broadcast_shapes(*(v.shape for v in points.values())) if points else ()
    env = {**points, **(contents or {})}
    outside = np.broadcast_to(_zero_divisor(left, env) | _beyond_bound(env), shape)
    fresh = _zero_divisor(right, env) & ~outside
    if fresh.any():
        return f"the right side divides by zero at {_point(env, shape, fresh)}"
    before, after = evaluate(left, env), evaluate(right, env)
    lanes = (left.dtype.lanes,) if left.dtype.lanes > 1 else ()
    whole = np.broadcast_shapes(before.shape, after.shape, (*shape, *lanes))
    outside = np.broadcast_to(outside[..., None] if lanes else outside, whole)
    invalid = np.broadcast_to(np.ma.getmaskarray(before), whole)
    if ((np.broadcast_to(np.ma.getmaskarray(after), whole) != invalid) & ~outside).any():
        differ = (np.broadcast_to(np.ma.getmaskarray(after), whole) != invalid) & ~outside
        return f"only one side is INVALID at {_point(env, shape, differ)}"
    x, y = (np.broadcast_to(np.ma.getdata(v), whole) for v in (before, after))
    same = _same(left.dtype, x, y)
    if left.dtype.scalar is dtypes.float64 and any(n.op in INEXACT for n in left.toposort()):
        with np.errstate(all="ignore"):
            same = same | (np.abs(x - y) <= np.spacing(np.abs(x)))
    differ = ~same & ~invalid & ~outside
    if differ.any():
        first = _first(differ)
        return f"{x[first]!r} became {y[first]!r} at {_point(env, shape, differ)}"
    for node, values in ((left, x), (right, y)):
        if node.bounds is not None and node.vmax < LIMIT and values.size:
            inside = (values >= node.vmin) & (values <= node.vmax) | invalid | outside
            if not np.asarray(inside, bool).all():
                return f"a value leaves the bounds {node.bounds} of {node!r}"
    return None


def _same(dtype: DType, x: Array, y: Array) -> Array:
    if not (dtype.is_float or dtype.is_complex):
        return np.asarray(x == y, bool)
    if dtype.is_complex:
        part = dtypes.float32 if dtype.bits == 64 else dtypes.float64
        return _same(part, x.real, y.real) & _same(part, x.imag, y.imag)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    equal = (wide_x == wide_y) & (np.signbit(wide_x) == np.signbit(wide_y))
    return np.asarray(equal | (np.isnan(wide_x) & np.isnan(wide_y)))


def _zero_divisor(root: UOp, env: dict[UOp, Array]) -> Array:
    """Where some division of an index has a zero divisor."""
    found = np.zeros((), bool)
    for node in root.toposort(lambda n: n not in env):
        if node.op in DIVISIONS and node.dtype.is_index and node.src[1].vmin <= 0 <= node.src[1].vmax:
            zero = np.ma.getdata(evaluate(node.src[1], env)) == 0
            found = found | np.asarray(zero.any(-1) if node.dtype.lanes > 1 else zero, bool)
    return found


def _beyond_bound(env: dict[UOp, Array]) -> Array:
    """Where a counter is not below its bound."""
    found = np.zeros((), bool)
    for node, values in env.items():
        if node.op in COUNTERS and node.src[0].op is not Ops.CONST:
            found = found | (values >= evaluate(node.src[0], env))
    return found


def _first(where: Array) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(where)[0])


def _point(env: dict[UOp, Array], shape: tuple[int, ...], where: Array) -> str:
    first = _first(np.broadcast_to(where, where.shape or shape))[: len(shape)]
    names = []
    for node, values in env.items():
        if node.dtype.is_pointer:
            continue
        name = node.arg.name if node.op is Ops.DEFINE_VAR else f"{node.op.name.lower()}{node.serial}"  # type: ignore[attr-defined]
        names.append(f"{name}={np.broadcast_to(values, shape)[first]!r}")
    return ", ".join(names)


def by_z3(left: UOp, right: UOp, seconds: float) -> Verdict:
    """Proved or refuted over all values within the bounds of the free nodes; unknown after so many seconds."""
    leaves: dict[UOp, Any] = {}
    try:
        x, y = z3expr.translate(left, leaves), z3expr.translate(right, leaves)
        solver = z3.Solver()
        solver.set("timeout", int(seconds * 1000))
        for node in free_nodes(left):
            solver.add(z3expr.within_bounds(node, leaves[node]))
            if node.op in COUNTERS:
                solver.add(leaves[node] < z3expr.translate(node.src[0], leaves))
        for node in left.toposort(lambda n: n.op not in FREE):
            if node.op in DIVISIONS and node.dtype.is_index and node.src[1].vmin <= 0 <= node.src[1].vmax:
                solver.add(leaves[node.src[1]] != 0)
    except (z3expr.Untranslatable, KeyError):
        return Verdict("unknown")
    solver.add(x != y)
    answer = solver.check()
    if answer == z3.unsat:
        return Verdict("z3")
    if answer == z3.unknown:
        return Verdict("unknown")
    model = solver.model()
    values = {n: model.eval(leaves[n], model_completion=True) for n in free_nodes(left)}
    return Verdict("z3", "differ at " + ", ".join(f"{n.arg}={v}" for n, v in values.items()))
