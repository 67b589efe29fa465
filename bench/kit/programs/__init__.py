"""The programs of `other.py`, by name."""

from __future__ import annotations

from . import layers, others
from .base import Program

PROGRAMS = layers.PROGRAMS | others.PROGRAMS

__all__ = ["PROGRAMS", "Program"]
