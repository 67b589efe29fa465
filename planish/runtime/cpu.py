"""LLVM IR made machine code: objects and assembly for this machine, or for a processor that is named.

Objects and assembly are made on one path: what is read is what runs. The IR comes vectorised and unrolled as it is wanted, so few
passes run: registers instead of stack slots, nothing that is not used, and, where a loop asks for it, unrolling. Instruction
selection does the small change.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm
from numpy.typing import NDArray

from planish.errors import PlanishError
from planish.runtime.elf import Loaded, mathematics
from planish.runtime.processors import LEVELS, Processor, check_runs_here, host, processor

__all__ = [
    "LEVELS", "CompiledModule", "Processor", "check_runs_here", "emit_assembly", "emit_glue", "emit_object", "host", "processor",
]  # fmt: skip

Function = Callable[..., None]


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


@cache
def _passes(made_for: Processor, *, unrolling: bool) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
    """The passes that run. Kept: LLVM does not give back all that they take."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    if unrolling:
        passes.add_loop_unroll_pass()  # (loops come with their tests at the end, as it wants them)
    passes.add_aggressive_dce_pass()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    return passes, llvm.create_pass_builder(_machine(made_for), options)


_DOT_PRODUCTS: Final = (
    ("@llvm.x86.avx512.vpdpbusd", "avx512vnni", "x86-64-vnni"),
    ("@llvm.x86.avx512bf16.", "avx512bf16", "x86-64-bf16"),
)
"""What source names, which processors have it, and where it may be compiled for."""


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
    for name, feature, level in _DOT_PRODUCTS:
        if name in source and not made_for.has(feature):
            raise PlanishError(
                f"a kernel needs {feature}, which {made_for.name} does not have",
                remedy=f"compile it for {level}",
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


def emit_glue(source: str, made_for: Processor | None = None) -> bytes:
    """The object code of IR that runs once per call, not per element: made quickly, not made quick."""
    image: bytes = _machine(made_for or host(), 0).emit_object(_parsed(source))
    return image


def emit_routine(source: str, made_for: Processor, *, unrolled: bool) -> bytes:
    """The object code of a routine, which is written plainly; all passes run where its loops are to be unrolled and values hoisted."""
    if not unrolled:
        return emit_object(source, made_for)
    module, machine = _parsed(source), _machine(made_for)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False  # lanes are chosen where it is written
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    image: bytes = machine.emit_object(module)
    return image


def emit_assembly(source: str, made_for: Processor | None = None) -> str:
    """The same code as text."""
    made_for = made_for or host()
    return str(_machine(made_for).emit_assembly(_module(source, made_for)))


class CompiledModule:
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
        kernel: Function = function
        return kernel

    def kernel(self, name: str, parameters: int) -> Callable[[Sequence[NDArray[Any]]], None]:
        """A kernel as a function of as many flat, contiguous arrays."""
        function = self.function(name, parameters)
        return lambda arrays: function(*[array.ctypes.data for array in arrays])
