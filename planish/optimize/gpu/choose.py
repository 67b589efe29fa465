"""The first template that fits a kernel as a whole."""

from __future__ import annotations

from planish.optimize.draft import Draft
from planish.optimize.gpu.columns import share_columns
from planish.optimize.gpu.products import tile_product
from planish.optimize.gpu.rows import share_rows
from planish.optimize.gpu.scans import scan
from planish.optimize.gpu.stream import stream_elements
from planish.optimize.gpu.turned import turn
from planish.optimize.tensor_cores import use_tensor_core
from planish.uop.nest.kernel import Nest


def for_gpu(draft: Draft, view: Nest) -> None:
    if use_tensor_core(draft):
        return
    for template in (scan, share_rows, share_columns, tile_product, turn):
        trial = draft.copy()
        if template(trial, view):
            draft.adopt(trial)
            return
    stream_elements(draft, view)
