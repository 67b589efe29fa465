"""Comparing with torch: the same parameters and inputs, then results and all gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import nn
from planish.frontend import tree
from planish.frontend.transforms import vjp

torch: Any = pytest.importorskip("torch")

TOLERANCE = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-5}


def arrays(shapes: Sequence[tuple[int, ...]], seed: int = 0, dtype: Any = np.float64) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype(dtype) for shape in shapes]


def interpreted(module: Any) -> Any:
    """The same tree for the reference interpreter: nothing is compiled."""
    return tree.map_tree(lambda x: x.to_device("interpreter") if isinstance(x, pn.Tensor) else x, module)


def close(found: Any, wanted: Any, scale: float = 1.0, what: str = "") -> None:
    """Equal up to rounding."""
    wanted = np.asarray(wanted)
    found = np.asarray(found)
    assert found.shape == wanted.shape, what
    assert found.dtype == wanted.dtype, what
    bound = TOLERANCE[wanted.dtype] * scale
    largest = float(np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted)))
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound * largest, err_msg=what)


def flat(made: Any) -> list[Any]:
    """Tensors of nested tuples."""
    if isinstance(made, tuple | list):
        return [leaf for part in made for leaf in flat(part)]
    return [] if made is None else [made]


def same_function(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    given: Sequence[Any],
    *,
    native: bool = False,
    scale: float = 1.0,
) -> None:
    """Results and gradients of functions of arrays; integers are inputs alone."""
    place = (lambda x: x) if native else interpreted
    inputs = [place(pn.asarray(x)) for x in given]
    reference = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in given]
    moving = [n for n, x in enumerate(given) if x.dtype.kind == "f"]
    wanted = flat(theirs(*reference))

    def outputs(*moved: Any) -> tuple[Any, ...]:
        full: list[Any] = list(inputs)
        for number, x in zip(moving, moved, strict=True):
            full[number] = x
        return tuple(flat(ours(*full)))

    found, pull = vjp(outputs, *[inputs[n] for n in moving])
    cotangents = arrays([tuple(x.shape) for x in wanted], 99, given[moving[0]].dtype)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        close(a, b.detach().numpy(), scale, f"result {number}")
    gradients = pull(tuple(place(pn.asarray(c)) for c in cotangents))
    torch.autograd.backward(wanted, [torch.tensor(c) for c in cotangents])
    for number, a in zip(moving, gradients, strict=True):
        b = reference[number].grad
        close(a, np.zeros_like(given[number]) if b is None else b.numpy(), scale, f"gradient {number}")


def same_module(
    ours: nn.Module,
    theirs: Any,
    given: Sequence[Any],
    *,
    dtype: Any = np.float64,
    native: bool = False,
    scale: float = 1.0,
    **options: Any,
) -> None:
    """A module with the state of one of torch: results, gradients of inputs and parameters, and what becomes of buffers."""
    theirs = theirs.to(torch.float64 if dtype == np.float64 else torch.float32)
    generator = np.random.default_rng(5)
    for parameter in theirs.parameters():
        parameter.data = torch.tensor(generator.normal(size=tuple(parameter.shape), scale=0.5)).to(
            parameter.dtype
        )
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    ours = ours.astype(pn.float64 if dtype == np.float64 else pn.float32)
    assert {k: tuple(v.shape) for k, v in state.items()} == {k: v.shape for k, v in ours.state_dict().items()}
    ours.load_state_dict(state)
    names = list(ours.parameters())
    given = [x.astype(dtype) if x.dtype.kind == "f" else x for x in given]
    kept: dict[str, Any] = {}
    reference: Any = torch.func.functional_call

    def our_call(*values: Any) -> Any:
        module = tree.map_tree(lambda x: x, ours)
        paths = module.modules()
        for name, value in zip(names, values, strict=False):
            path, _, last = name.rpartition(".")
            setattr(paths[path], last, value)
        module = module if native else interpreted(module)
        made = module(*values[len(names) :], **options)
        kept.update({name: np.asarray(v) for name, v in module.buffers().items() if not v.scope})
        return made

    def their_call(*values: Any) -> Any:
        return reference(theirs, dict(zip(names, values, strict=False)), values[len(names) :], options)

    ours.train(theirs.training)
    same_function(our_call, their_call, [*[state[n] for n in names], *given], native=native, scale=scale)
