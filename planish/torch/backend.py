"""The backend that torch.compile calls: AOTAutograd makes forward and backward graphs of ATen ops, planish compiles both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from planish.torch import decompositions
from planish.torch.options import Options
from planish.torch.running import Runner


def planish_backend(
    module: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What `torch.compile(..., backend="planish")` calls with a graph that was captured."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    chosen = Options.of(options)

    def compile_graph(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        runner = Runner(graph, chosen)

        def boxed(given: list[Any]) -> list[Any]:
            return runner(given)

        boxed._boxed_call = True  # type: ignore[attr-defined]
        return boxed

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=compile_graph,
        bw_compiler=compile_graph,
        decompositions=decompositions.table(),
        partition_fn=min_cut_rematerialization_partition,
    )(module, inputs)
    return compiled
