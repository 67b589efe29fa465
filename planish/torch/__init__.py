"""PyTorch programs run by planish: `torch.compile(model, backend="planish")`, or `planish.torch.compile(model)`."""

from planish.torch.backend import compile, planish_backend
from planish.torch.exported import TorchProgram, load
from planish.torch.reporting import Report, report

__all__ = ["Report", "TorchProgram", "compile", "load", "planish_backend", "report"]
