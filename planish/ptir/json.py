"""The JSON form of the graph IR: `loads(dumps(p))` is `p` again, ids and locations included.

    {"ptir": 1, "entry": "f", "functions": [
      {"name": "f", "dims": {"B": [1, 64]},
       "args": [{"id": 0, "type": "tensor<f32, B>", "name": "x"}],
       "body": [{"id": 1, "op": "reduce_sum", "operands": [0], "attrs": {"axes": [0]},
                 "results": [{"id": 1, "type": "tensor<f32>"}]}],
       "end": {"id": 0, "operands": [1]}}]}

Values are named by their ids, which are unique within a function; types, dtypes and sizes are strings as in the
text form, attributes objects with their fields (`ptir/fields.py`). Fields that hold nothing are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from planish.errors import GraphError, Location, ParseError, PlanishError, did_you_mean
from planish.ptir.codec import Dims, Json, bad_json, of_kind
from planish.ptir.fields import record_of
from planish.ptir.function import Function, Inst, Program, Region, Value
from planish.ptir.ops.collective import MeshLayout
from planish.ptir.ops.definition import NO_ATTRS, REGISTRY, RETURN, Attrs, NoAttrs
from planish.ptir.parser import MAX_NESTING
from planish.ptir.printer import symbols_in
from planish.ptir.reader import PtirReader
from planish.ptir.types import Dim, TensorType

VERSION: Final = 1

Record = dict[str, Json]


# --- writing ----------------------------------------------------------------------------------------------


def dumps(item: Program | Function, *, indent: int | None = None) -> str:
    """A program, or a function as the program of which it is the only one."""
    program = item if isinstance(item, Program) else Program([item])
    record: Record = {
        "ptir": VERSION,
        "entry": program.entry_name,
        "functions": [_function_record(function) for function in program],
    }
    return json.dumps(record, indent=indent, allow_nan=False)


def _function_record(function: Function) -> Record:
    dims: Record = {}
    for value in function.values():
        _declare(dims, value.type)
    for inst in function.walk():
        _declare(dims, inst.attrs)
    record: Record = {"name": function.name}
    if dims:
        record["dims"] = dims
    if function.loc is not None:
        record["loc"] = _location_record(function.loc)
    if function.layout is not None:
        record["layout"] = cast("Json", record_of(MeshLayout).dump(function.layout))
    record["next"] = [function._next_inst, function._next_value]
    record.update(_region_record(function.body))
    return record


def _declare(dims: Record, holder: object) -> None:
    for symbol in symbols_in(holder):
        if dims.setdefault(symbol.name, [symbol.lo, symbol.hi]) != [symbol.lo, symbol.hi]:
            raise GraphError(
                f"the dimension {symbol.name} has two pairs of bounds", remedy="verify the program"
            )


def _region_record(region: Region, depth: int = 0) -> Record:
    if depth > MAX_NESTING:
        raise GraphError(f"regions nest more than {MAX_NESTING} deep")
    end: Record = {"id": region.end.id, "operands": [value.id for value in region.end.operands]}
    if region.end.loc is not None:
        end["loc"] = _location_record(region.end.loc)
    return {
        "args": [_value_record(value) for value in region.args],
        "body": [_inst_record(inst, depth) for inst in region],
        "end": end,
    }


def _inst_record(inst: Inst, depth: int) -> Record:
    record: Record = {"id": inst.id, "op": inst.op.name}
    if inst.operands:
        record["operands"] = [value.id for value in inst.operands]
    if type(inst.attrs) is not NoAttrs:
        record["attrs"] = cast("Json", record_of(type(inst.attrs)).dump(inst.attrs))
    record["results"] = [_value_record(value) for value in inst.results]
    if inst.regions:
        record["regions"] = [_region_record(region, depth + 1) for region in inst.regions]
    if inst.loc is not None:
        record["loc"] = _location_record(inst.loc)
    if inst.made_by is not None:
        record["made_by"] = inst.made_by
    return record


def _value_record(value: Value) -> Record:
    record: Record = {"id": value.id, "type": str(value.type)}
    if value.name is not None:
        record["name"] = value.name
    return record


def _location_record(loc: Location) -> list[Json]:
    return [loc.file, loc.line, loc.column, loc.function]


# --- reading ----------------------------------------------------------------------------------------------


def loads(text: str) -> Program:
    """The program of a JSON text; a `ParseError` names the path to what is wrong."""
    try:
        record = _object(json.loads(text), "the program")
    except json.JSONDecodeError as error:
        raise ParseError.at(f"this is not JSON: {error.msg}", text, error.pos) from None
    except RecursionError:
        raise ParseError("this JSON nests too deep") from None
    except ValueError:  # Python limits how many digits it converts
        raise ParseError("this JSON has a number with too many digits") from None
    version = record.get("ptir")
    if version != VERSION:
        raise ParseError(
            f"this program is of version {json.dumps(version)}",
            remedy=f"this planish reads version {VERSION}",
        )
    program = Program()
    for index, item in enumerate(_array(record.get("functions", []), "functions")):
        path = f"functions[{index}]"
        function = _FunctionLoader(_object(item, path), path).function
        if function.name in program.functions:
            bad_json(path, f"there are two functions {function.name!r}")
        program.add(function)
    given = record.get("entry")
    entry = None if given is None else _string(given, "entry")
    if entry is not None and entry not in program.functions:
        bad_json("entry", f"there is no function {json.dumps(entry)}")
    program.entry_name = entry
    return program


def _object(value: Json, path: str) -> Record:
    return cast("Record", of_kind(value, dict, "an object", path))


def _array(value: Json, path: str) -> list[Json]:
    return cast("list[Json]", of_kind(value, list, "an array", path))


def _integer(value: Json, path: str) -> int:
    return cast("int", of_kind(value, int, "an integer", path))


def _string(value: Json, path: str) -> str:
    return cast("str", of_kind(value, str, "a string", path))


class _FunctionLoader:
    """One function being read: the values in force by id, and the ids that are taken."""

    def __init__(self, record: Record, path: str) -> None:
        self.dims: Dims = self._dims(_object(record.get("dims", {}), f"{path}.dims"), f"{path}.dims")
        self.reader = PtirReader("", dims=self.dims)
        self.values: dict[int, Value] = {}
        self.taken: set[int] = set()
        self.insts: set[int] = set()
        self.function = Function(_string(record.get("name"), f"{path}.name"))
        self.function.loc = self._location(record, path)
        if "layout" in record:
            layout = record_of(MeshLayout).load(record["layout"], self.dims, f"{path}.layout")
            self.function.layout = cast("MeshLayout", layout)
        self._region(self.function.body, record, path, 0)
        least = [max(self.insts, default=-1) + 1, max(self.taken, default=-1) + 1]
        following = _array(record.get("next", cast("Json", least)), f"{path}.next")
        if len(following) != 2:
            bad_json(f"{path}.next", "expected the next ids of instructions and values")
        numbers = [_integer(number, f"{path}.next") for number in following]
        if numbers[0] < least[0] or numbers[1] < least[1]:
            bad_json(f"{path}.next", f"ids are taken up to {least[0] - 1} and {least[1] - 1}")
        self.function._next_inst, self.function._next_value = numbers

    def _dims(self, record: Mapping[str, Json], path: str) -> dict[str, Dim]:
        dims: dict[str, Dim] = {}
        for name, value in record.items():
            limits = _array(value, f"{path}.{name}")
            if len(limits) != 2:
                bad_json(f"{path}.{name}", "expected a lower and an upper bound")
            try:
                dims[name] = Dim.named(name, *[_integer(limit, f"{path}.{name}") for limit in limits])
            except PlanishError as error:
                bad_json(f"{path}.{name}", error.message)
        return dims

    def _type(self, value: Json, path: str) -> TensorType:
        reader = self.reader
        reader.start(_string(value, path))
        known = reader.types.get(reader.text)
        if known is not None:
            return known
        try:
            type = reader.tensor_type()
            if reader.peek():
                reader.unexpected("the end")
        except ParseError as error:
            error.message = f"{path}: {error.message}"
            raise
        return type

    def _location(self, record: Record, path: str) -> Location | None:
        if record.get("loc") is None:
            return None
        parts = _array(record["loc"], f"{path}.loc")
        if len(parts) != 4:
            bad_json(f"{path}.loc", "expected file, line, column and function")
        file, line, column, function = parts
        return Location(
            _string(file, f"{path}.loc[0]"),
            _integer(line, f"{path}.loc[1]"),
            None if column is None else _integer(column, f"{path}.loc[2]"),
            None if function is None else _string(function, f"{path}.loc[3]"),
        )

    def _define(self, value: Value, record: Record, path: str) -> None:
        value.id = _integer(record.get("id"), f"{path}.id")
        name = record.get("name")
        value.name = None if name is None else _string(name, f"{path}.name")
        if value.id in self.taken:
            bad_json(f"{path}.id", f"value {value.id} is defined twice")
        self.taken.add(value.id)
        self.values[value.id] = value

    def _number(self, inst: Inst, value: Json, path: str) -> None:
        inst.id = _integer(value, path)
        if inst.id in self.insts:
            bad_json(path, f"instruction {inst.id} is there twice")
        self.insts.add(inst.id)

    def _operands(self, record: Record, path: str) -> tuple[Value, ...]:
        operands: list[Value] = []
        for index, item in enumerate(_array(record.get("operands", []), f"{path}.operands")):
            value = self.values.get(_integer(item, f"{path}.operands[{index}]"))
            if value is None:
                bad_json(f"{path}.operands[{index}]", f"value {item} is not defined here")
            operands.append(value)
        return tuple(operands)

    def _region(self, region: Region, record: Record, path: str, depth: int) -> None:
        # Nesting is bounded, here and by the JSON parser, so recursion is in order.
        if depth > MAX_NESTING:
            bad_json(path, f"regions nest more than {MAX_NESTING} deep")
        for index, item in enumerate(_array(record.get("args", []), f"{path}.args")):
            place = f"{path}.args[{index}]"
            arg = _object(item, place)
            self._define(region.add_arg(self._type(arg.get("type"), f"{place}.type")), arg, place)
        for index, item in enumerate(_array(record.get("body", []), f"{path}.body")):
            self._inst(region, _object(item, f"{path}.body[{index}]"), f"{path}.body[{index}]", depth)
        end = _object(record.get("end"), f"{path}.end")
        self._number(region.end, end.get("id"), f"{path}.end.id")
        region.set_results(self._operands(end, f"{path}.end"))
        region.end.version = 0
        region.end.loc = self._location(end, f"{path}.end")

    def _inst(self, region: Region, record: Record, path: str, depth: int) -> None:
        name = _string(record.get("op"), f"{path}.op")
        op = REGISTRY.get(name)
        if op is None or op is RETURN:
            close = did_you_mean(name, REGISTRY)
            bad_json(
                f"{path}.op", f"there is no op {name!r}" + (f"; did you mean {close!r}?" if close else "")
            )
        operands = self._operands(record, path)
        attrs: Attrs = NO_ATTRS
        if op.attrs_type is not NoAttrs or record.get("attrs"):
            fields = record_of(op.attrs_type)
            attrs = cast("Attrs", fields.load(record.get("attrs", {}), self.dims, f"{path}.attrs"))
        regions: list[Region] = []
        for index, item in enumerate(_array(record.get("regions", []), f"{path}.regions")):
            place = f"{path}.regions[{index}]"
            inner = Region(self.function)
            self._region(inner, _object(item, place), place, depth + 1)
            self._hide(inner)
            regions.append(inner)
        results = [
            _object(item, f"{path}.results[{i}]")
            for i, item in enumerate(_array(record.get("results", []), f"{path}.results"))
        ]
        stated = tuple(
            [self._type(r.get("type"), f"{path}.results[{i}].type") for i, r in enumerate(results)]
        )
        try:
            types = op.result_types([value.type for value in operands], attrs, regions)
        except PlanishError as error:
            raise ParseError(f"{path}: {error.message}", op=error.op or name, remedy=error.remedy) from error
        if types != stated:
            shown = [", ".join(str(t) for t in each) or "nothing" for each in (types, stated)]
            bad_json(f"{path}.results", f"{name} gives {shown[0]}, not {shown[1]}")
        inst = region.append(op, operands, attrs, regions, types=types, loc=self._location(record, path))
        made_by = record.get("made_by")
        inst.made_by = None if made_by is None else _string(made_by, f"{path}.made_by")
        self._number(inst, record.get("id"), f"{path}.id")
        for index, (value, result) in enumerate(zip(inst.results, results, strict=True)):
            self._define(value, result, f"{path}.results[{index}]")

    def _hide(self, region: Region) -> None:
        """Take the values of a region that has ended out of force."""
        for value in region.args:
            del self.values[value.id]
        for inst in region:
            for value in inst.results:
                del self.values[value.id]
