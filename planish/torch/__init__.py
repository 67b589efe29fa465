"""PyTorch programs run by planish: `torch.compile(model, backend="planish")`, or `planish.torch.compile(model)`."""

from planish.torch.backend import planish_backend
from planish.torch.reporting import Report, report

__all__ = ["Report", "planish_backend", "report"]
