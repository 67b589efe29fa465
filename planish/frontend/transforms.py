"""Transforms of Python functions: gradients, products with Jacobians, Jacobians, and batches.

Each traces the function, rewrites what it computes as PTIR, and applies that where it was called; so they compose with each
other, with loops and with `jit` in any order. Arguments and results are trees of tensors.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from planish import ptir
from planish.errors import DTypeError, PlanishError, ShapeError
from planish.frontend import autodiff, tree
from planish.frontend.arguments import TensorSpec
from planish.frontend.flat import Flat, TracedTree, Tree, as_tensor, is_data, is_real_or_complex, own, shown
from planish.frontend.mapping import moved_to, vmap
from planish.frontend.session import current_scope
from planish.frontend.tensor.array import Tensor
from planish.frontend.tensor.creation import eye
from planish.frontend.tensor.mistaken import report_all
from planish.frontend.tensor.operands import broadcast, cast_to, constant
from planish.frontend.trace import inline, inline_known, own_names
from planish.frontend.vmap import batch
from planish.ptir import ops
from planish.ptir.dims import DimLike, product
from planish.ptir.types import TensorType
from planish.tracebacks import short_tracebacks

Function = Callable[..., Any]
Argnums = int | Sequence[int]


# -- arguments -------------------------------------------------------------------------------------------------


def _numbers(what: str, argnums: Argnums, count: int) -> list[int]:
    """Which arguments to differentiate by, counted from the front."""
    given = [argnums] if isinstance(argnums, int) else list(argnums)
    numbers = []
    for number in given:
        if not -count <= number < count:
            raise PlanishError.of(what, f"argnums has {number}, and there are {count} positional arguments",
                "give the arguments to differentiate by in their place, not by keyword",
            )  # fmt: skip
        numbers.append(operator.index(number) % count)
    if len(set(numbers)) != len(numbers):
        raise PlanishError.of(what, f"argnums {tuple(given)} names an argument twice")
    return numbers


class _Chosen:
    """The arguments to differentiate by, and how to call the function with others in their place."""

    def __init__(self, what: str, argnums: Argnums, args: Sequence[Tree], kwargs: dict[str, Tree]) -> None:
        self.one = isinstance(argnums, int)
        self.numbers = _numbers(what, argnums, len(args))
        self.args, self.kwargs = args, kwargs
        self.flat = Flat([args[number] for number in self.numbers], what)
        self.moving = [n for n, type in enumerate(self.flat.types) if is_real_or_complex(type)]
        """Of its tensors, those that can have a derivative."""
        if not self.moving:
            kinds = [
                shown(leaf._type) if isinstance(leaf, Tensor) else _kind(leaf) for leaf in self.flat.leaves
            ]
            raise DTypeError.of(what, f"argument {argnums} holds {', '.join(kinds) or 'nothing'}: that has no derivative",
                "convert it to a float, or name other arguments in argnums",
            )  # fmt: skip

    @property
    def inputs(self) -> list[Tensor]:
        """What to differentiate by."""
        return [self.flat.tensors[n] for n in self.moving]

    @property
    def types(self) -> list[TensorType]:
        """Their types."""
        return [self.flat.types[n] for n in self.moving]

    def call(self, function: Function, params: Sequence[Tensor]) -> Tree:
        replaced = [arg if n in self.numbers else own(arg) for n, arg in enumerate(self.args)]
        tensors = [x.snapshot() for x in self.flat.tensors]
        for place, param in zip(self.moving, params, strict=True):
            tensors[place] = param
        for number, part in zip(self.numbers, self.flat.rebuilt(tensors), strict=True):
            replaced[number] = part
        return function(*replaced, **{name: own(arg) for name, arg in self.kwargs.items()})

    def result(self, gradients: Sequence[Tensor]) -> Tree:
        """Gradients as the user sees them: a tree like the argument, or one for each; None for what has none."""
        leaves: list[Tensor | None] = [None] * len(self.flat.leaves)
        for place, gradient in zip(self.moving, gradients, strict=True):
            leaves[self.flat.places[place]] = gradient
        parts = tree.unflatten(self.flat.structure, leaves)
        return parts[0] if self.one else tuple(parts)


def _with_aux(what: str, returned: Tree, has_aux: bool) -> tuple[Tree, Tree]:
    """What a function returned, and what it returned besides."""
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise PlanishError.of(
            what, f"with has_aux the function has to return a pair (value, aux), not {_kind(returned)}"
        )
    return returned


def _kind(value: Tree) -> str:
    return shown(value._type) if isinstance(value, Tensor) else f"a {type(value).__name__}"


# -- gradients -------------------------------------------------------------------------------------------------


def value_and_grad(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the value of another, which has to be one real number, and its gradient.

    `argnums` says by which arguments: one (the gradient is a tree like it) or several (a tuple of such). What an argument
    holds besides floats and complex numbers has None for a gradient. With `has_aux` the function returns a pair, of which
    only the first is differentiated, and the value is that pair.
    """
    _checked("value_and_grad", function)

    @_wraps(function)
    def value_and_gradient(*args: Tree, **kwargs: Tree) -> tuple[Tree, Tree]:
        value, aux, gradient = _gradient("value_and_grad", function, argnums, has_aux, args, kwargs)
        return ((value, aux) if has_aux else value), gradient

    return value_and_gradient


