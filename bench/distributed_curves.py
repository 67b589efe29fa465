"""Predicted steps of a GPT-like model on meshes up to 4,096 devices (`planish.distributed.simulate`); nothing is run.

    python bench/distributed_curves.py [--json FILE] [--layers 4] [--width 4096]

The model is that of examples/distributed_gpt.py, of shapes alone, trained by plain descent; the batch grows with the ranks that share it (two rows for
each). Devices reach 400 TFLOP/s and 2.5 TB/s, eight to a node at 300 GB/s each; nodes have 400 GB/s. These are assumptions, not measurements.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import distributed_gpt as example
import report

import planish as pn
from planish.distributed import Device, Link, Network, Prediction, simulate

NETWORK = Network(8, Link(3e-6, 300e9), Link(8e-6, 400e9))
DEVICE = Device(400e12, 2.5e12)
LETTERS, CONTEXT, ROWS = 256, 2048, 2
MESHES = ((1, 1), (8, 1), (1, 8), (64, 1), (8, 8), (512, 1), (64, 8), (4096, 1), (512, 8))
"""Ranks that share the batch, and ranks that share the model."""


def predicted(data: int, model: int, layers: int, width: int) -> Prediction:
    mesh = pn.Mesh((data, model), ("data", "model"))
    cut: Any = example.spec_of if model > 1 else pn.P()
    shapes = pn.eval_shape(lambda: example.GPT(LETTERS, CONTEXT, width, 32, layers))
    batch = pn.TensorSpec((data * ROWS, CONTEXT + 1), pn.int64)

    def loss_of(gpt: example.GPT, letters: pn.Tensor) -> pn.Tensor:
        return example.mean_surprise(gpt(letters[:, :-1]), letters[:, 1:])

    @pn.jit(mesh=mesh, in_shardings=(cut, pn.P("data")), out_shardings=(pn.P(), None))
    def step(gpt: example.GPT, letters: pn.Tensor) -> tuple[pn.Tensor, example.GPT]:
        loss, gradients = pn.value_and_grad(loss_of)(gpt, letters)
        return loss, pn.tree.map(lambda p, g: p - 1e-3 * g, gpt, gradients)

    return simulate(step.lower(shapes, batch), mesh, NETWORK, DEVICE)  # type: ignore[arg-type]


def main() -> None:
    parser = report.parser(__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=4096)
    options = parser.parse_args()
    rows = []
    print(
        "| data × model | step | with overlap | work | within nodes | between nodes |\n|---|---|---|---|---|---|"
    )
    for data, model in MESHES:
        prediction = predicted(data, model, options.layers, options.width)
        print(
            f"| {data} × {model} | {prediction.seconds * 1e3:.1f} ms | {prediction.overlapped * 1e3:.1f} ms | {prediction.efficiency:.0%} "
            f"| {prediction.inside / 1e6:.0f} MB | {prediction.between / 1e6:.0f} MB |",
            flush=True,
        )
        rows.append(
            report.Row(
                f"gpt, {data} x {model}", data * model, prediction.seconds * 1e3, "ms", None, None, None, 0.0
            )
        )
    report.finish(rows, options.json, shown=True)


if __name__ == "__main__":
    main()
