"""Scalar algebra: the laws of numbers and bools as data, written once for every IR that has them.

A `Law` is an equation with the kinds of dtype it holds for. `planish.uop.symbolic` makes rules of the rows that carry
a kernel further, `planish.ptir.rules` patterns of those that belong to its normal form; the proof (z3, all bits of
small formats) is of the row.
"""

from __future__ import annotations

from planish.algebra.law import Apply, Expression, Law, Letter, Number, law

__all__ = ["Apply", "Expression", "Law", "Letter", "Number", "law"]
