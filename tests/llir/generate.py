"""Random LLIR programs that are valid and stay inside their buffers."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from planish import dtypes
from planish.dtypes import AddrSpace, DType
from planish.llir.builder import Builder
from planish.llir.program import COMPARISONS, Immediate, Ops, Program, Register
from tests.llir.helpers import Array, numbers

FLOATS = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
INTEGERS = (dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.int16)
LANES = (1, 1, 1, 2, 4, 8)
SIZE = 64
SLOTS = 1024

FLOAT_OPS = (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.NEG, Ops.ABS, Ops.MULACC, Ops.SCALE)
INTEGER_OPS = (
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX, Ops.MIN, Ops.NEG, Ops.AND, Ops.OR, Ops.XOR, Ops.NOT, Ops.SHL, Ops.SHR, Ops.TRUNCDIV,
    Ops.TRUNCMOD, Ops.MULACC,
)  # fmt: skip


class Generator:
    """Writes one program; every value made is visible until its loop or if ends."""

    def __init__(self, seed: int, steps: int = 40) -> None:
        self.rng = random.Random(seed)
        self.b = Builder(f"random{seed}")
        self.inputs = {dtype: self.b.param(f"in_{dtype}", dtype, SIZE) for dtype in (*FLOATS, *INTEGERS)}
        self.outputs = {dtype: self.b.param(f"out_{dtype}", dtype, SLOTS) for dtype in (*FLOATS, *INTEGERS)}
        self.own = self.b.memory(
            "own", dtypes.float32, SIZE, self.rng.choice([AddrSpace.REG, AddrSpace.LOCAL])
        )
        self.places = dict.fromkeys(self.outputs, 0)
        self.values: list[Register] = []
        self.budget = steps
        self.steps: list[Callable[[], object]] = [
            self.load, self.load, self.compute, self.compute, self.compute, self.convert, self.lanes, self.store, self.own_memory,
            self.gated, self.gather, self.lookup, self.bitcast, self.any,
        ]  # fmt: skip
        with self.b.loop(SIZE) as i:
            self.b.store(self.b.address(self.own, i), 0.5)
        self.block(0)

    def block(self, depth: int, *counters: Register) -> None:
        visible = len(self.values)
        self.values += counters
        for _ in range(self.rng.randint(4, 12)):
            if self.budget <= 0:
                break
            self.budget -= 1
            choice = self.rng.random()
            if depth < 3 and choice < 0.12:
                with self.b.loop(self.rng.choice([0, 1, 2, 3]), self.rng.choice([0, 0, 1, 2])) as i:
                    self.block(depth + 1, i)
            elif depth < 3 and choice < 0.18:
                with self.b.when(self.boolean(1)):
                    self.block(depth + 1)
            else:
                self.rng.choice(self.steps)()
        for value in self.values[-4:]:
            self.keep(value)
        del self.values[visible:]

    def dtype(self) -> DType:
        return self.rng.choice([*FLOATS, *INTEGERS]).vec(self.rng.choice(LANES))

    def some(self, dtype: DType) -> Register | Immediate:
        found = [v for v in self.values if v.dtype is dtype]
        if found and self.rng.random() < 0.85:
            return self.rng.choice(found)
        if self.rng.random() < 0.3:
            number = self.rng.choice([0, 1, 2, 3])
            return Immediate(dtype.const(number), dtype)
        return self.load(dtype)

    def boolean(self, lanes: int) -> Register:
        dtype = self.rng.choice([dtypes.int32, dtypes.float32]).vec(lanes)
        return self.b.compute(self.rng.choice(sorted(COMPARISONS)), self.load(dtype), self.some(dtype))

    def index(self, lanes: int = 1, room: int = SIZE) -> Register | Immediate:
        """An index with as many elements of room behind it."""
        counted = [v for v in self.values if v.dtype in {dtypes.int32, dtypes.int64}]
        if counted and self.rng.random() < 0.7:
            value = self.rng.choice(counted)
            return self.b.compute(Ops.AND, value, (room >> 1) - 1)
        dtype = self.rng.choice([dtypes.int32, dtypes.int64])
        return Immediate(self.rng.randrange(room - lanes + 1), dtype)

    def keep(self, value: Register) -> None:
        """Store a value where nothing else is stored."""
        if value.dtype.is_bool:
            value = self.b.cast(value, dtypes.int32)
        scalar = value.dtype.scalar
        place = self.places[scalar]
        if place + value.dtype.lanes <= SLOTS:
            self.b.store(self.b.address(self.outputs[scalar], place), value, nontemporal=False)
            self.places[scalar] += value.dtype.lanes

    def add(self, value: Register) -> None:
        self.values.append(value)

    def load(self, dtype: DType | None = None) -> Register:
        dtype = dtype or self.dtype()
        result = self.b.load(self.b.address(self.inputs[dtype.scalar], self.index(dtype.lanes)), dtype)
        self.add(result)
        return result

    def gated(self) -> None:
        dtype = self.dtype()
        gate = self.boolean(self.rng.choice([1, dtype.lanes]))
        # where the gate is closed, the place may be anywhere
        base = self.b.address(self.inputs[dtype.scalar], self.index(dtype.lanes))
        self.add(self.b.load(base, dtype, gate=gate, alternative=self.rng.choice([0, 1])))
        place = self.places[dtype.scalar]
        if place + dtype.lanes <= SLOTS:
            address = self.b.address(self.outputs[dtype.scalar], place)
            self.b.store(address, self.some(dtype), gate=gate)
            self.places[dtype.scalar] += dtype.lanes

    def gather(self) -> None:
        lanes = self.rng.choice([2, 4, 8])
        scalar = self.rng.choice([*FLOATS, *INTEGERS])
        places = self.b.compute(Ops.AND, self.load(dtypes.int32.vec(lanes)), SIZE - 1)
        self.add(self.b.load(self.b.address(self.inputs[scalar], places)))

    def lookup(self) -> None:
        entries, lanes = self.rng.choice([2, 4, 8]), self.rng.choice([2, 4, 8])
        table = self.some(self.rng.choice([dtypes.float32, dtypes.int32]).vec(entries))
        self.add(self.b.lookup(table, self.load(dtypes.int32.vec(lanes))))

    def any(self) -> None:
        self.add(self.b.any(self.boolean(self.rng.choice([1, 2, 8]))))

    def own_memory(self) -> None:
        dtype = dtypes.float32.vec(self.rng.choice(LANES))
        address = self.b.address(self.own, self.index(dtype.lanes))
        if self.rng.random() < 0.5:
            self.b.store(address, self.some(dtype))
        else:
            self.add(self.b.load(self.b.address(address, 0), dtype))
        if self.rng.random() < 0.2:
            self.b.prefetch(address, write=self.rng.random() < 0.5, locality=self.rng.randrange(4))

    def compute(self) -> None:
        dtype = self.dtype()
        op = self.rng.choice(FLOAT_OPS if dtype.is_float else INTEGER_OPS)
        if op is Ops.MULACC and dtype.scalar is dtypes.float64:
            op = Ops.MUL  # the reference uses exact fractions: right, and slow
        first = self.load(dtype) if self.rng.random() < 0.5 else self.some(dtype)
        rest = [self.some(dtype) for _ in range(op.min_sources - 1)]
        self.add(self.b.compute(op, first, *rest))
        if self.rng.random() < 0.2:
            condition = self.boolean(dtype.lanes)
            self.add(
                self.b.select(
                    condition,
                    self.some(dtype),
                    self.values[-1] if self.values[-1].dtype is dtype else self.some(dtype),
                )
            )

    def convert(self) -> None:
        value = self.some(self.dtype())
        self.add(self.b.cast(value, self.rng.choice([*FLOATS, *INTEGERS])))

    def bitcast(self) -> None:
        lanes = self.rng.choice([2, 4])
        value = self.some(dtypes.int32.vec(lanes))
        self.add(
            self.b.bitcast(
                value, self.rng.choice([dtypes.int64.vec(lanes // 2), dtypes.uint8.vec(lanes * 4)])
            )
        )

    def lanes(self) -> None:
        choice = self.rng.random()
        scalar = self.rng.choice([*FLOATS, *INTEGERS])
        if choice < 0.4:
            value = self.some(scalar.vec(self.rng.choice([2, 4, 8])))
            picked = [self.rng.randrange(value.dtype.lanes) for _ in range(self.rng.choice([1, 2, 4]))]
            self.add(self.b.lanes(value, *picked))
        elif choice < 0.7:
            count = self.rng.choice([2, 4, 8])
            self.add(self.b.build(*(self.some(scalar) for _ in range(count))))
        else:
            parts = [self.some(scalar.vec(self.rng.choice([1, 2, 4]))) for _ in range(2)]
            self.add(self.b.concat(*parts))

    def store(self) -> None:
        if self.values:
            self.keep(self.rng.choice(self.values))


def random_program(seed: int, steps: int = 40) -> Program:
    return Generator(seed, steps).b.program()


def arguments(program: Program, seed: int = 0) -> list[Array]:
    found: list[Array] = []
    for number, buffer in enumerate(program.params):
        if buffer.name.startswith("out"):
            found.append(np.zeros(buffer.elements, buffer.dtype.numpy))
        else:
            found.append(numbers(buffer.dtype, buffer.elements, seed + number))
    return found
