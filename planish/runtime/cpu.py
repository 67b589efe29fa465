"""LLVM IR made machine code in this process, and called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numpy.typing import NDArray

Function = Callable[..., None]


@cache
def target_machine() -> llvm.TargetMachine:
    """The machine we run on, with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic")


def _optimized(source: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(source)
    module.verify()
    passes = llvm.create_pass_builder(target_machine(), llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    return module


@cache
def _object_machine() -> llvm.TargetMachine:
    target_machine()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


@cache
def description() -> str:
    """The machine that objects are made for: its name and every feature it has."""
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def emit_object(source: str) -> bytes:
    """The object code of LLVM IR, to be loaded or kept."""
    module = llvm.parse_assembly(source)
    module.verify()
    machine = _object_machine()
    # the code is vectorised and unrolled as it is wanted: registers instead of stack slots, and small change, are all it lacks
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2)))
    image: bytes = machine.emit_object(module)
    return image


class Module:
    """Compiled kernels; they live as long as this object."""

    def __init__(self, source: str) -> None:
        target_machine()
        self._source = source
        self._engine = llvm.create_mcjit_compiler(_optimized(source), target_machine_of_this_module())
        self._engine.finalize_object()

    @property
    def assembly(self) -> str:
        """The code as text. Made anew when asked for: nobody pays for it otherwise."""
        return str(target_machine().emit_assembly(_optimized(self._source)))

    def function(self, name: str, pointers: int, integers: int = 0, *, scratch: bool = False) -> Function:
        """A kernel as a function of addresses, then of integers of 64 bits, then of the address of its scratch memory."""
        kinds = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * integers + [ctypes.c_void_p] * scratch
        found: Function = ctypes.CFUNCTYPE(None, *kinds)(self._engine.get_function_address(name))
        return found

    def kernel(self, name: str, parameters: int) -> Callable[[Sequence[NDArray[Any]]], None]:
        """A kernel as a function of as many flat, contiguous arrays."""
        function = self.function(name, parameters)
        return lambda arrays: function(*[array.ctypes.data for array in arrays])


def target_machine_of_this_module() -> llvm.TargetMachine:
    """An engine takes a target machine for itself."""
    return target_machine.__wrapped__()
