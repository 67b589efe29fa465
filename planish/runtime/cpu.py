"""LLVM IR made machine code in this process, and called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numpy.typing import NDArray

Array = NDArray[Any]
Kernel = Callable[[Sequence[Array]], None]


@cache
def target_machine() -> llvm.TargetMachine:
    """The machine we run on, with all its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic")


class Module:
    """Compiled kernels; they live as long as this object."""

    def __init__(self, source: str) -> None:
        machine = target_machine()
        module = llvm.parse_assembly(source)
        module.verify()
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        passes = llvm.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        self.assembly: str = machine.emit_assembly(module)
        self._engine = llvm.create_mcjit_compiler(module, target_machine_of_this_module())
        self._engine.finalize_object()

    def kernel(self, name: str, parameters: int) -> Kernel:
        """A function of as many flat, contiguous arrays."""
        address = self._engine.get_function_address(name)
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * parameters)(address)

        def call(arrays: Sequence[Array]) -> None:
            function(*[array.ctypes.data for array in arrays])

        return call


def target_machine_of_this_module() -> llvm.TargetMachine:
    """An engine takes a target machine for itself."""
    return target_machine.__wrapped__()
