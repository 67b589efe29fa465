"""What `planish bench` runs: a program, a model or a function compiled by planish, and the same by peers that are installed."""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.cli.console import CommandError, Console, UsageError
from planish.cli.deployment import Port
from planish.cli.lower import enter
from planish.cli.models import DimSizes, random_inputs, read_dims
from planish.cli.run import open_model
from planish.cli.sources import find_function, function_program, is_function, is_model, read_text
from planish.compiler import Executable
from planish.runtime.pool import wanted_threads

Array = NDArray[Any]
Call = Callable[[], object]
OURS: Final = "planish"
_SECONDS: Final = 0.3
"""How long each side is run in all."""
_ROUNDS: Final = 5


@dataclass(slots=True)
class Subject:
    """Something compiled that can be called again and again."""

    executables: list[Executable]
    call: Call


@dataclass(slots=True)
class BenchWork:
    """What is to be timed: `make` compiles it under the settings in force, `peers` are others that compute the same."""

    make: Callable[[], Subject]
    peers: dict[str, Call] = field(default_factory=dict)


def work_of(args: argparse.Namespace, console: Console) -> BenchWork:
    """The work that a command line names."""
    sizes = read_dims(args.dim)
    if is_model(args.program):
        return _model(args, sizes, console)
    if is_function(args.program):
        function = function_program(args.program, args.args)
        program = ptir.Program([function])
    else:
        program = read_text(args.program, console)
        enter(program, args.entry)
    ports = [
        Port(f"argument {n}", type.dtype.numpy.name, tuple(d if isinstance(d, int) else str(d) for d in type.dims))
        for n, type in enumerate(program.entry.param_types)
    ]  # fmt: skip
    arrays = list(random_inputs(ports, sizes, {}, args.seed).values())

    def compiled() -> Subject:
        executable = compiler.compile(program, device=args.device)
        executable(*arrays)
        return Subject([executable], lambda: executable(*arrays))

    return BenchWork(compiled, dict(_named_peer(word, arrays) for word in args.peer))


def _model(args: argparse.Namespace, sizes: DimSizes, console: Console) -> BenchWork:
    if args.peer:
        raise UsageError(
            "--peer is for functions and programs",
            remedy="runtimes of models that are installed run by themselves",
        )
    feeds = random_inputs(open_model(args.program, sizes).inputs, sizes, {}, args.seed)

    def compiled() -> Subject:
        executables: list[Executable] = []
        opened = open_model(args.program, sizes)

        def make(function: ptir.Function) -> Executable:
            executables.append(compiler.compile(function, device=args.device))
            return executables[-1]

        opened.make = make
        opened.run(None, feeds)
        return Subject(executables, lambda: opened.run(None, feeds))

    peers: dict[str, Call] = {}
    for name, start in _RUNTIMES.items():
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        try:
            peers[name] = start(args.program, feeds)
        except Exception as error:  # noqa: BLE001 - a peer that cannot run a model is no reason to stop
            console.say_labelled("note", f"{name} does not run it: {error}")
    return BenchWork(compiled, peers)


def _onnxruntime(path: str, feeds: Mapping[str, Array]) -> Call:
    import onnxruntime  # type: ignore[import-untyped, import-not-found, unused-ignore]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = wanted_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, dict(feeds))
    return lambda: session.run(None, dict(feeds))


def _openvino(path: str, feeds: Mapping[str, Array]) -> Call:
    import openvino  # type: ignore[import-untyped, import-not-found, unused-ignore]

    model = openvino.compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": wanted_threads()})
    model(dict(feeds))
    return lambda: model(dict(feeds))


_RUNTIMES: Final = {"onnxruntime": _onnxruntime, "openvino": _openvino}


# -- functions of peers ----------------------------------------------------------------------------------------------


def _named_peer(word: str, arrays: Sequence[Array]) -> tuple[str, Call]:
    """`torch=mlp.py:forward_torch`: a function that is called with such tensors."""
    kind, equals, place = word.partition("=")
    if not equals or kind not in _KINDS:
        raise UsageError(
            f"{word!r} names no peer",
            remedy=f"write KIND=FILE.py:FUNCTION, where KIND is one of {', '.join(_KINDS)}",
        )
    try:
        return kind, _KINDS[kind](find_function(place), arrays)
    except ModuleNotFoundError as error:
        raise CommandError(f"{kind} is not installed: there is no {error.name}") from None


def _numpy(function: Callable[..., object], arrays: Sequence[Array]) -> Call:
    return lambda: function(*arrays)


def _torch(function: Callable[..., object], arrays: Sequence[Array]) -> Call:
    import torch

    torch.set_num_threads(wanted_threads())
    given = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]

    def call() -> object:
        with torch.no_grad():
            return function(*given)

    return call


def _jax(function: Callable[..., object], arrays: Sequence[Array]) -> Call:
    import jax

    given = [jax.numpy.asarray(array) for array in arrays]
    compiled: Any = jax.jit(function)
    wait: Any = jax.block_until_ready
    return lambda: wait(compiled(*given))


_KINDS: Final = {"numpy": _numpy, "torch": _torch, "jax": _jax}


# -- timing ----------------------------------------------------------------------------------------------------------


def best_of(calls: Mapping[str, Call], seconds: float = _SECONDS) -> dict[str, float]:
    """The least seconds of each, in turns: what disturbs one disturbs the others too."""
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            until = time.perf_counter() + seconds / _ROUNDS
            while True:
                begin = time.perf_counter()
                call()
                now = time.perf_counter()
                least[name] = min(least[name], now - begin)
                if now >= until:
                    break
    return least
