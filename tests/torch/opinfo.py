"""Runs torch's own table of ops (OpInfo) through torch.compile(backend="planish") and beside eager torch.

python -m tests.torch.opinfo --out results.jsonl [--gradients] [--only add,mul] [--interpreter] [--samples 2] [--share 0/4]

One line of JSON per op and run; ops that are in the file already are skipped, so that a run can be continued. An op counts as
`run` if its results (or gradients) are right and every node was run by planish.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
import time
import traceback
import types
import unittest
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

import planish.torch

if importlib.util.find_spec("expecttest") is None:
    # torch's own test helpers want it; the table of ops does not
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]

from torch.testing._internal import common_methods_invocations

op_db = common_methods_invocations.op_db
# Ops with random numbers reseed around each call, at which TorchDynamo gives up; `attempt` seeds before a call instead.
vars(common_methods_invocations)["wrapper_set_seed"] = lambda op, *args, **named: op(*args, **named)

RTOL, ATOL = 1e-4, 1e-5
"""Of float32; reductions and special functions are compared by the same."""


class _Late(Exception):
    """An op took too long."""


def entries() -> list[Any]:
    """The ops that have float32 on the CPU."""
    return [op for op in op_db if op.supports_dtype(torch.float32, "cpu")]


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def samples(op: Any, count: int, gradients: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    for number, sample in enumerate(op.sample_inputs("cpu", torch.float32, requires_grad=gradients)):
        if number >= count:
            return
        yield sample


def _leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _copied(value: Any) -> Any:
    """Arguments of one's own: ops may write to them."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    return pytree.tree_map(copy, value)


def _gradients(function: Any, args: Any, named: Any, sample: Any) -> list[torch.Tensor | None]:
    """Of what is unique in the results: of some the table says how that is made of them (up to a sign, a phase, an order)."""
    inputs = [leaf for leaf in _leaves((args, named)) if leaf.requires_grad]
    made = sample.output_process_fn_grad(function(*args, **named))
    results = [leaf for leaf in _leaves(made) if leaf.requires_grad]
    weights = [
        torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype).reshape(leaf.shape) for leaf in results
    ]
    return list(torch.autograd.grad(results, inputs, weights, allow_unused=True)) if results else []


def _compare(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected), (len(found), len(expected))
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is None or ours is None:
            assert ours is theirs
            continue
        torch.testing.assert_close(ours, theirs, rtol=RTOL, atol=ATOL, equal_nan=True, check_stride=False)


def attempt(op: Any, sample: Any, gradients: bool, options: dict[str, Any]) -> None:
    """One sample, compiled and eager; raises if they differ."""
    args = (sample.input, *sample.args)

    def function(*args: Any, **named: Any) -> Any:
        return op.op(*args, **named)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=planish.torch.planish_backend, options=options)
    mine, own = _copied((args, sample.kwargs))
    theirs, other = _copied((args, sample.kwargs))
    made = wanted = None
    if gradients:
        torch.manual_seed(7)
        expected: list[Any] = _gradients(function, theirs, other, sample)
        torch.manual_seed(7)
        found: list[Any] = _gradients(compiled, mine, own, sample)
    else:
        with torch.no_grad():
            torch.manual_seed(7)
            wanted = function(*theirs, **other)
            torch.manual_seed(7)
            made = compiled(*mine, **own)
            found, expected = _leaves(made), _leaves(wanted)
    try:
        _compare(found, expected)
    except AssertionError:
        if _as_near(found, expected, function, sample, gradients):
            return
        if gradients:
            raise
        _compare(_leaves(sample.output_process_fn_grad(made)), _leaves(sample.output_process_fn_grad(wanted)))


def _as_near(found: list[Any], expected: list[Any], function: Any, sample: Any, gradients: bool) -> bool:
    """Where float32 itself is far off: whether we are about as near to float64 as eager torch is."""

    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype is not torch.float32:
            return leaf
        return leaf.detach().double().requires_grad_(leaf.requires_grad)

    exact_args, exact_named = pytree.tree_map(wide, ((sample.input, *sample.args), sample.kwargs))
    exact: list[Any]
    if gradients:
        exact = _gradients(function, exact_args, exact_named, sample)
    else:
        exact = _leaves(function(*exact_args, **exact_named))
    for ours, theirs, right in zip(found, expected, exact, strict=True):
        if ours is None or theirs is None or right is None or not theirs.dtype.is_floating_point:
            continue
        own, other = ((x.double() - right).abs().nan_to_num(0.0) for x in (ours, theirs))
        if ours.shape != right.shape or bool((ours.isnan() != theirs.isnan()).any()):
            return False
        if float(own.max()) > 2 * float(other.max()) + ATOL:
            return False
    return True


def run(op: Any, gradients: bool, count: int, options: dict[str, Any], limit: int = 60) -> dict[str, Any]:
    """One op: whether it is right, whether planish ran it, and if not, why."""
    row: dict[str, Any] = {"op": name_of(op), "gradients": gradients, "samples": 0}
    start = time.perf_counter()
    planish.torch.report(reset=True)

    def late(*_: object) -> None:
        raise _Late(f"longer than {limit} s")

    # of the processor: other programs on the machine must not decide
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for sample in samples(op, count, gradients):
                attempt(op, sample, gradients, options)
                row["samples"] += 1
        row["right"] = True
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        row["right"] = False
        row["error"] = f"{type(error).__name__}: {error}"[:600]
        row["where"] = traceback.format_exc(limit=-3)[-700:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    report = planish.torch.report()
    row["handed_back"] = sorted(f"{name}: {why}"[:200] for name, why in report.handed_back)
    row["nodes"], row["draws"] = report.nodes, report.draws.total()
    row["run"] = bool(row["right"] and report.graphs and not report.handed_back)
    row["seconds"] = round(time.perf_counter() - start, 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--share", default="0/1")
    given = parser.parse_args()
    done = set()
    if given.out.exists():
        done = {json.loads(line)["op"] for line in given.out.read_text().splitlines()}
    only = set(filter(None, given.only.split(",")))
    number, shares = map(int, given.share.split("/"))
    options = {"device": "interpreter"} if given.interpreter else {}
    ran = count = 0
    for op in entries():
        name = name_of(op)
        if name in done or (only and name not in only) or zlib.crc32(name.encode()) % shares != number:
            continue
        if given.gradients and not op.supports_autograd:
            continue
        row = run(op, given.gradients, given.samples, options)
        count, ran = count + 1, ran + row["run"]
        with given.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        if not row["run"]:
            print(f"{name}: {row.get('error', row['handed_back'])}"[:160], flush=True)
    print(f"{ran} of {count}", file=sys.stderr)


if __name__ == "__main__":
    main()
