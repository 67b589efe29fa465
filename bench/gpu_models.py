"""Models of PyTorch on one GPU, through `torch.compile(backend="planish")`, by the time of torch.compile's own backend.

    python bench/gpu_models.py [--only PATTERNS] [--dtype bf16] [--eager] [--profile] [--others]

Every row is measured in the same run, by events around back-to-back calls, the sides in turns, medians. Forward: what the model gives
without gradients; step: forward, a loss, and backward. Results are held against the same model in float64 by norm. `--others` takes
models of torchvision and transformers, with random weights, where those packages are installed.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
from torch import nn

import planish.torch

F = nn.functional


class Bottleneck(nn.Module):
    """The block of ResNet-50: 1 x 1, 3 x 3 and 1 x 1, with what was before added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Any) -> Any:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """ResNet-50 as everybody runs it."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        ]  # fmt: skip
        inputs = 64
        for count, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
            for number in range(count):
                layers.append(Bottleneck(inputs, width, 1 if number else stride))
                inputs = 4 * width
        self.features, self.head = nn.Sequential(*layers), nn.Linear(inputs, 1000)

    def forward(self, x: Any) -> Any:
        return self.head(self.features(x).mean((2, 3)))


class Attention(nn.Module):
    """Attention of several heads over one sequence."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        n, t, c = x.shape
        q, k, v = self.into(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, c))


class Layer(nn.Module):
    """A layer of a transformer that normalises first."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class GPT2(nn.Module):
    """GPT-2 small."""

    def __init__(self, vocabulary: int = 50257, length: int = 1024, width: int = 768) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, 12, True) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.layers(x)))


class ViT(nn.Module):
    """ViT-B/16."""

    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, width)),
            nn.Parameter(torch.zeros(1, 197, width)),
        )
        self.layers = nn.Sequential(*(Layer(width, 12, False) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def _images(count: int) -> Callable[[torch.dtype], Any]:
    return lambda dtype: torch.randn(count, 3, 224, 224, device="cuda").to(dtype)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.dtype], Any]]] = {
    "ResNet-50": (ResNet50, _images(64)),
    "ViT-B": (ViT, _images(64)),
    "GPT-2 small": (GPT2, lambda dtype: torch.randint(50257, (8, 1024), device="cuda")),
}


def _vision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import torchvision

        model: nn.Module = getattr(torchvision.models, name)(weights=None)
        return model

    return make


class Answer(nn.Module):
    """A model of transformers by its first result alone."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any) -> Any:
        return self.model(ids, use_cache=False)[0]


def _language(name: str, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**options)
        return Answer(getattr(transformers, f"{name}Model")(config))

    return make


def _tokens(count: int, length: int) -> Callable[[torch.dtype], Any]:
    return lambda dtype: torch.randint(1000, (count, length), device="cuda")


LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
OTHERS: dict[str, tuple[Callable[[], nn.Module], Callable[[torch.dtype], Any]]] = {
    **{
        name: (_vision(name), _images(64))
        for name in (
            "convnext_tiny", "swin_t", "efficientnet_b0", "mobilenet_v3_large", "regnet_y_1_6gf", "resnext50_32x4d", "densenet121", "vgg16",
            "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "googlenet",
        )
    },
    "BERT": (_language("Bert"), _tokens(16, 512)),
    "Llama, 4 layers": (_language("Llama", **LLAMA), _tokens(4, 1024)),
    "Qwen3, 4 layers": (_language("Qwen3", **LLAMA, head_dim=64), _tokens(4, 1024)),
    "DistilBERT": (_language("DistilBert"), _tokens(16, 512)),
}  # fmt: skip


