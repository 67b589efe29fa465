"""Zip archives as npz and PyTorch use them: members as bytes, mapped where they are not compressed."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Final

import numpy as np

from planish.io.files import Bytes, mapped, refuse

_LOCAL: Final = struct.Struct("<4s5H3I2H")
"""The fixed part of what stands before a member."""
_DENSEST: Final = 1100
"""Deflate cannot pack more bytes than this into one (1032, and some for short members)."""


class Archive:
    """An archive that is read: a directory at the end of the file, and members."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = mapped(path)
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, EOFError) as error:
            raise refuse(path, f"the zip archive cannot be read ({error}): truncated?") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            if not member.filename:
                raise refuse(path, "a member of the archive has no name")
            if member.is_dir():
                continue
            if member.filename in self._members:
                raise refuse(path, f"{member.filename!r} is in the archive twice")
            self._members[member.filename] = member

    def names(self) -> list[str]:
        """Of the members."""
        return list(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def read(self, name: str) -> Bytes:
        """The bytes of a member."""
        member = self._members[name]
        if member.flag_bits & 1:
            raise refuse(self.path, f"{name!r} is encrypted")
        start = self._start(member)
        packed = self._bytes[start : start + member.compress_size]
        if packed.size != member.compress_size:
            raise refuse(self.path, f"{name!r} goes beyond the end of the file: truncated?")
        if member.compress_type == zipfile.ZIP_STORED:
            if member.file_size != member.compress_size:
                raise refuse(self.path, f"{name!r} is not compressed, but has two sizes")
            return packed
        if member.compress_type != zipfile.ZIP_DEFLATED:
            raise refuse(self.path, f"{name!r} is compressed in a way that planish does not read")
        return self._unpacked(name, member, packed)

    def _start(self, member: zipfile.ZipInfo) -> int:
        at = member.header_offset
        head = self._bytes[at : at + _LOCAL.size].tobytes()
        if len(head) < _LOCAL.size or not head.startswith(b"PK\x03\x04"):
            raise refuse(self.path, f"{member.filename!r} is not where the directory says")
        fields = _LOCAL.unpack(head)
        return at + _LOCAL.size + int(fields[9]) + int(fields[10])

    def _unpacked(self, name: str, member: zipfile.ZipInfo, packed: Bytes) -> Bytes:
        if member.file_size > _DENSEST * (packed.size + 64):
            raise refuse(self.path, f"{name!r} claims {member.file_size} bytes out of {packed.size}")
        engine = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than announced, so that more than announced is noticed.
            unpacked = engine.decompress(packed.tobytes(), member.file_size + 1)
        except zlib.error as error:
            raise refuse(self.path, f"{name!r} cannot be unpacked ({error})") from None
        if len(unpacked) != member.file_size or zlib.crc32(unpacked) != member.CRC:
            raise refuse(self.path, f"{name!r} does not unpack to what the directory says")
        return np.frombuffer(unpacked, np.uint8)
