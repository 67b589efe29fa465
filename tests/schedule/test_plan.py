"""Control flow, calls, host ops and named sizes through the plan: machine code and both interpreters agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planish import compiler, ptir
from planish.errors import DTypeError, GraphError, LoweringError, PassError, ShapeError
from planish.ptir import ops
from planish.schedule.plan import Copy, For, Host, Launch, SwapPointers, View, walk

Array = NDArray[Any]


def agree(
    program: ptir.Program | ptir.Function | str,
    *arguments: Sequence[Array],
    passes: str | None = compiler.PIPELINE,
) -> compiler.Lowered:
    """A program gives the same in all ways, for every set of arguments. What is returned has its loops as loops of launches."""
    program = ptir.parse(program) if isinstance(program, str) else program
    rolled = compiler.lower(program, passes=passes)
    lowered = compiler.lower(program, passes=passes, loops=False)
    apart = compiler.lower(program, passes=passes, reuse=False)
    ways = {
        "native": rolled.compile(),
        "llir": rolled.interpreted(),
        "apart": apart.compile(),
        "launches": lowered.compile(),
        "launches, llir": lowered.interpreted(),
    }
    for arrays in arguments:
        wanted = ptir.interpret(program, arrays)
        for way, run in ways.items():
            found = run(*[array.copy() for array in arrays])
            for number, (a, b) in enumerate(zip(wanted, found, strict=True)):
                assert (a.shape, a.dtype) == (b.shape, b.dtype), way
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=f"{way}, result {number}")
    return lowered


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def count(value: int) -> Array:
    return np.array(value, np.int32)


def steps_in(lowered: compiler.Lowered, kind: type) -> int:
    return sum(isinstance(step, kind) for step in walk(lowered.plan.steps))


# -- loops -----------------------------------------------------------------------------------------------------------

COUNTED = """ptir 1
func @main(%x: tensor<f32, 4x3>, %n: tensor<i32>) -> (tensor<i32>, tensor<f32, 4x3>) {
  %zero = constant 0 : tensor<i32>
  %one = constant 1 : tensor<i32>
  %y = exp %x
  %i, %c = while %zero, %x (%i: tensor<i32>, %c: tensor<f32, 4x3>) {
    %t = lt %i, %n
    return %t
  } (%i: tensor<i32>, %c: tensor<f32, 4x3>) {
    %j = add %i, %one
    %d = add %c, %y
    return %j, %d
  }
  return %i, %c
}"""


def test_a_loop_runs_as_often_as_its_condition_says():
    lowered = agree(COUNTED, *[(numbers(4, 3), count(n)) for n in (0, 1, 2, 7)])
    # what the loop sees of the outside is computed once, and nothing is copied in it
    (loop,) = [step for step in lowered.plan.steps if isinstance(step, For)]
    assert sum(isinstance(step, Launch) for step in lowered.plan.steps) == 3
    assert not any(isinstance(step, Copy) for step in loop.body)
    runs: list[str] = []
    lowered.interpreted(lambda program, counters: runs.append(program.name))(numbers(4, 3), count(5))
    assert len(runs) == 3 + 5  # how many turns, exp(x), the counter in the end; what is added in each turn
    # the next value is written over the last one: exp(x), the carry, the number of turns
    assert lowered.memory.peak <= 64 * 3


def test_carries_may_change_places_and_wait():
    # a, b, c = b, a, a: every old value is read after the first new one is there
    lowered = agree(
        """ptir 1
func @main(%a: tensor<f32, 3>, %b: tensor<f32, 3>, %n: tensor<i32>) -> (tensor<f32, 3>, tensor<f32, 3>, tensor<f32, 3>) {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %r0, %r1, %r2, %r3 = while %n, %a, %b, %a (%i: tensor<i32>, %p: tensor<f32, 3>, %q: tensor<f32, 3>, %s: tensor<f32, 3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 3>, %q: tensor<f32, 3>, %s: tensor<f32, 3>) {
    %j = sub %i, %one
    %u = add %q, %s
    return %j, %u, %p, %p
  }
  return %r1, %r2, %r3
}""",
        *[(numbers(3), numbers(3, seed=1), count(n)) for n in (0, 1, 2, 3, 4)],
    )
    # only a is still needed when its next value is made: the others take theirs in place
    assert steps_in(lowered, SwapPointers) == 1


def test_a_carry_that_does_not_change_has_one_buffer():
    lowered = agree(
        """ptir 1
