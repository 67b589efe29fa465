"""Evaluation of lazy tensors: see `planish.frontend.realize`."""

from planish.frontend.realize import evaluate, realize

__all__ = ["evaluate", "realize"]
