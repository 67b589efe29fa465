"""`planish bisect`: the first stage (or pass, or level) after which a program's result differs from what it means.

The inputs are arrays from files, or random ones. Exit status 0 means that nothing was found.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import compiler
from planish.cli.bisect import pass_lines
from planish.cli.console import FAILED, OK, CommandError, CommandParser, Console
from planish.cli.files import STDIN
from planish.cli.load import add_load_argument, load_files
from planish.cli.lower import add_entry_argument, add_target_argument, enter
from planish.cli.models import read_arrays
from planish.cli.pipeline import adjust, read_passes
from planish.cli.sources import SOURCE_HELP, add_source_arguments, read_program
from planish.compiler.bisect import PASSES, KernelCulprit, bisect, row_of
from planish.compiler.progress import ProgressLine
from planish.config import current, in_environment
from planish.dtypes import DType
from planish.errors import ParseError
from planish.ptir import Function
from planish.ptir.rewrite.reproducer import read_reproducer
from planish.target import find as find_target

Array = NDArray[Any]
_SIZE: Final = 3
"""What a named size is taken to be, if its bounds allow."""
_EPILOG: Final = """\
The kernels of the program are executed as they are scheduled, after every stage, as LLIR and as machine code;
the results are compared with each other and with those of the PTIR interpreter.

examples:
  planish bisect prog.ptir --rules
  planish bisect mlp.py:forward --args "f32[8, 16]"     a function of Python's
  planish bisect reproducer.ptir                        what an internal error left behind
