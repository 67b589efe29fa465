"""Every node beside eager torch: a run that finds the first that planish computes otherwise.

Each node is compiled by itself and given what torch made of the nodes before it, so that what differs is its own doing.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import fx

from planish.errors import PlanishError
from planish.torch.forms import Form, form_like
from planish.torch.importing import Import, is_number
from planish.torch.options import BackendOptions
from planish.torch.partition import call, unlowered
from planish.torch.running import attribute, compiled, device_of, is_op

BOUNDS: Final[dict[torch.dtype, float]] = {
    torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-4, torch.complex64: 1e-4,
    torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float8_e4m3fn: 0.25, torch.float8_e5m2: 0.5,
}  # fmt: skip
"""How far apart results may be, as a share of the largest element; integers and bools must be equal."""


class CheckedRunner:
    """A graph, run by torch node by node and compared on the way."""

    def __init__(self, module: fx.GraphModule, options: BackendOptions) -> None:
        self.module = module
        self.options = options
        self.reasons = unlowered(module.graph)

    def __call__(self, given: list[Any]) -> list[Any]:
        values: dict[fx.Node, Any] = {}
        rest = iter(given)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(rest)
            elif node.op == "get_attr":
                values[node] = attribute(self.module, str(node.target))
            elif node.op == "output":
                return list(fx.map_arg(node.args[0], values.__getitem__))
            else:
                values[node] = call(node, values)
                if is_op(node) and node not in self.reasons and not is_number(node):
                    self._compare(node, values)
        raise PlanishError("a graph without an output")

    def _compare(self, node: fx.Node, values: dict[fx.Node, Any]) -> None:
        expected = values[node]
        wanted = list(expected) if isinstance(expected, tuple | list) else [expected]
        for number, (ours, theirs) in enumerate(zip(self._alone(node, values), wanted, strict=True)):
            if not isinstance(theirs, torch.Tensor) or ours is None:
                continue
            apart = _apart(ours, theirs)
            if apart is not None:
                raise _difference(node, number if len(wanted) > 1 else None, theirs, apart)

    def _alone(self, node: fx.Node, values: dict[fx.Node, Any]) -> list[torch.Tensor | None]:
        """The results of one node by planish."""
        writing = Import("torch_node")
        forms: list[Form] = []
        tensors: list[torch.Tensor] = []
        for source in node.all_input_nodes:
            value = values[source]
            if isinstance(value, torch.Tensor):
                forms.append(form_like(value))
                tensors.append(value)
                writing.take(source, forms[-1])
            else:
                writing.values[source] = value
        writing.lower(node)
        lowered = writing.values[node]
        outputs = list(lowered) if isinstance(lowered, tuple | list) else [lowered]
        kept = [value for value in outputs if value is not None]
        fakes = node.meta["val"] if isinstance(node.meta["val"], tuple | list) else [node.meta["val"]]
        results = [
            Form(fake.dtype, tuple(map(int, value.dims)), None, ())
            for fake, value in zip(fakes, outputs, strict=True)
            if value is not None
        ]
        run = compiled(writing.graph.build(*kept), forms, results, self.options, device_of([node]))
        given = iter(run(tensors))
        return [None if value is None else next(given) for value in outputs]


def _apart(ours: torch.Tensor, theirs: torch.Tensor) -> str | None:
    """How two results differ, if they do by more than their dtype allows."""
    if ours.shape != theirs.shape or ours.dtype is not theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)}"
    bound = BOUNDS.get(theirs.dtype)
    if bound is None:
        wrong = int((ours != theirs).sum())
        return f"{wrong} of {theirs.numel()} elements are others" if wrong else None
    kind = torch.complex128 if theirs.is_complex() else torch.float64
    left, right = ours.to(kind), theirs.to(kind)
    same = (left == right) | (left.isnan() & right.isnan())
    away = torch.where(same, torch.zeros_like(left), left - right).abs()
    finite = right.abs()[right.isfinite()]
    scale = max(float(finite.max()) if finite.numel() else 0.0, 1e-30)
    worst = float(away.max()) if away.numel() else 0.0
    return (
        None
        if worst <= bound * scale
        else f"the largest difference is {worst:.3g} (largest element {scale:.3g})"
    )


def _difference(node: fx.Node, number: int | None, theirs: torch.Tensor, apart: str) -> PlanishError:
    which = "" if number is None else f", result {number}"
    line = (node.meta.get("stack_trace") or "").strip().splitlines()
    told = f"; asked for by {line[-2].strip()} {line[-1].strip()}" if len(line) > 1 else ""
    return PlanishError(
        f"{node.name} ({node.target}){which} differs from eager torch: {theirs.dtype}{list(theirs.shape)}, {apart}{told}",
        op=str(node.target),
        remedy="report it with the op and shapes; without it the program runs by torch.compile(..., backend='aot_eager')",
    )
