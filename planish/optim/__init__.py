"""Optimisers: records of options whose `update` takes parameters, gradients and a state, and gives the next ones.

```
optimizer = optim.AdamW(optim.WarmupCosine(3e-4, 100, 5000), decays=lambda p: p.ndim >= 2)
state = optimizer.init(model)
model, state = optimizer.update(model, gradients, state)
```
"""

from __future__ import annotations

from planish.frontend.tensor.mistaken import report_all
from planish.optim.adaptive import ASGD, Adadelta, Adafactor, Adamax, NAdam, RAdam, Rprop
from planish.optim.averages import EMA, SWA, Average
from planish.optim.clipping import clip_by_norm, clip_by_value, global_norm
from planish.optim.composed import Accumulate, AccumulationState, Groups
from planish.optim.lbfgs import LBFGS, LBFGSState
from planish.optim.optimizer import Optimizer, State
from planish.optim.optimizers import LAMB, SGD, Adagrad, Adam, AdamW, Lion, Muon, RMSprop
from planish.optim.plateau import PlateauState, ReduceLROnPlateau
from planish.optim.precision import LossScale, ScaleState
from planish.optim.schedules import (
    Constant,
    Cosine,
    CosineRestarts,
    Cyclic,
    Exponential,
    InverseSqrt,
    Join,
    LinearWarmup,
    MultiStep,
    OneCycle,
    Polynomial,
    Step,
    WarmupCosine,
)

__all__ = [
    "ASGD", "EMA", "LAMB", "LBFGS", "SGD", "SWA", "Accumulate", "AccumulationState", "Adadelta", "Adafactor",
    "Adagrad", "Adam", "AdamW", "Adamax", "Average", "Constant", "Cosine", "CosineRestarts", "Cyclic",
    "Exponential", "Groups", "InverseSqrt", "Join", "LBFGSState", "LinearWarmup", "Lion", "LossScale",
    "MultiStep", "Muon", "NAdam", "OneCycle", "Optimizer", "PlateauState", "Polynomial", "RAdam", "RMSprop",
    "ReduceLROnPlateau", "Rprop", "ScaleState", "State", "Step", "WarmupCosine", "clip_by_norm",
    "clip_by_value", "global_norm",
]  # fmt: skip

report_all(globals(), __all__)
