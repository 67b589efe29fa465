"""Networks as torch exports them, of many families, small enough to be timed in a minute each; weights are random.

`EXPORTS` names them. Each is written with torch's exporter (without its newer one, which needs a package of its own) and then, as its form
says, turned into half precision or quantised by onnxruntime's own tools.
"""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from onnx_exports_layers import (
    AttentionPool,
    ChannelShuffle,
    Convolution,
    Crnn,
    Detector,
    Function,
    Gated,
    GhostBlock,
    Inverted,
    Mixer,
    NextBlock,
    Residual,
    Separable,
    SqueezeExcite,
    Stft,
    TransformerEncoder,
    UNet,
    basic,
    dense_block,
    downsample,
    fire,
    recurrent,
)
from torch import nn

Form = Literal["float", "half", "qdq", "operators", "dynamic"]


@dataclass(frozen=True, slots=True)
class Export:
    """A network, what it is fed, and in which form it is exported."""

    name: str
    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    form: Form = "float"
    tokens: int = 0
    """How many words there are, if it is fed with numbers of words."""

    def feeds(self) -> list[torch.Tensor]:
        torch.manual_seed(1)
        if self.tokens:
            return [torch.randint(self.tokens, shape) for shape in self.shapes]
        return [torch.randn(shape) for shape in self.shapes]

    def data(self) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
        """The model's bytes and its inputs."""
        torch.manual_seed(0)
        module, feeds = self.build().eval(), self.feeds()
        _settle(module)
        if self.form == "half":
            module, feeds = module.half(), [x.half() if x.is_floating_point() else x for x in feeds]
        names = [f"x{i}" for i in range(len(feeds))]
        written = io.BytesIO()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, tuple(feeds), written, input_names=names, opset_version=17, dynamo=False
            )
        arrays = {name: x.numpy() for name, x in zip(names, feeds, strict=True)}
        return _quantised(written.getvalue(), arrays, self.form), arrays


