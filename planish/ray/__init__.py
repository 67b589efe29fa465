"""Batch work and tuning on a Ray cluster. Ray schedules, moves data and restarts; planish says what runs.

with planish.ray.tune(Campaign(total=600), address="auto"), pn.settings(beam=4):
    model(x)                                  # the candidates of every search run on all workers of this kind

results = planish.ray.map(model, dataset, inputs=["image"], outputs=["scores"], batch_size=64)
"""

from __future__ import annotations

from planish.ray.batches import map
from planish.ray.tuning import tune

__all__ = ["map", "tune"]
