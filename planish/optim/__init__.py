"""Optimisers: records of options whose `update` takes parameters, gradients and a state, and gives the next ones.

```
optimizer = optim.AdamW(optim.WarmupCosine(3e-4, 100, 5000), decays=lambda p: p.ndim >= 2)
state = optimizer.init(model)
model, state = optimizer.update(model, gradients, state)
```
"""

from __future__ import annotations

from planish.optim.clipping import clip_by_norm, clip_by_value, global_norm
from planish.optim.optimizer import Optimizer, State
from planish.optim.optimizers import LAMB, SGD, Adagrad, Adam, AdamW, Lion, Muon, RMSprop
from planish.optim.schedules import (
    Constant,
    Cosine,
    Exponential,
    Join,
    LinearWarmup,
    MultiStep,
    OneCycle,
    Polynomial,
    Step,
    WarmupCosine,
)

__all__ = [
    "LAMB",
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Constant",
    "Cosine",
    "Exponential",
    "Join",
    "LinearWarmup",
    "Lion",
    "MultiStep",
    "Muon",
    "OneCycle",
    "Optimizer",
    "Polynomial",
    "RMSprop",
    "State",
    "Step",
    "WarmupCosine",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
]
