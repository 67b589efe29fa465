"""JAX programs run by planish: `planish.jax.compile(f)(*args)`, for functions and for what jax lowered or exported."""

from planish.jax.functions import Compiled, compile

__all__ = ["Compiled", "compile"]
