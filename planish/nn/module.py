"""Modules: parameters, buffers and other modules under names, and a function of them. A module is a pytree.

Tensors that are attributes are parameters; those made with `register_buffer` are buffers (statistics that are kept, not
learnt). Both are leaves of the tree, so that a module goes in and out of `jit`, `grad` and `vmap` like a dict of tensors. All other
attributes are static: a function is compiled anew when they change.

A transform hands the function it traces a copy of the module, made of tensors of that trace. What a call changes in the copy
(the statistics of batch normalisation) leaves the function as every result does: by being returned. A module from outside
cannot be changed in a trace; the mistake is told.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar

from planish.dtypes import DType
from planish.elsewhere import MODULE, hint_of_object
from planish.errors import DTypeError, GraphError, PlanishError, ShapeError, UnknownName, did_you_mean
from planish.frontend import tree
from planish.frontend.session import current_scope
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.foreign import accepting
from planish.frontend.tensor.mistaken import reporting
from planish.frontend.tree import Structure

M = TypeVar("M", bound="Module")
_OWN = ("_about", "_born", "_buffers", "_inner")
"""Attributes that are no part of the tree."""


@dataclass(frozen=True, slots=True)
class About:
    """A module without its tensors."""

    names: tuple[str, ...]
    """Of the attributes that are trees of tensors and modules."""
    buffers: tuple[tuple[str, bool], ...]
    """Names of those that are buffers, and whether they are saved."""
    static: tuple[tuple[str, Static], ...]


class Static:
    """An attribute that is no tensor; compared by value."""

    __slots__ = ("_key", "value")

    def __init__(self, value: object, where: str) -> None:
        self.value = value
        self._key = _frozen(value, where)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _frozen(value: object, where: str) -> Hashable:
    if isinstance(value, list | tuple):
        return type(value), tuple([_frozen(one, where) for one in value])
    if isinstance(value, dict):
        return dict, tuple((key, _frozen(one, where)) for key, one in value.items())
    try:
        hash(value)
    except TypeError:
        raise DTypeError.at_caller(
            f"{where} is a {type(value).__name__}, which cannot tell whether it changed",
            "make it a tensor, or something hashable such as a tuple",
        ) from None
    return type(value), value


def holds_tensors(value: object) -> bool:
    """Whether there is a tensor or module in something."""
    if isinstance(value, Tensor | Module):
        return True
    if isinstance(value, list | tuple):
        return any(map(holds_tensors, value))
    return isinstance(value, dict) and any(map(holds_tensors, value.values()))


_SCREEN: Final = 40
"""Lines that the text of a module takes at most."""


class Module:
    """The base of all modules: assign tensors and modules to attributes, and define `__call__`."""

    takes_key: ClassVar[bool] = False
    """Whether `__call__` takes a random key, as `key=`."""
    training: bool
    _about: About | None
    _born: object
    _buffers: dict[str, bool]
    _inner: frozenset[str]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        """An empty module: subclasses need not call `super().__init__()`."""
        module = object.__new__(cls)
        module.__dict__.update(
            _about=None, _born=current_scope(), _buffers={}, _inner=frozenset(), training=True
        )
        return module

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Every class of modules is a class of trees; keywords of its definition are attributes: `class Conv1d(_Conv, space=1)`."""
        super().__init_subclass__()
        for name, value in kwargs.items():
            setattr(cls, name, value)
        tree.register(cls, _apart, functools.partial(_make, cls))
        ours = cls.__module__.startswith(f"{__package__}.")
        if "__call__" in vars(cls):
            call = accepting(vars(cls)["__call__"], lists=ours)
            cls.__call__ = reporting(call) if ours else call  # type: ignore[method-assign]
        if ours and "__init__" in vars(cls):
            cls.__init__ = reporting(vars(cls)["__init__"])  # type: ignore[method-assign] # the same signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise PlanishError.at_caller(
            f"{type(self).__name__} does not define __call__",
            "what PyTorch calls forward is __call__ here" if "forward" in dir(type(self)) else None,
        )

    if not TYPE_CHECKING:
        # hidden from the type checker, which would otherwise accept any misspelt attribute

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if name.startswith("_"):
                raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
            valid = [each for each in dir(self) if not each.startswith("_")]
            raise UnknownName(f"a {kind.__name__}", name, lambda name: hint_of_object(MODULE, name, valid))

    def __setattr__(self, name: str, value: object) -> None:
        now = current_scope()
        if now is not None and now is not self._born:
            raise GraphError.at_caller(
                f"{type(self).__name__}.{name} is set while {now.what} traces a function that the module comes into from outside",
                "make the module an argument of that function, and return it if it changes",
            )
        values = self.__dict__
        if holds_tensors(value):
            values["_inner"] = self._inner | {name}
        elif value is not None and name in self._inner:
            # None stays a part of the tree: gradients have it for what has none.
            values["_inner"] = self._inner - {name}
        values[name] = value
        values["_about"] = None

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self.__dict__["_about"] = None

    def register_buffer(self, name: str, value: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is kept and saved with the module (if persistent), and not learnt."""
        self._buffers[name] = persistent
        setattr(self, name, value)

    # --- names ---

    def _own(self, buffers: bool) -> Iterator[tuple[str, Tensor]]:
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor) and (name in self._buffers) is buffers:
                yield name, value

    def children(self) -> dict[str, Module]:
        """The modules among the attributes; those in lists, tuples and dicts have names with dots."""
        modules: dict[str, Module] = {}

        def visit(name: str, value: object) -> None:
            if isinstance(value, Module):
                modules[name] = value
            elif isinstance(value, list | tuple):
                for number, one in enumerate(value):
                    visit(f"{name}.{number}", one)
            elif isinstance(value, dict):
                for key, one in value.items():
                    visit(f"{name}.{key}", one)

        for name, value in self.__dict__.items():
            if name not in _OWN:
                visit(name, value)
        return modules

    def modules(self) -> dict[str, Module]:
        """This module (under the empty name) and all below it."""
        by_path: dict[str, Module] = {}
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            path, module = stack.pop()
            by_path[path] = module
            stack += [
                (f"{path}.{name}" if path else name, c) for name, c in reversed(module.children().items())
            ]
        return by_path

    def parameters(self) -> dict[str, Tensor]:
        """What is learnt, by name."""
        return {
            f"{path}.{name}" if path else name: value
            for path, module in self.modules().items()
            for name, value in module._own(False)
        }

    def buffers(self) -> dict[str, Tensor]:
        """What is kept, by name."""
        return {
            f"{path}.{name}" if path else name: value
            for path, module in self.modules().items()
            for name, value in module._own(True)
        }

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and saved buffers, under the names that PyTorch gives them."""
        state: dict[str, Tensor] = {}
        for path, module in self.modules().items():
            prefix = f"{path}." if path else ""
            state.update((prefix + name, value) for name, value in module._own(False))
            state.update((prefix + name, value) for name, value in module._own(True) if module._buffers[name])
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Module:
        """Take over tensors (or arrays) by name. Unless `strict`, names may be missing or too many. The same module."""
        own = self.state_dict()
        missing, strange = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if strict and (missing or strange):
            hints = [f"{name!r} (did you mean {did_you_mean(name, missing)!r}?)" for name in strange[:3] if did_you_mean(name, missing)]  # fmt: skip
            raise ShapeError.at_caller(
                f"{type(self).__name__}: missing {_listed(missing)}; unexpected {_listed(strange)}",
                ", ".join(hints) or "strict=False takes what is there",
                op="load_state_dict",
            )
        modules = self.modules()
        ready: list[tuple[Module, str, Tensor]] = []
        for name, old in own.items():
            if name not in state:
                continue
            new = fn.asarray(state[name])
            if new.shape != old.shape:
                raise ShapeError.at_caller(
                    f"{name} is {old.shape} in the module, and {new.shape} in what is loaded",
                    op="load_state_dict",
                )
            path, _, last = name.rpartition(".")
            ready.append((modules[path], last, new.astype(old.dtype)))
        for module, last, new in ready:
            setattr(module, last, new)
        return self

    # --- the whole ---

    def train(self, mode: bool = True) -> Self:
        """Into training mode, with all modules below. The same module."""
        for module in self.modules().values():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Out of training mode. The same module."""
        return self.train(False)

    def astype(self, dtype: DType) -> Self:
        """A copy with floats of another dtype."""
        result: Self = tree.map_tree(lambda x: x.astype(dtype) if _is_float(x) else x, self)
        return result

    def extra_repr(self) -> str:
        """What is shown between the brackets: static attributes."""
        shown = [
            f"{name}={value!r}"
            for name, value in self.__dict__.items()
            if name not in _OWN and name not in self._inner and name != "training" and value is not None
        ]
        return ", ".join(shown)

    def __repr__(self) -> str:
        children = self.children()
        if not children:
            return f"{type(self).__name__}({self.extra_repr()})"
        # Equal neighbours are told once, as `(0-11): 12 x Block(…)`.
        lines = []
        for shown, run in itertools.groupby(children.items(), lambda item: repr(item[1])):
            names = [name for name, _ in run]
            head = f"({names[0]})" if len(names) == 1 else f"({names[0]}-{names[-1]})"
            count = "" if len(names) == 1 else f"{len(names)} x "
            lines.append(f"  {head}: {count}{shown}".replace("\n", "\n  "))
        whole = f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"
        told = whole.split("\n")
        if len(told) <= _SCREEN:
            return whole
        kept = told[: _SCREEN - 2]
        return "\n".join([*kept, f"  … {len(told) - _SCREEN + 1} lines more: print its children()", ")"])

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_about", "_born")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def _is_float(x: object) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_float


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown or "nothing"


# --- trees ------------------------------------------------------------------------------------------------


def _apart(module: Module) -> tuple[list[object], About]:
    values = module.__dict__
    about: About | None = values["_about"]
    if about is None:
        about = _describe(module)
    return [values[name] for name in about.names], about


def _describe(module: Module) -> About:
    values = module.__dict__
    names, static, fixed = [], [], True
    for name, value in values.items():
        if name in _OWN:
            continue
        # A list that was empty when it was assigned may hold modules by now.
        if name in module._inner or (isinstance(value, list | dict) and holds_tensors(value)):
            names.append(name)
        else:
            fixed = fixed and not isinstance(value, list | dict)
            static.append((name, Static(value, f"{type(module).__name__}.{name}")))
    about = About(tuple(names), tuple(module._buffers.items()), tuple(static))
    if fixed:
        values["_about"] = about
    return about


def _make(kind: type[Module], about: About, children: Sequence[object]) -> Module:
    module = object.__new__(kind)
    values = module.__dict__
    values.update(
        _about=about, _born=current_scope(), _buffers=dict(about.buffers), _inner=frozenset(about.names)
    )
    for name, static in about.static:
        values[name] = static.value
    values.update(zip(about.names, children, strict=True))
    return module


def parameter_mask(structure: Structure) -> list[bool]:
    """For each leaf of a tree whether it is learnt: all are but the buffers of modules."""
    mask: list[bool] = []

    def visit(part: Structure, learnt: bool) -> None:
        if part.kind is None:
            mask.append(learnt)
            return
        kept: frozenset[str] = frozenset()
        names: tuple[str, ...] = ()
        if isinstance(part.about, About):
            kept, names = frozenset(name for name, _ in part.about.buffers), part.about.names
        for number, child in enumerate(part.children):
            visit(child, learnt and not (names and names[number] in kept))

    visit(structure, True)
    return mask


def partition(module: M) -> tuple[M, M]:
    """A tree with the parameters alone and one with the buffers alone, None for the others. `combine` is the inverse."""
    leaves, structure = tree.flatten(module)
    mask = parameter_mask(structure)
    learnt = [leaf if chosen else None for leaf, chosen in zip(leaves, mask, strict=True)]
    kept = [None if chosen else leaf for leaf, chosen in zip(leaves, mask, strict=True)]
    return tree.unflatten(structure, learnt), tree.unflatten(structure, kept)


def combine(first: M, second: M) -> M:
    """The tree that has each leaf from the one that has it."""

    def both(one: object, other: object) -> object:
        if one is None:
            return other
        if isinstance(one, Tensor):
            return one
        if isinstance(one, Module) and isinstance(other, Module):
            about = _apart(one)[1]
            parts = [both(getattr(one, name), getattr(other, name)) for name in about.names]
            return _make(type(one), about, parts)
        if isinstance(one, dict) and isinstance(other, dict):
            return {key: both(value, other[key]) for key, value in one.items()}
        if isinstance(one, list | tuple) and isinstance(other, list | tuple):
            return type(one)([both(a, b) for a, b in zip(one, other, strict=True)])
        return one

    result: M = both(first, second)  # type: ignore[assignment] # built like the first
    return result


__all__ = [
    "Module", "combine", "parameter_mask", "partition",
]  # fmt: skip
