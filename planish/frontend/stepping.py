"""Stepping: control flow as Python has it, one branch taken and one turn after the other, for who looks inside (`disable_jit`).

The functions given are called with tensors whose values are known, so `print`, `if` and debuggers work in them as anywhere else.
What they return is made tensors of; that turns agree in shapes and dtypes is checked where they are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from planish.config import current
from planish.errors import PlanishError
from planish.frontend import tree
from planish.frontend.flat import is_data, own
from planish.frontend.session import arguments_known
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.manipulation import stack
from planish.frontend.tensor.operands import tensor as as_tensor

Tree = Any


def stepping() -> bool:
    """Whether loops and branches are those of Python now: jit is off, and values are known."""
    return not current().jit and arguments_known(once=True)


def tensors_of(op: str, given: Tree) -> Tree:
    """A tree with tensors in the places of numbers and arrays."""
    return tree.map_tree(lambda leaf: as_tensor(op, leaf) if is_data(leaf) else leaf, given)


def branch(op: str, chosen: Callable[..., Tree], operands: Sequence[Tree]) -> Tree:
    """The branch that is taken."""
    return tensors_of(op, chosen(*own(operands)))


def while_loop(
    condition: Callable[[Tree], Any], body: Callable[[Tree], Tree], carried: Tree, max_steps: int | None
) -> Tree:
    steps = 0
    while (max_steps is None or steps < max_steps) and bool(condition(own(carried))):
        carried, steps = tensors_of("while_loop", body(own(carried))), steps + 1
    return carried


def fori_loop(numbers: Iterable[int], body: Callable[[Any, Tree], Tree], carried: Tree) -> Tree:
    for number in numbers:
        carried = tensors_of("fori_loop", body(as_tensor("fori_loop", number), own(carried)))
    return carried


def scan(
    op: str,
    function: Callable[[Tree, Tree], Tree],
    carried: Tree,
    xs: Callable[[int], Tree],
    order: Sequence[int],
) -> tuple[Tree, Tree]:
    """`order` says which of the `xs` comes next, and is not empty; what is stacked has the order of `xs`."""
    ys: dict[int, Tree] = {}
    for number in order:
        returned = function(own(carried), xs(number))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise PlanishError.of(
                op,
                f"the function has to return a pair (carry, y), not {type(returned).__name__}",
                "return (carry, None) if there is nothing to stack",
            )
        carried, ys[number] = tensors_of(op, returned)
    first, *others = [ys[number] for number in sorted(ys)]
    return carried, tree.map_tree(lambda *column: _stacked(column), first, *others)


def _stacked(column: Sequence[Tensor]) -> Tensor:
    return stack(list(column))