def _settle(module: nn.Module) -> None:
    """Norms that have seen data: means and variances are not 0 and 1."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d | nn.BatchNorm1d):
            nn.init.normal_(each.running_mean, 0.0, 0.1)  # type: ignore[arg-type]
            nn.init.uniform_(each.running_var, 0.8, 1.2)  # type: ignore[arg-type]


def _quantised(data: bytes, feeds: dict[str, np.ndarray[Any, Any]], form: Form) -> bytes:
    if form in ("float", "half"):
        return data
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantFormat,
        quantize_dynamic,
        quantize_static,
    )

    class Once(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = [feeds]

        def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "float.onnx"), Path(folder, "bytes.onnx")
        before.write_bytes(data)
        if form == "dynamic":
            quantize_dynamic(before, after)
        else:
            written = QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator
            quantize_static(before, after, Once(), quant_format=written)
        return after.read_bytes()


def keyword_spotter(channels: int = 64, blocks: int = 4) -> nn.Module:
    first = [nn.Conv2d(1, channels, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    body = [Separable(channels, channels, 3) for _ in range(blocks)]
    return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 12))


def wake_word() -> nn.Module:
    layers = [
        Convolution(1, 24, 3, stride=2),
        Convolution(24, 32, 3),
        nn.MaxPool2d(2),
        Convolution(32, 48, 3),
    ]
    return nn.Sequential(
        *layers,
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48 * 9 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 1),
        nn.Sigmoid(),
    )


def temporal_residual() -> nn.Module:
    """TC-ResNet: a keyword spotter of convolutions along time."""
    layers = [nn.Conv1d(40, 16, 3, padding=1, bias=False)]
    for inputs, outputs in ((16, 24), (24, 32), (32, 48)):
        layers.append(Residual(inputs, outputs, 9, 2, along=1))  # type: ignore[arg-type]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(48, 12))


def wavenet(channels: int = 32, layers: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(1, channels, 1), *[Gated(channels, 2**i) for i in range(layers)], nn.Conv1d(channels, 64, 1)
    )


def tcn() -> nn.Module:
    body: list[nn.Module] = [nn.Conv1d(64, 96, 1)]
    for i in range(6):
        body += [
            nn.Conv1d(96, 96, 3, padding=2**i, dilation=2**i, groups=96),
            nn.PReLU(),
            nn.GroupNorm(1, 96),
            nn.Conv1d(96, 96, 1),
        ]
    return nn.Sequential(*body, nn.Conv1d(96, 64, 1), nn.Sigmoid())


def super_resolution(factor: int = 2) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(),
        nn.Conv2d(32, factor**2, 3, padding=1), nn.PixelShuffle(factor),
    )  # fmt: skip


def residual_super_resolution() -> nn.Module:
    blocks = [Residual(32, 32, 3, 1, norm=False) for _ in range(4)]
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), *blocks, nn.Conv2d(32, 48, 3, padding=1), nn.PixelShuffle(4)
    )


def mobilenet(
    width: int = 16, act: type[nn.Module] = nn.ReLU6, excite: bool = False, kernel: int = 3
) -> nn.Module:
    sizes = [
        (width, 1, 1),
        (width * 2, 2, 4),
        (width * 2, 1, 4),
        (width * 4, 2, 4),
        (width * 4, 1, 4),
        (width * 6, 2, 4),
    ]
    layers: list[nn.Module] = [Convolution(3, width, 3, stride=2, act=act)]
    inputs = width
    for outputs, stride, expand in sizes:
        layers.append(Inverted(inputs, outputs, stride, expand, act=act, excite=excite, kernel=kernel))
        inputs = outputs
    head = [
        Convolution(inputs, inputs * 4, 1, act=act),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inputs * 4, 100),
    ]
    return nn.Sequential(*layers, *head)


def mobilenet_v1() -> nn.Module:
    layers: list[nn.Module] = [Convolution(3, 32, 3, stride=2)]
    for inputs, outputs, stride in (
        (32, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
        (256, 512, 2),
        (512, 512, 1),
    ):
        layers.append(Separable(inputs, outputs, 3, stride))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100))


def resnet(widths: tuple[int, ...] = (64, 128, 256, 512), blocks: int = 2, classes: int = 100) -> nn.Module:
    layers: list[nn.Module] = [Convolution(3, widths[0], 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    inputs = widths[0]
    for number, outputs in enumerate(widths):
        for block in range(blocks):
            layers.append(Residual(inputs, outputs, 3, 2 if number and not block else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def resnext() -> nn.Module:
    layers: list[nn.Module] = [Convolution(3, 32, 3, stride=2)]
    for inputs, outputs, stride in ((32, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)):
        layers.append(basic(inputs, outputs, stride, groups=16))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100))


def shufflenet() -> nn.Module:
    layers: list[nn.Module] = [Convolution(3, 24, 3, stride=2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for outputs in (96, 192):
        layers.append(ChannelShuffle(inputs, outputs, 2))
        layers += [ChannelShuffle(outputs, outputs, 1) for _ in range(2)]
        inputs = outputs
    return nn.Sequential(
        *layers, Convolution(inputs, 256, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100)
    )


def ghostnet() -> nn.Module:
    blocks = [
        GhostBlock(16, 32, 24, 2),
        GhostBlock(24, 72, 40, 2),
        GhostBlock(40, 120, 40, 1),
        GhostBlock(40, 160, 80, 2),
    ]
    return nn.Sequential(
        Convolution(3, 16, 3, stride=2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 100)
    )


def squeezenet() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    layers += [
        fire(64, 16, 64),
        fire(128, 16, 64),
        nn.MaxPool2d(3, 2),
        fire(128, 32, 128),
        fire(256, 48, 192),
    ]
    return nn.Sequential(*layers, nn.Conv2d(384, 100, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def densenet() -> nn.Module:
    layers = [
        Convolution(3, 32, 3, stride=2),
        dense_block(32, 16, 4),
        Convolution(96, 48, 1),
        nn.AvgPool2d(2),
    ]
    return nn.Sequential(
        *layers, dense_block(48, 16, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(112, 100)
    )


def convnext(width: int = 48) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4)]
    for number in range(3):
        size = width << number
        layers += [NextBlock(size), NextBlock(size)]
        if number < 2:
            layers += [downsample(size, 2 * size)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width * 4, 100))


def group_norm_net() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1)]
    for inputs, outputs in ((32, 64), (64, 96), (96, 128)):
        layers += [nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, 2, 1)]
    return nn.Sequential(
        *layers, nn.GroupNorm(8, 128), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    )


def instance_norm_style() -> nn.Module:
    def layer(inputs: int, outputs: int, kernel: int, stride: int) -> list[nn.Module]:
        return [
            nn.ReflectionPad2d(kernel // 2),
            nn.Conv2d(inputs, outputs, kernel, stride),
            nn.InstanceNorm2d(outputs, affine=True),
            nn.ReLU(),
        ]

    down = layer(3, 16, 9, 1) + layer(16, 32, 3, 2) + layer(32, 64, 3, 2)
    up = [
        nn.Upsample(scale_factor=2),
        *layer(64, 32, 3, 1),
        nn.Upsample(scale_factor=2),
        *layer(32, 16, 3, 1),
    ]
    return nn.Sequential(*down, *up, nn.Conv2d(16, 3, 9, padding=4))


def autoencoder() -> nn.Module:
    down = [
        nn.Conv2d(1, 16, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 7),
        nn.ReLU(),
    ]
    up = [
        nn.ConvTranspose2d(64, 32, 7),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 3, 2, 1, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 3, 2, 1, 1),
    ]
    return nn.Sequential(*down, *up, nn.Sigmoid())


def generator() -> nn.Module:
    """DCGAN's: transposed convolutions from a vector to a picture."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 256, 4, 1, 0), nn.BatchNorm2d(256), nn.ReLU()]
    for inputs, outputs in ((256, 128), (128, 64), (64, 32)):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh())


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10),
    )  # fmt: skip


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128), (128, 128)):
        layers += [Convolution(inputs, outputs, 3), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 100))


