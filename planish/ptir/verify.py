"""The verifier: every invariant of a program, each under its name.

Of the data structure:

- `links`: neighbouring instructions know each other, stand in the region they are reached from, their order labels
  grow, and the region counts them right.
- `regions`: a region knows the instruction and the function it belongs to, and belongs to one place only.
- `ids`: ids of instructions and of values are unique within a function and below its counters.
- `definition`: a result or parameter knows what defines it and at which position; a value is defined once.
- `uses`: the users a value lists are exactly the instructions that have it as an operand, as often as they have.
- `terminator`: a region ends in its own `return`, and `return` stands nowhere else.

Of the program:

- `dominance`: an operand is defined before it is used: earlier in the same region, or earlier around it.
- `visibility`: an operand belongs to this function, and not to a region that has ended.
- `arity`: an instruction has as many operands and regions as its op takes, and as many results as it gives.
- `attributes`: attributes are of the op's record, and each field is of its declared type.
- `element-type`: a tensor holds bools or numbers; a quantised one small integers, with a float dtype, scales and zero
  points that fit its shape.
- `types`: result types are what inference says.
- `region-types`: parameters and results of the regions of `cond`, `while` and `scan` fit their instruction.
- `op`: whatever else the op demands.
- `dims`: a named size is known where it appears: from a parameter, from the region it is in, or from an instruction before
  (`bind_dim`, calls); it has one pair of bounds throughout a function.
- `calls`: a callee exists and takes and gives the types of the call.
- `functions`: functions are listed under their names, and the entry is one of them.

`problems` finds them all in one pass over the program, linear in its size; `verify` raises them as one error, whose
note shows the lines with the problems under them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from planish.errors import PlanishError, VerifyError
from planish.ptir import ops
from planish.ptir.fields import record_of
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.ops.checking import FLOATS, INTS, ROUNDED
from planish.ptir.ops.definition import RETURN, NoAttrs, arity_text
from planish.ptir.printer import symbols_in
from planish.ptir.problems import BrokenInvariant, is_tangled, windows
from planish.ptir.types import Dim, DimLike, Quant, Symbol, TensorType

RULES: Final = (
    "links", "regions", "ids", "definition", "uses", "terminator", "dominance", "visibility", "arity", "attributes",
    "element-type", "types", "region-types", "op", "dims", "calls", "functions",
)  # fmt: skip

_BINDS_SIZES: Final = (ops.BindDimAttrs, ops.CallAttrs, ops.CustomCallAttrs)


def verify(item: Program | Function) -> None:
    """Raise a `VerifyError` that lists every broken invariant; a function alone may call what is not there."""
    broken = problems(item)
    if not broken:
        return
    what = f"function @{item.name}" if isinstance(item, Function) else "the program"
    count = "one rule" if len(broken) == 1 else f"rules in {len(broken)} places"
    error = VerifyError(
        f"{what} breaks {count}", [str(problem) for problem in broken], location=broken[0].location
    )
    for window in windows(broken):
        error.add_note(window)
    raise error


def problems(item: Program | Function) -> list[BrokenInvariant]:
    """Every broken invariant."""
    if isinstance(item, Function):
        return _FunctionVerifier(item).run()
    broken: list[BrokenInvariant] = []
    for name, function in item.functions.items():
        if function.name != name:
            broken.append(
                BrokenInvariant("functions", f"the function listed as {name!r} is @{function.name}")
            )
    if item.functions and item.entry_name not in item.functions:
        broken.append(
            BrokenInvariant("functions", f"the entry {item.entry_name!r} is not among the functions")
        )
    for function in item.functions.values():
        its = _FunctionVerifier(function).run()
        broken += its
        if not is_tangled(its):
            broken += _call_problems(function, item)
            broken += _layout_problems(function)
    return broken


def _layout_problems(function: Function) -> Iterator[BrokenInvariant]:
    """A layout must say how each parameter and result lies, axis by axis."""
    layout = function.layout
    if layout is None:
        return
    for what, values, specs in (
        ("parameters", function.params, layout.params),
        ("results", function.results, layout.results),
    ):
        if [value.type.rank for value in values] != [len(spec) for spec in specs]:
            yield BrokenInvariant("functions", f"the layout has {specs} for {what} of other ranks", function)


# --- one function -----------------------------------------------------------------------------------------


class _RegionScope:
    """A region being walked, and what becomes unknown when it ends."""

    __slots__ = ("current", "dims", "insts", "next_region", "region", "values")

    def __init__(self, region: Region, insts: list[Inst]) -> None:
        self.region = region
        self.insts = iter(insts)
        self.current: Inst | None = None
        """The instruction whose regions are being entered one after the other."""
        self.next_region = 0
        self.values: list[Value] = []
        self.dims: list[str] = []


class _FunctionVerifier:
    """One walk over a function; instructions are checked before their regions, typed after them."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.broken: list[BrokenInvariant] = []
        self.about: Inst | None = None
        """The instruction that problems are found with."""
        self.visible: set[Value] = set()
        self.defined: dict[Value, Inst | None] = {}
        self.inst_ids: set[int] = set()
        self.value_ids: set[int] = set()
        self.uses: dict[Value, dict[Inst, int]] = {}
        self.regions: set[Region] = set()
        self.reached: set[Inst] = set()
        self.known: set[str] = set()
        """The named sizes in force."""
        self.bounds: dict[str, Symbol] = {}
        """Every name of a size met so far, as it was met first."""
        self.types: set[TensorType] = set()
        """Types looked at already."""

    def add(self, rule: str, message: str) -> None:
        self.broken.append(BrokenInvariant(rule, message, self.function, self.about))

    def run(self) -> list[BrokenInvariant]:
        stack = [self.enter(self.function.body, None)]
        while stack:
            scope = stack[-1]
            inst = scope.current
            if inst is not None:
                if scope.next_region < len(inst.regions):
                    region = inst.regions[scope.next_region]
                    scope.next_region += 1
                    self.about = inst
                    if region in self.regions:
                        self.add("regions", "one of its regions belongs to two places")
                    else:
                        stack.append(self.enter(region, inst))
                    continue
                self.after_regions(scope, inst)
                scope.current = None
            inst = next(scope.insts, None)
            if inst is None:
                self.leave(stack.pop())
            else:
                self.before_regions(inst)
                scope.current = inst
                scope.next_region = 0
        self.check_uses()
        return self.broken

    # --- regions ---

    def enter(self, region: Region, owner: Inst | None) -> _RegionScope:
        self.regions.add(region)
        if region.owner is not owner or region.function is not self.function:
            self.add("regions", "a region does not know its instruction or function")
        scope = _RegionScope(region, self.chain(region))
        for index, value in enumerate(region.args):
            if value.owner is not region or value.index != index or value.def_inst is not None:
                self.add("definition", f"parameter {_name(value)} does not know its region or position")
            # Sizes of parameters are bound from the arguments.
            self.bind(scope, value.type)
            self.define(scope, value)
        return scope

    def chain(self, region: Region) -> list[Inst]:
        """The instructions of a region, as far as its links lead."""
        end = region.end
        insts: list[Inst] = []
        here = end
        while here.next is not end:
            following = here.next
            if following in self.reached:
                self.add("links", f"{following!r} is reached twice")
                return insts
            self.reached.add(following)
            if following.prev is not here:
                self.add("links", f"{following!r} does not know the instruction before it")
            if following.parent is not region:
                self.add("links", f"{following!r} does not know the region it stands in")
            if here is not end and following.order <= here.order:
                self.add("links", f"{following!r} is ordered before {here!r} and stands after it")
            insts.append(following)
            here = following
        if end.prev is not here:
            self.add("links", "the end of a region does not know the instruction before it")
        if len(insts) != region.count:
            self.add("links", f"a region counts {region.count} instructions and has {len(insts)}")
        return insts

    def leave(self, scope: _RegionScope) -> None:
        region = scope.region
        end = self.about = region.end
        if end.op is not RETURN or end.parent is not region or end.results or end.regions:
            self.add("terminator", f"a region ends in {end!r}, not in its own return")
        self.check_inst_id(end)
        self.check_operands(end)
        for value in scope.values:
            self.visible.discard(value)
        self.known.difference_update(scope.dims)
        self.about = region.owner

    # --- instructions ---

    def before_regions(self, inst: Inst) -> None:
        self.about = inst
        self.check_inst_id(inst)
        self.check_operands(inst)
        if inst.op is RETURN:
            self.add("terminator", "return stands in the middle of a region")

    def after_regions(self, scope: _RegionScope, inst: Inst) -> None:
        self.about = inst
        shaped = self.check_shape(inst)
        attrs_right = self.check_attributes(inst)
        if isinstance(inst.attrs, _BINDS_SIZES):
            for value in inst.results:
                self.bind(scope, value.type)
        if type(inst.attrs) is not NoAttrs:
            self.check_dims("an attribute", inst.attrs)
        if shaped and attrs_right and self.check_types(inst) and inst.op.verify is not None:
            for message in inst.op.verify(inst):
                self.add("op", message)
        for index, value in enumerate(inst.results):
            if value.def_inst is not inst or value.index != index or value.owner is not None:
                self.add("definition", f"result {_name(value)} does not know its instruction or position")
            self.define(scope, value)

    def check_inst_id(self, inst: Inst) -> None:
        if inst.id in self.inst_ids:
            self.add("ids", f"the instruction id {inst.id} is there twice")
        elif inst.id >= self.function._next_inst:
            self.add(
                "ids", f"the instruction id {inst.id} is not below the counter {self.function._next_inst}"
            )
        self.inst_ids.add(inst.id)

    def define(self, scope: _RegionScope, value: Value) -> None:
        """A value comes into force."""
        if value in self.defined:
            self.add("definition", f"{_name(value)} is defined twice")
            return
        if value.id in self.value_ids:
            self.add("ids", f"the value id {value.id} is there twice")
        elif value.id >= self.function._next_value:
            self.add("ids", f"the value id {value.id} is not below the counter {self.function._next_value}")
        self.value_ids.add(value.id)
        self.defined[value] = self.about
        self.visible.add(value)
        scope.values.append(value)
        if value.type not in self.types:
            self.types.add(value.type)
            problem = _type_problem(value.type)
            if problem is not None:
                self.add("element-type", f"{_name(value)}: {problem}")
        if not value.type.is_static:
            self.check_dims(_name(value), value.type)

    def check_operands(self, inst: Inst) -> None:
        for value in inst.operands:
            counts = self.uses.setdefault(value, {})
            counts[inst] = counts.get(inst, 0) + 1
            if value in self.visible:
                continue
            region = value.region
            if value in self.defined:
                self.add("visibility", f"{_name(value)} is defined inside a region that has ended")
            elif region is None:
                self.add("visibility", f"{_name(value)} is defined by an instruction that was erased")
            elif region.function is not self.function:
                self.add("visibility", f"{_name(value)} belongs to function @{region.function.name}")
            else:
                self.add("dominance", f"{_name(value)} is used before it is defined")

    def check_shape(self, inst: Inst) -> bool:
        """Numbers of operands, regions and results."""
        op = inst.op
        before = len(self.broken)
        count = len(inst.operands)
        if count < op.min_operands or (op.max_operands is not None and count > op.max_operands):
            self.add("arity", f"{op.name} takes {arity_text(op)}, not {count}")
        if op.num_regions is not None and len(inst.regions) != op.num_regions:
            self.add("arity", f"{op.name} takes {op.num_regions} regions, not {len(inst.regions)}")
        if op.num_results is not None and len(inst.results) != op.num_results:
            self.add("arity", f"{op.name} gives {op.num_results} results, not {len(inst.results)}")
        return len(self.broken) == before

    def check_attributes(self, inst: Inst) -> bool:
        kind = inst.op.attrs_type
        if type(inst.attrs) is not kind:
            self.add("attributes", f"{inst.op.name} takes {kind.__name__}, not {type(inst.attrs).__name__}")
            return False
        if kind is NoAttrs:
            return True
        wrong = record_of(kind).wrong_fields(inst.attrs)
        for name in wrong:
            self.add("attributes", f"{name} cannot be {getattr(inst.attrs, name)!r}")
        return not wrong

    def check_types(self, inst: Inst) -> bool:
        op = inst.op
        rule = "region-types" if inst.regions else "types"
        try:
            types = op.result_types([value.type for value in inst.operands], inst.attrs, inst.regions)
        except PlanishError as error:
            remedy = "" if error.remedy is None else f"; {error.remedy}"
            self.add(rule, f"{op.name}: {error.message}{remedy}")
            return False
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.add(rule, f"{op.name}: inference fails with {type(error).__name__}: {error}")
            return False
        stated = tuple([value.type for value in inst.results])
        if types != stated:
            self.add("types", f"{op.name} gives {_show(types)}, not {_show(stated)}")
            return False
        return True

    # --- sizes ---

    def bind(self, scope: _RegionScope, type: TensorType) -> None:
        """The named sizes of a type become known."""
        for symbol in type.symbols():
            if symbol.name not in self.known:
                self.known.add(symbol.name)
                scope.dims.append(symbol.name)

    def check_dims(self, what: str, holder: object) -> None:
        for symbol in dict.fromkeys(symbols_in(holder)):
            first = self.bounds.setdefault(symbol.name, symbol)
            if first != symbol:
                self.add("dims", f"{what} has {symbol!r}, elsewhere it is {first!r}")
            if symbol.name not in self.known:
                self.add("dims", f"{what} has the size {symbol.name}, which is not known here")

    # --- uses ---

    def check_uses(self) -> None:
        nobody: dict[Inst, int] = {}
        for value, definer in self.defined.items():
            real = self.uses.get(value, nobody)
            if value.users != real:
                self.about = definer
                self.add("uses", f"{_name(value)} lists as users {_users(value.users)}, not {_users(real)}")


