"""Random programs that assign to tensors, under nested transforms, as Python source.

A program is a function of a namespace `xp` (planish, or `transform_oracle`), of a way to wrap functions (`wrap`), and of two
vectors of four numbers. It computes, copies, takes parts, gives second names, assigns to elements, closes over what stands
outside, and hands inner functions of the same kind to chains of transforms. All its vectors are its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import planish as pn

Function = Callable[[Any, Any], Any]


# --- transforms of functions of two vectors that give one ---------------------------------------------------


def _weights(xp: Any) -> Any:
    return xp.asarray([0.5, -1.0, 0.25, 1.5])


def _grad(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.grad(lambda x, y: xp.sum(f(x, y) * _weights(xp)))(a, b)


def _value_and_grad(xp: Any, f: Function) -> Function:
    def both(a: Any, b: Any) -> Any:
        value, slope = xp.value_and_grad(lambda x, y: xp.sum(f(x, y) * _weights(xp)))(a, b)
        return slope + value

    return both


def _jvp(xp: Any, f: Function) -> Function:
    def along(a: Any, b: Any) -> Any:
        value, slope = xp.jvp(f, (a, b), (b, a))
        return value + slope

    return along


def _vjp(xp: Any, f: Function) -> Function:
    def back(a: Any, b: Any) -> Any:
        value, pull = xp.vjp(f, a, b)
        first, second = pull(_weights(xp))
        return value + first - second

    return back


def _vmap(xp: Any, f: Function) -> Function:
    def rows(a: Any, b: Any) -> Any:
        return xp.sum(xp.vmap(f, (0, None))(xp.stack([a, b, a * b]), b), axis=0)

    return rows


def _vmap_both(xp: Any, f: Function) -> Function:
    def rows(a: Any, b: Any) -> Any:
        return xp.vmap(f, (0, 0))(xp.stack([a, b]), xp.stack([b, a]))[1]

    return rows


def _cond(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.cond(a[0] > b[1], f, lambda x, y: f(y, x) - x, a, b)


def _fori_loop(xp: Any, f: Function) -> Function:
    return lambda a, b: xp.fori_loop(0, 2, lambda i, c: xp.sin(f(c, b[:])), a)


def _while_loop(xp: Any, f: Function) -> Function:
    def loop(a: Any, b: Any) -> Any:
        start = xp.concat([a, xp.asarray([0.0])])

        def step(c: Any) -> Any:
            count = c[4:5] + 1.0
            return xp.concat([xp.sin(f(c[0:4], b[:])), count])

        return xp.while_loop(lambda c: xp.sum(c[4:5]) + 0.1 * c[0] < 1.5, step, start, max_steps=3)[0:4]

    return loop


def _scan(xp: Any, f: Function) -> Function:
    def loop(a: Any, b: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            made = f(c, x)
            return xp.sin(made), made - c

        last, all_ = xp.scan(step, a, xp.stack([b, a]))
        return last + xp.sum(all_, axis=0)

    return loop


TRANSFORMS: Final[dict[str, Callable[[Any, Function], Function]]] = {
    "jit": lambda xp, f: xp.jit(f),
    "checkpoint": lambda xp, f: xp.checkpoint(f),
    "custom": lambda xp, f: xp.custom(f),
    "grad": _grad,
    "value_and_grad": _value_and_grad,
    "jvp": _jvp,
    "vjp": _vjp,
    "vmap": _vmap,
    "vmap_both": _vmap_both,
    "cond": _cond,
    "fori_loop": _fori_loop,
    "while_loop": _while_loop,
    "scan": _scan,
}
_DERIVATIVES: Final = frozenset({"grad", "value_and_grad", "jvp", "vjp"})


def wrapper(xp: Any) -> Callable[[str, Function], Function]:
    """`wrap("jit grad", f)` is jit(grad(f)), in a namespace."""

    def wrap(chain: str, function: Function) -> Function:
        for name in reversed(chain.split()):
            function = TRANSFORMS[name](xp, function)
        return function

    return wrap


def _custom(function: Function) -> Function:
    """The function with its own derivative for a rule."""
    made = pn.custom_jvp(function)
    made.defjvp(lambda primals, tangents: pn.jvp(function, primals, tangents))
    return made


PLANISH: Final = SimpleNamespace(
    asarray=lambda x, copy=None: pn.asarray(x, copy=copy) if isinstance(x, pn.Tensor) else pn.asarray(x, dtype=pn.float64),
    integers=lambda x: pn.asarray(x),
    sin=pn.sin, stack=pn.stack, concat=pn.concat, where=pn.where, sum=pn.sum, jit=pn.jit, checkpoint=pn.checkpoint,
    custom=_custom, jvp=pn.jvp, vjp=pn.vjp, grad=pn.grad, value_and_grad=pn.value_and_grad, vmap=pn.vmap,
    cond=pn.cond, fori_loop=pn.fori_loop, while_loop=pn.while_loop, scan=pn.scan,
)  # fmt: skip


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
    return len(_DERIVATIVES.intersection(chain.split()))


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
            if name not in _DERIVATIVES or (self.slopes < self.steepest and name not in found):
                found.append(name)
                self.slopes += name in _DERIVATIVES
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
