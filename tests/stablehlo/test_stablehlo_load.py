"""Loading modules: sources, names, errors, sizes, derivatives, checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import planish as pn
from planish import stablehlo
from planish.errors import DTypeError, ParseError, PlanishError, ShapeError
from planish.stablehlo.__main__ import main
from planish.stablehlo.parsing import parse
from planish.stablehlo.sources import deserialized
from planish.stablehlo.syntax import difference

TEXT = """
module @m {
  func.func public @main(%arg0: tensor<3xf32> loc("x"), %arg1: tensor<3xf32>) -> (tensor<3xf32> {jax.result_info = "y"}) {
    %0 = stablehlo.sine %arg0 : tensor<3xf32>
    %1 = stablehlo.multiply %0, %arg1 : tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""


def of(body: str, signature: str = "() -> tensor<2xf32>") -> str:
    return f"func.func @main{signature} {{\n{body}\n}}"


def test_text_path_and_names(tmp_path: Path) -> None:
    program = stablehlo.load(TEXT)
    assert (program.argument_names, program.result_names) == (("x", "arg1"), ("y",))
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    np.testing.assert_allclose(program(x, arg1=y), np.sin(x) * y, rtol=1e-6)
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    np.testing.assert_allclose(stablehlo.load(path)(x, y), np.sin(x) * y, rtol=1e-6)
    np.testing.assert_allclose(stablehlo.load(str(path))(x, y), np.sin(x) * y, rtol=1e-6)


def test_arguments_without_names_get_free_ones() -> None:
    body = "%1 = stablehlo.add %arg1, %0 : tensor<2xf32>\nreturn %1 : tensor<2xf32>"
    program = stablehlo.load(of(body, "(%arg1: tensor<2xf32>, %0: tensor<2xf32>) -> tensor<2xf32>"))
    assert program.argument_names == ("arg1", "arg1_")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(program(arg1=x, arg1_=2 * x), 3 * x)


def test_tensors_jit_and_derivatives() -> None:
    program = stablehlo.load(TEXT)
    x, y = pn.asarray(np.array([1, 2, 3], np.float32)), pn.asarray(np.array([4, 5, 6], np.float32))
    assert isinstance(program(x, y), pn.Tensor)
    gradient = pn.jit(pn.grad(lambda v: program(v, y).sum()))(x)
    np.testing.assert_allclose(gradient.numpy(), np.cos([1, 2, 3]) * [4, 5, 6], rtol=1e-5)
    mapped = pn.vmap(program)(pn.stack([x, y]), pn.stack([y, x]))
    np.testing.assert_allclose(mapped.numpy()[1], np.sin([4, 5, 6]) * [1, 2, 3], rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('%0 = "stablehlo.sinne"() : () -> tensor<2xf32>', "did you mean stablehlo.sine"),
        ("%0 = stablehlo.constant dense<1.0> : tensor<2xf32>\n%1 = stablehlo.sine %0 {fast = true} : tensor<2xf32>", "attribute fast"),
        ("%0 = stablehlo.custom_call @nobody() : () -> tensor<2xf32>", "'nobody'"),
        ("%0 = stablehlo.iota : tensor<2xf32>", "iota_dimension"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_named_with_its_line(body: str, says: str) -> None:
    text = of(body + "\nreturn %0 : tensor<2xf32>")
    with pytest.raises(PlanishError, match=says) as caught:
        stablehlo.load(text).interpret()
    assert caught.value.location is not None
    assert caught.value.location.line == 1 + body.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "module @m { func.func @main() { return",
        of("%0 = stablehlo.sine %nothing : tensor<2xf32>"),
        of("%0 = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<2xf32>"),
        of("%0 = stablehlo.constant dense<1.0> : tensor<2xf6E3M2FN>"),
        "func.func @main() {\n ~ }",
        "module @m { }",
    ],
)
def test_text_that_is_wrong(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_arguments_that_do_not_fit() -> None:
    program = stablehlo.load(TEXT)
    good = np.zeros(3, np.float32)
    with pytest.raises(PlanishError, match="2 are expected"):
        program(good)
    with pytest.raises(DTypeError, match="x is float64"):
        program(good.astype(np.float64), good)
    with pytest.raises(ShapeError, match=r"arg1 is float32\[4\]"):
        program(good, np.zeros(4, np.float32))
    with pytest.raises(PlanishError, match="no StableHLO module"):
        stablehlo.load(3)
    with pytest.raises(PlanishError, match="cannot be read"):
        stablehlo.load("nowhere.mlir")
    with pytest.raises(PlanishError, match="no function nobody"):
        stablehlo.load(TEXT, entry="nobody")


BOUNDED = """
func.func @main(%x: tensor<?x2xf32, #stablehlo.bounds<8, ?>>) -> tensor<?xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32, #stablehlo.bounds<8, ?>>) -> tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %m = stablehlo.multiply %n, %two : tensor<i32>
  %s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %r = stablehlo.dynamic_reshape %x, %s : (tensor<?x2xf32, #stablehlo.bounds<8, ?>>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}
"""


def test_sizes_with_bounds_are_compiled_once() -> None:
    program = stablehlo.load(BOUNDED)
    for size in (3, 5, 8):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        np.testing.assert_array_equal(program(x), x.ravel())
    assert len(program._compiled) == 1
    np.testing.assert_array_equal(program(np.zeros((9, 2), np.float32)), np.zeros(18))
    assert len(program._compiled) == 2, "beyond the bound there is a program for the size alone"


def test_open_sizes_are_compiled_as_they_are_met() -> None:
    text = BOUNDED.replace(", #stablehlo.bounds<8, ?>", "")
    program = stablehlo.load(text)
    for size in (3, 5):
        assert program(np.ones((size, 2), np.float32)).shape == (2 * size,)
    assert len(program._compiled) == 2
    with pytest.raises(ShapeError, match="gives no bounds"):
        program.function()
    assert stablehlo.load(text, dims={"x.0": (1, 8)}).function().param_types[0].dims[1] == 2


CHECKS = """
func.func @sum() {
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi4>
  %1 = stablehlo.add %0, %0 : tensor<3xi4>
  check.expect_eq_const %1, dense<[2, 4, 6]> : tensor<3xi4>
  func.return
}
// -----
func.func @quantised() {
  %x = stablehlo.constant dense<[4.0, 15.0]> : tensor<2xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 2.0:3>>
  %s = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32, 2.0:3>>
  %d = stablehlo.uniform_dequantize %s : (tensor<2x!quant.uniform<i8:f32, 2.0:3>>) -> tensor<2xf32>
  check.expect_almost_eq_const %d, dense<[8.0, 32.0]> : tensor<2xf32>
  func.return
}
func.func @called() {
  %x = stablehlo.constant dense<[4.0, 0x7FC00000]> : tensor<2xf32>
  stablehlo.custom_call @check.expect_eq(%x, %x) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  func.return
}
"""


def test_files_with_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.mlir", tmp_path / "bad.mlir"
    good.write_text(CHECKS)
    bad.write_text(CHECKS.replace("[2, 4, 6]", "[2, 4, 7]"))
    assert main(["--interpret", str(good)]) == 0
    assert main(["--interpret", str(bad), str(good)]) == 1
    out = capsys.readouterr().out
    assert "3 functions, 3 checks" in out
    assert "bad.mlir:5" in out
    with pytest.raises(stablehlo.CheckFailed):
        stablehlo.load(bad, entry="sum").interpret()


FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "ran"), [("interpreter", "8 functions, 22 checks"), ("dynamic", "4 functions, 19 checks")]
)
def test_operations_that_jax_does_not_write(name: str, ran: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--interpret", str(FILES / f"{name}.mlir")]) == 0, capsys.readouterr().out
    assert ran in capsys.readouterr().out


def test_every_form_is_read_as_the_generic_one() -> None:
    """MLIR's own printer, both ways."""
    pytest.importorskip("jaxlib")
    text = (FILES / "every_form.mlir").read_text()
    pretty = str(deserialized(text.encode()))
    assert "stablehlo.fft %arg6, type = FFT" in pretty
    assert difference(parse(text), parse(pretty)) is None


def test_bytes_of_constants() -> None:
    cases = {
        'dense<"0x0000803F0000004000004040"> : tensor<3xf32>': [1, 2, 3],
        'dense<"0x05"> : tensor<3xi1>': [True, False, True],
        'dense<"0xFF"> : tensor<3xi1>': [True, True, True],
        "dense<[(1.0,2.0), (3.0,-4.5)]> : tensor<2xcomplex<f32>>": [1 + 2j, 3 - 4.5j],
        "dense<(0.0,1.0)> : tensor<2xcomplex<f64>>": [1j, 1j],
        "dense<[1.0, 0xFF80]> : tensor<2xbf16>": [1.0, -np.inf],
        "dense<[1, -8]> : tensor<2xi4>": [1, -8],
        "dense<18446744073709551615> : tensor<1xui64>": [2**64 - 1],
        "dense<> : tensor<0xf32>": [],
    }
    for literal, wanted in cases.items():
        kind = literal.partition(" : ")[2]
        text = of(f"%0 = stablehlo.constant {literal}\nreturn %0 : {kind}", f"() -> {kind}")
        (found,) = stablehlo.load(text).interpret()
        assert found.tolist() == wanted, literal


def test_a_window_is_padded_with_its_start() -> None:
    body = """
      %x = stablehlo.constant dense<[6.0, 1.0]> : tensor<2xf32>
      %i = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = "stablehlo.reduce_window"(%x, %i) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {window_dimensions = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>} : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>"""
    (found,) = stablehlo.load(of(body)).interpret()
    assert found.tolist() == [2 + 2 + 6, 2 + 6 + 1]


@pytest.mark.parametrize("kind", ["f32", "i32", "i1"])
def test_a_scatter_writes_what_is_inside(kind: str) -> None:
    """Element by element, as the specification says: a window may stick out."""
    old, new = ("dense<false>", "dense<true>") if kind == "i1" else ("dense<0>", "dense<1>")
    if kind == "f32":
        old, new = "dense<0.0>", "dense<1.0>"
    body = f"""
      %x = stablehlo.constant {old} : tensor<4x{kind}>
      %i = stablehlo.constant dense<[[3], [-1]]> : tensor<2x1xi32>
      %u = stablehlo.constant {new} : tensor<2x2x{kind}>
      %0 = "stablehlo.scatter"(%x, %i, %u) ({{
        ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
          stablehlo.return %b : tensor<{kind}>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : (tensor<4x{kind}>, tensor<2x1xi32>, tensor<2x2x{kind}>) -> tensor<4x{kind}>
      return %0 : tensor<4x{kind}>"""
    (found,) = stablehlo.load(of(body, f"() -> tensor<4x{kind}>")).interpret()
    assert found.astype(int).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    "body",
    [
        """%x = stablehlo.constant dense<[(-1.0, 0.0), (0.0, 1.0)]> : tensor<2xcomplex<f64>>
  %y = stablehlo.convert %x : (tensor<2xcomplex<f64>>) -> tensor<2xi1>
  check.expect_eq_const %y, dense<[true, false]> : tensor<2xi1>""",
        """%x = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %y = stablehlo.reduce_precision %x, format = e5m0 : tensor<f32>
  check.expect_eq_const %y, dense<0x7F800000> : tensor<f32>""",
        """%a = stablehlo.constant dense<[[2.0, 0.0], [1.0, 4.0]]> : tensor<2x2xbf16>
  %b = stablehlo.constant dense<[[2.0], [9.0]]> : tensor<2x1xbf16>
  %y = "stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<2x2xbf16>, tensor<2x1xbf16>) -> tensor<2x1xbf16>
  check.expect_eq_const %y, dense<[[1.0], [2.0]]> : tensor<2x1xbf16>""",
    ],
    ids=["complex to bool", "no mantissa", "narrow solve"],
)
def test_corners_of_the_specification(body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "corner.mlir"
    file.write_text(f"func.func @main() {{\n  {body}\n  func.return\n}}\n")
    assert main([str(file), "--interpret"]) == 0, capsys.readouterr().out
