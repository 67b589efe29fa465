"""What is in a picture: an image file through a trained ONNX model, with its likeliest classes as a table.

    python examples/classify.py photo.png --model resnet50.onnx --labels imagenet_classes.txt
    python examples/classify.py                # without a model: trains one on scikit-learn's digits first, and draws a digit

The picture is cut to a square, resized with antialiasing and normalised as the model expects it (three channels: by ImageNet's mean and
deviation; one channel: 0 to 1), all of it compiled with planish. The model runs by `planish.onnx`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import planish as pn
import planish.onnx
from planish import nn, optim

sys.path.insert(0, str(Path(__file__).parent))
from pictures import Pixels, read_picture, write_png

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def prepared(pixels: Pixels, channels: int, height: int, width: int) -> NDArray[np.float32]:
    """(1, channels, height, width) of a picture of any size: its middle square."""
    side = min(pixels.shape[:2])
    top, left = ((size - side) // 2 for size in pixels.shape[:2])
    square = pn.asarray(pixels[top : top + side, left : left + side]).astype(pn.float32) / 255.0
    image = pn.permute_dims(square, (2, 0, 1))[None]
    image = nn.interpolate(image, (height, width), mode="bilinear", antialias=True)
    if channels == 1:
        return np.asarray(pn.mean(image, axis=1, keepdims=True))
    mean, deviation = (pn.asarray(x, dtype=pn.float32).reshape(1, 3, 1, 1) for x in (MEAN, DEVIATION))
    return np.asarray((image - mean) / deviation)


def classify(picture: Path, model: Path, labels: Sequence[str], top: int) -> list[tuple[str, float]]:
    """The likeliest classes of a picture, with their probabilities."""
    net = planish.onnx.load(model)
    sizes = [size if isinstance(size, int) else None for size in net.inputs[0].dims]
    _, channels, height, width = (*sizes, *[None] * 4)[:4]
    image = prepared(read_picture(picture), channels or 3, height or 224, width or 224)
    (scores, *_) = net(**{net.inputs[0].name: image})
    shares = np.asarray(nn.softmax(pn.asarray(np.asarray(scores)).reshape(-1), 0))
    order = np.argsort(-shares)[:top]
    return [(labels[n] if n < len(labels) else f"class {n}", float(shares[n])) for n in order]


# --- a model of one's own -------------------------------------------------------------------------------------


def train(path: Path, epochs: int) -> tuple[Path, Path]:
    """A small network that reads digits, as an ONNX file; and a picture of a digit it has not seen."""
    path.mkdir(parents=True, exist_ok=True)
    import onnx
    from onnx import helper, numpy_helper
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = (data.images[:, None] / 16.0).astype(np.float32), data.target.astype(np.int64)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, key=0),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10, key=1),
    )
    optimizer = optim.Adam(5e-3)
    state = optimizer.init(net)
    loader = pn.data.Loader((images[:-10], labels[:-10]), 64, shuffle=True, drop_last=True)

    @pn.jit
    def step(
        net: nn.Sequential, state: optim.State, x: pn.Tensor, y: pn.Tensor
    ) -> tuple[nn.Sequential, optim.State]:
        slope = pn.grad(lambda net: nn.cross_entropy(net(x), y))(net)
        return optimizer.update(net, slope, state)

    while loader.epoch < epochs:
        for x, y in loader:
            net, state = step(net, state, x, y)
    weights = {name.replace(".", "_"): np.asarray(value) for name, value in net.state_dict().items()}
    nodes = [
        helper.make_node("Conv", ["x", "0_weight", "0_bias"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "4_weight", "4_bias"], ["scores"], transB=1),
    ]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, 8, 8]), ("scores", [1, 10]))
    ]
    kept = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "digits", ports[:1], ports[1:], kept)
    model = path / "digits.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    last = (images[-8, 0] * 255).astype(np.uint8).repeat(16, axis=0).repeat(16, axis=1)
    return model, write_png(path / f"digit-{labels[-8]}.png", last)


def main(arguments: Sequence[str] | None = None) -> list[tuple[str, float]]:
    """Classify a picture; its likeliest classes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--labels", type=Path, help="a text file, one class per line")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8, help="of the model of one's own")
    parser.add_argument("--out", type=Path, help="where that goes")
    options = parser.parse_args(arguments)
    picture, model = options.picture, options.model
    labels = options.labels.read_text(encoding="utf-8").splitlines() if options.labels else []
    if model is None:
        model, drawn = train(options.out or Path(tempfile.mkdtemp()), options.epochs)
        picture, labels = picture or drawn, [f"digit {n}" for n in range(10)]
    elif picture is None:
        parser.error("a model needs a picture")
    classes = classify(picture, model, labels, options.top)
    print(f"classify: {picture.name} by {model.name}")
    for label, share in classes:
        print(f"  {label:24s} {100 * share:6.2f} %  {'█' * round(40 * share)}")
    return classes


if __name__ == "__main__":
    main()
