"""Names that people bring along from PyTorch, JAX, NumPy and Keras, and how the same is written here.

A name that is nowhere near one of planish's has no *did you mean*; what it stood for usually has. The tables are read when
somebody reads the message of an `UnknownName`, and never before. An entry is what to write, or a sentence, which ends with a full stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from planish.errors import spelt_like

_KEYS: Final = "random numbers come from keys: planish.random.key(seed)."
_GRAD: Final = "planish.grad(function)(x)"
_VALUES: Final = "gradients are results of planish.grad, nothing has to be cleared."

TENSOR: Final = {
    "backward": _GRAD, "bfloat16": "x.astype('bfloat16')", "block_until_ready": "x.realize()", "bmm": "x @ y",
    "bool": "x.astype('bool')", "cat": "planish.concat(xs, axis)", "chunk": "planish.array_split(x, n, axis)",
    "clamp": "x.clip(low, high)", "clone": "x.copy()", "contiguous": "x", "cpu": "x.to_device('cpu')",
    "cuda": "x.to_device('cuda')", "data": "x", "detach": "planish.stop_gradient(x)", "dim": "x.ndim",
    "double": "x.astype('float64')", "element_size": "x.itemsize", "expand_as": "planish.broadcast_to(x, y.shape)",
    "float": "x.astype('float32')", "grad": _GRAD, "gather": "planish.take_along_axis(x, indices, axis)", "get_device": "x.device",
    "half": "x.astype('float16')", "index_select": "planish.take(x, indices, axis)", "int": "x.astype('int32')",
    "is_cuda": "x.device", "long": "x.astype('int64')", "masked_fill": "planish.where(mask, value, x)",
    "masked_select": "x[mask]", "mm": "x @ y", "mv": "x @ y", "narrow": "x[:, start : start + length]", "nelement": "x.size",
    "new_ones": "planish.ones(shape, dtype=x.dtype)", "new_zeros": "planish.zeros(shape, dtype=x.dtype)",
    "norm": "planish.linalg.norm(x)", "numel": "x.size", "requires_grad": _GRAD, "requires_grad_": _GRAD,
    "short": "x.astype('int16')", "strides": "np.asarray(x).strides",
    "t": "x.T", "to": "x.astype(dtype) or x.to_device(device)", "type": "x.astype(dtype)", "type_as": "x.astype(y.dtype)",
    "unbind": "planish.unstack(x, axis=axis)", "view_as": "x.reshape(y.shape)",
}  # fmt: skip
MODULE: Final = {
    "apply": "planish.tree.map(function, module)", "cuda": "planish.tree.map(lambda x: x.to_device('cuda'), module)",
    "double": "module.astype('float64')", "float": "module.astype('float32')", "forward": "what PyTorch calls forward is __call__ here.",
    "half": "module.astype('float16')", "named_buffers": "module.buffers()", "named_modules": "module.modules()",
    "named_parameters": "module.parameters().items()", "requires_grad_": "planish.optim.Groups([(selector, None)], default=optimizer) leaves parameters as they are.",
    "to": "planish.tree.map(lambda x: x.to_device(device), module), or module.astype(dtype)", "zero_grad": _VALUES,
}  # fmt: skip
OPTIMIZER: Final = {
    "apply": "params, state = optimizer.update(params, gradients, state)",
    "state_dict": "the state is what optimizer.init gives: a tree, which planish.io.save_checkpoint takes.",
    "step": "params, state = optimizer.update(params, gradients, state)", "zero_grad": _VALUES,
}  # fmt: skip
_MODULES: Final[dict[str, dict[str, str]]] = {
    "planish": {
        "FloatTensor": "planish.asarray(data, dtype='float32')", "GradientTape": _GRAD, "LongTensor": "planish.asarray(data, dtype='int64')",
        "Variable": "planish.asarray(data)", "autograd": _GRAD, "block_until_ready": "x.realize()", "bmm": "x @ y",
        "cat": "planish.concat(xs, axis)", "chunk": "planish.array_split(x, n, axis)", "clamp": "planish.clip(x, low, high)",
        "compile": "planish.jit(function)", "cuda": "planish.devices() tells what there is.",
        "device": "a device is its name as text: 'cpu', 'cuda:0'.", "device_put": "x.to_device(device)",
        "enable_grad": _GRAD, "errstate": "with planish.settings(check='nan'): … finds what makes a NaN.", "float": "planish.float32",
        "float_": "planish.float64", "from_numpy": "planish.asarray(array)", "function": "planish.jit(function)", "functional": "planish.nn.functional",
        "gather": "planish.take_along_axis(x, indices, axis)", "half": "planish.float16", "index_select": "planish.take(x, indices, axis)",
        "inference_mode": "without planish.grad there is no gradient; planish.stop_gradient(x) within.", "int": "planish.int32",
        "is_tensor": "isinstance(x, planish.Tensor)", "jacobian": "planish.jacrev(function) or planish.jacfwd(function)",
        "lax": "its names stand in planish itself: planish.scan, planish.cond, planish.while_loop.", "long": "planish.int64",
        "manual_seed": _KEYS, "masked_fill": "planish.where(mask, value, x)", "masked_select": "x[mask]", "mm": "x @ y",
        "no_grad": "without planish.grad there is no gradient; planish.stop_gradient(x) within.", "numel": "x.size",
        "numpy": "planish itself has NumPy's names.", "pmap": "planish.jit(function, in_shardings=…, mesh=…)",
        "rand": "planish.random.uniform(key, shape)", "randint": "planish.random.randint(key, shape, low, high)",
        "randn": "planish.random.normal(key, shape)", "relu": "planish.nn.relu(x)", "seterr": "with planish.settings(check='nan'): … finds what makes a NaN.",
        "set_default_dtype": "dtype= says it where tensors are made.", "set_default_device": "with planish.settings(device='cuda'): …",
        "tensor": "planish.asarray(data)", "testing": "numpy.testing takes tensors.", "tree_map": "planish.tree.map(function, tree)",
        "tree_util": "planish.tree", "unsqueeze": "planish.expand_dims(x, axis)", "utils": "planish.optim, planish.data and planish.tree have what is like it.",
    },
    "planish.nn": {
        "Conv": "planish.nn.Conv2d", "DataParallel": "planish.shard", "Dense": "planish.nn.Linear(inputs, outputs, key=key)",
        "DistributedDataParallel": "planish.shard", "Embed": "planish.nn.Embedding(rows, width, key=key)",
        "F": "planish.nn.functional", "Parameter": "a tensor that is an attribute of a module is a parameter, unless register_buffer makes it a buffer.",
        "utils": "clip_grad_norm_ is planish.optim.clip_by_norm(gradients, length).",
    },
    "planish.optim": {
        "CosineAnnealingLR": "planish.optim.Cosine, as the lr of an optimiser", "ExponentialLR": "planish.optim.Exponential, as the lr of an optimiser",
        "LambdaLR": "the lr of an optimiser may be any function of the step.", "LinearLR": "planish.optim.LinearWarmup, as the lr of an optimiser",
        "MultiStepLR": "planish.optim.MultiStep, as the lr of an optimiser", "OneCycleLR": "planish.optim.OneCycle, as the lr of an optimiser",
        "StepLR": "planish.optim.Step, as the lr of an optimiser", "apply_updates": "params, state = optimizer.update(params, gradients, state)",
        "clip_by_global_norm": "planish.optim.clip_by_norm(gradients, length)", "clip_grad_norm_": "planish.optim.clip_by_norm(gradients, length)",
        "lr_scheduler": "the lr of an optimiser may be a schedule: planish.optim.Cosine, WarmupCosine, Step ….", "swa_utils": "planish.optim.EMA or SWA",
    },
    "planish.random": {
        "PRNGKey": "planish.random.key(seed)", "RandomState": _KEYS, "default_rng": _KEYS, "integers": "planish.random.randint(key, shape, low, high)",
        "manual_seed": _KEYS, "rand": "planish.random.uniform(key, shape)", "randn": "planish.random.normal(key, shape)",
        "random": "planish.random.uniform(key, shape)", "seed": _KEYS, "shuffle": "planish.random.permutation(key, x)",
        "standard_normal": "planish.random.normal(key, shape)",
    },
    "planish.data": {
        "DataLoader": "planish.data.Loader(data, batch_size)", "Dataset": "planish.data.Loader takes arrays, and any sequence of examples.",
        "TensorDataset": "planish.data.Loader takes arrays: Loader((x, y), batch_size).",
    },
}  # fmt: skip
"""By module, what to write for a name that it does not have."""
_ROOMS: Final = ("nn", "optim", "random", "linalg", "fft", "io", "tree", "data")
"""Where a name may be that somebody looks for in another place."""


def _told(entry: str) -> str:
    return f"; {entry[:-1]}" if entry.endswith(".") else f"; write {entry}"


def hint(module: str, name: str, valid: Iterable[str], names_of: Callable[[str], Collection[str]]) -> str:
    """The end of a message about a name that a module does not have; `names_of` a part of planish it may be one."""
    known = _MODULES.get(module, {}).get(name)
    if known is not None:
        return _told(known)
    for room in _ROOMS:
        place = f"planish.{room}"
        if place != module and name in names_of(room):
            return f"; it is {place}.{name}"
    return spelt_like(name, valid)


def hint_of_object(known: dict[str, str], name: str, valid: Iterable[str]) -> str:
    """The end of a message about an attribute that an object does not have."""
    if name in known:
        return _told(known[name])
    if name.endswith("_"):
        plain = name.rstrip("_")
        return f"; write x = x.{plain}(…)" if plain in valid else "; write x[...] = y, or x += y and the like"
    return spelt_like(name, valid)
