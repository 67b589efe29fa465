"""Sharding for users: meshes, specs, arrays whose parts several ranks have, and compiled functions of them.

What a spec means for a program is decided in `planish.ptir.sharding`; here are the things a user holds.
"""

from __future__ import annotations

from planish.frontend.sharding.arrays import Sharded, shard, with_sharding
from planish.frontend.sharding.mesh import Mesh, P, Sharding
from planish.frontend.sharding.pipeline import pipeline
from planish.frontend.tensor.mistaken import report_all

__all__ = ["Mesh", "P", "Sharded", "Sharding", "pipeline", "shard", "with_sharding"]

report_all(globals(), __all__)
