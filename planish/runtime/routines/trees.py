"""Ensembles of trees: each sample walks down each tree, from node to node, until one leads to itself."""

from __future__ import annotations

from typing import Final

from planish.runtime.routines.sorting import address, word
from planish.runtime.routines.writer import RoutineModule

_KINDS: Final = {"float32": "float", "float64": "double"}
_TESTS: Final = {"le": "<=", "lt": "<", "ge": ">=", "gt": ">", "eq": "==", "ne": "!="}
"""What a node may ask of a feature."""
_PARTS: Final = 4
"""What is kept of a node, in integers of 32 bits: the feature, where no and yes lead to, and whether a missing value means yes."""


def trees(module: RoutineModule, dtype: str, test: str, gaps: str) -> None:
    """Of (x, nodes, split, roots, start, target, weight, sums; rows, features, trees, width, most).

    A node's entries of `target` and `weight` begin at its `start`; those of the leaves that a sample ends in are added to its sums.
    Nobody takes more than `most` steps. Without `gaps` no node says anything of missing values.
    """
    f = module.function("routine", [("args", "ptr"), ("chunk", "i64")])
    kind = _KINDS[dtype]
    x, nodes, split, roots, start, target, weight, result = (address(f, n) for n in range(8))
    rows, features, count, width, most = (word(f, n) for n in range(8, 13))
    with f.range(0, rows) as row:
        sample, sums = f.at(x, row * features, kind), f.at(result, row * width, "double")
        with f.range(0, count) as tree:
            here, steps = f.variable("i64", f.load("i64", roots, tree)), f.variable("i64", 0)
            with f.loop() as walk:
                node = f.at(nodes, here.now * _PARTS, "i32")
                feature, no, yes = (f.load("i32", node, part) for part in range(3))
                value = f.load(kind, sample, f.convert(feature, "i64"))
                holds = value.compare(_TESTS[test], f.load(kind, split, here.now))
                if gaps == "gaps":
                    holds = holds | (value.ne(value) & f.load("i32", node, 3).ne(0))
                following = f.convert(f.select(holds, yes, no), "i64")
                walk.leave(following.eq(here.now) | (steps.now >= most))
                here.set(following)
                steps.add(1)
            with f.range(f.load("i64", start, here.now), f.load("i64", start, here.now + 1)) as entry:
                place = f.load("i64", target, entry)
                f.store(f.load("double", sums, place) + f.load("double", weight, entry), sums, place)
