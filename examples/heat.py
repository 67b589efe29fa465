"""Heat spreads over a plate: a partial differential equation stepped by `scan`, checked against its exact solution, and drawn.

∂u/∂t = k·(∂²u/∂x² + ∂²u/∂y²) on the unit square with cold edges, by finite differences and explicit steps. All steps are one
compiled call: the loop runs in machine code and hands back the last state and what was recorded on the way.

    python examples/heat.py                    # draws into the terminal, and heat.png
    python examples/heat.py --size 256 --steps 20000
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import planish as pn

sys.path.insert(0, str(Path(__file__).parent))
from pictures import write_png

Array = NDArray[np.float32]


def diffusion(u: pn.Tensor) -> pn.Tensor:
    """The sum of the four neighbours less four times the middle; the edge is 0."""
    around = pn.pad(u, 1)
    return around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:] - 4.0 * u


def simulate(u: pn.Tensor, factor: float, steps: int) -> tuple[pn.Tensor, pn.Tensor]:
    """The plate after some steps, and its mean temperature after each."""

    def step(u: pn.Tensor, _: None) -> tuple[pn.Tensor, pn.Tensor]:
        u = u + factor * diffusion(u)
        return u, pn.mean(u)

    return pn.scan(step, u, length=steps)


def grid(size: int) -> tuple[Array, Array]:
    """x and y of the inner points."""
    line = (np.arange(1, size + 1) / (size + 1)).astype(np.float32)
    return line[:, None], line[None, :]


def plate(size: int) -> Array:
    """Hot spots: a ring, a bar and a dot."""
    y, x = grid(size)
    ring = np.abs(np.hypot(x - 0.35, y - 0.4) - 0.18) < 0.035
    bar = (np.abs(y - 0.78) < 0.03) & (x > 0.2) & (x < 0.85)
    dot = np.hypot(x - 0.75, y - 0.3) < 0.08
    return np.asarray(ring * 1.0 + bar * 0.8 + dot * 1.2, np.float32)


def exactness(size: int, factor: float, steps: int) -> float:
    """How far a wave, of which the solution is known, is from it at the end, relative to its height."""
    y, x = grid(size)
    wave = (np.sin(math.pi * x) * np.sin(math.pi * y)).astype(np.float32)
    run = pn.jit(lambda u: simulate(u, factor, steps)[0])
    computed = np.asarray(run(pn.asarray(wave)))
    spacing = 1 / (size + 1)
    time = factor * spacing**2 * steps
    wanted = wave * math.exp(-2 * math.pi**2 * time)
    return float(np.max(np.abs(computed - wanted)) / np.max(np.abs(wanted)))


def colours(u: Array) -> NDArray[np.uint8]:
    """Black, red, yellow, white."""
    level = np.clip(u / max(float(u.max()), 1e-9), 0, 1)[..., None] * 3
    return np.asarray(255 * np.clip(level - np.array([0, 1, 2]), 0, 1), np.uint8)


def picture(first: Array, last: Array, path: Path) -> Path:
    """Both plates side by side."""
    both = colours(np.concatenate([first / max(first.max(), 1e-9), last / max(last.max(), 1e-9)], axis=1))
    return write_png(path.with_suffix(".png"), both.repeat(2, axis=0).repeat(2, axis=1))


def sketch(u: Array, width: int = 56) -> str:
    """The plate in letters."""
    rows, columns = width // 2, width
    size = u.shape[0]
    y = np.arange(rows) * size // rows
    x = np.arange(columns) * size // columns
    level = u[np.ix_(y, x)] / max(float(u.max()), 1e-9)
    shades = np.array(list(" .:-=+*#%@"))
    return "\n".join("  " + "".join(row) for row in shades[np.clip((level * 10).astype(int), 0, 9)])


def main(arguments: Sequence[str] | None = None) -> float:
    """Simulate, check and draw; the relative error against the exact solution."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--out", type=Path, default=Path("heat"))
    options = parser.parse_args(arguments)

    factor = 0.2  # k·dt/dx²; above 1/4 the steps would be unstable
    start = plate(options.size)
    run = pn.jit(lambda u: simulate(u, factor, options.steps))
    began = perf_counter()
    pn.realize(*run(pn.asarray(start)))
    first = perf_counter() - began
    began = perf_counter()
    last, heat = run(pn.asarray(start))
    took = perf_counter() - began
    end, curve = np.asarray(last), np.asarray(heat)
    points = options.size**2 * options.steps
    print(f"heat: {options.size} × {options.size} points, {options.steps} steps")
    print(
        f"  {first - took:.2f} s to compile, {took:.3f} s to run: {points / took / 1e6:,.0f} million points per second"
    )
    shown = [0, len(curve) // 4, len(curve) // 2, len(curve) - 1]
    marks = "  ".join(f"{step + 1}: {curve[step]:.4f}" for step in shown)
    print(f"  mean temperature after step {marks}")
    error = exactness(options.size, factor, options.steps)
    print(f"  a wave ends within {error:.1e} of its exact solution")
    print(sketch(end))
    print(f"  before and after: {picture(start, end, options.out)}")
    return error


if __name__ == "__main__":
    main()
