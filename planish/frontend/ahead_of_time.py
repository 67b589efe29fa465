"""What `jit(f).lower(…)` and `.compile()` give: a function captured for one kind of arguments, and its machine code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planish import compiler, ptir
from planish.compiler import Cost, Executable, KernelInfo, Memory
from planish.compiler.levels import Levels
from planish.config import current
from planish.errors import PlanishError
from planish.frontend.arguments import CallParts, CallSignature, difference
from planish.frontend.devices import CPU, find
from planish.frontend.entries import CacheEntry, CapturedCall
from planish.frontend.matching import MISSED
from planish.frontend.session import current_scope, evaluate
from planish.frontend.tensor.array import Tensor
from planish.ptir.dims import Dim as NamedDim
from planish.ptir.types import TensorType
from planish.tracebacks import short_tracebacks

if TYPE_CHECKING:
    from planish.compiler import Program
    from planish.compiler.profile import Profile
    from planish.ptir.passes import Passes


class LoweredCall:
    """A function captured for one kind of arguments; every level is made when it is asked for."""

    def __init__(
        self,
        signature: CallSignature,
        traced: CapturedCall,
        passes: Passes = compiler.PIPELINE,
        device: str = CPU,
    ) -> None:
        self._signature = signature
        self._traced = traced
        self._levels = Levels(traced.function, passes=passes, donate=traced.donated, device=device)

    def __repr__(self) -> str:
        return f"<lowered {self._signature.name}>"

    @property
    def function(self) -> ptir.Function:
        """What was captured, before any pass."""
        return self._traced.function

    @property
    def _lowered(self) -> compiler.Lowered:
        return self._levels.lowered

    @property
    def programs(self) -> tuple[Program, ...]:
        """The LLIR of each kernel."""
        return self._lowered.programs

    def as_text(self, level: str = "ptir") -> str:
        """The program at a level: ptir, plan, uop, uop:NN (after that stage), schedule, llir; llvm, c or asm; of a GPU cuda, ptx or sass."""
        return self._levels.as_text(level)

    def compile(self) -> Compiled:
        """Machine code."""
        return Compiled(self._signature, self._traced, self._levels.compile(), self._levels)


class Compiled:
    """A function compiled ahead of time: called with arguments like those it was lowered for."""

    def __init__(
        self, signature: CallSignature, traced: CapturedCall, exe: Executable, levels: Levels
    ) -> None:
        self._signature = signature
        self._traced = traced
        self._exe = exe
        self._levels = levels
        self._entry = CacheEntry(traced, current(), exe, find(levels.device))

    def __repr__(self) -> str:
        return f"<compiled {self._signature.name}: {len(self._exe.lowered.plan.kernels)} kernels>"

    @property
    def kernels(self) -> tuple[KernelInfo, ...]:
        """Its kernels, each once."""
        return self._exe.kernels

    @property
    def memory(self) -> Memory:
        """The memory of a call, at the largest sizes."""
        return self._exe.memory

    @property
    def cost(self) -> Cost:
        """What a call does."""
        return self._exe.cost

    def why(self) -> str:
        """Why each kernel has the schedule it has, as text."""
        return self._exe.why()

    def profile(self, *args: Any, repeat: int = 20, **kwargs: Any) -> Profile:
        """How long each launch of a call takes, with the line that asked for it: the median of so many calls, after some to warm up.

        The arguments are those of a call; without any, made-up ones. `records` are data, `str()` is a table.
        """
        arrays = self._arrays(args, kwargs) if args or kwargs else []
        captured = self._entry.captured if arrays else []
        return self._exe.profile(*arrays, *captured, repeat=repeat, function=self._levels.prepared)

    @short_tracebacks
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results; other arguments than those it was lowered for are an error that says what differs."""
        entry = self._entry
        if current_scope() is None:
            result = entry.attempt(args, kwargs, current())
            if result is not MISSED:
                return result
        call = self._checked(args, kwargs)
        arrays = self._data(call)
        return entry.run([*arrays, *(call.leaves[number] for number in entry.donated)])

    def _arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return self._data(self._checked(args, kwargs))

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallParts:
        """A call like the one it was lowered for."""
        wanted = self._traced.call
        call = self._signature.apart(args, kwargs, wanted.key.settings)
        if call.key != wanted.key:
            reasons = [
                reason
                for reason in difference(wanted, call, self._signature.label)
                if not reason.startswith("settings")
            ]
            fits = [_fits(a.type, b.type) for a, b in zip(call.key.leaves, wanted.key.leaves, strict=False)]
            if (
                call.key.structure != wanted.key.structure
                or call.key.static != wanted.key.static
                or not all(fits)
            ):
                raise PlanishError.at_caller(
                    f"{self._signature.name} was compiled for other arguments: {'; '.join(reasons)}",
                    "lower it again for these",
                )
        return call

    def _data(self, call: CallParts) -> list[Any]:
        evaluate([leaf._value for leaf in call.leaves if isinstance(leaf, Tensor)])
        return self._entry.arrays(call)


def _fits(given: TensorType, wanted: TensorType) -> bool:
    """Whether data of a type can be passed for another with named sizes; whether they agree is seen when it runs."""
    if given.dtype is not wanted.dtype or len(given.dims) != len(wanted.dims):
        return False
    return all(
        isinstance(size, NamedDim) or size == other
        for other, size in zip(given.dims, wanted.dims, strict=True)
    )