def speech_recurrent(kind: type[nn.RNNBase]) -> nn.Module:
    return nn.Sequential(recurrent(kind, 40, 64, layers=2), nn.Linear(128, 29), nn.LogSoftmax(-1))


def noise_suppressor() -> nn.Module:
    return nn.Sequential(
        nn.Linear(42, 48), nn.Tanh(), recurrent(nn.GRU, 48, 96, both=False), nn.Linear(96, 22), nn.Sigmoid()
    )


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10), nn.Softmax(-1)
    )


def language_model(layers: int = 2) -> nn.Module:
    return nn.Sequential(nn.Embedding(1000, 128), TransformerEncoder(128, 4, layers), nn.Linear(128, 1000))


def vision_transformer() -> nn.Module:
    patches = Function(lambda x: x.flatten(2).transpose(1, 2))
    return nn.Sequential(
        nn.Conv2d(3, 192, 16, 16),
        patches,
        TransformerEncoder(192, 3, 4),
        AttentionPool(192),
        nn.Linear(192, 100),
    )


def efficientnet_block() -> nn.Module:
    return nn.Sequential(*[Inverted(40, 40, 1, 6, act=nn.SiLU, excite=True, kernel=5) for _ in range(3)])


def excitation() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(32, 64, 3, padding=1),
        SqueezeExcite(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        SqueezeExcite(64),
    )


