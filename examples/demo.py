"""A network compiled and run, phase by phase and kernel by kernel; then a short tour of the algebra behind it.

The network goes from PTIR to machine code and is held against NumPy, times too: the best of several of each, in turns. Every layout after
it is written with movement ops and turned into one flat index in the most naive way: flatten, divide, take remainders. The symbolic rules then
smooth it. Each result is proved on the spot by computing both expressions for every element, and the rules that did the work are listed.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import planish as pn
from planish import __version__, ptir
from planish.compiler import PIPELINE, lower, prepare
from planish.ptir.library import activations, normalize
from planish.uop.evaluate import evaluate
from planish.uop.infix import infix
from planish.uop.node import Table, UOp
from planish.uop.rewrite import RewriteStats, rewrite
from planish.uop.symbolic import FAMILIES, sym
from planish.uop.symbolic.cost import division_count, op_count

WIDTH = min(shutil.get_terminal_size().columns, 110)
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
BEFORE_SHOWN = 2  # lines of the naive expression

Array = NDArray[Any]
T = TypeVar("T")

Indices = Sequence[UOp]
View = Callable[[Indices], UOp]
"""A tensor as a function from the indices of an element to its place in memory."""


# -- movement ops, naively ---------------------------------------------------------------------------------------


def flatten(dims: Sequence[int], indices: Indices) -> UOp:
    """The row-major place of an element."""
    total = indices[0]
    for dim, index in zip(dims[1:], indices[1:], strict=True):
        total = total * dim + index
    return total


def unflatten(dims: Sequence[int], flat: UOp) -> list[UOp]:
    """The indices of the element at a row-major place."""
    return [flat // prod(dims[axis + 1 :]) % dim for axis, dim in enumerate(dims)]


def tensor(*dims: int) -> View:
    return lambda indices: flatten(dims, indices)


def reshape(view: View, old: Sequence[int], new: Sequence[int]) -> View:
    return lambda indices: view(unflatten(old, flatten(new, indices)))


def permute(view: View, *order: int) -> View:
    return lambda indices: view([indices[order.index(axis)] for axis in range(len(order))])


def pad(view: View, dims: Sequence[int], *pairs: tuple[int, int]) -> View:
    """Nowhere before and after each axis."""

    def padded(indices: Indices) -> UOp:
        inner = [index - before for index, (before, _) in zip(indices, pairs, strict=True)]
        inside = [(index >= 0) & (index < dim) for index, dim in zip(inner, dims, strict=True)]
        valid = inside[0]
        for condition in inside[1:]:
            valid = valid & condition
        return valid.where(view(inner), inner[0].table.invalid())

    return padded


# -- the layouts -------------------------------------------------------------------------------------------------


class Story:
    """One layout: loops with names, and the flat index that the program reads."""

    def __init__(self, title: str, told: str, loops: dict[str, int], read: Callable[..., UOp]) -> None:
        self.title = title
        self.told = told
        self.table = Table()
        self.ranges = [self.table.range(size, axis) for axis, size in enumerate(loops.values())]
        self.names = dict(zip(self.ranges, loops, strict=True))
        self.elements = prod(loops.values())
        self.before = read(*self.ranges)


def split_heads(b: UOp, h: UOp, t: UOp, d: UOp) -> UOp:
    x = reshape(tensor(2, 32, 128), (2, 32, 128), (2, 32, 8, 16))  # batch, time, head, feature
    x = permute(x, 0, 2, 1, 3)  # batch, head, time, feature
    x = reshape(x, (2, 8, 32, 16), (16, 32, 16))  # batch·head, time, feature: what a batched matmul takes
    return x([b * 8 + h, t, d])


def im2col(c: UOp, kh: UOp, kw: UOp, oh: UOp, ow: UOp) -> UOp:
    """Column matrix of a padded 3×3 convolution over 4×16×16: row (c, kh, kw), column (oh, ow)."""
    image = pad(tensor(4, 16, 16), (4, 16, 16), (0, 0), (1, 1), (1, 1))
    row, column = (c * 3 + kh) * 3 + kw, oh * 16 + ow
    c_, kh_, kw_ = unflatten((4, 3, 3), row)
    oh_, ow_ = unflatten((16, 16), column)
    return image([c_, oh_ + kh_, ow_ + kw_])


def pixel_shuffle(c: UOp, y: UOp, x: UOp, dy: UOp, dx: UOp) -> UOp:
    v = reshape(tensor(8 * 4, 12, 12), (32, 12, 12), (8, 2, 2, 12, 12))
    v = permute(v, 0, 3, 1, 4, 2)
    v = reshape(v, (8, 12, 2, 12, 2), (8, 24, 24))
    return v([c, y * 2 + dy, x * 2 + dx])


STORIES = (
    ("attention heads", "x.reshape(2, 32, 8, 16).permute(0, 2, 1, 3).reshape(16, 32, 16)[b*8 + h, t, d]",
     {"b": 2, "h": 8, "t": 32, "d": 16}, split_heads),
    ("pixel shuffle", "x.reshape(8, 2, 2, 12, 12).permute(0, 3, 1, 4, 2).reshape(8, 24, 24)[c, y*2 + dy, x*2 + dx]",
     {"c": 8, "y": 12, "x": 12, "dy": 2, "dx": 2}, pixel_shuffle),
    ("convolution, im2col", "x.pad(1).unfold(3, 3)[(c*3 + kh)*3 + kw, oh*16 + ow]",
     {"c": 4, "kh": 3, "kw": 3, "oh": 16, "ow": 16}, im2col),
)  # fmt: skip


# -- telling -----------------------------------------------------------------------------------------------------


def paint(text: str, code: str) -> str:
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def show(label: str, text: str, code: str, lines: int | None = None) -> None:
    wrapped = textwrap.wrap(text, WIDTH - 12, break_long_words=False)
    if lines is not None and len(wrapped) > lines:
        wrapped = [*wrapped[:lines], f"… {len(wrapped) - lines} more lines"]
    for number, line in enumerate(wrapped):
        print(f"  {paint(f'{label if not number else str():<8}', '2')}  {paint(line, code)}")


def row(text: str, code: str) -> None:
    """A line of a table, as wide as it is."""
    print(f"  {paint(text, code)}")


def is_equal(story: Story, after: UOp) -> bool:
    """Whether two expressions agree on every element, and on which there are."""
    sizes = [r.vmax + 1 for r in story.ranges]
    env = dict(zip(story.ranges, np.indices(sizes), strict=True))
    x, y = (np.ma.array(evaluate(node, env)) for node in (story.before, after))
    return np.array_equal(np.ma.getmaskarray(x), np.ma.getmaskarray(y)) and bool(np.ma.allequal(x, y))


def tell(story: Story) -> tuple[int, int]:
    """Simplifies one layout aloud; returns its divisions before and after."""
    fired: Counter[str] = Counter()
    stats = RewriteStats()
    start = perf_counter()
    after = rewrite(
        story.before, sym, stats=stats, listener=lambda rule, _before, _after: fired.update([rule.name])
    )
    spent = perf_counter() - start
    equal = is_equal(story, after)
    divisions = division_count(story.before), division_count(after)
    ops = op_count(story.before), op_count(after)
    print(f"\n  {paint(story.title, '1')}  {paint(story.told, '2')}")
    show("before", infix(story.before, story.names), "31", BEFORE_SHOWN)
    show("after", infix(after, story.names), "32;1")
    show(
        "count",
        f"div/mod {divisions[0]} → {divisions[1]}, ops {ops[0]} → {ops[1]}, "
        f"{stats.rewrites} rewrites in {spent * 1e3:.1f} ms",
        "0",
    )
    most = [f"{count} × {name}" for name, count in fired.most_common(3)]
    for number, line in enumerate(most):
        show("rules" if not number else "", textwrap.shorten(line, WIDTH - 12, placeholder=" …"), "36")
    if len(fired) > len(most):
        show("", f"and {len(fired) - len(most)} other rules", "36")
    show(
        "proof",
        f"equal on all {story.elements:,} elements" if equal else "NOT EQUAL",
        "0" if equal else "31;1",
    )
    if not equal:
        raise SystemExit(f"{story.title}: the simplified index differs")
    return divisions


# -- a network, end to end ---------------------------------------------------------------------------------------

BATCH, SIZES = 128, (784, 512, 256, 10)
TURNS = 25
TELLING = frozenset({"dot_general", "max", "exp", "reduce_sum", "reduce_max", "div"})
"""Ops that say what a kernel of the network is about."""


def classifier() -> ptir.Function:
    """A classifier of handwritten digits in shape, not in learning: three layers, then probabilities."""
    g = ptir.Graph("classify")
    x = g.input("x", ptir.tensor("f32", (BATCH, SIZES[0])))
    for number, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        w = g.input(f"w{number}", ptir.tensor("f32", (rows, columns)))
        b = g.input(f"b{number}", ptir.tensor("f32", (columns,)))
        x = x.matmul(w)
        x = x.add(b.broadcast_like(x))
        if columns != SIZES[-1]:
            x = activations.leaky_relu(x)
    return g.build(normalize.softmax(x))


def classify_in_numpy(x: Array, weights: Sequence[tuple[Array, Array]]) -> Array:
    for number, (w, b) in enumerate(weights):
        x = x @ w + b
        if number + 1 < len(weights):
            x = np.maximum(x, x * 0.01)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def run_a_network() -> None:
    """From PTIR to machine code, phase by phase, held against NumPy."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH, SIZES[0])).astype(np.float32)
    weights = [
        ((rng.standard_normal((a, b)) / a**0.5).astype(np.float32), rng.standard_normal(b).astype(np.float32))
        for a, b in itertools.pairwise(SIZES)
    ]
    told = " → ".join(map(str, SIZES))
    print(
        f"\n  {paint('a network, end to end', '1')}  {paint(f'{BATCH} images, {told}, probabilities', '2')}"
    )
    phases: list[tuple[str, float, str]] = []

    def phase(name: str, call: Callable[[], T], what: Callable[[T], str]) -> T:
        start = perf_counter()
        result = call()
        phases.append((name, perf_counter() - start, what(result)))
        return result

    arrays = [x, *itertools.chain.from_iterable(weights)]
    function = phase("build", classifier, lambda f: f"{len(list(f.walk()))} PTIR ops")
    prepared = phase(
        "passes", lambda: prepare(function, PIPELINE), lambda f: f"{len(list(f.walk()))} ops left"
    )
    lowered = phase(
        "lower", lambda: lower(prepared, passes=None), lambda f: f"{len(f.programs)} kernels, 22 stages each"
    )
    with pn.settings(cache=False):
        exe = phase("compile", lowered.compile, lambda e: "LLVM, then one native entry point")
    (result,) = phase(
        "call", lambda: exe(*arrays), lambda _: "the first one: memory is touched, threads start"
    )
    again, theirs = best_in_turns(lambda: exe(*arrays), lambda: classify_in_numpy(x, weights))
    phases.append(("again", again, f"{exe.cost.flops / again / 1e9:.1f} GFLOP/s, the best of {TURNS}"))
    phases.append(("numpy", theirs, f"the same by its BLAS, the best of {TURNS}, in turns"))
    for name, spent, what in phases:
        show(name, f"{spent * 1e3:9.3f} ms  {what}", "0")
    profile = exe.profile(*arrays)
    threads = "1 thread" if profile.threads == 1 else f"{profile.threads} threads"
    told = f"each alone, on {threads}, the median of {profile.repeat}"
    row(f"{'kernels':<10}{told:<44} {'ms':>7} {'GFLOP/s':>8} {'GB/s':>6}", "2")
    for record in profile:
        ops = ", ".join(dict.fromkeys(op for op in record.ops if op in TELLING))
        rates = f"{record.gflops:8.1f} {record.gbytes:6.1f}"
        row(f"{'':<10}{record.kernel[:16]:<17}{ops[:26]:<27} {record.seconds * 1e3:7.3f} {rates}", "36")
    error = float(np.abs(result - classify_in_numpy(x, weights)).max())
    show("proof", f"within {error:.1e} of NumPy", "0")
    if not error < 1e-5:
        raise SystemExit("the network differs from NumPy")


def best_in_turns(*calls: Callable[[], object]) -> list[float]:
    """Seconds, the best of several of each, one after the other: what disturbs one disturbs the others too."""
    by_call: list[list[float]] = [[] for _ in calls]
    for _ in range(TURNS):
        for times, call in zip(by_call, calls, strict=True):
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
    return [min(times) for times in by_call]


def main() -> None:
    rules = sum(map(len, FAMILIES.values()))
    print(f"\n  {paint(f'planish {__version__}', '1')}")
    run_a_network()
    print(f"\n  {rules} rules in {len(FAMILIES)} families, at work on {len(STORIES)} layouts")
    totals = [tell(Story(*story)) for story in STORIES]
    before, after = (sum(column) for column in zip(*totals, strict=True))
    print(f"\n  {paint(f'{before} divisions and remainders in, {after} out.', '1')}\n")


if __name__ == "__main__":
    main()
