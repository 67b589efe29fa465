"""Random programs that assign to tensors, under nested transforms, as Python source.

A program is a function of a namespace `xp` (planish, or `transform_oracle`), of a way to wrap functions (`wrap`), and of two
vectors of four numbers. It computes, copies, takes parts, gives second names, assigns to elements, closes over what stands
outside, and hands inner functions of the same kind to chains of transforms. All its vectors are its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from tests.frontend.transform_chains import SLOPES, TRANSFORMS

# --- source -------------------------------------------------------------------------------------------------

# Parts of a vector of four, by how many elements they have.
_PARTS: Final = {
    1: ("0", "1", "2", "3", "-1"),
    2: ("0:2", "1:3", "2:4", "::2", "1::2", "::-2", "xp.integers([2, 0])", "xp.integers([-1, 1])"),
    3: ("1:", ":3", "2::-1", "xp.integers([3, 0, 1])"),
    4: (":", "...", "::-1"),
}


class _Block:
    """The body of a function: the vectors that it can read, and those whose elements it may assign."""

    def __init__(
        self, writer: _Writer, indent: str, seen: Sequence[str], own: Sequence[str], depth: int
    ) -> None:
        self.writer, self.random, self.indent, self.depth = writer, writer.random, indent, depth
        self.seen, self.own = list(seen), list(own)
        self.made: list[str] = []
        self.pulls: list[str] = []

    def line(self, text: str) -> None:
        self.writer.lines.append(f"{self.indent}{text}")

    def name(self, kind: str = "v") -> str:
        self.writer.count += 1
        return f"{kind}{self.writer.count}"

    def any(self) -> str:
        # those that were assigned to are the ones to look at
        return self.random.choice([*self.seen, *self.own, *self.own, *self.seen[-3:]])

    def new(self, text: str, own: bool = True) -> None:
        name = self.name()
        self.line(f"{name} = {text}")
        self.seen.append(name)
        self.made.append(name)
        if own:
            self.own.append(name)

    def expression(self) -> str:
        a, b = self.any(), self.any()
        forms = (
            f"{a} * {b}", f"{a} + {b}", f"{a} - 0.5 * {b}", f"xp.sin({a})", f"xp.sin({a} * {b})", f"{a} * {b}[2]",
            f"xp.concat([{a}[1:], {b}[:1]])", f"xp.where({a} > 0.25, {a}, {b})", f"{a}[::-1]", f"0.5 + {a}",
        )  # fmt: skip
        return self.random.choice(forms)

    def statement(self) -> None:
        kinds = ["compute"] * 4 + ["assign"] * 6 + ["copy"] * 2 + ["alias", "data", "renew", "later", "pull"]
        kinds += ["call"] * (3 if self.depth < self.writer.deepest else 0)
        getattr(self, f"_{self.random.choice(kinds)}")()

    def _compute(self) -> None:
        self.new(self.expression())

    def _data(self) -> None:
        self.new(f"xp.asarray({[round(self.random.uniform(-1, 1), 2) for _ in range(4)]})")

    def _copy(self) -> None:
        forms = ("xp.asarray({}, copy=True)", "{}[:]", "{}[...]", "{}.reshape(4)")
        self.new(self.random.choice(forms).format(self.any()))

    def _alias(self) -> None:
        source = self.any()
        self.new(source, own=source in self.own)

    def _renew(self) -> None:
        if self.made:
            name = self.random.choice(self.made)
            self.line(f"{name} = {name} + 0.5 * {self.any()}")
            if name not in self.own:
                self.own.append(name)

    def _assign(self) -> None:
        if not self.own:
            return
        target, source = self.random.choice(self.own), self.any()
        if self.random.random() < 0.1:
            self.line(f"{target}[{source} > 0.0] = {self.number()}")
            return
        count = self.random.choice((1, 1, 2, 2, 3, 4))
        key, part = self.random.choice(_PARTS[count]), self.random.choice(_PARTS[count])
        forms = [f"{source}[{part}]"] * 2 + [self.number(), f"{source}[{part}] * {self.number()}"]
        if count == 4:
            forms += [source, source]
        sign = self.random.choice(("=", "=", "=", "+="))
        self.line(f"{target}[{key}] {sign} {self.random.choice(forms)}")

    def number(self) -> str:
        return str(round(self.random.uniform(-1.5, 1.5), 2))

    def _call(self) -> None:
        chain = self.writer.chain()
        # to a rule for a derivative what comes from outside is constant, to the oracle it is not
        function = self.writer.function(self, ["a0", "a1"] if "custom" in chain else self.seen)
        self.writer.slopes -= _slopes(chain)
        self.new(f'wrap("{chain}", {function})({self.any()}, {self.any()})')

    def _later(self) -> None:
        """A way back that is gone after other things have happened."""
        if self.depth >= self.writer.deepest or self.writer.slopes >= self.writer.steepest:
            return
        self.writer.slopes += 1
        function = self.writer.function(self, self.seen)
        self.writer.slopes -= 1
        value, pull = self.name(), self.name("pull")
        self.line(f"{value}, {pull} = xp.vjp({function}, {self.any()}, {self.any()})")
        self.seen.append(value)
        self.made.append(value)
        self.own.append(value)
        self.pulls.append(pull)

    def _pull(self) -> None:
        if self.pulls:
            self.new(f"{self.random.choice(self.pulls)}({self.any()})[{self.random.randrange(2)}]")


def _slopes(chain: str) -> int:
    return sum(SLOPES.get(name, 0) for name in chain.split())


class _Writer:
    deepest, steepest = 3, 2

    def __init__(self, seed: int, statements: int) -> None:
        self.random = Random(seed)
        self.lines: list[str] = []
        self.count = self.slopes = 0
        self.statements = statements

    def chain(self) -> str:
        """Up to three transforms, with no more derivatives of derivatives than the oracle has time for."""
        found: list[str] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            name = self.random.choice(list(TRANSFORMS))
            if self.slopes + SLOPES.get(name, 0) <= self.steepest:
                found.append(name)
                self.slopes += SLOPES.get(name, 0)
        return " ".join(found or ["jit"])

    def function(self, outer: _Block, seen: Sequence[str]) -> str:
        name = outer.name("f")
        a, b = outer.name(), outer.name()
        outer.line(f"def {name}({a}, {b}):")
        block = _Block(self, f"{outer.indent}    ", [*seen, a, b], [a, b], outer.depth + 1)
        for _ in range(self.random.randint(1, max(2, self.statements // (block.depth + 1)))):
            block.statement()
        result = block.any() if self.random.random() < 0.4 else block.expression()
        block.line(f"return {result}")
        return name

    def program(self) -> str:
        self.lines.append("def program(xp, wrap, a0, a1):")
        block = _Block(self, "    ", ["a0", "a1"], [], 0)
        for _ in range(self.random.randint(self.statements // 2, self.statements)):
            block.statement()
        block.line(f"return [{', '.join(dict.fromkeys(block.seen))}]")
        return "\n".join(self.lines)


def source(seed: int, statements: int = 14) -> str:
    """A program, the same for the same seed."""
    return _Writer(seed, statements).program()


def compiled(text: str) -> Callable[..., list[Any]]:
    """What a source defines."""
    names: dict[str, Any] = {}
    exec(compile(text, "<program>", "exec"), names)
    made: Callable[..., list[Any]] = names["program"]
    return made
