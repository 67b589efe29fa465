"""Sets of dtype kinds that laws name."""

from __future__ import annotations

from typing import Final

from planish.dtypes import Kind

INTEGERS: Final = frozenset({Kind.INT, Kind.UINT})
"""They wrap: a ring."""
INDEX: Final = frozenset({Kind.INDEX})
"""Exact."""
INTEGRAL: Final = INTEGERS | INDEX
SIGNED: Final = frozenset({Kind.INT})
UNSIGNED: Final = frozenset({Kind.UINT})
FLOAT: Final = frozenset({Kind.FLOAT})
BOOL: Final = frozenset({Kind.BOOL})
BITS: Final = INTEGRAL | BOOL
REAL: Final = INTEGRAL | FLOAT
NUMBERS: Final = REAL | frozenset({Kind.COMPLEX})
INEXACT: Final = FLOAT | frozenset({Kind.COMPLEX})
ARITHMETIC: Final = INTEGERS | FLOAT
"""Where kernels keep NEG and SUB as they are. (On `index` both become products with -1.)"""
