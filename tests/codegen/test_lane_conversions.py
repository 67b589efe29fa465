"""Floats to integers in vectors: nearest that there is, what is no number to 0; the same in all oracles, and no lane on its own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from planish import compiler, ptir
from planish.dtypes import from_numpy

KINDS = ("int8", "uint8", "int16", "uint16", "int32", "int64")


def converting(source: str, target: str, size: int) -> ptir.Function:
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor(source, (size,)))
    return graph.build(x.cast(from_numpy(np.dtype(target))))


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", KINDS)
def test_every_lane_saturates(source: str, target: str) -> None:
    info = np.iinfo(target)
    edges = [info.min, info.max, info.max + 1, -1, 0, 1, 255, 2**31, 2**63, -(2**63)]
    near = [e + d for e in edges for d in (-1.5, -0.75, -0.5, 0, 0.5, 0.99)]
    x = np.array([*near, np.nan, np.inf, -np.inf, -0.0], source)
    x = np.resize(x, 64 * -(-len(x) // 64))
    wanted = [
        0 if np.isnan(v) else info.min if v < info.min else info.max if v >= info.max + 1 else int(v)
        for v in x.tolist()
    ]
    function = converting(source, target, len(x))
    lowered = compiler.lower(function)
    for run in (lowered.compile(), lowered.interpreted()):
        assert run(x)[0].tolist() == wanted
    assert ptir.interpret(function, [x])[0].tolist() == wanted


@pytest.mark.parametrize("target", ["int32", "uint8"])
def test_vectors_are_converted_as_such(target: str) -> None:
    text = compiler.lower(converting("float32", target, 4096), "x86-64-v4").as_text("asm")
    assert re.search(r"vcvttps2dq\s.*%zmm", text)
    assert "vcvttss2si" not in text
