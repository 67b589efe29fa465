"""JAX programs run by planish: `planish.jax.compile(f)(*args)`, for functions and for what jax lowered or exported."""

from planish.jax.functions import JaxFunction, compile

__all__ = ["JaxFunction", "compile"]
