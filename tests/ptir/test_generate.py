"""The generator of random programs: it reaches every op, repeats itself for a seed, and leaves out what it is told to."""

from __future__ import annotations

from planish.ptir import text
from planish.ptir.interpret import interpret
from planish.ptir.ops.definition import REGISTRY
from planish.ptir.verify import problems
from tests.ptir.generate import COLLECTIVES, HOST, LOOPS, random_inputs, random_program, same_results


def test_every_op_occurs():
    seen = {inst.op.name for seed in range(150) for f in random_program(seed, size=30) for inst in f.walk()}
    assert seen == set(REGISTRY) - {"return"} - COLLECTIVES
    ranked = [random_program(seed, size=30, ranked=True) for seed in range(60)]
    assert {inst.op.name for program in ranked for f in program for inst in f.walk()} >= COLLECTIVES


def test_programs_have_what_optimisers_look_for():
    programs = [random_program(seed) for seed in range(60)]
    insts = [inst for p in programs for f in p for inst in f.walk()]
    captures = [
        value
        for p in programs
        for f in p
        for inst in f
        for region in inst.regions
        for nested in region.walk()
        for value in nested.operands
        if value.region is f.body
    ]
    assert captures
    assert any(inst.is_dead for inst in insts)
    assert any(not v.type.is_static for inst in insts for v in inst.results)
    assert any(len(p) > 1 for p in programs)
    assert any(v.type.quant is not None for inst in insts for v in inst.results)
    keys = [(i.op, i.operands, repr(i.attrs)) for i in insts if i.operands and not i.regions]
    assert len(set(keys)) < len(keys)


def test_a_seed_gives_one_program():
    assert text.print(random_program(7), locations=True) == text.print(random_program(7), locations=True)
    assert text.print(random_program(7)) != text.print(random_program(8))


def test_ops_can_be_left_out():
    for seed in range(40):
        program = random_program(seed, exclude=LOOPS | HOST)
        assert not {i.op.name for f in program for i in f.walk()} & (LOOPS | HOST)


def test_programs_run_and_repeat_their_results():
    for seed in range(25):
        program = random_program(seed)
        assert problems(program) == []
        inputs = random_inputs(program, seed)
        assert same_results(interpret(program, inputs), interpret(program, inputs))
        tame = random_inputs(program, seed, odd=False)
        interpret(program, tame)
