"""Where modules come from: text, files, bytes of a portable artefact, and what jax makes.

Text is read by planish itself. Bytecode is read by MLIR's bindings, which come with jaxlib.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from planish.errors import PlanishError
from planish.stablehlo.parsing import parse
from planish.stablehlo.syntax import HloModule

Source = str | bytes | Path | Any
"""Text, bytes, a path, `jax.stages.Lowered`, `jax.export.Exported`, or a module of MLIR's bindings."""
_MAGIC: Final = b"ML\xefR"


def read(source: Source) -> HloModule:
    """The module of a source."""
    if isinstance(source, bytes | bytearray | memoryview):
        return parse(_text_of(bytes(source)))
    if isinstance(source, Path):
        return _file(source)
    if isinstance(source, str):
        if "\n" not in source and "{" not in source:
            return _file(Path(source))
        return parse(source)
    module = mlir_of(source)
    return parse(_printed(module))


def _file(path: Path) -> HloModule:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise PlanishError(
            f"{path} cannot be read: {error.strerror}", remedy="give a path, a module's text, or its bytes"
        ) from None
    if b"\0" in data[:64] or data.startswith(_MAGIC):
        return parse(_text_of(data), str(path))
    return parse(data.decode(), str(path))


def mlir_of(source: object) -> Any:
    """The MLIR module of an object of jax's."""
    if hasattr(source, "mlir_module_serialized"):  # jax.export.Exported
        return deserialized(source.mlir_module_serialized)
    if hasattr(source, "compiler_ir"):  # jax.stages.Lowered
        module = source.compiler_ir("stablehlo")
        if module is not None:
            return module
    if hasattr(source, "operation") and hasattr(source, "body"):
        return source
    raise PlanishError(
        f"a {type(source).__name__} is no StableHLO module",
        remedy="give text, bytes, a path, what jax.jit(f).lower(…) or jax.export.export(…)(…) made",
    )


def _printed(module: Any) -> str:
    """With the lines that operations come from."""
    text: str = module.operation.get_asm(enable_debug_info=True, large_elements_limit=None)
    return text


def _text_of(data: bytes) -> str:
    if not data.startswith(_MAGIC):
        exported = _exported(data)
        if exported is not None:
            return _printed(deserialized(exported.mlir_module_serialized))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise PlanishError(
                "these bytes are neither MLIR's text nor its bytecode, nor an export of jax's",
                remedy="give what module.operation.write_bytecode or jax.export's serialize wrote",
            ) from None
    return _printed(deserialized(data))


def _exported(data: bytes) -> Any:
    """What `Exported.serialize()` wrote; None if it is something else."""
    try:
        from jax import export
    except ImportError:
        return None
    try:
        return export.deserialize(bytearray(data))
    except Exception:  # noqa: BLE001 - any bytes may be given, and flatbuffers fail in many ways
        return None


def deserialized(data: bytes) -> Any:
    """Bytecode (or text) as a module of MLIR's bindings."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, stablehlo
    except ImportError as error:
        raise PlanishError(
            f"StableHLO's bytecode is read by MLIR's bindings, which are not installed: {error}",
            remedy="pip install jaxlib, or give the module as text",
        ) from None
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    with suppress(ImportError):
        from jaxlib.mlir.dialects import sdy

        sdy.register_dialect(context)
    with suppress(Exception):  # bytecode of StableHLO itself is no portable artefact
        return stablehlo.deserialize_portable_artifact(context, data)
    try:
        with context:
            return ir.Module.parse(data)
    except Exception as error:
        raise PlanishError(f"the bytecode cannot be read: {error}") from error
