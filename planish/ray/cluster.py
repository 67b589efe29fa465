"""Ray, connected to: by an address, or a cluster of this machine that ends with the process."""

from __future__ import annotations

import logging
from typing import Any

from planish.errors import PlanishError


def connected(address: str | None) -> Any:
    """The module `ray`, connected; a connection that is there stays."""
    try:
        import ray
    except ImportError:
        raise PlanishError("Ray is not installed", remedy="pip install 'planish[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = "a cluster of this machine" if address is None else f"the cluster at {address!r}"
            raise PlanishError(
                f"cannot reach {where}: {error}",
                remedy="start one with `ray start --head`, or leave the address out",
            ) from None
    return ray
