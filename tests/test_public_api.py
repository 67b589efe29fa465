"""The public face is a list under review: tests/public_api.txt. docs/stability.md says what it promises."""

from __future__ import annotations

import enum
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import planish
from planish.dtypes import DType, PtrDType
from tests.conftest import Golden

ROOT = Path(__file__).parent
PUBLIC_MODULES = (
    "planish", "planish.config", "planish.data", "planish.debug", "planish.distributed", "planish.dtypes", "planish.errors", "planish.fft", "planish.io",
    "planish.linalg", "planish.nn", "planish.optim", "planish.random", "planish.tree",
)  # fmt: skip
LAZY = tuple(sorted(planish._MODULES))


def describe(name: str, value: object) -> str:
    if isinstance(value, DType):
        return f"{name}: dtype {value}"
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return f"{name}: {', '.join(member.name for member in value)}"
    if value in (DType, PtrDType):
        return f"{name}: class"  # never constructed by users: no signature to promise
    if callable(value):
        return f"{name}{inspect.signature(value)}"
    return f"{name}: {type(value).__name__}"


def public_names() -> list[str]:
    lines = []
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(module.__all__):
            full = f"{module_name}.{name}"
            if module is planish and name in LAZY:
                lines.append(f"{full}: module")
            else:
                lines.append(describe(full, getattr(module, name)))
    return lines


def test_public_names_and_signatures_are_the_listed_ones(golden: Golden):
    Golden(golden.update, root=ROOT).check("public_api.txt", "\n".join(public_names()))


def test_lists_have_no_duplicates_and_name_what_exists():
    for module_name in PUBLIC_MODULES:
        module = importlib.import_module(module_name)
        assert len(set(module.__all__)) == len(module.__all__)
        for name in set(module.__all__) - set(LAZY):
            assert hasattr(module, name)


def test_array_api_dtype_names_are_the_dtypes():
    names = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
    for name in [*names.split(), "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]:
        assert getattr(planish, name).name == name
    assert planish.bool.name == "bool"


def test_lazy_modules_are_listed_and_imported_on_first_use():
    assert set(LAZY) <= set(importlib.import_module("planish").__all__)
    assert set(LAZY) <= set(dir(planish))
    script = (
        "import sys, planish; early = [m for m in sys.modules if m.startswith(('planish.uop', 'planish.ptir'))];"
        "assert not early, early; assert planish.uop is sys.modules['planish.uop'];"
        "assert planish.ptir is sys.modules['planish.ptir']"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'planish' has no attribute 'flaot32'"):
        _ = planish.flaot32  # type: ignore[attr-defined]


def test_importing_a_module_from_the_package_leaves_the_tensor_api_alone():
    script = (
        "import sys; from planish import target; early = [m for m in sys.modules if 'planish.frontend' in m];"
        "assert not early, early"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT.parent, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
