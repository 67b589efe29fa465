"""A lowered function in the compilation cache: what a second process needs to run it without lowering anything.

The key is the text of the function, the target, the passes and the settings that change code. The value is the plan and what a
call needs to know of its kernels; the function after the passes, the LLIR of the kernels and their schedules are in it as bytes, to
be read when somebody asks. Object code has entries of its own. It is read back by an unpickler that knows planish's own records
and NumPy's arrays, and nothing else.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from planish import ptir
from planish.compiler.arguments import Arguments
from planish.config import current
from planish.errors import PlanishError
from planish.runtime.cache import disk_cache, key_of
from planish.runtime.processors import processor
from planish.target import Target

if TYPE_CHECKING:
    from planish.compiler import Lowered

_MODULES: Final = ("planish.", "numpy", "ml_dtypes")
_NUMPY: Final = frozenset({"ndarray", "dtype", "_reconstruct", "_frombuffer", "scalar"})
_RELEVANT: Final = ("fastmath", "contract", "devectorize", "allow_half8", "beam", "deterministic")
"""Settings that change what is generated."""


LATER: Final = ("function", "programs", "choices")
"""What of a lowered function only those need who look at it."""
_NOW: Final = ("plan", "sharing", "target", "keys", "scratch", "variables", "calls", "is_plain")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        known = module.startswith("planish.") or (
            module.startswith(_MODULES[1:]) and (name in _NUMPY or name in _DTYPES)
        )
        if not known and (module, name) not in _BUILTIN:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in the cache")
        return super().find_class(module, name)


_DTYPES: Final = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"})
_BUILTIN: Final = frozenset(
    {("builtins", "frozenset"), ("builtins", "set"), ("builtins", "complex"), ("builtins", "getattr"),
     ("_codecs", "encode"), ("pathlib", "PosixPath")}
)  # fmt: skip


def key(
    function: ptir.Function | ptir.Program, target: Target, passes: str | None, donate: Iterable[int]
) -> str:
    """Under which a lowered function is kept."""
    settings = current()
    chosen = ",".join(f"{name}={getattr(settings, name)}" for name in _RELEVANT)
    if settings.beam:
        from planish.compiler import tuning

        chosen += f",winners={tuning.winners().stamp}"
    return key_of(
        "lowered", ptir.print(function), repr(target), str(passes), ",".join(map(str, sorted(donate))), chosen, str(processor(target))
    )  # fmt: skip


def save(where: str, lowered: Lowered) -> None:
    """Keep it. What cannot be kept (a custom call's function) is simply not there next time."""
    cache = disk_cache()
    if not cache.usable:
        return
    from planish.compiler.records import dumps

    # kernels are their LLIR from here on
    kernels = tuple(replace(kernel, sink=None) for kernel in lowered.plan.kernels)  # type: ignore[arg-type]
    choices = tuple(replace(choice, search=None) for choice in lowered.choices)
    now = {name: getattr(lowered, name) for name in _NOW} | {"plan": replace(lowered.plan, kernels=kernels)}
    try:
        rest = dumps((ptir.print(lowered.function), lowered.programs, choices))
        cache.put(where, dumps((now, rest)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return


def load(where: str, function: ptir.Function | ptir.Program) -> Lowered | None:
    """What was kept, if it was."""
    from planish.compiler import Lowered

    raw = disk_cache().get(where)
    if raw is None:
        return None
    try:
        now, rest = _Unpickler(io.BytesIO(raw)).load()
        kept = {name: now[name] for name in _NOW}
    except (
        pickle.UnpicklingError,
        AttributeError,
        ImportError,
        TypeError,
        ValueError,
        KeyError,
        PlanishError,
    ):
        # a record of another make: lower it again
        return None
    found = object.__new__(Lowered)
    arguments = Arguments(function.entry if isinstance(function, ptir.Program) else function)
    found.__dict__.update(kept, arguments=arguments, _rest=partial(_later, rest))
    return found


def _later(rest: bytes) -> dict[str, object]:
    """What is read when it is asked for. The checksum of the entry holds for it too."""
    text, programs, choices = _Unpickler(io.BytesIO(rest)).load()
    return dict(zip(LATER, (ptir.parse(text).entry, programs, choices), strict=True))
