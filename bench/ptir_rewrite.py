"""The PTIR rewrite engine against xDSL's and MLIR's: the same programs, the shipped patterns of each, time per op.

    python bench/ptir_rewrite.py [--sizes 100 1000 10000 100000 1000000] [--json FILE]

Programs are those of `ptir_programs`. Each side runs its passes on a fresh copy of the same program, in process,
verifiers off, building and copying not timed; what MLIR's pass costs on an empty function is subtracted. CPU time,
the collector off on our side as the pass manager holds it off, sides interleaved, medians. xDSL takes part up to
`--xdsl-up-to` ops, since a run at 1e5 takes it many seconds.

After the table: the exponent of time over size from 1e3 to the largest size, visits per op, what was left, and the
peak memory of the largest size in a process of its own, against the limits that hold for this engine.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
import report
from ptir_programs import ARGUMENTS, LITERALS, make

from planish import dtypes
from planish.ptir import Function, Literal, PassManager, Program, SSAValue, ops, tensor

PASSES = ("canonicalize", "cse", "dce")
KINDS = ("mixed", "clean")
MAX_EXPONENT = 1.15
MAX_BYTES = 4 << 30
MIN_RATIO_TO_XDSL = 15.0


def build(kind: str, size: int) -> Function:
    steps, last = make(kind, size)
    i64 = tensor("i64")
    function = Function("f", [i64] * ARGUMENTS)
    body = function.body
    literals = [
        body.append(ops.constant, (), ops.ConstantAttrs(Literal.full(dtypes.int64, (), n))).result
        for n in LITERALS
    ]
    values: list[SSAValue] = []
    scope = {"a": function.params, "c": literals, "v": values}
    table = {"add": ops.add, "mul": ops.mul}
    for step in steps:
        operands = (scope[step.lhs[0]][step.lhs[1]], scope[step.rhs[0]][step.rhs[1]])
        values.append(body.append(table[step.op], operands).results[0])
    body.set_results([values[last]])
    return function


def ours(function: Function, name: str) -> Callable[[], float]:
    manager = PassManager.parse(name)
    manager.run(
        Program([build("mixed", 200)])
    )  # decision tables are made once per process, as MLIR's pattern set is

    def run() -> float:
        gc.collect()
        program = Program([function.clone()])
        start = process_time()
        manager.run(program)
        seconds = process_time() - start
        return seconds * 1e6 / size_of(function)

    return run


def size_of(function: Function) -> int:
    return len(function) - len(LITERALS)


def xdsl_side(kind: str, size: int, name: str) -> Callable[[], float]:
    from xdsl.builder import Builder
    from xdsl.context import Context
    from xdsl.dialects import arith, builtin, func
    from xdsl.rewriter import InsertPoint
    from xdsl.transforms.canonicalize import CanonicalizePass
    from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
    from xdsl.transforms.dead_code_elimination import DeadCodeElimination

    steps, last = make(kind, size)
    module = builtin.ModuleOp([])
    function = func.FuncOp("f", ([builtin.i64] * ARGUMENTS, [builtin.i64]))
    module.body.block.add_op(function)
    builder = Builder(InsertPoint.at_end(function.body.block))
    literals = [
        builder.insert(arith.ConstantOp(builtin.IntegerAttr(n, builtin.i64))).results[0] for n in LITERALS
    ]
    values: list = []
    scope = {"a": function.body.block.args, "c": literals, "v": values}
    table = {"add": arith.AddiOp, "mul": arith.MuliOp}
    for step in steps:
        operands = (scope[step.lhs[0]][step.lhs[1]], scope[step.rhs[0]][step.rhs[1]])
        values.append(builder.insert(table[step.op](*operands)).results[0])
    builder.insert(func.ReturnOp(values[last]))
    context = Context()
    for dialect in (arith.Arith, builtin.Builtin, func.Func):
        context.load_dialect(dialect)
    chosen = {
        "canonicalize": CanonicalizePass,
        "cse": CommonSubexpressionElimination,
        "dce": DeadCodeElimination,
    }[name]()

    def run() -> float:
        gc.collect()
        copy = module.clone()
        start = process_time()
        chosen.apply(context, copy)
        return (process_time() - start) * 1e6 / size

    return run


def mlir_side(kind: str, size: int, name: str) -> Callable[[], float]:
    from iree.compiler import ir, passmanager

    def text(body: list[str], result: str) -> str:
        arguments = ", ".join(f"%a{i}: i64" for i in range(ARGUMENTS))
        lines = [f"  %c{n} = arith.constant {n} : i64" for n in LITERALS]
        return "\n".join(
            [
                f"func.func @f({arguments}) -> i64 {{",
                *lines,
                *body,
                f"  return {result} : i64",
                "}",
            ]
        )

    steps, last = make(kind, size)
    body = [
        f"  %v{i} = arith.{s.op}i %{s.lhs[0]}{s.lhs[1]}, %{s.rhs[0]}{s.rhs[1]} : i64"
        for i, s in enumerate(steps)
    ]
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        module = ir.Module.parse(text(body, f"%v{last}"))
        empty = ir.Module.parse(text([], "%a0"))
        manager = passmanager.PassManager.parse(f"builtin.module(func.func({name}))")
        manager.enable_verifier(False)

    def timed(source: ir.Module) -> float:
        gc.collect()
        with context:
            copy = source.operation.clone()
            start = process_time()
            manager.run(copy)
            return process_time() - start

    def run() -> float:
        return max(timed(module) - timed(empty), 1e-9) * 1e6 / size

    return run


def installed(module: str) -> bool:
    try:
        __import__(module)
    except ImportError:
        print(f"{module} is not installed: left out")
        return False
    return True


def measure_memory(kind: str, size: int) -> int:
    """Peak bytes of building that program and running the default pipeline, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--peak", kind, str(size)], check=True, capture_output=True, text=True
    )
    return int(json.loads(done.stdout)["bytes"])