func @main(%a: tensor<f32, 3>, %n: tensor<i32>) -> (tensor<f32, 3>, tensor<i32>) {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %r0, %r1 = while %n, %a (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %j = sub %i, %one
    return %j, %p
  }
  return %r1, %r0
}""",
        (numbers(3), count(3)),
        (numbers(3), count(0)),
        passes=None,
    )
    assert steps_in(lowered, SwapPointers) == 0  # the count is that of the plan
    assert steps_in(lowered, Copy) == 1


def test_a_flipped_carry_is_not_overwritten():
    lowered = agree(
        """ptir 1
func @main(%a: tensor<f32, 5>, %n: tensor<i32>) -> tensor<f32, 5> {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %r0, %r1 = while %n, %a (%i: tensor<i32>, %p: tensor<f32, 5>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 5>) {
    %j = sub %i, %one
    %f = reverse %p {axes=[0]}
    %q = sub %f, %p
    return %j, %q
  }
  return %r1
}""",
        *[(numbers(5), count(n)) for n in range(4)],
    )
    assert all(
        len(place.buffers) == 1 for place in lowered.memory.places if place.nbytes == 20
    )  # two places for the carry


def test_a_value_that_a_loop_starts_from_stays_what_it_was():
    # %y starts two loops, is seen by both, and is a result
    agree(
        """ptir 1
func @main(%x: tensor<f32, 3>, %n: tensor<i32>) -> (tensor<f32, 3>, tensor<f32, 3>, tensor<f32, 3>) {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %y = exp %x
  %y2 = exp %x
  %a0, %a1 = while %n, %y (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %j = sub %i, %one
    %q = add %p, %y
    return %j, %q
  }
  %b0, %b1 = while %n, %y2 (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 3>) {
    %j = sub %i, %one
    %q = mul %p, %a1
    return %j, %q
  }
  return %a1, %b1, %y
}""",
        *[(numbers(3), count(n)) for n in range(3)],
        passes=None,
    )


SCAN = """ptir 1
func @main(%x: tensor<f32, 4x3>, %c: tensor<f32, 3>) -> (tensor<f32, 3>, tensor<f32, 4x3>, tensor<f32, 4>, tensor<f32, 4x3>) {
  %w = exp %c
  %a, %ys, %zs, %same = scan %c, %x {num_carries=1, length=4, reverse=REVERSE} (%s: tensor<f32, 3>, %r: tensor<f32, 3>) {
    %t = add %s, %r
    %u = mul %t, %w
    %z = reduce_sum %u {axes=[0]}
    return %t, %u, %z, %r
  }
  return %a, %ys, %zs, %same
}"""


@pytest.mark.parametrize("reverse", ["false", "true"])
def test_scan_reads_and_writes_slices_where_they_are(reverse):
    lowered = agree(SCAN.replace("REVERSE", reverse), (numbers(4, 3), numbers(3, seed=1)))
    (loop,) = [step for step in lowered.plan.steps if isinstance(step, For)]
    assert sum(isinstance(step, View) for step in loop.body) == 3
    assert not any(isinstance(step, Copy) for step in loop.body)
    # stacked outputs are results: no memory in between
    assert lowered.memory.unshared <= 12 * 3


@pytest.mark.parametrize(
    "text",
    [
        # no sequences, no carries, no steps, one number per slice
        """func @main(%c: tensor<f32, 3>) -> (tensor<f32, 3>, tensor<f32, 2x3>) {
  %a, %ys = scan %c {num_carries=1, length=2} (%s: tensor<f32, 3>) {
    %t = add %s, %s
    return %t, %s
  }
  return %a, %ys
}""",
        """func @main(%c: tensor<f32, 3>) -> tensor<f32, 3> {
  %ys = scan %c {num_carries=0, length=3} (%s: tensor<f32>) {
    %t = exp %s
    return %t
  }
  return %ys
}""",
        """func @main(%c: tensor<f32, 3>) -> (tensor<f32, 3>, tensor<f32, 0x3>) {
  %a, %ys = scan %c {num_carries=1, length=0} (%s: tensor<f32, 3>) {
    %t = exp %s
    return %t, %t
  }
  return %a, %ys
}""",
        """func @main(%c: tensor<f32, 3>) -> (tensor<f32, 3>, tensor<f32, 3>) {
  %e = exp %c
  %r = reverse %e {axes=[0]}
  %ys, %zs = scan %r, %e {num_carries=0, length=3} (%s: tensor<f32>, %t: tensor<f32>) {
    %u = sub %s, %t
    return %u, %u
  }
  return %ys, %zs
}""",
    ],
)
def test_odd_scans(text):
    agree(f"ptir 1\n{text}", (numbers(3),))


# -- branches and nesting --------------------------------------------------------------------------------------------

BRANCH = """ptir 1
func @main(%x: tensor<f32, 4x3>, %p: tensor<bool>) -> (tensor<f32, 4x3>, tensor<f32, 4x3>, tensor<f32>) {
  %y = exp %x
  %a, %b, %s = cond %p {
    %j = add %x, %x
    %s = reduce_sum %y {axes=[0, 1]}
    return %j, %y, %s
  } {
    %s = add %y, %y
    %c = constant 2.5 : tensor<f32>
    return %s, %s, %c
  }
  return %a, %b, %s
}"""


def test_a_branch_gives_the_results_of_the_arm_it_takes():
    lowered = agree(BRANCH, (numbers(4, 3), np.array(True)), (numbers(4, 3), np.array(False)))
    runs: list[str] = []
    run = lowered.interpreted(lambda program, counters: runs.append(program.name))
    for taken, kernels in ((True, 3), (False, 3)):
        runs.clear()
        run(numbers(4, 3), np.array(taken))
        assert len(runs) == kernels


def test_what_one_arm_computed_is_unknown_outside():
    # exp(x) inside of an arm and after it is the same node: it is computed again, since the arm may not have run
    agree(
        """ptir 1