"""


def parser() -> CommandParser:
    parser = CommandParser("planish bisect", "Find the stage that makes a program's result wrong.", _EPILOG)
    parser.option("file", "FILE", SOURCE_HELP, nargs="?", default="-")
    add_source_arguments(parser)
    parser.flag("--rules", "find the rule, too")
    add_target_argument(parser)
    parser.several(
        "--input",
        "FILE",
        "an array for the next parameter (.npy), or several by position or name (.npz); may be repeated",
    )
    parser.option("--seed", "N", "of the random inputs (default: 0)", type=int, default=0)
    parser.option(
        "-p",
        "--pipeline",
        "TEXT",
        f"the passes to run before (default: {compiler.PIPELINE}, or what a reproducer names)",
    )
    add_load_argument(parser)
    add_entry_argument(parser)
    return parser


def run(arguments: Sequence[str], console: Console) -> int:
    args = parser().parse(arguments, console)
    loaded = load_files(args.load)
    program = read_program(args, console)
    _as_reproducer(args, console)
    passes = adjust(read_passes(args.pipeline), extra=loaded)
    enter(program, args.entry)
    function = program.entry
    arrays = _arrays(function, args)
    target = find_target(current().target if args.target is None else args.target)
    with ProgressLine(f"bisecting @{function.name}", counted="launches"):
        culprit = bisect(program, arrays, target, rules=args.rules, passes=passes)
    if culprit is None:
        text = f"@{function.name}: every stage gives the result of the interpreter\n"
        console.product({"function": function.name, "culprit": None}, text)
        return OK
    console.product(record(function, culprit), report(function, culprit))
    return FAILED


def _as_reproducer(args: argparse.Namespace, console: Console) -> None:
    """What the head of a reproducer says stands for what the command line does not say."""
    try:
        reproducer = read_reproducer(console.sources.get(STDIN if args.file == "-" else args.file, ""))
    except ParseError:
        args.pipeline = compiler.PIPELINE if args.pipeline is None else args.pipeline
        return
    args.pipeline = reproducer.pipeline if args.pipeline is None else args.pipeline
    args.target = args.target or reproducer.facts.get("target")
    given = {word.partition("=")[0] for word in args.set_}
    told = dict(word.split("=", 1) for word in reproducer.facts.get("set", "").split() if "=" in word)
    console.open.enter_context(in_environment({name: v for name, v in told.items() if name not in given}))


def record(function: Function, culprit: KernelCulprit) -> dict[str, object]:
    """What was found, as data."""
    finding, rule = culprit.finding, culprit.finding.rule
    told = (
        None
        if rule is None
        else {"name": rule.name, "number": rule.number, "before": str(rule.before), "after": str(rule.after)}
    )
    facts: dict[str, object] = {
        "kernel": culprit.kernel,
        "stage": finding.stage,
        "name": finding.name,
        "kind": finding.kind,
        "what": finding.what,
    }
    wrong = culprit.wrong_pass
    if wrong is not None:
        rewrite = None if wrong.rewrite is None else str(wrong.rewrite.step).strip()
        facts["pass"] = {"name": wrong.step, "number": wrong.number, "rewrite": rewrite}
    return {"function": function.name, "culprit": {**facts, "rule": told}}


def report(function: Function, culprit: KernelCulprit) -> str:
    """What was found, in words, with the row of the table of symptoms that belongs to it."""
    finding = culprit.finding
    where = f"@{function.name}" if culprit.kernel is None else f"@{function.name}, kernel {culprit.kernel}"
    place = f"stage {finding.stage} ({finding.name})" if 0 < finding.stage <= 22 else finding.name
    lines = [f"{where}: {place}: {_KINDS[finding.kind]}", *(f"  {line}" for line in finding.what.split("\n"))]
    if finding.rule is not None:
        rule = finding.rule
        lines += [
            f"rule {rule.number} of {rule.total} in this stage: {rule.name}",
            f"  before: {rule.before}",
            f"  after:  {rule.after}",
        ]
        if rule.since < rule.number - 1:
            lines.append(
                f"  (after rules {rule.since + 1} to {rule.number - 1} the kernel cannot be executed)"
            )
    if culprit.wrong_pass is not None:
        lines += [str(culprit.wrong_pass), *pass_lines(culprit.wrong_pass)]
    if finding.stage != PASSES:
        lines.append(f"docs/debugging.md: {row_of(finding)}")
    return "\n".join(lines) + "\n"


_KINDS: Final = {
    "values": "the result is wrong from here on",
    "crash": "it fails",
    "illegal": "the spec is broken from here on",
    "outside": "memory is accessed outside its buffer",
    "unwritten": "something is read before it is written",
    "race": "one place gets two values",
}


# -- inputs --------------------------------------------------------------------------------------------------------


def _arrays(function: Function, args: argparse.Namespace) -> list[Array]:
    if not args.input:
        return random_arrays(function, args.seed)
    inputs: list[Array] = []
    named: dict[str, Array] = {}
    for name in args.input:
        loaded = read_arrays(name)
        if isinstance(loaded, dict):
            named.update(loaded)
        else:
            inputs.append(loaded)
    arrays = []
    for position, param in enumerate(function.params):
        for key in (param.name, f"arg_{position}", str(position)):
            if key in named:
                arrays.append(named[key])
                break
        else:
            if not inputs:
                raise CommandError(
                    f"parameter {position} ({param.name}: {param.type}) has no input",
                    remedy="give one --input per parameter, or an .npz with all of them",
                )
            arrays.append(inputs.pop(0))
    return arrays


def random_arrays(function: Function, seed: int) -> list[Array]:
    """Numbers of an ordinary size for every parameter; named sizes are small."""
    rng = np.random.default_rng(seed)
    sizes: dict[str, int] = {}
    for param in function.params:
        for dim in param.type.dims:
            if not isinstance(dim, int):
                for symbol in dim.symbols():
                    sizes.setdefault(symbol.name, min(max(symbol.lo, _SIZE), symbol.hi))
    arrays = []
    for param in function.params:
        dims = [dim if isinstance(dim, int) else dim.evaluate(sizes) for dim in param.type.dims]
        arrays.append(_numbers(rng, param.type.dtype, dims))
    return arrays


def _numbers(rng: np.random.Generator, dtype: DType, dims: Sequence[int]) -> Array:
    if dtype.is_bool:
        return rng.integers(0, 2, dims).astype(np.bool_)
    if dtype.is_int:
        low = 0 if dtype.is_unsigned else -7
        return rng.integers(low, 8, dims).astype(dtype.numpy)
    values = rng.standard_normal(dims)
    if dtype.is_complex:
        values = values + 1j * rng.standard_normal(dims)
    return np.asarray(values).astype(dtype.numpy)
