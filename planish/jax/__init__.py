"""JAX programs run by planish: `planish.jax.compile(f)(*args)`, for functions and for what jax lowered or exported."""

from planish.jax.functions import JaxFunction as Compiled
from planish.jax.functions import compile

__all__ = ["Compiled", "compile"]