func @main(%x: tensor<f32, 3>, %p: tensor<bool>) -> (tensor<f32, 3>, tensor<f32>) {
  %a = cond %p {
    %e = exp %x
    %s = reduce_sum %e {axes=[0]}
    return %s
  } {
    %c = constant 2.5 : tensor<f32>
    return %c
  }
  %e2 = exp %x
  %q = cond %p {
    return %e2
  } {
    return %x
  }
  return %q, %a
}""",
        (numbers(3), np.array(True)),
        (numbers(3), np.array(False)),
        passes=None,
    )


NESTED = """ptir 1
func @main(%x: tensor<f32, 3x2>, %n: tensor<i32>) -> (tensor<f32, 2>, tensor<f32, 3x2>, tensor<i32>) {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %half = constant 0.5 : tensor<f32, 2>
  %start = reduce_max %x {axes=[0]}
  %c, %k, %ys = scan %start, %zero, %x {num_carries=2, length=3} (%s: tensor<f32, 2>, %k: tensor<i32>, %r: tensor<f32, 2>) {
    %e = exp %r
    %i, %d, %kk = while %zero, %s, %k (%i: tensor<i32>, %d: tensor<f32, 2>, %kk: tensor<i32>) {
      %t = lt %i, %n
      return %t
    } (%i: tensor<i32>, %d: tensor<f32, 2>, %kk: tensor<i32>) {
      %j = add %i, %one
      %sum = reduce_sum %d {axes=[0]}
      %limit = reduce_sum %e {axes=[0]}
      %p = lt %sum, %limit
      %f, %l = cond %p {
        %g = add %d, %e
        %in = scan %g {num_carries=0, length=2} (%v: tensor<f32>) {
          %w = add %v, %sum
          return %w
        }
        %m = add %kk, %one
        return %in, %m
      } {
        %g = mul %d, %half
        return %g, %kk
      }
      return %j, %f, %l
    }
    %y = sub %d, %s
    return %d, %kk, %y
  }
  return %c, %ys, %k
}"""


def test_loops_in_loops_in_branches():
    lowered = agree(NESTED, *[(numbers(3, 2, seed=n), count(n)) for n in range(5)])
    assert steps_in(lowered, For) == 3
    text = lowered.as_text("plan")
    assert "for counter0 below 3" in text
    assert "\n  for counter2 below turns1" in text
    assert "\n      for counter3 below 2" in text


# -- calls and host ops ----------------------------------------------------------------------------------------------


def test_calls_are_inlined():
    lowered = agree(
        """ptir 1
