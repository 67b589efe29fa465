"""Which kernels of a model take the time: each one is called and timed by itself, on one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from planish import ptir
from planish.compiler import Executable, lower
from planish.compiler.native import kernel_call
from planish.runtime.plan import KernelCall

Array = NDArray[Any]


@dataclass(slots=True)
class Profile:
    """Seconds and calls by kernel."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    functions: int = 0

    def make(self, function: ptir.Function) -> Executable:
        """A function whose kernels are timed."""
        lowered = lower(function)
        self.functions += 1
        prefix = "" if self.functions == 1 else f"{self.functions}:"
        calls = [
            self._timed(f"{prefix}{program.name}", kernel_call(program, scratch=bool(scratch)))
            for program, scratch in zip(lowered.programs, lowered.scratch, strict=True)
        ]
        return Executable(lowered, calls)

    def clear(self) -> None:
        """Forget what was measured."""
        self.seconds.clear()
        self.calls.clear()

    def _timed(self, name: str, call: KernelCall) -> KernelCall:
        def timed(arrays: Sequence[Array], values: Sequence[int], scratch: Array | None) -> None:
            begin = time.perf_counter()
            call(arrays, values, scratch)
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin
            self.calls[name] = self.calls.get(name, 0) + 1

        return timed

    def table(self, most: int = 20) -> str:
        """The slowest first."""
        total = sum(self.seconds.values()) or 1.0
        rows = sorted(self.seconds.items(), key=lambda item: -item[1])
        width = max([len(name) for name, _ in rows[:most]], default=6)
        lines = [f"{'kernel':<{width}}  calls        ms  share"]
        for name, seconds in rows[:most]:
            lines.append(
                f"{name:<{width}}  {self.calls[name]:5d}  {seconds * 1e3:8.3f}  {seconds / total:5.1%}"
            )
        rest = rows[most:]
        if rest:
            left = sum(seconds for _, seconds in rest)
            lines.append(f"{f'{len(rest)} others':<{width}}  {'':5}  {left * 1e3:8.3f}  {left / total:5.1%}")
        lines.append(f"{len(rows)} kernels, {total * 1e3:.3f} ms on one thread")
        return "\n".join(lines) + "\n"
