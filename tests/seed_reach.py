"""What `compile` comes to: the code that runs, and the data that is read, while a few programs are compiled.

    python -m tests.seed_reach < targets        one `module:attribute` a line; those that it does not come to are printed

A function has to be called, a class to have a method called, and data to be read somewhere in a module that was loaded.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any


def programs() -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """A layer, loops with slices in and out, a sorted array, integers, constants, a branch, a convolution, casts."""
    import numpy as np

    import planish as pn

    def ones(*shape: int) -> Any:
        return np.ones(shape, np.float32)

    yield lambda x, w: pn.nn.softmax(pn.tanh(x @ w), axis=-1), (ones(4, 8), ones(8, 8))
    yield lambda h, xs: pn.scan(lambda h, x: (h * 0.5 + x, h), h, xs, reverse=True), (ones(8), ones(5, 8))
    yield lambda x: pn.sort(x)[::-1] + pn.mean(x), (ones(8),)
    yield lambda x: (x.astype(pn.int32) // 7) % 3, (ones(30),)
    yield lambda x: x + pn.exp(pn.full((30,), 2.0)) * pn.full((30,), 3.0), (ones(30),)
    yield lambda x: pn.cond(pn.sum(x) > 0, lambda: x, lambda: -x), (ones(30),)
    yield lambda x: pn.while_loop(lambda c: pn.sum(c) < 9.0, lambda c: c * 2.0, x), (ones(3),)


def called() -> set[CodeType]:
    """The code that runs."""
    import planish as pn

    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        for function, arguments in programs():
            with pn.settings(cache=False):
                pn.jit(function)(*arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def codes(found: object) -> list[CodeType] | None:
    """The code of a function, a property or a class; None of data."""
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, FunctionType):
        return [found.__code__]
    if inspect.isclass(found):
        return [
            code
            for value in vars(found).values()
            for code in codes(value) or ()
            if not inspect.isclass(value)
        ]
    return None


def read_names(modules: list[str]) -> set[str]:
    """The names that modules read: variables, and attributes of whatever."""
    found: set[str] = set()
    for name in modules:
        file = getattr(sys.modules[name], "__file__", None)
        for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))) if file else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
    return found


def unreached(targets: list[str]) -> list[str]:
    ran = called()
    loaded = [name for name in sys.modules if name.split(".")[0] == "planish"]
    names = read_names(loaded)
    missing = []
    for target in targets:
        module, _, attributes = target.partition(":")
        found: object = importlib.import_module(module)
        for attribute in attributes.split("."):
            owner = found
            found = inspect.getattr_static(owner, attribute, None)
        own = codes(found)
        if own is None:
            reached = module in loaded and attributes.split(".")[-1] in names
        else:
            reached = any(code in ran for code in own)
        if not reached:
            missing.append(target)
    return missing


if __name__ == "__main__":
    print("\n".join(unreached(sys.stdin.read().split())))
