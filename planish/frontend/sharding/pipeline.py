"""Pipelines out of specs: stages side by side along an axis of the mesh, and batches that go through them one after the other.

All stages are one function over stacked parameters, run at once on what each has in hand; then everything moves on by one. Where
the stack is cut over ranks, a rank computes its stages, and moving on is a `permute` to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planish.errors import Location, ShapeError
from planish.frontend.control import scan
from planish.frontend.sharding.arrays import with_sharding
from planish.frontend.sharding.mesh import Mesh, P, current_mesh
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import arange, zeros
from planish.frontend.tensor.elementwise import where
from planish.frontend.tensor.manipulation import concat
from planish.frontend.tensor.statistics import sum as sum_of
from planish.frontend.transforms import vmap
from planish.frontend.tree import leaves
from planish.ptir import ops


def pipeline(
    stage: Callable[[Any, Tensor], Tensor],
    params: Any,
    batches: Tensor,
    *,
    axis: str = "pipe",
    mesh: Mesh | None = None,
) -> Tensor:
    """Batches (their first axis) through all stages: stage(params[n], ·) of stage n = 0, 1 …, each as the last gives it on.

    Every tensor of `params` has the stages as its first axis; a stage gives what it takes, in shape and dtype. With k stages and m batches
    it takes m + k - 1 steps. `axis` of the mesh is what stages are cut along, where there is a mesh that has it.
    """
    tensors = leaves(params)
    counts = {tensor.shape[0] for tensor in tensors}
    if len(counts) != 1:
        raise ShapeError(
            f"pipeline: the parameters are of {' and '.join(map(str, sorted(counts))) or 'no'} stages",
            location=Location.caller(),
            remedy="stack those of all stages along their first axis",
        )
    (count,) = counts
    found = mesh or current_mesh()
    spec = P(axis) if found is not None and axis in found.names else None
    shape = batches.shape[1:]
    place = arange(count).reshape(count, *[1] * len(shape))
    idle = zeros((count - 1, *shape), dtype=batches.dtype)

    def placed(x: Tensor) -> Tensor:
        return x if spec is None else with_sharding(x, spec, mesh=found)

    def step(hands: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        taken = placed(where(place == 0, batch, _moved_on(hands)))
        made = placed(vmap(stage)(params, taken))
        # the last stage's, as a sum: what is cut need not be gathered
        return made, sum_of(where(place == count - 1, made, zeros((), dtype=made.dtype)), axis=0)

    start = placed(zeros((count, *shape), dtype=batches.dtype))
    _, results = scan(step, start, concat([batches, idle]) if count > 1 else batches)
    made: Tensor = results[count - 1 :]
    return made


def _moved_on(hands: Tensor) -> Tensor:
    """Everything to the next place; 0 comes in at the first."""
    ends = (1, *[0] * (hands.ndim - 1))
    attrs = ops.PadAttrs(ends, tuple([-end for end in ends]), (0,) * hands.ndim)
    return Tensor.apply(ops.pad, hands, zeros((), dtype=hands.dtype), attrs=attrs)


__all__ = ["pipeline"]
