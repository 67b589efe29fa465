"""planish and its peers, each as the same few functions, and as something that can be called again and again.

A side is made in a process of its own (`process.py`), with the cores it may use already set. `prepare(workload, arrays)` gives
a callable without arguments that computes the result anew, finished when it returns, and `as_numpy` reads a result. What a side
cannot do, or is not meant for, it leaves out by raising `Left`. Where a peer takes memory for its result, it is given
some; all others, planish too, keep what they free.
"""

from __future__ import annotations

from .frameworks import Inductor, Jax, Tinygrad, Torch
from .loops import Numba, Numexpr
from .ours import Planish, Tuned, Tuner
from .plain import Left, Numpy, Reference
from .servers import Onnxruntime, Openvino

OURS = (Planish, Tuned)
PEERS = (Numpy, Numexpr, Numba, Torch, Inductor, Jax, Tinygrad, Onnxruntime, Openvino)
SIDES: dict[str, type[Numpy]] = {side.name: side for side in (*OURS, Tuner, *PEERS)}
MODULES = {"inductor": "torch"}
"""What has to be installed for a side, where it is not called like the side."""

__all__ = ["MODULES", "OURS", "PEERS", "SIDES", "Left", "Planish", "Reference", "Tuned", "Tuner"]
