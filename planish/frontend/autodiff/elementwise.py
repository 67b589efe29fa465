"""Derivatives of elementwise ops: per operand, t · ∂y/∂x (None: no derivative). One table serves both directions.

At ties and edges they are what torch has: half of it to each of two equal operands of max and min, 0 for |x| at 0. What is
not differentiable in the complex sense (|z|, z/|z|) has rules by direction, in `CURVED`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from planish.frontend.autodiff.instruction import Pull, Push, RuleSite, Scaled, the_only, where, zeros
from planish.ptir.graph_value import GraphValue as V
from planish.scalars import FUNCTIONS, Scalar
from planish.scalars.record import Slope


def _shared(t: V, at: RuleSite, mine: V) -> V:
    """All of it where this operand was chosen, half where both are equal."""
    x, y = at.x
    return x.eq(y).select(t.mul(0.5), where(mine, t))


def _pow_base(t: V, at: RuleSite) -> V:
    x, p = at.x
    one = at.graph.full(t.dims, 1, t.dtype)
    # where the exponent is 0 the power is 1 everywhere, and its slope 0, whatever x ** -1 is
    slope = p.mul(x.pow(p.eq(0).select(one, p.sub(1))))
    return where(p.ne(0), t.mul(slope))


def _pow_exponent(t: V, at: RuleSite) -> V:
    x, p = at.x
    one = at.graph.full(t.dims, 1, t.dtype)
    if t.dtype.is_complex:
        return t.mul(at.y[0].mul(x.eq(0).select(one, x).log()))
    flat = x.eq(0).and_(p.ge(0))
    return where(flat.not_(), t.mul(at.y[0].mul(flat.select(one, x).log())))


def _copysign(t: V, at: RuleSite) -> V:
    x, y = at.x[0], at.y[0]
    return where(x.ne(0), t.mul(x.sign().mul(y.sign())))


def _of_max(mine: int) -> Scaled:
    return lambda t, at: _shared(t, at, at.x[mine].gt(at.x[1 - mine]).or_(at.x[mine].ne(at.x[mine])))


def _of_min(mine: int) -> Scaled:
    return lambda t, at: _shared(t, at, at.x[mine].lt(at.x[1 - mine]).or_(at.x[mine].ne(at.x[mine])))


def _same(t: V, at: RuleSite) -> V:
    return t


def _negated(t: V, at: RuleSite) -> V:
    return t.neg()


def _slopes(of: Scalar) -> tuple[Scaled | None, ...]:
    """The slopes of a scalar function as rules."""

    def rule(slope: Slope) -> Scaled:
        return lambda t, at: cast("V", slope(t, *at.x, at.y[0]))

    return tuple([slope and rule(slope) for slope in of.slopes])


DERIVATIVES: Final[Mapping[str, tuple[Scaled | None, ...]]] = {
    "add": (_same, _same),
    "sub": (_same, _negated),
    "mul": (lambda t, at: t.mul(at.x[1]), lambda t, at: t.mul(at.x[0])),
    "div": (lambda t, at: t.div(at.x[1]), lambda t, at: t.mul(at.y[0]).div(at.x[1]).neg()),
    "pow": (_pow_base, _pow_exponent),
    "max": (_of_max(0), _of_max(1)),
    "min": (_of_min(0), _of_min(1)),
    "copysign": (_copysign, None),
    "floor_mod": (_same, lambda t, at: t.mul(at.x[0].div(at.x[1]).floor()).neg()),
    "trunc_mod": (_same, lambda t, at: t.mul(at.x[0].div(at.x[1]).trunc()).neg()),
    "nextafter": (_same, None),
    "neg": (_negated,),
    **{name: _slopes(of) for name, of in FUNCTIONS.items() if of.slopes},
}


def inner(z: V, w: V) -> V:
    """Re(z̄·w): the plane's inner product."""
    return z.real().mul(w.real()).add(z.imag().mul(w.imag()))


def _push_abs(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    x, given = at.x[0], the_only(t)
    return [inner(x.sign(), given) if x.dtype.is_complex else given.mul(x.sign())]


def _pull_abs(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    x, given = at.x[0], the_only(c)
    return [x.sign().mul(given.cast(x.dtype)) if x.dtype.is_complex else given.mul(x.sign())]


def _sign(at: RuleSite, given: V) -> V | None:
    """What of t is at a right angle to z, over |z|; its own transpose."""
    x, y = at.x[0], at.y[0]
    if not x.dtype.is_complex:
        return None
    size = x.abs()
    safe = size.eq(0).select(at.graph.full(size.dims, 1, size.dtype), size)
    across = given.sub(y.mul(inner(y, given).cast(x.dtype))).div(safe.cast(x.dtype))
    return size.eq(0).select(zeros(at.graph, x.type), across)


CURVED: Final[Mapping[str, tuple[Push, Pull]]] = {
    "abs": (_push_abs, _pull_abs),
    "sign": (lambda at, t: [_sign(at, the_only(t))], lambda at, c, needs: [_sign(at, the_only(c))]),
}
