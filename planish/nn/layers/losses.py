"""Losses as layers: the functions of `nn.losses` with their settings, under PyTorch's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar

from planish.frontend.tensor.array import Tensor
from planish.nn import ctc, losses, margins
from planish.nn.module import Module


class Loss(Module):
    """A function of some tensors and of settings, which are the rest of its parameters and are given to the class by name."""

    function: ClassVar[Callable[..., Tensor]]
    inputs: ClassVar[int]
    """How many of the parameters are tensors that a call gives."""

    def __init__(self, **settings: object) -> None:
        known = list(inspect.signature(self.function).parameters)[self.inputs :]
        for name in settings:
            if name not in known:
                raise TypeError(f"{type(self).__name__} has no setting {name!r}; it has {', '.join(known)}")
        self._settings = tuple(settings)
        for name, value in settings.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)  # weights of classes are not learnt
            else:
                setattr(self, name, value)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """What the function makes of them."""
        return self.function(*inputs, **{name: getattr(self, name) for name in self._settings})


def _layer(name: str, function: Callable[..., Tensor], inputs: int = 2) -> type[Loss]:
    """A class of that name around a function of so many tensors."""
    says = f"`{function.__name__}` as a layer: {inspect.getdoc(function)}"
    return type(
        name,
        (Loss,),
        {"function": staticmethod(function), "inputs": inputs, "__doc__": says, "__module__": __name__},
    )


BCELoss = _layer("BCELoss", losses.binary_cross_entropy)
BCEWithLogitsLoss = _layer("BCEWithLogitsLoss", losses.binary_cross_entropy_with_logits)
CTCLoss = _layer("CTCLoss", ctc.ctc_loss, 4)
CosineEmbeddingLoss = _layer("CosineEmbeddingLoss", losses.cosine_embedding_loss, 3)
CosineSimilarity = _layer("CosineSimilarity", losses.cosine_similarity)
CrossEntropyLoss = _layer("CrossEntropyLoss", losses.cross_entropy)
GaussianNLLLoss = _layer("GaussianNLLLoss", losses.gaussian_nll_loss, 3)
HingeEmbeddingLoss = _layer("HingeEmbeddingLoss", losses.hinge_embedding_loss)
HuberLoss = _layer("HuberLoss", losses.huber_loss)
KLDivLoss = _layer("KLDivLoss", losses.kl_div)
L1Loss = _layer("L1Loss", losses.l1_loss)
MSELoss = _layer("MSELoss", losses.mse_loss)
MarginRankingLoss = _layer("MarginRankingLoss", losses.margin_ranking_loss, 3)
MultiLabelMarginLoss = _layer("MultiLabelMarginLoss", margins.multilabel_margin_loss)
MultiLabelSoftMarginLoss = _layer("MultiLabelSoftMarginLoss", margins.multilabel_soft_margin_loss)
MultiMarginLoss = _layer("MultiMarginLoss", margins.multi_margin_loss)
NLLLoss = _layer("NLLLoss", losses.nll_loss)
PairwiseDistance = _layer("PairwiseDistance", losses.pairwise_distance)
PoissonNLLLoss = _layer("PoissonNLLLoss", losses.poisson_nll_loss)
SmoothL1Loss = _layer("SmoothL1Loss", losses.smooth_l1_loss)
SoftMarginLoss = _layer("SoftMarginLoss", losses.soft_margin_loss)
TripletMarginLoss = _layer("TripletMarginLoss", losses.triplet_margin_loss, 3)
TripletMarginWithDistanceLoss = _layer(
    "TripletMarginWithDistanceLoss", margins.triplet_margin_with_distance_loss, 3
)

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PairwiseDistance", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip
