"""Compile the C of `planish/runtime/native` to the LLVM IR that the package reads, and that to machine code (`make native`).

The IR has to be read by every LLVM that a supported llvmlite brings, and LLVM reads what older ones wrote: so a clang and an opt of
LLVM 14, the oldest that write pointers without types, make it (Debian 12 has them: `apt install clang-14 llvm-14`). Whatever
would tie it to a machine or is of no use to LLVM afterwards is taken out.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent.parent / "planish" / "runtime" / "native"
UNITS: Final = ("support", "gpu", "standalone", "collectives")
"""What each file of IR is made of: the C of that name, with what it includes."""
ELSEWHERE: Final = {"standalone": FOLDER.parent / "standalone", "collectives": FOLDER.parent / "collectives"}
"""Where the C is that runs compiled models without Python, and what only those need whose programs run on several ranks."""
OBJECT: Final = FOLDER / "support.o"
"""What every process needs, ready to be loaded."""
VERSION: Final = "14"
_CLANG: Final = (
    *("-O1", "-Xclang", "-disable-llvm-passes", "-Xclang", "-disable-lifetime-markers", "-S", "-emit-llvm"),
    *("-Xclang", "-opaque-pointers", "-mllvm", "-opaque-pointers", "--target=x86_64-linux-gnu", "-fPIC"),
    *("-ffreestanding", "-fno-strict-aliasing", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    *("-Xclang", "-fallow-half-arguments-and-returns", "-Xclang", "-fnative-half-arguments-and-returns"),
    *("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
)
# Named one by one: the loop passes of LLVM 14 do not survive pointers without types.
_TIDY: Final = (
    "sroa,early-cse,jump-threading,instcombine,simplifycfg,gvn,jump-threading,instcombine,simplifycfg"
)
_PASSES: Final = f"function(sroa,early-cse,simplifycfg),cgscc(inline,function({_TIDY})),globalopt,globaldce"
_LINES: Final = re.compile(r"^(?:; |source_filename|target |attributes |!).*\n|^\n", re.MULTILINE)
_WORDS: Final = re.compile(
    r"(?:, ![a-z.]+ !\d+| +; preds = .*| #\d+| local_unnamed_addr| unnamed_addr"
    r"| (?:noundef|nocapture|nonnull|noalias|readonly|readnone|writeonly|immarg|dereferenceable\(\d+\))(?=[ ,)]))"
)


def folder(unit: str) -> Path:
    """Where a unit is."""
    return ELSEWHERE.get(unit, FOLDER)


def fingerprint(unit: str = "support") -> str:
    """What the C of a unit is."""
    sources = sorted(folder(unit).glob("*.[ch]"))
    if unit == "standalone":
        sources += [FOLDER / name for name in ("half.c", "pool.c", "system.h")]
    if unit == "collectives":
        sources.append(FOLDER / "system.h")
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()


def tool(name: str) -> str | None:
    """A program of LLVM in the version that is asked for; None if this machine has none."""
    for candidate in (f"{name}-{VERSION}", name):
        path = shutil.which(candidate)
        if path is not None:
            told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            if re.search(rf"version {VERSION}\.", told):
                return path
    return None


def ir_path(unit: str) -> Path:
    """Where the IR of a unit is."""
    return folder(unit) / f"{unit}.ll"


def compiled(clang: str, opt: str, unit: str) -> str:
    """The IR of the C, as the package has it."""
    first = subprocess.run(
        [clang, *_CLANG, "-o", "-", folder(unit) / f"{unit}.c"], check=True, capture_output=True, text=True
    ).stdout
    raw = subprocess.run(
        [opt, "-opaque-pointers", "-S", f"-passes={_PASSES}"],
        check=True, capture_output=True, text=True, input=first,
    ).stdout  # fmt: skip
    text = _WORDS.sub("", _LINES.sub("", raw))
    # nothing here unwinds: no tables for it
    text = re.sub(r"^(define .*) \{$", r"\1 nounwind {", text, flags=re.MULTILINE)
    return f"; made by `make native` from the C beside this\n; sha256 {fingerprint(unit)}\n{text}"


def object_code(ir: str) -> bytes:
    """The IR as machine code for any x86-64, by the LLVM of llvmlite, whose version stands behind it."""
    import llvmlite.binding as llvm

    from planish.runtime import cpu, native

    code = cpu.emit_object(ir, cpu.Processor("x86_64-unknown-linux-gnu", "x86-64"))
    version = ".".join(map(str, llvm.llvm_version_info))
    return code + f"\nLLVM {version} of {native.digest(ir)}\n".encode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the IR and its machine code, or say whether the IR is what the C makes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument(
        "--object", action="store_true", help="of the IR that is there, write the machine code alone"
    )
    args = parser.parse_args(arguments)
    if args.object:
        OBJECT.write_bytes(object_code(ir_path("support").read_text()))
        return 0
    clang, opt = tool("clang"), tool("opt")
    if clang is None or opt is None:
        print(f"this takes clang and opt of LLVM {VERSION}", file=sys.stderr)
        return 2
    texts = {unit: compiled(clang, opt, unit) for unit in UNITS}
    if args.check:
        return int(any(ir_path(unit).read_text() != text for unit, text in texts.items()))
    for unit, text in texts.items():
        ir_path(unit).write_text(text)
    OBJECT.write_bytes(object_code(texts["support"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
