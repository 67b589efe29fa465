"""LlvmLines of LLVM IR: instructions and the names of their results, calls, metadata, and lanes of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from planish.codegen.llvm_table import llvm_type, vector_of
from planish.dtypes import DType


class LlvmLines:
    """Writes instructions, and names their results."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, str] = {}
        self.metadata: list[str] = []
        self.block = "entry"
        self.count = 0

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def let(self, text: str, into: str | None = None) -> str:
        """An instruction whose result gets a name."""
        if into is None:
            into = f"%t{self.count}"
            self.count += 1
        self.lines.append(f"  {into} = {text}")
        return into

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """A call of an intrinsic, which is declared."""
        if name not in self.declared:
            types = ", ".join([kind for kind, _ in arguments])
            self.declared[name] = f"declare {result} @{name}({types})"
        return f"call {result} @{name}({', '.join([f'{kind} {value}' for kind, value in arguments])})"

    def attach(self, *nodes: str) -> str:
        """Metadata nodes, by the number of the first; `{0}` in them is that number, `{1}` the next."""
        number = len(self.metadata)
        self.metadata += [
            f"!{number + i} = {node.format(number, number + 1)}" for i, node in enumerate(nodes)
        ]
        return f"!{number}"

    def select(self, value: str, dtype: DType, lanes: Sequence[int], into: str | None = None) -> str:
        """Lanes of a value; of a scalar, copies."""
        kind, count = llvm_type(dtype), len(lanes)
        if dtype.lanes == 1:
            if count > 1:
                return self.splat(value, dtype, count, into)
            return self.let(f"select i1 true, {kind} {value}, {kind} {value}", into)
        if count == 1:
            return self.let(f"extractelement {kind} {value}, i32 {lanes[0]}", into)
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.let(f"shufflevector {kind} {value}, {kind} poison, <{count} x i32> <{mask}>", into)

    def splat(self, value: str, dtype: DType, lanes: int, into: str | None = None) -> str:
        kind = vector_of(llvm_type(dtype), lanes)
        first = self.let(f"insertelement {kind} poison, {llvm_type(dtype)} {value}, i32 0")
        return self.let(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer", into)

    def join(self, parts: Sequence[tuple[str, int]], scalar: DType, into: str | None = None) -> str:
        """Values of one scalar type after another, in pairs."""
        if len(parts) == 1:
            value, lanes = parts[0]
            return self.select(value, scalar.vec(lanes), range(lanes), into)
        while len(parts) > 1:
            last = len(parts) == 2
            joined = [
                (self.join_two(a, b, scalar, into if last else None), a[1] + b[1])
                for a, b in zip(parts[::2], parts[1::2], strict=False)
            ]
            parts = [*joined, *parts[len(joined) * 2 :]]
        return parts[0][0]

    def join_two(self, a: tuple[str, int], b: tuple[str, int], scalar: DType, into: str | None) -> str:
        wide = max(a[1], b[1])
        kind = vector_of(llvm_type(scalar), wide)
        if wide == 1:
            pair = vector_of(llvm_type(scalar), 2)
            first = self.let(f"insertelement {pair} poison, {kind} {a[0]}, i32 0")
            return self.let(f"insertelement {pair} {first}, {kind} {b[0]}, i32 1", into)
        left, right = (self.widen(value, lanes, wide, scalar) for value, lanes in (a, b))
        order = [*range(a[1]), *(wide + lane for lane in range(b[1]))]
        mask = ", ".join(f"i32 {lane}" for lane in order)
        return self.let(f"shufflevector {kind} {left}, {kind} {right}, <{len(order)} x i32> <{mask}>", into)

    def widen(self, value: str, lanes: int, wide: int, scalar: DType) -> str:
        """A value in a longer vector; what follows it does not matter."""
        if lanes == wide:
            return value
        if lanes == 1:
            return self.let(
                f"insertelement {vector_of(llvm_type(scalar), wide)} poison, {llvm_type(scalar)} {value}, i32 0"
            )
        mask = ", ".join(f"i32 {lane}" if lane < lanes else "i32 poison" for lane in range(wide))
        kind = vector_of(llvm_type(scalar), lanes)
        return self.let(f"shufflevector {kind} {value}, {kind} poison, <{wide} x i32> <{mask}>")
