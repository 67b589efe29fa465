"""The text form of the graph IR: `parse(print(p))` is `p` again.

    ptir 1
    func @softmax<B in 1..64>(%x: tensor<f32, Bx8>) -> tensor<f32, Bx8> {
      %m = reduce_max %x {axes=[1], keepdims=true} : tensor<f32, Bx1>
      %0 = broadcast_to %m {dims=[B, 8]} : tensor<f32, Bx8>
      %1 = sub %x, %0 : tensor<f32, Bx8>
      return %1
    }

Everything a program holds is there: functions, regions, attributes, literals to the bit, named sizes with their
bounds, names of values, and on request locations. `docs/ptir_text.md` has the grammar.
"""

from __future__ import annotations

from collections.abc import Mapping

from planish.errors import GraphError, ShapeError
from planish.ptir.function import Function, Program
from planish.ptir.parser import MAX_NESTING, PtirParser
from planish.ptir.printer import VERSION, print_inst, print_program
from planish.ptir.reader import PtirReader
from planish.ptir.types import Dim, TensorType


def print(item: Program | Function, *, locations: bool = False, ids: bool = False) -> str:
    """The text of a program or function, ending in a newline.

    `locations` adds where each instruction comes from and which pattern made it. With `ids`, values without a
    name print under their id, as logs call them, instead of being counted.
    """
    return print_program(item, locations=locations, ids=ids)


def parse(text: str, *, file: str | None = None) -> Program:
    """The program that a text means; a `ParseError` shows what is wrong and where.

    With the name of a file, errors name it, and instructions that have no location get the place in it.
    """
    return PtirParser(text, file=file).program()


def parse_function(text: str, *, file: str | None = None) -> Function:
    """The only function of a text."""
    program = parse(text, file=file)
    if len(program) != 1:
        raise GraphError(f"the text has {len(program)} functions, not one", remedy="use ptir.parse")
    return program.entry


def parse_type(text: str, dims: Mapping[str, Dim | tuple[int, int]] | None = None) -> TensorType:
    """A type such as `tensor<f32, 4xB>`; `dims` gives the bounds of the names in it."""
    scope: dict[str, Dim] = {}
    for name, bounds in (dims or {}).items():
        scope[name] = bounds if isinstance(bounds, Dim) else Dim.named(name, *bounds)
        if scope[name].name != name:
            raise ShapeError(f"{name} is declared as {scope[name]}", remedy="give a plain named dimension")
    reader = PtirReader(text, dims=scope)
    type = reader.tensor_type()
    if reader.peek():
        reader.unexpected("the end")
    return type


__all__ = ["MAX_NESTING", "VERSION", "parse", "parse_function", "parse_type", "print", "print_inst"]
