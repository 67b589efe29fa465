"""One small recording for all: a product of matrices and a softmax, called twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import compiler, ptir
from planish.compiler.observer import observing
from planish.viz.recorder import Recorder
from planish.viz.recording import Recording


def softmax_of_product(x: Any, w: Any) -> Any:
    y = x @ w
    e = pn.exp(y - pn.max(y, axis=-1, keepdims=True))
    return e / pn.sum(e, axis=-1, keepdims=True)


def traced() -> ptir.Function:
    """The function of the recording."""
    shapes = [np.zeros((64, 512), np.float32), np.zeros((512, 1024), np.float32)]
    return pn.jit(softmax_of_product).lower(*shapes).function


def arrays() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((64, 512), (512, 1024))]


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    made = Recorder()
    with observing(made), pn.settings(cache=False):
        run = compiler.compile(traced())
        for _ in range(2):
            run(*arrays())
    return made


@pytest.fixture(scope="session")
def recording(recorder: Recorder) -> Recording:
    return Recording(recorder, "softmax", "planish viz softmax.py")
