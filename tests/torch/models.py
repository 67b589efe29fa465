"""Small models of the families people use, written with torch.nn alone."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Heads over one projection, as GPT-2, BERT and ViT have them."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.project(x).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a perceptron, each with a norm before and a sum after."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """GPT-2: learned positions, causal blocks, logits by the embedding's transpose."""

    def __init__(self, vocabulary: int = 101, width: int = 32, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads, True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


class BERT(nn.Module):
    """An encoder with segments, a padding mask and norms after the sums."""

    def __init__(self, vocabulary: int = 101, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.token, self.kind = nn.Embedding(vocabulary, width, padding_idx=0), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.layer = nn.TransformerEncoderLayer(
            width, heads, 64, dropout=0.0, activation="gelu", batch_first=True
        )
        self.pool = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.token(tokens) + self.kind(kinds))
        mask = torch.zeros(tokens.shape).masked_fill(tokens == 0, -1e9)
        q = x.unflatten(-1, (4, -1)).transpose(1, 2)
        y = functional.scaled_dot_product_attention(q, q, q, attn_mask=mask[:, None, None, :])
        x = self.layer(x + y.transpose(1, 2).flatten(2))
        return torch.tanh(self.pool(x[:, 0]))


class Llama(nn.Module):
    """RMS norms, rotary places, grouped heads, a gated perceptron."""

    def __init__(self, vocabulary: int = 101, width: int = 32, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.depth = heads, groups, width // heads
        self.token = nn.Embedding(vocabulary, width)
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.depth, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        half = self.depth // 2
        rate = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * rate
        cos, sin = angle.cos(), angle.sin()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens)
        y = self.norm1(x)
        q = self.rotate(self.q(y).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        k = self.rotate(self.k(y).unflatten(-1, (self.groups, -1)).transpose(1, 2))
        v = self.v(y).unflatten(-1, (self.groups, -1)).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(self.depth)
        seen = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        shares = scores.masked_fill(~seen, float("-inf")).softmax(-1)
        x = x + self.o((shares @ v).transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return (x + self.down(functional.silu(self.gate(y)) * self.up(y))) @ self.token.weight.T


class ViT(nn.Module):
    """Patches by a convolution, a class token, an encoder."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 17, width))
        self.block = Block(width, 4, False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.block(x)[:, 0])


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """A stem with a maximum pool, two blocks, a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(functional.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


class ConvNeXt(nn.Module):
    """Depthwise convolution, norm over channels last, a wide perceptron, a scale per channel."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return self.head((x + y.permute(0, 3, 1, 2)).mean((2, 3)))


class Whisper(nn.Module):
    """Convolutions over time, an encoder, a decoder that looks at it."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(8, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.encoder = Block(width, 4, False)
        self.token = nn.Embedding(51, width)
        self.decoder = Block(width, 4, True)
        self.cross = nn.MultiheadAttention(width, 4, batch_first=True)

    def forward(self, sound: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(sound)))).transpose(1, 2)
        memory = self.encoder(x)
        y = self.decoder(self.token(tokens))
        y = y + self.cross(y, memory, memory, need_weights=False)[0]
        return y @ self.token.weight.T


class Recurrent(nn.Module):
    """An LSTM cell and a GRU cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTMCell(8, 16), nn.GRUCell(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = g = torch.zeros(x.shape[0], 16)
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
        return g


def tokens(batch: int = 2, length: int = 16, size: int = 101) -> torch.Tensor:
    return torch.randint(0, size, (batch, length))


MODELS = {
    "gpt": lambda: (GPT(), (tokens(),)),
    "bert": lambda: (BERT(), (tokens(), torch.randint(0, 2, (2, 16)))),
    "llama": lambda: (Llama(), (tokens(),)),
    "vit": lambda: (ViT(), (torch.randn(2, 3, 16, 16),)),
    "resnet": lambda: (ResNet(), (torch.randn(2, 3, 32, 32),)),
    "convnext": lambda: (ConvNeXt(), (torch.randn(2, 3, 32, 32),)),
    "whisper": lambda: (Whisper(), (torch.randn(2, 8, 20), tokens(2, 6, 51))),
    "recurrent": lambda: (Recurrent(), (torch.randn(2, 3, 8),)),
}
"""By name: a module and its inputs."""
