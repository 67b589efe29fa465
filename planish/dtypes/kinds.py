"""What sorts of values there are, and where pointers point."""

from __future__ import annotations

from enum import Enum, unique

# What a constant is: a plain Python number.
Scalar = bool | int | float | complex


@unique
class Kind(Enum):
    """What sort of values a type holds. A pointer holds no number: its kind is VOID."""

    VOID = "void"
    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    FLOAT = "float"
    COMPLEX = "complex"
    INDEX = "index"

    __hash__ = object.__hash__  # members are single; by name, as an enum does it, is slow


@unique
class AddrSpace(Enum):
    """Where a pointer points: device memory, memory shared by a block, or registers."""

    GLOBAL = "global"
    LOCAL = "local"
    REG = "reg"
