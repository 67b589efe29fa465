"""A compiler pass in ten lines: a law of algebra that planish does not know, taught to it, and seen at work.

x·y + x·z is x·(y + z): one product of matrices instead of two. The law is a class of ten lines; `jit` runs it among its own passes. The
program before and after, the number of products, the result and the time tell what it did.

    python examples/compiler_pass.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

import planish as pn
from planish import ptir
from planish.compiler import PIPELINE
from planish.ptir import ops
from planish.ptir.rewrite.prelude import BinaryView, OpRewritePattern, ProgramRewriter

# --- the pass -------------------------------------------------------------------------------------------------


class FactorProducts(OpRewritePattern[BinaryView]):
    """x·y + x·z -> x·(y + z)."""

    roots, operands = (ops.add,), (ops.dot_general, ops.dot_general)

    def match_and_rewrite(self, op: BinaryView, rw: ProgramRewriter) -> bool:
        first, second = op.lhs.def_inst, op.rhs.def_inst
        if first.operands[0] is not second.operands[0] or first.attrs != second.attrs:
            return rw.fail(op.inst, "the products do not share their left side")
        total = rw.emit(ops.add, first.operands[1], second.operands[1])
        rw.replace_with(op.inst, ops.dot_general, (first.operands[0], total), first.attrs)
        return True


# --------------------------------------------------------------------------------------------------------------


def layer(x: pn.Tensor, y: pn.Tensor, z: pn.Tensor) -> pn.Tensor:
    """What somebody wrote who did not think of it."""
    return pn.tanh(x @ y + x @ z)


def best(function: Any, given: Sequence[pn.Tensor], repeats: int) -> float:
    """Seconds of the best of some calls."""
    seconds = []
    for _ in range(repeats):
        began = perf_counter()
        np.asarray(function(*given))
        seconds.append(perf_counter() - began)
    return min(seconds)


def main(arguments: Sequence[str] | None = None) -> tuple[int, int]:
    """Compile without and with the pass; the products of both programs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    keys = pn.random.split(pn.random.key(0), 3)
    shape = (options.size, options.size)
    given = [pn.random.normal(keys[number], shape, std=options.size**-0.5).realize() for number in range(3)]

    plain = pn.jit(layer)
    taught = pn.jit(layer, passes=[ptir.CanonicalizePass(extra_patterns=[FactorProducts]), PIPELINE])
    counts = []
    print(f"compiler_pass: tanh(x·y + x·z) of {options.size} × {options.size} matrices")
    for name, function in (("without", plain), ("with the pass", taught)):
        lowered = function.lower(*given)
        text = lowered.as_text("ptir")
        counts.append(text.count("dot_general"))
        seconds = best(function, given, options.repeats)
        print(f"\n  {name}: {counts[-1]} product{'s' if counts[-1] > 1 else ''}, {1e3 * seconds:.2f} ms")
        print("\n".join(f"    {line}" for line in text.strip().splitlines()))
    difference = float(pn.max(pn.abs(plain(*given) - taught(*given))))
    print(f"\n  the results differ by {difference:.1e}")
    return counts[0], counts[1]


if __name__ == "__main__":
    main()
