"""Programs that torch.export made: loaded, they are planish functions with named parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import torch
import torch.utils._pytree as pytree
from torch import fx

from planish.errors import PlanishError
from planish.torch import decompositions
from planish.torch.options import BackendOptions
from planish.torch.registry import find
from planish.torch.running import Runner


class TorchProgram:
    """An exported program, compiled: call it as the module was called."""

    def __init__(self, exported: torch.export.ExportedProgram, options: BackendOptions) -> None:
        written = exported.run_decompositions(_decompositions())
        self._signature = written.graph_signature
        self._spec = written.call_spec
        self._run = Runner(written.graph_module, options)
        self._state: dict[str, torch.Tensor] = {**written.state_dict, **written.constants}
        self._own = list(written.state_dict)
        self._expected = [
            _Expected(spec.arg, self._run.inputs[place], written.range_constraints)
            for place, spec in enumerate(self._signature.input_specs)
            if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT
        ]

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
        order = self._spec.in_spec.children()[1].context
        if len(order) == len(named) and named.keys() == set(order):
            named = {name: named[name] for name in order}  # as the export had them
        leaves, spec = pytree.tree_flatten((args, named))
        if spec != self._spec.in_spec:
            raise PlanishError(
                f"the program was exported for {_told(self._spec.in_spec)}, and is called with {_told(spec)}",
                remedy="call it as the module was called for torch.export",
            )
        for expected, value in zip(self._expected, leaves, strict=True):
            expected.check(value)
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
        for output, value in zip(state.output_specs, self._run(inputs), strict=True):
            if output.kind is torch.export.graph_signature.OutputKind.BUFFER_MUTATION:
                self._state[str(output.target)] = value
            elif output.kind is torch.export.graph_signature.OutputKind.USER_INPUT_MUTATION:
                inputs[[node.name for node in self._run.inputs].index(str(output.target))].copy_(value)
            else:
                results.append(value)
        return pytree.tree_unflatten(results, self._spec.out_spec)


def _decompositions() -> dict[Any, Any]:
    """torch.export keeps whatever its table does not name: also what elsewhere falls apart by itself (`layer_norm`, `conv2d`, …).

    That is written out before the program is made functional, which takes torch's own way to do so.
    """
    usual = torch.export.default_decompositions()
    own = decompositions.table()
    composite = {op: usual[op] for op in usual if find(op) is None and _is_composite(op)}
    return {**own, **composite}


def _is_composite(op: Any) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


class _Expected:
    """What an argument must be: a tensor of a dtype and of sizes within bounds, or the constant of the export."""

    def __init__(self, told: Any, node: fx.Node, bounds: Mapping[Any, Any]) -> None:
        self.name = str(told.name)
        fake = node.meta.get("val")
        self.constant = None if isinstance(fake, torch.Tensor | torch.SymInt | torch.SymFloat) else told
        self.dtype = fake.dtype if isinstance(fake, torch.Tensor) else None
        self.sizes = [_bounds(size, bounds) for size in fake.shape] if isinstance(fake, torch.Tensor) else []

    def check(self, given: Any) -> None:
        if self.constant is not None:
            if given != self.constant.value:
                raise PlanishError(
                    f"{self.name} is {given!r}; the program was exported for {self.constant.value!r}",
                    remedy="export it again for another value",
                )
            return
        if self.dtype is None:
            return
        if not isinstance(given, torch.Tensor):
            raise PlanishError(f"{self.name} is {type(given).__name__}, a tensor is expected")
        fits = given.dtype is self.dtype and len(given.shape) == len(self.sizes)
        if not fits or not all(
            low <= size <= high for size, (low, high) in zip(given.shape, self.sizes, strict=True)
        ):
            sizes = ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in self.sizes)
            raise PlanishError(
                f"{self.name} is {given.dtype}{list(given.shape)}, {self.dtype}[{sizes}] is expected"
            )


def _bounds(size: Any, bounds: Mapping[Any, Any]) -> tuple[float, float]:
    """The least and the greatest that a size may be."""
    if isinstance(size, int):
        return size, size
    interval = bounds.get(size.node.expr)
    if interval is None:
        return 0, math.inf
    return tuple(int(end) if end.is_Integer else math.inf for end in (interval.lower, interval.upper))  # type: ignore[return-value]


def _told(spec: pytree.TreeSpec) -> str:
    """How a call looks: how many arguments by position, and the names of others."""
    positional, named = spec.children()
    many = f"{positional.num_children} argument{'s' * (positional.num_children != 1)} by position"
    return many + (f" and {', '.join(named.context)} by name" if named.context else "")


def load(
    program: torch.export.ExportedProgram | str | PathLike[str], *, threads: int | None = None, beam: int = 0
) -> TorchProgram:
    """A program of torch.export, or the file it was saved in (`.pt2`), as a planish function."""
    if not isinstance(program, torch.export.ExportedProgram):
        if not isinstance(program, str | PathLike):
            raise PlanishError(
                f"{type(program).__name__} is not a program of torch.export",
                remedy="give what torch.export.export(module, args) makes, or the path of a .pt2 file",
            )
        try:
            program = torch.export.load(program)
        except (OSError, RuntimeError, ValueError, KeyError, BadZipFile) as error:
            raise PlanishError(
                f"{program} is not a program of torch.export: {error}",
                remedy="save one with torch.export.save",
            ) from error
    return TorchProgram(program, BackendOptions.of({"threads": threads, "beam": beam}))
