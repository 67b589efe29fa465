"""Golden cases of rewrite rules: their file format, and what is checked about each of them.

A file `tests/golden/ptir/rules/<family>.ptir` holds cases separated by `// -----`:

    // case: cancel-inverse-permutations
    // pattern: FoldTransposeOfTranspose
    <a program>
    // expect:
    <the program once canonicalised>

Further headers, all optional:

    // settings: fastmath=true      planish.config settings in force while rewriting
    // compare: close               float results may differ by rounding (reductions in another order)
    // inputs: tame                 small finite numbers only (loops whose count is an input)

A case called `not-…` must leave its program as it is, and its pattern must not fire. Any other case must need
its pattern: without it the result must differ.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from planish import config, dtypes
from planish.dtypes import DType
from planish.ptir import text
from planish.ptir.function import Function, Program
from planish.ptir.interpret import interpret
from planish.ptir.interpret_ranks import interpret_ranks, mesh_of
from planish.ptir.ops import numerics
from planish.ptir.passes.canonicalize import canonicalization_patterns
from planish.ptir.rewrite.checks import problems_of_function
from planish.ptir.rewrite.config import GreedyConfig, GreedyStats
from planish.ptir.rewrite.driver import apply_patterns_and_fold_greedily
from planish.ptir.types import Symbol, TensorType
from tests.ptir.ops_testing import samples

RULES = Path(__file__).parent.parent / "golden" / "ptir" / "rules"
SEPARATOR = "// -----"
HEADERS = ("case", "pattern", "settings", "compare", "inputs")


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    path: Path
    name: str
    pattern: str
    source: str
    expected: str
    settings: str = ""
    compare: str = "exact"
    inputs: str = "wild"

    @property
    def must_not_fire(self) -> bool:
        return self.name.startswith("not-")

    @property
    def id(self) -> str:
        return f"{self.path.stem}/{self.name}"


class CaseError(Exception):
    """A golden file does not follow the format."""


def read_cases(path: Path) -> list[Case]:
    """The cases of a file, in order."""
    cases: list[Case] = []
    for block in path.read_text(encoding="utf-8").split(SEPARATOR + "\n"):
        if block.strip():
            cases.append(_read_case(path, block))
    names = [case.name for case in cases]
    if len(set(names)) != len(names):
        raise CaseError(f"{path.name}: two cases are called {next(n for n in names if names.count(n) > 1)}")
    return cases


def _read_case(path: Path, block: str) -> Case:
    headers: dict[str, str] = {}
    source: list[str] = []
    expected: list[str] = []
    target = source
    for line in block.strip("\n").splitlines():
        key, colon, value = line.removeprefix("// ").partition(":")
        if line.startswith("// ") and colon and key in HEADERS and target is source:
            headers[key] = value.strip()
        elif line.strip() == "// expect:":
            target = expected
        else:
            target.append(line)
    if "case" not in headers or "pattern" not in headers:
        raise CaseError(f"{path.name}: a case needs `// case:` and `// pattern:`:\n{block}")
    extra = {key: headers[key] for key in HEADERS[2:] if key in headers}
    if extra.get("compare", "exact") not in ("exact", "close") or extra.get("inputs", "wild") not in (
        "wild",
        "tame",
    ):
        raise CaseError(f"{path.name}: {headers['case']} asks for {extra}")
    return Case(path, headers["case"], headers["pattern"], _join(source), _join(expected), **extra)


def _join(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"


def write_cases(path: Path, cases: list[Case]) -> None:
    """The file that `read_cases` reads back."""
    blocks: list[str] = []
    for case in cases:
        lines = [f"// case: {case.name}", f"// pattern: {case.pattern}"]
        if case.settings:
            lines.append(f"// settings: {case.settings}")
        if case.compare != "exact":
            lines.append(f"// compare: {case.compare}")
        if case.inputs != "wild":
            lines.append(f"// inputs: {case.inputs}")
        blocks.append("\n".join(lines) + f"\n{case.source}// expect:\n{case.expected}")
    path.write_text(f"{SEPARATOR}\n".join(blocks), encoding="utf-8")


def bless(case: Case, expected: str) -> None:
    """Write a new expectation into the file of a case."""
    cases = read_cases(case.path)
    write_cases(case.path, [replace(c, expected=expected) if c.name == case.name else c for c in cases])


def all_cases() -> Iterator[Case]:
    """Every case of every family."""
    for path in sorted(RULES.glob("*.ptir")):
        yield from read_cases(path)


# --- running ----------------------------------------------------------------------------------------------


def parse(source: str) -> Program:
    return text.parse(source)


def show(program: Program) -> str:
    return text.print(program).strip("\n") + "\n"


def canonicalize(
    program: Program, *, disable: tuple[str, ...] = (), settings: str = "", checks: bool = True
) -> GreedyStats:
    """Canonicalise in place, with every pattern held to its word."""
    total = GreedyStats()
    greedy = GreedyConfig(disable=disable, expensive_checks=checks)
    with config.settings(**_settings(settings)):  # type: ignore[arg-type]
        for function in program:
            total.add(apply_patterns_and_fold_greedily(function, canonicalization_patterns(), greedy))
    return total


def _settings(given: str) -> dict[str, object]:
    values: dict[str, object] = {}
    for item in given.split(","):
        if item.strip():
            name, _, value = item.partition("=")
            values[name.strip()] = {"true": True, "false": False}.get(value.strip(), value.strip())
    return values


def problems(program: Program) -> list[str]:
    return [problem for function in program for problem in problems_of_function(function)]


# --- inputs -----------------------------------------------------------------------------------------------


def size_choices(function: Function) -> list[dict[str, int]]:
    """A few values for every named size: the least, and two others within bounds."""
    symbols: dict[str, Symbol] = {}
    for param in function.params:
        for symbol in param.type.symbols():
            symbols[symbol.name] = symbol
    if not symbols:
        return [{}]
    choices: list[dict[str, int]] = [{name: s.lo for name, s in symbols.items()}]
    for step in (2, 3):
        # Different names get different sizes, so that mixing two of them up shows.
        choices.append(
            {name: min(s.hi, s.lo + step + i) for i, (name, s) in enumerate(sorted(symbols.items()))}
        )
    return choices


def random_inputs(
    function: Function, sizes: Mapping[str, int], rng: np.random.Generator, *, tame: bool
) -> list[np.ndarray]:
    return [random_array(param.type.substitute(sizes), rng, tame=tame) for param in function.params]


def random_array(type: TensorType, rng: np.random.Generator, *, tame: bool) -> np.ndarray:
    """Small numbers, and unless tame, a sprinkling of the values where arithmetic is odd."""
    shape, dtype = type.shape, type.dtype
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    small = rng.integers(0 if dtype.is_unsigned else -4, 7, shape)
    if dtype.is_float:
        array = numerics.convert(np.asarray(small + rng.choice([0.0, 0.25, 0.5], shape), np.float64), dtype)
    elif dtype.is_complex:
        array = numerics.convert(np.asarray(small + 1j * rng.integers(-4, 5, shape), np.complex128), dtype)
    else:
        array = numerics.convert(np.asarray(small, np.int64), dtype)
    if not tame:
        odd = _odd(dtype)
        where = rng.random(shape) < 0.25
        array = np.where(where, odd[rng.integers(0, len(odd), shape)], array).astype(dtype.numpy)
    return np.asarray(array)


def _odd(dtype: DType) -> np.ndarray:
    return np.asarray(samples(dtype))


def interpretations(program: Program, case_id: str, *, tame: bool) -> Iterator[list[np.ndarray]]:
    """Inputs for the entry of a program, the same for every run of a case."""
    seed = zlib.crc32(case_id.encode())
    rng = np.random.default_rng(seed)
    for sizes in size_choices(program.entry):
        yield random_inputs(program.entry, sizes, rng, tame=tame)


def ranks_of(program: Program) -> int:
    """How many ranks a program is for."""
    mesh = mesh_of(program)
    return 1 if mesh is None else int(np.prod([size for _, size in mesh]))


def run(program: Program, inputs: list[np.ndarray], ranks: int = 1) -> tuple[np.ndarray, ...]:
    """The results; of many ranks those of all, each of which has other numbers."""
    if ranks == 1:
        return interpret(program, inputs)
    rows = interpret_ranks(program, [[np.roll(x, rank) for x in inputs] for rank in range(ranks)])
    return tuple(array for row in rows for array in row)


def difference(left: np.ndarray, right: np.ndarray, *, close: bool) -> str | None:
    """What distinguishes two results: nothing but the payload of a NaN may, unless they need only be close."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{left.dtype}{left.shape} against {right.dtype}{right.shape}"
    if left.tobytes() == right.tobytes():
        return None
    dtype = dtypes.from_numpy(left.dtype)
    if not (dtype.is_float or dtype.is_complex):
        return f"{left}\nagainst\n{right}"
    if dtype.is_complex:
        parts = ((left.real, right.real), (left.imag, right.imag))
        return next((d for a, b in parts if (d := difference(a.copy(), b.copy(), close=close))), None)
    wide_left, wide_right = left.astype(np.float64), right.astype(np.float64)
    both_nan = np.isnan(wide_left) & np.isnan(wide_right)
    if close:
        tolerance = 16 * 2.0 ** (1 - dtypes.float_format(dtype).precision)
        finite = np.isfinite(wide_left)
        scale = max(1.0, float(np.abs(wide_left[finite]).max(initial=0.0)))
        with np.errstate(invalid="ignore"):
            equal = (
                both_nan | (wide_left == wide_right) | (np.abs(wide_left - wide_right) <= tolerance * scale)
            )
    else:
        equal = both_nan | ((wide_left == wide_right) & (np.signbit(wide_left) == np.signbit(wide_right)))
    return None if equal.all() else f"{left}\nagainst\n{right}"
