"""Scalar functions: one record each, at the bottom of the package, from which every layer takes its part."""

from __future__ import annotations

from planish.scalars import functions
from planish.scalars.record import FUNCTIONS, FormulaValue, Scalar

__all__ = ["FUNCTIONS", "FormulaValue", "Scalar", "functions"]
