"""Elements of constants: numbers, bits and bytes as MLIR writes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.stablehlo.syntax import HloTensorType, QuantizedElement


def from_bits(text: str, kind: DType) -> float:
    raw = int(text, 16).to_bytes(kind.itemsize, "little")
    return float(np.frombuffer(raw, kind.numpy)[0])


def elements(literal: str, type: HloTensorType) -> Any:
    """The elements that a literal writes out; one alone where they are alike, fewer than wanted where it is wrong."""
    kind = type.element.storage if isinstance(type.element, QuantizedElement) else type.element
    shape = [0 if d is None else d for d in type.dims]
    count = int(np.prod(shape, dtype=np.int64))
    if not literal:
        return np.zeros(shape, kind.numpy)
    if literal.startswith('"0x'):
        array = _packed(bytes.fromhex(literal[3:-1]), kind, count)
        return array[0].reshape(()) if len(array) == 1 and count != 1 else array.reshape(shape)
    if kind.is_complex:
        pairs = re.findall(r"\(([^,()]+),([^,()]+)\)", literal)
        part = dtypes.float32 if kind is dtypes.complex64 else dtypes.float64
        numbers = [_scalar(w.strip(), part) for pair in pairs for w in pair]
        array = np.array(numbers, part.numpy).view(kind.numpy)
    else:
        array = _plain(literal, kind)
    if literal[0] != "[":
        return array.reshape(())
    return array.reshape(shape) if len(array) == count else array


def _plain(literal: str, kind: DType) -> Any:
    words = literal.replace("[", " ").replace("]", " ").replace(",", " ").split()
    if kind.is_float or kind.is_bool:
        return np.array([_scalar(word, kind) for word in words], kind.numpy)
    wide = np.uint64 if kind is dtypes.uint64 else np.int64
    return np.array([int(word, 0) for word in words], wide).astype(kind.numpy)


def _scalar(word: str, kind: DType) -> Any:
    if kind.is_bool:
        return word in ("true", "1")
    if word.startswith("0x"):
        return np.frombuffer(int(word, 16).to_bytes(kind.itemsize, "little"), kind.numpy)[0]
    return float(word)


def _packed(raw: bytes, kind: DType, count: int) -> Any:
    """Elements as MLIR packs them: bools eight to a byte, all others whole bytes."""
    if kind.is_bool:
        if len(raw) == 1 and raw in (b"\xff", b"\x00") and count != 8:
            return np.array([raw == b"\xff"])
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[:count].astype(bool)
    if kind.bits < 8:
        signed = np.frombuffer(raw, np.int8 if kind.is_signed else np.uint8)
        return signed.astype(kind.numpy)
    return np.frombuffer(raw, np.dtype(kind.numpy).newbyteorder("<")).astype(kind.numpy)
