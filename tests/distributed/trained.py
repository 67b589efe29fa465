"""One rank of a test: the GPT of the examples under several specs, and a run that stops and goes on; losses as JSON.

planish launch -n 2 -m tests.distributed.trained FOLDER [PARALLEL …]
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import planish as pn

SMALL = ["--batch", "4", "--context", "16", "--width", "16", "--heads", "2", "--layers", "1"]


def main(folder: str, modes: Sequence[str]) -> None:
    place = Path(__file__).parents[2] / "examples" / "distributed_gpt.py"
    spec = importlib.util.spec_from_file_location("distributed_gpt", place)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)

    def losses(steps: int, mode: str, *options: str) -> list[float]:
        with contextlib.redirect_stdout(io.StringIO()):
            found: list[float] = example.main([*SMALL, "--steps", str(steps), "--parallel", mode, *options])
        return found

    # a rank has a layer of a pipeline at least: its losses are compared with those of as many layers
    told = {mode: losses(4, mode, *(["--layers", "2"] if mode == "pipeline" else [])) for mode in modes}
    run = ["--run", folder]
    told["resumed"] = losses(2, modes[-1], *run) + losses(2, modes[-1], *run)
    if pn.distributed.rank() == 0:
        print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
