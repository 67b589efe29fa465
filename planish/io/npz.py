"""npz: NumPy's zip archive of npy files.

Members that are not compressed are mapped; what `save_npz` writes lies at addresses that kernels can read from. Pickled
objects are refused.
"""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from planish import dtypes
from planish.errors import DTypeError, PlanishError
from planish.frontend.tensor import asarray
from planish.frontend.tensor.array import Tensor
from planish.io.archive import Archive
from planish.io.files import Bytes, PathLike, checked, refuse, replaced, tensor_of

_ALIGNMENT: Final = 64
_PADDING: Final = 0xD935
"""The kind of extra field that tools which align zip members use."""
_VERSIONS: Final[dict[tuple[int, ...], tuple[int, str]]] = {
    (1, 0): (2, "latin1"),
    (2, 0): (4, "latin1"),
    (3, 0): (4, "utf-8"),
}
"""Per version of npy the bytes that give the length of the header, and its encoding."""
_LONGEST: Final = 10_000
"""The length up to which a header is read, as in NumPy."""


def load_npz(path: PathLike) -> dict[str, Tensor]:
    """All arrays of an npz file."""
    place = Path(path)
    archive = Archive(place)
    result: dict[str, Tensor] = {}
    for member in archive.names():
        name = member.removesuffix(".npy")
        if name == member:
            raise refuse(place, f"{member!r} is not an array: an npz file holds .npy members alone")
        if name in result:
            raise refuse(place, f"{name!r} is there twice")
        result[name] = _array(place, name, archive.read(member))
    return result


def _array(path: Path, name: str, data: Bytes) -> Tensor:
    shape, is_fortran, dtype, start = _header(path, name, data)
    if dtype.hasobject:
        raise refuse(
            path,
            f"{name!r} is a pickled Python object, which planish does not run",
            "save it as an array of numbers",
        )
    try:
        own_dtype = dtypes.from_numpy(dtype.newbyteorder("="))
    except PlanishError:
        raise refuse(path, f"{name!r} has dtype {dtype}, which planish does not have") from None
    rest = data[start:]
    wanted = dtype.itemsize * int(np.prod(shape, dtype=object))
    if rest.size != wanted:
        raise refuse(path, f"{name!r} is {dtype}{list(shape)}: {wanted} bytes, but {rest.size} are there")
    if dtype.isnative and not is_fortran:
        return tensor_of(rest, own_dtype, shape, path, name)
    try:
        array: NDArray[Any] = np.frombuffer(rest.tobytes(), dtype).reshape(
            shape, order="F" if is_fortran else "C"
        )
    except ValueError:
        raise refuse(path, f"{name!r} has a shape that no array has: {str(shape)[:80]}") from None
    return asarray(np.ascontiguousarray(array.astype(own_dtype.numpy)).reshape(shape))


def _header(path: Path, name: str, data: Bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether columns come first, dtype, and where the elements begin."""
    fixed = data[:12].tobytes()
    if not fixed.startswith(b"\x93NUMPY") or len(fixed) < 12:
        raise refuse(path, f"{name!r} is not an npy file")
    version = tuple(fixed[6:8])
    if version not in _VERSIONS:
        raise refuse(path, f"{name!r} is an npy file of version {version[0]}.{version[1]}")
    width, encoding = _VERSIONS[version]
    length = int.from_bytes(fixed[8 : 8 + width], "little")
    start = 8 + width + length
    if length > _LONGEST or start > data.size:
        raise refuse(path, f"the header of {name!r} is {length} bytes long, of {data.size}")
    try:
        header = ast.literal_eval(data[8 + width : start].tobytes().decode(encoding))
        shape, is_fortran, descr = header["shape"], header["fortran_order"], header["descr"]
        dtype = np.dtype(descr) if isinstance(descr, str) else None
    except (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise refuse(path, f"{name!r} has no valid npy header ({type(error).__name__})") from None
    if (
        dtype is None
        or not isinstance(is_fortran, bool)
        or not isinstance(shape, tuple)
        or not all(type(size) is int and 0 <= size < 1 << 48 for size in shape)
    ):
        raise refuse(path, f"{name!r} has no valid npy header: {descr!r} {shape!r}")
    return shape, is_fortran, dtype, start


def save_npz(path: PathLike, tensors: Mapping[str, Tensor], *, compress: bool = False) -> None:
    """Tensors by name, as NumPy's savez; compressed ones have to be unpacked to be loaded."""
    given = checked(tensors)
    for name, tensor in given.items():
        if tensor.dtype.numpy.kind == "V" or tensor.dtype.numpy.isbuiltin != 1:
            raise DTypeError.of(
                "save_npz",
                f"{name!r} is {tensor.dtype.name}, which NumPy does not have",
                "save it as safetensors, or convert it to float32",
            )
    kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replaced(path) as file, zipfile.ZipFile(file, "w", kind, allowZip64=True) as archive:
        for name, tensor in given.items():
            array = np.ascontiguousarray(np.asarray(tensor)).reshape(tensor.shape)
            header = io.BytesIO()
            npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
            _write(archive, file.tell(), f"{name}.npy", header.getvalue(), array)


def _write(archive: zipfile.ZipFile, at: int, name: str, header: bytes, array: NDArray[Any]) -> None:
    info = zipfile.ZipInfo(name)
    info.compress_type = archive.compression
    info.external_attr = 0o600 << 16
    info.file_size = len(header) + array.nbytes
    is_large = info.file_size * 1.05 > zipfile.ZIP64_LIMIT
    fixed = at + 30 + len(name.encode("utf-8")) + (20 if is_large else 0) + 4
    # npy headers are a multiple of 64 long, so that the elements lie as the member does.
    padding = -fixed % _ALIGNMENT
    info.extra = _PADDING.to_bytes(2, "little") + padding.to_bytes(2, "little") + bytes(padding)
    with archive.open(info, "w", force_zip64=is_large) as member:
        member.write(header)
        flat = array.reshape(-1)
        if flat.size:
            member.write(flat.view(np.uint8).data)
