"""A differentiable solver: rates of a differential equation are found by going down the gradient through all its steps.

Hares and lynxes (Lotka and Volterra): h' = a·h - b·h·l, l' = c·h·l - d·l. Somebody counted them, with errors, a few times. The four rates and
the two first counts are what is asked for. The equation is solved by Runge's and Kutta's method in a `scan`; L-BFGS moves all six
numbers at once by the exact derivative of the whole solution.

    python examples/solver.py                  # prints a table, draws solver.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

import planish as pn
from planish import optim

sys.path.insert(0, str(Path(__file__).parent))
from pictures import chart

TRUTH = {"a": 1.1, "b": 0.4, "c": 0.1, "d": 0.4, "hares": 10.0, "lynxes": 5.0}
STEP = 0.05


def change(state: pn.Tensor, rates: dict[str, pn.Tensor]) -> pn.Tensor:
    """How fast both counts grow."""
    hares, lynxes = state[0], state[1]
    meetings = hares * lynxes
    return pn.stack([rates["a"] * hares - rates["b"] * meetings, rates["c"] * meetings - rates["d"] * lynxes])


def solve(logs: dict[str, pn.Tensor], steps: int) -> pn.Tensor:
    """Counts after each step, (steps, 2); rates and first counts are given as logarithms, so that they stay positive."""
    rates = {name: pn.exp(value) for name, value in logs.items()}

    def step(state: pn.Tensor, _: None) -> tuple[pn.Tensor, pn.Tensor]:
        one = change(state, rates)
        two = change(state + one * (STEP / 2), rates)
        three = change(state + two * (STEP / 2), rates)
        four = change(state + three * STEP, rates)
        state = state + (one + 2.0 * two + 2.0 * three + four) * (STEP / 6)
        return state, state

    return pn.scan(step, pn.stack([rates["hares"], rates["lynxes"]]), length=steps)[1]


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Find the rates; what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--counts", type=int, default=40, help="how often animals were counted")
    parser.add_argument("--noise", type=float, default=0.02)
    parser.add_argument("--out", type=Path, default=Path("solver.svg"))
    options = parser.parse_args(arguments)

    def logs_of(values: dict[str, float]) -> dict[str, pn.Tensor]:
        return {name: pn.asarray(np.log(value)) for name, value in values.items()}

    exact = np.asarray(solve(logs_of(TRUTH), options.steps))
    seen = np.linspace(options.steps // options.counts, options.steps - 1, options.counts).astype(int)
    errors = np.random.default_rng(0).normal(size=(options.counts, 2))
    counted = exact[seen] * np.exp(options.noise * errors)

    def loss(logs: dict[str, pn.Tensor], seen: pn.Tensor, counted: pn.Tensor) -> pn.Tensor:
        solution = pn.take(solve(logs, options.steps), seen, axis=0)
        return pn.mean(pn.square(pn.log(solution) - pn.log(counted)))

    guess = logs_of({"a": 0.8, "b": 0.3, "c": 0.15, "d": 0.6, "hares": 8.0, "lynxes": 4.0})
    data = pn.asarray(seen), pn.asarray(counted)
    before, first = float(loss(guess, *data)), np.asarray(solve(guess, options.steps))
    began = perf_counter()
    fitted, state = optim.LBFGS(max_iter=200).minimize(loss, guess, *data)
    took = perf_counter() - began
    rates = {name: float(pn.exp(value)) for name, value in fitted.items()}
    print(
        f"solver: {options.steps} steps of Runge and Kutta, {options.counts} counts with {options.noise:.0%} error"
    )
    print(
        f"  the error falls from {before:.3g} to {float(state.value):.3g} in {state.iterations} iterations,"
    )
    print(f"  {state.evaluations} solutions with their gradients, {took:.1f} s with compiling")
    print("            truth    found")
    for name, value in TRUTH.items():
        print(f"  {name:7s} {value:8.3f} {rates[name]:8.3f}")
    time = STEP * np.arange(1, options.steps + 1)
    last = np.asarray(solve(fitted, options.steps))
    curves = {
        "hares, found": (time, last[:, 0]),
        "lynxes, found": (time, last[:, 1]),
        "hares, first guess": (time, first[:, 0]),
    }
    chart(
        options.out,
        curves,
        "Rates found through the solver",
        {"counted": (np.tile(time[seen], 2), counted.T.reshape(-1))},
    )  # type: ignore[dict-item] # arrays are sequences
    print(f"  drawn: {options.out}")
    return rates


if __name__ == "__main__":
    main()