def grad(function: Function, argnums: Argnums = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of another, which has to give one real number.

    With `has_aux` it gives a pair: the gradient, and what the function returns besides. See `value_and_grad`.
    """
    _checked("grad", function)

    @_wraps(function)
    def gradient(*args: Tree, **kwargs: Tree) -> Tree:
        _, aux, gradients = _gradient("grad", function, argnums, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    return gradient


def _checked(what: str, function: Function) -> None:
    if not callable(function):
        raise DTypeError.of(
            what, f"takes a function, not {_kind(function)}", f"{what}(f)(x), not {what}(f(x))"
        )


def _wraps(function: Function) -> Callable[[Function], Function]:
    return lambda wrapper: functools.wraps(function, updated=())(short_tracebacks(wrapper))


def _gradient(
    what: str,
    function: Function,
    argnums: Argnums,
    has_aux: bool,
    args: Sequence[Tree],
    kwargs: dict[str, Tree],
) -> tuple[Tensor, Tree, Tree]:
    chosen = _Chosen(what, argnums, args, kwargs)
    aux: list[Flat] = []

    def call(params: Sequence[Tensor]) -> list[Tensor]:
        value, besides = _with_aux(what, chosen.call(function, params), has_aux)
        aux.append(Flat(besides))
        return [_one_number(what, value), *aux[0].tensors]

    traced = TracedTree(what, call, chosen.types, arguments=chosen.inputs)
    primal, free = traced.captured()
    program = autodiff.vjp(primal, range(len(chosen.moving)), [0])
    one = constant(1, program.results[0].type.dtype)
    value, *rest = inline(program, [*chosen.inputs, *free, one])
    besides = len(aux[0].places)
    return value, aux[0].rebuilt(rest[:besides]), chosen.result(rest[besides:])


def _one_number(what: str, value: Tree) -> Tensor:
    if not is_data(value):
        raise DTypeError.of(what, f"the function has to return one real number, not {_kind(value)}",
            "return the loss alone, or (loss, aux) with has_aux=True",
        )  # fmt: skip
    number = as_tensor(what, value)
    if number._type.dims:
        raise ShapeError.of(what, f"the function has to return one number, not {shown(number._type)}",
            "reduce it (sum, mean), or use vjp, jacrev or jacfwd",
        )  # fmt: skip
    if not number.dtype.is_float:
        raise DTypeError.of(what, f"the function has to return a real number, not {number.dtype.name}",
            "take the real part, or the absolute value; integers have no derivative",
        )  # fmt: skip
    return number


# -- products with Jacobians -----------------------------------------------------------------------------------


def vjp(function: Function, *args: Tree, has_aux: bool = False) -> tuple[Any, ...]:
    """What a function gives, and how to pull a cotangent of it back to its arguments.

    That is (result, pull), or with `has_aux` (result, pull, aux). `pull` takes a tree like the result and gives a tuple of trees like the arguments, with None for what has no derivative.
    """
    what = "vjp"
    given = Flat(args, what)
    main, aux, primal, free = _both(what, function, given, has_aux)
    count = len(main.places)
    moving = [n for n, type in enumerate(given.types) if is_real_or_complex(type)]
    program = autodiff.vjp(primal, moving, range(count))
    inputs = [*given.tensors, *free]
    values = dict(zip(program.params[: len(inputs)], inputs, strict=True))
    inline_known(program, values)
    for x in values.values():
        x._value.shared = True  # by the way back, which may come late
    results = own_names([values[result] for result in program.results[: len(primal.results)]], inputs)
    types = [x._type for x in results[:count]]

    def pull(cotangent: Tree) -> tuple[Tree, ...]:
        given_back = _alike("the cotangent", what, cotangent, main, types)
        pulled = values | dict(zip(program.params[len(inputs) :], given_back, strict=True))
        taken = list(pulled.values())
        inline_known(program, pulled)
        gradients = [pulled[result] for result in program.results[len(primal.results) :]]
        leaves: list[Tensor | None] = [None] * len(given.leaves)
        for number, cotangents in zip(moving, own_names(gradients, taken), strict=True):
            leaves[given.places[number]] = cotangents
        return tuple(tree.unflatten(given.structure, leaves))

    result = main.rebuilt(results[:count])
    return (result, pull, aux.rebuilt(results[count:])) if has_aux else (result, pull)


def _both(
    what: str, function: Function, given: Flat, has_aux: bool
) -> tuple[Flat, Flat, ptir.Function, tuple[Tensor, ...]]:
    """A function traced: what it returned, what besides, both together as PTIR, and the tensors from outside."""
    flats: list[Flat] = []

    def call(params: Sequence[Tensor]) -> list[Tensor]:
        result, besides = _with_aux(what, function(*given.rebuilt(params)), has_aux)
        flats[:] = Flat(result, what), Flat(besides)
        return [x for part in flats for x in part.tensors]

    primal, free = TracedTree(what, call, given.types, arguments=given.tensors).captured()
    return flats[0], flats[1], primal, free


def _alike(name: str, what: str, given: Tree, model: Flat, types: Sequence[TensorType]) -> list[Tensor]:
    """The leaves of a tree that has to be like another one, those for floats and complex numbers."""
    leaves = tree.aligned(given, model.structure)
    if leaves is None:
        raise PlanishError.of(what, f"{name} is a tree {tree.flatten(given)[1]}, not {model.structure}")
    tensors = []
    for place, type in zip(model.places, types, strict=True):
        if not is_real_or_complex(type):
            continue
        x = as_tensor(what, leaves[place])
        if x._type.dims != type.dims or x.dtype.is_complex > type.dtype.is_complex:
            raise ShapeError.of(what, f"{name} is {shown(x._type)}, and belongs to {shown(type)}")
        tensors.append(cast_to(x, type.dtype))
    return tensors


def jvp(
    function: Function, primals: Sequence[Tree], tangents: Sequence[Tree], has_aux: bool = False
) -> tuple[Any, ...]:
    """What a function gives, and the tangent of it: (result, tangent), or with `has_aux` (result, tangent, aux).

    `tangents` is a tree like the arguments; what cannot move has None for a tangent.
    """
    what = "jvp"
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise PlanishError.of(what, "arguments and tangents come in tuples", "jvp(f, (x,), (t,))")
    given = Flat(tuple(primals), what)
    moved = _alike("a tangent", what, tuple(tangents), given, given.types)
    main, aux, primal, free = _both(what, function, given, has_aux)
    moving = [n for n, type in enumerate(given.types) if is_real_or_complex(type)]
    program = autodiff.jvp(primal, moving)
    outputs = inline(program, [*given.tensors, *free, *moved])
    count = len(primal.results)
    own = iter(outputs[count:])
    pairs = [next(own) if is_real_or_complex(result.type) else None for result in primal.results]
    first = len(main.places)
    result, tangent = main.rebuilt(outputs[:first]), main.rebuilt(pairs[:first])
    return (result, tangent, aux.rebuilt(outputs[first:count])) if has_aux else (result, tangent)


def linearize(function: Function, *primals: Tree) -> tuple[Any, Function]:
    """What a function gives, and its derivative there: a function of tangents, which computes nothing again that is known."""
    what = "linearize"
    given = Flat(tuple(primals), what)
    main, _, primal, free = _both(what, function, given, has_aux=False)
    moving = [n for n, type in enumerate(given.types) if is_real_or_complex(type)]
    program = autodiff.jvp(primal, moving)
    inputs = [*given.tensors, *free]
    known = dict(zip(program.params[: len(inputs)], inputs, strict=True))
    inline_known(program, known)
    count = len(primal.results)

    def linear(*tangents: Tree) -> Tree:
        moved = _alike("a tangent", what, tuple(tangents), given, given.types)
        values = known | dict(zip(program.params[len(inputs) :], moved, strict=True))
        inline_known(program, values)
        own = iter(program.results[count:])
        pairs = [values[next(own)] if is_real_or_complex(result.type) else None for result in primal.results]
        return main.rebuilt([None if x is None else x.snapshot() for x in pairs])

    return main.rebuilt([known[result].snapshot() for result in program.results[:count]]), linear


def eval_shape(function: Function, *args: Tree, **kwargs: Tree) -> Tree:
    """The shapes and dtypes that a function gives, as a tree of `TensorSpec`s; nothing is computed. Arguments may be specs."""
    what = "eval_shape"
    leaves, structure = tree.flatten((args, kwargs))
    leaves = [as_tensor(what, leaf) if is_data(leaf) else leaf for leaf in leaves]
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor | TensorSpec)]
    types = [leaf._type if isinstance(leaf, Tensor) else leaf.type for leaf in (leaves[n] for n in places)]

    def call(params: Sequence[Tensor]) -> Tree:
        for place, param in zip(places, params, strict=True):
            leaves[place] = param
        positional, named = tree.unflatten(structure, leaves)
        return function(*positional, **named)

    result = TracedTree(what, call, types).result
    return result.rebuilt([TensorSpec(type.dims, type.dtype) for type in result.types])


# -- Jacobians -------------------------------------------------------------------------------------------------


def jacrev(function: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the Jacobian of another, row by row: for few results of many arguments.

    It is a tree like the result, of trees like the argument (of tuples of such, for several), of tensors with the axes of
    the result and then those of the argument.
    """
    _checked("jacrev", function)

    @_wraps(function)
    def jacobian(*args: Tree, **kwargs: Tree) -> Tree:
        chosen, traced, primal, free = _jacobian_parts("jacrev", function, argnums, args, kwargs)
        inputs = [*chosen.inputs, *free]
        count = len(chosen.moving)
        rows = []
        for number, result in enumerate(primal.results):
            _moves("jacrev", result.type)
            program = autodiff.vjp(primal, range(count), [number])
            parts = _along_basis(program, inputs, result.type)[len(primal.results) :]
            pairs = zip(parts, chosen.types, strict=True)
            rows.append(
                chosen.result([_reshaped(part, (*result.type.dims, *type.dims)) for part, type in pairs])
            )
        return traced.result.rebuilt(rows)

    return jacobian


def jacfwd(function: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the Jacobian of another, column by column: for many results of few arguments. See `jacrev`."""
    _checked("jacfwd", function)

    @_wraps(function)
    def jacobian(*args: Tree, **kwargs: Tree) -> Tree:
        chosen, traced, primal, free = _jacobian_parts("jacfwd", function, argnums, args, kwargs)
        inputs = [*chosen.inputs, *free]
        columns = []
        for number, x in enumerate(chosen.inputs):
            program = autodiff.jvp(primal, [number])
            parts = _along_basis(program, inputs, x._type)[len(primal.results) :]
            columns.append([_last(part, x._type.dims) for part in parts])
        for result in primal.results:
            _moves("jacfwd", result.type)
        rows = [chosen.result([column[n] for column in columns]) for n in range(len(primal.results))]
        return traced.result.rebuilt(rows)

    return jacobian


def hessian(function: Function, argnums: Argnums = 0) -> Function:
    """A function that gives the second derivatives of another: the Jacobian of its gradient."""
    return jacfwd(jacrev(function, argnums), argnums)


def _jacobian_parts(
    what: str, function: Function, argnums: Argnums, args: Sequence[Tree], kwargs: dict[str, Tree]
) -> tuple[_Chosen, TracedTree, ptir.Function, tuple[Tensor, ...]]:
    chosen = _Chosen(what, argnums, args, kwargs)
    traced = TracedTree(
        what, lambda params: chosen.call(function, params), chosen.types, arguments=chosen.inputs
    )
    return chosen, traced, *traced.captured()


def _moves(what: str, type: TensorType) -> None:
    if not is_real_or_complex(type):
        raise DTypeError.of(
            what, f"the function returns {shown(type)}, which has no derivative", "return floats alone"
        )


def _along_basis(program: ptir.Function, inputs: Sequence[Tensor], type: TensorType) -> list[Tensor]:
    """A function at all unit vectors of its last parameter at once; every result with an axis in front for them."""
    size = product(type.dims)
    if not isinstance(size, int):
        raise ShapeError.of(program.name, f"the Jacobian of {shown(type)} has no fixed size")
    basis = _reshaped(eye(size, dtype=type.dtype), (size, *type.dims))
    batched, flags = batch(program, [*[False] * len(inputs), True], size, guards=current_scope() is not None)
    values = inline(batched, [*inputs, basis])
    return [x if flag else broadcast(x, (size, *x._type.dims)) for x, flag in zip(values, flags, strict=True)]


def _reshaped(x: Tensor, dims: Sequence[DimLike]) -> Tensor:
    return (
        x
        if x._type.dims == tuple(dims)
        else Tensor.apply(ops.reshape, x, attrs=ops.ReshapeAttrs(tuple(dims)))
    )


def _last(x: Tensor, dims: Sequence[DimLike]) -> Tensor:
    """The first axis to the end, and there as these."""
    moved = moved_to(x, 0, x.ndim - 1)
    return _reshaped(moved, (*moved._type.dims[:-1], *dims))


__all__ = ["grad", "hessian", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp", "vmap"]

report_all(globals(), (*__all__, "eval_shape", "linearize"))
