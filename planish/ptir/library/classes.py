"""How every op reaches the machine: one of four ways, stated here for each op and nowhere else.

A test holds the table against `ops.REGISTRY`: an op that is added has to be placed.
"""

from __future__ import annotations

import enum
from typing import Final

from planish.ptir.ops.definition import REGISTRY, OpDef


class Way(enum.Enum):
    """What becomes of an op below PTIR."""

    DIRECT = "direct"
    """Lowered to kernels as it is, for every dtype but the complex ones."""
    COMPOSITE = "composite"
    """Rewritten into simpler PTIR ops by `expand`, or by `expand-complex` where it makes or takes complex parts."""
    CONTROL = "control"
    """A step of the plan: it decides what runs, or how large things are."""
    HOST = "host"
    """Runs outside generated code: the closed list of LAPACK and FFT calls, argsort and custom calls."""


_NAMES: Final[dict[Way, str]] = {
    Way.DIRECT: """
        constant iota
        neg abs sign reciprocal sqrt rsqrt cbrt floor ceil round trunc exp exp2 expm1 log log2 log1p
        sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma
        not popcount clz is_nan is_inf is_finite
        add sub mul div floor_div trunc_div floor_mod trunc_mod pow max min atan2 hypot copysign nextafter
        and or xor shl shr_logical shr_arithmetic
        eq ne lt le gt ge select cast bitcast
        dot_general convolution
        reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or argmax argmin reduce_window
        cumsum cumprod cummax cummin
        reshape transpose broadcast_to slice reverse concat pad
        gather scatter dynamic_slice dynamic_update_slice dimension_size
    """,
    Way.COMPOSITE: """
        sort top_k rng_bits quantize dequantize nonzero unique non_max_suppression
        complex real imag conj
    """,
    Way.CONTROL: "return cond while scan call bind_dim",
    Way.HOST: "custom_call cholesky qr svd eigh lu triangular_solve argsort fft ifft rfft irfft",
}

WAYS: Final[dict[str, Way]] = {name: way for way, names in _NAMES.items() for name in names.split()}
"""The way of every op, by name."""

COMPOSITES: Final[frozenset[str]] = frozenset(name for name, way in WAYS.items() if way is Way.COMPOSITE)
"""The ops that are gone after `expand,expand-complex`."""


STAYING: Final = frozenset({"sort", "top_k", "non_max_suppression"})
"""Composites that may stay, and run as host ops, where a machine has routines for them (`library.hosted`)."""


def way_of(op: OpDef) -> Way:
    """How an op reaches the machine."""
    return WAYS[op.name]


def unplaced() -> list[str]:
    """Ops without a way, ways without an op, and host ops that are not marked so: empty unless something was forgotten."""
    wrong = sorted(REGISTRY.keys() ^ WAYS.keys())
    wrong += [
        op.name for op in REGISTRY.values() if op.name in WAYS and op.host is not (WAYS[op.name] is Way.HOST)
    ]
    return wrong


__all__ = ["COMPOSITES", "STAYING", "WAYS", "Way", "unplaced", "way_of"]
