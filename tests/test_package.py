"""The package as users get it: version, `python -m planish`, wheel and source distribution."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import planish
from planish import __main__ as command

ROOT = Path(__file__).parent.parent


def run(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_module_prints_the_version(flag: str):
    ran = run(sys.executable, "-m", "planish", flag, cwd=ROOT)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"planish {planish.__version__}\n", "")


def test_version_is_a_valid_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|(a|b|rc)\d+)?", planish.__version__)


def test_help_names_the_program(capsys: pytest.CaptureFixture[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert command.main(["--help"]) == 0
        assert capsys.readouterr().out.startswith("usage: python -m planish")
        assert command.main(["frobnicate"]) == 2
        captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("planish: unknown arguments: frobnicate\nusage: ")


def test_arguments_go_to_the_command_line_package_where_there_is_one(monkeypatch: pytest.MonkeyPatch):
    seen: list[list[str]] = []

    class FakeCli:
        @staticmethod
        def main(arguments: list[str]) -> int:
            seen.append(arguments)
            return 3

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("importlib.import_module", lambda name: FakeCli)
    assert command.main(["run", "model.onnx"]) == 3
    assert seen == [["run", "model.onnx"]]


@pytest.mark.slow
def test_wheel_and_source_distribution_build_install_and_import(tmp_path: Path):
    dist = tmp_path / "dist"
    built = run(sys.executable, "-m", "build", "--outdir", dist, ROOT, cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = dist.glob("*.whl")
    (source,) = dist.glob("*.tar.gz")

    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "planish").rglob("*.py")}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    beside = {"native/support.ll", "native/support.o", "routines/ready.bin"}
    assert modules | {"planish/py.typed"} | {f"planish/runtime/{name}" for name in beside} <= in_wheel
    assert not [name for name in in_wheel if name.startswith(("tests/", "bench/"))]
    assert any(name.endswith("licenses/LICENSE") for name in in_wheel)
    with tarfile.open(source) as archive:
        in_source = {name.partition("/")[2] for name in archive.getnames()}
    assert modules | {"planish/py.typed", "LICENSE", "README.md", "pyproject.toml"} <= in_source
    # What is needed to read, try and test it, too: all that the repository has.
    kept = run("git", "ls-files", cwd=ROOT).stdout.splitlines()
    assert not {name for name in kept if name != ".gitignore"} - in_source

    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr
    # The dependencies come from this environment; planish itself must come from the wheel, which stands first.
    dependencies = str(Path(np.__file__).parent.parent)
    script = (
        f"import sys; sys.path.append({dependencies!r}); import planish;"
        "print(planish.__file__); print(planish.float32.const(0.1)); print(planish.uop.__name__)"
    )
    ran = run(python, "-c", script, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    file, constant, uop = ran.stdout.splitlines()
    assert Path(file).is_relative_to(home)
    assert constant == "0.10000000149011612"
    assert uop == "planish.uop"


def test_links_between_documents_lead_somewhere():
    documents = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    code = re.compile(r"```.*?```", re.DOTALL)
    links = [
        (document, target)
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)", code.sub("", document.read_text(encoding="utf-8")))
        if "://" not in target
    ]
    assert len(links) >= 10
    assert [(str(d.relative_to(ROOT)), t) for d, t in links if not (d.parent / t).exists()] == []


def test_every_document_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    missing = [
        path.name
        for path in (ROOT / "docs").glob("*.md")
        if path.name != "README.md" and f"({path.name})" not in index
    ]
    assert missing == []


def test_the_python_in_the_readme_runs_and_is_true(capsys: pytest.CaptureFixture[str]):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    scope: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), scope)
    shown = capsys.readouterr().out
    assert "reduce_max" in shown
    (learned,) = re.findall(r"^print\(f\"\{losses.*# (\S+ -> \S+)$", block, re.MULTILINE)
    assert shown.startswith(f"{learned}\n")
    first, last = map(float, learned.split(" -> "))
    assert first > 10 * last > 0  # it learns, and nothing saturates
    last, told = re.findall(r"^(infix\(.*\))  +# (.*)$", block, re.MULTILINE)[0]
    assert eval(last, scope) == told


def test_the_demo_needs_nothing_but_what_the_package_needs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (needs,) = re.findall(r"^demo: (.*)$", makefile, re.MULTILINE)
    (recipe,) = re.findall(r"^\$\(RUN\):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert needs == "$(RUN)"
    assert '["project"]["dependencies"]' in recipe
    assert "optional" not in recipe
    code = (ROOT / "examples" / "demo.py").read_text(encoding="utf-8")
    imported = set(re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"numpy", "planish"}


def test_what_is_said_of_the_package_is_there():
    # Front ends and back ends that do not exist are not promised.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = (
        (ROOT / "README.md").read_text(encoding="utf-8")
        + project["description"]
        + " ".join(project["keywords"])
    )
    assert {"frontend", "ptir", "schedule", "stages", "llir", "codegen", "runtime"} <= set(
        re.findall(r"^ (\w+)/ ", told, re.MULTILINE)
    )
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "planish").rglob("*.py"))
    modules = {
        "onnx": "onnx",
        "images": "PIL",
        "cuda": r"cuda\.bindings",
        "torch": "torch",
        "jax": "jax",
        "mpi": "mpi4py",
        "nccl": r"nvidia\.nccl",
        "ray": "ray",
        "shared": r"fsspec\.core",
        "cli": "rich",
    }
    for extra in set(project["optional-dependencies"]) - {"dev", "bench", "docs"}:
        assert re.search(
            rf"import {modules[extra]}\b|from {modules[extra]}[.\w]* import|\"{modules[extra]}[.\"]", source
        )