def _name(value: Value) -> str:
    return f"%{value.id}" if value.name is None else f"%{value.name}"


def _show(types: Sequence[TensorType]) -> str:
    return ", ".join(str(type) for type in types) or "nothing"


def _users(users: dict[Inst, int]) -> str:
    return ", ".join(f"{inst!r} {count}×" for inst, count in users.items()) or "nobody"


def _type_problem(type: TensorType) -> str | None:
    if type.dtype not in ROUNDED:
        return f"a tensor cannot hold {type.dtype.short}"
    return None if type.quant is None else _quant_problem(type, type.quant)


def _quant_problem(type: TensorType, quant: Quant) -> str | None:
    if type.dtype not in INTS or type.dtype.bits > 32:
        return f"quantised values cannot be stored as {type.dtype.short}"
    if quant.expressed not in FLOATS:
        return f"quantised values cannot stand for {quant.expressed.short}"
    size: DimLike = 1
    if quant.axis is not None:
        if not 0 <= quant.axis < type.rank:
            return f"{type} has no axis {quant.axis} for its scales"
        size = type.dims[quant.axis]
    if len(quant.scale) != size or len(quant.zero_point) != size:
        return f"{type} has {len(quant.scale)} scales and {len(quant.zero_point)} zero points, not {size} of each"
    return None


