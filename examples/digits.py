"""Handwritten digits: a small convolutional network learns to read them, with one compiled training step.

The data are scikit-learn's bundled digits, 1,797 images of 8 × 8 pixels, a fifth of which is kept for testing. The step holds
everything: the network forward and backward, batch normalisation's statistics, dropout, the optimiser and its schedule.

    python examples/digits.py                 # above 98 % in seconds
    python examples/digits.py --epochs 2
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import planish as pn
from planish import nn, optim

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, key: pn.Tensor) -> None:
        first, second, third = (pn.random.fold_in(key, number) for number in range(3))
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False, key=first)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False, key=second)
        self.norm2 = nn.BatchNorm2d(32)
        self.drop = nn.Dropout(0.25)
        self.out = nn.Linear(32 * 4 * 4, 10, key=third)

    def __call__(self, x: pn.Tensor, key: pn.Tensor | None = None) -> pn.Tensor:
        x = nn.relu(self.norm1(self.conv1(x)))
        x = nn.relu(self.norm2(self.conv2(x)))
        x = nn.max_pool2d(x, 2).reshape(x.shape[0], -1)
        return self.out(self.drop(x, key=key))


def load(seed: int, limit: int | None) -> tuple[Images, Labels, Images, Labels]:
    """Images and labels to train on, and to test with."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images[:, None] / 16.0).astype(np.float32)
    labels = data.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(images))
    test, train = order[: len(order) // 5], order[len(order) // 5 :][:limit]
    return images[train], labels[train], images[test], labels[test]


def batches(count: int, size: int, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Numbers of samples in random order; what does not fill a batch is left for another epoch."""
    order = generator.permutation(count)
    for start in range(0, count - size + 1, size):
        yield order[start : start + size]


class Progress:
    """A bar that fills up, where somebody looks; a line per epoch elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.live = sys.stdout.isatty()

    def show(self, done: int, text: str) -> None:
        """So much is done."""
        if self.live:
            filled = 30 * done // self.total
            print(f"\r  [{'█' * filled}{'·' * (30 - filled)}] {text}", end="", flush=True)

    def close(self, text: str) -> None:
        """All is done."""
        print(f"\r\033[K{text}" if self.live else text, flush=True)


def main(arguments: Sequence[str] | None = None) -> float:
    """Train and test; the share of test images that are read right."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--limit", type=int, help="train on so many images only")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    images, labels, test_images, test_labels = load(options.seed, options.limit)
    size = min(options.batch, len(images))
    steps = options.epochs * (len(images) // size)
    model = Net(pn.random.key(options.seed))
    optimizer = optim.AdamW(
        optim.OneCycle(options.lr, steps), weight_decay=0.05, decays=lambda parameter: parameter.ndim > 1
    )
    state = optimizer.init(model)
    dropout_key = pn.random.key(options.seed + 1)

    def loss_of(
        model: Net, x: pn.Tensor, y: pn.Tensor, key: pn.Tensor
    ) -> tuple[pn.Tensor, tuple[Net, pn.Tensor]]:
        scores = model(x, key)
        right = pn.sum((pn.argmax(scores, axis=1) == y).astype(pn.int32))
        return nn.cross_entropy(scores, y), (model, right)

    @pn.jit
    def step(
        model: Net, state: optim.State, x: pn.Tensor, y: pn.Tensor, key: pn.Tensor
    ) -> tuple[Net, optim.State, pn.Tensor, pn.Tensor]:
        own = pn.random.fold_in(key, state.step)
        (loss, (model, right)), gradients = pn.value_and_grad(loss_of, has_aux=True)(model, x, y, own)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss, right

    @pn.jit
    def predict(model: Net, x: pn.Tensor) -> pn.Tensor:
        return pn.argmax(model(x), axis=1)

    parameters = sum(value.size for value in model.parameters().values())
    print(f"digits: {len(images)} to train on, {len(test_images)} to test with, {parameters:,} parameters")
    generator = np.random.default_rng(options.seed)
    began = perf_counter()
    compiled = 0.0
    for epoch in range(1, options.epochs + 1):
        progress = Progress(len(images) // size)
        total = right = count = 0.0
        for number, chosen in enumerate(batches(len(images), size, generator), start=1):
            x, y = pn.asarray(images[chosen]), pn.asarray(labels[chosen])
            model, state, loss, hits = step(model, state, x, y, dropout_key)
            total, right, count = total + float(loss) * size, right + float(hits), count + size
            compiled = compiled or perf_counter() - began
            progress.show(number, f"epoch {epoch}  loss {total / count:.3f}  {100 * right / count:.1f} %")
        progress.close(
            f"  epoch {epoch:2d}  loss {total / count:.3f}  {100 * right / count:5.1f} % of training"
        )
    took = perf_counter() - began
    predicted = np.asarray(predict(model.eval(), pn.asarray(test_images)))
    accuracy = float(np.mean(predicted == test_labels))
    rate = steps * size / max(took - compiled, 1e-9)
    print(f"  {took:.1f} s, {compiled:.1f} of them to compile the step; {rate:,.0f} images per second")
    print(f"  {100 * accuracy:.2f} % of {len(test_labels)} test images are read right")
    return accuracy


if __name__ == "__main__":
    main()
