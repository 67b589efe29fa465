"""Blocks that the networks of `onnx_exports_programs.py` are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Convolution(nn.Sequential):
    """A convolution, its norm and its activation."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        act: type[nn.Module] | None = nn.ReLU,
    ) -> None:
        layers = [
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([act()] if act else []))


class Separable(nn.Sequential):
    """A depthwise convolution and one of 1×1 (MobileNet's first block, and that of keyword spotters)."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            Convolution(inputs, inputs, kernel, stride=stride, groups=inputs), Convolution(inputs, outputs, 1)
        )


class SqueezeExcite(nn.Module):
    """Channels weighed by what the whole picture says of them."""

    def __init__(self, channels: int, reduced: int = 4) -> None:
        super().__init__()
        self.down, self.up = (
            nn.Conv2d(channels, channels // reduced, 1),
            nn.Conv2d(channels // reduced, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        weights = self.up(functional.relu(self.down(functional.adaptive_avg_pool2d(x, 1))))
        return x * torch.sigmoid(weights)


class Inverted(nn.Module):
    """Wider, depthwise, narrower again (MobileNet's second block; with excitation its third, and EfficientNet's)."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        expand: int,
        *,
        act: type[nn.Module],
        excite: bool = False,
        kernel: int = 3,
    ) -> None:
        super().__init__()
        inner = inputs * expand
        layers: list[nn.Module] = [Convolution(inputs, inner, 1, act=act)] if expand > 1 else []
        layers.append(Convolution(inner, inner, kernel, stride=stride, groups=inner, act=act))
        layers += [SqueezeExcite(inner)] if excite else []
        self.body = nn.Sequential(*layers, Convolution(inner, outputs, 1, act=None))
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.skips else y


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, *, norm: bool = True, along: int = 2
    ) -> None:
        super().__init__()
        conv, batch = (nn.Conv1d, nn.BatchNorm1d) if along == 1 else (nn.Conv2d, nn.BatchNorm2d)
        self.first = conv(inputs, outputs, kernel, stride, kernel // 2)
        self.second = conv(outputs, outputs, kernel, 1, kernel // 2)
        self.norms = nn.ModuleList([batch(outputs) if norm else nn.Identity() for _ in range(2)])
        self.short = nn.Identity() if stride == 1 and inputs == outputs else conv(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.short(x) + self.norms[1](self.second(y)))


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, groups: int) -> None:
        super().__init__()
        inner = outputs // 2
        self.body = nn.Sequential(
            Convolution(inputs, inner, 1),
            Convolution(inner, inner, 3, stride=stride, groups=groups),
            Convolution(inner, outputs, 1, act=None),
        )
        same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if same else Convolution(inputs, outputs, 1, stride=stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.short(x))


def basic(inputs: int, outputs: int, stride: int, groups: int) -> nn.Module:
    """A bottleneck whose middle has groups (ResNeXt)."""
    return _Bottleneck(inputs, outputs, stride, groups)


class Gated(nn.Module):
    """WaveNet's layer: a dilated convolution, half of which gates the other."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.both = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.both(x).chunk(2, 1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class ChannelShuffle(nn.Module):
    """ShuffleNet's unit: one half of the channels goes by, then both are shuffled."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half, self.stride = outputs // 2, stride
        entering = inputs if stride > 1 else half
        self.right = nn.Sequential(
            Convolution(entering, half, 1),
            Convolution(half, half, 3, stride=stride, groups=half, act=None),
            Convolution(half, half, 1),
        )
        self.left = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(
                Convolution(inputs, inputs, 3, stride=stride, groups=inputs, act=None),
                Convolution(inputs, half, 1),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x, x) if self.stride > 1 else x.chunk(2, 1)
        y = torch.cat([self.left(left), self.right(right)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class _Ghost(nn.Module):
    """Half of the channels by a product, the other by depthwise convolutions of these."""

    def __init__(self, inputs: int, outputs: int, act: type[nn.Module] | None) -> None:
        super().__init__()
        self.main = Convolution(inputs, outputs // 2, 1, act=act)
        self.cheap = Convolution(outputs // 2, outputs // 2, 3, groups=outputs // 2, act=act)

    def forward(self, x: Tensor) -> Tensor:
        y = self.main(x)
        return torch.cat([y, self.cheap(y)], 1)


class GhostBlock(nn.Sequential):
    """GhostNet's bottleneck."""

    def __init__(self, inputs: int, inner: int, outputs: int, stride: int) -> None:
        middle = [Convolution(inner, inner, 3, stride=stride, groups=inner, act=None)] if stride > 1 else []
        super().__init__(
            _Ghost(inputs, inner, nn.ReLU), *middle, SqueezeExcite(inner), _Ghost(inner, outputs, None)
        )


class _Both(nn.Module):
    """What several modules make of the same, side by side."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], 1)


def fire(inputs: int, squeeze: int, expand: int) -> nn.Module:
    """SqueezeNet's module."""
    wide = _Both(nn.Conv2d(squeeze, expand, 1), nn.Conv2d(squeeze, expand, 3, padding=1))
    return nn.Sequential(nn.Conv2d(inputs, squeeze, 1), nn.ReLU(), wide, nn.ReLU())


def dense_block(inputs: int, growth: int, layers: int) -> nn.Module:
    """DenseNet's block: each layer reads all before it."""
    parts = []
    for i in range(layers):
        size = inputs + i * growth
        layer = nn.Sequential(
            nn.BatchNorm2d(size),
            nn.ReLU(),
            Convolution(size, 4 * growth, 1),
            nn.Conv2d(4 * growth, growth, 3, padding=1),
        )
        parts.append(_Both(nn.Identity(), layer))
    return nn.Sequential(*parts)


class _ChannelNorm(nn.Module):
    """Layer norm over channels of a picture."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)  # type: ignore[no-any-return]


class NextBlock(nn.Module):
    """ConvNeXt's block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(functional.gelu(self.wide(y))).permute(0, 3, 1, 2)  # type: ignore[no-any-return]


def downsample(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(_ChannelNorm(inputs), nn.Conv2d(inputs, outputs, 2, 2))


class UNet(nn.Module):
    """Three levels down and up again, each beside what was there before."""

    def __init__(self, width: int, transposed: bool = False) -> None:
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList()
        inputs = 3 if not transposed else 1
        for size in sizes:
            self.down.append(nn.Sequential(Convolution(inputs, size, 3), Convolution(size, size, 3)))
            inputs = size
        self.rise, self.up = nn.ModuleList(), nn.ModuleList()
        for size in reversed(sizes[:-1]):
            bigger = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.rise.append(nn.ConvTranspose2d(2 * size, 2 * size, 2, 2) if transposed else bigger)
            self.up.append(Convolution(3 * size, size, 3))
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for number, level in enumerate(self.down):
            x = level(functional.max_pool2d(x, 2) if number else x)
            kept.append(x)
        for rise, level, beside in zip(self.rise, self.up, reversed(kept[:-1]), strict=True):
            x = level(torch.cat([rise(x), beside], 1))
        return self.last(x)  # type: ignore[no-any-return]


class Detector(nn.Module):
    """A backbone of three strides and heads for boxes and classes on two of them, decoded."""

    def __init__(self, width: int, separable: bool = False, anchors: int = 3, classes: int = 4) -> None:
        super().__init__()
        conv = Separable if separable else None
        act = nn.LeakyReLU if not separable else nn.ReLU

        def layer(inputs: int, outputs: int, stride: int) -> nn.Module:
            return (
                conv(inputs, outputs, 3, stride)
                if conv
                else Convolution(inputs, outputs, 3, stride=stride, act=act)
            )

        self.stem = nn.Sequential(
            Convolution(3, width, 3, stride=2, act=act),
            layer(width, 2 * width, 2),
            layer(2 * width, 4 * width, 2),
        )
        self.middle, self.deep = layer(4 * width, 8 * width, 2), layer(8 * width, 8 * width, 2)
        self.lateral = Convolution(8 * width, 8 * width, 1, act=act)
        self.heads = nn.ModuleList([nn.Conv2d(8 * width, anchors * (5 + classes), 1) for _ in range(2)])
        self.each = 5 + classes

    def forward(self, x: Tensor) -> Tensor:
        middle = self.middle(self.stem(x))
        deep = self.deep(middle)
        middle = middle + functional.interpolate(self.lateral(deep), scale_factor=2.0)
        boxes = []
        for head, y in zip(self.heads, (middle, deep), strict=True):
            z = torch.sigmoid(head(y))
            n, _, h, w = z.shape
            boxes.append(z.view(n, -1, self.each, h, w).permute(0, 1, 3, 4, 2).reshape(n, -1, self.each))
        z = torch.cat(boxes, 1)
        return torch.cat([z[..., :2] * 2 - 0.5, (z[..., 2:4] * 2) ** 2, z[..., 4:]], -1)


def recurrent(
    kind: type[nn.RNNBase], inputs: int, hidden: int, layers: int = 1, both: bool = True
) -> nn.Module:
    """A recurrent layer, of which the outputs are kept."""
    return _Outputs(kind(inputs, hidden, layers, batch_first=True, bidirectional=both))  # type: ignore[call-arg]


class _Outputs(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]  # type: ignore[no-any-return]


class Crnn(nn.Module):
    """Reads a line of text: convolutions, then a recurrent layer along the width."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            Convolution(1, 32, 3), nn.MaxPool2d(2), Convolution(32, 64, 3), nn.MaxPool2d(2), Convolution(64, 96, 3),
            nn.MaxPool2d((2, 1)), Convolution(96, 96, 3), nn.MaxPool2d((4, 1)),
        )  # fmt: skip
        self.reader, self.last = recurrent(kind, 96, 96), nn.Linear(192, 80)

    def forward(self, x: Tensor) -> Tensor:
        return functional.log_softmax(self.last(self.reader(self.body(x).squeeze(2).transpose(1, 2))), -1)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))  # type: ignore[no-any-return]


class TransformerEncoder(nn.Module):
    """Layers of attention and two products, norms first."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(width), _Attention(width, heads)) for _ in range(layers)]
        )
        wide = [
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )
            for _ in range(layers)
        ]
        self.products = nn.ModuleList(wide)

    def forward(self, x: Tensor) -> Tensor:
        for attention, product in zip(self.attentions, self.products, strict=True):
            x = x + attention(x)
            x = x + product(x)
        return x


class AttentionPool(nn.Module):
    """A mean over tokens, weighed by one product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (torch.softmax(self.score(x), 1) * x).sum(1)


class Mixer(nn.Module):
    """MLP-Mixer: products over patches and over channels in turn."""

    def __init__(self, patches: int, width: int, layers: int) -> None:
        super().__init__()

        def products(size: int, inner: int) -> nn.Module:
            return nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))

        self.first = nn.Conv2d(3, width, 8, 8)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * layers)])
        self.tokens = nn.ModuleList([products(patches, 2 * patches) for _ in range(layers)])
        self.channels = nn.ModuleList([products(width, 4 * width) for _ in range(layers)])
        self.last = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).flatten(2).transpose(1, 2)
        for number, (tokens, channels) in enumerate(zip(self.tokens, self.channels, strict=True)):
            x = x + tokens(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * number + 1](x))
        return self.last(x.mean(1))  # type: ignore[no-any-return]


class Stft(nn.Module):
    """Magnitudes of a spectrogram as convolutions with waves, as exporters without STFT write it."""

    def __init__(self, size: int, hop: int) -> None:
        super().__init__()
        angles = torch.arange(size)[None] * torch.arange(0, size // 2 + 1)[:, None] * (2 * torch.pi / size)
        window = torch.hann_window(size)
        self.register_buffer(
            "waves", torch.cat([torch.cos(angles) * window, torch.sin(angles) * window])[:, None]
        )
        self.hop = hop

    def forward(self, x: Tensor) -> Tensor:
        both = functional.conv1d(x[:, None], self.waves, stride=self.hop)  # type: ignore[arg-type]
        real, imaginary = both.chunk(2, 1)
        return torch.log(real**2 + imaginary**2 + 1e-3)[:, None]