def turns(calls: list[Callable[[], Any]], repeat: int = 5, rounds: int = 5) -> list[float]:
    """Milliseconds of each call, measured in turns, medians."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
        call()
    for _ in range(rounds):
        for number, call in enumerate(calls):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            for _ in range(repeat):
                call()
            end.record()
            end.synchronize()
            times[number].append(begin.elapsed_time(end) / repeat)
    return [statistics.median(each) for each in times]


def _answer(result: Any) -> Any:
    """What a model is for: GoogLeNet gives helpers beside it while it is trained."""
    return result[0] if isinstance(result, tuple) else result


def step(model: Callable[[Any], Any], parameters: list[Any], x: Any) -> Any:
    """Forward and backward; what is summed up has values of about one."""
    for each in parameters:
        each.grad = None
    loss = _answer(model(x)).float().square().mean()
    loss.backward()
    return loss.detach()


def profile(call: Callable[[], Any], most: int = 14) -> None:
    """The kernels that take longest."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recorded

    with recorded(activities=[ProfilerActivity.CUDA]) as recording:
        call()
        torch.cuda.synchronize()
    table = sorted(recording.key_averages(), key=lambda each: -each.device_time_total)
    for each in table[:most]:
        print(f"      {each.device_time_total / 1e3:8.3f} ms {each.count:4d} x {each.key[:90]}")
    total = sum(each.device_time_total for each in table) / 1e3
    print(f"      {total:8.3f} ms in {sum(each.count for each in table)} kernels", flush=True)


def measure(name: str, kind: str, dtype: torch.dtype, *, eager: bool, profiled: bool) -> float:
    make, data = (MODELS | OTHERS)[name]
    torch.manual_seed(0)
    model = make().cuda().to(dtype)
    model.train(kind == "step")
    x = data(dtype)
    sides = {"planish": planish.torch.compile(copy.deepcopy(model))}
    sides["eager" if eager else "torch.compile"] = (
        copy.deepcopy(model) if eager else torch.compile(copy.deepcopy(model))
    )
    calls, results, first = [], [], []
    for side in sides.values():
        weights = list(side.parameters())

        def call(side: Any = side, weights: list[Any] = weights) -> Any:
            if kind == "step":
                return step(side, weights, x)
            with torch.no_grad():
                return _answer(side(x))

        begun = time.perf_counter()
        results.append(call())
        torch.cuda.synchronize()
        first.append(time.perf_counter() - begun)
        calls.append(call)
    with torch.no_grad():
        exact_model = copy.deepcopy(model).double()
        given = x.double() if x.is_floating_point() else x
        exact = (
            _answer(exact_model(given)).square().mean() if kind == "step" else _answer(exact_model(given[:4]))
        )
        wrong = [
            float((r[: len(exact)] if r.ndim else r).double().sub(exact).norm() / exact.norm())
            for r in results
        ]
    ours, theirs = turns(calls)
    told = f"{name:12s} {kind:8s} planish {ours:8.3f} ms  {list(sides)[1]} {theirs:8.3f} ms  time {ours / theirs:5.2f}"
    print(
        f"{told}  error {wrong[0]:.1e} ({wrong[1]:.1e})  first {first[0]:.0f} s ({first[1]:.0f} s)",
        flush=True,
    )
    if profiled:
        for call in calls:
            profile(call)
    return ours / theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="", help="rows whose names have one of these patterns in them, between commas"
    )
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--eager", action="store_true", help="eager torch in place of torch.compile")
    parser.add_argument("--profile", action="store_true", help="the kernels that take longest")
    parser.add_argument(
        "--others", action="store_true", help="models of torchvision and transformers instead"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no GPU here: nothing was measured")
        return
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[args.dtype]
    torch.backends.cudnn.benchmark = True
    by_name: dict[str, float] = {}
    for name in OTHERS if args.others else MODELS:
        for kind in ("forward", "step"):
            if any(re.search(each, f"{name} {kind}") for each in args.only.split(",")):
                try:
                    by_name[f"{name} {kind}"] = measure(
                        name, kind, dtype, eager=args.eager, profiled=args.profile
                    )
                except Exception as problem:  # noqa: BLE001 - a row that fails is told, and the others go on
                    print(f"{name} {kind} FAILED {type(problem).__name__}: {str(problem)[:500]}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(by_name, indent=1))


if __name__ == "__main__":
    main()
