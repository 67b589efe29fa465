"""A tour of the algebra: index expressions as tensor programs produce them, before and after; then a layer, compiled.

Every layout below is written with movement ops and turned into one flat index in the most naive way: flatten,
divide, take remainders. The symbolic rules then smooth it. Each result is proved on the spot by computing both
expressions for every element, and the rules that did the work are listed.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter

import numpy as np

import planish as pn
from planish import __version__
from planish.compiler import lower
from planish.frontend.tensor.array import capture
from planish.uop.evaluate import evaluate
from planish.uop.infix import infix
from planish.uop.node import Table, UOp
from planish.uop.rewrite import RewriteStats, rewrite
from planish.uop.symbolic import FAMILIES, sym
from planish.uop.symbolic.cost import division_count, op_count

WIDTH = min(shutil.get_terminal_size().columns, 110)
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
BEFORE_SHOWN = 4  # lines of the naive expression

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


def split_and_merge_heads(b: UOp, t: UOp, c: UOp) -> UOp:
    x = permute(reshape(tensor(2, 32, 128), (2, 32, 128), (2, 32, 8, 16)), 0, 2, 1, 3)
    x = reshape(permute(x, 0, 2, 1, 3), (2, 32, 8, 16), (2, 32, 128))
    return x([b, t, c])


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


def fold_rows(i: UOp, j: UOp) -> UOp:
    """A vector of 4096 seen as a matrix, transposed, cut into tiles, put back, transposed back."""
    v = permute(reshape(tensor(4096), (4096,), (64, 64)), 1, 0)
    v = reshape(v, (64, 64), (8, 8, 8, 8))
    v = permute(permute(v, 0, 2, 1, 3), 0, 2, 1, 3)
    v = permute(reshape(v, (8, 8, 8, 8), (64, 64)), 1, 0)
    return v([i, j])


def depthwise_window(t: UOp, k: UOp) -> UOp:
    """A causal window of 4 over 256 steps, by the usual trick: pad, repeat, reshape one column askew."""
    v = pad(tensor(256), (256,), (3, 0))
    repeated: View = lambda indices: v([indices[0] % 259])  # noqa: E731
    skewed = reshape(repeated, (4 * 260,), (4, 260))
    return skewed([k, t])


STORIES = (
    ("attention heads", "x.reshape(2, 32, 8, 16).permute(0, 2, 1, 3).reshape(16, 32, 16)[b*8 + h, t, d]",
     {"b": 2, "h": 8, "t": 32, "d": 16}, split_heads),
    ("…and merged again", "heads.permute(0, 2, 1, 3).reshape(2, 32, 128)[b, t, c]",
     {"b": 2, "t": 32, "c": 128}, split_and_merge_heads),
    ("pixel shuffle", "x.reshape(8, 2, 2, 12, 12).permute(0, 3, 1, 4, 2).reshape(8, 24, 24)[c, y*2 + dy, x*2 + dx]",
     {"c": 8, "y": 12, "x": 12, "dy": 2, "dx": 2}, pixel_shuffle),
    ("convolution, im2col", "x.pad(1).unfold(3, 3)[(c*3 + kh)*3 + kw, oh*16 + ow]",
     {"c": 4, "kh": 3, "kw": 3, "oh": 16, "ow": 16}, im2col),
    ("there and back", "x.reshape(64, 64).T.reshape(8, 8, 8, 8).permute(…).permute(…).reshape(64, 64).T[i, j]",
     {"i": 64, "j": 64}, fold_rows),
    ("sliding window", "x.pad(3, 0).repeat(5)[:1040].reshape(4, 260)[k, t]", {"t": 256, "k": 4}, depthwise_window),
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


def run_a_layer() -> None:
    """A layer of a network, from the Tensor API to machine code, held against NumPy."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (48, 32), (32,)))
    layer = pn.tanh(pn.asarray(x) @ pn.asarray(w) + pn.asarray(b))
    start = perf_counter()
    function, arrays = capture([layer])
    lowered = lower(function)
    compiled = lowered.compile()
    spent = perf_counter() - start
    (result,) = compiled(*arrays)
    error = float(np.abs(result - np.tanh(x @ w + b)).max())
    print(f"  {paint('a layer, end to end', '1')}  {paint('tanh(x @ w + b), 64×48 by 48×32', '2')}")
    show("kernels", ", ".join(kernel.name for kernel in lowered.schedule.kernels), "0")
    for number, line in enumerate(lowered.as_text("llir").splitlines()[2:]):
        print(f"  {paint('llir' if not number else '', '2'):<8}  {paint(line, '36')}")
    show(
        "compiled",
        f"in {spent * 1e3:.0f} ms, to {len(lowered.as_text('asm').splitlines())} lines of assembly",
        "0",
    )
    show("proof", f"within {error:.1e} of NumPy", "0")
    if not error < 1e-5:
        raise SystemExit("the layer differs from NumPy")


def main() -> None:
    rules = sum(map(len, FAMILIES.values()))
    print(
        f"\n  {paint(f'planish {__version__}', '1')}: {rules} rules in {len(FAMILIES)} families, at work on six layouts"
    )
    totals = [tell(Story(*story)) for story in STORIES]
    before, after = (sum(column) for column in zip(*totals, strict=True))
    print(f"\n  {paint(f'{before} divisions and remainders in, {after} out.', '1')}\n")
    run_a_layer()


if __name__ == "__main__":
    main()
