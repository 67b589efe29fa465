"""Derivatives of what happens between ranks.

The function differentiated is that of all ranks together: a cotangent that some rank has for what another gave goes back to that
one. What moves data goes back the way it came; what combines sends every rank the sum of all cotangents, times how the result
moves with what the rank gave: 1 for a sum, a share for an extreme, the product of all others for a product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planish.frontend.autodiff.instruction import Pull, Push, RuleSite, the_only, where
from planish.frontend.autodiff.linear import Linearity
from planish.ptir.graph_value import GraphValue as V


def _gathered(at: RuleSite, c: V, n: int) -> V:
    of = at.attrs
    return c.reduce_scatter(of.mesh, of.over, of.axis)


def _exchanged(at: RuleSite, c: V, n: int) -> V:
    of = at.attrs
    return c.all_to_all(of.mesh, of.over, of.concat, of.split)


def _permuted(at: RuleSite, c: V, n: int) -> V:
    of = at.attrs
    return c.permute(of.mesh, of.over, [(target, source) for source, target in of.pairs])


def _broadcast(at: RuleSite, c: V, n: int) -> V:
    """The sum of all cotangents, on the rank that all values came from."""
    of = at.attrs
    total = c.all_reduce(of.mesh, of.over)
    here = at.graph.mesh_index(of.mesh, of.over).eq(of.root)
    return where(here.broadcast_to(total.dims), total)


LINEAR_COLLECTIVES: Final[Mapping[str, Linearity]] = {
    "all_gather": Linearity(_gathered),
    "all_to_all": Linearity(_exchanged),
    "permute": Linearity(_permuted),
    "broadcast": Linearity(_broadcast),
    "sharding": Linearity(lambda at, c, n: c.sharding(at.attrs.mesh, at.attrs.spec)),
    "to_device": Linearity(lambda at, c, n: c.to_device(like=at.x[0])),
}


def _whole(at: RuleSite, value: V) -> V:
    """A result, or what is like it, in the shape of the operand."""
    of: Any = at.attrs
    return value.all_gather(of.mesh, of.over, of.axis) if at.inst.op.name == "reduce_scatter" else value


def _slope(at: RuleSite) -> V | None:
    """How the result moves with what this rank gave; None for 1."""
    of, x = at.attrs, at.x[0]
    if of.kind == "sum":
        return None
    if of.kind == "prod":
        line = x.reshape([1, *x.dims]).all_gather(of.mesh, of.over, 0)
        others = line.cumprod(0, exclusive=True).mul(line.cumprod(0, reverse=True, exclusive=True))
        place = at.graph.mesh_index(of.mesh, of.over)
        start = [place, *[at.graph.full((), 0, place.dtype)] * x.rank]
        return others.dynamic_slice(start, [1, *x.dims]).reshape(x.dims)
    best = _whole(at, at.y[0])
    chosen = x.eq(best).or_(x.is_nan().and_(best.is_nan())).cast(x.dtype)
    return chosen.div(chosen.all_reduce(of.mesh, of.over))


def _pull(at: RuleSite, c: Sequence[V | None], needs: Sequence[bool]) -> list[V | None]:
    of, given = at.attrs, the_only(c)
    scattered = at.inst.op.name == "reduce_scatter"
    total = _whole(at, given) if scattered else given.all_reduce(of.mesh, of.over)
    slope = _slope(at)
    if slope is None:
        return [total]
    return [total.mul(slope.conj() if slope.dtype.is_complex else slope)]


def _push(at: RuleSite, t: Sequence[V | None]) -> list[V | None]:
    of, slope, given = at.attrs, _slope(at), the_only(t)
    moved = given if slope is None else given.mul(slope)
    if at.inst.op.name == "reduce_scatter":
        return [moved.reduce_scatter(of.mesh, of.over, of.axis)]
    return [moved.all_reduce(of.mesh, of.over)]


COLLECTIVES: Final[Mapping[str, tuple[Push, Pull]]] = {
    "all_reduce": (_push, _pull),
    "reduce_scatter": (_push, _pull),
}
