"""FX nodes become one PTIR function: by the table of lowerings, node by node."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Final

import torch
from torch import fx

from planish import ptir
from planish.errors import Location, PlanishError
from planish.ptir.builder import Graph
from planish.ptir.graph_value import GraphValue as V
from planish.torch import ops as _filled  # noqa: F401
from planish.torch.any_size import NamedSizes
from planish.torch.forms import Form
from planish.torch.kinds import TO_PLANISH
from planish.torch.registry import LeftToTorch, find
from planish.torch.site import FxSite

Value = Any
"""What a node stands for while importing: a value of the graph, a number, or a sequence of such."""


def is_number(node: fx.Node) -> bool:
    """Whether a node stands for a number, not for tensors."""
    return isinstance(
        node.meta.get("val"), int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool
    )


class Import:
    """A PTIR function under construction, and what the nodes so far stand for."""

    def __init__(self, name: str, names: NamedSizes | None = None) -> None:
        self.graph = Graph(name)
        self.names = names
        """Where sizes have names: what they are in PTIR."""
        self.values: dict[fx.Node, Value] = {}
        self.inputs: list[fx.Node] = []

    def take(self, node: fx.Node, form: Form) -> None:
        """A tensor that comes from outside."""
        self.values[node] = form.read(self.graph, f"x{len(self.inputs)}")
        self.inputs.append(node)

    def lower(self, node: fx.Node) -> None:
        """Write one node; `LeftToTorch` if planish does not do it."""
        self.graph.place = Location("graph", 1, None, node.name)
        self.values[node] = self._lowered(node)

    def _lowered(self, node: fx.Node) -> Value:
        if node.target is operator.getitem:
            return self.value(node.args[0])[node.args[1]]
        lowering = find(node.target)
        if lowering is None:
            raise LeftToTorch("there is no lowering", op=str(node.target))
        _check_results(node)
        args = [self.value(argument) for argument in node.args]
        named = {_ALIASES.get(name, name): self.value(argument) for name, argument in node.kwargs.items()}
        at = FxSite(self.graph, node)
        try:
            lowered = lowering(at, *args, **named)
        except PlanishError as error:
            raise LeftToTorch(error.message, op=str(node.target)) from error
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError) as error:
            raise LeftToTorch(f"{type(error).__name__}: {error}", op=str(node.target)) from error
        _check_shapes(node, lowered, self.names)
        return lowered

    def value(self, argument: Any) -> Value:
        """An argument, its nodes replaced by what they stand for."""
        if isinstance(argument, fx.Node):
            value = self.values.get(argument)
            is_told = argument in self.values and (value is not None or argument.meta.get("val") is None)
            if not is_told:
                raise LeftToTorch(f"{argument.name} is known at run time only")
            return value
        if isinstance(argument, list | tuple):
            return [self.value(item) for item in argument]
        return argument

    def build(self, results: Iterable[tuple[fx.Node, Form]]) -> ptir.Function:
        """The function with these results."""
        return self.graph.build(*(form.write(self.values[node]) for node, form in results))


_ALIASES: Final = {"self": "x", "input": "x", "other": "y", "a": "x", "mat2": "y", "UPLO": "triangle"}
"""Names of operands in schemas, and what lowerings call them."""


def _check_results(node: fx.Node) -> None:
    """Results must be dense tensors of dtypes that programs have, on the CPU or a GPU."""
    result = node.meta.get("val")
    for fake in result if isinstance(result, tuple | list) else [result]:
        if fake is None or isinstance(fake, int | float | bool):
            continue
        if not isinstance(fake, torch.Tensor):
            raise LeftToTorch(f"gives {type(fake).__name__}, not a tensor")
        if fake.dtype not in TO_PLANISH:
            raise LeftToTorch(f"there is no dtype {fake.dtype}")
        if fake.device.type not in ("cpu", "cuda"):
            raise LeftToTorch(f"on the device {fake.device}")
        if fake.layout is not torch.strided:
            raise LeftToTorch(f"the layout {fake.layout}")


def _check_shapes(node: fx.Node, lowered: Value, names: NamedSizes | None) -> None:
    """What was written must be what torch says: a lowering that is wrong must not go unnoticed."""
    expected = node.meta.get("val")
    told = list(expected) if isinstance(expected, tuple | list) else [expected]
    outputs = list(lowered) if isinstance(lowered, tuple | list) else [lowered]
    if len(told) != len(outputs):
        raise LeftToTorch(f"has {len(told)} results, not {len(outputs)}", op=str(node.target))
    for fake, value in zip(told, outputs, strict=True):
        if not isinstance(fake, torch.Tensor):
            continue
        if not isinstance(value, V):
            raise LeftToTorch("a result is missing", op=str(node.target))
        if value.dtype is not TO_PLANISH[fake.dtype]:
            raise LeftToTorch(f"a result is {value.type}, not {fake.dtype}", op=str(node.target))
        sizes = tuple(fake.shape) if names is None else names.shape(fake.shape)
        if (names is not None or all(isinstance(size, int) for size in sizes)) and sizes != value.dims:
            raise LeftToTorch(f"a result is {value.type}, not {list(sizes)}", op=str(node.target))
