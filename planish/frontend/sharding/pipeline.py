"""Pipelines out of specs: stages side by side along an axis of the mesh, and batches that go through them one after the other.

All stages are one function over stacked parameters, run at once on what each has in hand; then everything moves on by one. Where
the stack is cut over ranks, a rank computes its stages, and moving on is a `permute` to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from planish.errors import ShapeError
from planish.frontend import tree
from planish.frontend.control import scan
from planish.frontend.sharding.arrays import with_sharding
from planish.frontend.sharding.mesh import Mesh, P, current_mesh
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import arange, zeros
from planish.frontend.tensor.elementwise import where
from planish.frontend.tensor.manipulation import concat, expand_dims
from planish.frontend.tensor.statistics import sum as sum_of
from planish.frontend.tensor.transfer import asarray
from planish.frontend.transforms import vmap
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
    it takes m + k - 1 steps: many small batches keep all stages busy. `axis` of the mesh is what stages are cut along, where there is a mesh that has it.
    """
    mesh = mesh or current_mesh()
    spec = P(axis) if mesh is not None and axis in mesh.names else None
    ranks = 1 if mesh is None or spec is None else dict(mesh.axes)[axis]
    found_leaves, structure = tree.flatten(params)
    tensors, batches = [asarray(leaf) for leaf in found_leaves], asarray(batches)
    params = tree.unflatten(structure, tensors)
    count = _stages([tensor.shape for tensor in tensors], axis, ranks)
    if batches.ndim == 0 or batches.shape[0] == 0:
        raise ShapeError.at_caller(
            f"pipeline: there are no batches in shape {batches.shape}",
            "the first axis counts batches: x.reshape(count, -1, *x.shape[1:])",
        )
    shape = batches.shape[1:]
    place = arange(count).reshape(count, *[1] * len(shape))
    idle, none = zeros((count - 1, *shape), dtype=batches.dtype), zeros((), dtype=batches.dtype)

    def step(hands: Tensor, fed: Tensor) -> tuple[Tensor, Tensor]:
        # a sum, since what moves on leaves 0 at the first place: its derivative is a move back and nothing else
        taken = _moved_on(hands) + fed
        outputs = vmap(stage)(params, taken)
        if (outputs.shape, outputs.dtype) != (taken.shape, taken.dtype):
            raise ShapeError.at_caller(
                f"pipeline: a stage takes {taken.dtype.name} {shape} and gives {outputs.dtype.name} {outputs.shape[1:]}",
                "what one stage gives the next one takes: keep shape and dtype",
            )
        return outputs, outputs

    start = zeros((count, *shape), dtype=batches.dtype)
    if spec is not None:
        start = with_sharding(start, spec, mesh=mesh)
    # batches for the first stage and those of the last, as a sum, outside of the loop: what is cut need not be gathered in every step
    given = concat([batches, idle]) if count > 1 else batches
    _, results = scan(step, start, where(place == 0, expand_dims(given, axis=1), none))
    final: Tensor = sum_of(where(place == count - 1, results[count - 1 :], none), axis=1)
    return final


def _stages(shapes: Sequence[tuple[int, ...]], axis: str, ranks: int) -> int:
    """How many stages parameters of such shapes are of."""
    counts = {shape[0] if shape else 0 for shape in shapes}
    if len(counts) != 1 or 0 in counts:
        raise ShapeError.at_caller(
            f"pipeline: the parameters are of {' and '.join(map(str, sorted(counts))) or 'no'} stages",
            "stack those of all stages along their first axis",
        )
    (count,) = counts
    if count % ranks:
        raise ShapeError.at_caller(
            f"pipeline: {count} stages do not divide over {axis} ({ranks})",
            f"make it {-(-count // ranks) * ranks} stages, or put several layers into one",
        )
    return count


def _moved_on(hands: Tensor) -> Tensor:
    """Everything to the next place; 0 comes in at the first."""
    ends = (1, *[0] * (hands.ndim - 1))
    attrs = ops.PadAttrs(ends, tuple([-end for end in ends]), (0,) * hands.ndim)
    return Tensor.apply(ops.pad, hands, zeros((), dtype=hands.dtype), attrs=attrs)
