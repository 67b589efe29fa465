"""Functions of trees of arrays: traced and lowered by jax, compiled and run by planish.

Results are arrays of the kind that was given: jax's if there was one among the arguments, planish's tensors if there was one of these,
else NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from planish.errors import PlanishError
from planish.frontend.tensor.array import Tensor
from planish.stablehlo import StableHLOProgram, load

try:
    import jax
except ImportError as error:
    raise ImportError(f"planish.jax runs what jax traces, and jax is not installed: {error}") from None


class _Lowered:
    """A program with the trees of its arguments and results."""

    def __init__(self, source: Any, device: str) -> None:
        self.program: StableHLOProgram = load(source, device=device)
        self.in_tree = source.in_tree
        self.out_tree = source.out_tree
        self.kept = _kept(source)
        self.keys = _key_results(source)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        given = leaves if self.kept is None else [leaves[n] for n in self.kept]
        results = self.program.run(*given)
        for number, kind in self.keys.items():
            results[number] = jax.random.wrap_key_data(jax.numpy.asarray(results[number]), impl=kind)
        return results


def _kept(source: Any) -> list[int] | None:
    """The arguments that the module takes: jax leaves out those that it does not use."""
    kept = getattr(source, "module_kept_var_idx", None)
    if kept is None:
        arguments = getattr(getattr(source, "_lowering", None), "compile_args", None) or {}
        kept = arguments.get("kept_var_idx")
    return None if kept is None else sorted(kept)


def _key_results(source: Any) -> dict[int, Any]:
    """Which results are keys of random numbers, and of which kind."""
    told = getattr(source, "out_avals", None)
    if told is None:
        told = jax.tree.leaves(getattr(source, "out_info", ()))
    return {
        n: aval.dtype._impl
        for n, aval in enumerate(told)
        if jax.numpy.issubdtype(aval.dtype, jax.dtypes.prng_key)
    }


class JaxFunction:
    """A function that planish runs, compiled for each kind of arguments that it meets."""

    def __init__(
        self, lower: Callable[..., Any] | None, lowered: _Lowered | None, static: Any, device: str
    ) -> None:
        self._lower = lower
        self._only = lowered
        self._static = static
        self._device = device
        self._variants: dict[Hashable, _Lowered] = {}

    def __repr__(self) -> str:
        return f"<jax function run by planish: {len(self._variants) or bool(self._only)} compiled>"

    @property
    def programs(self) -> list[StableHLOProgram]:
        """What was compiled so far."""
        lowered = [self._only] if self._only is not None else list(self._variants.values())
        return [one.program for one in lowered]

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._only is not None:
            leaves, tree = jax.tree.flatten((args, named), is_leaf=_is_tensor)
            lowered = self._only
            if tree != lowered.in_tree:
                raise PlanishError(f"the arguments are {tree}, {lowered.in_tree} is expected")
        else:
            told, names = self._static
            numbers = [n + len(args) if n < 0 else n for n in told]
            fixed = tuple((n, args[n]) for n in numbers if n < len(args)) + tuple(
                (k, named[k]) for k in names if k in named
            )
            moving = [a for n, a in enumerate(args) if n not in numbers]
            leaves, tree = jax.tree.flatten(
                (tuple(moving), {k: v for k, v in named.items() if k not in names}), is_leaf=_is_tensor
            )
            key = tree, fixed, tuple(map(_kind, leaves))
            variant = self._variants.get(key)
            if variant is None:
                variant = self._variants[key] = self._make(args, named)
            lowered = variant
        results = lowered([_data(leaf) for leaf in leaves])
        if any(isinstance(leaf, jax.Array) for leaf in leaves):
            results = [jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x for x in results]
        return jax.tree.unflatten(lowered.out_tree, results)

    def _make(self, args: Sequence[Any], named: Any) -> _Lowered:
        if self._lower is None:
            raise PlanishError("this program was lowered for other arguments")
        shapes = jax.tree.map(_shape, (tuple(args), named), is_leaf=_is_tensor)
        return _Lowered(self._lower(*shapes[0], **shapes[1]), self._device)


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, Tensor)


def _shape(leaf: Any) -> Any:
    """What jax traces with: planish's tensors by their type."""
    if not isinstance(leaf, Tensor):
        return leaf
    struct: Any = jax.ShapeDtypeStruct
    return struct(leaf.shape, np.dtype(leaf.dtype.numpy))


def _kind(leaf: Any) -> Hashable:
    if isinstance(leaf, bool | int | float | complex):
        return type(leaf).__name__
    dtype = getattr(leaf, "dtype", type(leaf))
    return getattr(leaf, "shape", None), getattr(dtype, "name", str(dtype))


def _data(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return np.asarray(leaf)
    return leaf


def compile(
    function: Any,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    device: str = "cpu",
) -> JaxFunction:
    """A function, or what `jax.jit(f).lower(…)` or `jax.export.export(…)(…)` made of one, run by planish."""
    if hasattr(function, "in_tree") and hasattr(function, "out_tree"):
        return JaxFunction(None, _Lowered(function, device), ((), ()), device)
    if not callable(function):
        raise PlanishError(
            f"a {type(function).__name__} is no function of jax's",
            remedy="give a function, a jax.stages.Lowered, or a jax.export.Exported",
        )
    numbers = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    own = getattr(function, "__wrapped__", function) if hasattr(function, "lower") else function
    staged = jax.jit(own, static_argnums=numbers, static_argnames=names, keep_unused=True)
    return JaxFunction(staged.lower, None, (numbers, names), device)
