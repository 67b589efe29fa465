"""The demo runs a network, proves what it shows, and leaves no division."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_demo_runs_a_network_and_proves_every_layout() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    proofs = re.findall(r"^ +proof +(.*)$", done.stdout, re.MULTILINE)
    assert len(proofs) == 4
    assert re.fullmatch(r"within \S+ of NumPy", proofs[0])
    assert all(line.startswith("equal on all") for line in proofs[1:])
    for phase in ("build", "passes", "lower", "compile", "call", "again", "numpy"):
        assert re.search(rf"^ +{phase} +[\d.]+ ms", done.stdout, re.MULTILINE)
    assert re.search(r"GFLOP/s +GB/s", done.stdout)
    assert re.search(r"\d+ divisions and remainders in, 0 out\.", done.stdout)
    assert "\033" not in done.stdout  # no colours where nobody looks