def peak(kind: str, size: int) -> None:
    function = build(kind, size)
    PassManager.parse(",".join(PASSES)).run(Program([function]))
    print(json.dumps({"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log(total time) over log(size), by least squares."""
    x = [math.log(size) for size, _ in points]
    y = [math.log(per_op * size) for size, per_op in points]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum((a - mx) ** 2 for a in x)


def verdict(good: bool) -> str:
    return "ok" if good else "MISSED"


def main() -> None:
    parser = report.parser(__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--xdsl-up-to", type=int, default=10_000, metavar="N")
    parser.add_argument("--mlir-up-to", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--passes", nargs="+", default=list(PASSES), choices=PASSES)
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak[0], int(options.peak[1]))
        return
    with_xdsl, with_mlir = installed("xdsl"), installed("iree.compiler")
    rows: list[report.Row] = []
    for kind in KINDS:
        for size in options.sizes:
            function = build(kind, size)
            for name in options.passes:
                peers: dict[str, Callable[[], float]] = {}
                if with_xdsl and size <= options.xdsl_up_to:
                    peers["xdsl"] = xdsl_side(kind, size, name)
                # MLIR removes dead code in its canonicalizer: there is no pass to set beside `dce`.
                if with_mlir and size <= options.mlir_up_to and name != "dce":
                    peers["mlir"] = mlir_side(kind, size, name)
                repeats = min(options.repeats, 3) if size >= 100_000 else options.repeats
                rows += report.compare(f"{name} {kind}", size, "us/op", ours(function, name), peers, repeats)
                print(f"  {name} {kind} {size}: {rows[-1].ours:.2f} us/op", file=sys.stderr, flush=True)
    report.finish(rows, options.json)
    summarise(rows, max(options.sizes))


def summarise(rows: list[report.Row], largest: int) -> None:
    print()
    for name in sorted({row.name for row in rows}):
        points = {row.size: row.ours for row in rows if row.name == name and row.size >= 1000}
        if len(points) > 1:
            slope = exponent(sorted(points.items()))
            print(f"exponent {name}: {slope:.3f} (at most {MAX_EXPONENT}): {verdict(slope <= MAX_EXPONENT)}")
    ratios = [
        row.ratio
        for row in rows
        if row.peer_name == "xdsl" and row.name.startswith("canonicalize") and row.ratio is not None
    ]
    if ratios:
        good = min(ratios) >= MIN_RATIO_TO_XDSL
        print(
            f"canonicalize against xDSL: {min(ratios):.1f}x at least ({MIN_RATIO_TO_XDSL:.0f}x asked): {verdict(good)}"
        )
    for kind in KINDS:
        function = build(kind, min(largest, 12_000))
        size = size_of(function)
        result = PassManager.parse("canonicalize").run(function)
        visits = result.statistics()["canonicalize.visits"] / size
        print(f"{kind}: {visits:.2f} visits per op, {len(function)} of {size} left after canonicalize")
    if largest >= 1_000_000:
        used = measure_memory("mixed", largest)
        print(f"peak memory at {largest} ops: {used / 2**30:.2f} GiB (under 4): {verdict(used < MAX_BYTES)}")


if __name__ == "__main__":
    main()
