"""Sentence search: sentences as vectors of a MiniLM (or any BERT), and those nearest to a question.

    python examples/search.py all-MiniLM-L6-v2/ "how do I stop a loop?" --lines notes.txt

The folder is one of Hugging Face's: config.json, vocab.txt and model.safetensors. Words become pieces (WordPiece), pieces become vectors in
`nn.TransformerEncoderLayer`s with the model's weights, their mean is the sentence, and nearness is the cosine. The number of pieces is a
dynamic size: all sentences share one compilation.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import planish as pn
from planish import nn

Vectors = NDArray[np.float32]
ROOT = Path(__file__).parent.parent


class Pieces:
    """Words as numbers of pieces: the longest pieces that the vocabulary has, from the left."""

    def __init__(self, vocabulary: Sequence[str], lower: bool = True) -> None:
        self.numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self.lower = lower

    def of(self, text: str, most: int) -> list[int]:
        """A text with the marks of its ends."""
        if self.lower:
            plain = unicodedata.normalize("NFD", text.lower())
            text = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        numbers: list[int] = []
        for word in re.findall(r"\w+|[^\w\s]", text):
            numbers += self._word(word)
        return [self.numbers["[CLS]"], *numbers[: most - 2], self.numbers["[SEP]"]]

    def _word(self, word: str) -> list[int]:
        numbers, start = [], 0
        while start < len(word):
            for stop in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:stop]
                if piece in self.numbers:
                    numbers.append(self.numbers[piece])
                    start = stop
                    break
            else:
                return [self.numbers["[UNK]"]]
        return numbers


class Encoder(nn.Module):
    """A BERT: pieces, places and kinds as vectors, layers that let them see each other, and the mean as the sentence."""

    def __init__(self, config: Mapping[str, int]) -> None:
        width, heads = config["hidden_size"], config["num_attention_heads"]
        epsilon = float(config.get("layer_norm_eps", 1e-12))
        self.word = nn.Embedding(config["vocab_size"], width, key=0)
        self.place = nn.Embedding(config["max_position_embeddings"], width, key=1)
        self.kind = nn.Embedding(config.get("type_vocab_size", 2), width, key=2)
        self.norm = nn.LayerNorm(width, epsilon)
        self.layers = [
            nn.TransformerEncoderLayer(
                width,
                heads,
                config["intermediate_size"],
                0.0,
                "gelu",
                epsilon,
                batch_first=True,
                key=3 + number,
            )
            for number in range(config["num_hidden_layers"])
        ]

    def __call__(self, pieces: pn.Tensor) -> pn.Tensor:
        """(pieces,) to a vector of length 1."""
        places = pn.arange(pieces.shape[0])
        x = self.norm(self.word(pieces) + self.place(places) + self.kind.weight[0])
        for layer in self.layers:
            x = layer(x[None])[0]
        sentence = pn.mean(x, axis=0)
        return sentence / pn.linalg.vector_norm(sentence)


_PARTS = {"attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "norm1", "intermediate.dense": "linear1",
          "output.dense": "linear2", "output.LayerNorm": "norm2"}  # fmt: skip
"""What Hugging Face's BERT calls the parts of a layer, and what they are called here."""


def weights_of(saved: Mapping[str, pn.Tensor], layers: int) -> dict[str, pn.Tensor]:
    """A BERT's weights under the names of `Encoder`."""
    state = {name.removeprefix("bert."): value for name, value in saved.items()}
    weights = {"word.weight": state["embeddings.word_embeddings.weight"]}
    weights["place.weight"] = state["embeddings.position_embeddings.weight"]
    weights["kind.weight"] = state["embeddings.token_type_embeddings.weight"]
    for kind in ("weight", "bias"):
        weights[f"norm.{kind}"] = state[f"embeddings.LayerNorm.{kind}"]
        for number in range(layers):
            theirs, ours = f"encoder.layer.{number}", f"layers.{number}"
            parts = [state[f"{theirs}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            weights[f"{ours}.self_attn.in_proj_{kind}"] = pn.concat(parts, axis=0)
            for part, own in _PARTS.items():
                weights[f"{ours}.{own}.{kind}"] = state[f"{theirs}.{part}.{kind}"]
    return weights


class Search:
    """A model folder, ready to compare sentences."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.pieces = Pieces((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
        self.most = min(config["max_position_embeddings"], 256)
        self.model = Encoder(config).load_state_dict(
            weights_of(pn.io.load(folder / "model.safetensors"), config["num_hidden_layers"])
        )
        self.model.eval()
        length = pn.Dim("pieces", 2, self.most)
        self.encode = pn.jit(lambda model, pieces: model(pieces), dims={"pieces": (length,)})

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """(texts, width)."""
        vectors = [self.encode(self.model, pn.asarray(self.pieces.of(text, self.most))) for text in texts]
        return np.stack([np.asarray(vector) for vector in vectors])

    def nearest(
        self, question: str, texts: Sequence[str], vectors: Vectors, top: int
    ) -> list[tuple[float, str]]:
        """The texts nearest to a question, with their cosines."""
        scores = vectors @ self.vectors([question])[0]
        return [(float(scores[n]), texts[n]) for n in np.argsort(-scores)[:top]]


def main(arguments: Sequence[str] | None = None) -> list[tuple[float, str]]:
    """Search; the nearest sentences with their cosines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("model", type=Path, help="a folder with config.json, vocab.txt and model.safetensors")
    parser.add_argument("question")
    parser.add_argument("--lines", type=Path, help="a text file; by default the project's documents")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--limit", type=int, default=400, help="search so many lines")
    options = parser.parse_args(arguments)
    files = [options.lines] if options.lines else sorted((ROOT / "docs").glob("*.md"))
    lines = [line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    texts = [line for line in lines if len(line) > 20 and line[0].isalpha()][: options.limit]
    search = Search(options.model)
    began = perf_counter()
    vectors = search.vectors(texts)
    took = perf_counter() - began
    print(
        f"search: {len(texts)} sentences as vectors of {vectors.shape[1]} in {took:.1f} s, {search.encode.cache_info().misses} compilation"
    )
    nearest = search.nearest(options.question, texts, vectors, options.top)
    print(f"  {options.question}")
    for score, text in nearest:
        print(f"  {score:6.3f}  {text[:100]}")
    return nearest


if __name__ == "__main__":
    main()
