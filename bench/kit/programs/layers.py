"""Products of integers, convolutions, norms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as tf

import planish as pn
from planish.nn import functional as f

from .base import Program, bytes_, floats, model

PROGRAMS: dict[str, Program] = {}


# -- integers ----------------------------------------------------------------------------------------------------------


def _int8(m: int, k: int, n: int, *, unsigned: bool = False) -> Program:
    def exact(a: Any, b: Any) -> Any:
        if not unsigned and m > 16 and k % 8 == 0 and n % 8 == 0:
            return torch._int_mm(a, b)
        return a.to(torch.int32) @ b.to(torch.int32)

    def by_jax(a: Any, b: Any) -> Any:
        import jax

        return jax.lax.dot(a, b, preferred_element_type=np.int32)

    return Program(
        (bytes_(m, k, unsigned=unsigned), bytes_(k, n)),
        lambda a, b: pn.astype(a, pn.int32) @ pn.astype(b, pn.int32),
        exact,
        by_jax if not unsigned else None,
        lambda a, b: model([("MatMulInteger", "x b", "y", {})], a, {"b": b}),
    )


for sizes in (
    (64, 64, 64),
    (200, 300, 400),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (32, 1024, 4096),
    (1000, 500, 300),
):
    PROGRAMS["int8 " + "x".join(map(str, sizes))] = _int8(*sizes)
PROGRAMS["uint8xint8 512"] = _int8(512, 512, 512, unsigned=True)
PROGRAMS["int8 A Bt 512"] = Program(
    (bytes_(512, 512), bytes_(512, 512)),
    lambda a, b: pn.astype(a, pn.int32) @ pn.astype(b, pn.int32).mT,
    lambda a, b: torch._int_mm(a, b.T),
)
PROGRAMS["int8 dequantized 256x512x512"] = Program(
    (bytes_(256, 512), bytes_(512, 512), floats(512)),
    lambda a, b, s: pn.astype(pn.astype(a, pn.int32) @ pn.astype(b, pn.int32), pn.float32) * s,
    lambda a, b, s: torch._int_mm(a, b).to(s.dtype) * s,
)


# -- convolutions ------------------------------------------------------------------------------------------------------


def _conv(
    x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, padding: int = 0, groups: int = 1
) -> Program:
    def by_jax(a: Any, b: Any) -> Any:
        import jax

        space = len(x) - 2
        return jax.lax.conv_general_dilated(
            a, b, (stride,) * space, ((padding, padding),) * space, feature_group_count=groups
        )

    ours = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[len(x)]
    theirs = {3: tf.conv1d, 4: tf.conv2d, 5: tf.conv3d}[len(x)]
    space = len(x) - 2
    more = {"strides": [stride] * space, "pads": [padding] * 2 * space, "group": groups}
    return Program(
        (floats(*x), floats(*w, scale=0.1)),
        lambda a, b: ours(a, b, stride=stride, padding=padding, groups=groups),
        lambda a, b: theirs(a, b, None, stride, padding, 1, groups),
        by_jax,
        lambda a, b: model([("Conv", "x w", "y", more)], a, {"w": b}),
    )


for batch, channels, out, side in (
    (1, 64, 64, 14),
    (1, 256, 64, 14),
    (4, 64, 128, 7),
    (1, 512, 512, 7),
    (2, 128, 256, 28),
    (8, 32, 32, 8),
    (1, 16, 96, 32),
):
    PROGRAMS[f"conv 1x1 {batch}x{channels}->{out} {side}²"] = _conv(
        (batch, channels, side, side), (out, channels, 1, 1)
    )
PROGRAMS["conv 3x3 4x16->32 32²"] = _conv((4, 16, 32, 32), (32, 16, 3, 3), padding=1)
PROGRAMS["conv 3x3 1x512->512 7²"] = _conv((1, 512, 7, 7), (512, 512, 3, 3), padding=1)
PROGRAMS["conv 5x5 grouped"] = _conv((2, 64, 28, 28), (64, 16, 5, 5), padding=2, groups=4)
PROGRAMS["conv 1d 64->64 k 9"] = _conv((2, 64, 4000), (64, 64, 9), padding=4)
PROGRAMS["conv 3d 8->16 3³"] = _conv((1, 8, 16, 32, 32), (16, 8, 3, 3, 3), padding=1)
PROGRAMS["depthwise 7x7 96 56²"] = _conv((1, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
PROGRAMS["depthwise 5x5 stride 2"] = _conv((1, 96, 56, 56), (96, 1, 5, 5), 2, 2, 96)


def _convnext(batch: int, channels: int, side: int) -> Program:
    def ours(x: Any, w: Any, b: Any, g: Any, o: Any) -> Any:
        y = pn.permute_dims(f.conv2d(x, w, b, padding=3, groups=channels), (0, 2, 3, 1))
        return f.layer_norm(y, (channels,), g, o)

    def theirs(x: Any, w: Any, b: Any, g: Any, o: Any) -> Any:
        y = tf.conv2d(x, w, b, 1, 3, 1, channels).permute(0, 2, 3, 1)
        return tf.layer_norm(y, (channels,), g, o)

    def onnx(x: Any, w: Any, b: Any, g: Any, o: Any) -> bytes:
        nodes = [
            ("Conv", "x w b", "c", {"pads": [3] * 4, "group": channels}),
            ("Transpose", "c", "t", {"perm": [0, 2, 3, 1]}),
            ("LayerNormalization", "t g o", "y", {"epsilon": 1e-5}),
        ]
        return model(nodes, x, {"w": w, "b": b, "g": g, "o": o})

    given = floats(batch, channels, side, side), floats(channels, 1, 7, 7), *[floats(channels)] * 3
    return Program(given, ours, theirs, None, onnx)


for batch, channels, side in ((1, 96, 56), (1, 192, 28), (1, 384, 14), (1, 768, 7), (4, 96, 28)):
    PROGRAMS[f"convnext {batch}x{channels} {side}²"] = _convnext(batch, channels, side)


def _convnext_first(channels: int, side: int) -> Program:
    """The same with channels kept first: a norm written by hand over axis 1."""

    def ours(x: Any, w: Any, g: Any) -> Any:
        y = f.conv2d(x, w, padding=3, groups=channels)
        d = y - pn.mean(y, axis=1, keepdims=True)
        v = pn.mean(d * d, axis=1, keepdims=True)
        return d / pn.sqrt(v + 1e-6) * g[None, :, None, None]

    def theirs(x: Any, w: Any, g: Any) -> Any:
        y = tf.conv2d(x, w, None, 1, 3, 1, channels)
        d = y - y.mean(1, keepdim=True)
        v = (d * d).mean(1, keepdim=True)
        return d / torch.sqrt(v + 1e-6) * g[None, :, None, None]

    return Program(
        (floats(1, channels, side, side), floats(channels, 1, 7, 7), floats(channels)), ours, theirs
    )


PROGRAMS["convnext channels first 96 56²"] = _convnext_first(96, 56)


def _reflected(length: int, channels: int, out: int, k: int) -> Program:
    p = k // 2

    def onnx(x: Any, w: Any) -> bytes:
        nodes = [("Pad", "x p", "q", {"mode": "reflect"}), ("Conv", "q w", "y", {})]
        return model(nodes, x, {"p": np.array([0, 0, p, 0, 0, p], np.int64), "w": w})

    return Program(
        (floats(1, channels, length), floats(out, channels, k, scale=0.1)),
        lambda x, w: f.conv1d(pn.pad(x, ((0, 0), (0, 0), (p, p)), mode="reflect"), w),
        lambda x, w: tf.conv1d(tf.pad(x, (p, p), mode="reflect"), w),
        None,
        onnx,
    )


for length, channels, out, k in (
    (160_000, 1, 64, 25),
    (80_000, 16, 16, 9),
    (480_000, 1, 32, 9),
    (20_000, 64, 64, 7),
):
    PROGRAMS[f"reflect conv {length} {channels}->{out} k {k}"] = _reflected(length, channels, out, k)
PROGRAMS["stft as conv 160000"] = Program(
    (floats(1, 1, 160_000), floats(402, 1, 400, scale=0.05)),
    lambda x, w: f.conv1d(pn.pad(x, ((0, 0), (0, 0), (200, 200)), mode="reflect"), w, stride=160),
    lambda x, w: tf.conv1d(tf.pad(x, (200, 200), mode="reflect"), w, stride=160),
)
for mode, name in (("reflect", "reflect"), ("edge", "replicate")):
    PROGRAMS[f"{name} conv 3x3 32->32 64²"] = Program(
        (floats(1, 32, 64, 64), floats(32, 32, 3, 3, scale=0.1)),
        lambda x, w, mode=mode: f.conv2d(pn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode), w),
        lambda x, w, name=name: tf.conv2d(tf.pad(x, (1, 1, 1, 1), mode=name), w),
    )


# -- norms -------------------------------------------------------------------------------------------------------------

for batch, channels, side, groups in (
    (1, 32, 8, 8),
    (2, 64, 14, 32),
    (4, 128, 7, 32),
    (1, 256, 16, 32),
    (8, 64, 28, 8),
    (1, 320, 64, 32),
):
    PROGRAMS[f"group norm {batch}x{channels} {side}² by {groups}"] = Program(
        (floats(batch, channels, side, side), floats(channels), floats(channels)),
        lambda x, g, b, groups=groups: f.group_norm(x, groups, g, b),
        lambda x, g, b, groups=groups: tf.group_norm(x, groups, g, b),
    )
for batch, channels, side in ((1, 32, 8), (2, 64, 14), (4, 64, 7), (1, 64, 56)):
    PROGRAMS[f"instance norm {batch}x{channels} {side}²"] = Program(
        (floats(batch, channels, side, side), floats(channels), floats(channels)),
        lambda x, g, b: f.instance_norm(x, weight=g, bias=b),
        lambda x, g, b: tf.instance_norm(x, weight=g, bias=b),
    )
PROGRAMS["batch norm training 16x64 28²"] = Program(
    (floats(16, 64, 28, 28), floats(64), floats(64)),
    lambda x, g, b: f.batch_norm(x, None, None, g, b, training=True),
    lambda x, g, b: tf.batch_norm(x, None, None, g, b, True),
)
PROGRAMS["rms norm 512x768"] = Program(
    (floats(512, 768), floats(768)),
    lambda x, g: f.rms_norm(x, (768,), g, eps=1e-6),
    lambda x, g: tf.rms_norm(x, (768,), g, 1e-6),
)
PROGRAMS["layer norm 64x10"] = Program(
    (floats(64, 10), floats(10), floats(10)),
    lambda x, g, b: f.layer_norm(x, (10,), g, b),
    lambda x, g, b: tf.layer_norm(x, (10,), g, b),
)
PROGRAMS["channel norm 1x128 32²"] = Program(
    (floats(1, 128, 32, 32),),
    lambda x: (x - pn.mean(x, axis=1, keepdims=True)) / pn.std(x, axis=1, keepdims=True),
    lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0),
)
PROGRAMS["l2 normalize 1000x128"] = Program(
    (floats(1000, 128),), lambda x: f.normalize(x, axis=1), lambda x: tf.normalize(x, dim=1)
)
PROGRAMS["conv 3x3 + group norm + silu"] = Program(
    (floats(1, 64, 32, 32), floats(64, 64, 3, 3, scale=0.05), floats(64), floats(64)),
    lambda x, w, g, b: f.silu(f.group_norm(f.conv2d(x, w, padding=1), 32, g, b)),
    lambda x, w, g, b: tf.silu(tf.group_norm(tf.conv2d(x, w, padding=1), 32, g, b)),
)
PROGRAMS["group norm + silu + conv 3x3"] = Program(
    (floats(1, 64, 32, 32), floats(64, 64, 3, 3, scale=0.05), floats(64), floats(64)),
    lambda x, w, g, b: f.conv2d(f.silu(f.group_norm(x, 32, g, b)), w, padding=1),
    lambda x, w, g, b: tf.conv2d(tf.silu(tf.group_norm(x, 32, g, b)), w, padding=1),
)
PROGRAMS["linear + layer norm + linear"] = Program(
    (floats(128, 256), floats(256, 512, scale=0.1), floats(512), floats(512), floats(512, 256, scale=0.1)),
    lambda x, w, g, b, v: f.layer_norm(x @ w, (512,), g, b) @ v,
    lambda x, w, g, b, v: tf.layer_norm(x @ w, (512,), g, b) @ v,
)
PROGRAMS["linear + softmax of few classes"] = Program(
    (floats(1000, 256), floats(256, 10, scale=0.1)),
    lambda x, w: f.softmax(x @ w, axis=-1),
    lambda x, w: torch.softmax(x @ w, -1),
)
