"""`einsum`: any contraction by name, as transposes, sums and `dot_general`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planish.errors import GraphError, ShapeError
from planish.ptir import ops
from planish.ptir.dims import DimLike
from planish.ptir.graph_value import GraphValue
from planish.ptir.library.shaping import broadcast_dims

# Letters that stand for the axes of an ellipsis, beyond all that a user can write.
_ELLIPSIS = "".join(chr(0xE000 + i) for i in range(64))


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, the ellipsis spelt out."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", right):
        raise GraphError(f"equation {equation!r} does not fit {len(ranks)} operands", op="einsum")
    spelt: list[str] = []
    widest = 0
    for term, rank in zip(terms, ranks, strict=True):
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term):
            raise GraphError(f"{term!r} in equation {equation!r} is not a list of axes", op="einsum")
        hidden = rank - len(term.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in term):
            raise ShapeError(f"{term!r} in equation {equation!r} does not name {rank} axes", op="einsum")
        widest = max(widest, hidden)
        # Aligned at the last axis, as broadcasting is.
        spelt.append(term.replace("...", _ELLIPSIS[64 - hidden :]))
    tail = _ELLIPSIS[64 - widest :] if widest else ""
    if arrow:
        return spelt, right.replace("...", tail)
    letters = "".join(terms).replace("...", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return spelt, tail + "".join(once)


def einsum(equation: str, *operands: GraphValue) -> GraphValue:
    """NumPy's `einsum`: repeated letters within an operand take the diagonal, letters absent from the result are summed.

    Operands are contracted from left to right, each letter as soon as nobody later needs it.
    """
    terms, result = _parse(equation, [operand.rank for operand in operands])
    unknown = set(result) - set("".join(terms))
    if unknown or len(set(result)) != len(result):
        raise GraphError(
            f"the result of equation {equation!r} names an axis twice or one that is nowhere", op="einsum"
        )
    sizes = _sizes(terms, operands, equation)
    left: GraphValue | None = None
    names = ""
    for number, (operand, term) in enumerate(zip(operands, terms, strict=True)):
        later = set(result).union(*terms[number + 1 :])
        right, letters = _diagonals(operand, term)
        if left is None:
            left, names = _summed(right, letters, later)
        else:
            right, letters = _summed(right, letters, later | set(names))
            left, names = _summed(left, names, later | set(letters))
            left, names = _paired(left, names, right, letters, later)
    if left is None:
        raise GraphError("there is nothing to contract", op="einsum")
    order = [names.index(letter) for letter in result]
    left = left if order == sorted(order) else left.transpose(order)
    dims = [sizes[letter] for letter in result]
    return left if list(left.dims) == dims else left.broadcast_to(dims)


def _sizes(terms: Sequence[str], operands: Sequence[GraphValue], equation: str) -> dict[str, DimLike]:
    sizes: dict[str, DimLike] = {}
    for term, operand in zip(terms, operands, strict=True):
        for letter, dim in zip(term, operand.dims, strict=True):
            try:
                (sizes[letter],) = broadcast_dims((sizes.get(letter, 1),), (dim,))
            except ShapeError:
                raise ShapeError(
                    f"axis {letter!r} of equation {equation!r} is {sizes[letter]} and {dim}", op="einsum"
                ) from None
    return sizes


def _diagonals(x: GraphValue, term: str) -> tuple[GraphValue, str]:
    """Repeated letters become one axis."""
    while len(set(term)) != len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first = term.index(letter)
        second = term.index(letter, first + 1)
        if x.dims[first] != x.dims[second]:
            raise ShapeError(f"axes {first} and {second} of {x.type} have no diagonal", op="einsum")
        line = x.graph.iota((x.dims[first],), 0)
        x = x.gather([line, line], [first, second])
        rest = "".join(c for i, c in enumerate(term) if i not in (first, second))
        term = letter + rest
    return x, term


def _summed(x: GraphValue, names: str, needed: set[str]) -> tuple[GraphValue, str]:
    """Without the letters that nobody needs."""
    gone = [axis for axis, letter in enumerate(names) if letter not in needed]
    kept = "".join(letter for letter in names if letter in needed)
    return (x.reduce_sum(gone) if gone else x), kept


def _paired(
    left: GraphValue, names: str, right: GraphValue, letters: str, later: set[str]
) -> tuple[GraphValue, str]:
    """One `dot_general`: shared letters are batch if somebody needs them later, else contracted."""
    # An axis of size 1 against a longer one only repeats: it is taken away first.
    for letter in [c for c in names if c in letters]:
        a, b = names.index(letter), letters.index(letter)
        if left.dims[a] == right.dims[b]:
            continue
        if left.dims[a] == 1:
            left, names = left.squeeze(a), names.replace(letter, "")
        else:
            right, letters = right.squeeze(b), letters.replace(letter, "")
    # What only one side has now and nobody needs later is summed there.
    left, names = _summed(left, names, later | set(letters))
    right, letters = _summed(right, letters, later | set(names))
    shared = [c for c in names if c in letters]
    batch, contract = [c for c in shared if c in later], [c for c in shared if c not in later]
    dims = ops.DotDims(
        tuple(names.index(c) for c in batch),
        tuple(names.index(c) for c in contract),
        tuple(letters.index(c) for c in contract),
        tuple(letters.index(c) for c in batch),
    )
    product = left.dot_general(right, dims)
    free = [c for c in names if c not in shared] + [c for c in letters if c not in shared]
    return product, "".join(batch + free)
