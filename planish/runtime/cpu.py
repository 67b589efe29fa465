"""LLVM IR made machine code: objects and assembly for this machine, or for a processor that is named.

Objects and assembly are made on one path: what is read is what runs. The IR comes vectorised and unrolled as it is wanted, so few
passes run: registers instead of stack slots, nothing that is not used, and, where a loop asks for it, unrolling. Instruction
selection does the small change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm
from numpy.typing import NDArray

from planish import features
from planish.errors import PlanishError
from planish.runtime.elf import Loaded, mathematics
from planish.target import Target

Function = Callable[..., None]

_V3: Final = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
LEVELS: Final[dict[str, tuple[str, ...]]] = {
    "x86-64": (),
    "x86-64-v3": _V3,
    "x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""The levels of x86-64 that code can be made for, and what a machine has to have to run it."""
_AMX: Final = tuple(sorted(features.AMX_FLAGS.values()))
_DOT_PRODUCTS: Final = "+fast-dpwssd"
"""Use `vpdpwssd` where it fits: LLVM likes a product and a sum better, which wait less, but our tiles have enough to do meanwhile."""
_ARM: Final = "aarch64-unknown-linux-gnu"
_X86: Final = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True, slots=True)
class Processor:
    """What machine code is made for, in LLVM's words."""

    triple: str
    name: str
    features: str = ""

    @property
    def is_arm(self) -> bool:
        """Whether it is an aarch64."""
        return self.triple.startswith("aarch64")

    def has(self, feature: str) -> bool:
        """Whether a feature is named as one that it has beyond its name."""
        return f"+{feature}" in self.features.split(",")

    @property
    def avx512(self) -> bool:
        """Whether it has vectors of 512 bits, and what x86-64-v4 has for shorter ones."""
        return self.name == "x86-64-v4" or all(map(self.has, ("avx512f", "avx512dq", "avx512vl")))

    def __str__(self) -> str:
        return f"{self.triple} {self.name} {self.features}".rstrip()


@cache
def host() -> Processor:
    """The machine we run on, with all its features: those that it has and that this process may use."""
    has = llvm.get_host_cpu_features()
    allowed = features.amx().features
    has.update({name: name in allowed for name in _AMX if name in has or name in allowed})
    text = has.flatten()
    if has.get("avx512vnni") or has.get("avxvnni"):
        text += f",{_DOT_PRODUCTS}"
    return Processor(llvm.get_process_triple(), llvm.get_host_cpu_name(), text)


def processor(target: Target) -> Processor:
    """Which processor code for a target is made for: a level of x86-64 or aarch64 as such, anything else this machine."""
    if target.native:
        return host()
    here = llvm.get_process_triple()
    if target.name in LEVELS:
        return Processor(here if here.startswith("x86_64") else _X86, target.name)
    if target.name == "x86-64-amx":
        wanted = ",".join(f"+{name}" for name in _AMX)
        return Processor(here if here.startswith("x86_64") else _X86, "x86-64-v4", wanted)
    return Processor(_ARM, "generic") if target.name == "aarch64" else host()


def check_runs_here(made_for: Processor) -> None:
    """Refuse code that this machine cannot run."""
    here = host()
    if made_for.triple.split("-")[0] != here.triple.split("-")[0]:
        raise PlanishError(
            f"code for {made_for.triple} does not run on this machine ({here.triple})",
            remedy='read it with as_text("asm"), or compile for "host"',
        )
    has = llvm.get_host_cpu_features()
    missing = [name for name in LEVELS.get(made_for.name, ()) if not has.get(name)]
    tiles = [name for name in _AMX if made_for.has(name) and name not in features.amx().features]
    if missing or tiles:
        missing += tiles
        raise PlanishError(
            f"code for {made_for.name}{' with AMX' if tiles else ''} does not run on this machine: it lacks {', '.join(missing)}",
            remedy='read it with as_text("asm"), or compile for "host"',
        )


@cache
def _machine(made_for: Processor, level: int = 2) -> llvm.TargetMachine:
    if made_for.triple == llvm.get_process_triple():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(made_for.triple).create_target_machine(
        cpu=made_for.name, features=made_for.features, opt=level, reloc="pic", codemodel="small"
    )


def target_machine() -> llvm.TargetMachine:
    """The machine we run on, as LLVM knows it."""
    return _machine(host())


@cache
def _passes(made_for: Processor, *, unrolling: bool) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
    """The passes that run. Kept: LLVM does not give back all that they take."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    if unrolling:
        passes.add_loop_simplify_pass()
        passes.add_loop_rotate_pass()
        passes.add_loop_unroll_pass()
    passes.add_aggressive_dce_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    return passes, llvm.create_pass_builder(_machine(made_for), options)


def _parsed(source: str) -> llvm.ModuleRef:
    # in a context of its own: what it interns goes with it
    module = llvm.parse_assembly(source, context=llvm.create_context())
    module.verify()
    return module


def _module(source: str, made_for: Processor) -> llvm.ModuleRef:
    if "@llvm.x86.ldtilecfg" in source and not made_for.has("amx-tile"):
        # LLVM would end the process
        raise PlanishError(
            f"a kernel uses tiles, which {made_for.name} does not have", remedy="compile it for x86-64-amx"
        )
    if "@llvm.x86.avx512." in source and not made_for.avx512:
        raise PlanishError(
            f"a kernel uses AVX-512, which {made_for.name} does not have", remedy="compile it for x86-64-v4"
        )
    module = _parsed(source)
    passes, builder = _passes(made_for, unrolling="llvm.loop.unroll.count" in source)
    passes.run(module, builder)
    return module


def emit_object(source: str, made_for: Processor | None = None) -> bytes:
    """The object code of LLVM IR, to be loaded or kept."""
    made_for = made_for or host()
    image: bytes = _machine(made_for).emit_object(_module(source, made_for))
    return image


def emit_glue(source: str) -> bytes:
    """The object code of IR that runs once per call, not per element, for this machine: made quickly, not made quick."""
    image: bytes = _machine(host(), 0).emit_object(_parsed(source))
    return image


def emit_assembly(source: str, made_for: Processor | None = None) -> str:
    """The same code as text."""
    made_for = made_for or host()
    return str(_machine(made_for).emit_assembly(_module(source, made_for)))


class Module:
    """Compiled kernels; they live as long as this object."""

    def __init__(self, source: str) -> None:
        image = emit_object(source)
        self._source = source
        self._loaded = Loaded(image, mathematics(image))

    @property
    def assembly(self) -> str:
        """The code as text. Made anew when asked for: nobody pays for it otherwise."""
        return emit_assembly(self._source)

    def address(self, name: str) -> int:
        """Where a function is."""
        return self._loaded.address(name)

    def function(self, name: str, pointers: int, integers: int = 0, *, scratch: bool = False) -> Function:
        """A kernel as a function of addresses, then of integers of 64 bits, then of the address of its scratch memory."""
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * integers + [ctypes.c_void_p] * scratch
        function = ctypes.CFUNCTYPE(None, *kinds)(self.address(name))
        function.code = self._loaded  # type: ignore[attr-defined]  # it lives as long as the function does
        found: Function = function
        return found

    def kernel(self, name: str, parameters: int) -> Callable[[Sequence[NDArray[Any]]], None]:
        """A kernel as a function of as many flat, contiguous arrays."""
        function = self.function(name, parameters)
        return lambda arrays: function(*[array.ctypes.data for array in arrays])
