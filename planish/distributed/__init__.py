"""Programs on several ranks: who they are, how they are started, what becomes of them when one fails.

planish launch -n 2 train.py        # or mpirun -n 2 python train.py

import planish as pn
pn.distributed.init()
pn.distributed.rank(), pn.distributed.size()
pn.distributed.save("run", state, step=100)     # parts that any mesh can read
"""

from __future__ import annotations

from planish.compiler.collectives import ByMpi, Statistics, statistics
from planish.distributed.checkpoint import load, save
from planish.distributed.network import Link, Network
from planish.distributed.simulate import Device, Prediction, simulate
from planish.frontend.sharding.pipeline import pipeline
from planish.ptir.ops.collective import set_transport
from planish.runtime import ranks
from planish.runtime.ranks import PATIENCE, CollectiveError, World, barrier, local_rank, rank, size

__all__ = [
    "CollectiveError", "Device", "Link", "Network", "Prediction", "Statistics", "World", "barrier", "init", "load", "local_rank", "pipeline", "rank", "save", "simulate",
    "size", "statistics",
]  # fmt: skip


def init(backend: str | None = None, *, timeout: float = PATIENCE) -> World:
    """Find the other ranks: every rank calls it once, before anything that is sharded.

    `backend` is what carries collectives: `mpi`; `nccl`, between GPUs, whose ranks are found by MPI if mpi4py is installed; or `none` for a process by itself.
    By default what is there: MPI, and NCCL for programs on GPUs. `timeout` is how many seconds a rank waits in a collective before it gives up; calling it again changes that alone. From here on an exception that nobody catches ends all ranks.
    """
    world = ranks.init(backend, timeout=timeout)
    set_transport(ByMpi(world))
    return world
