"""Monte Carlo: the price of an Asian option from a million random walks, beside NumPy and jax.

An Asian option pays what the mean price of a share is above a strike. There is no formula for it, so one draws random walks and takes the
mean of what they pay. The program is a dozen lines of array code, the same for all three; planish compiles it, draws the random
numbers where they are used, and gives the slope by the price of the share (the *delta*) by `grad` of the same function.

    python examples/montecarlo.py --walks 200000
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import planish as pn

sys.path.insert(0, str(Path(__file__).parent))
from pictures import chart

SHARE, STRIKE, RATE, SPREAD, YEARS = 100.0, 105.0, 0.03, 0.25, 1.0


def pays(library: Any, normals: Any, share: Any, days: int) -> Any:
    """What each walk pays today; (walks, days) normal numbers, in any of the three libraries."""
    day = YEARS / days
    growth = (RATE - SPREAD**2 / 2) * day + SPREAD * math.sqrt(day) * normals
    price = share * library.exp(library.cumsum(growth, axis=1))
    return math.exp(-RATE * YEARS) * library.maximum(library.mean(price, axis=1) - STRIKE, 0.0)


def timed(function: Callable[[int], tuple[float, float]], repeats: int) -> tuple[float, float, float]:
    """Price, its error, and the seconds of the best of some runs after the first."""
    function(0)
    best = math.inf
    price = error = 0.0
    for seed in range(1, repeats + 1):
        began = perf_counter()
        price, error = function(seed)
        best = min(best, perf_counter() - began)
    return price, error, best


def main(arguments: Sequence[str] | None = None) -> dict[str, tuple[float, float, float]]:
    """Price the option with each library; per library price, error and seconds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--walks", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("montecarlo.svg"))
    options = parser.parse_args(arguments)
    shape = (options.walks, options.days)
    root = math.sqrt(options.walks)

    @pn.jit
    def ours(key: pn.Tensor, share: pn.Tensor) -> tuple[pn.Tensor, pn.Tensor]:
        paid = pays(pn, pn.random.normal(key, shape), share, options.days)
        return pn.mean(paid), pn.std(paid)

    def planish(seed: int) -> tuple[float, float]:
        mean, spread = ours(pn.random.key(seed), pn.asarray(SHARE))
        return float(mean), float(spread) / root

    def numpy(seed: int) -> tuple[float, float]:
        normals = np.random.default_rng(seed).standard_normal(shape, np.float32)
        paid = pays(np, normals, np.float32(SHARE), options.days)
        return float(paid.mean()), float(paid.std()) / root

    ways: dict[str, Callable[[int], tuple[float, float]]] = {"planish": planish, "NumPy": numpy}
    if importlib.util.find_spec("jax") is not None:
        import jax

        @jax.jit
        def compiled(key: Any) -> Any:
            paid = pays(jax.numpy, jax.random.normal(key, shape), SHARE, options.days)
            return paid.mean(), paid.std()

        def jaxs(seed: int) -> tuple[float, float]:
            mean, spread = compiled(jax.random.key(seed))
            return float(mean), float(spread) / root

        ways["jax"] = jaxs

    print(f"montecarlo: {options.walks:,} walks of {options.days} days")
    print("               price   error     seconds   million steps per second")
    results = {}
    for name, way in ways.items():
        price, error, seconds = results[name] = timed(way, options.repeats)
        rate = options.walks * options.days / seconds / 1e6
        print(f"  {name:10s} {price:8.3f} ±{error:6.3f} {seconds:10.4f} {rate:12,.0f}")
    delta = pn.jit(pn.grad(lambda share: ours(pn.random.key(1), share)[0]))(pn.asarray(SHARE))
    print(
        f"  one more in the share's price is {float(delta):.3f} in the option's, by grad of the same function"
    )
    walks = np.asarray(
        SHARE
        * pn.exp(
            pn.cumsum(
                0.25 / math.sqrt(options.days) * pn.random.normal(pn.random.key(3), (5, options.days)), axis=1
            )
        )
    )
    days = list(range(options.days))
    chart(
        options.out,
        {f"walk {number + 1}": (days, line) for number, line in enumerate(walks.tolist())},
        "Five of the walks",
    )
    print(f"  drawn: {options.out}")
    return results


if __name__ == "__main__":
    main()
