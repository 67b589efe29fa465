"""What the namespace says about itself: the standard's `__array_namespace_info__`."""

from __future__ import annotations

from typing import TypedDict

from planish import dtypes as all_dtypes
from planish.dtypes import DType
from planish.frontend import devices
from planish.frontend.tensor.data_types import KindName, isdtype

Capabilities = TypedDict(
    "Capabilities", {"boolean indexing": bool, "data-dependent shapes": bool, "max dimensions": int | None}
)
DefaultDTypes = TypedDict(
    "DefaultDTypes", {"real floating": DType, "complex floating": DType, "integral": DType, "indexing": DType}
)
_STANDARD = (
    all_dtypes.bool_, all_dtypes.int8, all_dtypes.int16, all_dtypes.int32, all_dtypes.int64, all_dtypes.uint8,
    all_dtypes.uint16, all_dtypes.uint32, all_dtypes.uint64, all_dtypes.float32, all_dtypes.float64,
    all_dtypes.complex64, all_dtypes.complex128,
)  # fmt: skip


class NamespaceInfo:
    """Capabilities, devices and dtypes."""

    __slots__ = ()

    def capabilities(self) -> Capabilities:
        """What is optional in the standard and done here."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Where tensors live that nothing puts elsewhere."""
        return devices.default_device()

    def default_dtypes(self, *, device: str | None = None) -> DefaultDTypes:
        """The dtypes of Python numbers, and of indices."""
        return {
            "real floating": all_dtypes.DEFAULT_FLOAT,
            "complex floating": all_dtypes.DEFAULT_COMPLEX,
            "integral": all_dtypes.DEFAULT_INT,
            "indexing": all_dtypes.int64,
        }

    def dtypes(
        self, *, device: str | None = None, kind: KindName | tuple[KindName, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes by name, all or of a kind."""
        return {dtype.name: dtype for dtype in _STANDARD if kind is None or isdtype(dtype, kind)}

    def devices(self) -> tuple[str, ...]:
        """The devices there are."""
        return devices.devices()


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """What the namespace says about itself."""
    return NamespaceInfo()


__all__ = [
    "__array_namespace_info__",
]  # fmt: skip