def spectrogram() -> nn.Module:
    return nn.Sequential(
        Stft(400, 160),
        Convolution(1, 16, 3, stride=2),
        Convolution(16, 32, 3, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


EXPORTS = [
    Export("keyword-spotter", keyword_spotter, ((1, 1, 49, 40),)),
    Export("keyword-spotter-4", keyword_spotter, ((4, 1, 49, 40),)),
    Export("keyword-spotter-wide", lambda: keyword_spotter(172, 4), ((1, 1, 49, 40),)),
    Export("keyword-tc-resnet", temporal_residual, ((1, 40, 98),)),
    Export("wake-word", wake_word, ((1, 1, 76, 32),)),
    Export("wavenet", wavenet, ((1, 1, 1024),)),
    Export("tcn-separator", tcn, ((1, 64, 400),)),
    Export("crnn-lstm", lambda: Crnn(nn.LSTM), ((1, 1, 32, 128),)),
    Export("crnn-gru-4", lambda: Crnn(nn.GRU), ((4, 1, 32, 96),)),
    Export("speech-lstm", lambda: speech_recurrent(nn.LSTM), ((1, 100, 40),)),
    Export("speech-gru-4", lambda: speech_recurrent(nn.GRU), ((4, 60, 40),)),
    Export("noise-gru", noise_suppressor, ((1, 20, 42),)),
    Export("spectrogram-cnn", spectrogram, ((1, 8000),)),
    Export("super-resolution", super_resolution, ((1, 1, 96, 96),)),
    Export("super-resolution-edsr", residual_super_resolution, ((1, 3, 48, 48),)),
    Export("unet", lambda: UNet(16), ((1, 3, 128, 128),)),
    Export("unet-transposed-4", lambda: UNet(8, transposed=True), ((4, 1, 64, 64),)),
    Export("style-transfer", instance_norm_style, ((1, 3, 96, 96),)),
    Export("autoencoder", autoencoder, ((1, 1, 28, 28),)),
    Export("generator", generator, ((1, 100, 1, 1),)),
    Export("detector-anchors", lambda: Detector(16), ((1, 3, 160, 160),)),
    Export("detector-light", lambda: Detector(8, separable=True), ((1, 3, 192, 192),)),
    Export("mobilenet-v1", mobilenet_v1, ((1, 3, 128, 128),)),
    Export("mobilenet-v2", mobilenet, ((1, 3, 128, 128),)),
    Export("mobilenet-v2-4", mobilenet, ((4, 3, 96, 96),)),
    Export("mobilenet-v3", lambda: mobilenet(act=nn.Hardswish, excite=True, kernel=5), ((1, 3, 128, 128),)),
    Export("efficientnet", lambda: mobilenet(24, nn.SiLU, True), ((1, 3, 128, 128),)),
    Export("efficientnet-blocks", efficientnet_block, ((1, 40, 28, 28),)),
    Export("squeeze-excite", excitation, ((1, 32, 32, 32),)),
    Export("resnet-cifar-4", lambda: resnet((16, 32, 64), 2, 10), ((4, 3, 64, 64),)),
    Export("resnet", resnet, ((1, 3, 96, 96),)),
    Export("resnext", resnext, ((1, 3, 96, 96),)),
    Export("shufflenet", shufflenet, ((1, 3, 128, 128),)),
    Export("ghostnet", ghostnet, ((1, 3, 128, 128),)),
    Export("squeezenet", squeezenet, ((1, 3, 128, 128),)),
    Export("densenet", densenet, ((1, 3, 64, 64),)),
    Export("convnext", convnext, ((1, 3, 96, 96),)),
    Export("group-norm", group_norm_net, ((1, 3, 96, 96),)),
    Export("group-norm-4", group_norm_net, ((4, 3, 64, 64),)),
    Export("lenet", lenet, ((1, 1, 28, 28),)),
    Export("vgg", vgg, ((1, 3, 64, 64),)),
    Export("perceptron", perceptron, ((1, 64),)),
    Export("perceptron-4", perceptron, ((4, 64),)),
    Export("mlp-mixer", lambda: Mixer(64, 128, 4), ((1, 3, 64, 64),)),
    Export("mlp-mixer-4", lambda: Mixer(64, 128, 4), ((4, 3, 64, 64),)),
    Export("transformer-32", language_model, ((1, 32),), tokens=1000),
    Export("transformer-4x16", language_model, ((4, 16),), tokens=1000),
    Export("vision-transformer", vision_transformer, ((1, 3, 128, 128),)),
    Export("keyword-spotter-half", keyword_spotter, ((1, 1, 49, 40),), "half"),
    Export("mobilenet-v2-half", mobilenet, ((1, 3, 96, 96),), "half"),
    Export("transformer-half", language_model, ((1, 32),), "half", tokens=1000),
    Export("unet-half", lambda: UNet(16), ((1, 3, 96, 96),), "half"),
    Export("keyword-spotter-qdq", keyword_spotter, ((1, 1, 49, 40),), "qdq"),
    Export("mobilenet-v2-qdq", mobilenet, ((1, 3, 128, 128),), "qdq"),
    Export("resnet-qdq", lambda: resnet((32, 64, 128), 1), ((1, 3, 96, 96),), "qdq"),
    Export("unet-qdq", lambda: UNet(16), ((1, 3, 96, 96),), "qdq"),
    Export("mobilenet-v2-operators", mobilenet, ((1, 3, 128, 128),), "operators"),
    Export("resnet-dynamic", lambda: resnet((32, 64, 128), 1), ((1, 3, 64, 64),), "dynamic"),
    Export("transformer-dynamic", language_model, ((1, 32),), "dynamic", tokens=1000),
    Export("transformer-dynamic-4", language_model, ((4, 32),), "dynamic", tokens=1000),
    Export("speech-lstm-dynamic", lambda: speech_recurrent(nn.LSTM), ((1, 60, 40),), "dynamic"),
    Export("perceptron-qdq-4", perceptron, ((4, 64),), "qdq"),
]  # fmt: skip
