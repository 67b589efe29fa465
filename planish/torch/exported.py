"""Programs that torch.export made: loaded, they are planish functions with named parameters."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
import torch.utils._pytree as pytree

from planish.errors import PlanishError
from planish.torch import decompositions
from planish.torch.options import Options
from planish.torch.running import Runner


class Program:
    """An exported program, compiled: call it as the module was called."""

    def __init__(self, exported: torch.export.ExportedProgram, options: Options) -> None:
        written = exported.run_decompositions(decompositions.table())
        self._signature = written.graph_signature
        self._spec = written.call_spec
        self._run = Runner(written.graph_module, options)
        self._state: dict[str, torch.Tensor] = {**written.state_dict, **written.constants}
        self._own = list(written.state_dict)

    def __repr__(self) -> str:
        return f"<program of torch.export: {len(self.parameters)} parameters>"

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Parameters by name."""
        return {name: self._state[name] for name in self._signature.parameters}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by name."""
        return {name: self._state[name] for name in self._own}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Other values for parameters and buffers: all of them, of the same shapes and dtypes."""
        missing, unknown = sorted(set(self._own) - set(state)), sorted(set(state) - set(self._own))
        if missing or unknown:
            raise PlanishError(
                f"the state does not fit the program: missing {missing}, unknown {unknown}",
                remedy=f"it has {', '.join(self._own)}",
            )
        for name, tensor in state.items():
            own = self._state[name]
            if (own.shape, own.dtype) != (tensor.shape, tensor.dtype):
                raise PlanishError(
                    f"{name} is {tensor.dtype}{list(tensor.shape)}, {own.dtype}{list(own.shape)} is expected"
                )
            self._state[name] = tensor.detach()

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, named))
        if spec != self._spec.in_spec:
            raise PlanishError(f"the arguments are {spec}, {self._spec.in_spec} is expected")
        given = iter(leaves)
        state = self._signature
        names = {
            **state.inputs_to_parameters,
            **state.inputs_to_buffers,
            **state.inputs_to_lifted_tensor_constants,
        }
        inputs = [
            self._state[names[node.name]] if node.name in names else next(given) for node in self._run.inputs
        ]
        results: list[Any] = []
        for output, found in zip(state.output_specs, self._run(inputs), strict=True):
            if output.kind is torch.export.graph_signature.OutputKind.BUFFER_MUTATION:
                self._state[str(output.target)] = found
            elif output.kind is torch.export.graph_signature.OutputKind.USER_INPUT_MUTATION:
                inputs[[node.name for node in self._run.inputs].index(str(output.target))].copy_(found)
            else:
                results.append(found)
        return pytree.tree_unflatten(results, self._spec.out_spec)


def load(
    program: torch.export.ExportedProgram | str | PathLike[str], *, threads: int | None = None, beam: int = 0
) -> Program:
    """A program of torch.export, or the file it was saved in (`.pt2`), as a planish function."""
    if not isinstance(program, torch.export.ExportedProgram):
        if not isinstance(program, str | PathLike):
            raise PlanishError(
                f"{type(program).__name__} is not a program of torch.export",
                remedy="give what torch.export.export(module, args) makes, or the path of a .pt2 file",
            )
        try:
            program = torch.export.load(program)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise PlanishError(
                f"{program} is not a program of torch.export: {error}",
                remedy="save one with torch.export.save",
            ) from error
    return Program(program, Options.of({"threads": threads, "beam": beam}))
