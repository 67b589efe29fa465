"""The backend that torch.compile calls: AOTAutograd makes forward and backward graphs of ATen ops, planish compiles both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import fx

from planish.errors import PlanishError
from planish.torch import decompositions, mutations, saved
from planish.torch.options import BackendOptions
from planish.torch.running import Runner

M = TypeVar("M", bound=Callable[..., Any])


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """A function of one list, as AOTAutograd knows it by its mark."""

    def called(given: list[Any]) -> list[Any]:
        return run(given)

    called._boxed_call = True  # type: ignore[attr-defined]
    return called


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

    chosen = BackendOptions.of(options)
    _check_place(inputs, chosen)

    def compile_graph(graph: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        if chosen.check:
            from planish.torch.checking import CheckedRunner

            return boxed(CheckedRunner(graph, chosen))
        saved.take_orders(graph.graph, examples)
        saved.choose_orders(graph.graph)
        saved.report(graph.graph)
        writes = mutations.take_writes(graph)
        return boxed(mutations.with_writes(Runner(graph, chosen), writes))

    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=compile_graph,
        bw_compiler=compile_graph,
        decompositions=decompositions.table(),
        keep_inference_input_mutations=True,
        partition_fn=min_cut_rematerialization_partition,
    )(module, inputs)
    return compiled


def _check_place(inputs: Sequence[Any], chosen: BackendOptions) -> None:
    """Tensors are not moved: where the user names a device, they must be there."""
    if chosen.device in (None, "interpreter"):
        return
    for given in inputs:
        if isinstance(given, torch.Tensor) and given.device.type != str(chosen.device).partition(":")[0]:
            raise PlanishError(
                f"a tensor is on {given.device}, the option device is {chosen.device!r}",
                remedy=f"move the module and what it is given with .to({chosen.device!r}), or leave the option out",
            )


def compile(
    model: M,
    *,
    threads: int | None = None,
    beam: int = 0,
    device: str | None = None,
    check: bool = False,
    fullgraph: bool = False,
    dynamic: bool | None = None,
) -> M:
    """`torch.compile` with planish as the backend: a module or a function that runs as machine code of planish's.

    `threads` per call, `beam` for a search of schedules, `device="interpreter"` for the reference interpreter (else the tensors' own), `check` to compare
    every node with eager torch; `fullgraph` and `dynamic` are torch's.
    """
    options: Any = {"threads": threads, "beam": beam, "device": device, "check": check}
    compiled: Any = torch.compile(
        model, backend=planish_backend, options=options, fullgraph=fullgraph, dynamic=dynamic
    )
    return cast(M, compiled)
