"""The templates for GPUs, the most particular first: what each offers is made as a whole, and the cost model says which is taken.

Some are settled: where one fits it is taken before any that comes later. It was measured to be the fastest wherever it fits, or so nearly that the model is no better judge
(docs/tuning.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Final

from planish import dtypes
from planish.optimize.draft import Draft
from planish.optimize.gpu.across import sum_across
from planish.optimize.gpu.columns import columns
from planish.optimize.gpu.decode import rows_by_cores
from planish.optimize.gpu.joined import joined
from planish.optimize.gpu.products import is_product, tile_product
from planish.optimize.gpu.rows import rows
from planish.optimize.gpu.scans import scan
from planish.optimize.gpu.scattered import claim_rows
from planish.optimize.gpu.slides import slide, slide_groups
from planish.optimize.gpu.stream import stream_elements
from planish.optimize.gpu.sums import share_sums
from planish.optimize.gpu.thin import thin_product
from planish.optimize.gpu.turned import turn
from planish.optimize.gpu.warps import with_warps
from planish.optimize.gpu.weighted import walk_keys
from planish.optimize.templates import Template, only
from planish.optimize.tensor_cores import with_tensor_cores
from planish.optimize.warpgroups import use_warpgroups
from planish.uop.nest import size_of
from planish.uop.nest.kernel import Nest


def _elements(draft: Draft, nest: Nest) -> bool:
    stream_elements(draft, nest)
    return True


def _elements_of_few(draft: Draft, nest: Nest) -> bool:
    """In small blocks, where large ones would leave multiprocessors idle: there are few elements, and each takes long."""
    whole = prod(size_of(r) for r in nest.outputs if r not in nest.scanned)
    if (
        not (nest.reductions or nest.scans)
        or is_product(nest)
        or not 0 < whole <= draft.target.shares.few_elements * draft.target.workers
    ):
        return False
    stream_elements(draft, nest, most=draft.target.warp)
    return True


def _warpgroups(draft: Draft, nest: Nest) -> bool:
    return bool(nest.reductions) and use_warpgroups(draft)


def _products(draft: Draft, nest: Nest) -> bool:
    """A product in tiles of threads; one of several axes has them joined."""
    alike = next((core for core in draft.target.tensor_cores if core.inputs is dtypes.float32), None)
    for trial in joined(draft, alike) if alike is not None and nest.reductions else ():
        if tile_product(trial, Nest.of(trial.sink)):
            draft.adopt(trial)
            return True
    return tile_product(draft, nest)


GPU: Final[Sequence[Template]] = (
    only("walks over keys", walk_keys, settled=True),
    only("few rows of stored bytes by cores", rows_by_cores, settled=True),
    only("few rows of stored bytes", partial(thin_product, stored=True)),
    only("one row across", sum_across, settled=True),
    only("windows of few channels", slide_groups),
    only("warpgroups", _warpgroups, settled=True),
    with_warps,
    with_tensor_cores,
    only("scans", scan),
    only("rows that data chooses", claim_rows),
    only("few rows", partial(thin_product, stored=False)),
    only("windows", slide),
    rows,
    columns,
    only("products", _products),
    only("sums", share_sums),
    only("several rows of stored bytes", partial(thin_product, stored=True, several=True)),
    only("several rows", partial(thin_product, stored=False, several=True)),
    only("turned copies", turn),
    only("elements", _elements),
    only("elements in small blocks", _elements_of_few),
)
