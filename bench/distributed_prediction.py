"""What `planish.distributed.simulate` says of a training step, beside what it takes on ranks of this machine.

    planish launch -n 2 bench/distributed_prediction.py [--json FILE]

The first rank alone measures the step of one rank, which says what the device reaches; all together measure small and large messages, which say what the
network is. Then the step on all ranks is predicted, and measured. Milliseconds, the fastest of repeats, by the clock and by the processor's time of a
rank without waiting: where others want the cores too, only the second says something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import distributed_gpt as example
import numpy as np
import report

import planish as pn
from planish import compiler, distributed
from planish.distributed import Device, Link, Network, simulate
from planish.ptir import Graph, tensor

LETTERS, CONTEXT, WIDTH, LAYERS, ROWS = 64, 64, 192, 2, 32


def worked() -> float:
    """Seconds of the processor, without those that a rank waited in collectives."""
    return process_time() - distributed.statistics().processor


def fastest(call: Callable[[], object], times: int, clock: Callable[[], float] = perf_counter) -> float:
    """Seconds; the rank that takes longest counts."""
    took = []
    for _ in range(times):
        distributed.barrier()
        begin = clock()
        call()
        took.append(clock() - begin)
    best = np.frombuffer(b"".join(distributed.init().agree("timing", np.float64(min(took)).tobytes())))
    return float(best.max())


def loss_of(gpt: example.GPT, letters: pn.Tensor) -> pn.Tensor:
    return example.mean_surprise(gpt(letters[:, :-1]), letters[:, 1:])


def descended(gpt: example.GPT, letters: pn.Tensor) -> tuple[pn.Tensor, example.GPT]:
    loss, gradients = pn.value_and_grad(loss_of)(gpt, letters)
    return loss, pn.tree.map(lambda p, g: p - 1e-3 * g, gpt, gradients)


def network(ranks: int) -> Network:
    """The links of this machine: a small message, and a large one."""

    def all_reduce(size: int) -> float:
        graph = Graph(f"message{size}")
        run = compiler.compile(
            graph.build(graph.input("x", tensor("f32", (size,))).all_reduce((("data", ranks),), ("data",)))
        )
        given = np.ones(size, np.float32)
        return fastest(lambda: run(given), 40)

    size = 1 << 20
    latency = all_reduce(2) / (2 * int(np.ceil(np.log2(ranks)))) if ranks > 1 else 1e-6
    large = all_reduce(size) if ranks > 1 else 1e-3
    around = max(large - 2 * (ranks - 1) * latency, 1e-9)
    link = Link(latency, 4 * size * 2 * max(ranks - 1, 1) / ranks / around)
    return Network(ranks, link, link)


def main() -> None:
    options = report.parser(__doc__).parse_args()
    world = distributed.init()
    gpt: Any = example.GPT(LETTERS, CONTEXT, WIDTH, 4, LAYERS)
    letters = pn.asarray(np.random.default_rng(0).integers(0, LETTERS, (ROWS, CONTEXT + 1)))
    with pn.settings(threads=1):
        alone = 0.0
        if world.rank == 0:
            plain = pn.jit(descended)
            times = []
            for _ in range(12):
                begin = process_time()
                np.asarray(plain(gpt, letters)[0])
                times.append(process_time() - begin)
            alone = min(times)
        alone = float(np.frombuffer(world.agree("the step of one rank", np.float64(alone).tobytes())[0])[0])
        meshes = [pn.Mesh((n,), ("data",)) for n in (1, world.size)]
        steps = [
            pn.jit(mesh=mesh, in_shardings=(pn.P(), pn.P("data")), out_shardings=(pn.P(), None))(descended)
            for mesh in meshes
        ]
        links, guess = network(world.size), Device(1e11, 1e10)
        one = simulate(steps[0].lower(gpt, letters), meshes[0], links, guess)  # type: ignore[arg-type]
        device = guess.fitted(one, alone)
        prediction = simulate(steps[1].lower(gpt, letters), meshes[1], links, device)  # type: ignore[arg-type]
        state = gpt

        def run() -> None:
            np.asarray(steps[1](state, letters)[0])

        run()
        measured, work = fastest(run, 12), fastest(run, 12, worked)
    if world.rank == 0:
        print(f"{links}\n{prediction}")
        pairs = (("step", prediction.seconds, measured), ("work of a rank", prediction.compute, work))
        rows = [
            report.Row(
                f"{what} on {world.size} ranks",
                ROWS,
                said * 1e3,
                "ms",
                "measured",
                took * 1e3,
                took / said,
                0.0,
            )
            for what, said, took in pairs
        ]
        report.finish(rows, options.json)
    world.barrier()


if __name__ == "__main__":
    main()
