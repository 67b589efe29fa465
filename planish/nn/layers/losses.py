"""Losses as layers: the functions of `nn.losses` with their settings, under PyTorch's names."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from planish.frontend.tensor.array import Tensor
from planish.nn import ctc, losses, margins
from planish.nn.layers.applied import FunctionLayer


class Loss(FunctionLayer):
    """A function of some tensors and of settings, which are the rest of its parameters and are given to the class by name."""

    def __init__(self, **settings: object) -> None:
        for name in settings:
            if name not in self.settings:
                known = ", ".join(self.settings)
                raise TypeError(f"{type(self).__name__} has no setting {name!r}; it has {known}")
        for name, value in settings.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)  # weights of classes are not learnt
            else:
                setattr(self, name, value)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """What the function makes of them."""
        return self._of(*inputs)


def _layer(name: str, function: Callable[..., Tensor], inputs: int = 2) -> type[Loss]:
    """A class of that name around a function of so many tensors."""
    body = {
        "__doc__": f"`{function.__name__}` as a layer: {inspect.getdoc(function)}",
        "__module__": __name__,
    }
    return type(name, (Loss,), body, function=function, inputs=inputs)


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