entry func @main<B in 0..4>(%x: tensor<f32, Bx2>) -> tensor<f32, Bx2> {
  %y = call @twice %x : tensor<f32, Bx2>
  %z = call @twice %y : tensor<f32, Bx2>
  return %z
}
func @twice<N in 0..9>(%x: tensor<f32, Nx2>) -> tensor<f32, Nx2> {
  %y = add %x, %x
  return %y
}""",
        *[(numbers(n, 2),) for n in range(5)],
    )
    assert len(lowered.plan.launches) == 1


def test_a_call_that_cannot_be_inlined_is_an_error():
    program = ptir.parse("""ptir 1
entry func @main(%x: tensor<f32>) -> tensor<f32> {
  %y = call @main %x : tensor<f32>
  return %y
}""")
    with pytest.raises(LoweringError, match=r"call of main could not be inlined.*recursive"):
        compiler.lower(program)


def test_host_ops_stand_between_kernels():
    lowered = agree(
        """ptir 1
func @main(%x: tensor<f32, 3x3>, %n: tensor<i32>) -> tensor<f32, 3x3> {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %xt = transpose %x {perm=[1, 0]}
  %g = dot_general %x, %xt {lhs_contract=[1], rhs_contract=[0], lhs_batch=[], rhs_batch=[], accum_dtype=f32, out_dtype=f32}
  %r0, %r1 = while %n, %g (%i: tensor<i32>, %p: tensor<f32, 3x3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 3x3>) {
    %j = sub %i, %one
    %c = cholesky %p
    %e = exp %c
    %s = add %e, %p
    return %j, %s
  }
  return %r1
}""",
        *[(numbers(3, 3) + np.eye(3, dtype=np.float32) * 3, count(n)) for n in range(3)],
    )
    assert steps_in(lowered, Host) == 1


def test_a_host_op_sees_one_slice_of_a_sequence_and_the_carry_of_now():
    agree(
        """ptir 1
func @main(%x: tensor<f32, 4x2x2>, %c: tensor<f32, 2x2>) -> (tensor<f32, 2x2>, tensor<f32, 4x2x2>) {
  %a, %ys = scan %c, %x {num_carries=1, length=4, reverse=true} (%s: tensor<f32, 2x2>, %r: tensor<f32, 2x2>) {
    %p = cholesky %r
    %q = cholesky %s
    %t = add %p, %q
    %u = mul %t, %s
    return %u, %p
  }
  return %a, %ys
}""",
        (np.stack([np.eye(2, dtype=np.float32) * k for k in (1, 2, 3, 4)]), np.eye(2, dtype=np.float32)),
    )


def test_complex_numbers_pass_through_parameters_host_ops_and_results():
    graph = ptir.Graph("f")
    x = graph.input("x", ptir.tensor("c64", (2, 4)))
    program = ptir.Program([graph.build(x.fft([1]).mul(x).real(), x.add(x))])
    array = numbers(2, 4) + 1j * numbers(2, 4, seed=1)
    lowered = agree(program, (array.astype(np.complex64),))
    assert steps_in(lowered, Host) == 1


def test_a_host_op_decides_a_size():
    def first(arrays: Sequence[Array], attrs: ops.CustomCallAttrs) -> tuple[Array, ...]:
        (x,) = arrays
        return (x[x > 0],)

    ops.register_custom_call("tests.positive", first)
    text = """ptir 1
