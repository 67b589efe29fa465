"""Ops on lists of tensors (`_foreach_add`, `_foreach_norm`, …), as optimisers call them: written out, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

_PREFIX: Final = "aten::_foreach_"

_SINGLE: Final[dict[str, Callable[..., Any]]] = {
    "norm": torch.linalg.vector_norm,
    "copy": lambda x, source, non_blocking=False: source.to(x.dtype, copy=True).expand_as(x),
    "zero": torch.zeros_like,
    "addcdiv": lambda x, one, other, value=1: torch.addcdiv(x, one, other, value=value),
    "addcmul": lambda x, one, other, value=1: torch.addcmul(x, one, other, value=value),
    "maximum": torch.clamp_min,
    "minimum": torch.clamp_max,
}
"""What stands for an op on one tensor, where torch has no function of that name that takes the same arguments."""


def written_out() -> dict[Any, Callable[..., Any]]:
    """Decompositions by op, of those that give new lists."""
    by_op: dict[Any, Callable[..., Any]] = {}
    for whole in torch._C._dispatch_get_all_op_names():
        name, _, overload = whole.removeprefix(_PREFIX).partition(".")
        single = _SINGLE.get(name, getattr(torch, name, None))
        if (
            whole.startswith(_PREFIX)
            and not name.endswith("_")
            and "out" not in overload
            and single is not None
        ):
            op = getattr(getattr(torch.ops.aten, f"_foreach_{name}"), overload or "default")
            by_op[op] = _one_by_one(single)
    return by_op


def _one_by_one(single: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **named: Any) -> list[Any]:
        count = len(next(given for given in args if isinstance(given, list | tuple)))

        def at(place: int, given: Any) -> Any:
            return given[place] if isinstance(given, list | tuple) else given

        return [
            single(
                *(at(place, given) for given in args),
                **{key: at(place, given) for key, given in named.items()},
            )
            for place in range(count)
        ]

    return run