# --- calls ------------------------------------------------------------------------------------------------


def _call_problems(function: Function, program: Program) -> Iterator[BrokenInvariant]:
    for inst in function.walk():
        attrs = inst.attrs
        if not isinstance(attrs, ops.CallAttrs):
            continue
        callee = program.functions.get(attrs.callee)
        if callee is None:
            known = ", ".join(f"@{name}" for name in program.functions)
            yield BrokenInvariant(
                "calls", f"there is no function @{attrs.callee}; there are {known}", function, inst
            )
            continue
        sizes: dict[str, DimLike] = {}
        given = [value.type for value in inst.operands]
        message = _mismatch("takes", callee.param_types, given, sizes) or _mismatch(
            "gives", callee.result_types, [value.type for value in inst.results], sizes
        )
        if message is not None:
            yield BrokenInvariant("calls", f"@{callee.name} {message}", function, inst)


def _mismatch(
    verb: str, formal: Sequence[TensorType], actual: Sequence[TensorType], sizes: dict[str, DimLike]
) -> str | None:
    """Why types do not fit those of a callee, whose named sizes are learned into `sizes`; None if they do."""
    if len(formal) == len(actual):
        for wanted, type in zip(formal, actual, strict=True):
            for dim, size in zip(wanted.dims, type.dims, strict=False):
                if isinstance(dim, Dim) and dim.name is not None:
                    sizes.setdefault(dim.name, size)
                    low, high = (size, size) if isinstance(size, int) else (size.lo, size.hi)
                    if low < dim.lo or high > dim.hi:
                        return f"{verb} {dim.declaration}, not {size} in {low}..{high}"
    if [wanted.substitute(sizes) for wanted in formal] != list(actual):
        return f"{verb} {_show(formal)}, not {_show(actual)}"
    return None


__all__ = ["RULES", "BrokenInvariant", "problems", "verify", "windows"]
