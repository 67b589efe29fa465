"""numexpr and numba: compilers of elementwise loops, which leave the rest out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..workloads import Array, Workload
from .plain import Left, Numpy, peer


class Numexpr(Numpy):
    name = "numexpr"
    FORMULAS = {"a*b+c": "a*b+c", "tanh_chain": "tanh(a*b+c)*sqrt(abs(a)+1)-c", "sum_all": "sum(a)"}

    def __init__(self, threads: int) -> None:
        numexpr = peer("numexpr")
        numexpr.set_num_threads(threads)
        self.evaluate = numexpr.evaluate

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        if w.name not in self.FORMULAS:
            raise Left
        names = dict(zip("abc", arrays, strict=False))
        out = None if w.name == "sum_all" else np.empty_like(arrays[0])
        return lambda: self.evaluate(self.FORMULAS[w.name], local_dict=names, out=out)


class Numba(Numpy):
    name = "numba"

    def __init__(self, threads: int) -> None:
        self.numba = peer("numba")
        self.numba.set_num_threads(threads)

    def prepare(self, w: Workload, arrays: Sequence[Array]) -> Callable[[], Any]:
        prange, one = self.numba.prange, np.float32(1)

        def fma(a: Any, b: Any, c: Any, out: Any) -> Any:
            for i in prange(a.size):
                out[i] = a[i] * b[i] + c[i]
            return out

        def chain(a: Any, b: Any, c: Any, out: Any) -> Any:
            for i in prange(a.size):
                out[i] = math.tanh(a[i] * b[i] + c[i]) * math.sqrt(abs(a[i]) + one) - c[i]
            return out

        def total(a: Any, out: Any) -> Any:
            s = np.float32(0)
            for i in prange(a.size):
                s += a[i]
            return s

        body = {"a*b+c": fma, "tanh_chain": chain, "sum_all": total}.get(w.name)
        if body is None:
            raise Left
        function = self.numba.njit(body, parallel=True, fastmath=True)
        out = np.empty_like(arrays[0])
        return lambda: function(*arrays, out)