func @main<B in 0..6, K in 0..6>(%x: tensor<f32, B>) -> (tensor<f32, K>, tensor<f32>, tensor<f32, B>) {
  %y = custom_call %x {target="tests.positive"} : tensor<f32, K>
  %e = exp %y
  %s = reduce_sum %e {axes=[0]}
  %z = exp %x
  return %e, %s, %z
}"""
    agree(text, *[(numbers(n, seed=n),) for n in range(7)])
    ops.register_custom_call("tests.positive", lambda arrays, attrs: (np.zeros(9, np.float32),))
    with pytest.raises(ShapeError, match=r"K = 9 is outside 0\.\.6"):
        compiler.lower(ptir.parse(text)).compile()(numbers(3))
    with pytest.raises(GraphError, match="no custom call"):
        compiler.lower(ptir.parse(text.replace("positive", "absent"))).compile()


def test_a_count_becomes_a_size():
    agree(
        """ptir 1
func @main<K in 1..5>(%x: tensor<f32, 5x2>, %n: tensor<i64>) -> (tensor<f32, Kx2>, tensor<f32, 2>, tensor<i64>) {
  %k = bind_dim %x, %n {axis=0, name="K", lo=1, hi=5}
  %e = exp %k
  %s = reduce_sum %e {axes=[0]}
  %d = dimension_size %e {axis=0}
  return %e, %s, %d
}""",
        *[(numbers(5, 2), np.array(n, np.int64)) for n in (-1, 0, 1, 3, 5, 9)],
    )


# -- named sizes -----------------------------------------------------------------------------------------------------

DYNAMIC = """ptir 1
func @main<B in 0..5, N in 1..4>(%x: tensor<f32, BxN>, %y: tensor<f32, (2*B+1)>, %n: tensor<i32>)
    -> (tensor<f32, BxN>, tensor<f32, B>, tensor<f32, (2*B+1)>, tensor<f32, N>) {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %m = reduce_max %x {axes=[1], keepdims=true}
  %w = broadcast_to %m {dims=[B, N]}
  %d = sub %x, %w
  %r0, %r1, %r2 = while %n, %d, %y (%i: tensor<i32>, %p: tensor<f32, BxN>, %q: tensor<f32, (2*B+1)>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, BxN>, %q: tensor<f32, (2*B+1)>) {
    %j = sub %i, %one
    %u = add %p, %d
    %v = reverse %q {axes=[0]}
    return %j, %u, %v
  }
  %start = constant 0.0 : tensor<f32>
  %first = broadcast_to %start {dims=[N]}
  %c, %ys = scan %first, %x {num_carries=1, length=B} (%s: tensor<f32, N>, %r: tensor<f32, N>) {
    %t = add %s, %r
    %z = reduce_sum %t {axes=[0]}
    return %t, %z
  }
  return %r1, %ys, %r2, %c
}"""


def test_one_compilation_serves_every_size_within_bounds():
    cases = [
        (numbers(b, n), numbers(2 * b + 1), count(k))
        for b in range(6)
        for n in range(1, 5)
        for k in ((0, 3) if n == 2 else (2,))
    ]
    lowered = agree(DYNAMIC, *cases)
    sizes = [lowered.layout({"B": b, "N": 4}).peak for b in range(6)]
    assert sizes == sorted(sizes)
    assert lowered.memory.peak == lowered.layout({"B": 5, "N": 4}).peak


@pytest.mark.parametrize(
    ("arrays", "error", "message"),
    [
        ((numbers(6, 2), numbers(13), count(1)), ShapeError, r"argument 0 \(x\).*B = 6 is outside 0\.\.5"),
        ((numbers(2, 0), numbers(5), count(1)), ShapeError, r"N = 0 is outside 1\.\.4"),
        ((numbers(2, 2), numbers(4), count(1)), ShapeError, r"argument 1 \(y\).* has size 4, not 5 \(2\*B\+1 with B = 2\)"),
        ((numbers(2), numbers(5), count(1)), ShapeError, "argument 0"),
        ((numbers(2, 2), numbers(5)), ShapeError, "takes 3 arrays, not 2"),
        ((numbers(2, 2).astype(np.float64), numbers(5), count(1)), DTypeError, r"float64\[2, 2\].*astype\(float32\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_that_says_why(arrays, error, message):
    run = compiler.lower(ptir.parse(DYNAMIC)).interpreted()
    with pytest.raises(error, match=message):
        run(*arrays)


def test_an_unknown_pass_is_an_error_and_passes_can_be_left_out():
    program = ptir.parse(SCAN.replace("REVERSE", "false"))
    with pytest.raises(PassError, match="expnd"):
        compiler.lower(program, passes="expnd")
    before = ptir.print(program)
    compiler.lower(program)
    assert ptir.print(program) == before  # they run on a copy
    assert ptir.print(compiler.lower(program, passes=None).function) in before


# -- arrays ----------------------------------------------------------------------------------------------------------

SUM = """ptir 1
func @main(%x: tensor<f32, 4x6>, %y: tensor<f32, 4x6>) -> tensor<f32, 4x6> {
  %z = add %x, %y
  return %z
}"""


def foreign(x: Array) -> dict[str, Array]:
    """The same numbers in other memory."""
    raw = bytearray(x.nbytes + 1)
    misaligned = np.frombuffer(raw, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    misaligned[...] = x
    strided = np.zeros((x.shape[0] * 2, x.shape[1] * 3), x.dtype)[::2, ::3]
    strided[...] = x
    locked = x.copy()
    locked.flags.writeable = False
    return {
        "misaligned": misaligned,
        "strided": strided,
        "reversed": x[::-1, ::-1].copy()[::-1, ::-1],
        "columns first": np.asfortranarray(x),
        "repeated": np.broadcast_to(x[:1], x.shape),
        "read-only": locked,
        "big-endian": x.astype(x.dtype.newbyteorder(">")),
    }


@pytest.mark.parametrize("donate", [(), (0, 1)])
def test_foreign_arrays_are_taken_as_they_are(donate):
    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    run = compiler.lower(ptir.parse(SUM), donate=donate).compile()
    for name, array in foreign(x).items():
        before = array.copy()
        (found,) = run(array, y.copy())
        np.testing.assert_array_equal(found, before.astype(np.float32) + y, err_msg=name)
        if not donate:
            np.testing.assert_array_equal(array, before, err_msg=name)


def test_a_donated_array_becomes_a_result():
    x, y = numbers(4, 6), numbers(4, 6, seed=1)
    wanted = x + y
    kept = compiler.lower(ptir.parse(SUM)).compile()
    (result,) = kept(x, y)
    assert not np.shares_memory(result, x)
    assert not np.shares_memory(result, y)
    given = compiler.lower(ptir.parse(SUM), donate=[1]).compile()
    (result,) = given(x, y)
    assert np.shares_memory(result, y)
    assert not np.shares_memory(result, x)
    np.testing.assert_array_equal(result, wanted)
    with pytest.raises(ShapeError, match="no parameter 2 to donate"):
        compiler.lower(ptir.parse(SUM), donate=[2])


def test_a_donated_array_starts_a_loop_without_a_copy():
    text = """ptir 1
func @main(%x: tensor<f32, 4x3>, %n: tensor<i32>) -> tensor<f32, 4x3> {
  %one = constant 1 : tensor<i32>
  %zero = constant 0 : tensor<i32>
  %r0, %r1 = while %n, %x (%i: tensor<i32>, %p: tensor<f32, 4x3>) {
    %t = gt %i, %zero
    return %t
  } (%i: tensor<i32>, %p: tensor<f32, 4x3>) {
    %j = sub %i, %one
    %q = add %p, %p
    return %j, %q
  }
  return %r1
}"""
    program = ptir.parse(text)
    lowered = compiler.lower(program, donate=[0, 1])
    assert steps_in(compiler.lower(program), Copy) == steps_in(lowered, Copy) + 1
    for run in (lowered.compile(), lowered.interpreted()):
        for times in range(4):
            (found,) = run(np.ones((4, 3), np.float32), count(times))
            np.testing.assert_array_equal(found, np.full((4, 3), 2.0**times, np.float32))
