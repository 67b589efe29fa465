"""Functions that start from the GPU's own estimates: their largest errors over float32 arguments of all sizes, held against docs/gpu.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planish as pn

torch = pytest.importorskip("torch")

GPU = "cuda:0"
_AT_ONCE = 1 << 26
_EVERY = 5
"""Arguments are tried by this step: all of a size, sign and neighbourhood, not all."""
_ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
BOUNDS = {
    name: float(bound)
    for name, bound, _ in _ROW.findall(
        (Path(__file__).parents[2] / "docs/gpu.md").read_text(encoding="utf-8")
    )
}
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (pn.exp, torch.exp),
    "exp2": (pn.exp2, torch.exp2),
    "tanh": (pn.tanh, torch.tanh),
}


def worst(found: Any, exact: Any) -> tuple[float, int]:
    """The largest distance in units of the exact result, and where; infinities and NaNs have to be where they belong."""
    limit = float(np.finfo(np.float32).max) * (1 + 2.0**-25)
    beyond = exact.abs() >= limit
    special = exact.isnan() | beyond
    right = torch.where(exact.isnan(), found.isnan(), found.double() == torch.sign(exact) * torch.inf)
    _, exponent = torch.frexp(exact.abs())
    unit = torch.exp2((exponent - 24).clamp(min=-149).double())
    error = (found.double() - exact).abs() / unit
    error = torch.where(special, torch.where(right, 0.0, torch.inf), error.nan_to_num(torch.inf))
    place = int(error.argmax())
    return float(error[place]), place


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_of_all_sizes(name: str) -> None:
    ours, theirs = FUNCTIONS[name]
    f = pn.jit(ours)
    seen = 0.0
    for start in range(0, 1 << 32, _AT_ONCE * _EVERY):
        bits = torch.arange(start, start + _AT_ONCE * _EVERY, _EVERY, device="cuda").to(torch.int32)
        x = bits.view(torch.float32)
        given = pn.asarray(x.cpu().numpy(), device=GPU)
        found = torch.from_numpy(np.array(f(given))).cuda()
        error, place = worst(found, theirs(x.double()))
        assert error <= BOUNDS[name], f"{name}({x[place]!r}) is off by {error}"
        seen = max(seen, error)
    print(f"{name}: {seen:.2f}")


def test_the_bounds_are_those_of_the_page() -> None:
    assert set(BOUNDS) == set(FUNCTIONS)
